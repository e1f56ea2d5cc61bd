/** Which hulls a pane draws, around which nodes, and in what style. */
import type { Verdict } from "../protocol";
import type { Scene } from "../scene";
import { hullLoops, type Loop, roundedLoop } from "./hull";
import { indexOf, RowIndex } from "./index_tree";
import { rect, type Rect, union } from "./rect";

type HullStyle = "solid" | "dashed" | "dotted" | "would";

export interface Hull {
  match: number; // row of scene.matches
  pattern: number; // row of scene.patterns
  style: HullStyle;
  nodes: number[]; // rows, visible ones only
  box: Rect;
  /** Only shown while its pattern or its anchor is looked at. */
  quiet: boolean;
  loops(): Loop[];
  path(): Path2D;
  /** The second outline of P7 to P12, 3 px inside; null for the others. */
  second(): Path2D | null;
}

const STYLES: Partial<Record<Verdict, HullStyle>> = {
  applied: "solid",
  "near miss": "dashed",
  declined: "dashed",
  skipped: "dotted",
  disabled: "would",
  shadowed: "would",
};

const PADDING = 7;
const RADIUS = 9;

/**
 * The nodes that stand for a match at a step: its members when all are alive then, else those that are and the original
 * nodes behind the others (a later pattern's members are not born yet), else what its step made. Steps are those of the
 * pane: [0, s] in a comparison, where what was removed is drawn too.
 */
export function nodesOfMatch(scene: Scene, match: number, steps: readonly number[]): number[] {
  const alive = (node: number) => steps.some((step) => scene.nodeAlive(node, step));
  const all = scene.matchMembers(match);
  const members = all.filter(alive);
  if (members.length > 0 && members.length === all.length) return members;
  const nodes = new Set([...members, ...scene.matchOrigins(match).filter(alive)]);
  if (nodes.size > 0) return [...nodes];
  const step = scene.matches.step[match];
  return step > 0 ? scene.stepMade(step).filter(alive) : [];
}

/** All hulls of a pane, in table order, with the index to cull them by. */
export class Hulls {
  readonly list: Hull[] = [];
  readonly index: RowIndex;
  readonly byNode = new Map<number, number[]>(); // node row -> positions in list

  constructor(scene: Scene, steps: readonly number[], isDrawn: (node: number) => boolean) {
    const applied = new Set<number>();
    for (let match = 0; match < scene.matches.length; match++) {
      const verdict = scene.verdict(match);
      const style = verdict === undefined ? undefined : STYLES[verdict];
      if (style === undefined) continue;
      const nodes = nodesOfMatch(scene, match, steps).filter(isDrawn);
      const box = union(nodes.map((node) => boxOfNode(scene, node)));
      if (box === null) continue;
      if (style === "solid" && scene.patterns[scene.matches.pattern[match]]?.name !== "core_aten")
        for (const node of nodes) applied.add(node);
      this.list.push(makeHull(scene, match, style, nodes, box, isDrawn));
    }
    // Where another pattern took the anchor, or a nearer miss stands there, a near miss is drawn only when asked for.
    const nearest = new Map<number, Hull>();
    for (const hull of this.list) {
      if (hull.style !== "dashed") continue;
      const anchor = scene.matches.anchor[hull.match];
      const best = nearest.get(anchor);
      if (best === undefined || share(scene, hull) > share(scene, best)) nearest.set(anchor, hull);
    }
    this.list.forEach((hull, position) => {
      const anchor = scene.matches.anchor[hull.match];
      // What only brings the program into form touches nearly every node: shown when asked for.
      const forms = scene.patterns[hull.pattern]?.name === "core_aten";
      hull.quiet =
        forms ||
        hull.style === "would" ||
        (hull.style === "dashed" && (applied.has(anchor) || nearest.get(anchor) !== hull || hull.nodes.length < 2));
      for (const node of hull.nodes) {
        const there = this.byNode.get(node);
        if (there === undefined) this.byNode.set(node, [position]);
        else there.push(position);
      }
    });
    this.index = new RowIndex(Int32Array.from(this.list.keys()), (position, out) => {
      const box = this.list[position]?.box;
      if (box !== undefined) Object.assign(out, { x0: box.x0 - 12, y0: box.y0 - 16, x1: box.x1 + 40, y1: box.y1 + 16 });
    });
  }
}

function share(scene: Scene, hull: Hull): number {
  return scene.matches.passed[hull.match] / Math.max(1, scene.matches.total[hull.match]);
}

function boxOfNode(scene: Scene, node: number): Rect {
  const { x, y, w, h } = scene.nodes;
  return rect(x[node], y[node], w[node], h[node]);
}

function makeHull(
  scene: Scene,
  match: number,
  style: HullStyle,
  nodes: number[],
  box: Rect,
  isDrawn: (node: number) => boolean,
): Hull {
  const pattern = scene.matches.pattern[match];
  const double = (scene.patterns[pattern]?.color ?? 0) % 12 >= 6;
  // A hull that lies within another's keeps inside it.
  const padding = style === "would" ? PADDING - 2 : PADDING;
  let loops: Loop[] | null = null;
  let path: Path2D | null = null;
  let second: Path2D | null = null;
  const taken = new Set(nodes);
  const trace = (by: number) => {
    const boxes = nodes.map((node) => boxOfNode(scene, node));
    return hullLoops(boxes, by, (where) => {
      let free = true;
      indexOf(scene).nodes.each(where, (node) => {
        if (!taken.has(node) && isDrawn(node)) free = false;
      });
      return free;
    });
  };
  const draw = (shape: Loop[], radius: number) => {
    const drawn = new Path2D();
    for (const loop of shape) roundedLoop(drawn, loop, radius);
    return drawn;
  };
  const hull: Hull = {
    match,
    pattern,
    style,
    nodes,
    box,
    quiet: false,
    loops: () => (loops ??= trace(padding)),
    path: () => (path ??= draw(hull.loops(), RADIUS)),
    second: () => (double ? (second ??= draw(trace(padding - 3), RADIUS - 2)) : null),
  };
  return hull;
}
