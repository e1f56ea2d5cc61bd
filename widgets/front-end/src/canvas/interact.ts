/** What pointing at and clicking on things does. */
import { type Hover, nothingHovered } from "../state";
import type { Store } from "../store";
import type { Hit } from "./hit";

export function hoverOf(hit: Hit | null): Partial<Hover> {
  switch (hit?.kind) {
    case "node":
      return { node: hit.id };
    case "match":
      return { match: hit.match };
    case "module":
      return { module: hit.row };
    case "stub":
      return { cut: hit.routes };
    default:
      return nothingHovered;
  }
}

/** `onTriangle` tells whether the click was on a module's triangle, which opens and closes with one click. */
export function act(
  store: Store,
  hit: Hit | null,
  how: "click" | "double",
  additive: boolean,
  onTriangle: (module: number) => boolean,
): void {
  const { state } = store;
  const { scene } = state;
  if (scene === null) return;
  switch (hit?.kind) {
    case "node":
      if (how === "double") store.camera?.fitSelection();
      else if (!additive) store.select([hit.id]);
      else
        store.select(
          state.selected.includes(hit.id) ? state.selected.filter((id) => id !== hit.id) : [...state.selected, hit.id],
        );
      break;
    case "match":
      if (how === "click") {
        store.focusPattern(hit.pattern);
        store.select([hit.anchor]);
      }
      break;
    case "module": {
      const open = scene.modules.open[hit.row] !== 0;
      const toggles = how === "double" ? !onTriangle(hit.row) : onTriangle(hit.row);
      if (how === "click") {
        if (hit.header) store.selectModule(hit.path);
        else store.select([]);
      }
      if (toggles && (hit.header || !open)) {
        if (!open && scene.modules.merged[hit.row] > 1) store.merge(hit.row, false);
        else store.openModules([hit.row], !open);
      }
      break;
    }
    case "stub": {
      const [far] = hit.far;
      if (how === "click" && far !== undefined) {
        if (far.module) store.selectModule(far.id);
        else void store.travel(far.id);
      }
      break;
    }
    case "edge":
      break;
    default:
      if (how === "click" && !additive) store.select([]);
  }
}
