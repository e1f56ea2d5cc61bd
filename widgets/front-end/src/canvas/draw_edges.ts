/** Edges: rounded orthogonal routes with arrows, and pills at the ends of those that were cut. */
import { Fate } from "../lives";
import type { Numbers, Scene } from "../scene";
import { DIM } from "./attention";
import { font, type Frame, roundRect } from "./frame";
import { Detail } from "./lod";
import { plain } from "./text";

const RADIUS = 7;
const REMOVED_DASH = [3, 3];
const NONE: number[] = [];
/** One huge path is slower to stroke than several of moderate size. */
const BATCH = 256;

interface Style {
  colour: string;
  width: number;
  dash: number[];
  alpha: number;
}

export function drawEdges(frame: Frame): void {
  const { shown, theme, attention, routeRows } = frame;
  const grey: Style = { colour: theme.edge, width: 1.25, dash: NONE, alpha: 1 };
  if (attention.dims) {
    drawBatches(
      frame,
      routeRows.filter((row) => shown.routes[row] !== Fate.absent && !isLit(frame, row)),
      { ...grey, alpha: DIM },
    );
  }
  const lit = attention.dims ? routeRows.filter((row) => isLit(frame, row)) : routeRows;
  const of = (fate: Fate) => lit.filter((row) => shown.routes[row] === fate);
  drawBatches(frame, of(Fate.unchanged), grey);
  if (shown.comparing) {
    drawBatches(frame, of(Fate.removed), { colour: theme.fail, width: 1.25, dash: REMOVED_DASH, alpha: 0.5 });
    drawBatches(frame, of(Fate.added), { colour: theme.pass, width: 1.75, dash: NONE, alpha: 1 });
  }
}

function isLit(frame: Frame, row: number): boolean {
  const { scene, attention } = frame;
  const { src, dst, src_module, dst_module } = scene.routes;
  return (src_module[row] !== 0 || attention.isLit(src[row])) && (dst_module[row] !== 0 || attention.isLit(dst[row]));
}

function drawBatches(frame: Frame, rows: readonly number[], style: Style): void {
  for (let i = 0; i < rows.length; i += BATCH) drawRoutes(frame, rows.slice(i, i + BATCH), style);
}

/** Draw routes in one style; also used for what is selected or hovered. */
export function drawRoutes(frame: Frame, rows: readonly number[], style: Style): void {
  if (rows.length === 0) return;
  const { context, scene, detail, px } = frame;
  context.globalAlpha = style.alpha * frame.arriving;
  context.strokeStyle = context.fillStyle = style.colour;
  context.lineWidth = Math.max(style.width, Math.min(1, style.width) * px * (detail === Detail.blocks ? 0.7 : 0.85));
  context.setLineDash(style.dash);
  context.beginPath();
  for (const row of rows) traceRoute(frame, row, detail >= Detail.boxes);
  context.stroke();
  context.setLineDash(NONE);
  if (detail >= Detail.boxes) {
    context.beginPath();
    for (const row of rows) traceArrow(context, scene, row);
    context.fill();
  }
  context.globalAlpha = 1;
}

function traceRoute({ context, scene, attention }: Frame, row: number, rounded: boolean): void {
  const first = scene.routes.point[row];
  const count = scene.routes.points[row];
  if (scene.routes.stub[row] && !attention.state.hover.cut.includes(row)) {
    const half = count >> 1;
    traceLine(context, scene, first, half, rounded, false);
    traceLine(context, scene, first + half, count - half, rounded, true);
  } else traceLine(context, scene, first, count, rounded, true);
}

function traceLine(
  context: CanvasRenderingContext2D,
  scene: Scene,
  first: number,
  count: number,
  rounded: boolean,
  arrow: boolean,
): void {
  const { x, y } = scene.points;
  const last = first + count - 1;
  if (count < 2) return;
  context.moveTo(x[first], y[first]);
  for (let i = first + 1; i < last; i++) {
    if (!rounded) {
      context.lineTo(x[i], y[i]);
      continue;
    }
    const before = Math.abs(x[i] - x[i - 1]) + Math.abs(y[i] - y[i - 1]);
    const after = Math.abs(x[i + 1] - x[i]) + Math.abs(y[i + 1] - y[i]);
    context.arcTo(
      x[i],
      y[i],
      x[i + 1],
      y[i + 1],
      Math.min(RADIUS, before / (i === first + 1 ? 1 : 2), after / (i === last - 1 ? 1 : 2)),
    );
  }
  // The line ends inside the arrow, so that its square end does not show at the tip.
  const dx = Math.sign(x[last] - x[last - 1]);
  const dy = Math.sign(y[last] - y[last - 1]);
  const short = arrow && rounded ? 4 : 0;
  context.lineTo(x[last] - dx * short, y[last] - dy * short);
}

function traceArrow(context: CanvasRenderingContext2D, scene: Scene, row: number): void {
  const { x, y } = scene.points;
  const last = scene.routes.point[row] + scene.routes.points[row] - 1;
  const dx = x[last] - x[last - 1];
  const dy = y[last] - y[last - 1];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  context.moveTo(x[last] - ux * 5 - uy * 3.5, y[last] - uy * 5 + ux * 3.5);
  context.lineTo(x[last] - ux * 5 + uy * 3.5, y[last] - uy * 5 - ux * 3.5);
  context.lineTo(x[last], y[last]);
}

/** The end of a cut edge: a pill that names the node at the other end. A click on it travels there. */
export interface Stub {
  x: number; // centre
  y: number;
  w: number;
  /** Beyond this the pill begins: what is drawn whole leaves the middle of the box. */
  middle: number;
  /** The node (or module) at the far end of each edge that ends here. */
  far: { row: number; module: boolean }[];
  routes: number[];
  /** "in": the far end produces; "out": it consumes. */
  direction: "in" | "out";
  text: string;
}

export const PILL = 16;

/** Pills by route rows. Edges of one producer that are cut at the same place share a pill. */
export function stubsOf(frame: Frame, rows: readonly number[]): Stub[] {
  const { scene, shown } = frame;
  const { routes, points } = scene;
  const stubs = new Map<string, Stub>();
  for (const row of rows) {
    if (!routes.stub[row] || shown.routes[row] === Fate.absent || routes.points[row] < 2) continue;
    const first = routes.point[row];
    const half = routes.points[row] >> 1;
    for (const direction of ["out", "in"] as const) {
      const out = direction === "out";
      const at = first + half - +out;
      const far = {
        row: (out ? routes.dst : routes.src)[row],
        module: (out ? routes.dst_module : routes.src_module)[row] !== 0,
      };
      const key = `${direction} ${Math.round(points.x[at])} ${Math.round(points.y[at])}`;
      const stub = stubs.get(key);
      if (stub !== undefined) {
        stub.far.push(far);
        stub.routes.push(row);
      } else
        stubs.set(key, {
          x: points.x[at],
          y: points.y[at],
          w: 0,
          middle: middleOf(scene, out ? routes.src : routes.dst, out ? routes.src_module : routes.dst_module, row),
          far: [far],
          routes: [row],
          direction,
          text: "",
        });
    }
  }
  const label = font(10.5, frame.theme.ui);
  for (const stub of stubs.values()) {
    const [one] = stub.far;
    const others = new Set(stub.far.map((far) => far.row)).size - 1;
    stub.text =
      frame.text.fit(one === undefined ? "" : farName(scene, one), 90, label) + (others > 0 ? ` +${others}` : "");
    stub.w = frame.text.width(plain(stub.text), label) + 24;
    stub.x = Math.max(stub.x, stub.middle + stub.w / 2);
  }
  return [...stubs.values()];
}

function middleOf(scene: Scene, ends: Numbers, isModule: Numbers, route: number): number {
  const { x, w } = isModule[route] ? scene.modules : scene.nodes;
  return x[ends[route]] + w[ends[route]] / 2 + 5;
}

function farName(scene: Scene, far: { row: number; module: boolean }): string {
  return far.module ? scene.modules.label(far.row) || scene.modules.path(far.row) : scene.nodes.id(far.row);
}

export function drawStubs(frame: Frame, stubs: readonly Stub[]): void {
  if (frame.detail < Detail.labels) return;
  const { context, theme } = frame;
  context.textBaseline = "middle";
  context.font = font(10.5, theme.ui);
  context.lineWidth = Math.max(1, frame.px);
  for (const stub of stubs) {
    const lit = stub.routes.some((row) => isLit(frame, row));
    context.globalAlpha = (lit ? 1 : DIM) * frame.arriving;
    const x = stub.x - stub.w / 2;
    roundRect(context, x, stub.y - PILL / 2, stub.w, PILL, PILL / 2);
    context.fillStyle = theme.canvas;
    context.fill();
    context.strokeStyle = theme.edge;
    context.stroke();
    context.fillStyle = theme.text2;
    context.fillText(stub.text, x + 16, stub.y + 0.5);
    const up = stub.direction === "in" ? -1 : 1;
    context.beginPath();
    context.moveTo(x + 5.5, stub.y - 2 * up);
    context.lineTo(x + 12.5, stub.y - 2 * up);
    context.lineTo(x + 9, stub.y + 3 * up);
    context.fill();
  }
  context.globalAlpha = 1;
}
