/** Module boxes: alternating grounds, a header with name and what is inside. */
import type { Scene } from "../scene";
import { font, type Frame } from "./frame";
import { Detail } from "./lod";

export const HEADER = 22;
const RADIUS = 7;

const depths = new WeakMap<Scene, Uint8Array>();

function depthsOf(scene: Scene): Uint8Array {
  let depth = depths.get(scene);
  if (depth === undefined) {
    depth = new Uint8Array(scene.modules.length);
    // Parents come before their children in the table. Only boxes that are drawn nest.
    for (let row = 1; row < depth.length; row++) {
      const drawn = scene.moduleVisible(row) && scene.modules.path(row) !== "" ? 1 : 0;
      depth[row] = Math.min(255, (depth[scene.modules.parent[row]] ?? 0) + drawn);
    }
    depths.set(scene, depth);
  }
  return depth;
}

export function drawModules(frame: Frame): void {
  const { context, theme, scene, modules, px } = frame;
  const depth = depthsOf(scene);
  context.lineWidth = Math.max(1, px);
  const paint = (path: Path2D, odd: number, open: number) => {
    context.fillStyle = odd ? theme.group : theme.group2;
    context.fill(path);
    if (!open) {
      // A closed module is a thing to look into: its ground is a little stronger than an open one's.
      context.globalAlpha = 0.55;
      context.fillStyle = theme.grid;
      context.fill(path);
      context.globalAlpha = 1;
    }
    context.strokeStyle = theme.groupBorder;
    context.stroke(path);
  };
  // From afar there are thousands of closed ones, which nothing lies in: one path for all at an even depth, one for all others.
  const closed: Path2D[] = [];
  for (const row of frame.moduleRows) {
    if (scene.modules.path(row) === "") continue; // the root is the whole pane
    const [x, y, w, h] = [
      modules.x[row] as number,
      modules.y[row] as number,
      modules.w[row] as number,
      modules.h[row] as number,
    ];
    const odd = (depth[row] as number) % 2;
    const open = scene.modules.open[row] as number;
    if (frame.detail === Detail.blocks && !open) (closed[odd] ??= new Path2D()).rect(x, y, w, h);
    else {
      const path = new Path2D();
      path.roundRect(x, y, w, h, RADIUS);
      paint(path, odd, open);
    }
  }
  closed.forEach((path, odd) => paint(path, odd, 0));
}

/** Names last, over the edges' bundles: a header is never crossed out by a line. */
export function drawModuleHeaders(frame: Frame): void {
  const middles = new Map<number, number>();
  for (const row of frame.moduleRows) if (frame.scene.modules.path(row) !== "") drawHeader(frame, row, middles);
}

/** `middles`: where the headers drawn so far are, by row; a row without one has its parent's. */
function drawHeader(frame: Frame, row: number, middles: Map<number, number>): void {
  const { context, theme, scene, modules, zoom } = frame;
  const open = scene.modules.open[row] !== 0;
  const x = modules.x[row] as number;
  const y = modules.y[row] as number;
  const w = modules.w[row] as number;
  const h = modules.h[row] as number;
  // Seen from afar a name keeps a readable size as long as its box has room for it.
  // An open one's header must not run into what is below it.
  const scale = Math.max(
    1,
    Math.min(10.5 / 11 / zoom, (h * 0.8) / HEADER, open && frame.detail > Detail.blocks ? 1.5 : 40),
  );
  if (11 * scale * zoom * frame.ratio < 9 || w * zoom < 44) return;
  const middle = open || h < HEADER * scale * 1.5 ? y + Math.min(h, HEADER * scale) / 2 : y + h / 2;
  // From afar the headers of nested boxes are closer than their letters are high: the outer one is read.
  const above = middles.get(scene.modules.parent[row]) ?? -Infinity;
  const clear = middle - above > 12 * scale;
  middles.set(row, clear ? middle : above);
  if (!clear) return;

  context.save();
  context.translate(x, middle);
  context.scale(scale, scale);
  const width = w / scale;
  triangle(context, 10, 0, open, theme.text2);
  context.textBaseline = "middle";
  context.lineJoin = "round";
  const label = font(11, theme.ui, 600);
  const plainFont = font(11, theme.ui);
  const ground = depthsOf(scene)[row] % 2 === 1 ? theme.group : theme.group2;
  const room = width - 19 - 9;
  const name = scene.modules.label(row) || scene.modules.path(row);
  const shown = frame.text.fit(name, room, label);
  const write = (text: string, at: number, colour: string) => {
    // A line that runs through the header must not strike it out.
    context.strokeStyle = ground;
    context.lineWidth = 3;
    context.strokeText(text, at, 0.5);
    context.fillStyle = colour;
    context.fillText(text, at, 0.5);
  };
  // From afar a piece of a name says nothing.
  if (scale > 1.5 && shown.includes("…")) {
    context.restore();
    return;
  }
  context.font = label;
  write(shown, 19, theme.text);
  // What is inside is said as far as the name leaves room, its first part first.
  const right = rightText(frame, row);
  // An end that lies beyond the pane's is not seen.
  const end = Math.min(width, (frame.right - x) / scale) - 9;
  const free = end - 19 - frame.text.width(shown, label) - 12;
  const widthOf = (parts: Part[]) => parts.reduce((sum, part) => sum + frame.text.width(part.text, plainFont), 0);
  while (right.length > 0 && widthOf(right) > free) right.pop();
  let at = end - widthOf(right);
  context.font = plainFont;
  for (const part of right) {
    write(part.text, at, part.colour);
    at += frame.text.width(part.text, plainFont);
  }
  context.restore();
}

interface Part {
  text: string;
  colour: string;
}

function rightText(frame: Frame, row: number): Part[] {
  const { scene, theme, shown } = frame;
  const { modules } = scene;
  if (shown.comparing) {
    const removed = shown.changes.removed[row];
    const added = shown.changes.added[row];
    const parts: Part[] = [];
    if (removed > 0) parts.push({ text: `−${removed}`, colour: theme.fail });
    if (added > 0) parts.push({ text: removed > 0 ? `  +${added}` : `+${added}`, colour: theme.pass });
    return parts.length > 0 ? parts : [{ text: "unchanged", colour: theme.text2 }];
  }
  if (modules.open[row]) return [{ text: plainType(modules.type(row)), colour: theme.text2 }];
  // At a step in between only the ends are known without counting, and the end is where it is going.
  const operators = shown.to === 0 ? modules.ops[row] : modules.ops_after[row];
  const parts: Part[] = [{ text: `${operators} ${operators === 1 ? "op" : "ops"}`, colour: theme.text2 }];
  if (modules.matched[row] > 0) parts.push({ text: ` · ${modules.matched[row]} matched`, colour: theme.text2 });
  if (modules.near[row] > 0) parts.push({ text: ` · ${modules.near[row]} near`, colour: theme.near });
  return parts;
}

/** A type comes with its package; its own name says enough here. */
function plainType(type: string): string {
  const name = type.slice(type.lastIndexOf(".") + 1);
  return name.length > 40 ? `${name.slice(0, 24)}…${name.slice(-12)}` : name;
}

function triangle(context: CanvasRenderingContext2D, x: number, y: number, open: boolean, colour: string): void {
  context.fillStyle = colour;
  context.beginPath();
  if (open) {
    context.moveTo(x - 4, y - 2);
    context.lineTo(x + 4, y - 2);
    context.lineTo(x, y + 3);
  } else {
    context.moveTo(x - 2, y - 4);
    context.lineTo(x + 3, y);
    context.lineTo(x - 2, y + 4);
  }
  context.fill();
}
