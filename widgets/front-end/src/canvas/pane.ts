/** One canvas on the graph: its bitmaps, its camera, and when what is drawn anew. */
import { lineage } from "../provenance";
import type { Scene } from "../scene";
import type { State } from "../state";
import { Attention } from "./attention";
import { Camera, ZOOM } from "./camera";
import type { Stub } from "./draw_edges";
import { drawOverlay } from "./draw_rings";
import { Fate } from "../lives";
import { hitTest, type Hit } from "./hit";
import { Animation, DURATION } from "./motion";
import { Minimap } from "./minimap";
import { Morph } from "./morph";
import { type Moving, Painter, type View } from "./painter";
import { pictureOf } from "./picture";
import { type Rect, union } from "./rect";
import { Shown } from "./shown";
import type { Theme } from "./theme";
import { boxesOf } from "./where";

/** Px drawn beyond every side: a pan shows them at once and redraws when they are used up. */
const MARGIN = 160;
/** Ms without a gesture after which the bitmap is drawn sharp again. */
const SETTLE = 110;
/** Ms out of view after which the bitmaps are given back: scrolling back and forth must not draw them anew each time. */
const GONE = 3000;

export class Pane {
  readonly element = document.createElement("div");
  readonly camera = new Camera();
  readonly minimap: Minimap;
  readonly #stage = document.createElement("div");
  readonly #canvas = document.createElement("canvas");
  readonly #overlay = document.createElement("canvas");
  readonly #painter: Painter;
  readonly #drawn = new Camera();
  readonly #panning = new Animation();
  readonly #morphing = new Animation();
  readonly #observers: { disconnect(): void }[] = [];
  #size = { width: 0, height: 0 };
  #ratio = 1;
  #dirty = { base: true, overlay: true, minimap: true };
  #request = 0;
  #settle = 0;
  #leaving = 0;
  #onScreen = true;
  #shown: Shown | null = null;
  #state: State | null = null;
  #theme: Theme | null = null;
  #attention: Attention | null = null;
  #stubs: Stub[] = [];
  #moving: Moving | null = null;
  #morph: Morph | null = null;
  /** Row of the node at fault that is ringed, -1 for none. */
  fault = -1;
  /** Called after every change of what is where on screen. */
  onMoved: () => void = () => {};
  onDrawn: () => void = () => {};
  onSized: (first: boolean) => void = () => {};
  /** The next change of size keeps the width of graph that is in view: the pane is cut in two, or whole again. */
  keepsExtent = false;

  constructor() {
    this.element.className = "ls-pane";
    this.#stage.className = "ls-stage";
    this.#stage.setAttribute("aria-hidden", "true");
    this.#stage.append(this.#canvas, this.#overlay);
    this.minimap = new Minimap((y, x) => this.lookAt(x, y));
    this.element.append(this.#stage);
    const [base, overlay] = [this.#canvas.getContext("2d"), this.#overlay.getContext("2d")];
    if (base === null || overlay === null)
      throw new Error("This browser gives no 2D canvas, which the graph is drawn on.");
    this.#painter = new Painter(base, overlay);
    const resized = new ResizeObserver(() => this.#resize());
    resized.observe(this.element);
    // Bitmaps of a widget that is scrolled out of view are given back: ten widgets must not hold ten times the memory.
    const seen = new IntersectionObserver(([entry]) => this.#appear(entry?.isIntersecting ?? true), {
      rootMargin: "200px",
    });
    seen.observe(this.element);
    this.#observers.push(resized, seen);
  }

  get shown(): Shown | null {
    return this.#shown;
  }

  get width(): number {
    return this.#size.width;
  }

  get height(): number {
    return this.#size.height;
  }

  close(): void {
    for (const observer of this.#observers) observer.disconnect();
    cancelAnimationFrame(this.#request);
    clearTimeout(this.#settle);
    clearTimeout(this.#leaving);
    this.#panning.cancel();
    this.#morphing.cancel();
    this.#canvas.width = this.#overlay.width = 0;
    this.element.remove();
    this.minimap.element.remove();
  }

  /** Show a scene between two steps. A change by one step is morphed, one of the layout moved, unless `still`. */
  show(shown: Shown, state: State, theme: Theme, still: boolean): void {
    const before = this.#shown;
    const morph = !still && before !== null && before.scene === shown.scene ? Morph.between(before, shown) : null;
    this.#shown = shown;
    this.#state = state;
    this.#theme = theme;
    this.#dirty.base = this.#dirty.overlay = this.#dirty.minimap = true;
    if (morph !== null) this.startMorph(morph);
    this.schedule();
  }

  /** Hover, selection and focus changed: redraw only what shows them. */
  attend(state: State, theme: Theme, base: boolean): void {
    this.#state = state;
    this.#theme = theme;
    this.#dirty.overlay = true;
    if (base) this.#dirty.base = this.#dirty.minimap = true;
    this.schedule();
  }

  forgetTexts(): void {
    this.#painter.forget();
    this.#dirty.base = this.#dirty.overlay = this.#dirty.minimap = true;
    this.schedule();
  }

  /** Draw boxes at a moment of a layout's change; null when it is over. */
  setMoving(moving: Moving | null): void {
    this.#moving = moving;
    this.#dirty.base = this.#dirty.overlay = true;
    this.schedule();
  }

  startMorph(morph: Morph): void {
    this.#morph = morph;
    this.#morphing.start(
      DURATION.morph,
      (t) => {
        morph.move(t);
        this.#dirty.overlay = true;
        this.schedule();
      },
      () => {
        this.#morph = null;
        this.#dirty.base = this.#dirty.overlay = true;
        this.schedule();
      },
    );
  }

  /** Everything that has a box, in layout units. */
  world(): Rect | null {
    return this.#shown && union(boxesOf(this.#shown, true));
  }

  /** The camera moved by a gesture: follow at once, draw sharp when it rests. */
  moved(): void {
    clearTimeout(this.#settle);
    this.#settle = window.setTimeout(() => {
      if (this.camera.zoom !== this.#drawn.zoom) this.#dirty.base = true;
      this.schedule();
      this.onDrawn();
    }, SETTLE);
    this.schedule();
  }

  glideTo(target: Camera): void {
    const from = new Camera();
    from.copyFrom(this.camera);
    this.#panning.start(DURATION.pan, (t) => {
      this.camera.mix(from, target, t, this.width, this.height);
      this.moved();
      this.onMoved();
    });
  }

  stopGliding(): void {
    this.#panning.cancel();
  }

  lookAt(x: number, y: number): void {
    this.stopGliding();
    this.camera.x = x - this.width / 2 / this.camera.zoom;
    this.camera.y = y - this.height / 2 / this.camera.zoom;
    this.moved();
    this.onMoved();
  }

  hitTest(x: number, y: number): Hit | null {
    if (this.#shown === null) return null;
    const { camera } = this;
    return hitTest(
      this.#shown,
      this.#attention,
      this.#stubs,
      camera.toLayoutX(x),
      camera.toLayoutY(y),
      camera.zoom,
      4 / camera.zoom,
    );
  }

  /** A node's box in px of the pane, null when it is not drawn here. */
  nodeRect(row: number): DOMRect | null {
    if (row < 0 || this.#shown === null || this.#shown.nodes[row] === Fate.absent) return null;
    const { x, y, w, h } = this.#shown.scene.nodes;
    const { camera } = this;
    return new DOMRect(camera.toScreenX(x[row]), camera.toScreenY(y[row]), w[row] * camera.zoom, h[row] * camera.zoom);
  }

  /** The whole graph, wherever the camera looks. Rejects when there is none, or none that this browser can draw. */
  picture(): Promise<Blob> {
    const world = this.world();
    if (world === null || this.#shown === null || this.#state === null || this.#theme === null)
      return Promise.reject(new Error("There is no graph to take a picture of."));
    return pictureOf(this.#shown, this.#state, this.#theme, world);
  }

  schedule(): void {
    if (this.#request !== 0) return;
    this.#request = requestAnimationFrame(() => {
      this.#request = 0;
      this.#draw();
    });
  }

  #draw(): void {
    const shown = this.#shown;
    if (shown === null || this.#state === null || this.#theme === null || this.#size.width === 0 || !this.#onScreen)
      return;
    const base = this.#dirty.base || this.#uncovered();
    if (base) {
      this.#drawn.copyFrom(this.camera);
      this.#dirty.base = false;
      this.#dirty.overlay = true;
    }
    const view: View = { camera: this.#drawn, ...this.#size, margin: MARGIN, ratio: this.#ratio };
    if (this.#dirty.overlay || base) {
      this.#dirty.overlay = false;
      const frame = this.#painter.frame(this.#painter.base, view, shown, this.#state, this.#theme, this.#moving);
      this.#attention = frame.attention;
      if (base) this.#stubs = this.#painter.drawBase(view, frame, this.#moving, this.#morph?.hidden ?? null);
      this.#painter.beginOverlay(view);
      const over = { ...frame, context: this.#painter.overlay };
      this.#morph?.draw(over);
      if (this.#moving === null) drawOverlay(over, this.fault);
    }
    this.#place();
    if (this.#dirty.minimap && this.#attention !== null) {
      this.#dirty.minimap = false;
      const world = this.world();
      if (world !== null) this.minimap.draw(shown, this.#attention, this.#theme, world, this.#ratio);
    }
    this.minimap.frame(this.camera.window(this.width, this.height));
    if (base) this.onDrawn();
  }

  /** Put the bitmaps where the camera is: they were drawn for where it was. */
  #place(): void {
    const { camera } = this;
    const drawn = this.#drawn;
    const scale = camera.zoom / drawn.zoom;
    const snap = (value: number) => Math.round(value * this.#ratio) / this.#ratio;
    const x = (drawn.x - camera.x) * camera.zoom;
    const y = (drawn.y - camera.y) * camera.zoom;
    // Half px would blur everything for the length of a pan.
    this.#stage.style.transform =
      scale === 1 ? `translate(${snap(x)}px,${snap(y)}px)` : `translate(${x}px,${y}px) scale(${scale})`;
  }

  /** Whether the bitmap does not reach the pane's sides any more, or is too far enlarged. */
  #uncovered(): boolean {
    const scale = this.camera.zoom / this.#drawn.zoom;
    if (scale > 1.8 || scale < 0.7) return true;
    const x = (this.#drawn.x - this.camera.x) * this.camera.zoom;
    const y = (this.#drawn.y - this.camera.y) * this.camera.zoom;
    const { width, height } = this.#size;
    return (
      x > MARGIN * scale ||
      y > MARGIN * scale ||
      x + (width + MARGIN) * scale < width ||
      y + (height + MARGIN) * scale < height
    );
  }

  #resize(): void {
    const width = this.element.clientWidth;
    const height = this.element.clientHeight;
    if (width === 0 || height === 0) return;
    const first = this.#size.width === 0;
    if (!first) {
      // What is at the top in the middle stays there, as bars come and go above; of what keeps its extent, the corner.
      if (this.keepsExtent)
        this.camera.zoom = Math.max(ZOOM.min, Math.min(1.2, (this.camera.zoom * width) / this.#size.width));
      else this.camera.x += (this.#size.width - width) / 2 / this.camera.zoom;
      this.keepsExtent = false;
    }
    this.#size = { width, height };
    this.#allocate();
    this.onSized(first);
    // At once: a frame later the stretched old bitmap would have been seen.
    this.#draw();
  }

  #allocate(): void {
    this.#ratio = Math.min(3, window.devicePixelRatio || 1);
    const { width, height } = this.#size;
    for (const canvas of [this.#canvas, this.#overlay]) {
      canvas.width = this.#onScreen ? Math.round((width + 2 * MARGIN) * this.#ratio) : 0;
      canvas.height = this.#onScreen ? Math.round((height + 2 * MARGIN) * this.#ratio) : 0;
      canvas.style.cssText = `left:${-MARGIN}px;top:${-MARGIN}px;width:${width + 2 * MARGIN}px;height:${height + 2 * MARGIN}px`;
    }
    this.#dirty.base = this.#dirty.overlay = this.#dirty.minimap = true;
  }

  #appear(onScreen: boolean): void {
    clearTimeout(this.#leaving);
    if (onScreen === this.#onScreen) return;
    const change = () => {
      this.#onScreen = onScreen;
      if (this.#size.width > 0) this.#allocate();
      this.schedule();
    };
    if (onScreen) change();
    else this.#leaving = window.setTimeout(change, GONE);
  }
}

/** What a pane shows of a scene: see `Shown`. */
export function makeShown(scene: Scene, steps: { from: number; to: number }, state: State): Shown {
  const around = new Set(
    state.selected
      .map((id) => scene.nodeRow(id))
      .flatMap((row) => (row < 0 ? [] : [row, ...lineage(scene, row, steps.to)])),
  );
  return new Shown(scene, steps.from, steps.to, state.showConstants, around);
}
