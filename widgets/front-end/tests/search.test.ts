import assert from "node:assert/strict";
import { test } from "node:test";

import { decode } from "../src/scene";
import { fuzzy, glob, search } from "../src/search";
import { synthetic } from "./synthetic";

const { header, buffer } = synthetic({
  columns: [
    { name: "body", blocks: 12 },
    { name: "detail", blocks: 4 },
  ],
});
const scene = decode(header, buffer);
const ids = (query: string) => search(scene, query).map((hit) => hit.id);

test("an exact name comes first, then names that begin with it", () => {
  assert.equal(ids("conv_1")[0], "conv_1");
  assert.deepEqual(ids("conv_1").slice(1, 3).sort(), ["conv_10", "conv_11"]);
});

test("letters in order find a name; letters that are missing do not", () => {
  assert.ok(ids("c2dwe").includes("conv2d_with_epilogue_0"));
  assert.deepEqual(ids("zzz"), []);
  assert.equal(fuzzy("mulx", "mul_1"), null);
});

test("a run at the start of a part scores above scattered letters", () => {
  const run = fuzzy("add", "my_add_7");
  const scattered = fuzzy("add", "a_dx_d_7");
  assert.ok(run !== null && scattered !== null && run.score > scattered.score);
  assert.deepEqual(run.at, [3, 4, 5]);
});

test("filters narrow by op, module, dtype, users and state, and combine", () => {
  const convs = ids("op:conv module:detail.*");
  assert.ok(convs.includes("conv_13"));
  assert.ok(convs.every((id) => Number(id.split("_").pop()) >= 12));
  assert.deepEqual(ids("dtype:f16"), []);
  assert.ok(ids("dtype:f32 op:relu").length >= 16);
  assert.deepEqual(ids("users>1"), ["x"]);
  assert.deepEqual(ids("op:conv unfused"), ["conv_13"]);
  assert.deepEqual(ids("skipped"), ["relu_14"]);
  assert.ok(ids("op:convolution").length === 0 && ids("module:detail.1 op:add").join() === "add_13");
});

test("what was only decomposed is not fused", () => {
  const patterns = header.patterns.map((row) => ({ ...row, kind: "decomposition" as const }));
  const decomposed = decode({ ...header, patterns }, buffer);
  const convs = search(decomposed, "op:conv unfused").map((hit) => hit.id);
  assert.ok(convs.includes("conv_13") && convs.includes("conv_1"));
  assert.deepEqual(search(decomposed, "fused"), []);
});

test("a module filter means the module and what is inside it", () => {
  assert.ok(ids("module:detail").includes("add_13"));
  assert.ok(!ids("module:detail").includes("add_1"));
});

test("a module of one node, which has no box, is found, as is one around it", () => {
  assert.deepEqual(ids("module:detail.1.first.conv"), ["conv_13"]);
  assert.deepEqual(ids("module:detail.1.first"), ["conv_13"]);
  assert.deepEqual(ids("module:detail.*.conv").sort(), ["conv_12", "conv_13", "conv_14", "conv_15"]);
  assert.deepEqual(ids("module:first"), []);
  assert.ok(ids("first.conv").includes("conv_13"));
});

test("globs match whole texts and stay quick on hostile ones", () => {
  assert.ok(glob("decoder.*", "decoder.3.conv"));
  assert.ok(!glob("decoder.*", "encoder.decoder.3"));
  assert.ok(glob("*.conv?", "a.b.conv1"));
  const begin = performance.now();
  assert.ok(!glob(`${"*a".repeat(30)}b`, "a".repeat(10_000)));
  assert.ok(performance.now() - begin < 1000);
});

test("an empty query finds nothing", () => {
  assert.deepEqual(search(scene, "  "), []);
});
