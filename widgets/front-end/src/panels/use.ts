/** How a panel reads the store: it draws again only when what it picks has changed. */

import { createContext } from "preact";
import { useContext, useLayoutEffect, useReducer, useRef } from "preact/hooks";

import type { PatternRow } from "../protocol";
import type { Hover, State } from "../state";
import type { Store } from "../store";

export const StoreContext = createContext<Store | null>(null);

export function useStore(): Store {
  const store = useContext(StoreContext);
  if (store === null) throw new Error("a panel is mounted outside of a store");
  return store;
}

/** What `pick` takes from the state. It must return the same object while nothing it shows has changed. */
export function usePick<T>(pick: (state: State) => T): T {
  const store = useStore();
  const [, again] = useReducer<number, void>((count) => count + 1, 0);
  const shown = useRef<T>(undefined as T);
  const latest = useRef(pick);
  latest.current = pick;
  shown.current = pick(store.state);
  useLayoutEffect(() => {
    const check = (state: State) => {
      if (!Object.is(latest.current(state), shown.current)) again();
    };
    // The state may have moved on between drawing and this effect.
    check(store.state);
    return store.subscribe(check);
  }, [store]);
  return shown.current;
}

/** True once the kernel cannot be asked: it is gone. A recording has no kernel, and answers what was recorded. */
export function useAway(): boolean {
  return usePick((state) => state.kernel === "gone");
}

export function usePatterns(): readonly PatternRow[] {
  return usePick((state) => state.scene?.patterns ?? NONE);
}

const NONE: readonly PatternRow[] = [];

/** What a panel's element does while the pointer is on it: the graph shows what it speaks of. */
export function hovering(store: Store, what: Partial<Hover>): { onMouseEnter: () => void; onMouseLeave: () => void } {
  return { onMouseEnter: () => store.hover({ ...what, from: "panel" }), onMouseLeave: () => store.hover({}) };
}
