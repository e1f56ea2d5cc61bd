/** Counts of operators at a step, for the strip and the steps. The engine's own counts are used wherever it has them. */

import type { CountRow } from "../protocol";
import { Flag, Kind, type Scene } from "../scene";
import type { State } from "../state";

export interface Share {
  category: string;
  /** Row of the pattern that made these operators, or -1: they are drawn in its colour. */
  pattern: number;
  count: number;
}

export function totalOf(scene: Scene): CountRow | undefined {
  return scene.header.operators.find(({ op }) => op === "total");
}

/** Operators after each step: index 0 is the program, N the end. */
export function operatorsByStep(scene: Scene): Int32Array {
  const counts = new Int32Array(scene.lastStep + 1);
  counts[0] = totalOf(scene)?.before ?? 0;
  for (let step = 1; step <= scene.lastStep; step++)
    counts[step] = (counts[step - 1] ?? 0) + (scene.steps.delta[step - 1] ?? 0);
  return counts;
}

/** The operators alive at a step, by category in the order of the categories; operators that a pattern made come first. */
export function sharesAt(scene: Scene, step: number): Share[] {
  const { nodes } = scene;
  const made = new Map<number, number>();
  const plain = new Map<number, number>();
  for (let row = 0; row < nodes.length; row++) {
    if (nodes.kind[row] !== Kind.operator || !scene.nodeAlive(row, step)) continue;
    const own = ((nodes.flags[row] ?? 0) & Flag.own) !== 0 && (nodes.pattern[row] ?? -1) >= 0;
    const key = own ? (nodes.pattern[row] ?? -1) : (nodes.category[row] ?? 0);
    const into = own ? made : plain;
    into.set(key, (into.get(key) ?? 0) + 1);
  }
  const shares: Share[] = [...made]
    .sort((a, b) => a[0] - b[0])
    .map(([pattern, count]) => ({ category: "other", pattern, count }));
  for (const [category, count] of [...plain].sort((a, b) => a[0] - b[0])) {
    shares.push({ category: scene.header.categories[category] ?? "other", pattern: -1, count });
  }
  return shares;
}

/** The step that the strip speaks of: the one on screen, and the end while the program itself is shown. */
export function stepOfNumbers(state: State): number {
  const last = state.scene?.lastStep ?? 0;
  return state.view === "before" || state.step <= 0 || state.step > last ? last : state.step;
}
