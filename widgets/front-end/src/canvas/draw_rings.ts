/** What lies over the graph: hover, selection, fault, provenance, and the labels of the edges looked at. */
import { fate, Fate } from "../lives";
import { lineage } from "../provenance";
import type { Scene } from "../scene";
import { drawRoutes } from "./draw_edges";
import { font, type Frame, roundRect } from "./frame";
import { Detail } from "./lod";

const RING_GAP = 3;
const DOTTED = [1.5, 3];
const COUNTERPART = [4, 3];
const NONE: number[] = [];

export function drawOverlay(frame: Frame, fault: number): void {
  const { attention, shown, routeRows, theme } = frame;
  const looked = routeRows.filter((row) => isLookedAt(frame, row) || leadsTo(frame, row, fault));
  if (frame.detail >= Detail.boxes) {
    drawRoutes(
      frame,
      looked.filter((row) => !leadsTo(frame, row, fault)),
      { colour: theme.accent, width: 1.75, dash: NONE, alpha: 1 },
    );
    drawRoutes(
      frame,
      looked.filter((row) => leadsTo(frame, row, fault)),
      { colour: theme.fail, width: 2, dash: NONE, alpha: 1 },
    );
  }
  drawProvenance(frame);
  drawCounterparts(frame);
  if (attention.hovered >= 0 && shown.nodes[attention.hovered] !== Fate.absent) drawHover(frame, attention.hovered);
  for (const row of attention.selected)
    if (row >= 0 && shown.nodes[row] !== Fate.absent) drawRing(frame, row, theme.accent, 2, RING_GAP);
  if (fault >= 0 && shown.nodes[fault] !== Fate.absent) drawFault(frame, fault);
  drawEdgeLabels(frame, looked, true);
}

/** What stands for a selected or hovered node that this pane does not show: in Split the other side of a rewrite. */
function drawCounterparts(frame: Frame): void {
  const { context, attention, shown, scene, theme } = frame;
  if (shown.comparing) return;
  context.setLineDash(COUNTERPART);
  for (const node of new Set([...attention.selected, attention.hovered])) {
    if (node < 0 || scene.nodeAlive(node, shown.to)) continue;
    for (const other of lineage(scene, node, shown.to))
      if (shown.nodes[other] !== Fate.absent) drawRing(frame, other, theme.accent, 2, RING_GAP);
  }
  context.setLineDash(NONE);
}

/** Edges into a selected node, and all of a hovered one's: constants come in from the side, so inputs read downwards. */
function isLookedAt(frame: Frame, row: number): boolean {
  const { attention, shown, scene } = frame;
  if (shown.routes[row] === Fate.absent) return false;
  if (attention.state.hover.cut.includes(row)) return true;
  const { src, dst, src_module, dst_module } = scene.routes;
  if (dst_module[row] === 0 && (attention.selected.has(dst[row]) || dst[row] === attention.hovered)) return true;
  return src_module[row] === 0 && src[row] === attention.hovered;
}

function leadsTo(frame: Frame, row: number, fault: number): boolean {
  const { shown, scene } = frame;
  const { src, dst, src_module, dst_module } = scene.routes;
  return (
    fault >= 0 &&
    shown.routes[row] !== Fate.absent &&
    dst_module[row] === 0 &&
    dst[row] === fault &&
    src_module[row] === 0 &&
    frame.attention.selected.has(src[row])
  );
}

function drawHover(frame: Frame, row: number): void {
  const { context, theme, nodes, px } = frame;
  roundRect(context, nodes.x[row] as number, nodes.y[row] as number, nodes.w[row] as number, nodes.h[row] as number, 5);
  context.strokeStyle = theme.text;
  context.lineWidth = Math.max(1, px);
  context.globalAlpha = 0.75;
  context.stroke();
  context.globalAlpha = 1;
}

function drawRing(frame: Frame, row: number, colour: string, width: number, gap: number): void {
  const { context, nodes, px } = frame;
  const outside = Math.max(gap, gap * px * 0.7);
  const x = (nodes.x[row] as number) - outside;
  const y = (nodes.y[row] as number) - outside;
  roundRect(context, x, y, (nodes.w[row] as number) + 2 * outside, (nodes.h[row] as number) + 2 * outside, 5 + outside);
  context.strokeStyle = colour;
  context.lineWidth = Math.max(width, width * px);
  context.stroke();
}

function drawFault(frame: Frame, row: number): void {
  const { context, theme, nodes, attention, px } = frame;
  drawRing(frame, row, theme.fail, 2, attention.selected.has(row) ? RING_GAP + 3 : RING_GAP);
  const scale = Math.max(1, px * 0.8);
  context.save();
  context.translate((nodes.x[row] as number) + (nodes.w[row] as number) + 1, (nodes.y[row] as number) - 1);
  context.scale(scale, scale);
  context.beginPath();
  context.arc(0, 0, 7.5, 0, 2 * Math.PI);
  context.fillStyle = theme.fail;
  context.fill();
  context.strokeStyle = theme.onPattern;
  context.lineWidth = 1.7;
  context.lineCap = "round";
  context.beginPath();
  context.moveTo(-2.6, -2.6);
  context.lineTo(2.6, 2.6);
  context.moveTo(2.6, -2.6);
  context.lineTo(-2.6, 2.6);
  context.stroke();
  context.restore();
}

/** Dotted lines from what was removed to what came of it, for the node looked at, while both are on screen. */
function drawProvenance(frame: Frame): void {
  const { context, theme, scene, shown, attention, nodes, px } = frame;
  if (!shown.comparing) return;
  const looked = new Set([...attention.selected, attention.hovered]);
  context.strokeStyle = theme.accent;
  context.lineWidth = Math.max(1.4, px);
  context.lineCap = "round";
  context.setLineDash(DOTTED);
  for (const node of looked) {
    if (node < 0 || shown.nodes[node] === Fate.absent) continue;
    const isNew = fate(scene.nodes.born[node], scene.nodes.died[node], shown.from, shown.to) === Fate.added;
    for (const other of lineage(scene, node, isNew ? shown.from : shown.to)) {
      if (other === node || shown.nodes[other] === Fate.absent) continue;
      const [old, made] = isNew ? [other, node] : [node, other];
      const right = (nodes.x[made] as number) >= (nodes.x[old] as number) + (nodes.w[old] as number) / 2;
      const x0 = (nodes.x[old] as number) + (right ? (nodes.w[old] as number) + 1 : -1);
      const x1 = (nodes.x[made] as number) + (right ? -2 : (nodes.w[made] as number) + 2);
      const y0 = (nodes.y[old] as number) + (nodes.h[old] as number) / 2;
      const y1 = (nodes.y[made] as number) + (nodes.h[made] as number) / 2;
      const bend = Math.max(24, Math.min(60, Math.abs(x1 - x0) / 2)) * (right ? 1 : -1);
      context.beginPath();
      context.moveTo(x0, y0);
      context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      context.stroke();
    }
  }
  context.setLineDash(NONE);
  context.lineCap = "butt";
}

/**
 * Shapes and argument names: on every edge from close by, else on those looked at. Labels never cover each other, nor a
 * line that is not much longer than they are, unless it is `looked` at.
 */
export function drawEdgeLabels(frame: Frame, rows: readonly number[], looked: boolean): void {
  if (frame.detail < Detail.labels || rows.length === 0) return;
  const { context, theme, scene, shown, text, px } = frame;
  const { routes, points, edges, nodes } = scene;
  const size = Math.min(10, 10 * px);
  const label = font(size, theme.code);
  const taken: { x: number; y: number; w: number }[] = [];
  context.textBaseline = "middle";
  context.textAlign = "center";
  const put = (said: string, x: number, y: number) => {
    const shownText = text.fit(said, 150, label);
    const w = text.width(shownText, label) + 0.8 * size;
    const h = 1.5 * size;
    if (taken.some((other) => Math.abs(other.y - y) < h && Math.abs(other.x - x) < (other.w + w) / 2)) return;
    taken.push({ x, y, w });
    roundRect(context, x - w / 2, y - h / 2, w, h, 0.3 * size);
    context.fillStyle = theme.canvas;
    context.fill();
    context.lineWidth = 0.75 * Math.min(1, px);
    context.strokeStyle = theme.line2;
    context.stroke();
    context.font = label;
    context.fillStyle = theme.text2;
    context.fillText(shownText, x, y + 0.05 * size);
  };
  for (const row of rows) {
    if (shown.routes[row] === Fate.absent || routes.points[row] < 2) continue;
    const edge = routes.edge[row];
    const last = routes.point[row] + routes.points[row] - 1;
    const into = edge < 0 || routes.dst_module[row] ? "" : edges.arg(edge);
    if (into !== "" && Math.abs(points.y[last] - points.y[last - 1]) >= (looked ? 14 : 22))
      put(into, points.x[last], points.y[last] - 11);
    if (routes.src_module[row] || routes.stub[row]) continue;
    const shape = nodes.shape(routes.src[row]);
    const across = looked ? 10 : Math.min(150, text.width(shape.slice(0, 60), label)) + 24;
    const at = longestSegment(scene, row, across, looked ? 10 : 26);
    if (shape !== "" && at !== null) put(shape, at[0], at[1]);
  }
  context.textAlign = "left";
}

/** The middle of the longest part of a route that is longer than `across` (level) or `along` (upright). */
function longestSegment(scene: Scene, row: number, across: number, along: number): [number, number] | null {
  const { x, y } = scene.points;
  const first = scene.routes.point[row];
  let best: [number, number] | null = null;
  let length = 0;
  for (let i = first + 1; i < first + scene.routes.points[row]; i++) {
    const here = Math.abs(x[i] - x[i - 1]) + Math.abs(y[i] - y[i - 1]);
    if (here <= length || here < (Math.abs(x[i] - x[i - 1]) > Math.abs(y[i] - y[i - 1]) ? across : along)) continue;
    length = here;
    best = [(x[i] + x[i - 1]) / 2, (y[i] + y[i - 1]) / 2];
  }
  return best;
}
