/** Which rows of a table meet a box: one packed R-tree per table, built once per scene. */
import type { Scene } from "../scene";
import type { Rect } from "./rect";

/** Children of one box of the tree. */
const FAN = 16;

/**
 * Rows in an R-tree, packed by sorting into tiles: strips of like x, each in the order of y, sixteen neighbours a box, sixteen
 * boxes a larger one, and so on up (Leutenegger, Lopez and Edgington, "STR: a simple and efficient algorithm for R-tree packing").
 */
export class RowIndex {
  readonly #rows: Int32Array; // in the order of the lowest level's boxes
  readonly #levels: Float32Array[] = []; // x0, y0, x1, y1 of every box, the rows' own first

  constructor(rows: Int32Array, box: (row: number, out: Rect) => void) {
    const out: Rect = { x0: 0, y0: 0, x1: 0, y1: 0 };
    const middle = (across: boolean) => (row: number) => {
      box(row, out);
      return across ? out.x0 + out.x1 : out.y0 + out.y1;
    };
    this.#rows = ordered(rows, middle(true));
    const strip = Math.ceil(Math.sqrt(rows.length / FAN)) * FAN;
    for (let i = 0; i < rows.length; i += strip) {
      this.#rows.set(ordered(this.#rows.subarray(i, i + strip), middle(false)), i);
    }
    let level = new Float32Array(rows.length * 4);
    this.#rows.forEach((row, i) => {
      box(row, out);
      level.set([out.x0, out.y0, out.x1, out.y1], i * 4);
    });
    this.#levels.push(level);
    while (level.length > FAN * 4) this.#levels.push((level = boxesAround(level)));
  }

  /** Call back with every row whose box meets `window`, in no order. */
  each(window: Rect, found: (row: number) => void): void {
    const visit = (depth: number, first: number, last: number) => {
      const level = this.#levels[depth] as Float32Array;
      for (let i = first; i < Math.min(last, level.length / 4); i++) {
        const at = i * 4;
        if (level[at] > window.x1 || level[at + 1] > window.y1) continue;
        if (level[at + 2] < window.x0 || level[at + 3] < window.y0) continue;
        if (depth === 0) found(this.#rows[i]);
        else visit(depth - 1, i * FAN, (i + 1) * FAN);
      }
    };
    visit(this.#levels.length - 1, 0, FAN);
  }

  /** Rows that meet `window`, ascending: what is later in the table is drawn above. */
  rows(window: Rect): number[] {
    const rows: number[] = [];
    this.each(window, (row) => rows.push(row));
    return rows.sort((a, b) => a - b);
  }
}

/** `rows` by ascending `key`; sorted as numbers, key and place in one, which is ten times as fast as with a comparison. */
function ordered(rows: Int32Array, key: (row: number) => number): Int32Array {
  const places = 2 ** Math.ceil(Math.log2(rows.length + 1));
  const keys = Float64Array.from(rows, (row, place) => Math.round(key(row)) * places + place).sort();
  return rows.map((_, i) => rows[keys[i] - Math.floor(keys[i] / places) * places]);
}

function boxesAround(level: Float32Array): Float32Array<ArrayBuffer> {
  const above = new Float32Array(Math.ceil(level.length / 4 / FAN) * 4);
  for (let at = 0; at < above.length; at += 4) {
    const inside = level.subarray(at * FAN, (at + 4) * FAN);
    for (let side = 0; side < 4; side++) {
      const outer = side < 2 ? Math.min : Math.max;
      above[at + side] = inside.reduce((reached, edge, i) => (i % 4 === side ? outer(reached, edge) : reached), inside[side]);
    }
  }
  return above;
}

/** The boxes of everything that a scene lays out, whatever the step. */
export class SceneIndex {
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

interface Boxes {
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  w: ArrayLike<number>;
  h: ArrayLike<number>;
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
