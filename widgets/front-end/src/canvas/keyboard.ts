/**
 * The widget's keys. They work only while focus is inside, and only keys that are used are kept from the notebook.
 *
 * Jupyter's own shortcuts listen on the document before the widget hears a key ("D D" would delete the cell). A listener
 * on the window comes first and marks the key's target, for this one key, with the attribute that tells Lumino to keep out.
 */
import { claim } from "../claim";
import type { View } from "../state";
import type { Store } from "../store";
import { neighbour } from "../walk";

const SUPPRESS = "data-lm-suppress-shortcuts";
const VIEWS: Record<string, View> = { b: "before", a: "after", d: "diff", s: "split" };
const ARROWS = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" } as const;
const REGIONS = [
  ".ls-toolbar",
  "[data-ls=patterns], [data-ls=rail]",
  "[data-ls=skips]",
  ".ls-graph",
  ".ls-right",
  ".ls-metrics",
];
const FOCUSABLE = 'button:not(:disabled):not([tabindex="-1"]), input, select, textarea, a[href], [tabindex="0"]';

export function addKeyboard(root: HTMLElement, store: Store): () => void {
  const abort = new AbortController();
  const { signal } = abort;
  window.addEventListener(
    "keydown",
    (event) => {
      const { target } = event;
      if (!(target instanceof Element) || !root.contains(target)) return;
      // On the target itself: Lumino matches its selectors (":focus") there before it looks at what is around.
      target.toggleAttribute(
        SUPPRESS,
        isTyping(target)
          ? !event.ctrlKey && !event.metaKey
          : isOfControl(event.key, target) || action(event, root, store) !== null,
      );
    },
    { capture: true, signal },
  );
  root.addEventListener(
    "keydown",
    (event) => {
      if (event.target instanceof Element) event.target.removeAttribute(SUPPRESS);
      // A panel that used the key has prevented its default; what is typed into a field is the field's. F6 leads out of it.
      if (event.defaultPrevented) return;
      if (isTyping(event.target) && event.key !== "F6") {
        if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
        return;
      }
      const act = action(event, root, store);
      if (act === null) return;
      claim(event);
      act();
    },
    { signal },
  );
  return () => abort.abort();
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement)
    return true;
  return (
    target instanceof HTMLInputElement && !["button", "checkbox", "radio", "range", "submit"].includes(target.type)
  );
}

/** Keys that buttons, lists, sliders, menus and tabs use themselves: the notebook must not move its cells by them. */
const CONTROL_KEYS = new Set([
  "Enter",
  " ",
  "ArrowUp",
  "ArrowDown",
  "ArrowLeft",
  "ArrowRight",
  "Home",
  "End",
  "PageUp",
  "PageDown",
]);

function isOfControl(key: string, target: Element): boolean {
  return (
    CONTROL_KEYS.has(key) &&
    target.closest(
      "button, a, input, summary, [role=slider], [role=listbox], [role=option], [role=menu], [role=tablist]",
    ) !== null
  );
}

/** What a key does here and now, null when it is not ours. */
function action(event: KeyboardEvent, root: HTMLElement, store: Store): (() => void) | null {
  const { key } = event;
  const target = event.target instanceof Element ? event.target : root;
  if (event.ctrlKey || event.metaKey) {
    if (key.toLowerCase() === "z" && !event.altKey) return event.shiftKey ? () => store.redo() : () => store.undo();
    return null;
  }
  if (event.altKey) {
    if (key === "ArrowLeft") return () => store.back();
    if (key === "ArrowRight") return () => store.forward();
    return null;
  }
  if (key === "F6") return () => cycleRegions(root, event.shiftKey ? -1 : 1);
  if (key === "Escape") return escape(root, store);
  // Buttons, lists, sliders and menus have keys of their own.
  const control = target.closest(
    "button, a, input, [role=slider], [role=listbox], [role=option], [role=radiogroup], [role=menu], [role=tablist], summary",
  );
  const onGraph = control === null && (target === root || target.closest(".ls-graph, .ls-mirror") !== null);
  if (key in ARROWS) return onGraph ? () => walkTo(store, ARROWS[key as keyof typeof ARROWS]) : null;
  if (key === "Enter") return onGraph ? () => enter(store) : null;
  if (key === "Backspace") return onGraph ? () => closeModule(store) : null;
  if (key === " ") {
    const focused = store.state.focusedPattern;
    return control === null && focused !== null ? () => store.toggle(focused) : null;
  }
  return letters(key, root, store);
}

function letters(key: string, root: HTMLElement, store: Store): (() => void) | null {
  const { state } = store;
  const lower = key.toLowerCase();
  const view = VIEWS[lower];
  if (view !== undefined) return () => store.setView(view);
  if (/^[1-9]$/.test(key)) {
    const pattern = state.scene?.patterns[Number(key) - 1]?.name;
    return pattern === undefined ? null : () => store.focusPattern(state.focusedPattern === pattern ? null : pattern);
  }
  const selected = state.selected[0];
  const last = state.scene?.lastStep ?? 0;
  const keys: Record<string, () => void> = {
    "/": () => root.querySelector<HTMLInputElement>('.ls-toolbar input[type="search"], .ls-toolbar input')?.focus(),
    "[": () => store.setStep(state.step - 1),
    "]": () => store.setStep(state.step + 1),
    "{": () => store.setStep(0),
    "}": () => store.setStep(last),
    p: () => (state.playing ? store.pause() : store.play()),
    w: () => store.setWhyFocus(!state.whyFocus),
    j: () => store.nextNearMiss(1),
    k: () => store.nextNearMiss(-1),
    n: () => store.nextChange(1),
    x: () => (selected === undefined ? store.say("Select what to skip first.") : store.skip({ node: selected })),
    "+": () => store.camera?.zoomBy(1.25),
    "=": () => store.camera?.zoomBy(1.25),
    "-": () => store.camera?.zoomBy(0.8),
    "0": () => store.camera?.zoomTo(1),
    f: () => store.camera?.fit(),
    m: () => store.setMetricsOpen(!state.metricsOpen),
    c: () => void store.copy("python"),
    "?": () => store.setHelpOpen(!state.helpOpen),
  };
  return keys[lower] ?? null;
}

function walkTo(store: Store, direction: "up" | "down" | "left" | "right"): void {
  const next = neighbour(store.state, direction);
  if (next === null) return;
  if ("module" in next) {
    store.selectModule(next.module);
    return;
  }
  store.select([next.node]);
  const row = store.state.scene?.nodeRow(next.node) ?? -1;
  if (store.state.scene?.nodeVisible(row) === false) void store.travel(next.node);
  else store.camera?.centre(next.node);
}

function enter(store: Store): void {
  const { scene, currentModule, selected } = store.state;
  const row = scene?.moduleRow(currentModule ?? "") ?? -1;
  if (scene !== null && selected.length === 0 && row > 0) {
    if (scene.modules.merged[row] > 1 && !scene.modules.open[row]) store.merge(row, false);
    else store.openModules([row], true);
  } else if (selected[0] !== undefined) store.camera?.fitSelection();
}

function closeModule(store: Store): void {
  const { scene, currentModule, selected } = store.state;
  if (scene === null) return;
  const node = scene.nodeRow(selected[0] ?? "");
  const here = node >= 0 ? scene.nodes.module[node] : scene.moduleRow(currentModule ?? "");
  const row = scene
    .ancestors(here)
    .findLast((module) => scene.modules.open[module] !== 0 && scene.modules.path(module) !== "");
  if (row === undefined) return;
  store.selectModule(scene.modules.path(row));
  store.openModules([row], false);
}

/** The first Esc clears what is on, the next one leaves to the notebook. */
function escape(root: HTMLElement, store: Store): () => void {
  const { state } = store;
  if (state.helpOpen) return () => store.setHelpOpen(false);
  if (state.copied !== null) return () => store.closeCopied();
  if (state.whyFocus) return () => store.setWhyFocus(false);
  if (state.metricsOpen) return () => store.setMetricsOpen(false);
  if (state.playing) return () => store.pause();
  if (state.traced !== null) return () => store.update({ traced: null });
  if (state.selected.length > 0 || state.currentModule !== null) return () => store.select([]);
  if (state.focusedPattern !== null) return () => store.focusPattern(null);
  return () => {
    const notebook = root.closest<HTMLElement>(".jp-Notebook, .jp-Cell");
    if (notebook !== null && notebook.tabIndex >= -1) notebook.focus();
    if (root.contains(document.activeElement) && document.activeElement instanceof HTMLElement)
      document.activeElement.blur();
  };
}

function cycleRegions(root: HTMLElement, direction: 1 | -1): void {
  const regions = REGIONS.map((selector) => root.querySelector<HTMLElement>(selector)).filter(
    (one) => one !== null && one.offsetParent !== null && one.querySelector(FOCUSABLE) !== null,
  );
  const at = regions.findIndex((region) => region?.contains(document.activeElement));
  const next = regions[(at + direction + regions.length) % regions.length];
  next?.querySelector<HTMLElement>(FOCUSABLE)?.focus();
}
