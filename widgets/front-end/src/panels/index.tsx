/**
 * The panels around the graph. `mountPanels` draws each into its own element, so that a bug in one leaves the others
 * working; they share the store, and `Side` for what only they share.
 *
 * Controls and readouts carry stable attributes for tests:
 *
 * - toolbar: toolbar, target, device, device-field[data-field], device-close, views, view[data-view], search,
 *   search-results[data-count], search-hit[data-node], undo, redo, step-back, scrubber, step-on, step[data-step,data-steps],
 *   copy-python, export, help; menus: menu, menu-item[data-item]
 * - patterns: patterns, patterns-on, pattern-row[data-pattern,data-number,data-enabled,data-applied,data-near],
 *   pattern-toggle, pattern-counts, pattern-menu, patterns-all, patterns-none, patterns-solo, patterns-filter, walk,
 *   walk-match, match-back, match-on, walk-near, near-back, near-on, unfocus-pattern; rail, rail-pattern[data-pattern],
 *   drawer-open, drawer-close
 * - skips: skips, skip-chip[data-kind,data-value,data-active], skip-remove, skip-input, skip-completion[data-value], skip-error
 * - legend
 * - right column: sheet[data-sheet], sheet-close; inspector[data-node], nothing-selected, node-name, node-target, node-menu,
 *   back, forward, fact[data-fact], node-module[data-path], node-source, node-output, argument[data-argument],
 *   constant[data-node], constant-open, statistics, histogram, provenance[data-step], node-skipped, node-link[data-node]
 * - why not: why-not[data-node,data-ready], ladder-row[data-pattern,data-verdict,data-passed,data-total], no-anchor,
 *   unfolded[data-pattern], reason, part[data-part], condition[data-condition,data-status], condition-says,
 *   condition-values, condition-sentence, not-reached[data-count], why-action[data-action], suggestions, what-if,
 *   suggestion[data-matches,data-same], suggestion-apply, suggestion-try, why-focus-open, why-focus, why-focus-close,
 *   why-choice[data-pattern], why-verdict[data-verdict], near-walk; reasons, reason-group[data-pattern,data-condition,data-count]
 * - numbers: metrics, operators-before, operators-after, operators-change, partitions and transposes[data-before,data-after],
 *   parity, parity-pill[data-state,data-verdict], parity-detail, measure-parity, stop-parity, latency[data-state],
 *   latency-before, latency-after, measure-latency, metrics-open, metrics-tables, metrics-tab[data-sheet], metrics-close,
 *   table[data-table], table-row[data-key], sort[data-column], measure-by_step, stale, not-measured
 * - steps: steps, step-row[data-step,data-pattern], step-sentence, operators-so-far, step-first, step-previous,
 *   play[data-playing], step-next, speed, teach, sentence[data-step], mathematics
 * - changes: changes, changes-total[data-removed,data-added], change[data-op,data-delta],
 *   change-module[data-module,data-removed,data-added], change-on, changes-provenance
 * - states: cover, state-empty, state-loading, state-error, stage[data-stage,data-running], stop-loading, load-again, notice,
 *   kernel-gone, kernel-busy, region-error[data-region], dismiss-error, panel-error[data-panel], panel-retry, progress,
 *   progress-stop, toast, help-sheet, help-close, copy-by-hand, tab[data-tab]
 */

import { type ComponentChildren, render } from "preact";

import type { Slots } from "../mount";
import type { Store } from "../store";
import { Boundary } from "./bits";
import { LeftColumn, NarrowTabs, RightColumn } from "./columns";
import { Help } from "./help";
import { Mathematics, Sentence } from "./lesson";
import { MenuLayer } from "./menu";
import { Side, SideContext } from "./side";
import { Cover, Notices } from "./states";
import { Strip } from "./strip";
import { Tables } from "./tables";
import { CopyByHand, Toasts } from "./toasts";
import { Toolbar } from "./toolbar";
import { StoreContext, usePick } from "./use";

/** Draws the panels into their elements; what comes back takes them away again. */
export function mountPanels(slots: Slots, store: Store): () => void {
  const side = new Side(store);
  const into = (element: HTMLElement, panel: string, content: ComponentChildren) =>
    render(
      <StoreContext.Provider value={store}>
        <SideContext.Provider value={side}>
          <Boundary panel={panel}>{content}</Boundary>
        </SideContext.Provider>
      </StoreContext.Provider>,
      element,
    );
  const asked = new Set(store.state.panels);
  if (asked.has("toolbar")) into(slots.toolbar, "toolbar", <Toolbar />);
  if (asked.has("patterns")) into(slots.left, "patterns", <LeftColumn />);
  if (asked.has("inspector")) into(slots.right, "inspector", <RightColumn />);
  if (asked.has("metrics")) into(slots.metrics, "metrics", <Strip />);
  if (asked.size > 1) into(slots.tabs, "tabs", <NarrowTabs />);
  into(
    slots.above,
    "notices",
    <>
      <Notices />
      <Sentence />
      <Boundary panel="numbers">
        <OpenTables />
      </Boundary>
    </>,
  );
  into(slots.below, "mathematics", <Mathematics />);
  into(
    slots.overlay,
    "overlay",
    <>
      <Cover />
      <Help />
      <CopyByHand />
      <Toasts />
      <MenuLayer />
    </>,
  );

  const follow = store.subscribe((state, before) => {
    if (state.view === "diff" && before.view !== "diff") side.show("changes");
    // Leaving Diff, or picking a node from elsewhere, brings its reasons back: they are what one selects a node for.
    if (state.view !== "diff" && before.view === "diff" && side.state.sheet === "changes") side.show("node");
    if (state.selected !== before.selected && state.selected.length > 0 && side.state.sheet === "misses")
      side.show("node");
    if (state.playing && !before.playing) side.show("steps");
    // What was refused was refused of another recipe.
    if (state.scene?.revision !== before.scene?.revision) {
      for (const region of ["patterns", "skips"] as const)
        if (state.errors[region] !== undefined) store.dismissError(region);
    }
    if (state.width !== before.width || state.whyFocus !== before.whyFocus) side.setDrawer(false);
  });
  const showDrawer = side.subscribe(() => slots.root.classList.toggle("ls-drawer-open", side.state.drawer));
  return () => {
    follow();
    showDrawer();
    const { root: _, ...elements } = slots;
    for (const element of Object.values(elements)) render(null, element);
  };
}

function OpenTables() {
  return usePick((state) => state.metricsOpen) ? <Tables /> : null;
}
