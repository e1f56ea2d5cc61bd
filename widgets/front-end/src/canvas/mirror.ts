/**
 * The graph for assistive technology and for tests: a tree of what is on screen, each item at its node's box.
 * It is invisible and takes no pointer; the canvas beside it is hidden from screen readers.
 */
import { Fate } from "../lives";
import { KINDS, type Scene } from "../scene";
import type { State } from "../state";
import { indexOf } from "./index_tree";
import type { Pane } from "./pane";
import { plain } from "./text";
import { verdictOf } from "./tip";

const MOST = 300;
let serial = 0;

export class Mirror {
  readonly element = document.createElement("div");
  readonly #prefix = `ls-item-${++serial}-`;
  readonly #items = new Map<string, HTMLElement>(); // by "node <id>" or "module <path>"
  #verdicts: { scene: Scene; byAnchor: Map<number, number[]> } | null = null;

  constructor(label: string) {
    this.element.className = "ls-mirror";
    this.element.setAttribute("role", "tree");
    this.element.setAttribute("aria-label", label);
    this.element.tabIndex = 0;
  }

  update(pane: Pane, state: State): void {
    const shown = pane.shown;
    if (shown === null || pane.width === 0) return;
    const { scene } = shown;
    const window = pane.camera.window(pane.width, pane.height);
    const index = indexOf(scene);
    const modules = index.modules.rows(window).filter((row) => scene.modules.path(row) !== "");
    const nodes = index.nodes.rows(window).filter((row) => shown.nodes[row] !== Fate.absent);
    const kept = new Set<string>();
    let previous: Element | null = null;
    const put = (key: string, box: [number, number, number, number], fill: (item: HTMLElement) => void) => {
      if (kept.size >= MOST) return;
      kept.add(key);
      let item = this.#items.get(key);
      if (item === undefined) {
        item = document.createElement("div");
        item.setAttribute("role", "treeitem");
        item.id = `${this.#prefix}${++serial}`;
        this.#items.set(key, item);
      }
      fill(item);
      const { camera } = pane;
      const [x, y, w, h] = box;
      item.style.cssText = `transform:translate(${camera.toScreenX(x)}px,${camera.toScreenY(y)}px);width:${w * camera.zoom}px;height:${h * camera.zoom}px`;
      // Items stay in their place where possible: a moved one would be read out again.
      const expected: Element | null = previous === null ? this.element.firstElementChild : previous.nextElementSibling;
      if (expected !== item) this.element.insertBefore(item, expected);
      previous = item;
    };
    for (const row of modules) {
      const path = scene.modules.path(row);
      const { x, y, w, h } = scene.modules;
      put(`module ${path}`, [x[row], y[row], w[row], h[row]], (item) => this.#fillModule(item, scene, row, state));
    }
    const selected = new Set(state.selected);
    for (const row of nodes) {
      const id = scene.nodes.id(row);
      const { x, y, w, h } = scene.nodes;
      put(`node ${id}`, [x[row], y[row], w[row], h[row]], (item) =>
        this.#fillNode(item, scene, row, selected.has(id), shown.comparing ? shown.nodes[row] : 0),
      );
    }
    for (const [key, item] of this.#items) {
      if (kept.has(key)) continue;
      item.remove();
      this.#items.delete(key);
    }
    const current =
      state.selected[0] !== undefined
        ? `node ${state.selected[0]}`
        : state.currentModule !== null
          ? `module ${state.currentModule}`
          : "";
    const active = this.#items.get(current);
    if (active !== undefined) this.element.setAttribute("aria-activedescendant", active.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  #fillModule(item: HTMLElement, scene: Scene, row: number, state: State): void {
    const { modules } = scene;
    const path = modules.path(row);
    set(item, "data-module-path", path);
    set(item, "aria-level", String(scene.ancestors(row).length - 1 || 1));
    set(item, "aria-expanded", String(modules.open[row] !== 0));
    set(item, "aria-selected", String(state.selected.length === 0 && state.currentModule === path));
    const counts = [
      `${modules.ops[row]} operators`,
      ...(modules.matched[row] > 0 ? [`${modules.matched[row]} matched`] : []),
      ...(modules.near[row] > 0 ? [`${modules.near[row]} near misses`] : []),
    ];
    set(item, "aria-label", plain(`module ${modules.label(row) || path}, ${modules.type(row)}, ${counts.join(", ")}`));
  }

  #fillNode(item: HTMLElement, scene: Scene, row: number, selected: boolean, change: number): void {
    const { nodes, modules } = scene;
    set(item, "data-node-id", nodes.id(row));
    set(item, "aria-level", String(scene.ancestors(nodes.module[row]).length));
    set(item, "aria-selected", String(selected));
    const kind = KINDS[nodes.kind[row]];
    const parts = [nodes.id(row), kind === "operator" ? nodes.label(row) : (kind ?? ""), nodes.detail(row)];
    const module = modules.path(nodes.module[row]);
    if (module !== "") parts.push(`in ${module}`);
    if (change === Fate.removed) parts.push("removed");
    if (change === Fate.added) parts.push("added");
    if (change === Fate.changed) parts.push("arguments changed");
    const verdicts = this.#verdictsOf(scene, row).map(
      (match) => `${scene.patterns[scene.matches.pattern[match]]?.name ?? ""} ${verdictOf(scene, match)}`,
    );
    set(item, "aria-label", plain([parts.filter((part) => part !== "").join(", "), ...verdicts].join("; ")));
  }

  #verdictsOf(scene: Scene, row: number): number[] {
    if (this.#verdicts?.scene !== scene) {
      const byAnchor = new Map<number, number[]>();
      for (let match = 0; match < scene.matches.length; match++) {
        const anchor = scene.matches.anchor[match];
        byAnchor.set(anchor, [...(byAnchor.get(anchor) ?? []), match]);
      }
      this.#verdicts = { scene, byAnchor };
    }
    return (this.#verdicts.byAnchor.get(row) ?? []).slice(0, 4);
  }
}

function set(element: HTMLElement, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}
