/**
 * Names of methods and fields that only the canvas and the panels use, which the bundler may shorten. A name belongs here if it is
 * long and frequent, and nobody else speaks it: no page, kernel or recording, nor who looks at the store, its state and its scene
 * from outside, as browser tests do; nor a member of an enum, which is written as its number. tests/internal_names.test.ts holds the list to that.
 */
export const internalNames = `
  arriving attend attention beginOverlay byAnchor byNode closeMenu colour comparing copyFrom doubleClick drawBase
  drawer fitting fittingWidth forgetTexts glideTo groupBorder hollow hovered hullRows hulls isHullLit isHullShown
  isLit keepsExtent keyOf minimap moduleRows nodeRows onDrawn onMoved onPattern onRemove onSized onStop routeRows
  rowClass schedule setChanging setDrawer setMoving spine startMorph stateOf stopGliding takesWheel toLayoutX
  toLayoutY toScreenX toScreenY toggleMenu zoomAt
`.trim().split(/\s+/);
