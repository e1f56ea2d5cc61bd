/** What one pane shows of a scene: a fate for every node and route, and the hulls. Made anew when a step or view changes. */
import { fate, Fate } from "../lives";
import { Kind, type Scene } from "../scene";
import { Hulls } from "./hulls_shown";

export class Shown {
  /** By row: a `Fate`; absent also for what a closed module or "hide constants" hides. */
  readonly nodes: Uint8Array;
  readonly routes: Uint8Array;
  readonly comparing: boolean;
  #hulls: Hulls | null = null;
  #changes: { removed: Int32Array; added: Int32Array } | null = null;

  constructor(
    readonly scene: Scene,
    readonly from: number,
    readonly to: number,
    readonly constants: boolean,
    /** Nodes whose constants are shown even while constants are hidden. */
    readonly around: ReadonlySet<number>,
  ) {
    this.comparing = from !== to;
    this.nodes = new Uint8Array(scene.nodes.length);
    this.routes = new Uint8Array(scene.routes.length);
    const { born, died, kind } = scene.nodes;
    const { node: changed, step } = scene.changes;
    const given = new Set(changed.filter((_, row) => step[row] > from && step[row] <= to));
    for (let node = 0; node < this.nodes.length; node++) {
      if (!scene.nodeVisible(node)) continue;
      if (kind[node] === Kind.constant && !constants && !this.#feedsAround(node)) continue;
      const own = fate(born[node], died[node], from, to);
      this.nodes[node] = own === Fate.unchanged && this.comparing && (given.has(node) || this.#readsOthers(node)) ? Fate.changed : own;
    }
    const { src, dst, src_module, dst_module, stub } = scene.routes;
    for (let route = 0; route < this.routes.length; route++) {
      if (!src_module[route] && this.nodes[src[route]] === Fate.absent) continue;
      if (!dst_module[route] && this.nodes[dst[route]] === Fate.absent) continue;
      // A constant that is drawn elsewhere says nothing here: the inspector lists it.
      if (stub[route] && !src_module[route] && kind[src[route]] === Kind.constant) continue;
      this.routes[route] = fate(scene.routes.born[route], scene.routes.died[route], from, to);
    }
  }

  get hulls(): Hulls {
    const steps = this.comparing ? [this.from, this.to] : [this.to];
    return (this.#hulls ??= new Hulls(this.scene, steps, (node) => this.nodes[node] !== Fate.absent));
  }

  /** Operators removed and added inside each module, closed or not. */
  get changes(): { removed: Int32Array; added: Int32Array } {
    if (this.#changes !== null) return this.#changes;
    const { modules, nodes } = this.scene;
    const removed = new Int32Array(modules.length);
    const added = new Int32Array(modules.length);
    for (let node = 0; node < nodes.length; node++) {
      if (nodes.kind[node] !== Kind.operator) continue;
      const change = fate(nodes.born[node], nodes.died[node], this.from, this.to);
      if (change === Fate.removed)
        for (let row = nodes.module[node]; row >= 0; row = modules.parent[row]) removed[row]++;
      else if (change === Fate.added)
        for (let row = nodes.module[node]; row >= 0; row = modules.parent[row]) added[row]++;
    }
    for (let row = 0; row < modules.length; row++) {
      // A merged run's box stands for all of its members, which are the siblings that follow.
      const run = modules.merged[row];
      if (run < 2) continue;
      const siblings = this.scene.childrenOf(modules.parent[row]);
      const first = siblings.indexOf(row);
      for (const member of siblings.slice(first + 1, first + run)) {
        removed[row] += removed[member];
        added[row] += added[member];
      }
    }
    return (this.#changes = { removed, added });
  }

  #readsOthers(node: number): boolean {
    const { edges } = this.scene;
    return this.scene
      .edgesInto(node)
      .some((edge) => fate(edges.born[edge], edges.died[edge], this.from, this.to) > Fate.unchanged);
  }

  #feedsAround(node: number): boolean {
    if (this.around.size === 0) return false;
    const { scene, from, to } = this;
    return scene
      .edgesFrom(node)
      .some(
        (edge) => this.around.has(scene.edges.dst[edge]) && (scene.edgeAlive(edge, from) || scene.edgeAlive(edge, to)),
      );
  }
}
