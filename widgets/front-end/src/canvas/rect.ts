/** Boxes in layout units or px: corners, the second one excluded. */
export interface Rect {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

export function rect(x: number, y: number, w: number, h: number): Rect {
  return { x0: x, y0: y, x1: x + w, y1: y + h };
}

export function union(rects: readonly Rect[]): Rect | null {
  if (rects.length === 0) return null;
  const all: Rect = { x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity };
  for (const one of rects) {
    all.x0 = Math.min(all.x0, one.x0);
    all.y0 = Math.min(all.y0, one.y0);
    all.x1 = Math.max(all.x1, one.x1);
    all.y1 = Math.max(all.y1, one.y1);
  }
  return all;
}

export function overlaps(a: Rect, b: Rect): boolean {
  return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}
