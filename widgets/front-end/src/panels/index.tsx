/** The panels around the graph. */
import type { Slots } from "../mount";
import type { Store } from "../store";

/** Fill the slots; what comes back empties them. */
export function mountPanels(_slots: Slots, _store: Store): () => void {
  return () => {};
}
