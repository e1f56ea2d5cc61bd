/** Where the keys and the "next" buttons lead: pure functions over a scene. */
import { fate, Fate, isAlive } from "./lives";
import type { Verdict } from "./protocol";
import { Kind, type Scene } from "./scene";
import { shownSteps, type State } from "./state";

export interface Place {
  node: string;
  pattern: string | null;
}

/** Whether some pane of the view shows this node. */
function isShown(scene: Scene, node: number, state: State): boolean {
  return shownSteps(state).some(({ from, to }) => scene.nodeAlive(node, from) || scene.nodeAlive(node, to));
}

/** Nothing when the view shows the node, else the step nearest to the shown one at which it lives. */
export function stepsWhereAlive(scene: Scene, node: number, state: State): number[] {
  if (isShown(scene, node, state)) return [];
  const born = scene.nodes.born[node];
  const died = scene.nodes.died[node];
  return [died >= 0 && state.step >= died ? died - 1 : born];
}

/** The node of a match to go to: its anchor, or, when that is gone at the shown step, what stands for it. */
function placeOf(scene: Scene, match: number, state: State): number {
  const anchor = scene.matches.anchor[match];
  if (isShown(scene, anchor, state)) return anchor;
  const step = scene.matches.step[match];
  const others = [
    ...scene.matchMembers(match),
    ...scene.matchOrigins(match),
    ...(step > 0 ? scene.stepMade(step) : []),
  ];
  return others.find((node) => isShown(scene, node, state)) ?? anchor;
}

/** The verdicts that "next match" and "next near miss" walk through. */
export const APPLIED: readonly Verdict[] = ["applied"];
export const NEAR: readonly Verdict[] = ["near miss", "declined"];

/** The match after, or before, the selected node's one, as the kernel lists them: pattern by pattern. */
export function nextMatch(
  state: State,
  direction: 1 | -1,
  pattern: string | null,
  verdicts: readonly Verdict[],
): Place | null {
  const { scene } = state;
  if (scene === null) return null;
  const wanted = pattern === null ? -1 : scene.patternRow(pattern);
  const places: { node: number; match: number }[] = [];
  for (let match = 0; match < scene.matches.length; match++) {
    const verdict = scene.verdict(match);
    if (verdict === undefined || !verdicts.includes(verdict)) continue;
    if (wanted >= 0 && scene.matches.pattern[match] !== wanted) continue;
    places.push({ node: placeOf(scene, match, state), match });
  }
  const current = scene.nodeRow(state.selected[0] ?? "");
  const next = step(
    places,
    places.findIndex((place) => place.node === current),
    direction,
  );
  if (next === null) return null;
  return { node: scene.nodes.id(next.node), pattern: scene.patterns[scene.matches.pattern[next.match]]?.name ?? null };
}

/** Changes by step: the first node made by each step shown, or the first taken where it made none. */
export function nextChange(state: State, direction: 1 | -1): Place | null {
  const { scene } = state;
  if (scene === null) return null;
  const last = state.view === "before" ? scene.lastStep : state.step;
  const places: number[] = [];
  const seen = new Set<number>();
  for (let one = 1; one <= last; one++) {
    const nodes = [...scene.stepMade(one), ...scene.stepTaken(one)];
    const changed = nodes.find(
      (node) => fate(scene.nodes.born[node], scene.nodes.died[node], 0, last) > Fate.unchanged && !seen.has(node),
    );
    for (const node of nodes) seen.add(node);
    if (changed !== undefined) places.push(changed);
  }
  const current = scene.nodeRow(state.selected[0] ?? "");
  const next = step(places, places.indexOf(current), direction);
  return next === null ? null : { node: scene.nodes.id(next), pattern: null };
}

function step<T>(list: readonly T[], at: number, direction: 1 | -1): T | null {
  if (list.length === 0) return null;
  const start = at < 0 ? (direction > 0 ? -1 : 0) : at;
  return list[(start + direction + list.length) % list.length] ?? null;
}

/** What the keyboard is on: a node, or a closed module's box. */
type Cursor = { node: string } | { module: string };

interface Item {
  row: number;
  module: boolean;
  x: number;
  y: number;
}

/** Up and down follow the edges drawn, left and right stay in the layer. From nothing, the first box. */
export function neighbour(state: State, direction: "up" | "down" | "left" | "right"): Cursor | null {
  const { scene } = state;
  if (scene === null) return null;
  const node = scene.nodeRow(state.selected[0] ?? "");
  const module = node < 0 ? scene.moduleRow(state.currentModule ?? "") : -1;
  const at =
    node >= 0 && scene.nodeVisible(node)
      ? itemOf(scene, node, false)
      : module > 0 && scene.moduleVisible(module)
        ? itemOf(scene, module, true)
        : null;
  if (at === null) return cursor(scene, boxes(scene, state).sort((a, b) => a.y - b.y || a.x - b.x)[0]);
  const found =
    direction === "up" || direction === "down"
      ? along(scene, state, at, direction)
      : beside(scene, state, at, direction);
  return cursor(scene, found);
}

function along(scene: Scene, state: State, at: Item, direction: "up" | "down"): Item | undefined {
  const { routes } = scene;
  const steps = shownSteps(state);
  const ends: Item[] = [];
  for (let route = 0; route < routes.length; route++) {
    const near = direction === "up" ? routes.dst[route] : routes.src[route];
    const nearModule = direction === "up" ? routes.dst_module[route] : routes.src_module[route];
    if (near !== at.row || (nearModule !== 0) !== at.module) continue;
    if (
      !steps.some(
        ({ from, to }) =>
          isAlive(routes.born[route], routes.died[route], from) || isAlive(routes.born[route], routes.died[route], to),
      )
    )
      continue;
    const far = direction === "up" ? routes.src[route] : routes.dst[route];
    const farModule = (direction === "up" ? routes.src_module[route] : routes.dst_module[route]) !== 0;
    if (farModule ? scene.moduleVisible(far) : scene.nodeVisible(far) && scene.nodes.kind[far] !== Kind.constant)
      ends.push(itemOf(scene, far, farModule));
  }
  return closest(at, ends);
}

function beside(scene: Scene, state: State, at: Item, direction: "left" | "right"): Item | undefined {
  const layer = boxes(scene, state).filter(
    (item) => Math.abs(item.y - at.y) <= LAYER && (direction === "left" ? item.x < at.x : item.x > at.x),
  );
  return closest(at, layer);
}

/** Boxes whose middles are no further apart than this stand in one layer. */
const LAYER = 24;

function boxes(scene: Scene, state: State): Item[] {
  const items: Item[] = [];
  for (let row = 0; row < scene.nodes.length; row++) {
    if (scene.nodeVisible(row) && scene.nodes.kind[row] !== Kind.constant && isShown(scene, row, state))
      items.push(itemOf(scene, row, false));
  }
  for (let row = 1; row < scene.modules.length; row++)
    if (scene.moduleVisible(row) && !scene.modules.open[row]) items.push(itemOf(scene, row, true));
  return items;
}

function itemOf(scene: Scene, row: number, module: boolean): Item {
  const { x, y, w, h } = module ? scene.modules : scene.nodes;
  return { row, module, x: x[row] + w[row] / 2, y: y[row] + h[row] / 2 };
}

function closest(at: Item, items: readonly Item[]): Item | undefined {
  const distance = (item: Item) => Math.abs(item.x - at.x) + Math.abs(item.y - at.y);
  return [...items].sort((a, b) => distance(a) - distance(b))[0];
}

function cursor(scene: Scene, item: Item | undefined): Cursor | null {
  if (item === undefined) return null;
  return item.module ? { module: scene.modules.path(item.row) } : { node: scene.nodes.id(item.row) };
}

/** Everything upstream or downstream of a node, itself included, along the edges shown. */
export function trace(scene: Scene, node: string, direction: "inputs" | "outputs", state: State): Set<string> {
  const steps = shownSteps(state);
  const reached = new Set<number>([scene.nodeRow(node)]);
  for (const row of reached) {
    if (row < 0) continue;
    for (const edge of direction === "inputs" ? scene.edgesInto(row) : scene.edgesFrom(row)) {
      if (!steps.some(({ from, to }) => scene.edgeAlive(edge, from) || scene.edgeAlive(edge, to))) continue;
      reached.add(direction === "inputs" ? scene.edges.src[edge] : scene.edges.dst[edge]);
    }
  }
  reached.delete(-1);
  return new Set(Array.from(reached, (row) => scene.nodes.id(row)));
}
