/** Where nodes are, whatever stands for them on screen. */
import { Fate } from "../lives";
import { lineage } from "../provenance";
import { Kind, type Scene } from "../scene";
import { shownSteps, type State } from "../state";
import type { Boxes } from "./frame";
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

/** The boxes of the operators that are shown and of the closed modules. */
export const operators = (shown: Shown): Rect[] => boxesOf(shown, false, Kind.operator);

/** The boxes of the nodes that are shown, of one kind if asked, and of the closed modules; of the `open` ones, too, if asked. */
export function boxesOf({ nodes: fates, scene }: Shown, open: boolean, kind?: Kind): Rect[] {
  const boxes: Rect[] = [];
  const add = ({ x, y, w, h }: Boxes, row: number) => boxes.push(rect(x[row] ?? 0, y[row] ?? 0, w[row] ?? 0, h[row] ?? 0));
  for (let row = 0; row < fates.length; row++)
    if (fates[row] !== Fate.absent && (kind === undefined || scene.nodes.kind[row] === kind)) add(scene.nodes, row);
  for (let row = 0; row < scene.modules.length; row++)
    if (scene.moduleVisible(row) && (open || !scene.modules.open[row])) add(scene.modules, row);
  return boxes;
}

/** The middle, across, of what a graph begins with: from the top down as much as is no wider than this. */
export function beginning(shown: Shown, width: number): number {
  let [x0, x1] = [Infinity, -Infinity];
  for (const box of boxesOf(shown, false).sort((a, b) => a.y0 - b.y0)) {
    const [left, right] = [Math.min(x0, box.x0), Math.max(x1, box.x1)];
    if (x0 < x1 && right - left > width) break;
    [x0, x1] = [left, right];
  }
  return (x0 + x1) / 2 || 0;
}
