/** Where the keys and the "next" buttons lead: pure functions over a scene. */
import { fate, Fate } from "./lives";
import type { Verdict } from "./protocol";
import type { Scene } from "./scene";
import { shownSteps, type State } from "./state";

export interface Place {
  node: string;
  pattern: string | null;
}

/** Whether some pane of the view shows this node. */
export function isShown(scene: Scene, node: number, state: State): boolean {
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
  const others = [...scene.matchMembers(match), ...scene.matchOrigins(match), ...(step > 0 ? scene.stepMade(step) : [])];
  return others.find((node) => isShown(scene, node, state)) ?? anchor;
}

/** Matches in reading order: top to bottom where they have boxes, else as the kernel lists them. */
export function nextMatch(state: State, direction: 1 | -1, pattern: string | null, verdicts: readonly Verdict[]): Place | null {
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
  const next = step(places, places.findIndex((place) => place.node === current), direction);
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
    const changed = nodes.find((node) => fate(scene.nodes.born[node], scene.nodes.died[node], 0, last) > Fate.unchanged && !seen.has(node));
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

/** The nearest visible node in a direction: producer and consumer along edges, siblings within the same layer. */
export function neighbour(state: State, direction: "up" | "down" | "left" | "right"): string | null {
  const { scene } = state;
  if (scene === null) return null;
  const { nodes, edges } = scene;
  const row = scene.nodeRow(state.selected[0] ?? "");
  if (row < 0) return firstShown(scene, state);
  if (direction === "up" || direction === "down") {
    const around = direction === "up" ? scene.edgesInto(row) : scene.edgesFrom(row);
    const ends = around.map((edge) => (direction === "up" ? edges.src[edge] : edges.dst[edge])).filter((node) => isShown(scene, node, state));
    const drawn = ends.filter((node) => scene.nodeVisible(node) && nodes.kind[node] !== 1);
    return id(scene, closest(scene, row, drawn) ?? ends[0]);
  }
  const beside: number[] = [];
  for (let node = 0; node < nodes.length; node++) {
    if (node === row || !scene.nodeVisible(node) || !isShown(scene, node, state) || nodes.kind[node] === 1) continue;
    if (Math.abs(nodes.y[node] - nodes.y[row]) > nodes.h[row]) continue;
    if (direction === "left" ? nodes.x[node] < nodes.x[row] : nodes.x[node] > nodes.x[row]) beside.push(node);
  }
  return id(scene, closest(scene, row, beside));
}

function firstShown(scene: Scene, state: State): string | null {
  for (let node = 0; node < scene.nodes.length; node++) {
    if (scene.nodeVisible(node) && isShown(scene, node, state) && scene.nodes.kind[node] === 0) return scene.nodes.id(node);
  }
  return null;
}

function closest(scene: Scene, from: number, nodes: readonly number[]): number | undefined {
  const { x, y, w } = scene.nodes;
  const distance = (node: number) => Math.abs(x[node] + w[node] / 2 - x[from] - w[from] / 2) + Math.abs(y[node] - y[from]);
  return [...nodes].sort((a, b) => distance(a) - distance(b))[0];
}

function id(scene: Scene, node: number | undefined): string | null {
  return node === undefined ? null : scene.nodes.id(node);
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
