/** Where nodes are, whatever stands for them on screen. */
import { Fate } from "../lives";
import { lineage } from "../provenance";
import type { Scene } from "../scene";
import { shownSteps, type State } from "../state";
import { rect, type Rect, union } from "./rect";
import type { Shown } from "./shown";

/**
 * The box of nodes in layout units: their own, of one that is not shown that of what it became or came from, of one in a
 * closed module that module's. In Split both panes' counterparts are in it. Null when nothing stands for them.
 */
export function boxOf(scene: Scene, ids: readonly string[], state: State): Rect | null {
  const boxes: Rect[] = [];
  const { nodes, modules } = scene;
  for (const id of ids) {
    const row = scene.nodeRow(id);
    if (row < 0) continue;
    for (const { from, to } of shownSteps(state)) {
      for (const stand of scene.nodeAlive(row, to) || scene.nodeAlive(row, from) ? [row] : lineage(scene, row, to)) {
        if (scene.nodeVisible(stand)) {
          boxes.push(rect(nodes.x[stand], nodes.y[stand], nodes.w[stand], nodes.h[stand]));
          continue;
        }
        const hiding = scene
          .ancestors(nodes.module[stand])
          .findLast((module) => scene.moduleVisible(module) && modules.path(module) !== "");
        if (hiding !== undefined)
          boxes.push(rect(modules.x[hiding], modules.y[hiding], modules.w[hiding], modules.h[hiding]));
      }
    }
  }
  return union(boxes);
}

/** The middle, across, of the topmost node or closed module that is shown; null when nothing is. */
export function topmost(shown: Shown): number | null {
  const { nodes, modules } = shown.scene;
  let best: { x: number; y: number } | null = null;
  const consider = (x: number, y: number, w: number) => {
    if (best === null || y < best.y) best = { x: x + w / 2, y };
  };
  for (let row = 0; row < nodes.length; row++)
    if (shown.nodes[row] !== Fate.absent) consider(nodes.x[row], nodes.y[row], nodes.w[row]);
  for (let row = 1; row < modules.length; row++)
    if (shown.scene.moduleVisible(row) && !modules.open[row]) consider(modules.x[row], modules.y[row], modules.w[row]);
  return best === null ? null : (best as { x: number }).x;
}
