/** The context menu of a node, match, module or cut edge: an HTML menu for pointer and keys. */
import { claim } from "../claim";
import type { Scene } from "../scene";
import type { State } from "../state";
import type { Store } from "../store";
import type { Hit } from "./hit";
import { middle, plain } from "./text";

interface Item {
  label: string;
  hint?: string;
  act(): void;
}

export class Menu {
  readonly element = document.createElement("div");
  #items: Item[] = [];
  #before: HTMLElement | null = null;
  readonly #outside = (event: globalThis.Event) => {
    if (!(event.target instanceof Node && this.element.contains(event.target))) this.hide(false);
  };

  constructor(readonly store: Store) {
    this.element.className = "ls-menu";
    this.element.setAttribute("role", "menu");
    this.element.hidden = true;
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("button") : null;
      if (button !== null) this.#run([...this.element.querySelectorAll("button")].indexOf(button));
    });
  }

  get open(): boolean {
    return !this.element.hidden;
  }

  show(hit: Hit | null, state: State, x: number, y: number): void {
    const { scene } = state;
    if (scene === null) return;
    const groups = itemsFor(hit, scene, state, this.store).filter((group) => group.length > 0);
    this.#items = groups.flat();
    this.element.replaceChildren();
    for (const [i, group] of groups.entries()) {
      if (i > 0) {
        const line = document.createElement("div");
        line.className = "ls-menu-line";
        line.setAttribute("role", "separator");
        this.element.append(line);
      }
      for (const item of group) this.element.append(this.#button(item));
    }
    if (this.#items.length === 0) return;
    this.#before = document.activeElement instanceof HTMLElement ? document.activeElement : null;
    this.element.hidden = false;
    const parent = this.element.parentElement;
    const left = Math.min(x, (parent?.clientWidth ?? 0) - this.element.offsetWidth - 6);
    const top = Math.min(y, (parent?.clientHeight ?? 0) - this.element.offsetHeight - 6);
    this.element.style.transform = `translate(${Math.max(4, left)}px,${Math.max(4, top)}px)`;
    this.element.querySelector("button")?.focus({ preventScroll: true });
    document.addEventListener("pointerdown", this.#outside, true);
  }

  hide(giveBackFocus = true): void {
    if (this.element.hidden) return;
    this.element.hidden = true;
    document.removeEventListener("pointerdown", this.#outside, true);
    if (giveBackFocus) this.#before?.focus({ preventScroll: true });
    this.#before = null;
  }

  close(): void {
    this.hide(false);
    this.element.remove();
  }

  #button(item: Item): HTMLButtonElement {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("role", "menuitem");
    button.tabIndex = -1;
    const label = document.createElement("span");
    label.textContent = item.label;
    button.append(label);
    if (item.hint !== undefined) {
      const hint = document.createElement("kbd");
      hint.textContent = item.hint;
      button.append(hint);
    }
    return button;
  }

  #run(index: number): void {
    const item = this.#items[index];
    this.hide();
    item?.act();
  }

  #key(event: KeyboardEvent): void {
    const buttons = [...this.element.querySelectorAll("button")];
    const at = buttons.findIndex((button) => button === document.activeElement);
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 };
    const to = steps[event.key];
    if (to !== undefined) buttons[(to + buttons.length) % buttons.length]?.focus();
    else if (event.key === "Escape" || event.key === "Tab") this.hide();
    else if (event.key === "Enter" || event.key === " ") this.#run(at);
    else return;
    claim(event);
  }
}

/** A name as it fits a menu. */
function brief(name: string): string {
  return middle(plain(name), 32, (text) => Array.from(text).length);
}

function itemsFor(hit: Hit | null, scene: Scene, state: State, store: Store): Item[][] {
  switch (hit?.kind) {
    case "node":
      return nodeItems(hit.row, scene, state, store);
    case "match":
      return matchItems(hit.match, scene, store);
    case "module":
      return moduleItems(hit.row, scene, store);
    case "stub":
      return [
        hit.far
          .slice(0, 20)
          .map((far) => ({
            label: `Go to ${brief(far.id)}`,
            act: () => (far.module ? store.selectModule(far.id) : void store.travel(far.id)),
          })),
      ];
    default:
      return [
        [
          { label: "Fit the graph", hint: "F", act: () => store.camera?.fit() },
          { label: "Close all modules", act: () => store.openDepth(1) },
          { label: "Open two levels", act: () => store.openDepth(2) },
          {
            label: state.showConstants ? "Hide constants" : "Show constants",
            act: () => store.setShowConstants(!state.showConstants),
          },
        ],
        state.traced === null
          ? []
          : [{ label: "Stop tracing", hint: "Esc", act: () => store.update({ traced: null }) }],
      ];
  }
}

function nodeItems(row: number, scene: Scene, state: State, store: Store): Item[][] {
  const { nodes, modules } = scene;
  const id = nodes.id(row);
  const module = modules.path(nodes.module[row]);
  const matches: Item[] = [];
  for (let match = 0; match < scene.matches.length && matches.length < 3; match++) {
    if (
      scene.verdict(match) === "applied" &&
      (scene.matches.anchor[match] === row ||
        scene.matchMembers(match).includes(row) ||
        scene.matchOrigins(match).includes(row) || // in Before a later pattern's match is seen by these
        scene.stepMade(scene.matches.step[match]).includes(row))
    )
      matches.push(...skipMatch(match, scene, store));
  }
  return [
    [
      {
        label: "Why not?",
        hint: "W",
        act: () => {
          store.select([id]);
          store.setWhyFocus(true);
        },
      },
      { label: "Copy the name", act: () => void store.copyText(id) },
    ],
    [
      ...matches,
      { label: `Skip this node`, hint: "X", act: () => store.skip({ node: id }) },
      ...(module === "" ? [] : [{ label: `Skip module ${brief(module)}`, act: () => store.skip({ module }) }]),
      { label: `Skip every ${brief(nodes.op(row))}`, act: () => store.skip({ op: nodes.op(row) }) },
    ],
    [
      { label: "Trace inputs", act: () => store.trace(id, "inputs") },
      { label: "Trace outputs", act: () => store.trace(id, "outputs") },
      ...(state.traced === null ? [] : [{ label: "Stop tracing", act: () => store.update({ traced: null }) }]),
    ],
  ];
}

function skipMatch(match: number, scene: Scene, store: Store): Item[] {
  const pattern = scene.patterns[scene.matches.pattern[match]]?.name ?? "";
  const anchor = scene.nodes.id(scene.matches.anchor[match]);
  return [{ label: `Skip this match of ${brief(pattern)}`, act: () => store.skip({ match: { pattern, anchor } }) }];
}

function matchItems(match: number, scene: Scene, store: Store): Item[][] {
  const row = scene.matches.anchor[match];
  const pattern = scene.patterns[scene.matches.pattern[match]]?.name ?? "";
  const anchor = scene.nodes.id(row);
  const module = scene.modules.path(scene.nodes.module[row]);
  return [
    [
      {
        label: "Why?",
        hint: "W",
        act: () => {
          store.setWhyPattern(pattern);
          store.select([anchor]);
          store.setWhyFocus(true);
        },
      },
      { label: `Focus ${brief(pattern)}`, act: () => store.focusPattern(pattern) },
    ],
    [
      ...(scene.verdict(match) === "skipped" ? [] : skipMatch(match, scene, store)),
      ...(module === ""
        ? []
        : [{ label: `Skip ${brief(pattern)} in ${brief(module)}`, act: () => store.skip({ pattern, module }) }]),
      { label: `Switch ${brief(pattern)} off`, act: () => store.toggle(pattern, false) },
    ],
  ];
}

function moduleItems(row: number, scene: Scene, store: Store): Item[][] {
  const { modules } = scene;
  const path = modules.path(row);
  const open = modules.open[row] !== 0;
  const inside = scene.childrenOf(row);
  return [
    [
      {
        label: open ? "Close" : "Open",
        hint: open ? "Backspace" : "Enter",
        act: () => store.openModules([row], !open),
      },
      ...(inside.length === 0
        ? []
        : [{ label: "Open all inside", act: () => store.openModules([row, ...descendants(scene, row)], true) }]),
      ...(modules.merged[row] > 1
        ? [{ label: "Show the merged modules one by one", act: () => store.merge(row, false) }]
        : []),
    ],
    [
      { label: `Skip this module`, act: () => store.skip({ module: path }) },
      { label: `Skip everything inside`, act: () => store.skip({ module: `${path}.*` }) },
      { label: "Copy the path", act: () => void store.copyText(path, "path") },
    ],
  ];
}

function descendants(scene: Scene, row: number): number[] {
  return scene.childrenOf(row).flatMap((child) => [child, ...descendants(scene, child)]);
}
