/** What one display of the widget knows and shows: plain data, replaced and never changed in place. */
import type { Pending } from "./client";
import type { Conflict, Explanation, Inspection, Latency, Parity, PartitionerRow, Statistics, StepError, WhatIf, WhyNot } from "./protocol";
import type { Scene } from "./scene";
import type { SearchHit } from "./search";

export type View = "before" | "after" | "diff" | "split";
/** By the widget's own width: wide >= 1200, medium 900-1199, narrow 600-899, small < 600 (CSS px). */
export type WidthClass = "wide" | "medium" | "narrow" | "small";
export type Tab = "graph" | "patterns" | "why" | "numbers";
/** Parts of the widget that show their own errors. */
export type Region = "graph" | "patterns" | "skips" | "inspector" | "why" | "steps" | "metrics" | "search" | "toolbar";

/** A measurement of one revision; stale once the recipe moved on. */
export interface Measured<T> {
  state: "none" | "measuring" | "fresh" | "failed" | "cancelled";
  revision: number;
  value: T | null;
  sentence: string;
}

export interface Progress {
  what: string;
  done: number;
  total: number;
  sentence: string;
}

/** What the pointer is on (or a panel's link is over): ids and names, so that it survives a new scene. */
export interface Hover {
  node: string | null;
  pattern: string | null;
  /** Row of `scene.matches`, -1 for none. */
  match: number;
  /** Row of `scene.modules`, -1 for none. */
  module: number;
  /** Rows of `scene.routes` that are cut to a stub here, which are drawn whole. */
  cut: readonly number[];
  /** Hovered by a panel rather than on the canvas: outlined, but no tip. */
  from: "canvas" | "panel";
}

export interface State {
  scene: Scene | null;
  /** Steps to compare with in Split and Diff: see `shownSteps`. */
  view: View;
  step: number;
  playing: boolean;
  /** Seconds a step stays on screen while playing are 1.6 / speed. */
  speed: number;
  teaching: boolean;

  hover: Hover;
  selected: readonly string[];
  /** Path of the module that the keyboard is on; a selected node takes precedence. */
  currentModule: string | null;
  canGoBack: boolean;
  canGoForward: boolean;
  focusedPattern: string | null;
  showConstants: boolean;
  /** Node ids reached by "trace inputs" or "trace outputs", null when nothing is traced. */
  traced: ReadonlySet<string> | null;

  query: string;
  results: readonly SearchHit[];
  resultIndex: number;

  inspection: Inspection | null;
  whyNot: WhyNot | null;
  /** Pattern whose ladder row is unfolded. */
  whyPattern: string | null;
  whatIf: Readonly<Record<string, WhatIf | "asking">>; // by `whatIfKey(pattern, node)`
  statistics: Readonly<Record<string, Statistics | "asking">>; // by node

  parity: Measured<Parity>;
  latency: Measured<Latency>;
  byStep: Measured<readonly StepError[]>;
  conflicts: Measured<readonly Conflict[]>;
  partitioner: Measured<readonly PartitionerRow[]>;
  progress: Readonly<Record<string, Progress>>; // by what

  pending: readonly Pending[];
  /** Nothing, or a request unanswered for 300 ms ("waiting") or 3 s ("busy": the kernel is busy with a cell). */
  kernel: "idle" | "waiting" | "busy" | "gone";
  live: boolean;
  errors: Readonly<Partial<Record<Region, string>>>;
  /** What else than opening it again can be done about the graph's error: a button's label. */
  otherwise: string | null;
  /** Made without a model: the files that are offered. Null: there was one. */
  samples: readonly { name: string; path: string }[] | null;
  /** Last thing said, for aria-live; aloud also as a toast (what shows elsewhere on screen anyway is not). */
  said: { text: string; serial: number; aloud: boolean };
  /** Text that could not be put on the clipboard, shown to be copied by hand. */
  copied: { text: string; format: string } | null;

  width: WidthClass;
  tab: Tab;
  whyFocus: boolean;
  metricsOpen: boolean;
  helpOpen: boolean;
  sheetOpen: boolean;
  /** Which regions the Python side asked for; the bare graph is ["graph"]. */
  panels: readonly string[];
}

export const nothingHovered: Hover = { node: null, pattern: null, match: -1, module: -1, cut: [], from: "canvas" };

const unmeasured = { state: "none", revision: -1, value: null, sentence: "" } as const;

export function initialState(live: boolean): State {
  return {
    scene: null,
    view: "before",
    step: 0,
    playing: false,
    speed: 1,
    teaching: false,
    hover: nothingHovered,
    selected: [],
    currentModule: null,
    canGoBack: false,
    canGoForward: false,
    focusedPattern: null,
    showConstants: false,
    traced: null,
    query: "",
    results: [],
    resultIndex: -1,
    inspection: null,
    whyNot: null,
    whyPattern: null,
    whatIf: {},
    statistics: {},
    parity: unmeasured,
    latency: unmeasured,
    byStep: unmeasured,
    conflicts: unmeasured,
    partitioner: unmeasured,
    progress: {},
    pending: [],
    kernel: "idle",
    live,
    errors: {},
    otherwise: null,
    samples: null,
    said: { text: "", serial: 0, aloud: false },
    copied: null,
    width: "medium",
    tab: "graph",
    whyFocus: false,
    metricsOpen: false,
    helpOpen: false,
    sheetOpen: false,
    panels: ["toolbar", "patterns", "graph", "inspector", "metrics"],
  };
}

export function whatIfKey(pattern: string, node: string): string {
  return `${pattern}\n${node}`;
}

/**
 * The steps that a view draws. One pane: [from, to] with from = to, or, in Diff, from < to for what is compared.
 * Split has two panes: the program and the end; at a step in between, or in teaching, the step before and the step.
 */
export function shownSteps(state: Pick<State, "view" | "step" | "scene" | "teaching">): { from: number; to: number }[] {
  const last = state.scene?.lastStep ?? 0;
  const step = Math.min(state.step, last);
  switch (state.view) {
    case "before":
      return [{ from: 0, to: 0 }];
    case "after":
      return [{ from: step, to: step }];
    case "diff":
      return [{ from: 0, to: step }];
    case "split": {
      const before = step === last && !state.teaching ? 0 : Math.max(0, step - 1);
      return [
        { from: before, to: before },
        { from: step, to: step },
      ];
    }
  }
}

export function widthClass(width: number): WidthClass {
  return width >= 1200 ? "wide" : width >= 900 ? "medium" : width >= 600 ? "narrow" : "small";
}

/** The explanation that a why-not opens with: a pattern asked for, else the focused one, else the nearest miss. */
export function leadingExplanation(whyNot: WhyNot, wanted: string | null): Explanation | null {
  const of = (name: string | null) => whyNot.explanations.find((one) => one.pattern === name);
  const rank = (one: Explanation) =>
    one.verdict === "near miss" || one.verdict === "declined"
      ? 1 + one.passed / Math.max(1, one.total)
      : one.verdict === "applied"
        ? 0.9
        : 0;
  const best = [...whyNot.explanations].sort((a, b) => rank(b) - rank(a))[0];
  return of(wanted) ?? best ?? null;
}
