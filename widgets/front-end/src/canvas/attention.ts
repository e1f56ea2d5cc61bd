/** What is lit and what is dimmed: pure questions about the state, asked by the drawing. */
import type { Scene } from "../scene";
import type { State } from "../state";
import type { Hull } from "./hulls_shown";

/** Opacity of what is not looked at while something is focused. */
export const DIM = 0.3;

export class Attention {
  /** Row of the pattern looked at (hovered before focused), -1 for none. */
  readonly pattern: number;
  readonly hovered: number; // node row
  readonly selected: ReadonlySet<number>;
  readonly traced: ReadonlySet<number> | null;
  /** Nodes that stay lit, null when all do. */
  readonly #lit: ReadonlySet<number> | null;

  constructor(
    readonly scene: Scene,
    readonly state: Pick<State, "hover" | "selected" | "focusedPattern" | "traced" | "whyPattern">,
    hulls: readonly Hull[],
  ) {
    const { hover, selected, focusedPattern, traced } = state;
    this.pattern = scene.patternRow(hover.pattern ?? focusedPattern ?? "");
    this.hovered = scene.nodeRow(hover.node ?? "");
    this.selected = new Set(selected.map((id) => scene.nodeRow(id)));
    this.traced = traced === null ? null : new Set(Array.from(traced, (id) => scene.nodeRow(id)));
    // Only a hovered pattern dims the rest: a focused one may stay focused while one reads elsewhere.
    const dimming = scene.patternRow(hover.pattern ?? "");
    if (this.traced !== null) this.#lit = this.traced;
    else if (dimming >= 0)
      this.#lit = new Set(hulls.filter((hull) => hull.pattern === dimming).flatMap((hull) => hull.nodes));
    else this.#lit = null;
  }

  get dims(): boolean {
    return this.#lit !== null;
  }

  isLit(node: number): boolean {
    return this.#lit === null || this.#lit.has(node) || this.selected.has(node) || node === this.hovered;
  }

  isHullLit(hull: Hull): boolean {
    if (this.traced !== null) return hull.nodes.some((node) => this.traced?.has(node));
    return !this.dims || hull.pattern === this.pattern;
  }

  /** Quiet hulls come up while their pattern, their anchor or the node at fault is looked at. */
  isHullShown(hull: Hull): boolean {
    if (!hull.quiet || hull.pattern === this.pattern) return true;
    if (hull.pattern !== this.scene.patternRow(this.state.whyPattern ?? "")) return false;
    return (
      this.selected.has(this.scene.matches.anchor[hull.match]) || hull.nodes.some((node) => this.selected.has(node))
    );
  }
}
