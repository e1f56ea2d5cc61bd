/**
 * What the kernel and the browser say to each other.
 *
 * The kernel sends one `scene` (a JSON header and one buffer of columns, see `SceneHeader`), then a new one after every
 * change of the recipe or of what is expanded. Everything that is asked (`Request`) is answered by a `Reply` with the same
 * `id`. The front end decides nothing: every number and every sentence below comes from the engine.
 *
 * Steps: a lowering is steps 1..N. Every node and edge has a life [born, died): original ones are born at 0, what is
 * alive at the end has died = -1. The view of step s shows what has born <= s and (died = -1 or died > s);
 * Before is s = 0, After is s = N, Diff shows the union.
 */

// ---------------------------------------------------------------- scene
/** One column of a table: `length` elements of `type` at byte `offset` (a multiple of 8) of the scene's buffer. */
export interface Column {
  type: "u8" | "i32" | "f32";
  offset: number;
  length: number;
}

/**
 * Columns hold indices into `strings` where the comment says "string". All boxes and routes are in layout units
 * (CSS px at zoom 1); a node or module that is not visible (inside a closed module) has x = NaN.
 */
export interface SceneHeader {
  version: 1;
  strings: string[];
  tables: {
    /** A row per module path; row 0 is the root (path ""). parent: row or -1; open: 1 when expanded. ops: operators
     *  inside, alive before; ops_after: alive after; matched: applied matches inside; near: near misses inside. path and
     *  type: string. first/last module of a merged run of identical closed siblings: merged > 1 and label says "0–11". */
    modules: Table<"path" | "label" | "type" | "parent" | "open" | "x" | "y" | "w" | "h" | "ops" | "ops_after" | "matched" | "near" | "merged">;
    /** A row per node ever living. id, op (display name), label (short op name, "conv"), detail ("3×3, 64"), shape
     *  ("f32[1,64,8,8]"), source ("dsr.py:58"): string. category: index into `categories`. module: row of modules.
     *  leaf: string, the rest of its own module's path ("conv"), since a module of one operator has no row of its own.
     *  kind: 0 operator, 1 constant, 2 input, 3 output, 4 other (getitem, sym_size, get_attr). flags: 1 skipped,
     *  2 own op (fused), 4 delegated before, 8 delegated after. users: number of users. pattern: the row of the pattern
     *  whose rewrite made it, or -1. */
    nodes: Table<
      | "id" | "op" | "label" | "detail" | "shape" | "source" | "category" | "module" | "leaf" | "kind" | "flags"
      | "users" | "pattern" | "born" | "died" | "x" | "y" | "w" | "h"
    >;
    /** A row per edge ever living, between node rows. arg: string (the argument's name). */
    edges: Table<"src" | "dst" | "arg" | "born" | "died">;
    /** A row per drawn edge (edges into closed modules are lifted to their box and merged). src_module/dst_module: 1 when
     *  src/dst is a row of modules, else of nodes. point/points: first index (in points, not floats) and number of points
     *  of `points`. stub: 0 no, 1 cut to stubs (points are two short ends; label both with the far end's name).
     *  edge: one row of edges that it stands for. */
    routes: Table<"src" | "src_module" | "dst" | "dst_module" | "born" | "died" | "point" | "points" | "stub" | "edge">;
    points: Table<"x" | "y">;
    /** A row per verdict worth drawing. pattern: row of `patterns`; verdict: index into `verdicts`; anchor: node row;
     *  member/members: run in `members` (the nodes taken, as that pattern met them; of a near miss: those matched so far);
     *  origin/origins: run in `members` (the original nodes they come from); step: the step that applied it, or -1;
     *  fault: node row at fault, or -1; passed/total: k of n. reason: string. by: row of the pattern that shadows, or -1. */
    matches: Table<
      "pattern" | "verdict" | "anchor" | "member" | "members" | "origin" | "origins" | "step" | "fault" | "passed" | "total" | "reason" | "by"
    >;
    /** Flat list of node rows, cut into runs by `matches`, and by `steps` (taken and made). */
    members: Table<"node">;
    /** A row per step, step s is row s - 1. pattern: row of patterns; module: row of modules; sentence: string; delta:
     *  operators gained; taken/takens, made/mades: runs in `members`. */
    steps: Table<"pattern" | "module" | "sentence" | "delta" | "taken" | "takens" | "made" | "mades">;
    /** A row per change of a node's arguments that no edge tells: of a literal, or of the inputs' order. */
    changes: Table<"node" | "step">;
  };
  categories: string[]; // conv, matmul, arithmetic, activation, norm, shape, resample, quant, constant, other
  verdicts: Verdict[];
  patterns: PatternRow[]; // in pipeline order
  /** revision of the recipe that this scene shows: replies and measurements carry it, older ones are dropped. */
  revision: number;
  program: { name: string; target: string; targets: string[]; nodes: number; modules: number };
  recipe: object; // Recipe.to_json()
  skips: SkipChip[];
  can_undo: string | null; // what undo would take back, in words
  can_redo: string | null;
  profile: ProfileField[]; // the device profile of the target
  operators: CountRow[]; // last row is "total"
  partitions: { before: number; after: number; transposes_before: number; transposes_after: number } | null;
  reasons: ReasonGroup[]; // misses grouped by reason, largest first
  notice: string | null; // one sentence to show above the graph ("nothing matched ...")
}

export type Table<C extends string> = Record<C, Column>;
export type Verdict =
  | "applied" | "declined" | "skipped" | "disabled" | "shadowed" | "near miss" | "nothing to fuse" | "no anchor" | "error";

export interface PatternRow {
  name: string;
  number: number; // in pipeline order, from 1
  color: number; // 0..11, belongs to the pattern
  kind: "fold" | "fusion" | "decomposition" | "layout" | "lowering";
  enabled: boolean;
  locked: string | null; // why it cannot be switched on for this target, in words
  yours: boolean;
  mathematics: string; // one line
  source: string; // "pytorch/executorch#24823"
  applied: number;
  near: number;
  skipped: number;
  declined: number;
  shadowed: number;
  would: number; // disabled: how many it would take
  summary: string; // "83 matched · 3 near · 1 skipped", "no anchor in this model", "disabled · would match 4"
}
export interface SkipChip { kind: "pattern" | "match" | "node" | "module" | "op"; value: string; pattern: string | null; active: boolean; hint: string; key: string }
export interface ProfileField { name: string; value: string | number | boolean; kind: "int" | "float" | "str" | "bool" | "choice"; choices: string[]; help: string }
export interface CountRow { op: string; category: string; before: number; after: number; delta: number; change: string } // "−51%", "×123"
export interface ReasonGroup { pattern: string; condition: string; sentence: string; count: number; anchors: string[] }

// ---------------------------------------------------------------- requests (browser -> kernel) and replies
export type Request = { id: number } & (
  | { type: "ready" } // asks for the scene; answered by `scene`
  // open again what could not be opened, or `path`; without: the operators that are not registered
  | { type: "load"; without: boolean; path?: string }
  | { type: "toggle"; pattern: string; enabled: boolean }
  | { type: "only"; pattern: string } // every other pattern off
  | { type: "all"; enabled: boolean }
  | { type: "move"; pattern: string; before: string | null } // reorder, null = last; refused with a reason
  | { type: "flip"; pattern: string } // let a match of it win its nodes; refused with a reason
  | { type: "skip"; pattern?: string; node?: string; module?: string; op?: string; match?: { pattern: string; anchor: string } }
  | { type: "skip_text"; text: string } // what was typed into the skip list: node, pattern, op or module glob
  | { type: "unskip"; key: string }
  | { type: "apply"; recipe: object } // of a Suggestion: becomes the recipe, undo takes it back
  | { type: "undo" } | { type: "redo" }
  | { type: "target"; target: string }
  | { type: "profile"; name: string; value: string | number | boolean }
  | { type: "open"; modules: number[]; open: boolean } // expand or collapse these module rows (paths are stable)
  | { type: "open_depth"; depth: number }
  | { type: "reveal"; node: string } // open what hides it
  | { type: "merge"; module: number; merged: boolean } // open or close a merged run of siblings
  | { type: "inspect"; node: string }
  | { type: "why_not"; node: string; pattern?: string }
  | { type: "what_if"; node: string; pattern: string }
  | { type: "statistics"; node: string } // of a constant
  | { type: "measure"; what: Measurable }
  | { type: "cancel"; what: Measurable | "load" | "layout" | "what_if" } // a what_if that is stopped is answered with null; load: layout, too
  | { type: "selected"; nodes: string[] } // told, not asked: no reply
  | { type: "copy"; what: "python" | "json" | "compile_options" }
  | { type: "export"; what: "svg" | "html" | "pt2"; step?: number } // step: of the picture
);

export type Reply =
  | { id: number; ok: true; data: unknown } // Inspection, WhyNot, WhatIf, Statistics, Copied, Exported or null, by request
  | { id: number; ok: false; error: string }; // one sentence, with the way out

/**
 * Said by the kernel unasked. A `scene` carries its columns as the message's one buffer; where they are too large for a message
 * of Jupyter's, `part` messages carry the beginning, and the scene, which follows them, says how many they were.
 */
export type Event =
  | { type: "part"; part: number } // counted from 0, with a buffer
  | { type: "scene"; header: SceneHeader; reason: string; parts?: number } // reason: what changed, one sentence for aria-live
  | { type: "progress"; what: string; done: number; total: number; sentence: string }
  | { type: "parity"; revision: number; state: "measuring" | "fresh" | "failed" | "cancelled"; parity: Parity | null; sentence: string }
  | { type: "latency"; revision: number; state: "measuring" | "fresh" | "failed" | "cancelled"; latency: Latency | null; sentence: string }
  | { type: "by_step"; revision: number; state: "measuring" | "fresh" | "failed" | "cancelled"; rows: StepError[]; sentence: string }
  | { type: "conflicts"; revision: number; state: "measuring" | "fresh" | "failed" | "cancelled"; rows: Conflict[]; sentence: string }
  | { type: "partitioner"; revision: number; state: "measuring" | "fresh" | "failed" | "cancelled"; rows: PartitionerRow[]; sentence: string }
  | { type: "focus"; node: string }
  | { type: "select"; nodes: string[] }
  | { type: "empty"; samples: { name: string; path: string }[] } // made without a model: files that may be opened
  | { type: "error"; where: string; sentence: string; otherwise?: string | null }; // otherwise: label of `load` without

interface Argument { name: string; text: string; nodes: string[] } // nodes: ids that the text mentions
export interface Inspection {
  node: string;
  op: string;
  target: string;
  kind: string;
  module: { path: string; type: string }[]; // root first
  source: { file: string; line: number; text: string } | null;
  output: string; // "f32[1,64,128,128]", a tuple of them, "SymInt s0 (2..64)"
  strides: string;
  arguments: Argument[];
  users: string[];
  constants: { node: string; name: string; shape: string; kind: string }[];
  origin: string[]; // original nodes
  became: string[]; // final nodes
  born: { step: number; pattern: string } | null;
  died: { step: number; pattern: string } | null;
  delegated: { before: string; after: string } | null; // "yes", or the reason why not
  skipped: string | null;
}

export type Status = "passed" | "failed" | "follows" | "not reached";
export interface ConditionRow {
  name: string; // stable
  says: string; // "batch size is 1"
  part: string | null; // the optional part it belongs to
  status: Status;
  expected: string;
  actual: string;
  node: string | null; // at fault
  sentence: string; // of a failure: what is, why; of `follows`: "Follows from add.alpha above."
  code_map?: CodeMap | null; // of a failure that is one of a map of the 256 int8 codes
}
/** y for each code -128..127, of a channel's map and of the one that is asked for, which may leave int8. */
export interface CodeMap {
  channel: number;
  code: number; // the first at which the two part
  values: number[];
  nearest: number[];
  says: string; // all of it in words
  caption: string; // what is drawn how
}
export interface Explanation {
  pattern: string;
  node: string;
  anchor: string | null;
  verdict: Verdict;
  reason: string; // one sentence
  passed: number;
  total: number;
  conditions: ConditionRow[];
  nodes: string[]; // matched so far
  by: { pattern: string; anchor: string } | null; // who shadows
  suggestions_possible: boolean;
}
/** Why not, for every pattern of the target, in pipeline order. */
export interface WhyNot { node: string; delegated: string | null; explanations: Explanation[] }
export interface Suggestion {
  says: string; // "alpha is 1"
  matches: boolean; // measured on a copy
  same: boolean | null; // numbers; null: not measured
  parity: string; // "same, 131 dB", "differs, max 3.1"
  apply: object | null; // a recipe (JSON) when it is a change of the recipe: may be applied
}
export interface WhatIf { pattern: string; node: string; suggestions: Suggestion[] }
export interface Statistics { node: string; shape: string; dtype: string; min: number | null; max: number | null; mean: number | null; std: number | null; zeros: number; nan: number; histogram: number[]; edges: number[] }
export interface Copied { text: string; format: string }
export interface Exported { text: string; filename: string; note: string } // pt2: text is empty, it was saved beside the notebook

export interface Parity {
  verdict: "equal" | "close" | "different" | "incomparable" | "nondeterministic";
  sentence: string; // "Same numbers", "Broken: NaN places differ in output 0"
  detail: string; // "SQNR 138 dB · max abs 2.4e−7 · fp64 1.02×"
  outputs: { name: string; verdict: string; max_abs: string; where: string; sqnr_db: string; norm_l2: string; p99_abs: string; oracle_ratio: string }[];
  notes: string[];
}
export interface Latency { runtime: string; before_ms: number; after_ms: number; ratio: string; sentence: string; profile: { op: string; before_ms: number; after_ms: number }[] }
export interface StepError { step: number; pattern: string; node: string; isolated: string; propagated: string; guilt: number }
export type Measurable = "parity" | "latency" | "by_step" | "conflicts" | "partitioner";
/** A match that lost its nodes to another one; flipped, parity, flip, apply: of letting it win, tried on a copy. */
export interface Conflict { loser: string; loser_at: string; winner: string; at: string; why: string; operators: number; flipped: number | null; parity: string; flip: string; apply: object | null }
/** An operator before or after: the region of ours and of ExecuTorch's own partitioner that takes it, or the reason why not. */
export interface PartitionerRow { when: "before" | "after"; node: string; op: string; ours: string; executorch: string; agree: boolean }
