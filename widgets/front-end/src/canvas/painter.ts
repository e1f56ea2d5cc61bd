/** The order of the layers, and the frame that they share. */
import type { State } from "../state";
import { Attention } from "./attention";
import type { Camera } from "./camera";
import { drawEdges, drawStubs, type Stub, stubsOf } from "./draw_edges";
import { drawHulls, drawTags } from "./draw_hulls";
import { drawModuleHeaders, drawModules } from "./draw_modules";
import { drawNodes } from "./draw_nodes";
import { drawEdgeLabels } from "./draw_rings";
import type { Boxes, Frame } from "./frame";
import { indexOf } from "./index_tree";
import { Detail, detailAt } from "./lod";
import type { Rect } from "./rect";
import type { Shown } from "./shown";
import { TextCache } from "./text";
import type { Theme } from "./theme";

export interface View {
  camera: Camera;
  width: number; // CSS px of the pane
  height: number;
  margin: number; // px drawn beyond every side of the pane
  ratio: number;
}

/** Boxes at a moment of a layout's change. */
export interface Moving {
  nodes: Boxes;
  modules: Boxes;
  arriving: number;
}

export class Painter {
  readonly #text: TextCache;
  #dots: { colour: string; pattern: CanvasPattern | null } | null = null;

  constructor(
    readonly base: CanvasRenderingContext2D,
    readonly overlay: CanvasRenderingContext2D,
  ) {
    this.#text = new TextCache(base);
  }

  /** Forget measured texts: the fonts changed. */
  forget(): void {
    this.#text.clear();
    this.#dots = null;
  }

  frame(context: CanvasRenderingContext2D, view: View, shown: Shown, state: State, theme: Theme, moving: Moving | null): Frame {
    const { camera, ratio } = view;
    const { scene } = shown;
    const window = camera.window(view.width, view.height, view.margin);
    const index = indexOf(scene);
    // While boxes move, the index knows only where they will be: everything is drawn (there are few, see `animates`).
    const reach: Rect = moving === null ? window : { x0: -1e7, y0: -1e7, x1: 1e7, y1: 1e7 };
    return {
      context,
      theme,
      text: this.#text,
      scene,
      shown,
      attention: new Attention(scene, state, shown.hulls.list),
      nodes: moving?.nodes ?? scene.nodes,
      modules: moving?.modules ?? scene.modules,
      window,
      zoom: camera.zoom,
      ratio,
      detail: detailAt(camera.zoom),
      px: 1 / camera.zoom,
      nodeRows: index.nodes.rows(reach),
      moduleRows: index.modules.rows(reach),
      routeRows: index.routes.rows(reach),
      hullRows: shown.hulls.index.rows(reach),
      arriving: 1,
    };
  }

  /** Draw everything that stays while the pointer moves. Returns the stubs drawn, for hit tests. */
  drawBase(view: View, frame: Frame, moving: Moving | null, except: ReadonlySet<number> | null): Stub[] {
    const { context } = frame;
    this.#begin(context, view);
    this.#drawGrid(frame);
    drawModules(frame);
    frame.arriving = moving?.arriving ?? 1;
    drawHulls(frame);
    if (frame.detail > Detail.blocks || frame.routeRows.length < 6000) drawEdges(frame);
    frame.arriving = 1;
    drawNodes(frame, except);
    drawModuleHeaders(frame);
    frame.arriving = moving?.arriving ?? 1;
    const stubs = frame.detail >= Detail.labels ? stubsOf(frame, frame.routeRows) : [];
    drawStubs(frame, stubs);
    drawTags(frame);
    if (frame.detail === Detail.full && moving === null) drawEdgeLabels(frame, frame.routeRows);
    frame.arriving = 1;
    return stubs;
  }

  beginOverlay(view: View): void {
    this.#begin(this.overlay, view);
  }

  #begin(context: CanvasRenderingContext2D, { camera, ratio, margin, width, height }: View): void {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, (width + 2 * margin) * ratio, (height + 2 * margin) * ratio);
    const scale = ratio * camera.zoom;
    context.setTransform(scale, 0, 0, scale, ratio * margin - camera.x * scale, ratio * margin - camera.y * scale);
    context.globalAlpha = 1;
    context.textAlign = "left";
    context.direction = "ltr";
  }

  /** Dots every 24 units; a coarser or finer power of two keeps them 16 to 32 px apart. */
  #drawGrid({ context, theme, window, zoom }: Frame): void {
    if (this.#dots?.colour !== theme.grid) this.#dots = { colour: theme.grid, pattern: dotPattern(context, theme.grid) };
    const { pattern } = this.#dots;
    if (pattern === null) return;
    const spacing = 24 * 2 ** -Math.round(Math.log2(zoom));
    pattern.setTransform(new DOMMatrix().scale(spacing / 48));
    context.fillStyle = pattern;
    context.fillRect(window.x0, window.y0, window.x1 - window.x0, window.y1 - window.y0);
  }
}

function dotPattern(context: CanvasRenderingContext2D, colour: string): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 48;
  const pen = tile.getContext("2d");
  if (pen === null) return null;
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(24, 24, 1.6, 0, 2 * Math.PI);
  pen.fill();
  return context.createPattern(tile, "repeat");
}
