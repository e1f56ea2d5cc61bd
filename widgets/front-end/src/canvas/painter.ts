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

  constructor(
    readonly base: CanvasRenderingContext2D,
    readonly overlay: CanvasRenderingContext2D,
  ) {
    this.#text = new TextCache(base);
  }

  /** Forget measured texts: the fonts changed. */
  forget(): void {
    this.#text.clear();
  }

  frame(
    context: CanvasRenderingContext2D,
    view: View,
    shown: Shown,
    state: State,
    theme: Theme,
    moving: Moving | null,
  ): Frame {
    const { camera, ratio } = view;
    const { scene } = shown;
    const window = camera.window(view.width, view.height, view.margin);
    const index = indexOf(scene);
    // While boxes move, the index knows only where they will be: everything is drawn (there are few, see `layoutChange`).
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
      right: camera.toLayoutX(view.width),
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
    if (frame.detail === Detail.full && moving === null) drawEdgeLabels(frame, frame.routeRows, false);
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

  /** Dots every 24 units; a power of two keeps them 17 to 34 px apart. Single px: a pattern fill costs far more. */
  #drawGrid({ context, theme, window, zoom, ratio }: Frame): void {
    const spacing = 24 * 2 ** -Math.round(Math.log2(zoom));
    const size = Math.max(1, Math.round(ratio)) / ratio / zoom;
    context.fillStyle = theme.grid;
    for (let y = Math.ceil(window.y0 / spacing) * spacing; y < window.y1; y += spacing) {
      for (let x = Math.ceil(window.x0 / spacing) * spacing; x < window.x1; x += spacing)
        context.fillRect(x, y, size, size);
    }
  }
}
