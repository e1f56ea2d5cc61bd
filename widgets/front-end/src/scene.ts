/**
 * A scene as the browser keeps it: typed arrays over the message's one buffer, nothing copied.
 *
 * A table has one typed array per number column and one function `(row) => string` per string column, so
 * `scene.nodes.x[i]` is a number and `scene.nodes.id(i)` a name.
 */
import { isAlive } from "./lives";
import type { Column, SceneHeader } from "./protocol";

export type Numbers = Uint8Array | Int32Array | Float32Array;
type Tables = SceneHeader["tables"];
type NumberColumns<T extends keyof Tables, S extends string> = { readonly [C in Exclude<keyof Tables[T], S>]: Numbers };
type StringColumns<S extends string> = { readonly [C in S]: (row: number) => string };
type SceneTable<T extends keyof Tables, S extends string = never> = NumberColumns<T, S> &
  StringColumns<S> & { readonly length: number };

export type Modules = SceneTable<"modules", "path" | "label" | "type">;
export type Nodes = SceneTable<"nodes", "id" | "op" | "label" | "detail" | "shape" | "source" | "leaf">;
export type Edges = SceneTable<"edges", "arg">;
type Routes = SceneTable<"routes">;
type Points = SceneTable<"points">;
export type Matches = SceneTable<"matches", "reason">;
type Members = SceneTable<"members">;
export type Steps = SceneTable<"steps", "sentence">;
type Changes = SceneTable<"changes">;

/** Node kinds (`nodes.kind`) and flags (`nodes.flags`), as the protocol numbers them. */
export const KINDS = ["operator", "constant", "input", "output", "other"] as const;
export const enum Kind {
  operator,
  constant,
  input,
  output,
  other,
}
export const enum Flag {
  skipped = 1,
  own = 2,
  delegatedBefore = 4,
  delegatedAfter = 8,
}

/** Thrown when a message is not a scene that this front end can draw. */
export class SceneError extends Error {}

const ARRAYS = { u8: Uint8Array, i32: Int32Array, f32: Float32Array } as const;

export class Scene {
  readonly modules: Modules;
  readonly nodes: Nodes;
  readonly edges: Edges;
  readonly routes: Routes;
  readonly points: Points;
  readonly matches: Matches;
  readonly members: Members;
  readonly steps: Steps;
  readonly changes: Changes;

  readonly #rows = new Map<string, number>();
  readonly #modules = new Map<string, number>();
  readonly #patterns = new Map<string, number>();
  #children: number[][] | null = null;
  #edgesInto: number[][] | null = null;
  #edgesFrom: number[][] | null = null;

  constructor(
    readonly header: SceneHeader,
    buffer: DataView,
  ) {
    const tables = header.tables;
    const open = <T extends keyof Tables, S extends string = never>(name: T, ...strings: S[]) =>
      openTable(name, tables[name] as Record<string, Column>, strings, header.strings, buffer) as unknown as SceneTable<
        T,
        S
      >;
    this.modules = open("modules", "path", "label", "type");
    this.nodes = open("nodes", "id", "op", "label", "detail", "shape", "source", "leaf");
    this.edges = open("edges", "arg");
    this.routes = open<"routes">("routes");
    this.points = open<"points">("points");
    this.matches = open("matches", "reason");
    this.members = open<"members">("members");
    this.steps = open("steps", "sentence");
    this.changes = open<"changes">("changes");
    for (let row = 0; row < this.nodes.length; row++) this.#rows.set(this.nodes.id(row), row);
    for (let row = 0; row < this.modules.length; row++) this.#modules.set(this.modules.path(row), row);
    header.patterns.forEach((pattern, row) => this.#patterns.set(pattern.name, row));
  }

  /** N: Before is step 0, After is step `lastStep`. */
  get lastStep(): number {
    return this.steps.length;
  }

  get patterns() {
    return this.header.patterns;
  }

  get revision(): number {
    return this.header.revision;
  }

  /** Row of a node, module path or pattern name; -1 when this scene has none of that name. */
  nodeRow(id: string): number {
    return this.#rows.get(id) ?? -1;
  }

  moduleRow(path: string): number {
    return this.#modules.get(path) ?? -1;
  }

  patternRow(name: string): number {
    return this.#patterns.get(name) ?? -1;
  }

  /** The path of a node's own module, which has no box where it holds one operator. */
  modulePath(node: number): string {
    return [this.modules.path(this.nodes.module[node]), this.nodes.leaf(node)].filter(Boolean).join(".");
  }

  category(node: number): string {
    return this.header.categories[this.nodes.category[node]] ?? "other";
  }

  verdict(match: number) {
    return this.header.verdicts[this.matches.verdict[match]];
  }

  nodeAlive(node: number, step: number): boolean {
    return isAlive(this.nodes.born[node], this.nodes.died[node], step);
  }

  /** A node has a box when no closed module hides it. */
  nodeVisible(node: number): boolean {
    return !Number.isNaN(this.nodes.x[node]);
  }

  moduleVisible(module: number): boolean {
    return !Number.isNaN(this.modules.x[module]);
  }

  /** Rows of the modules directly inside a module. */
  childrenOf(module: number): readonly number[] {
    this.#children ??= group(this.modules.length, this.modules.length, (row) => this.modules.parent[row]);
    return this.#children[module] ?? [];
  }

  /** Module rows from the root to `module`, both included. */
  ancestors(module: number): number[] {
    const chain: number[] = [];
    for (let row = module; row >= 0; row = this.modules.parent[row]) chain.unshift(row);
    return chain;
  }

  /** Edge rows that end in (start from) a node, of every step. */
  edgesInto(node: number): readonly number[] {
    this.#edgesInto ??= group(this.nodes.length, this.edges.length, (row) => this.edges.dst[row]);
    return this.#edgesInto[node] ?? [];
  }

  edgesFrom(node: number): readonly number[] {
    this.#edgesFrom ??= group(this.nodes.length, this.edges.length, (row) => this.edges.src[row]);
    return this.#edgesFrom[node] ?? [];
  }

  edgeAlive(edge: number, step: number): boolean {
    return isAlive(this.edges.born[edge], this.edges.died[edge], step);
  }

  /** Nodes taken by a match, the original nodes behind them, and nodes taken or made by a step (1..N). */
  matchMembers(match: number): number[] {
    return this.#run(this.matches.member[match], this.matches.members[match]);
  }

  matchOrigins(match: number): number[] {
    return this.#run(this.matches.origin[match], this.matches.origins[match]);
  }

  stepTaken(step: number): number[] {
    return step < 1 || step > this.lastStep ? [] : this.#run(this.steps.taken[step - 1], this.steps.takens[step - 1]);
  }

  stepMade(step: number): number[] {
    return step < 1 || step > this.lastStep ? [] : this.#run(this.steps.made[step - 1], this.steps.mades[step - 1]);
  }

  #run(first: number, length: number): number[] {
    return Array.from(this.members.node.subarray(first, first + length));
  }
}

/** Scenes by the buffer they were decoded from: a widget that is displayed twice gets one message and keeps one scene. */
const decoded = new WeakMap<ArrayBufferLike, Scene>();

/**
 * Read a scene.
 *
 * Columns are views of `buffer`; only when it starts at an address that typed arrays cannot use is it copied, once.
 * Raises `SceneError` when the version is another or a column reaches outside the buffer.
 */
export function decode(header: SceneHeader, buffer: ArrayBuffer | DataView): Scene {
  if (header.version !== 1) {
    throw new SceneError(
      `This front end reads scenes of version 1, the kernel sent ${String(header.version)}: restart the kernel and reload the page.`,
    );
  }
  const known = decoded.get(buffer instanceof DataView ? buffer.buffer : buffer);
  if (known !== undefined && known.header === header) return known;
  let view = buffer instanceof DataView ? buffer : new DataView(buffer);
  if (view.byteOffset % 8 !== 0) {
    view = new DataView(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
  }
  const scene = new Scene(header, view);
  decoded.set(buffer instanceof DataView ? buffer.buffer : buffer, scene);
  return scene;
}

function openTable(
  name: string,
  columns: Record<string, Column>,
  strings: readonly string[],
  texts: readonly string[],
  buffer: DataView,
) {
  const table: Record<string, unknown> = {};
  let length = -1;
  for (const [column, { type, offset, length: rows }] of Object.entries(columns)) {
    const Type = ARRAYS[type];
    if (Type === undefined || offset % 8 !== 0 || offset + rows * Type.BYTES_PER_ELEMENT > buffer.byteLength) {
      throw new SceneError(
        `The scene's column ${name}.${column} does not fit its buffer: restart the kernel and reload the page.`,
      );
    }
    if (length >= 0 && rows !== length)
      throw new SceneError(`The scene's column ${name}.${column} has ${rows} rows, the others have ${length}.`);
    length = rows;
    const values = new Type(buffer.buffer as ArrayBuffer, buffer.byteOffset + offset, rows);
    table[column] = strings.includes(column) ? (row: number) => texts[values[row]] ?? "" : values;
  }
  table["length"] = Math.max(0, length);
  return table;
}

function group(count: number, rows: number, key: (row: number) => number): number[][] {
  const groups: number[][] = Array.from({ length: count }, () => []);
  for (let row = 0; row < rows; row++) groups[key(row)]?.push(row);
  return groups;
}
