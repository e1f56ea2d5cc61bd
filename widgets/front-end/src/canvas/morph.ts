/** The morph of one step: what it took slides into what it made, then fades while the new one appears; or back. */
import { Fate } from "../lives";
import { drawNode } from "./draw_nodes";
import type { Boxes, Frame } from "./frame";
import type { Shown } from "./shown";

/** Steps that take more than this (a pass over the whole graph) are cut to. */
const MOST = 60;

export class Morph {
  readonly hidden: ReadonlySet<number>;
  #t = 0;

  private constructor(
    readonly taken: readonly number[],
    readonly made: readonly number[],
    readonly backwards: boolean,
  ) {
    this.hidden = new Set(backwards ? taken : made);
  }

  /** The morph between what two neighbouring steps show, null when they are not neighbours or nothing of it is drawn. */
  static between(before: Shown, after: Shown): Morph | null {
    const forward = after.to - before.to;
    if (before.comparing || after.comparing || Math.abs(forward) !== 1) return null;
    const [old, young] = forward === 1 ? [before, after] : [after, before];
    const step = young.to;
    const taken = before.scene
      .stepTaken(step)
      .filter((node) => old.nodes[node] !== Fate.absent && young.nodes[node] === Fate.absent);
    const made = before.scene
      .stepMade(step)
      .filter((node) => young.nodes[node] !== Fate.absent && old.nodes[node] === Fate.absent);
    if (taken.length === 0 || made.length === 0 || taken.length + made.length > MOST) return null;
    return new Morph(taken, made, forward === -1);
  }

  move(t: number): void {
    this.#t = t;
  }

  draw(frame: Frame): void {
    const t = this.backwards ? 1 - this.#t : this.#t;
    const slide = Math.min(1, t / 0.75);
    const { nodes } = frame;
    const goal = this.#centre(nodes);
    for (const row of this.taken) {
      const x = nodes.x[row] as number;
      const y = nodes.y[row] as number;
      const toX = x + (goal.x - (nodes.w[row] as number) / 2 - x) * slide;
      const toY = y + (goal.y - (nodes.h[row] as number) / 2 - y) * slide;
      drawNode({ ...frame, nodes: shifted(nodes, row, toX, toY) }, row, 1 - Math.max(0, (t - 0.6) / 0.4));
    }
    for (const row of this.made) drawNode(frame, row, Math.max(0, (t - 0.45) / 0.55));
    frame.context.globalAlpha = 1;
  }

  #centre(nodes: Boxes): { x: number; y: number } {
    const sum = { x: 0, y: 0 };
    for (const row of this.made) {
      sum.x += ((nodes.x[row] as number) + (nodes.w[row] as number) / 2) / this.made.length;
      sum.y += ((nodes.y[row] as number) + (nodes.h[row] as number) / 2) / this.made.length;
    }
    return sum;
  }
}

/** The same boxes with one of them elsewhere. */
function shifted(nodes: Boxes, row: number, x: number, y: number): Boxes {
  return { x: { length: nodes.x.length, [row]: x }, y: { length: nodes.y.length, [row]: y }, w: nodes.w, h: nodes.h };
}
