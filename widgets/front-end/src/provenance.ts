/** What became of a node, and what it came from: through the steps, many to many. */
import type { Scene } from "./scene";

interface Ledger {
  /** Step that took, or made, each node; 0 where none did. */
  took: Int32Array;
  made: Int32Array;
}

const ledgers = new WeakMap<Scene, Ledger>();

function ledgerOf(scene: Scene): Ledger {
  let ledger = ledgers.get(scene);
  if (ledger === undefined) {
    ledger = { took: new Int32Array(scene.nodes.length), made: new Int32Array(scene.nodes.length) };
    for (let step = 1; step <= scene.lastStep; step++) {
      for (const node of scene.stepTaken(step)) ledger.took[node] = step;
      for (const node of scene.stepMade(step)) ledger.made[node] = step;
    }
    ledgers.set(scene, ledger);
  }
  return ledger;
}

/** The nodes alive at `step` that a node stands for there: itself, what it became, or what it came from. */
export function lineage(scene: Scene, node: number, step: number): number[] {
  const { took, made } = ledgerOf(scene);
  const found = new Set<number>();
  const seen = new Set<number>([node]);
  const queue = [node];
  for (let one = queue.pop(); one !== undefined; one = queue.pop()) {
    if (scene.nodeAlive(one, step)) {
      found.add(one);
      continue;
    }
    const later = scene.nodes.born[one] <= step;
    const next = later ? scene.stepMade(took[one] ?? 0) : scene.stepTaken(made[one] ?? 0);
    for (const other of next) {
      // A step may list what it kept: going back and forth between the two sides would never end.
      if (seen.has(other)) continue;
      seen.add(other);
      queue.push(other);
    }
  }
  return [...found];
}
