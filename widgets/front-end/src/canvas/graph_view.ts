/** The graph's region: panes, gestures, keys, tip, menu and mirror around one or two canvases. */
import type { Store } from "../store";

export class GraphView {
  readonly #unsubscribe: () => void;

  constructor(
    readonly element: HTMLElement,
    readonly root: HTMLElement,
    readonly store: Store,
  ) {
    this.#unsubscribe = store.subscribe((state) => {
      if (state.scene !== null) root.dataset["lsReady"] = "true";
    });
  }

  hitTest(_x: number, _y: number): unknown {
    return null;
  }

  nodeRect(_id: string): DOMRect | null {
    return null;
  }

  close(): void {
    this.#unsubscribe();
  }
}
