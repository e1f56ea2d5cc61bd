/** Where nodes are, whatever stands for them on screen. */
import { lineage } from "../provenance";
import type { Scene } from "../scene";
import { shownSteps, type State } from "../state";
import { rect, type Rect, union } from "./rect";

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
    for (const { to } of shownSteps(state)) {
      for (const stand of scene.nodeAlive(row, to) ? [row] : lineage(scene, row, to)) {
        if (scene.nodeVisible(stand)) {
          boxes.push(rect(nodes.x[stand], nodes.y[stand], nodes.w[stand], nodes.h[stand]));
          continue;
        }
        const hiding = scene.ancestors(nodes.module[stand]).findLast((module) => scene.moduleVisible(module) && modules.path(module) !== "");
        if (hiding !== undefined) boxes.push(rect(modules.x[hiding], modules.y[hiding], modules.w[hiding], modules.h[hiding]));
      }
    }
  }
  return union(boxes);
}
