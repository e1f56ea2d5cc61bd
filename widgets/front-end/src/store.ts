/**
 * One display's state and everything that can be done to it.
 *
 * `store.state` is replaced at every change; `store.subscribe` calls back once per change, after it. Actions that change
 * the recipe only ask: the scene that comes back is the answer. Nodes are named by id and patterns by name here, so that
 * what is selected or focused survives a new scene.
 */
import type { Ask, Client } from "./client";
import { EventReader } from "./events";
import { Visited } from "./history";
import { offer, offerBlob, putOnClipboard } from "./outputs";
import type { Copied, Exported, Inspection, Statistics, WhatIf, WhyNot } from "./protocol";
import { search } from "./search";
import { type Hover, initialState, leadingExplanation, nothingHovered, type Region, type State, type Tab, type View, whatIfKey, type WidthClass } from "./state";
import * as walk from "./walk";

/** What the canvas does for the store and the panels. The store has none until the canvas is there. */
export interface CameraPort {
  fit(): void;
  fitSelection(): void;
  zoomBy(factor: number): void;
  zoomTo(zoom: number): void;
  /** Pan so that the node is in view; when `always`, centre it even where it already is in view. */
  centre(node: string, always?: boolean): void;
  picture(format: "png"): Promise<Blob>;
}

export interface SkipTarget {
  pattern?: string;
  node?: string;
  module?: string;
  op?: string;
  match?: { pattern: string; anchor: string };
}

const WAITING_MS = 300;
const BUSY_MS = 3000;
const STEP_SECONDS = 1.6;
/** Keys held down walk through many nodes: only where one rests is the kernel asked. */
const REST_MS = 70;

export class Store {
  state: State;
  camera: CameraPort | null = null;
  readonly #listeners = new Set<(state: State, before: State) => void>();
  readonly #visited = new Visited();
  readonly #timers = { play: 0, kernel: 0, rest: 0 };
  #closed = false;

  constructor(readonly client: Client) {
    this.state = initialState(client.live);
    const reader = new EventReader(this);
    client.onEvent = (event, buffer) => reader.read(event, buffer);
    client.onPending = () => this.#watchKernel();
    client.onGone = () => this.update({ kernel: "gone", playing: false });
    this.#ask({ type: "ready" }, "graph");
  }

  subscribe(listener: (state: State, before: State) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Change the state; a listener that throws must not keep the others from hearing of it. */
  update(change: Partial<State>): void {
    if (this.#closed) return;
    const before = this.state;
    this.state = { ...before, ...change };
    for (const listener of [...this.#listeners]) {
      try {
        listener(this.state, before);
      } catch (error) {
        reportError(error);
      }
    }
  }

  close(): void {
    this.#closed = true;
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    this.client.close();
    this.#listeners.clear();
    this.camera = null;
  }

  /** Ask for the scene again, after an error. */
  reload(): void {
    this.dismissError("graph");
    this.#ask({ type: "ready" }, "graph");
  }

  say(text: string, aloud = true): void {
    this.update({ said: { text, serial: this.state.said.serial + 1, aloud } });
  }

  fail(region: Region, sentence: string): void {
    this.update({ errors: { ...this.state.errors, [region]: sentence } });
  }

  dismissError(region: Region): void {
    const { [region]: _, ...errors } = this.state.errors;
    this.update({ errors });
  }

  // ---------------------------------------------------------------- the recipe
  toggle(pattern: string, enabled?: boolean): void {
    const row = this.state.scene?.patterns.find((one) => one.name === pattern);
    if (row === undefined) return;
    if (row.locked !== null && enabled !== false && !row.enabled) {
      this.say(row.locked);
      return;
    }
    this.#ask({ type: "toggle", pattern, enabled: enabled ?? !row.enabled }, "patterns");
  }

  only(pattern: string): void {
    this.#ask({ type: "only", pattern }, "patterns");
  }

  all(enabled: boolean): void {
    this.#ask({ type: "all", enabled }, "patterns");
  }

  move(pattern: string, before: string | null): void {
    this.#ask({ type: "move", pattern, before }, "patterns");
  }

  skip(target: SkipTarget): void {
    this.#ask({ type: "skip", ...target }, "skips");
  }

  skipText(text: string): void {
    if (text.trim() !== "") this.#ask({ type: "skip_text", text: text.trim() }, "skips");
  }

  unskip(key: string): void {
    this.#ask({ type: "unskip", key }, "skips");
  }

  /** Take over the recipe of a suggestion (`Suggestion.apply`). */
  apply(recipe: object): void {
    this.#ask({ type: "apply", recipe }, "why");
  }

  undo(): void {
    if (this.state.scene?.header.can_undo != null) this.#ask({ type: "undo" }, "toolbar");
  }

  redo(): void {
    if (this.state.scene?.header.can_redo != null) this.#ask({ type: "redo" }, "toolbar");
  }

  setTarget(target: string): void {
    this.#ask({ type: "target", target }, "toolbar");
  }

  setProfile(name: string, value: string | number | boolean): void {
    this.#ask({ type: "profile", name, value }, "toolbar");
  }

  // ---------------------------------------------------------------- modules
  openModules(modules: readonly number[], open: boolean): void {
    if (modules.length > 0) this.#ask({ type: "open", modules: [...modules], open }, "graph");
  }

  openDepth(depth: number): void {
    this.#ask({ type: "open_depth", depth }, "graph");
  }

  merge(module: number, merged: boolean): void {
    this.#ask({ type: "merge", module, merged }, "graph");
  }

  /** Open what hides a node. Resolves when the scene that shows it is here. */
  async reveal(node: string): Promise<void> {
    await this.#ask({ type: "reveal", node }, "graph");
  }

  // ---------------------------------------------------------------- looking
  /** Select nodes; the first is inspected and asked why not. `quiet` leaves history and Python alone. */
  select(ids: readonly string[], options: { quiet?: boolean } = {}): void {
    if (this.state.currentModule !== null) this.update({ currentModule: null });
    const same = ids.length === this.state.selected.length && ids.every((id, i) => id === this.state.selected[i]);
    if (same) return;
    if (options.quiet !== true) {
      this.#visited.visit(ids);
      this.client.tell({ type: "selected", nodes: [...ids] });
    }
    this.update({ selected: [...ids], ...this.#visited.ends(), traced: null, sheetOpen: ids.length > 0 });
    this.#inspectSoon();
  }

  /** Put the keyboard on a module's box; nodes are deselected. */
  selectModule(path: string | null): void {
    if (this.state.selected.length > 0) this.select([]);
    this.update({ currentModule: path });
  }

  back(): void {
    this.#revisit(this.#visited.back());
  }

  forward(): void {
    this.#revisit(this.#visited.forward());
  }

  /** Select a node and bring it into view, opening the modules that hide it. */
  async travel(node: string): Promise<void> {
    const scene = this.state.scene;
    const row = scene?.nodeRow(node) ?? -1;
    if (scene === null || row < 0) {
      this.say(`${node} is not in this graph any more.`);
      return;
    }
    const [shown] = walk.stepsWhereAlive(scene, row, this.state);
    if (shown !== undefined) this.setStep(shown);
    this.select([node]);
    if (!scene.nodeVisible(row)) {
      await this.reveal(node);
      await this.#visible(node);
    }
    this.camera?.centre(node, true);
  }

  hover(hover: Partial<Hover>): void {
    const next = { ...nothingHovered, ...hover };
    const now = this.state.hover;
    if (next.node !== now.node || next.pattern !== now.pattern || next.match !== now.match || next.module !== now.module || next.from !== now.from) {
      this.update({ hover: next });
    }
  }

  focusPattern(pattern: string | null): void {
    this.update({ focusedPattern: pattern, whyPattern: pattern ?? this.state.whyPattern });
  }

  setView(view: View): void {
    const last = this.state.scene?.lastStep ?? 0;
    const step = view === "before" ? 0 : view === "split" && this.state.step > 0 ? this.state.step : last;
    this.update({ view, step, tab: this.state.width === "small" ? "graph" : this.state.tab });
  }

  /** Show the graph after step `step` (0..N). Leaving step 0 in Before shows After, and back. */
  setStep(step: number): void {
    const last = this.state.scene?.lastStep ?? 0;
    const to = Math.max(0, Math.min(last, Math.round(step)));
    const view = this.state.view === "before" && to > 0 ? "after" : this.state.view === "after" && to === 0 ? "before" : this.state.view;
    if (to !== this.state.step || view !== this.state.view) this.update({ step: to, view });
  }

  play(): void {
    if (this.state.scene === null || this.state.scene.lastStep === 0) return;
    if (this.state.step >= this.state.scene.lastStep) this.setStep(0);
    this.update({ playing: true });
    this.#playOn();
  }

  pause(): void {
    clearTimeout(this.#timers.play);
    this.update({ playing: false });
  }

  setSpeed(speed: number): void {
    this.update({ speed });
    if (this.state.playing) this.#playOn();
  }

  setTeaching(teaching: boolean): void {
    this.update({ teaching, view: teaching ? "split" : this.state.view });
    if (teaching && this.state.step === 0) this.setStep(1);
  }

  setShowConstants(showConstants: boolean): void {
    this.update({ showConstants });
  }

  /** Mark everything that a node is computed from ("inputs") or that is computed from it ("outputs"). */
  trace(node: string, direction: "inputs" | "outputs" | null): void {
    const { scene } = this.state;
    this.update({ traced: scene === null || direction === null ? null : walk.trace(scene, node, direction, this.state) });
  }

  setWidth(width: WidthClass): void {
    if (width !== this.state.width) this.update({ width });
  }

  setTab(tab: Tab): void {
    this.update({ tab });
  }

  setWhyFocus(whyFocus: boolean): void {
    this.update({ whyFocus, sheetOpen: whyFocus || this.state.sheetOpen, ...(whyFocus && this.state.width === "small" ? { tab: "why" as const } : {}) });
  }

  setMetricsOpen(metricsOpen: boolean): void {
    this.update({ metricsOpen });
  }

  setHelpOpen(helpOpen: boolean): void {
    this.update({ helpOpen });
  }

  setSheetOpen(sheetOpen: boolean): void {
    this.update({ sheetOpen });
  }

  setWhyPattern(whyPattern: string | null): void {
    this.update({ whyPattern });
  }

  // ---------------------------------------------------------------- walking
  search(query: string): void {
    const { scene } = this.state;
    this.update({ query, results: scene === null ? [] : search(scene, query), resultIndex: -1 });
  }

  /** Go to the next (1) or previous (-1) search result. */
  nextResult(direction: 1 | -1 = 1): void {
    const { results, resultIndex } = this.state;
    if (results.length === 0) return;
    this.goToResult((resultIndex + direction + results.length + (resultIndex < 0 && direction < 0 ? 1 : 0)) % results.length);
  }

  goToResult(index: number): void {
    const hit = this.state.results[index];
    if (hit === undefined) return;
    this.update({ resultIndex: index });
    void this.travel(hit.id);
  }

  /** Go to the next match of a pattern (the focused one when not given). */
  nextMatch(direction: 1 | -1 = 1, pattern: string | null = this.state.focusedPattern): void {
    this.#goTo(walk.nextMatch(this.state, direction, pattern, ["applied"]), "No match to go to.");
  }

  nextNearMiss(direction: 1 | -1 = 1): void {
    const next = walk.nextMatch(this.state, direction, this.state.focusedPattern, ["near miss", "declined"]);
    if (next !== null) this.update({ whyPattern: next.pattern });
    this.#goTo(next, "No near miss to go to.");
  }

  nextChange(direction: 1 | -1 = 1): void {
    this.#goTo(walk.nextChange(this.state, direction), "Nothing changed.");
  }

  // ---------------------------------------------------------------- asking
  async requestWhyNot(node: string, pattern?: string): Promise<void> {
    const whyNot = await this.#ask<WhyNot>({ type: "why_not", node, ...(pattern === undefined ? {} : { pattern }) }, "why");
    if (whyNot === null || this.state.selected[0] !== node) return;
    const wanted = pattern ?? this.state.whyPattern ?? this.state.focusedPattern;
    this.update({ whyNot, whyPattern: leadingExplanation(whyNot, wanted)?.pattern ?? null });
  }

  async requestWhatIf(node: string, pattern: string): Promise<void> {
    const key = whatIfKey(pattern, node);
    this.update({ whatIf: { ...this.state.whatIf, [key]: "asking" } });
    const answer = await this.#ask<WhatIf>({ type: "what_if", node, pattern }, "why");
    const { [key]: _, ...others } = this.state.whatIf;
    this.update({ whatIf: answer === null ? others : { ...others, [key]: answer } });
  }

  async requestStatistics(node: string): Promise<void> {
    this.update({ statistics: { ...this.state.statistics, [node]: "asking" } });
    const answer = await this.#ask<Statistics>({ type: "statistics", node }, "inspector");
    const { [node]: _, ...others } = this.state.statistics;
    this.update({ statistics: answer === null ? others : { ...others, [node]: answer } });
  }

  measure(what: "parity" | "latency" | "by_step"): void {
    this.#ask({ type: "measure", what }, "metrics");
  }

  cancel(what: "parity" | "latency" | "by_step" | "layout"): void {
    this.#ask({ type: "cancel", what }, "metrics");
  }

  async copy(what: "python" | "json" | "compile_options"): Promise<void> {
    const copied = await this.#ask<Copied>({ type: "copy", what }, "toolbar");
    if (copied === null) return;
    const done = await putOnClipboard(copied.text);
    this.update({ copied: done ? null : copied });
    if (done) this.say(`Copied the recipe as ${copied.format}.`);
  }

  async copyText(text: string, what = "name"): Promise<void> {
    const done = await putOnClipboard(text);
    this.update({ copied: done ? null : { text, format: what } });
    if (done) this.say(`Copied the ${what}.`);
  }

  closeCopied(): void {
    this.update({ copied: null });
  }

  async exportAs(what: "svg" | "png" | "html" | "pt2"): Promise<void> {
    if (what === "png") {
      const blob = await this.camera?.picture("png");
      if (blob !== undefined) offerBlob(blob, `${this.state.scene?.header.program.name ?? "graph"}.png`);
      return;
    }
    const exported = await this.#ask<Exported>({ type: "export", what }, "toolbar");
    if (exported === null) return;
    if (exported.text !== "") offer(exported.text, exported.filename);
    this.say(exported.note);
  }

  // ---------------------------------------------------------------- inside
  /** The scene's nodes and steps may be others now: keep what still is, drop what is not. */
  sceneArrived(): void {
    const { scene, selected, query, focusedPattern } = this.state;
    if (scene === null) return;
    const kept = selected.filter((id) => scene.nodeRow(id) >= 0);
    this.update({
      selected: kept,
      focusedPattern: focusedPattern !== null && scene.patternRow(focusedPattern) >= 0 ? focusedPattern : null,
      results: query === "" ? [] : search(scene, query),
      hover: nothingHovered,
    });
    if (kept.length > 0) this.#inspectSoon();
  }

  async #ask<T>(request: Ask, region: Region): Promise<T | null> {
    try {
      const data = await this.client.ask<T>(request);
      if (this.state.errors[region] !== undefined) this.dismissError(region);
      return data;
    } catch (error) {
      this.fail(region, error instanceof Error ? error.message : String(error));
      return null;
    }
  }

  /** Resolves once a scene shows the node: the reply may come before it. Gives up after 2 s. */
  #visible(node: string): Promise<void> {
    const shown = (state: State) => state.scene?.nodeVisible(state.scene.nodeRow(node)) === true;
    if (shown(this.state)) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        stop();
        resolve();
      };
      const stop = this.subscribe((state) => {
        if (shown(state)) done();
      });
      const timer = setTimeout(done, 2000);
    });
  }

  #inspectSoon(): void {
    clearTimeout(this.#timers.rest);
    const node = this.state.selected[0];
    if (node === undefined) {
      this.update({ inspection: null, whyNot: null });
      return;
    }
    this.#timers.rest = window.setTimeout(() => void this.#inspect(node), REST_MS);
  }

  async #inspect(node: string): Promise<void> {
    const why = this.requestWhyNot(node);
    const inspection = await this.#ask<Inspection>({ type: "inspect", node }, "inspector");
    if (inspection !== null && this.state.selected[0] === node) this.update({ inspection });
    await why;
  }

  #revisit(ids: readonly string[] | null): void {
    if (ids === null) return;
    this.select(ids, { quiet: true });
    this.client.tell({ type: "selected", nodes: [...ids] });
    if (ids[0] !== undefined) this.camera?.centre(ids[0]);
  }

  #goTo(place: walk.Place | null, otherwise: string): void {
    if (place === null) this.say(otherwise);
    else void this.travel(place.node);
  }

  #playOn(): void {
    clearTimeout(this.#timers.play);
    this.#timers.play = window.setTimeout(() => {
      const last = this.state.scene?.lastStep ?? 0;
      if (!this.state.playing) return;
      this.setStep(this.state.step + 1);
      if (this.state.step >= last) this.pause();
      else this.#playOn();
    }, (STEP_SECONDS * 1000) / this.state.speed);
  }

  #watchKernel(): void {
    clearTimeout(this.#timers.kernel);
    if (this.state.kernel === "gone") return;
    const pending = this.client.pending;
    const oldest = pending.length === 0 ? Number.NaN : Math.min(...pending.map((one) => one.since));
    const waited = performance.now() - oldest;
    const kernel = pending.length === 0 ? "idle" : waited >= BUSY_MS ? "busy" : waited >= WAITING_MS ? "waiting" : "idle";
    this.update({ pending, kernel });
    if (pending.length > 0 && kernel !== "busy") {
      const next = (kernel === "waiting" ? BUSY_MS : WAITING_MS) - waited;
      this.#timers.kernel = window.setTimeout(() => this.#watchKernel(), Math.max(1, next));
    }
  }
}

function reportError(error: unknown): void {
  console.error("lowerscope:", error);
}
