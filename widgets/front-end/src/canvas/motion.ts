/** Movement: eased timers that stop, moments between two layouts, and the morph of a step. */
import type { Scene } from "../scene";
import type { Boxes } from "./frame";
import type { Moving } from "./painter";

export const DURATION = { hover: 80, pan: 220, layout: 260, morph: 320 } as const;

/** With more visible boxes than this a new layout is cut to: moving them would stutter. */
const MOST_MOVING = 1500;

function prefersStill(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

function ease(t: number): number {
  return t < 0.5 ? 4 * t ** 3 : 1 - (-2 * t + 2) ** 3 / 2;
}

/** One animation at a time: a new one ends the old one at once. */
export class Animation {
  #frame = 0;
  #finish: (() => void) | null = null;

  get running(): boolean {
    return this.#finish !== null;
  }

  /** Call `draw` with 0..1 (eased) at every frame, the last time with exactly 1. */
  start(duration: number, draw: (t: number) => void, done: () => void = () => {}): void {
    this.stop();
    const begin = performance.now();
    this.#finish = () => {
      this.#finish = null;
      draw(1);
      done();
    };
    const tick = (now: number) => {
      const t = Math.max(0, (now - begin) / duration);
      if (t >= 1) this.#finish?.();
      else {
        draw(ease(t));
        this.#frame = requestAnimationFrame(tick);
      }
    };
    if (prefersStill() || document.hidden) this.#finish();
    else this.#frame = requestAnimationFrame(tick);
  }

  /** Jump to the end. */
  stop(): void {
    cancelAnimationFrame(this.#frame);
    this.#finish?.();
  }

  /** Forget it where it is. */
  cancel(): void {
    cancelAnimationFrame(this.#frame);
    this.#finish = null;
  }
}

class MovingBoxes implements Boxes {
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly w: Float32Array;
  readonly h: Float32Array;
  readonly #from: Float32Array; // x, y, w, h per row

  constructor(
    readonly to: Boxes,
    length: number,
    start: (row: number, out: Float32Array) => void,
  ) {
    this.x = new Float32Array(length);
    this.y = new Float32Array(length);
    this.w = new Float32Array(length);
    this.h = new Float32Array(length);
    this.#from = new Float32Array(4 * length);
    for (let row = 0; row < length; row++) start(row, this.#from.subarray(4 * row, 4 * row + 4));
    this.move(0);
  }

  move(t: number): void {
    const from = this.#from;
    for (let row = 0; row < this.x.length; row++) {
      this.x[row] = mix(from[4 * row], this.to.x[row], t);
      this.y[row] = mix(from[4 * row + 1], this.to.y[row], t);
      this.w[row] = mix(from[4 * row + 2], this.to.w[row], t);
      this.h[row] = mix(from[4 * row + 3], this.to.h[row], t);
    }
  }
}

function mix(from: number | undefined, to: number | undefined, t: number): number {
  return (from ?? 0) + ((to ?? 0) - (from ?? 0)) * t;
}

/**
 * The way from one scene's layout to the next, or null when nothing moves or too much would.
 * A node or module that was hidden comes out of the closed module that hid it.
 */
export function layoutChange(from: Scene, to: Scene): { moving: Moving; move(t: number): void } | null {
  let moves = 0;
  let visible = 0;
  const start = (
    scene: Scene,
    old: Boxes,
    next: Boxes,
    oldRow: number,
    oldModule: number,
    row: number,
    out: Float32Array,
  ) => {
    const target = [next.x[row], next.y[row], next.w[row], next.h[row]] as number[];
    out.set(target);
    if (Number.isNaN(target[0])) return;
    visible++;
    if (oldRow >= 0 && !Number.isNaN(old.x[oldRow]))
      out.set([old.x[oldRow], old.y[oldRow], old.w[oldRow], old.h[oldRow]] as number[]);
    else {
      const hiding = scene
        .ancestors(oldModule)
        .findLast((module) => scene.moduleVisible(module) && scene.modules.path(module) !== "");
      if (hiding !== undefined) {
        const { x, y, w, h } = scene.modules;
        out.set([x[hiding] + w[hiding] / 2 - (target[2] ?? 0) / 2, y[hiding] + h[hiding] / 2 - (target[3] ?? 0) / 2]);
      }
    }
    if (out[0] !== Math.fround(target[0] ?? 0) || out[1] !== Math.fround(target[1] ?? 0)) moves++;
  };
  const oldModuleOf = (path: string): number => {
    for (let at = path; ; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
      const row = from.moduleRow(at);
      if (row >= 0 || at === "") return row;
    }
  };
  const nodes = new MovingBoxes(to.nodes, to.nodes.length, (row, out) => {
    const module = oldModuleOf(to.modules.path(to.nodes.module[row]));
    start(from, from.nodes, to.nodes, from.nodeRow(to.nodes.id(row)), module, row, out);
  });
  const modules = new MovingBoxes(to.modules, to.modules.length, (row, out) => {
    const old = oldModuleOf(to.modules.path(row));
    start(
      from,
      from.modules,
      to.modules,
      from.moduleRow(to.modules.path(row)),
      from.modules.parent[old] ?? -1,
      row,
      out,
    );
  });
  if (moves === 0 || visible > MOST_MOVING) return null;
  const moving: Moving = { nodes, modules, arriving: 0 };
  return {
    moving,
    move: (t) => {
      nodes.move(t);
      modules.move(t);
      // Edges and hulls belong to the new places: they come when most of the way is done.
      moving.arriving = Math.max(0, (t - 0.6) / 0.4);
    },
  };
}
