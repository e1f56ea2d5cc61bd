/** Where the panes look: fit, zoom, centre, the first look, and what comes into view while stepping. */
import type { State } from "../state";
import type { Store } from "../store";
import { Camera } from "./camera";
import type { Pane } from "./pane";
import { boxOf, topmost } from "./where";

/** The smallest zoom at which the text of every box is drawn: 10.5 px in a pill, of which 9 are left. */
export const READABLE = 0.86;

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
    const target = Camera.fitting(world, pane.free, pane.height, 24);
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
    if (pane !== undefined && box !== null) this.#glide(Camera.fitting(box, pane.free, pane.height, 90, 1.4));
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
    const { camera } = pane;
    const inset = 40 / camera.zoom;
    const height = pane.height - this.#covered(pane);
    const window = camera.window(pane.free, height);
    const inView =
      box.x0 >= window.x0 + inset &&
      box.x1 <= window.x1 - inset &&
      box.y0 >= window.y0 + inset &&
      box.y1 <= window.y1 - inset;
    if (inView && (!always || camera.zoom >= 0.6)) return;
    // From afar a node cannot be read: come nearer, but in Split not past what stands for it on the other side.
    const zoom = always ? Math.max(camera.zoom, READABLE) : camera.zoom;
    this.#glide(Camera.fitting(box, pane.free, height, 40, zoom));
  }

  /** The first look: as wide as fits at a readable size, from the top. False while there is nothing to look at. */
  first(): boolean {
    const pane = this.#lead;
    const world = pane?.world();
    if (pane === undefined || world == null || pane.width === 0) return false;
    const camera = Camera.fittingWidth(world, pane.free, pane.height, 12, READABLE);
    // Of a graph that is wider than the pane, what it begins with is seen, and what lies to both sides of that.
    const top = pane.shown === null ? null : topmost(pane.shown);
    if (top !== null && (world.x1 - world.x0) * camera.zoom > pane.free)
      camera.x = Math.max(world.x0 - 12 / camera.zoom, top - pane.free / 2 / camera.zoom);
    for (const one of this.panes()) {
      one.camera.copyFrom(camera);
      one.moved();
    }
    pane.onMoved();
    return true;
  }

  /** While stepping, what the step took and made comes into view. */
  step(state: State): void {
    const { scene } = state;
    const pane = this.#lead;
    if (scene === null || pane === undefined || state.step === 0) return;
    const ids = [...scene.stepTaken(state.step), ...scene.stepMade(state.step)].map((row) => scene.nodes.id(row));
    const box = boxOf(scene, ids, state);
    if (box === null) return;
    if (state.teaching) {
      this.#glide(Camera.fitting(box, pane.free, pane.height, 28, 1.3));
      return;
    }
    const first = ids.find((id) => boxOf(scene, [id], state) !== null);
    if (first !== undefined) this.centre(first);
  }

  /** The anchor, what is matched so far and the node at fault of the explanation that is unfolded, near enough to read. */
  explanation(state: State): void {
    const { scene, whyNot, whyPattern, selected } = state;
    const pane = this.#lead;
    if (scene === null || pane === undefined) return;
    const explanation = whyNot?.explanations.find((one) => one.pattern === whyPattern);
    const faults = explanation?.conditions.flatMap(({ node }) => (node === null ? [] : [node])) ?? [];
    const box = boxOf(scene, [...selected, ...(explanation?.nodes ?? []), ...faults], state);
    if (box !== null) this.#glide(Camera.fitting(box, pane.free, pane.height, 56, 1.42));
  }

  /** Px at a pane's bottom that the inspector lies over, where it is a sheet. */
  #covered(pane: Pane): number {
    const sheet = this.root.querySelector(".ls-right");
    if (sheet === null || getComputedStyle(sheet).position !== "absolute") return 0;
    const overlap = pane.element.getBoundingClientRect().bottom - sheet.getBoundingClientRect().top;
    return sheet.clientHeight === 0 ? 0 : Math.max(0, Math.min(pane.height - 80, overlap));
  }

  #glide(target: Camera): void {
    for (const pane of this.panes()) pane.glideTo(target);
  }
}
