/** A strip that shows the whole graph: matches in the focused pattern's colour, misses in red, and the window's frame. */
import { clientBox } from "../client_box";
import { Fate } from "../lives";
import type { Attention } from "./attention";
import { patternColour } from "./draw_hulls";
import type { Rect } from "./rect";
import type { Shown } from "./shown";
import { colourOf, type Theme } from "./theme";

const PADDING = 5;

export class Minimap {
  readonly element = document.createElement("div");
  readonly #canvas = document.createElement("canvas");
  readonly #frame = document.createElement("div");
  #world: Rect | null = null;
  #size = { width: 0, height: 0 };

  /** `go` is called with the layout point that the strip was pressed or dragged at. */
  constructor(go: (y: number, x: number) => void) {
    this.element.className = "ls-minimap";
    this.element.setAttribute("aria-hidden", "true");
    this.#frame.className = "ls-minimap-frame";
    this.element.append(this.#canvas, this.#frame);
    const point = (event: PointerEvent) => {
      const box = clientBox(this.element);
      const world = this.#world;
      if (world === null || box.height === 0) return;
      const along = (event.clientY - box.top - PADDING) / (box.height - 2 * PADDING);
      const across = (event.clientX - box.left - PADDING) / (box.width - 2 * PADDING);
      go(
        world.y0 + Math.min(1, Math.max(0, along)) * (world.y1 - world.y0),
        world.x0 + Math.min(1, Math.max(0, across)) * (world.x1 - world.x0),
      );
    };
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      this.element.setPointerCapture(event.pointerId);
      point(event);
    });
    this.element.addEventListener("pointermove", (event) => {
      if (this.element.hasPointerCapture(event.pointerId)) point(event);
    });
  }

  draw(shown: Shown, attention: Attention, theme: Theme, world: Rect, ratio: number): void {
    const width = this.element.clientWidth;
    const height = this.element.clientHeight;
    const context = this.#canvas.getContext("2d");
    if (context === null || width === 0 || height === 0) return;
    this.#world = world;
    this.#size = { width, height };
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(height * ratio);
    context.scale(ratio, ratio);
    const sx = (width - 2 * PADDING) / Math.max(1, world.x1 - world.x0);
    const sy = (height - 2 * PADDING) / Math.max(1, world.y1 - world.y0);
    const bar = (x: number, y: number, w: number, h: number) => {
      context.fillRect(
        PADDING + (x - world.x0) * sx,
        PADDING + (y - world.y0) * sy,
        Math.max(1.5, w * sx),
        Math.max(1, Math.min(h * sy, 3)),
      );
    };
    const { nodes, modules } = shown.scene;
    context.fillStyle = theme.line2;
    for (let row = 0; row < modules.length; row++) {
      if (shown.scene.moduleVisible(row) && modules.open[row] === 0)
        bar(modules.x[row], modules.y[row], modules.w[row], modules.h[row]);
    }
    for (let row = 0; row < nodes.length; row++) {
      const fate = shown.nodes[row];
      if (fate === Fate.absent) continue;
      context.fillStyle = colourOf(theme, fate, theme.line2);
      bar(nodes.x[row], nodes.y[row], nodes.w[row], nodes.h[row]);
    }
    if (shown.comparing) return;
    for (const hull of shown.hulls.list) {
      if (
        hull.style === "would" ||
        hull.style === "dotted" ||
        (attention.pattern >= 0 && hull.pattern !== attention.pattern)
      )
        continue;
      const near = hull.style === "dashed";
      if (near && attention.pattern < 0 && hull.quiet) continue;
      context.fillStyle = near ? theme.fail : patternColour(theme, shown.scene.patterns[hull.pattern]?.color ?? 0);
      context.globalAlpha = near ? 1 : 0.6;
      const rows = near ? [shown.scene.matches.anchor[hull.match]] : hull.nodes;
      for (const row of rows)
        if (shown.nodes[row] !== Fate.absent) bar(nodes.x[row], nodes.y[row], nodes.w[row], nodes.h[row]);
    }
    context.globalAlpha = 1;
  }

  /** Move the frame to what the pane shows. */
  frame(window: Rect): void {
    const world = this.#world;
    if (world === null) return;
    const { height } = this.#size;
    const sy = (height - 2 * PADDING) / Math.max(1, world.y1 - world.y0);
    const top = Math.max(1, PADDING + (window.y0 - world.y0) * sy);
    const bottom = Math.min(height - 1, PADDING + (window.y1 - world.y0) * sy);
    this.#frame.style.transform = `translateY(${Math.min(top, height - 7)}px)`;
    this.#frame.style.height = `${Math.max(6, bottom - top)}px`;
  }
}
