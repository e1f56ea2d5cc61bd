/** What the panels work out by themselves: writing of names and numbers, counts by step, places among matches. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { partsOf } from "../src/panels/condition";
import { operatorsByStep, sharesAt, stepOfNumbers, totalOf } from "../src/panels/numbers";
import {
  brief,
  clauses,
  count,
  figure,
  milliseconds,
  plural,
  signed,
  split,
  numeric,
} from "../src/panels/text";
import { placeOf } from "../src/panels/walk_bar";
import { APPLIED, NEAR } from "../src/walk";
import type { ConditionRow, Status } from "../src/protocol";
import { decode, type Scene } from "../src/scene";
import { initialState } from "../src/state";
import { EPILOGUE, synthetic } from "./synthetic";

/** Four blocks that are all taken, four operators each; with `misses` four more, of which one is a near miss. */
function scene(misses = false): Scene {
  const body = { name: "body", blocks: 4 };
  const { header, buffer } = synthetic({ columns: misses ? [body, { name: "detail", blocks: 4 }] : [body] });
  return decode(header, buffer);
}

test("a name is cut before its telling end, and put together again it is the name", () => {
  const { head, tail } = split("depthwise_conv_transpose_as_mul");
  assert.equal(tail, "_as_mul");
  assert.equal(head + tail, "depthwise_conv_transpose_as_mul");
  assert.deepEqual(split("conv_1"), { head: "conv_1", tail: "" });
});

test("a name of 10,000 characters stays short in the page, and no letter of two units is torn", () => {
  const { head, tail } = split("🧮".repeat(10_000));
  assert.ok(head.length + tail.length < 2_000, `${head.length + tail.length} units are in the page`);
  assert.ok(!/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(head.slice(0, 100) + tail));
  assert.equal(Array.from(brief("🧮".repeat(1_000), 10)).length, 10);
  assert.equal(brief("short"), "short");
});

test("numbers are written with a real minus sign and say nothing where nothing changed", () => {
  assert.equal(signed(-83), "−83");
  assert.equal(signed(1234), "+1,234");
  assert.equal(signed(0), "0");
  assert.equal(count(10_000), "10,000");
  assert.equal(plural(1, "match", "matches"), "1 match");
  assert.equal(plural(2, "match", "matches"), "2 matches");
  assert.equal(figure(null), "–");
  assert.equal(figure(-0.0431), "−0.0431");
  assert.equal(figure(2.4e-7), "2.40e−7");
  assert.equal(milliseconds(41.23), "41.2 ms");
  assert.equal(milliseconds(1500), "1.50 s");
});

test("the engine's writing of a number sorts as that number, and what is none comes last", () => {
  const written = ["138", "∞", "2.4e−7", "–", "0.97×", "−3", "max abs 1.5e−6"];
  const sorted = [...written].sort((a, b) => numeric(a) - numeric(b));
  assert.deepEqual(sorted, ["–", "−3", "2.4e−7", "max abs 1.5e−6", "0.97×", "138", "∞"]);
});

test("of a failure's sentence the first clause stands out and none of it is lost", () => {
  assert.deepEqual(clauses("add.alpha = 2, expected 1 (conv is the second operand). It scales."), [
    "add.alpha = 2, expected 1",
    "(conv is the second operand). It scales.",
  ]);
  assert.deepEqual(clauses("batch size is 4, expected 1"), ["batch size is 4, expected 1", ""]);
  assert.deepEqual(clauses("dsr.pt2 uses 1 operator: mylib::scale"), ["dsr.pt2 uses 1 operator", "mylib::scale"]);
});

test("conditions are grouped by optional part in the order in which they are checked", () => {
  const row = (name: string, part: string | null, status: Status = "passed"): ConditionRow => ({
    name,
    says: name,
    part,
    status,
    expected: "",
    actual: "",
    node: null,
    sentence: "",
  });
  const parts = partsOf([
    row("two_dimensional", null),
    row("op", "residual"),
    row("alpha", "residual", "failed"),
    row("something_to_fuse", null, "follows"),
  ]);
  assert.deepEqual(
    parts.map(({ name, conditions }) => [name, conditions.map((condition) => condition.name)]),
    [
      [null, ["two_dimensional"]],
      ["residual", ["op", "alpha"]],
      [null, ["something_to_fuse"]],
    ],
  );
});

test("operators after every step begin with the program's count and end with the engine's own", () => {
  const one = scene();
  const counts = operatorsByStep(one);
  assert.equal(counts.length, one.lastStep + 1);
  assert.equal(counts[0], totalOf(one)?.before);
  assert.equal(counts[one.lastStep], totalOf(one)?.after);
});

test("the shares of the categories add up to the operators alive, and what a pattern made is told apart", () => {
  const one = scene();
  const counts = operatorsByStep(one);
  for (const step of [0, 1, one.lastStep]) {
    const shares = sharesAt(one, step);
    const sum = shares.reduce((total, share) => total + share.count, 0);
    assert.equal(sum, counts[step], `at step ${step}`);
    const made = shares
      .filter(({ pattern }) => pattern === one.patternRow(EPILOGUE))
      .reduce((total, share) => total + share.count, 0);
    assert.equal(made, step, "each step of this network makes one fused operator");
  }
});

test("the strip speaks of the end while the program itself is on screen, else of the step", () => {
  const one = scene();
  const state = { ...initialState(true), scene: one };
  assert.equal(stepOfNumbers(state), one.lastStep);
  assert.equal(stepOfNumbers({ ...state, view: "after", step: 2 }), 2);
  assert.equal(stepOfNumbers({ ...state, view: "diff", step: one.lastStep }), one.lastStep);
});

test("a node's place among its pattern's matches counts from 1, by anchor first and then by any node of the match", () => {
  const one = scene(true);
  const pattern = one.patternRow(EPILOGUE);
  const rows = Array.from({ length: one.matches.length }, (_, match) => match).filter(
    (match) => one.matches.pattern[match] === pattern,
  );
  const applied = rows.filter((match) => one.verdict(match) === "applied");
  const near = rows.filter((match) => one.verdict(match) === "near miss");
  const third = applied[2];
  assert.ok(third !== undefined && near[0] !== undefined);
  assert.equal(placeOf(one, one.nodes.id(one.matches.anchor[third]), EPILOGUE, APPLIED), 3);
  for (const member of one.matchMembers(third)) assert.equal(placeOf(one, one.nodes.id(member), EPILOGUE, APPLIED), 3);
  assert.equal(
    placeOf(one, one.nodes.id(one.stepMade(one.matches.step[third])[0] ?? -1), EPILOGUE, APPLIED),
    3,
    "what the match became",
  );
  assert.equal(placeOf(one, one.nodes.id(one.matches.anchor[near[0]]), EPILOGUE, NEAR), 1);
  assert.equal(placeOf(one, one.nodes.id(one.matches.anchor[near[0]]), EPILOGUE, APPLIED), 0);
  assert.equal(placeOf(one, "no_such_node", EPILOGUE, APPLIED), 0);
});
