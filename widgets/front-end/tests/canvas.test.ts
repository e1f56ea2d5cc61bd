import assert from "node:assert/strict";
import { test } from "node:test";

import { Camera } from "../src/canvas/camera";
import { READABLE } from "../src/canvas/framing";
import { hitTest } from "../src/canvas/hit";
import { nodesOfMatch } from "../src/canvas/hulls_shown";
import { indexOf, RowIndex } from "../src/canvas/index_tree";
import { drawModuleHeaders } from "../src/canvas/draw_modules";
import type { Frame } from "../src/canvas/frame";
import { Detail, detailAt, readable } from "../src/canvas/lod";
import { layoutChange } from "../src/canvas/motion";
import { Shown } from "../src/canvas/shown";
import { middle, plain, TextCache } from "../src/canvas/text";
import { luminance } from "../src/canvas/theme";
import { Fate } from "../src/lives";
import { decode } from "../src/scene";
import { synthetic } from "./synthetic";

const make = (closed: string[] = []) => {
  const { header, buffer } = synthetic({
    columns: [
      { name: "body", blocks: 4 },
      { name: "detail", blocks: 4 },
    ],
    closed: new Set(closed),
    beside: true,
  });
  return decode(header, buffer);
};
const scene = make();
const nobody: ReadonlySet<number> = new Set();

test("culling finds exactly the rows whose boxes meet the window", () => {
  const { nodes } = scene;
  const window = { x0: 30, y0: 100, x1: 300, y1: 420 };
  const expected = Array.from({ length: nodes.length }, (_, row) => row).filter(
    (row) =>
      nodes.x[row] <= window.x1 &&
      nodes.x[row] + nodes.w[row] >= window.x0 &&
      nodes.y[row] <= window.y1 &&
      nodes.y[row] + nodes.h[row] >= window.y0,
  );
  assert.ok(expected.length > 5 && expected.length < nodes.length);
  assert.deepEqual(indexOf(scene).nodes.rows(window), expected);
});

test("an index of any size finds what going through all boxes finds", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  for (const size of [0, 1, 16, 17, 257, 5000]) {
    const boxes = Array.from({ length: size }, () => {
      const [x0, y0] = [random(9000) - 4000, random(90000) - 4000];
      return { x0, y0, x1: x0 + random(200), y1: y0 + random(40) };
    });
    const index = new RowIndex(Int32Array.from(boxes.keys()), (row, out) => Object.assign(out, boxes[row]));
    for (const window of [
      { x0: -1e6, y0: -1e6, x1: 1e6, y1: 1e6 },
      { x0: 0, y0: 0, x1: 1500, y1: 9000 },
      { x0: 9500, y0: 0, x1: 9600, y1: 10 },
    ]) {
      const meets = ({ x0, y0, x1, y1 }: typeof window) =>
        x0 <= window.x1 && x1 >= window.x0 && y0 <= window.y1 && y1 >= window.y0;
      const expected = [...boxes.entries()].filter(([, box]) => meets(box)).map(([row]) => row);
      assert.deepEqual(index.rows(window), expected, `${size} boxes`);
    }
  }
});

test("what a closed module hides is in no index and has no fate", () => {
  const closed = make(["body.0"]);
  const row = closed.nodeRow("conv_0");
  assert.equal(closed.nodeVisible(row), false);
  const everything = { x0: -1e6, y0: -1e6, x1: 1e6, y1: 1e6 };
  assert.ok(!indexOf(closed).nodes.rows(everything).includes(row));
  assert.equal(new Shown(closed, 0, 0, true, nobody).nodes[row], Fate.absent);
});

test("before, after and the comparison show the right nodes and edges", () => {
  const last = scene.lastStep;
  const at = (id: string, shown: Shown) => shown.nodes[scene.nodeRow(id)];
  const before = new Shown(scene, 0, 0, false, nobody);
  const after = new Shown(scene, last, last, false, nobody);
  const both = new Shown(scene, 0, last, false, nobody);
  assert.equal(at("conv_0", before), Fate.unchanged);
  assert.equal(at("conv2d_with_epilogue_0", before), Fate.absent);
  assert.equal(at("conv_0", after), Fate.absent);
  assert.equal(at("conv_0", both), Fate.removed);
  assert.equal(at("conv2d_with_epilogue_0", both), Fate.added);
  assert.equal(at("add_5", both), Fate.unchanged);
  assert.equal(at("conv_5", both), Fate.changed, "its producer was replaced");
  assert.equal(at("conv_5", after), Fate.unchanged);
  for (let route = 0; route < scene.routes.length; route++) {
    if (after.routes[route] === Fate.absent || scene.routes.src_module[route]) continue;
    assert.notEqual(after.nodes[scene.routes.src[route]], Fate.absent, "an edge starts at a node that is shown");
  }
});

test("a literal changed in place is a change between the steps around it", () => {
  const row = scene.nodeRow("add_5");
  const changes = { node: Int32Array.of(row), step: Int32Array.of(2), length: 1 };
  const changed = Object.assign(make(), { changes });
  const seen = (from: number, to: number) => new Shown(changed, from, to, false, nobody).nodes[row];
  assert.equal(seen(0, 1), Fate.unchanged);
  assert.equal(seen(1, 2), Fate.changed);
  assert.equal(seen(2, 2), Fate.unchanged);
  assert.equal(seen(2, 3), Fate.unchanged);
});

test("constants are hidden unless asked for or feeding what is selected", () => {
  const s = scene.nodeRow("s_0");
  assert.equal(new Shown(scene, 0, 0, false, nobody).nodes[s], Fate.absent);
  assert.equal(new Shown(scene, 0, 0, true, nobody).nodes[s], Fate.unchanged);
  assert.equal(new Shown(scene, 0, 0, false, new Set([scene.nodeRow("mul_0")])).nodes[s], Fate.unchanged);
});

test("module counts of a comparison include what closed modules hide", () => {
  const closed = make(["body.0"]);
  const { removed, added } = new Shown(closed, 0, closed.lastStep, false, nobody).changes;
  const row = closed.moduleRow("body.0");
  assert.deepEqual([removed[row], added[row]], [4, 1]);
  assert.deepEqual([removed[0], added[0]], [4 * 6 + 3, 7]);
});

test("a match stands around its members, or, once they are gone, around what its step made", () => {
  const names = (step: number) =>
    nodesOfMatch(scene, 0, [step])
      .map((row) => scene.nodes.id(row))
      .sort();
  assert.deepEqual(names(0), ["add_0", "conv_0", "mul_0", "relu_0"]);
  assert.deepEqual(names(1), ["conv2d_with_epilogue_0"]);
});

test("a hit is the topmost thing: node, then hull, then edge, then module", () => {
  const shown = new Shown(scene, 0, 0, false, nobody);
  const { nodes } = scene;
  const at = (x: number, y: number) => hitTest(shown, null, [], x, y, 1, 4);
  const conv = scene.nodeRow("conv_1");
  const hit = at(nodes.x[conv] + 5, nodes.y[conv] + 5);
  assert.equal(hit?.kind === "node" && hit.id, "conv_1");
  const hull = at(nodes.x[conv] + nodes.w[conv] + 10, nodes.y[conv] + 12);
  assert.equal(hull?.kind === "match" && hull.anchor, "conv_1");
  const module = scene.moduleRow("body.1");
  const header = at(scene.modules.x[module] + 40, scene.modules.y[module] + 8);
  assert.deepEqual(header?.kind === "module" && [header.path, header.header], ["body.1", true]);
  const ground = at(scene.modules.x[module] + scene.modules.w[module] - 4, scene.modules.y[module] + 150);
  assert.deepEqual(ground?.kind === "module" && [ground.path, ground.header], ["body.1", false]);
  assert.equal(at(-500, -500), null);
});

test("an edge is hit within the slack and not beyond", () => {
  const shown = new Shown(scene, 0, 0, false, nobody);
  const relu = scene.nodeRow("relu_1");
  const x = scene.nodes.x[relu] + 38;
  const y = scene.modules.y[scene.moduleRow("body.2")] - 6;
  assert.equal(hitTest(shown, null, [], x + 3, y, 1, 4)?.kind, "edge");
  assert.notEqual(hitTest(shown, null, [], x + 9, y, 1, 4)?.kind, "edge");
});

test("zooming keeps the point under the cursor; fitting shows the whole box", () => {
  const camera = new Camera();
  camera.x = 100;
  camera.zoomAt(1.7, 300, 200);
  assert.ok(Math.abs(camera.toLayoutX(300) - 400) < 1e-9 && Math.abs(camera.toLayoutY(200) - 200) < 1e-9);
  const fit = Camera.fitting({ x0: 0, y0: 0, x1: 1000, y1: 4000 }, 800, 600, 20);
  const window = fit.window(800, 600);
  assert.ok(window.x0 <= 0 && window.x1 >= 1000 && window.y0 <= 0 && window.y1 >= 4000);
});

test("detail by zoom, and no text under 9 device px", () => {
  assert.deepEqual([0.1, 0.25, 0.6, 1.3].map(detailAt), [Detail.blocks, Detail.boxes, Detail.labels, Detail.full]);
  assert.equal(readable(11, 0.8, 1), false);
  assert.equal(readable(11, 0.8, 2), true);
});

test("at the first look the smallest text of a box is drawn, the name of an input", () => {
  assert.ok(readable(10.5, READABLE, 1));
  assert.ok(!readable(10.5, READABLE - 0.02, 1));
});

test("names are cut in the middle, by characters and not by halves of one", () => {
  const measure = (text: string) => Array.from(text).length;
  assert.equal(middle("relu", 10, measure), "relu");
  const cut = middle("depthwise_conv1d_as_mul", 16, measure);
  assert.equal(measure(cut), 16);
  assert.ok(cut.startsWith("depthwise") && cut.endsWith("as_mul") && cut.includes("…"));
  assert.ok(!/[\ud800-\udbff](?![\udc00-\udfff])/.test(middle("😀".repeat(30), 9, measure)));
});

test("control and direction characters are shown, never obeyed; ten thousand characters stay short", () => {
  assert.equal(plain("a\u202eb\n<b>"), "a▯b␣<b>");
  assert.ok(plain("x".repeat(10_000)).length < 500);
});

test("a layout's change moves boxes from where they were, new ones out of the module that hid them", () => {
  const closed = make(["body.0"]);
  const open = make();
  const change = layoutChange(closed, open);
  assert.ok(change !== null);
  const add = open.nodeRow("add_1");
  change.move(0);
  assert.equal(change.moving.nodes.y[add], closed.nodes.y[closed.nodeRow("add_1")]);
  const box = closed.moduleRow("body.0");
  const hidden = change.moving.nodes.y[open.nodeRow("conv_0")] as number;
  assert.ok(hidden >= closed.modules.y[box] - 12 && hidden <= closed.modules.y[box] + closed.modules.h[box]);
  change.move(1);
  assert.equal(change.moving.nodes.y[add], open.nodes.y[add]);
  assert.equal(layoutChange(open, make()), null);
});

test("brightness of a colour, or nothing for a transparent one", () => {
  assert.equal(luminance("rgb(255, 255, 255)"), 1);
  assert.equal(luminance("rgb(0, 0, 0)"), 0);
  assert.equal(luminance("rgba(0, 0, 0, 0)"), null);
});

test("a module's kind ends where the pane does, and is left out where its name leaves no room", () => {
  const row = scene.moduleRow("detail");
  const { x, w } = scene.modules;
  const kindUpTo = (free: number) => {
    let [left, scale, kind] = [0, 1, NaN];
    const context = new Proxy({} as CanvasRenderingContext2D, {
      get: (_, name) => (...given: number[]) => {
        if (name === "measureText") return { width: String(given[0]).length * 6 };
        if (name === "translate") left = given[0];
        if (name === "scale") scale = given[0];
        if (name === "fillText" && String(given[0]) === "12 ops inside") kind = left + (given[1] + 13 * 6) * scale;
        return undefined;
      },
      set: () => true,
    });
    const modules = Object.assign(Object.create(scene.modules), { type: () => "models.12 ops inside" });
    const drawn = Object.assign(Object.create(scene), { modules });
    drawModuleHeaders({
      context, right: free, scene: drawn, modules, moduleRows: [row], text: new TextCache(context), theme: {}, zoom: 1, ratio: 1,
      detail: Detail.labels, shown: { comparing: false, to: 0 },
    } as unknown as Frame);
    return kind;
  };
  const right = x[row] + w[row];
  assert.equal(kindUpTo(Infinity), right - 9);
  assert.equal(kindUpTo(right + 40), right - 9);
  assert.equal(kindUpTo(right - 40), right - 49);
  assert.ok(Number.isNaN(kindUpTo(x[row] + 80)));
});
