/** Writes scenes as the kernel does: columns in one buffer, strings by number. */
import type { Column, SceneHeader } from "../src/protocol";

type Tables = SceneHeader["tables"];
type Row<T extends keyof Tables> = Partial<Record<keyof Tables[T], number | string>>;

/** Column types that are not i32; text columns hold indices and are i32. */
const FLOATS = new Set(["x", "y", "w", "h"]);
const COLUMNS: { [T in keyof Tables]: (keyof Tables[T])[] } = {
  modules: [
    "path",
    "label",
    "type",
    "parent",
    "open",
    "x",
    "y",
    "w",
    "h",
    "ops",
    "ops_after",
    "matched",
    "near",
    "merged",
  ],
  nodes: [
    "id",
    "op",
    "label",
    "detail",
    "shape",
    "source",
    "leaf",
    "category",
    "module",
    "kind",
    "flags",
    "users",
    "pattern",
    "born",
    "died",
    "x",
    "y",
    "w",
    "h",
  ],
  edges: ["src", "dst", "arg", "born", "died"],
  routes: ["src", "src_module", "dst", "dst_module", "born", "died", "point", "points", "stub", "edge"],
  points: ["x", "y"],
  matches: [
    "pattern",
    "verdict",
    "anchor",
    "member",
    "members",
    "origin",
    "origins",
    "step",
    "fault",
    "passed",
    "total",
    "reason",
    "by",
  ],
  members: ["node"],
  steps: ["pattern", "module", "sentence", "delta", "taken", "takens", "made", "mades"],
  changes: ["node", "step"],
};
const DEFAULTS: Record<string, number> = {
  died: -1,
  pattern: -1,
  fault: -1,
  by: -1,
  edge: -1,
  step: -1,
  merged: 1,
  open: 1,
};

export class SceneWriter {
  readonly rows: { [T in keyof Tables]: Row<T>[] } = {
    modules: [],
    nodes: [],
    edges: [],
    routes: [],
    points: [],
    matches: [],
    members: [],
    steps: [],
    changes: [],
  };
  readonly strings: string[] = [];
  readonly #numbers = new Map<string, number>();

  add<T extends keyof Tables>(table: T, row: Row<T>): number {
    return this.rows[table].push(row) - 1;
  }

  /** Add a run of members; returns where it starts. */
  run(nodes: readonly number[]): number {
    const first = this.rows.members.length;
    for (const node of nodes) this.add("members", { node });
    return first;
  }

  route(points: readonly (readonly [number, number])[], row: Row<"routes">): number {
    const point = this.rows.points.length;
    for (const [x, y] of points) this.add("points", { x, y });
    return this.add("routes", { ...row, point, points: points.length });
  }

  string(text: string): number {
    let number = this.#numbers.get(text);
    if (number === undefined) {
      number = this.strings.push(text) - 1;
      this.#numbers.set(text, number);
    }
    return number;
  }

  /** The tables and their buffer; every column starts at a multiple of 8. */
  finish(): { tables: Tables; strings: string[]; buffer: ArrayBuffer } {
    const tables: Record<string, Record<string, Column>> = {};
    const parts: { offset: number; values: Int32Array | Float32Array }[] = [];
    let offset = 0;
    for (const [table, columns] of Object.entries(COLUMNS)) {
      const rows = this.rows[table as keyof Tables] as Record<string, number | string | undefined>[];
      const described: Record<string, Column> = (tables[table] = {});
      for (const column of columns) {
        const values = FLOATS.has(column) ? new Float32Array(rows.length) : new Int32Array(rows.length);
        rows.forEach((row, i) => {
          const value = row[column] ?? DEFAULTS[column] ?? (isText(table, column) ? "" : 0);
          values[i] = typeof value === "string" ? this.string(value) : value;
        });
        described[column] = { type: FLOATS.has(column) ? "f32" : "i32", offset, length: rows.length };
        parts.push({ offset, values });
        offset = (offset + values.byteLength + 7) & ~7;
      }
    }
    const buffer = new ArrayBuffer(offset);
    for (const { offset: at, values } of parts) new Uint8Array(buffer).set(new Uint8Array(values.buffer), at);
    return { tables: tables as unknown as Tables, strings: this.strings, buffer };
  }
}

const TEXTS = new Set(["path", "label", "type", "id", "op", "detail", "shape", "source", "leaf", "arg", "reason", "sentence"]);

function isText(_table: string, column: string): boolean {
  return TEXTS.has(column);
}
