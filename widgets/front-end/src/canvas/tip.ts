/** The tip that comes when the pointer rests on something for 250 ms. */
import type { Scene } from "../scene";
import type { State } from "../state";
import { lineage } from "../provenance";
import { shownSteps } from "../state";
import type { Hit } from "./hit";
import { plain } from "./text";

const REST = 250;
const MOST_NAMES = 6;

export class Tip {
  readonly element = document.createElement("div");
  #timer = 0;

  constructor() {
    this.element.className = "ls-tip";
    this.element.hidden = true;
    this.element.setAttribute("role", "tooltip");
  }

  /** Show what is said of a hit at a place (px of the parent) after the rest; null hides it at once. */
  show(hit: Hit | null, scene: Scene | null, state: State, x: number, y: number): void {
    clearTimeout(this.#timer);
    this.element.hidden = true;
    if (hit === null || scene === null) return;
    this.#timer = window.setTimeout(() => {
      const lines = describe(hit, scene, state);
      if (lines.length === 0) return;
      this.element.replaceChildren(
        ...lines.map((line, i) => {
          const row = document.createElement(i === 0 ? "b" : "div");
          row.textContent = line;
          return row;
        }),
      );
      this.element.hidden = false;
      const parent = this.element.parentElement;
      const { offsetWidth: w, offsetHeight: h } = this.element;
      const left = Math.min(x + 14, (parent?.clientWidth ?? 0) - w - 8);
      const top = y + 18 + h > (parent?.clientHeight ?? 0) ? y - h - 10 : y + 18;
      this.element.style.transform = `translate(${Math.max(8, left)}px,${Math.max(8, top)}px)`;
    }, REST);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.element.remove();
  }
}

function describe(hit: Hit, scene: Scene, state: State): string[] {
  switch (hit.kind) {
    case "node":
      return describeNode(hit.row, scene, state);
    case "match":
      return [
        `${numbered(scene, scene.matches.pattern[hit.match])}: ${verdictOf(scene, hit.match)}`,
        ...said(scene.matches.reason(hit.match)),
      ];
    case "module": {
      const { modules } = scene;
      if (!hit.header) return [];
      const counts = [
        `${modules.ops[hit.row]} operators`,
        `${modules.ops_after[hit.row]} after`,
        ...(modules.matched[hit.row] > 0 ? [`${modules.matched[hit.row]} matched`] : []),
        ...(modules.near[hit.row] > 0 ? [`${modules.near[hit.row]} near`] : []),
      ];
      return [plain(modules.path(hit.row)), plain(modules.type(hit.row)), counts.join(" · ")].filter(
        (line) => line !== "",
      );
    }
    case "stub": {
      const names = [...new Set(hit.far.map((far) => far.id))];
      return [
        hit.far.length === 1 ? `Goes on at ${plain(names[0] ?? "")}` : `Goes on at ${names.length} places`,
        "Click to go there.",
      ];
    }
    case "edge": {
      const { routes, edges, nodes, modules } = scene;
      const name = (row: number, module: number) => plain(module ? modules.path(row) : nodes.id(row));
      const edge = routes.edge[hit.route];
      const title = `${name(routes.src[hit.route], routes.src_module[hit.route])} → ${name(routes.dst[hit.route], routes.dst_module[hit.route])}`;
      return edge < 0
        ? [title]
        : [title, [edges.arg(edge), nodes.shape(edges.src[edge])].filter((part) => part !== "").join(" · ")].filter(
            (line) => line !== "",
          );
    }
  }
}

function describeNode(row: number, scene: Scene, state: State): string[] {
  const { nodes } = scene;
  const lines = [
    plain(nodes.id(row)),
    plain([nodes.op(row), nodes.detail(row)].filter((part) => part !== "").join(", ")),
    plain(nodes.shape(row)),
  ];
  if (nodes.source(row) !== "") lines.push(plain(nodes.source(row)));
  const origins = nodes.born[row] > 0 ? lineage(scene, row, 0) : [];
  if (origins.length > 0) {
    const names = origins.slice(0, MOST_NAMES).map((node) => plain(nodes.id(node)));
    lines.push(
      `${origins.length === 1 ? "1 node" : `${origins.length} nodes`} became this: ${names.join(", ")}${origins.length > MOST_NAMES ? ", …" : ""}`,
    );
  }
  if (nodes.born[row] > 0)
    lines.push(
      `made at step ${nodes.born[row]}${nodes.pattern[row] >= 0 ? ` by ${numbered(scene, nodes.pattern[row])}` : ""}`,
    );
  else if (nodes.died[row] >= 0 && shownSteps(state).some(({ to }) => to >= nodes.died[row]))
    lines.push(`taken at step ${nodes.died[row]}`);
  lines.push(...verdictsOf(row, scene));
  return lines.filter((line) => line !== "");
}

function verdictsOf(row: number, scene: Scene): string[] {
  const lines: string[] = [];
  for (let match = 0; match < scene.matches.length && lines.length < 3; match++) {
    if (scene.matches.fault[match] === row)
      lines.push(`${numbered(scene, scene.matches.pattern[match])} stops here: ${plain(scene.matches.reason(match))}`);
    if (scene.matches.anchor[match] !== row || scene.verdict(match) === "applied") continue;
    lines.push(`${numbered(scene, scene.matches.pattern[match])}: ${verdictOf(scene, match)}`);
  }
  return lines;
}

export function verdictOf(scene: Scene, match: number): string {
  const verdict = scene.verdict(match) ?? "";
  return verdict === "near miss"
    ? `near miss, ${scene.matches.passed[match]} of ${scene.matches.total[match]}`
    : verdict;
}

function numbered(scene: Scene, pattern: number): string {
  const row = scene.patterns[pattern];
  return row === undefined ? "" : `${row.number} ${row.name}`;
}

function said(reason: string): string[] {
  return reason === "" ? [] : [plain(reason)];
}
