/** Node boxes at every level of detail, in their look of the moment: plain, fused, removed, added, changed, unchanged. */
import { Fate } from "../lives";
import { Flag, Kind } from "../scene";
import { DIM } from "./attention";
import { patternColour } from "./draw_hulls";
import { font, type Frame, roundRect } from "./frame";
import { Detail, readable } from "./lod";
import { colourOf, type Fill, type Theme } from "./theme";

const RADIUS = 5;
const SPINE = 3.5;
const CONSTANT_DASH = [2.5, 2];
const NONE: number[] = [];
const PLAIN: Fill = { fill: "transparent", spine: "#888" };

export function drawNodes(frame: Frame, except: ReadonlySet<number> | null = null): void {
  const { shown, attention, nodeRows } = frame;
  if (frame.detail === Detail.blocks) {
    drawBlocks(frame);
    return;
  }
  const dims = attention.dims;
  for (const row of nodeRows) {
    if (shown.nodes[row] === Fate.absent || except?.has(row) === true) continue;
    drawNode(frame, row, (dims && !attention.isLit(row) ? DIM : 1) * frame.arriving);
  }
  frame.context.globalAlpha = 1;
}

/** From afar only colour is left: one path per colour. */
function drawBlocks(frame: Frame): void {
  const { context, scene, shown, theme, nodes } = frame;
  const byColour = new Map<string, number[]>();
  for (const row of frame.nodeRows) {
    const fate = shown.nodes[row];
    if (fate === Fate.absent) continue;
    const lit = frame.attention.isLit(row);
    const colour = colourOf(theme, fate, fillOf(frame, row).spine);
    const key = lit ? colour : `${colour} dim`;
    const rows = byColour.get(key);
    if (rows === undefined) byColour.set(key, [row]);
    else rows.push(row);
  }
  for (const [key, rows] of byColour) {
    const [colour = "", dim] = key.split(" dim");
    context.globalAlpha = (dim === undefined ? 0.7 : 0.7 * DIM) * frame.arriving;
    context.fillStyle = colour;
    context.beginPath();
    for (const row of rows) {
      const constant = scene.nodes.kind[row] === Kind.constant ? 0.6 : 1;
      context.rect(
        nodes.x[row] as number,
        nodes.y[row] as number,
        (nodes.w[row] as number) * constant,
        (nodes.h[row] as number) * constant,
      );
    }
    context.fill();
  }
  context.globalAlpha = 1;
}

function fillOf(frame: Frame, row: number): Fill {
  const { scene, theme } = frame;
  const own = (scene.nodes.flags[row] & Flag.own) !== 0;
  const pattern = scene.nodes.pattern[row];
  if (own && pattern >= 0) {
    const colour = patternColour(theme, scene.patterns[pattern]?.color ?? 0);
    return { fill: colour, spine: colour };
  }
  return theme.categories[scene.category(row)] ?? theme.categories["other"] ?? PLAIN;
}

/** Draw one node. Boxes come from the frame; the opacity from the caller, who may be moving it. */
export function drawNode(frame: Frame, row: number, alpha: number): void {
  const { context, scene, theme, shown, nodes, px } = frame;
  const x = nodes.x[row] as number;
  const y = nodes.y[row] as number;
  const w = nodes.w[row] as number;
  const h = nodes.h[row] as number;
  const kind = scene.nodes.kind[row];
  const fate = shown.comparing ? shown.nodes[row] : Fate.absent;
  const pill = kind === Kind.constant || kind === Kind.input || kind === Kind.output;
  const radius = pill ? h / 2 : RADIUS;
  const { fill, spine } = fillOf(frame, row);
  const own = (scene.nodes.flags[row] & Flag.own) !== 0;

  context.globalAlpha = alpha;
  roundRect(context, x, y, w, h, radius);
  context.fillStyle = theme.canvas;
  context.fill();
  if (fate === Fate.removed || fate === Fate.added) {
    context.fillStyle = fate === Fate.added ? theme.passBg : theme.failBg;
    context.fill();
    if (fate === Fate.removed) {
      context.globalAlpha = alpha * 0.3;
      context.fillStyle = hatch(context, theme.fail);
      context.fill();
      context.globalAlpha = alpha;
    }
    context.lineWidth = Math.max(1.4, px);
    context.strokeStyle = colourOf(theme, fate, theme.edge);
    context.stroke();
  } else if (pill) {
    context.lineWidth = Math.max(1, px);
    context.strokeStyle = kind === Kind.constant ? spine : theme.edge;
    context.setLineDash(kind === Kind.constant ? CONSTANT_DASH : NONE);
    context.stroke();
    context.setLineDash(NONE);
  } else {
    const grey = fate === Fate.unchanged;
    const colours = grey ? (theme.categories["shape"] ?? PLAIN) : { fill, spine };
    context.globalAlpha = own && !grey ? alpha * 0.15 : alpha;
    context.fillStyle = colours.fill;
    context.fill();
    context.globalAlpha = grey ? alpha * 0.6 : alpha * 0.75;
    context.lineWidth = Math.max(own && !grey ? 1.25 : 1, px);
    context.strokeStyle = grey ? theme.edge : colours.spine;
    context.stroke();
    context.globalAlpha = alpha;
    if (!grey) {
      // The spine follows the rounded left edge.
      context.fillStyle = colours.spine;
      context.beginPath();
      context.moveTo(x + SPINE, y);
      context.lineTo(x + RADIUS, y);
      context.arcTo(x, y, x, y + RADIUS, RADIUS);
      context.lineTo(x, y + h - RADIUS);
      context.arcTo(x, y + h, x + RADIUS, y + h, RADIUS);
      context.lineTo(x + SPINE, y + h);
      context.closePath();
      context.fill();
    }
  }
  if (frame.detail >= Detail.labels) drawLabel(frame, row, fate, pill, alpha);
  if ((scene.nodes.flags[row] & Flag.skipped) !== 0) drawSkipped(context, theme, x + w, y, px);
}

function drawLabel(frame: Frame, row: number, fate: number, pill: boolean, alpha: number): void {
  const { context, scene, theme, nodes, text } = frame;
  if (!readable(pill ? 10.5 : 11, frame.zoom, frame.ratio)) return;
  const x = nodes.x[row] as number;
  const y = nodes.y[row] as number;
  const w = nodes.w[row] as number;
  const h = nodes.h[row] as number;
  const comparing = fate !== Fate.absent;
  const middle = y + h / 2 + 0.5;
  context.textBaseline = "middle";
  if (pill) {
    const label = font(10.5, theme.ui);
    context.font = label;
    context.fillStyle = theme.text2;
    context.textAlign = "center";
    context.fillText(text.fit(shortName(frame, row), w - 10, label), x + w / 2, middle);
    context.textAlign = "left";
    return;
  }
  let start = x + 10;
  if (fate > Fate.unchanged) {
    context.font = font(12, theme.ui, 700);
    context.fillStyle = colourOf(theme, fate, theme.text2);
    context.fillText("··−+~"[fate] ?? "", x + 6, middle);
    start = x + (w < 70 ? 16 : 19);
  }
  const detail = scene.nodes.detail(row);
  const full = frame.detail === Detail.full && !comparing;
  const room = x + w - (comparing ? 4 : 7) - start;
  const size = full ? 9 : 11;
  const label = font(size, theme.ui, 600);
  const id = scene.nodes.id(row);
  // A name that does not fit says less than the operator's.
  const named = (full || comparing) && text.width(id.length > 100 ? id.slice(0, 100) : id, label) <= room;
  const name = named || scene.nodes.label(row) === "" ? id : scene.nodes.label(row);
  const small = full ? font(7.5, theme.code) : font(10.5, theme.ui);
  const nameWidth = Math.min(room, text.width(name.length > 100 ? name.slice(0, 100) : name, label));
  const detailRoom = full ? room : room - nameWidth - 8;
  const shown = text.fit(name, room, label);
  const line = full && detail !== "" ? y + h / 2 - 4.5 : middle;
  context.font = label;
  context.fillStyle = fate === Fate.unchanged ? theme.text2 : theme.text;
  context.fillText(shown, start, line);
  if (fate === Fate.removed) {
    context.strokeStyle = theme.fail;
    context.lineWidth = 1;
    context.globalAlpha = alpha * 0.9;
    context.beginPath();
    context.moveTo(start, middle + 0.5);
    context.lineTo(start + text.width(shown, label), middle + 0.5);
    context.stroke();
    context.globalAlpha = alpha;
  }
  if (detail === "" || detailRoom < 14 || comparing) return;
  context.font = small;
  context.fillStyle = theme.text2;
  if (full) context.fillText(text.fit(detail, detailRoom, small), start, y + h / 2 + 6);
  else {
    context.textAlign = "right";
    context.fillText(shorten(frame, detail, detailRoom, small), x + w - 7, middle);
    context.textAlign = "left";
  }
}

/** A detail is a list, most telling part first: it loses parts from its end, and is left out rather than cut. */
function shorten(frame: Frame, detail: string, room: number, label: string): string {
  if (detail.length > 80) return frame.text.fit(detail, room, label);
  for (let said = detail; ; said = said.slice(0, Math.max(0, said.lastIndexOf(", ")))) {
    if (said === "" || frame.text.width(said, label) <= room) return said;
  }
}

/** Of a constant the last part of its path, of an input or output its own name. */
function shortName(frame: Frame, row: number): string {
  const { nodes } = frame.scene;
  return nodes.label(row) || nodes.id(row);
}

function drawSkipped(context: CanvasRenderingContext2D, theme: Theme, x: number, y: number, px: number): void {
  context.beginPath();
  context.arc(x, y, 6.5, 0, 2 * Math.PI);
  context.fillStyle = theme.canvas;
  context.fill();
  context.strokeStyle = theme.text2;
  context.lineWidth = Math.max(1.4, px);
  context.moveTo(x + 4.6, y - 4.6);
  context.lineTo(x - 4.6, y + 4.6);
  context.stroke();
}

const hatches = new Map<string, CanvasPattern>();

/** 45° lines 6 px apart, in a colour. */
function hatch(context: CanvasRenderingContext2D, colour: string): CanvasPattern | string {
  const known = hatches.get(colour);
  if (known !== undefined) return known;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 24; // drawn four times as fine: it stays crisp when zoomed
  const pen = tile.getContext("2d");
  if (pen === null) return colour;
  pen.strokeStyle = colour;
  pen.lineWidth = 4;
  for (const offset of [-24, 0, 24]) {
    pen.moveTo(offset - 6, 30);
    pen.lineTo(offset + 30, -6);
  }
  pen.stroke();
  const pattern = context.createPattern(tile, "repeat");
  if (pattern === null) return colour;
  pattern.setTransform(new DOMMatrix().scale(0.25));
  hatches.set(colour, pattern);
  return pattern;
}
