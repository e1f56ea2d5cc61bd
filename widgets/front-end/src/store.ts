/**
 * One display's state and everything that can be done to it.
 *
 * `store.state` is replaced at every change; `store.subscribe` calls back once per change, after it. Actions that change
 * the recipe only ask: the scene that comes back is the answer. Nodes are named by id and patterns by name here, so that
 * what is selected or focused survives a new scene.
 */
import type { Client } from "./client";
import { EventReader } from "./events";
import { Visited } from "./history";
import type { Inspection, Statistics, WhatIf, WhyNot } from "./protocol";
import { RecipeActions } from "./recipe_actions";
import { search } from "./search";
import {
  type Hover,
  leadingExplanation,
  nothingHovered,
  type State,
  type Tab,
  type View,
  whatIfKey,
  type WidthClass,
} from "./state";
import * as walk from "./walk";

export type { CameraPort } from "./base_store";
export type { SkipTarget } from "./recipe_actions";

const STEP_SECONDS = 1.6;
/** Keys held down walk through many nodes: only where one rests is the kernel asked. */
const REST_MS = 70;

export class Store extends RecipeActions {
  readonly #visited = new Visited();
  readonly #timers = { play: 0, rest: 0 };

  constructor(client: Client) {
    super(client);
    const reader = new EventReader(this);
    client.onEvent = (event, buffer) => reader.read(event, buffer);
    void this.ask({ type: "ready" }, "graph");
  }

  override close(): void {
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    super.close();
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
    if ((Object.keys(next) as (keyof Hover)[]).some((part) => next[part] !== now[part])) {
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
    const view =
      this.state.view === "before" && to > 0
        ? "after"
        : this.state.view === "after" && to === 0
          ? "before"
          : this.state.view;
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
    this.update({
      traced: scene === null || direction === null ? null : walk.trace(scene, node, direction, this.state),
    });
  }

  setWidth(width: WidthClass): void {
    if (width !== this.state.width) this.update({ width });
  }

  setTab(tab: Tab): void {
    this.update({ tab });
  }

  setWhyFocus(whyFocus: boolean): void {
    this.update({
      whyFocus,
      sheetOpen: whyFocus || this.state.sheetOpen,
      ...(whyFocus && this.state.width === "small" ? { tab: "why" as const } : {}),
    });
  }

  setMetricsOpen(metricsOpen: boolean): void {
    this.update({ metricsOpen });
  }

  setHelpOpen(helpOpen: boolean): void {
    this.update({ helpOpen });
  }

  setSheetOpen(sheetOpen: boolean): void {
    this.update(sheetOpen ? { sheetOpen, tab: "why", metricsOpen: false } : { sheetOpen });
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
    this.goToResult(
      (resultIndex + direction + results.length + (resultIndex < 0 && direction < 0 ? 1 : 0)) % results.length,
    );
  }

  goToResult(index: number): void {
    const hit = this.state.results[index];
    if (hit === undefined) return;
    this.update({ resultIndex: index });
    void this.travel(hit.id);
  }

  /** Go to the next match of a pattern (the focused one when not given). */
  nextMatch(direction: 1 | -1 = 1, pattern: string | null = this.state.focusedPattern): void {
    this.#goTo(walk.nextMatch(this.state, direction, pattern, walk.APPLIED), "No match to go to.");
  }

  nextNearMiss(direction: 1 | -1 = 1): void {
    const next = walk.nextMatch(this.state, direction, this.state.focusedPattern, walk.NEAR);
    if (next !== null) this.update({ whyPattern: next.pattern });
    this.#goTo(next, "No near miss to go to.");
  }

  nextChange(direction: 1 | -1 = 1): void {
    this.#goTo(walk.nextChange(this.state, direction), "Nothing changed.");
  }

  // ---------------------------------------------------------------- asking
  async requestWhyNot(node: string, pattern?: string): Promise<void> {
    const whyNot = await this.ask<WhyNot>(
      { type: "why_not", node, ...(pattern === undefined ? {} : { pattern }) },
      "why",
    );
    if (whyNot === null || this.state.selected[0] !== node) return;
    const wanted = pattern ?? this.state.whyPattern ?? this.state.focusedPattern;
    this.update({ whyNot, whyPattern: leadingExplanation(whyNot, wanted)?.pattern ?? null });
  }

  async requestWhatIf(node: string, pattern: string): Promise<void> {
    const key = whatIfKey(pattern, node);
    this.update({ whatIf: { ...this.state.whatIf, [key]: "asking" } });
    const answer = await this.ask<WhatIf>({ type: "what_if", node, pattern }, "why");
    const { [key]: _, ...others } = this.state.whatIf;
    this.update({ whatIf: answer === null ? others : { ...others, [key]: answer } });
  }

  async requestStatistics(node: string): Promise<void> {
    this.update({ statistics: { ...this.state.statistics, [node]: "asking" } });
    const answer = await this.ask<Statistics>({ type: "statistics", node }, "inspector");
    const { [node]: _, ...others } = this.state.statistics;
    this.update({ statistics: answer === null ? others : { ...others, [node]: answer } });
  }

  // ---------------------------------------------------------------- inside
  /** The scene's nodes and steps may be others now: keep what still is, drop what is not. */
  sceneArrived(): void {
    const { scene, selected, query, focusedPattern } = this.state;
    if (scene === null) return;
    const kept = selected.filter((id) => scene.nodeRow(id) >= 0);
    this.update({
      selected: kept.length < selected.length ? kept : selected, // a new array would count as a change, and end the motion
      focusedPattern: focusedPattern !== null && scene.patternRow(focusedPattern) >= 0 ? focusedPattern : null,
      results: query === "" ? [] : search(scene, query),
      hover: nothingHovered,
    });
    if (kept.length > 0) this.#inspectSoon();
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
    const inspection = await this.ask<Inspection>({ type: "inspect", node }, "inspector");
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
    this.#timers.play = window.setTimeout(
      () => {
        const last = this.state.scene?.lastStep ?? 0;
        if (!this.state.playing) return;
        this.setStep(this.state.step + 1);
        if (this.state.step >= last) this.pause();
        else this.#playOn();
      },
      (STEP_SECONDS * 1000) / this.state.speed,
    );
  }
}
