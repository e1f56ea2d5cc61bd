import assert from "node:assert/strict";
import { test } from "node:test";

import { fate, Fate, isAlive } from "../src/lives";
import { lineage } from "../src/provenance";
import { decode, SceneError } from "../src/scene";
import { synthetic } from "./synthetic";

const wanted = {
  columns: [
    { name: "body", blocks: 3 },
    { name: "detail", blocks: 3 },
  ],
};

test("a decoded scene holds views of the message's buffer, not copies", () => {
  const { header, buffer } = synthetic(wanted);
  const scene = decode(header, buffer);
  assert.equal(scene.nodes.x.buffer, buffer);
  assert.equal(scene.points.y.buffer, buffer);
  assert.equal(scene.nodes.length, header.tables.nodes.x.length);
});

test("strings come by number, rows by name", () => {
  const { header, buffer } = synthetic(wanted);
  const scene = decode(header, buffer);
  const row = scene.nodeRow("conv_4");
  assert.equal(scene.nodes.id(row), "conv_4");
  assert.equal(scene.nodes.label(row), "conv");
  assert.equal(scene.category(row), "conv");
  assert.equal(scene.modules.path(scene.nodes.module[row]), "detail.1");
  assert.deepEqual(
    scene.ancestors(scene.nodes.module[row]).map((module) => scene.modules.path(module)),
    ["", "detail", "detail.1"],
  );
  assert.equal(scene.nodeRow("no such node"), -1);
});

test("a view that starts off the 8-byte grid is read all the same", () => {
  const { header, buffer } = synthetic(wanted);
  const shifted = new Uint8Array(buffer.byteLength + 3);
  shifted.set(new Uint8Array(buffer), 3);
  const scene = decode(header, new DataView(shifted.buffer, 3));
  assert.equal(scene.nodes.id(scene.nodeRow("conv_4")), "conv_4");
  assert.equal(scene.nodes.w[scene.nodeRow("conv_4")], 92);
});

test("two displays that get the same message share one scene", () => {
  const { header, buffer } = synthetic(wanted);
  assert.equal(decode(header, new DataView(buffer)), decode(header, new DataView(buffer)));
});

test("a column outside the buffer, another version, and columns of unequal length are refused with a sentence", () => {
  const { header, buffer } = synthetic(wanted);
  assert.throws(() => decode({ ...header, version: 2 as 1 }, buffer), SceneError);
  const outside = structuredClone(header);
  outside.tables.nodes.x.offset = buffer.byteLength;
  assert.throws(() => decode(outside, buffer), /nodes\.x does not fit/);
  const unequal = structuredClone(header);
  unequal.tables.steps.delta.length = 1;
  assert.throws(() => decode(unequal, buffer), /steps\.delta has 1 rows/);
});

test("a life is half open: born at its step, gone at the step that takes it", () => {
  assert.equal(isAlive(0, -1, 0), true);
  assert.equal(isAlive(0, 3, 2), true);
  assert.equal(isAlive(0, 3, 3), false);
  assert.equal(isAlive(3, -1, 2), false);
  assert.equal(isAlive(3, -1, 3), true);
});

test("fates compare two steps; what lived only in between is absent", () => {
  assert.equal(fate(0, -1, 0, 5), Fate.unchanged);
  assert.equal(fate(0, 3, 0, 5), Fate.removed);
  assert.equal(fate(3, -1, 0, 5), Fate.added);
  assert.equal(fate(2, 4, 0, 5), Fate.absent);
  assert.equal(fate(2, 4, 0, 3), Fate.added);
});

test("steps give what they took and made, and provenance follows them both ways", () => {
  const { header, buffer } = synthetic(wanted);
  const scene = decode(header, buffer);
  const names = (rows: number[]) => rows.map((row) => scene.nodes.id(row)).sort();
  assert.deepEqual(names(scene.stepTaken(1)), ["add_0", "conv_0", "mul_0", "relu_0"]);
  assert.deepEqual(names(scene.stepMade(1)), ["conv2d_with_epilogue_0"]);
  assert.deepEqual(names(lineage(scene, scene.nodeRow("mul_0"), scene.lastStep)), ["conv2d_with_epilogue_0"]);
  assert.deepEqual(names(lineage(scene, scene.nodeRow("conv2d_with_epilogue_0"), 0)), [
    "add_0",
    "conv_0",
    "mul_0",
    "relu_0",
  ]);
  assert.deepEqual(names(lineage(scene, scene.nodeRow("x"), scene.lastStep)), ["x"]);
});
