/**
 * A network made up for tests and screenshots: columns of blocks y = relu(conv(x) + s * x), most of which a pattern takes.
 * In `detail.1` the addition has alpha = 2, which is the near miss; in `detail.2` the relu is skipped.
 */
import { CATEGORIES } from "../src/canvas/theme";
import type { PatternRow, SceneHeader } from "../src/protocol";
import { SceneWriter } from "./columns";

export interface Wanted {
  columns: { name: string; blocks: number }[];
  /** Paths of closed modules. */
  closed?: ReadonlySet<string>;
  /** Place the fused operator beside what it replaces, as a comparison needs, or over it. */
  beside?: boolean;
  revision?: number;
  enabled?: ReadonlySet<string>;
  /** Names of the first block's nodes are replaced by this. */
  hostile?: string;
}

const VERDICTS: SceneHeader["verdicts"] = [
  "applied",
  "declined",
  "skipped",
  "disabled",
  "shadowed",
  "near miss",
  "nothing to fuse",
  "no anchor",
  "error",
];
export const EPILOGUE = "conv2d_with_epilogue";
const ROW = 40;
const NODE = 24;
const GAP = 16;

function patternRows(matched: number, near: number, enabled: ReadonlySet<string> | undefined): PatternRow[] {
  const of = (
    name: string,
    color: number,
    kind: PatternRow["kind"],
    summary: string,
    more: Partial<PatternRow> = {},
  ): PatternRow => ({
    name,
    number: color + 1,
    color,
    kind,
    enabled: enabled?.has(name) ?? name !== "scaled_relu",
    locked: null,
    yours: false,
    mathematics: "y = max(0, W ∗ x + b + s · x)",
    source: "pytorch/executorch#24823",
    applied: 0,
    near: 0,
    skipped: 0,
    declined: 0,
    shadowed: 0,
    would: 0,
    summary,
    ...more,
  });
  return [
    of("fold_batch_norm", 0, "fold", "no anchor in this model"),
    of("quantized_linear", 1, "fusion", "no anchor in this model"),
    of(EPILOGUE, 2, "fusion", `${matched} matched · ${near} near · 1 skipped`, { applied: matched, near, skipped: 1 }),
    of("conv1d_as_conv2d", 3, "decomposition", "no match · 102 ruled out"),
    of("conv_with_clamp", 4, "fusion", "2 matched · 74 shadowed", { shadowed: 74 }),
    of("scaled_relu", 5, "fusion", "disabled · would match 4", { would: 4, yours: true }),
  ];
}

interface Block {
  path: string;
  module: number;
  x: number;
  y: number;
  w: number;
  h: number;
  open: boolean;
}

export function synthetic(wanted: Wanted): { header: SceneHeader; buffer: ArrayBuffer } {
  const writer = new SceneWriter();
  const width = wanted.beside ? 446 : 236;
  const on = wanted.enabled?.has(EPILOGUE) ?? true;
  let matched = 0;
  let near = 0;
  const root = writer.add("modules", { path: "", type: "SuperResolution", parent: -1 });
  const input = writer.add("nodes", {
    id: "x",
    op: "placeholder",
    label: "x",
    shape: "f32[1,64,128,128]",
    category: 9,
    kind: 2,
    users: 2,
    ...box(width / 2 - 30 + 14, 0, 60, NODE),
  });
  let number = 0;
  let step = 0;
  // What feeds the next block, before and after the lowering.
  type Source = { row: number; module: boolean; x: number; y: number };
  let before: Source = { row: input, module: false, x: 14 + width / 2, y: NODE };
  let after = before;

  const connect = (
    from: { before: Source; after: Source },
    to: { row: number; module: boolean; x: number; y: number; born: number; died: number },
    arg: string,
    jump: boolean,
    bend: number,
  ) => {
    const same = from.before === from.after;
    const sources = same
      ? [{ source: from.before, born: to.born, died: to.died }]
      : to.born > 0
        ? [{ source: from.after, born: to.born, died: -1 }]
        : [
            // What outlives the step that replaced its producer reads another node from then on.
            { source: from.before, born: 0, died: to.died < 0 ? step : to.died },
            ...(to.died < 0 ? [{ source: from.after, born: step, died: -1 }] : []),
          ];
    for (const { source, born, died } of sources) {
      const edge =
        source.module || to.module ? -1 : writer.add("edges", { src: source.row, dst: to.row, arg, born, died });
      const points: [number, number][] = jump
        ? [
            [source.x, source.y],
            [source.x, source.y + 18],
            [to.x, to.y - 26],
            [to.x, to.y - 1],
          ]
        : Math.abs(source.x - to.x) < 1
          ? [
              [source.x, source.y],
              [to.x, to.y - 1],
            ]
          : [
              [source.x, source.y],
              [source.x, bend],
              [to.x, bend],
              [to.x, to.y - 1],
            ];
      writer.route(points, {
        src: source.row,
        src_module: source.module ? 1 : 0,
        dst: to.row,
        dst_module: to.module ? 1 : 0,
        born,
        died,
        stub: jump ? 1 : 0,
        edge,
      });
    }
  };

  wanted.columns.forEach((column, at) => {
    const parent = writer.add("modules", {
      path: column.name,
      label: column.name,
      type: "Sequential",
      parent: root,
      x: NaN,
      y: NaN,
      w: NaN,
      h: NaN,
    });
    let y = ROW + 14;
    const x = 14 + at * (width + 38);
    let jump = at > 0;
    for (let i = 0; i < column.blocks; i++) {
      const path = `${column.name}.${i}`;
      const open = wanted.closed?.has(path) !== true;
      const alpha = path === "detail.1";
      const keepsRelu = path === "detail.2";
      const fused = on && !alpha;
      const block: Block = { path, x, y, w: width, h: open ? 162 : 28, open, module: 0 };
      const type = alpha ? "RefineBlock" : "SkipBlock";
      block.module = writer.add("modules", {
        path,
        label: path,
        type,
        parent,
        open: open ? 1 : 0,
        ...box(x, y, width, block.h),
        ops: 4,
        ops_after: fused ? (keepsRelu ? 2 : 1) : 4,
        matched: fused ? 1 : 0,
        near: alpha ? 1 : 0,
      });
      if (fused) step++;
      if (fused) matched++;
      if (alpha) near++;
      const died = fused ? step : -1;
      const place = (px: number, py: number, w: number, h = NODE) =>
        open ? box(px, py, w, h) : box(NaN, NaN, NaN, NaN);
      const name = (base: string) =>
        wanted.hostile !== undefined && number === 0 ? `${base}_${wanted.hostile}` : `${base}_${number}`;
      const node = (base: string, category: number, px: number, py: number, w: number, more: object = {}) =>
        writer.add("nodes", {
          id: name(base),
          op: `aten.${base}`,
          label: base,
          shape: "f32[1,64,128,128]",
          source: `dsr.py:${50 + (number % 40)}`,
          category,
          module: block.module,
          leaf: base === "conv" ? "first.conv" : "",
          users: 1,
          died,
          ...place(px, py, w),
          ...more,
        });
      const cx = x + (wanted.beside ? 20 : 16);
      const mx = wanted.beside ? x + 150 : x + width - 96;
      const ax = wanted.beside ? x + 86 : x + 82;
      const top = y + 44;
      const conv = node("conv", 0, cx, top, wanted.beside ? 108 : 92, { detail: "3×3, 64", users: alpha ? 1 : 1 });
      const mul = alpha ? -1 : node("mul", 2, mx, top, wanted.beside ? 76 : 54);
      const scale = alpha
        ? -1
        : writer.add("nodes", {
            id: name("s"),
            op: "parameter",
            label: "s",
            shape: "f32[1]",
            category: 8,
            kind: 1,
            module: block.module,
            users: 1,
            ...place(mx + (wanted.beside ? 82 : 60), top + 3, 26, 18),
          });
      const add = node("add", 2, ax, top + ROW, 76, { detail: alpha ? "α = 2" : "" });
      const relu = node("relu", 3, ax, top + 2 * ROW, 76, { died: keepsRelu ? -1 : died, flags: keepsRelu ? 1 : 0 });
      const made = fused
        ? writer.add("nodes", {
            id: `conv2d_with_epilogue_${number}`,
            op: "lowerscope.conv2d.with_epilogue",
            label: "conv2d.with_epilogue",
            detail: keepsRelu ? "residual" : "residual + relu",
            shape: "f32[1,64,128,128]",
            source: `dsr.py:${50 + (number % 40)}`,
            category: 0,
            module: block.module,
            flags: 2,
            users: 1,
            pattern: 2,
            born: step,
            ...(wanted.beside ? place(x + width - 178, y + 80, 162, 30) : place(x + width / 2 - 70, top, 150, NODE)),
          })
        : -1;
      const from = { before, after };
      const outX = ax + 38;
      if (!open) {
        connect(from, { row: block.module, module: true, x: x + width / 2, y, born: 0, died: -1 }, "", jump, y - 8);
        before = after = { row: block.module, module: true, x: x + width / 2, y: y + block.h };
      } else {
        const bend = y + 30;
        connect(from, { row: conv, module: false, x: cx + 46, y: top, born: 0, died }, "input", jump, bend);
        if (mul >= 0) connect(from, { row: mul, module: false, x: mx + 27, y: top, born: 0, died }, "self", jump, bend);
        else {
          const edge = writer.add("edges", { src: before.row, dst: add, arg: "self" });
          writer.route(
            [
              [before.x, before.y],
              [before.x, bend],
              [x + width - 28, bend],
              [x + width - 28, top + 32],
              [outX + 16, top + 32],
              [outX + 16, top + ROW - 1],
            ],
            { src: before.row, src_module: before.module ? 1 : 0, dst: add, edge },
          );
        }
        const inner = (src: number, dst: number, arg: string, points: [number, number][], dies: number) => {
          const edge = writer.add("edges", { src, dst, arg, died: dies });
          writer.route(points, { src, dst, edge, died: dies });
        };
        const low = top + 32;
        inner(
          conv,
          add,
          alpha ? "other" : "self",
          [
            [cx + 46, top + NODE],
            [cx + 46, low],
            [outX - 14, low],
            [outX - 14, top + ROW - 1],
          ],
          died,
        );
        if (mul >= 0) {
          inner(
            mul,
            add,
            "other",
            [
              [mx + 27, top + NODE],
              [mx + 27, low],
              [outX + 14, low],
              [outX + 14, top + ROW - 1],
            ],
            died,
          );
          const mulWidth = wanted.beside ? 76 : 54;
          inner(
            scale,
            mul,
            "other",
            [
              [mx + mulWidth + 6, top + 12],
              [mx + mulWidth, top + 12],
            ],
            died,
          );
        }
        inner(
          add,
          relu,
          "self",
          [
            [outX, top + ROW + NODE],
            [outX, top + 2 * ROW - 1],
          ],
          died,
        );
        before = { row: relu, module: false, x: outX, y: top + 2 * ROW + NODE };
        if (made >= 0) {
          const fx = wanted.beside ? x + width - 97 : x + width / 2 + 5;
          const fy = wanted.beside ? y + 80 : top;
          const fh = wanted.beside ? 30 : NODE;
          connect(from, { row: made, module: false, x: fx, y: fy, born: step, died: -1 }, "input", jump, bend);
          if (keepsRelu) {
            inner(
              made,
              relu,
              "self",
              [
                [fx, fy + fh],
                [fx, fy + fh + 14],
                [outX, fy + fh + 14],
                [outX, top + 2 * ROW - 1],
              ],
              -1,
            );
            writer.rows.routes[writer.rows.routes.length - 1] = {
              ...writer.rows.routes[writer.rows.routes.length - 1],
              born: step,
            };
            after = before;
          } else after = { row: made, module: false, x: fx, y: fy + fh };
        } else after = before;
      }
      jump = false;
      const members = [conv, ...(mul >= 0 ? [mul] : []), add, ...(keepsRelu ? [] : [relu])];
      const run = writer.run(members);
      const match = {
        pattern: 2,
        anchor: conv,
        member: run,
        members: members.length,
        origin: run,
        origins: members.length,
      };
      if (fused) {
        writer.add("matches", { ...match, verdict: 0, step, passed: 11, total: 11 });
        const madeRun = writer.run([made]);
        writer.add("steps", {
          pattern: 2,
          module: block.module,
          sentence: "The scaled skip connection and the relu move into the convolution: 4 operators become 1.",
          delta: 1 - members.length,
          taken: run,
          takens: members.length,
          made: madeRun,
          mades: 1,
        });
      } else if (alpha)
        writer.add("matches", {
          ...match,
          verdict: 5,
          fault: add,
          passed: 7,
          total: 11,
          reason: "add.alpha = 2, expected 1 (conv is the second operand)",
        });
      else
        writer.add("matches", { ...match, verdict: 3, passed: 11, total: 11, reason: "conv2d_with_epilogue is off" });
      number++;
      y += block.h + GAP;
    }
  });
  const { tables, strings, buffer } = writer.finish();
  const blocks = wanted.columns.reduce((sum, column) => sum + column.blocks, 0);
  return {
    buffer,
    header: {
      version: 1,
      strings,
      tables,
      categories: CATEGORIES,
      verdicts: VERDICTS,
      patterns: patternRows(matched, near, wanted.enabled),
      revision: wanted.revision ?? 1,
      program: {
        name: "dsr",
        target: "vulkan",
        targets: ["vulkan", "xnnpack", "webgpu"],
        nodes: writer.rows.nodes.length,
        modules: writer.rows.modules.length,
      },
      recipe: {},
      skips: [
        { kind: "node", value: "relu_56", pattern: null, active: true, hint: "", key: "node:relu_56" },
        { kind: "module", value: "tail.*", pattern: null, active: true, hint: "", key: "module:tail.*" },
      ],
      can_undo: null,
      can_redo: null,
      profile: [],
      operators: [
        { op: "convolution", category: "conv", before: blocks, after: blocks - matched, delta: -matched, change: "" },
        { op: "conv2d.with_epilogue", category: "conv", before: 0, after: matched, delta: matched, change: "" },
        { op: "add", category: "arithmetic", before: blocks, after: blocks - matched, delta: -matched, change: "" },
        { op: "total", category: "", before: 4 * blocks, after: 4 * blocks - 3 * matched, delta: -3 * matched, change: "" },
      ],
      partitions: { before: 9, after: 1, transposes_before: 8, transposes_after: 8 },
      reasons: [],
      notice: null,
    },
  };
}

function box(x: number, y: number, w: number, h: number): { x: number; y: number; w: number; h: number } {
  return { x, y, w, h };
}
