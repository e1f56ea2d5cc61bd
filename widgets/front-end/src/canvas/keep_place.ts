/** A new layout keeps in place what one was looking at: the module just opened, the selection, or what is in the middle. */
import type { Scene } from "../scene";
import type { State } from "../state";
import type { Pane } from "./pane";

export function keepPlace(pane: Pane, old: Scene, scene: Scene, state: State): void {
  const { camera } = pane;
  const window = camera.window(pane.width, pane.height);
  const inView = (x: number, y: number) => x >= window.x0 && x <= window.x1 && y >= window.y0 && y <= window.y1;
  const middle = { x: (window.x0 + window.x1) / 2, y: (window.y0 + window.y1) / 2 };

  const shift = (from: { x: number; y: number } | null, to: { x: number; y: number } | null): boolean => {
    if (from === null || to === null || !inView(from.x, from.y)) return false;
    camera.x += to.x - from.x;
    camera.y += to.y - from.y;
    return true;
  };
  const current = state.currentModule;
  if (current !== null && shift(moduleAt(old, old.moduleRow(current)), moduleAt(scene, scene.moduleRow(current))))
    return;
  const selected = state.selected[0];
  if (selected !== undefined && shift(nodeAt(old, old.nodeRow(selected)), nodeAt(scene, scene.nodeRow(selected))))
    return;

  let nearest = Infinity;
  let best: [{ x: number; y: number }, { x: number; y: number }] | null = null;
  const consider = (from: { x: number; y: number } | null, to: { x: number; y: number } | null) => {
    if (from === null || to === null) return;
    const distance = Math.abs(from.x - middle.x) + Math.abs(from.y - middle.y);
    if (distance < nearest) {
      nearest = distance;
      best = [from, to];
    }
  };
  for (let row = 1; row < old.modules.length; row++)
    if (old.moduleVisible(row)) consider(moduleAt(old, row), moduleAt(scene, scene.moduleRow(old.modules.path(row))));
  for (let row = 0; row < old.nodes.length; row++)
    if (old.nodeVisible(row)) consider(nodeAt(old, row), nodeAt(scene, scene.nodeRow(old.nodes.id(row))));
  if (best !== null) shift(best[0], best[1]);
}

function moduleAt(scene: Scene, row: number): { x: number; y: number } | null {
  return row > 0 && scene.moduleVisible(row) ? { x: scene.modules.x[row], y: scene.modules.y[row] } : null;
}

function nodeAt(scene: Scene, row: number): { x: number; y: number } | null {
  return row >= 0 && scene.nodeVisible(row) ? { x: scene.nodes.x[row], y: scene.nodes.y[row] } : null;
}
