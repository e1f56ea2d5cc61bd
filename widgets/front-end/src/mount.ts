/** One display of the widget: its regions, its store, its canvas, its panels, and how they are freed. */
import { GraphView } from "./canvas/graph_view";
import type { Client } from "./client";
import { mountPanels } from "./panels";
import type { Scene } from "./scene";
import { type State, widthClass } from "./state";
import { Store } from "./store";

/** Elements that the panels fill. Their place by width is the style sheet's. */
export interface Slots {
  root: HTMLElement;
  toolbar: HTMLElement;
  tabs: HTMLElement;
  left: HTMLElement;
  /** Between toolbar and graph: notices, the sentence of a step. */
  above: HTMLElement;
  /** Below the graph: the mathematics of a step. */
  below: HTMLElement;
  right: HTMLElement;
  metrics: HTMLElement;
  /** Over everything: help, toasts, dialogs. */
  overlay: HTMLElement;
}

interface Options {
  panels?: readonly string[];
  height?: number | undefined;
}

/** What tests and the curious find on the root element. */
interface RootElement extends HTMLElement {
  lowerscope: { state(): State; scene(): Scene | null; store: Store };
  /** What is at a point of the page (client px); null when nothing is. */
  hitTest(x: number, y: number): unknown;
  /** A node's box on the page (client px); null when it is not drawn. */
  nodeRect(id: string): DOMRect | null;
}

export function mount(el: HTMLElement, client: Client, options: Options): () => void {
  const root = document.createElement("div") as unknown as RootElement;
  root.className = "ls-root";
  root.tabIndex = 0;
  root.setAttribute("role", "application");
  root.setAttribute("aria-label", "lowerscope: the graph and its patterns");
  if (options.height !== undefined) root.style.height = `${options.height}px`;

  const region = (name: string, parent: HTMLElement = root) => {
    const element = document.createElement("div");
    element.className = `ls-${name}`;
    parent.append(element);
    return element;
  };
  const toolbar = region("toolbar");
  const tabs = region("tabs");
  const body = region("body");
  const left = region("left", body);
  const centre = region("centre", body);
  const above = region("above", centre);
  const graph = region("graph", centre);
  const below = region("below", centre);
  const right = region("right", body);
  const metrics = region("metrics");
  const overlay = region("overlay");
  const live = region("live");
  live.setAttribute("aria-live", "polite");

  // In the page before anything is drawn: colours and sizes are read from it.
  el.append(root);
  const store = new Store(client);
  if (options.panels !== undefined) store.update({ panels: options.panels });
  const view = new GraphView(graph, root, store);
  const unmountPanels = mountPanels({ root, toolbar, tabs, left, above, below, right, metrics, overlay }, store);

  const showState = (state: State) => {
    root.dataset["width"] = state.width;
    root.dataset["tab"] = state.tab;
    root.dataset["panels"] = state.panels.join(" ");
    root.classList.toggle("ls-why-focus", state.whyFocus);
    root.classList.toggle("ls-teaching", state.teaching);
    root.classList.toggle("ls-sheet-open", state.sheetOpen);
    root.classList.toggle("ls-metrics-open", state.metricsOpen);
    if (live.textContent !== state.said.text) live.textContent = state.said.text;
  };
  showState(store.state);
  const unsubscribe = store.subscribe(showState);

  // The container's width decides, not the window's: a widget may sit in a narrow output or a side panel.
  const observer = new ResizeObserver(([entry]) => {
    const width = entry?.contentRect.width ?? 0;
    if (width > 0) store.setWidth(widthClass(width));
  });
  observer.observe(root);

  // What has the focus goes with a panel that is drawn anew, or is switched off: the widget keeps it then, for its keys
  // would go to the notebook, where X cuts the cell.
  let last: Element = root;
  root.addEventListener("focusin", ({ target }) => {
    last = target as Element;
  });
  new MutationObserver(() => {
    if ((!last.isConnected || last.matches(":disabled")) && document.activeElement?.matches("body,:disabled"))
      root.focus({ preventScroll: true });
  }).observe(root, { subtree: true, childList: true, attributeFilter: ["disabled"] });

  root.lowerscope = { state: () => store.state, scene: () => store.state.scene, store };
  root.hitTest = (x, y) => view.hitTest(x, y);
  root.nodeRect = (id) => view.nodeRect(id);

  return () => {
    observer.disconnect();
    unsubscribe();
    unmountPanels();
    view.close();
    store.close();
    root.remove();
  };
}
