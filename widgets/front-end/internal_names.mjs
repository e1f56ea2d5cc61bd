/**
 * Names of methods and fields that only the front end's own sources use, which the bundler may shorten. A name belongs here if it is
 * long and frequent, and no page, kernel, recording or test outside the sources ever speaks it; tests/internal_names.test.ts
 * holds the list to that.
 */
export const internalNames = `
  aloud ancestors arriving attend beginOverlay byAnchor byNode byStep childrenOf closeCopied closeMenu comparing
  copyFrom copyText currentModule dismissError doubleClick drawBase drawer edgeAlive edgesFrom edgesInto exportAs
  fitSelection fittingWidth focusPattern forgetTexts glideTo goToResult groupBorder helpOpen hovered hullRows hulls
  inspection isHullLit isHullShown isLit keepsExtent lastStep matchMembers matchOrigins metricsOpen minimap
  moduleRow moduleRows moduleVisible nextChange nextMatch nextNearMiss nextResult nodeAlive nodeRow nodeRows
  nodeVisible onDrawn onMoved onPattern onSized openDepth openModules panes patternRow requestStatistics
  requestWhatIf requestWhyNot routeRows sceneArrived schedule selectModule setDrawer setHelpOpen setMetricsOpen
  setMoving setProfile setSheetOpen setShowConstants setSpeed setStep setTarget setTeaching setView setWhyFocus
  setWhyPattern setWidth sheetOpen showConstants skipText startMorph stateOf stepMade stepTaken stopGliding
  takesWheel toLayoutX toLayoutY toScreenX toScreenY toggleMenu whatIf whyFocus whyNot zoomAt zoomBy zoomTo
`.trim().split(/\s+/);
