/** Where the panes look: fit, zoom, centre, the first look, and what comes into view while stepping. */
import { clientBox } from "../client_box";
import type { State } from "../state";
import type { Store } from "../store";
import { Kind } from "../scene";
import { Camera } from "./camera";
import type { Pane } from "./pane";
import { type Rect, union } from "./rect";
import { beginning, boxOf, operators } from "./where";

/** The smallest zoom at which the text of every box is drawn: 10.5 px in a pill, of which 9 are left. */
export const READABLE = 0.86;
/** The smallest at which the names of nodes are: 11 px. */
const LEGIBLE = 0.82;

export class Framing {
  constructor(
    readonly panes: () => readonly Pane[],
    readonly root: HTMLElement,
    readonly store: Store,
  ) {}

  /** The pane that the others follow. */
  get #lead(): Pane | undefined {
    return this.panes()[0];
  }

  /** Show the whole graph; when it is shown already, the selection. */
  fit(): void {
    const pane = this.#lead;
    const world = pane?.world();
    if (pane === undefined || world == null) return;
    const target = this.#on(pane, world, 24);
    const close = (a: number, b: number) => Math.abs(a - b) < 2 / target.zoom;
    const already =
      Math.abs(pane.camera.zoom / target.zoom - 1) < 0.01 &&
      close(pane.camera.x, target.x) &&
      close(pane.camera.y, target.y);
    if (already && this.store.state.selected.length > 0) this.fitSelection();
    else this.#glide(target);
  }

  fitSelection(): void {
    const { scene, selected } = this.store.state;
    const pane = this.#lead;
    const box = scene === null ? null : boxOf(scene, selected, this.store.state);
    if (pane !== undefined && box !== null) this.#glide(this.#on(pane, box, 90, 1.4));
  }

  zoomBy(factor: number): void {
    const pane = this.#lead;
    if (pane === undefined) return;
    const target = new Camera();
    target.copyFrom(pane.camera);
    target.zoomAt(factor, pane.width / 2, pane.height / 2);
    this.#glide(target);
  }

  zoomTo(zoom: number): void {
    this.zoomBy(zoom / (this.#lead?.camera.zoom ?? 1));
  }

  centre(node: string, always = false): void {
    const { scene } = this.store.state;
    const pane = this.#lead;
    const box = scene === null ? null : boxOf(scene, [node], this.store.state);
    if (pane === undefined || box === null) return;
    if (this.#sees(pane, box, 40) && (!always || pane.camera.zoom >= 0.6)) return;
    // From afar a node cannot be read: come nearer, but in Split not past what stands for it on the other side.
    this.#glide(this.#on(pane, box, 40, always ? Math.max(pane.camera.zoom, READABLE) : pane.camera.zoom));
  }

  /** The first look: as wide as fits at a readable size, from the top. False while there is nothing to look at. */
  first(): boolean {
    const pane = this.#lead;
    const world = pane?.world();
    if (pane === undefined || world == null || pane.width === 0) return false;
    const camera = Camera.fittingWidth(world, pane.width, pane.height, 12, READABLE);
    // Of a graph that is wider than the pane, as much of what it begins with as fits.
    const wide = (pane.width - 24) / camera.zoom;
    if (pane.shown !== null && world.x1 - world.x0 > wide)
      camera.x = beginning(pane.shown, wide) - pane.width / 2 / camera.zoom;
    for (const one of this.panes()) {
      one.camera.copyFrom(camera);
      one.moved();
    }
    pane.onMoved();
    return true;
  }

  /**
   * While stepping, what the step took and made comes into view whole, and of what feeds and uses it the nearest, as far as
   * all stays readable.
   */
  step(state: State): void {
    const { scene, step } = state;
    const pane = this.#lead;
    if (scene === null || pane === undefined || step === 0) return;
    const core = [...scene.stepTaken(step), ...scene.stepMade(step)];
    const boxes = (rows: number[]) => boxOf(scene, rows.map(scene.nodes.id), state);
    let box = boxes(core);
    if (box === null) return;
    const { src, dst } = scene.edges;
    const near = core
      .flatMap((row) => [...scene.edgesInto(row), ...scene.edgesFrom(row)])
      .filter((edge) => scene.edgeAlive(edge, step - 1) || scene.edgeAlive(edge, step))
      .flatMap((edge) => [src[edge], dst[edge]]);
    const zoom = (one: Rect) => this.#on(pane, one, 12, 1.3).zoom;
    const wider = [...new Set(near)]
      .filter((row) => state.showConstants || scene.nodes.kind[row] !== Kind.constant)
      .flatMap((row) => union([box as Rect, boxes([row]) ?? (box as Rect)]) ?? [])
      .sort((a, b) => zoom(b) - zoom(a));
    for (const one of wider) {
      const both = union([box, one]);
      if (both !== null && zoom(both) >= LEGIBLE) box = both;
    }
    const now = state.teaching ? 1.3 : pane.camera.zoom;
    if (state.teaching || !this.#sees(pane, box, 8) || (state.view === "split" && now < 0.6))
      this.#glide(this.#on(pane, box, 12, Math.max(READABLE, now)));
  }

  /** The anchor, what is matched so far and the node at fault of the explanation that is unfolded, near enough to read. */
  explanation(state: State): void {
    const { scene, whyNot, whyPattern, selected } = state;
    const pane = this.#lead;
    if (scene === null || pane === undefined) return;
    const explanation = whyNot?.explanations.find((one) => one.pattern === whyPattern);
    const faults = explanation?.conditions.flatMap(({ node }) => (node === null ? [] : [node])) ?? [];
    const box = boxOf(scene, [...selected, ...(explanation?.nodes ?? []), ...faults], state);
    if (box !== null) this.#glide(this.#on(pane, box, 56, 1.42));
  }

  /** In another view than before: where a pane shows no operator in its window, the nearest comes into it. */
  seek(): void {
    for (const pane of this.panes()) {
      if (pane.shown === null || pane.width === 0) continue;
      const seen = pane.camera.window(pane.width, pane.height);
      const beyond = (box: Rect) => Math.max(box.x0 - seen.x1, seen.x0 - box.x1, box.y0 - seen.y1, seen.y0 - box.y1);
      const [nearest] = operators(pane.shown).sort((a, b) => beyond(a) - beyond(b));
      if (nearest !== undefined && beyond(nearest) > 0) return this.#glide(this.#on(pane, nearest, 40, pane.camera.zoom));
    }
  }

  /** Px of a pane that something lies over: its title at the top, the inspector at the bottom where it is a sheet. */
  #covered(pane: Pane): { top: number; bottom: number } {
    const top = pane.element.querySelector(".ls-pane-title")?.clientHeight ? 32 : 0;
    const sheet = this.root.querySelector(".ls-right");
    if (sheet === null || sheet.clientHeight === 0 || getComputedStyle(sheet).position !== "absolute")
      return { top, bottom: 0 };
    const overlap = clientBox(pane.element).bottom - clientBox(sheet).top;
    return { top, bottom: Math.max(0, Math.min(pane.height - 80, overlap)) };
  }

  /** The camera that shows a box whole where nothing lies over the pane, `padding` px from its sides. */
  #on(pane: Pane, box: Rect, padding: number, maximum = 1): Camera {
    const { top, bottom } = this.#covered(pane);
    const above = Math.max(0, top - padding / 2);
    const camera = Camera.fitting(box, pane.width, pane.height - above - bottom, padding, maximum);
    camera.y -= above / camera.zoom;
    return camera;
  }

  /** Whether a box is in view already, at least `inset` px from where the pane ends or is covered. */
  #sees(pane: Pane, box: Rect, inset: number): boolean {
    const { top, bottom } = this.#covered(pane);
    const window = pane.camera.window(pane.width, pane.height);
    const px = pane.camera.zoom;
    return (
      (box.x0 - window.x0) * px >= inset &&
      (window.x1 - box.x1) * px >= inset &&
      (box.y0 - window.y0) * px >= Math.max(top, inset) &&
      (window.y1 - box.y1) * px >= bottom + inset
    );
  }

  #glide(target: Camera): void {
    for (const pane of this.panes()) pane.glideTo(target);
  }
}
