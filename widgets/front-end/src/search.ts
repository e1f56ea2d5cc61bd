/**
 * Search over the nodes of a scene: fuzzy words and filters, all of which must hold.
 *
 *     relu                        fuzzy over name, op, module and source
 *     op:conv dtype:f16           filters; globs are allowed: module:decoder.*
 *     users>1  users=0            numbers of users
 *     fused  unfused  skipped     states
 */
import { Flag, Kind, KINDS, type Scene } from "./scene";

export interface SearchHit {
  readonly node: number; // row
  readonly id: string;
  readonly score: number; // larger is better
  /** Characters of the id that the words matched, for emphasis. */
  readonly at: readonly number[];
}

interface Query {
  words: string[];
  tests: ((node: number) => boolean)[];
}

const LIMIT = 500;

/** Hits, best first, at most 500. Nodes of every step are searched; an empty query finds nothing. */
export function search(scene: Scene, text: string): SearchHit[] {
  const query = parse(scene, text);
  if (query.words.length === 0 && query.tests.length === 0) return [];
  const hits: SearchHit[] = [];
  for (let node = 0; node < scene.nodes.length; node++) {
    if (!query.tests.every((test) => test(node))) continue;
    const hit = scoreNode(scene, node, query.words);
    if (hit !== null) hits.push(hit);
  }
  hits.sort((a, b) => b.score - a.score || a.node - b.node);
  return hits.slice(0, LIMIT);
}

function scoreNode(scene: Scene, node: number, words: readonly string[]): SearchHit | null {
  const { nodes } = scene;
  const id = nodes.id(node);
  const at: number[] = [];
  let score = nodes.kind[node] === Kind.constant ? -2 : 0;
  for (const word of words) {
    const inId = fuzzy(word, id);
    const elsewhere = Math.max(
      fuzzy(word, nodes.op(node))?.score ?? -Infinity,
      fuzzy(word, scene.modulePath(node))?.score ?? -Infinity,
      fuzzy(word, nodes.source(node))?.score ?? -Infinity,
    );
    const best = Math.max(inId === null ? -Infinity : inId.score + 1, elsewhere);
    if (best === -Infinity) return null;
    if (inId !== null) at.push(...inId.at);
    score += best;
  }
  return { node, id, score, at };
}

/**
 * Match the characters of `word` in order. Runs and starts of a part (after "_", ".", "/", or a capital) count more,
 * gaps and length less; null when some character is missing. A whole match at the start is best.
 */
export function fuzzy(word: string, text: string): { score: number; at: number[] } | null {
  if (word.length > text.length) return null;
  const lower = text.toLowerCase();
  const direct = lower.indexOf(word);
  if (direct >= 0) {
    const start = direct === 0 || isBoundary(text, direct);
    const score =
      20 + word.length * 2 + (start ? 8 : 0) + (direct === 0 ? 2 : 0) - Math.min(text.length - word.length, 60) / 10;
    return { score, at: Array.from(word, (_, i) => direct + i) };
  }
  const at: number[] = [];
  let from = 0;
  let score = 0;
  for (const char of word) {
    const found = lower.indexOf(char, from);
    if (found < 0) return null;
    score += isBoundary(text, found) ? 2 : found === from && at.length > 0 ? 1.5 : 0.2;
    score -= Math.min(found - from, 10) * 0.1;
    at.push(found);
    from = found + 1;
  }
  // Scattered letters find too much in long names: ask for at least one strong place in every three.
  return score >= word.length * 0.6 ? { score, at } : null;
}

function isBoundary(text: string, at: number): boolean {
  if (at === 0) return true;
  const before = text.charAt(at - 1);
  return (
    "_./: -".includes(before) || (before === before.toLowerCase() && text.charAt(at) !== text.charAt(at).toLowerCase())
  );
}

function parse(scene: Scene, text: string): Query {
  const query: Query = { words: [], tests: [] };
  for (const token of text
    .trim()
    .split(/\s+/)
    .filter((part) => part !== "")) {
    const test = parseFilter(scene, token);
    if (test === null) query.words.push(token.toLowerCase());
    else query.tests.push(test);
  }
  return query;
}

function parseFilter(scene: Scene, token: string): ((node: number) => boolean) | null {
  const { nodes } = scene;
  const number = /^users(<=|>=|=|<|>)(\d+)$/.exec(token);
  if (number !== null) {
    const bound = Number(number[2]);
    const compare = COMPARE[number[1] as keyof typeof COMPARE];
    return (node) => compare(nodes.users[node], bound);
  }
  const state = states(scene)[token];
  if (state !== undefined) return state;
  const colon = token.indexOf(":");
  const value = token.slice(colon + 1);
  if (colon < 1 || value === "") return null;
  const wanted = matcher(value);
  const exact = matcher(value, true);
  switch (token.slice(0, colon)) {
    case "op":
      return (node) => wanted(nodes.op(node)) || wanted(nodes.label(node));
    case "name":
      return (node) => wanted(nodes.id(node));
    case "module":
      // its own module or one around it: a sub-graph's path has slashes
      return (node) => {
        const path = scene.modulePath(node);
        return exact(path) || [...path.matchAll(/[./]/g)].some(({ index }) => exact(path.slice(0, index)));
      };
    case "dtype":
      return (node) => nodes.shape(node).split("[")[0]?.toLowerCase() === value.toLowerCase();
    case "shape":
      return (node) => wanted(nodes.shape(node));
    case "source":
      return (node) => wanted(nodes.source(node));
    case "category":
      return (node) => wanted(scene.category(node));
    case "kind":
      return (node) => KINDS[nodes.kind[node]] === value;
    default:
      return null;
  }
}

const COMPARE = {
  "<": (a: number, b: number) => a < b,
  ">": (a: number, b: number) => a > b,
  "=": (a: number, b: number) => a === b,
  "<=": (a: number, b: number) => a <= b,
  ">=": (a: number, b: number) => a >= b,
} as const;

/** Words that are states. Fused: taken by an applied match of a fusion or a fold, or made by one; not what was decomposed. */
function states(scene: Scene): Record<string, (node: number) => boolean> {
  const { nodes } = scene;
  const fuses = scene.patterns.map(({ kind }) => kind === "fusion" || kind === "fold");
  let fused: Set<number> | null = null;
  const isFused = (node: number) => {
    if (fused === null) {
      fused = new Set();
      for (let match = 0; match < scene.matches.length; match++) {
        if (scene.verdict(match) !== "applied" || !fuses[scene.matches.pattern[match] ?? -1]) continue;
        for (const member of scene.matchMembers(match)) fused.add(member);
        for (const origin of scene.matchOrigins(match)) fused.add(origin);
      }
    }
    return fused.has(node) || fuses[nodes.pattern[node]] === true;
  };
  const isOperator = (node: number) => nodes.kind[node] === Kind.operator;
  return {
    fused: isFused,
    unfused: (node) => isOperator(node) && !isFused(node),
    skipped: (node) => (nodes.flags[node] & Flag.skipped) !== 0,
    removed: (node) => nodes.born[node] === 0 && nodes.died[node] >= 0,
    added: (node) => nodes.born[node] > 0 && nodes.died[node] < 0,
  };
}

/** A glob when the value holds * or ?, else "contains" (or the whole text, where `whole`). */
function matcher(value: string, whole = false): (text: string) => boolean {
  const lower = value.toLowerCase();
  if (/[*?]/.test(lower)) return (text) => glob(lower, text.toLowerCase());
  return (text) => (whole ? text.toLowerCase() === lower : text.toLowerCase().includes(lower));
}

/** Whether the whole text matches: * is any run, ? any one character. Never backtracks beyond the last star. */
export function glob(pattern: string, text: string): boolean {
  let p = 0;
  let t = 0;
  let star = -1;
  let resume = 0;
  while (t < text.length) {
    if (pattern[p] === "*") {
      star = p++;
      resume = t;
    } else if (p < pattern.length && (pattern[p] === "?" || pattern[p] === text[t])) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++resume;
    } else return false;
  }
  while (pattern[p] === "*") p++;
  return p === pattern.length;
}
