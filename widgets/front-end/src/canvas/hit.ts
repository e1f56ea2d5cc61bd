/** What is at a point. */
import { Fate } from "../lives";
import type { Scene } from "../scene";
import type { Attention } from "./attention";
import { PILL, type Stub } from "./draw_edges";
import { HEADER } from "./draw_modules";
import type { Loop } from "./hull";
import { indexOf } from "./index_tree";
import { Detail, detailAt } from "./lod";
import type { Rect } from "./rect";
import type { Shown } from "./shown";

export type Hit =
  | { kind: "node"; id: string; row: number }
  | { kind: "stub"; far: { id: string; module: boolean }[]; text: string; routes: readonly number[] }
  | { kind: "match"; match: number; pattern: string; anchor: string }
  | { kind: "edge"; route: number }
  /** header: on the triangle and name, or anywhere on a closed module. */
  | { kind: "module"; path: string; row: number; header: boolean };

/** What lies topmost at a layout point; `slack` is how near counts for thin things, in layout units. */
export function hitTest(
  shown: Shown,
  attention: Attention | null,
  stubs: readonly Stub[],
  x: number,
  y: number,
  zoom: number,
  slack: number,
): Hit | null {
  const { scene } = shown;
  const point: Rect = { x0: x - slack, y0: y - slack, x1: x + slack, y1: y + slack };
  const stub = stubs.find((one) => Math.abs(one.x - x) <= one.w / 2 && Math.abs(one.y - y) <= PILL / 2);
  if (stub !== undefined) {
    const far = stub.far.map(({ row, module }) => ({
      id: module ? scene.modules.path(row) : scene.nodes.id(row),
      module,
    }));
    return { kind: "stub", far, text: stub.text, routes: stub.routes };
  }
  return (
    nodeAt(shown, x, y) ??
    matchAt(shown, attention, x, y, point, zoom, slack) ??
    edgeAt(shown, x, y, point, slack) ??
    moduleAt(scene, x, y)
  );
}

export function nodeAt(shown: Shown, x: number, y: number): Hit | null {
  const { scene } = shown;
  let found = -1;
  indexOf(scene).nodes.each({ x0: x, y0: y, x1: x, y1: y }, (row) => {
    if (shown.nodes[row] !== Fate.absent) found = Math.max(found, row);
  });
  return found < 0 ? null : { kind: "node", id: scene.nodes.id(found), row: found };
}

function matchAt(
  shown: Shown,
  attention: Attention | null,
  x: number,
  y: number,
  point: Rect,
  zoom: number,
  slack: number,
): Hit | null {
  if (detailAt(zoom) === Detail.blocks) return null;
  const { scene } = shown;
  let found: Hit | null = null;
  shown.hulls.index.each(point, (position) => {
    const hull = shown.hulls.list[position];
    if (hull === undefined || attention?.isHullShown(hull) === false) return;
    // Of a filled hull the inside counts, of the others their line.
    const touched = hull
      .loops()
      .some((loop) => (hull.style === "solid" ? isInside(loop, x, y) : isNearLoop(loop, x, y, slack)));
    if (!touched) return;
    const anchor = scene.nodes.id(scene.matches.anchor[hull.match]);
    found = { kind: "match", match: hull.match, pattern: scene.patterns[hull.pattern]?.name ?? "", anchor };
  });
  return found;
}

function edgeAt(shown: Shown, x: number, y: number, point: Rect, slack: number): Hit | null {
  const { routes, points } = shown.scene;
  let found: Hit | null = null;
  let nearest = slack;
  indexOf(shown.scene).routes.each(point, (route) => {
    if (shown.routes[route] === Fate.absent) return;
    const first = routes.point[route];
    for (let i = first + 1; i < first + routes.points[route]; i++) {
      if (routes.stub[route] && i === first + (routes.points[route] >> 1)) continue; // the cut
      const distance = toSegment(x, y, points.x[i - 1], points.y[i - 1], points.x[i], points.y[i]);
      if (distance < nearest) {
        nearest = distance;
        found = { kind: "edge", route };
      }
    }
  });
  return found;
}

function moduleAt(scene: Scene, x: number, y: number): Hit | null {
  let innermost = -1;
  indexOf(scene).modules.each({ x0: x, y0: y, x1: x, y1: y }, (row) => {
    // Children come after their parents in the table.
    if (scene.modules.path(row) !== "") innermost = Math.max(innermost, row);
  });
  if (innermost < 0) return null;
  const header = scene.modules.open[innermost] === 0 || y <= scene.modules.y[innermost] + HEADER;
  return { kind: "module", path: scene.modules.path(innermost), row: innermost, header };
}

export function isInside(loop: Loop, x: number, y: number): boolean {
  let inside = false;
  for (let i = 0, j = loop.length - 1; i < loop.length; j = i++) {
    const [ax, ay] = loop[i] ?? [0, 0];
    const [bx, by] = loop[j] ?? [0, 0];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

function isNearLoop(loop: Loop, x: number, y: number, slack: number): boolean {
  return loop.some(([ax, ay], i) => {
    const [bx, by] = loop[(i + 1) % loop.length] ?? [ax, ay];
    return toSegment(x, y, ax, ay, bx, by) <= slack;
  });
}

function toSegment(x: number, y: number, ax: number, ay: number, bx: number, by: number): number {
  const length = (bx - ax) ** 2 + (by - ay) ** 2;
  const t = length === 0 ? 0 : Math.max(0, Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length));
  return Math.hypot(x - ax - t * (bx - ax), y - ay - t * (by - ay));
}
