/** Which rows of a table meet a box: one flatbush per table, built once per scene. */
import Flatbush from "flatbush";

import type { Scene } from "../scene";
import type { Boxes } from "./frame";
import type { Rect } from "./rect";

/** Rows in an R-tree; an empty one finds nothing (flatbush itself refuses to be empty). */
export class RowIndex {
  readonly #tree: Flatbush | null;
  readonly #rows: Int32Array;

  constructor(rows: Int32Array, box: (row: number, out: Rect) => void) {
    this.#rows = rows;
    this.#tree = rows.length === 0 ? null : new Flatbush(rows.length, 16, Float32Array);
    const out: Rect = { x0: 0, y0: 0, x1: 0, y1: 0 };
    for (const row of rows) {
      box(row, out);
      this.#tree?.add(out.x0, out.y0, out.x1, out.y1);
    }
    this.#tree?.finish();
  }

  /** Call back with every row whose box meets `window`, in no order. */
  each(window: Rect, found: (row: number) => void): void {
    this.#tree?.search(window.x0, window.y0, window.x1, window.y1, (item) => {
      found(this.#rows[item]);
      return false;
    });
  }

  /** Rows that meet `window`, ascending: what is later in the table is drawn above. */
  rows(window: Rect): number[] {
    const rows: number[] = [];
    this.each(window, (row) => rows.push(row));
    return rows.sort((a, b) => a - b);
  }
}

/** The boxes of everything that a scene lays out, whatever the step. */
class SceneIndex {
  readonly nodes: RowIndex;
  readonly modules: RowIndex;
  readonly routes: RowIndex;

  constructor(readonly scene: Scene) {
    const { nodes, modules, routes, points } = scene;
    this.nodes = new RowIndex(visible(nodes.x), (row, out) => boxOf(nodes, row, out));
    this.modules = new RowIndex(visible(modules.x), (row, out) => boxOf(modules, row, out));
    const drawn = Int32Array.from({ length: routes.length }, (_, row) => row).filter((row) => routes.points[row] > 1);
    this.routes = new RowIndex(drawn, (row, out) => {
      out.x0 = out.y0 = Infinity;
      out.x1 = out.y1 = -Infinity;
      const first = routes.point[row];
      for (let i = first; i < first + routes.points[row]; i++) {
        out.x0 = Math.min(out.x0, points.x[i]);
        out.y0 = Math.min(out.y0, points.y[i]);
        out.x1 = Math.max(out.x1, points.x[i]);
        out.y1 = Math.max(out.y1, points.y[i]);
      }
    });
  }
}

function boxOf(boxes: Boxes, row: number, out: Rect): void {
  out.x0 = boxes.x[row] as number;
  out.y0 = boxes.y[row] as number;
  out.x1 = out.x0 + (boxes.w[row] as number);
  out.y1 = out.y0 + (boxes.h[row] as number);
}

function visible(x: ArrayLike<number>): Int32Array {
  return Int32Array.from({ length: x.length }, (_, row) => row).filter((row) => !Number.isNaN(x[row]));
}

const indices = new WeakMap<Scene, SceneIndex>();

/** The index of a scene, built at its first use and shared by every pane that shows it. */
export function indexOf(scene: Scene): SceneIndex {
  let index = indices.get(scene);
  if (index === undefined) indices.set(scene, (index = new SceneIndex(scene)));
  return index;
}
