/**
 * The outline around the nodes of a match: rectilinear, one band per layer, nodes taken only.
 *
 * The padded boxes of each layer become bands, cut where a node that is not taken stands between two that are. Bands of
 * neighbouring layers are joined by corridors that no other node stands in. The outline is the border of their union, so
 * a match that is torn apart by the layout has several loops, and a hull never swallows a node it does not take.
 */
import { overlaps, type Rect } from "./rect";

export type Loop = [number, number][];

/** How far a wide band reaches below its row, px. */
const REACH = 12;
/** Sides closer than this are drawn as one, px. */
const STEP = 14;
/**
 * Boxes further apart than this sideways, px, are not joined: the strip would lie across everything in between. Between
 * layers next to each other there is nothing, and it may be longer.
 */
const ASIDE = { next: 240, far: 48 } as const;
const NEXT = 28;
/** Beyond this many nodes the outline is no longer readable as layers: their common box does. */
const MANY = 300;

export function hullLoops(nodes: readonly Rect[], padding: number, isFree: (box: Rect) => boolean): Loop[] {
  if (nodes.length === 0) return [];
  const rows = layers(nodes);
  if (nodes.length > MANY) return [corners(rows.flat(), padding)];
  const bands = rows.map((row) => cutRow(row, padding, isFree));
  for (let i = 0; i + 1 < bands.length; i++) align(bands[i] ?? [], bands[i + 1] ?? [], isFree);
  const boxes = bands.flat();
  for (let i = 0; i + 1 < bands.length; i++) {
    for (const upper of bands[i] ?? [])
      for (const lower of bands[i + 1] ?? []) boxes.push(...corridor(upper, lower, padding, isFree));
  }
  return outline(boxes);
}

/** Boxes by layer, top to bottom: a box belongs to a layer when it covers half of its height or more. */
function layers(nodes: readonly Rect[]): Rect[][] {
  const rows: Rect[][] = [];
  for (const node of [...nodes].sort((a, b) => a.y0 - b.y0)) {
    const row = rows[rows.length - 1];
    const first = row?.[0];
    if (row !== undefined && first !== undefined && Math.min(first.y1, node.y1) - node.y0 >= (node.y1 - node.y0) / 2)
      row.push(node);
    else rows.push([node]);
  }
  return rows;
}

function cutRow(row: readonly Rect[], padding: number, isFree: (box: Rect) => boolean): Rect[] {
  const bands: Rect[] = [];
  for (const node of [...row].sort((a, b) => a.x0 - b.x0)) {
    const band = bands[bands.length - 1];
    const gap =
      band === undefined
        ? null
        : {
            x0: band.x1 - padding,
            y0: Math.min(band.y0 + padding, node.y0),
            x1: node.x0,
            y1: Math.max(band.y1 - padding, node.y1),
          };
    if (band !== undefined && gap !== null && (gap.x1 <= gap.x0 || isFree(gap))) {
      band.x1 = Math.max(band.x1, node.x1 + padding);
      band.y0 = Math.min(band.y0, node.y0 - padding);
      band.y1 = Math.max(band.y1, node.y1 + padding);
    } else {
      bands.push({ x0: node.x0 - padding, y0: node.y0 - padding, x1: node.x1 + padding, y1: node.y1 + padding });
    }
  }
  return bands;
}

/** Sides that are nearly in line become one line: a step smaller than its own round corners looks like a mistake. */
function align(upper: Rect[], lower: Rect[], isFree: (box: Rect) => boolean): void {
  const [a] = upper;
  const [b] = lower;
  if (upper.length !== 1 || lower.length !== 1 || a === undefined || b === undefined) return;
  for (const side of ["x0", "x1"] as const) {
    const [outer, inner] = (side === "x0" ? a.x0 < b.x0 : a.x1 > b.x1) ? [a, b] : [b, a];
    const step = Math.abs(outer[side] - inner[side]);
    if (step === 0 || step >= STEP) continue;
    const added = side === "x0" ? { ...inner, x0: outer.x0, x1: inner.x0 } : { ...inner, x0: inner.x1, x1: outer.x1 };
    if (isFree(added)) inner[side] = outer[side];
  }
}

function corridor(upper: Rect, lower: Rect, padding: number, isFree: (box: Rect) => boolean): Rect[] {
  if (lower.y0 <= upper.y1 && overlaps({ ...upper, y1: upper.y1 + 0.5 }, lower)) return [];
  const x0 = Math.max(upper.x0, lower.x0);
  const x1 = Math.min(upper.x1, lower.x1);
  const top = upper.y1 - padding;
  const bottom = lower.y0 + padding;
  if (x1 - x0 >= 2 * padding) {
    const wide = { x0, y0: top, x1, y1: bottom };
    if (isFree(inner(wide, padding))) return [wide, ...reach(upper, lower, padding, isFree)];
    const middle = (x0 + x1) / 2;
    const narrow = { x0: middle - padding, y0: top, x1: middle + padding, y1: bottom };
    return isFree(inner(narrow, padding)) ? [narrow] : [];
  }
  if (x0 - x1 > (lower.y0 - upper.y1 < NEXT ? ASIDE.next : ASIDE.far)) return [];
  // Side by side: a strip below the upper one, and down from it to the lower one.
  const low = Math.min(lower.y0 + padding, upper.y1 + REACH);
  const strip = { x0: Math.min(upper.x0, lower.x0), y0: top, x1: Math.max(upper.x1, lower.x1), y1: low };
  const down = { x0: lower.x0, y0: top, x1: lower.x1, y1: bottom };
  return isFree(inner(strip, padding)) && isFree(inner(down, padding)) ? [strip, down] : [];
}

function reach(upper: Rect, lower: Rect, padding: number, isFree: (box: Rect) => boolean): Rect[] {
  const below = Math.min(lower.y0, upper.y1 + REACH);
  const strip = { ...upper, y0: upper.y1 - padding, y1: below };
  return below > upper.y1 && isFree({ ...strip, y0: upper.y1 }) ? [strip] : [];
}

function inner(box: Rect, padding: number): Rect {
  return { x0: box.x0, y0: box.y0 + padding, x1: box.x1, y1: Math.max(box.y0 + padding, box.y1 - padding) };
}

function corners(nodes: readonly Rect[], padding: number): Loop {
  const x0 = Math.min(...nodes.map((node) => node.x0)) - padding;
  const y0 = Math.min(...nodes.map((node) => node.y0)) - padding;
  const x1 = Math.max(...nodes.map((node) => node.x1)) + padding;
  const y1 = Math.max(...nodes.map((node) => node.y1)) + padding;
  return [
    [x0, y0],
    [x1, y0],
    [x1, y1],
    [x0, y1],
  ];
}

/** Border loops of a union of boxes, clockwise (holes the other way), with corners only. */
export function outline(boxes: readonly Rect[]): Loop[] {
  const xs = sorted(boxes.flatMap((box) => [box.x0, box.x1]));
  const ys = sorted(boxes.flatMap((box) => [box.y0, box.y1]));
  const columns = xs.length - 1;
  const covered = new Uint8Array(Math.max(0, columns * (ys.length - 1)));
  for (const box of boxes) {
    for (let row = ys.indexOf(box.y0); (ys[row] ?? Infinity) < box.y1; row++) {
      for (let column = xs.indexOf(box.x0); (xs[column] ?? Infinity) < box.x1; column++)
        covered[row * columns + column] = 1;
    }
  }
  const filled = (column: number, row: number) =>
    column >= 0 && column < columns && row >= 0 && row < ys.length - 1 && covered[row * columns + column] === 1;

  // Border edges by start corner, with the covered side on their right.
  const from = new Map<number, number[]>();
  const corner = (column: number, row: number) => row * xs.length + column;
  const add = (a: number, b: number) => from.set(a, [...(from.get(a) ?? []), b]);
  for (let row = 0; row < ys.length - 1; row++) {
    for (let column = 0; column < columns; column++) {
      if (!filled(column, row)) continue;
      if (!filled(column, row - 1)) add(corner(column, row), corner(column + 1, row));
      if (!filled(column + 1, row)) add(corner(column + 1, row), corner(column + 1, row + 1));
      if (!filled(column, row + 1)) add(corner(column + 1, row + 1), corner(column, row + 1));
      if (!filled(column - 1, row)) add(corner(column, row + 1), corner(column, row));
    }
  }
  const loops: Loop[] = [];
  for (const start of from.keys()) {
    let at = start;
    const loop: Loop = [];
    for (let next = from.get(at)?.pop(); next !== undefined; next = from.get(at)?.pop()) {
      loop.push([xs[at % xs.length] ?? 0, ys[Math.floor(at / xs.length)] ?? 0]);
      at = next;
    }
    if (loop.length > 0) loops.push(withoutStraights(loop));
  }
  return loops;
}

function sorted(values: readonly number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}

function withoutStraights(loop: Loop): Loop {
  return loop.filter((point, i) => {
    const before = loop[(i + loop.length - 1) % loop.length] ?? point;
    const after = loop[(i + 1) % loop.length] ?? point;
    return !((before[0] === point[0] && point[0] === after[0]) || (before[1] === point[1] && point[1] === after[1]));
  });
}

interface Pen {
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
  arcTo(x1: number, y1: number, x2: number, y2: number, radius: number): void;
  closePath(): void;
}

/** Add a loop with rounded corners to a path. */
export function roundedLoop(path: Pen, loop: Loop, radius: number): void {
  const at = (i: number) => loop[(i + loop.length) % loop.length] ?? [0, 0];
  const [x0, y0] = at(-1);
  const [x1, y1] = at(0);
  path.moveTo((x0 + x1) / 2, (y0 + y1) / 2);
  for (let i = 0; i < loop.length; i++) {
    const [ax, ay] = at(i - 1);
    const [bx, by] = at(i);
    const [cx, cy] = at(i + 1);
    const fitting = Math.min(
      radius,
      (Math.abs(bx - ax) + Math.abs(by - ay)) / 2,
      (Math.abs(cx - bx) + Math.abs(cy - by)) / 2,
    );
    path.arcTo(bx, by, cx, cy, fitting);
    path.lineTo((bx + cx) / 2, (by + cy) / 2);
  }
  path.closePath();
}
