/** The graph's region: one pane or two, with gestures, keys, tip, menu and mirror, drawn from the store's state. */
import { clientBox } from "../client_box";
import type { Scene } from "../scene";
import { shownSteps, type State } from "../state";
import type { Store } from "../store";
import { faultOf } from "./fault";
import { Framing } from "./framing";
import { addGestures, type PointerPlace } from "./gestures";
import type { Hit } from "./hit";
import { act, hoverOf } from "./interact";
import { addKeyboard } from "./keyboard";
import { keepPlace } from "./keep_place";
import { Menu } from "./menu";
import { Mirror } from "./mirror";
import { Animation, DURATION, layoutChange } from "./motion";
import { makeShown, Pane } from "./pane";
import { followTheme, readTheme, type Theme } from "./theme";
import { Tip } from "./tip";
import { Zoomer } from "./zoomer";

interface Side {
  pane: Pane;
  mirror: Mirror;
  title: HTMLElement;
  close(): void;
}

const MIRROR_EVERY = 120;

/** What the colours and signs of Diff stand for. */
const LEGEND = [
  ["fail", "− removed"],
  ["pass", "+ added"],
  ["text2", "~ changed"],
  ["line2", "unchanged"],
]
  .map(([colour, text]) => `<i class=ls-swatch style=--s:var(--${colour});--f:var(--${colour}-bg)></i>${text}`)
  .join(" ");

export class GraphView {
  readonly #tip = new Tip();
  readonly #menu: Menu;
  readonly #zoomer: Zoomer;
  readonly #stops: (() => void)[] = [];
  readonly #layout = new Animation();
  readonly #framing: Framing;
  #sides: Side[] = [];
  #theme: Theme;
  #mirrorTimer = 0;
  #explaining = 0;
  #framed = false;

  constructor(
    readonly element: HTMLElement,
    readonly root: HTMLElement,
    readonly store: Store,
  ) {
    this.#menu = new Menu(store);
    this.#framing = new Framing(() => this.#sides.map((side) => side.pane), root, store);
    const camera = {
      fit: () => this.#framing.fit(),
      fitSelection: () => this.#framing.fitSelection(),
      zoomBy: (factor: number) => this.#framing.zoomBy(factor),
      zoomTo: (zoom: number) => this.#framing.zoomTo(zoom),
      centre: (node: string, always?: boolean) => this.#framing.centre(node, always),
      picture: () =>
        this.#sides[0]?.pane.picture() ?? Promise.reject(new Error("There is no graph to take a picture of.")),
    };
    store.camera = camera;
    this.#zoomer = new Zoomer(camera);
    element.append(this.#zoomer.element, this.#tip.element, this.#menu.element);
    this.#theme = readTheme(root);
    this.#stops.push(
      addKeyboard(root, store),
      followTheme(root, () => this.#themeChanged()),
      store.subscribe((state, before) => this.#changed(state, before)),
    );
    this.#arrange(store.state);
  }

  close(): void {
    clearTimeout(this.#mirrorTimer);
    cancelAnimationFrame(this.#explaining);
    this.#layout.cancel();
    for (const stop of this.#stops) stop();
    for (const side of this.#sides) side.close();
    this.#tip.close();
    this.#menu.close();
    this.#sides = [];
  }

  /** What is at a point of the page, as tests ask for it. */
  hitTest(clientX: number, clientY: number): Hit | null {
    for (const { pane } of this.#sides) {
      const box = clientBox(pane.element);
      if (clientX >= box.left && clientX < box.right && clientY >= box.top && clientY < box.bottom)
        return pane.hitTest(clientX - box.left, clientY - box.top);
    }
    return null;
  }

  /** A node's box on the page; in Split, in the first pane that draws it. */
  nodeRect(id: string): DOMRect | null {
    for (const { pane } of this.#sides) {
      const inPane = pane.nodeRect(this.store.state.scene?.nodeRow(id) ?? -1);
      if (inPane === null) continue;
      const box = clientBox(pane.element);
      return new DOMRect(box.left + inPane.x, box.top + inPane.y, inPane.width, inPane.height);
    }
    return null;
  }

  #changed(state: State, before: State): void {
    const { scene } = state;
    if (scene === null) return;
    const sceneChanged = scene !== before.scene;
    const viewChanged =
      sceneChanged ||
      state.view !== before.view ||
      state.step !== before.step ||
      state.teaching !== before.teaching ||
      state.showConstants !== before.showConstants;
    const selectionChanged = state.selected !== before.selected;
    if (viewChanged && state.view !== before.view) this.#arrange(state);
    if (viewChanged || (selectionChanged && !state.showConstants)) this.#showAll(state, before);
    const attended =
      selectionChanged ||
      state.hover !== before.hover ||
      state.focusedPattern !== before.focusedPattern ||
      state.traced !== before.traced ||
      state.whyNot !== before.whyNot ||
      state.whyPattern !== before.whyPattern ||
      state.currentModule !== before.currentModule;
    if (attended && !viewChanged) {
      // What is hovered on the canvas lives on the overlay; a pattern dims or shows what is below.
      const below =
        selectionChanged ||
        state.hover.pattern !== before.hover.pattern ||
        state.focusedPattern !== before.focusedPattern ||
        state.traced !== before.traced ||
        state.whyPattern !== before.whyPattern;
      for (const { pane } of this.#sides) {
        pane.fault = faultOf(scene, state);
        pane.attend(state, this.#theme, below);
      }
    }
    if (viewChanged || selectionChanged || state.currentModule !== before.currentModule) this.#mirrorSoon();
    // In the why-not focus the panes have another width, from the next frame on.
    if (
      state.whyFocus &&
      (!before.whyFocus || state.whyNot !== before.whyNot || state.whyPattern !== before.whyPattern)
    ) {
      cancelAnimationFrame(this.#explaining);
      this.#explaining = requestAnimationFrame(() => this.#framing.explanation(this.store.state));
    }
    const [first] = state.selected;
    if (selectionChanged && first !== undefined && (state.width === "narrow" || state.view === "split"))
      this.#framing.centre(first);
    const steps =
      state.step !== before.step &&
      (state.teaching || state.playing || (state.view === "split" && before.view === "split"));
    if ((steps || (state.teaching && !before.teaching)) && !sceneChanged) this.#framing.step(state);
    else if (state.view !== before.view && !sceneChanged) {
      cancelAnimationFrame(this.#explaining);
      // A pane that has just come has its size after the next frame.
      this.#explaining = requestAnimationFrame(() => {
        this.#explaining = requestAnimationFrame(() => this.#framing.seek());
      });
    }
  }

  #showAll(state: State, before: State): void {
    const { scene } = state;
    if (scene === null) return;
    const old = before.scene;
    const newLayout = scene !== old;
    const steps = shownSteps(state);
    this.#layout.stop();
    this.#sides.forEach(({ pane, title }, i) => {
      const shownStep = steps[i] ?? steps[0];
      if (shownStep === undefined) return;
      pane.fault = faultOf(scene, state);
      if (newLayout && old !== null && pane.shown !== null) keepPlace(pane, old, scene, state);
      pane.show(makeShown(scene, shownStep, state), state, this.#theme, newLayout);
      title.innerHTML = state.view === "diff" ? LEGEND : "";
      title.append(
        steps.length > 1
          ? i === 0
            ? shownStep.to === 0
              ? "Before"
              : `Before, step ${shownStep.to}`
            : shownStep.to === scene.lastStep
              ? "After"
              : `After, step ${shownStep.to}`
          : "",
      );
    });
    if (newLayout && old !== null) this.#animateLayout(old, scene);
    this.#framed ||= this.#framing.first();
  }

  #animateLayout(old: Scene, scene: Scene): void {
    const change = layoutChange(old, scene);
    if (change === null) return;
    const panes = this.#sides.map((side) => side.pane);
    for (const pane of panes) pane.setMoving(change.moving);
    this.#layout.start(
      DURATION.layout,
      (t) => {
        change.move(t);
        for (const pane of panes) pane.setMoving(change.moving);
      },
      () => {
        for (const pane of panes) pane.setMoving(null);
      },
    );
  }

  /** One pane, or two for Split. */
  #arrange(state: State): void {
    const wanted = state.view === "split" ? 2 : 1;
    const first = this.#sides[0]?.pane;
    if (first !== undefined && this.#sides.length !== wanted) first.keepsExtent = true;
    while (this.#sides.length > wanted) this.#sides.pop()?.close();
    while (this.#sides.length < wanted) this.#sides.push(this.#makeSide());
  }

  #makeSide(): Side {
    const pane = new Pane();
    const first = this.#sides[0];
    if (first !== undefined) pane.camera.copyFrom(first.pane.camera);
    const mirror = new Mirror("Graph");
    const title = document.createElement("div");
    title.className = "ls-pane-title";
    pane.element.append(title, mirror.element);
    this.#zoomer.element.before(pane.element, pane.minimap.element);
    const stop = addGestures(pane, {
      moved: () => this.#moved(pane),
      hover: (place) => this.#hover(pane, place),
      click: (place) => this.#click(pane, place, "click"),
      doubleClick: (place) => this.#click(pane, place, "double"),
      menu: (place) => this.#openMenu(pane, place),
      // Scrolling past the widget must not be caught: the wheel zooms once the graph is used, or with Ctrl.
      takesWheel: (event) =>
        event.ctrlKey || event.metaKey || this.root.contains(document.activeElement) || !this.store.state.live,
    });
    pane.onMoved = () => this.#moved(pane);
    pane.onDrawn = () => {
      this.root.dataset["lsReady"] = "true";
      this.#mirrorSoon();
    };
    pane.onSized = (firstTime) => {
      if (firstTime && pane.shown !== null) this.#framed ||= this.#framing.first();
      // The first pane leads: a resize moves its camera, and the other follows.
      if (this.#framed && this.#sides[0] !== undefined) this.#moved(this.#sides[0].pane);
      // Teaching gives the panes another width after its first step was framed.
      if (this.store.state.teaching) this.#framing.step(this.store.state);
    };
    return {
      pane,
      mirror,
      title,
      close: () => {
        stop();
        pane.close();
      },
    };
  }

  #moved(pane: Pane): void {
    for (const side of this.#sides) {
      if (side.pane === pane) continue;
      side.pane.camera.copyFrom(pane.camera);
      side.pane.moved();
    }
    this.#zoomer.show(pane.camera.zoom);
    this.#tip.show(null, null, this.store.state, 0, 0);
  }

  #hover(pane: Pane, place: PointerPlace | null): void {
    const { state } = this.store;
    const hit = place === null ? null : pane.hitTest(place.x, place.y);
    this.store.hover(hoverOf(hit));
    pane.element.classList.toggle(
      "ls-pointing",
      hit !== null && hit.kind !== "edge" && (hit.kind !== "module" || hit.header),
    );
    const box = clientBox(pane.element);
    const here = clientBox(this.element);
    this.#tip.show(
      this.#menu.open ? null : hit,
      state.scene,
      state,
      (place?.x ?? 0) + box.left - here.left,
      (place?.y ?? 0) + box.top - here.top,
    );
  }

  #click(pane: Pane, place: PointerPlace, how: "click" | "double"): void {
    this.#menu.hide(false);
    this.#takeFocus();
    this.#tip.show(null, null, this.store.state, 0, 0);
    const { camera } = pane;
    act(this.store, pane.hitTest(place.x, place.y), how, place.additive, (row) => {
      const { x, y } = this.store.state.scene?.modules ?? { x: [], y: [] };
      return (
        camera.toScreenX(x[row] ?? 0) + 20 * Math.max(1, camera.zoom) >= place.x &&
        camera.toScreenY(y[row] ?? 0) + 24 * Math.max(1, camera.zoom) >= place.y
      );
    });
  }

  #takeFocus(): void {
    if (!this.element.contains(document.activeElement)) this.root.focus({ preventScroll: true });
  }

  #openMenu(pane: Pane, place: PointerPlace): void {
    const here = clientBox(this.element);
    this.#tip.show(null, null, this.store.state, 0, 0);
    this.#takeFocus();
    this.#menu.show(
      pane.hitTest(place.x, place.y),
      this.store.state,
      place.clientX - here.left,
      place.clientY - here.top,
    );
  }

  #themeChanged(): void {
    this.#theme = readTheme(this.root);
    for (const { pane } of this.#sides) {
      pane.attend(this.store.state, this.#theme, true);
      pane.forgetTexts();
    }
  }

  #mirrorSoon(): void {
    if (this.#mirrorTimer !== 0) return;
    this.#mirrorTimer = window.setTimeout(() => {
      this.#mirrorTimer = 0;
      for (const { pane, mirror } of this.#sides) mirror.update(pane, this.store.state);
    }, MIRROR_EVERY);
  }
}
