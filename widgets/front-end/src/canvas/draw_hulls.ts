/** Hulls around matches, and their tags. */
import { font, type Frame, roundRect } from "./frame";
import type { Hull } from "./hulls_shown";
import { DIM } from "./attention";
import { Detail } from "./lod";
import type { Theme } from "./theme";

const DASHED = [5, 4];
const DOTTED = [1.5, 3];
const NONE: number[] = [];

export function patternColour(theme: Theme, color: number): string {
  return theme.patterns[color % 6] ?? theme.text2;
}

function hullColour(frame: Frame, hull: Hull): string {
  if (hull.style === "dotted") return frame.theme.text2;
  return patternColour(frame.theme, frame.scene.patterns[hull.pattern]?.color ?? 0);
}

export function drawHulls(frame: Frame): void {
  const { context, shown, attention, detail, px } = frame;
  if (detail === Detail.blocks) {
    drawBars(frame);
    return;
  }
  for (const row of frame.hullRows) {
    const hull = shown.hulls.list[row];
    if (hull === undefined || !attention.isHullShown(hull)) continue;
    const colour = hullColour(frame, hull);
    const alpha = (attention.isHullLit(hull) ? 1 : DIM) * frame.arriving;
    context.globalAlpha = alpha;
    context.strokeStyle = context.fillStyle = colour;
    const path = hull.path();
    if (hull.style === "solid") {
      context.globalAlpha = alpha * (shown.comparing ? 0.05 : 0.09);
      context.fill(path);
      context.globalAlpha = alpha;
    }
    const focused = hull.pattern === attention.pattern;
    context.lineWidth = Math.max(focused ? 2 : 1.5, (focused ? 1.75 : 1.25) * px);
    context.setLineDash(hull.style === "dashed" ? DASHED : hull.style === "solid" ? NONE : DOTTED);
    context.stroke(path);
    context.setLineDash(NONE);
    const second = detail >= Detail.boxes ? hull.second() : null;
    if (second !== null) {
      context.lineWidth = Math.max(1, px);
      context.stroke(second);
    }
  }
  context.globalAlpha = 1;
}

/** From afar a hull is a filled bar; a near miss keeps its hollow look. There are many: one path per look. */
function drawBars(frame: Frame): void {
  const { context, shown, attention, px } = frame;
  const looks = new Map<string, Hull[]>();
  for (const row of frame.hullRows) {
    const hull = shown.hulls.list[row];
    if (hull === undefined || !attention.isHullShown(hull)) continue;
    const look = `${hull.style === "solid" ? "fill" : "line"} ${attention.isHullLit(hull) ? 1 : DIM} ${hullColour(frame, hull)}`;
    const alike = looks.get(look);
    if (alike === undefined) looks.set(look, [hull]);
    else alike.push(hull);
  }
  for (const [look, hulls] of looks) {
    const [how, alpha, colour = ""] = look.split(" ");
    context.beginPath();
    for (const { box } of hulls) context.rect(box.x0 - 4, box.y0 - 4, box.x1 - box.x0 + 8, box.y1 - box.y0 + 8);
    context.globalAlpha = Number(alpha) * frame.arriving * (how === "fill" ? 0.55 : 1);
    context.fillStyle = context.strokeStyle = colour;
    context.lineWidth = 1.5 * px;
    if (how === "fill") context.fill();
    else context.stroke();
  }
  context.globalAlpha = 1;
}

export function drawTags(frame: Frame): void {
  if (frame.detail === Detail.blocks) return;
  const { shown, attention } = frame;
  for (const row of frame.hullRows) {
    const hull = shown.hulls.list[row];
    if (hull !== undefined && attention.isHullShown(hull)) drawTag(frame, hull);
  }
  frame.context.globalAlpha = 1;
}

function drawTag(frame: Frame, hull: Hull): void {
  const { context, theme, scene, attention, zoom } = frame;
  const box = hull.box;
  if ((box.x1 - box.x0) * zoom < 20) return;
  // A number stays readable from afar, as far as its hull has room for it.
  const scale = Math.max(1, Math.min(0.8 / zoom, (box.x1 - box.x0) / 34, 1.7));
  const pattern = scene.patterns[hull.pattern];
  const number = String(pattern?.number ?? "");
  const near = hull.style === "dashed";
  const short = frame.detail < Detail.labels;
  const count = `${scene.matches.passed[hull.match]}/${scene.matches.total[hull.match]}`;
  const text = near
    ? short
      ? count
      : scene.verdict(hull.match) === "declined"
        ? `${number} declined`
        : `${number} near ${count}`
    : hull.style === "dotted"
      ? `⊘ ${number}`
      : number;
  const hollow = hull.style !== "solid";
  const colour = hullColour(frame, hull);
  const label = font(10.5, theme.ui, 600);
  const width = Math.max(15, frame.text.width(text, label) + 9);

  context.save();
  context.globalAlpha = (attention.isHullLit(hull) ? 1 : DIM) * frame.arriving;
  const anchor = near ? lowest(hull) : topLeft(hull);
  context.translate(anchor[0], anchor[1]);
  context.scale(scale, scale);
  const x = near ? -width + 14 : 8;
  const y = near ? -6 : -8;
  roundRect(context, x, y, width, 15, 4);
  context.fillStyle = hollow ? theme.canvas : colour;
  context.fill();
  if (hollow) {
    context.strokeStyle = colour;
    context.lineWidth = 1.2;
    context.setLineDash(near ? [3, 2] : DOTTED);
    context.stroke();
    context.setLineDash(NONE);
  } else if ((pattern?.color ?? 0) % 12 >= 6) {
    roundRect(context, x + 1.5, y + 1.5, width - 3, 12, 2.5);
    context.strokeStyle = theme.onPattern;
    context.lineWidth = 0.8;
    context.stroke();
  }
  context.fillStyle = hollow ? colour : theme.onPattern;
  context.font = label;
  context.textBaseline = "middle";
  context.textAlign = "center";
  context.fillText(text, x + width / 2, y + 8);
  context.restore();
}

/** The left end of the topmost line, and the right end of the lowest. */
function topLeft(hull: Hull): [number, number] {
  let best: [number, number] = [Infinity, Infinity];
  for (const loop of hull.loops())
    for (const [x, y] of loop) if (y < best[1] || (y === best[1] && x < best[0])) best = [x, y];
  return best;
}

function lowest(hull: Hull): [number, number] {
  let best: [number, number] = [-Infinity, -Infinity];
  for (const loop of hull.loops())
    for (const [x, y] of loop) if (y > best[1] || (y === best[1] && x > best[0])) best = [x, y];
  return best;
}
