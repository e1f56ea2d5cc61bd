import assert from "node:assert/strict";
import { test } from "node:test";

import { hullLoops, outline } from "../src/canvas/hull";
import { isInside } from "../src/canvas/hit";
import { rect, type Rect } from "../src/canvas/rect";

const free = () => true;
const blockedBy = (obstacle: Rect) => (box: Rect) =>
  !(box.x0 < obstacle.x1 && obstacle.x0 < box.x1 && box.y0 < obstacle.y1 && obstacle.y0 < box.y1);
const covers = (loops: [number, number][][], x: number, y: number) => loops.some((loop) => isInside(loop, x, y));

const conv = rect(0, 0, 90, 24);
const mul = rect(120, 0, 60, 24);
const add = rect(60, 40, 76, 24);

test("one node: its box and the padding around it", () => {
  const [loop, ...others] = hullLoops([conv], 7, free);
  assert.deepEqual(others, []);
  assert.deepEqual(loop?.map(([x, y]) => `${x},${y}`).sort(), ["-7,-7", "-7,31", "97,-7", "97,31"].sort());
});

test("two layers make one loop of right angles around both, and not around the corner beside the lower one", () => {
  const loops = hullLoops([conv, mul, add], 7, free);
  assert.equal(loops.length, 1);
  for (const [i, [x, y]] of (loops[0] ?? []).entries()) {
    const [bx, by] = loops[0]?.[(i + 1) % (loops[0]?.length ?? 1)] ?? [0, 0];
    assert.ok(x === bx || y === by);
  }
  assert.ok(covers(loops, 105, 12), "between conv and mul");
  assert.ok(covers(loops, 98, 52), "inside add");
  assert.ok(!covers(loops, 20, 60), "left of add");
});

test("a node that is not taken stays outside, even between two that are", () => {
  const other = rect(98, 0, 16, 24);
  const loops = hullLoops([conv, mul], 4, blockedBy(other));
  assert.equal(loops.length, 2);
  assert.ok(!covers(loops, 106, 12));
  assert.ok(covers(loops, 45, 12) && covers(loops, 150, 12));
});

test("layers far apart are joined by a corridor unless something stands in it", () => {
  const below = rect(0, 200, 90, 24);
  const joined = hullLoops([conv, below], 7, free);
  assert.equal(joined.length, 1);
  assert.ok(covers(joined, 45, 100));
  const torn = hullLoops([conv, below], 7, blockedBy(rect(0, 90, 90, 24)));
  assert.equal(torn.length, 2);
  assert.ok(!covers(torn, 45, 100));
});

test("boxes side by side are joined around the corner, those far apart are not", () => {
  assert.equal(hullLoops([conv, rect(130, 60, 60, 24)], 7, free).length, 1);
  assert.equal(hullLoops([conv, rect(300, 100, 60, 24)], 7, free).length, 2);
  assert.equal(hullLoops([conv, rect(300, 40, 60, 24)], 7, free).length, 1, "in the next layer nothing is in between");
});

test("sides that are nearly in line become one line, unless another node stands there", () => {
  const wider = rect(-6, 40, 102, 24);
  assert.equal(hullLoops([conv, wider], 7, free)[0]?.length, 4);
  assert.ok((hullLoops([conv, wider], 7, blockedBy(rect(-40, 0, 30, 24)))[0]?.length ?? 0) > 4);
});

test("the outline of boxes that do not touch has a loop each; a ring has its hole", () => {
  assert.equal(outline([rect(0, 0, 10, 10), rect(20, 0, 10, 10)]).length, 2);
  const ring = outline([rect(0, 0, 30, 10), rect(0, 20, 30, 10), rect(0, 0, 10, 30), rect(20, 0, 10, 30)]);
  assert.equal(ring.length, 2);
});

test("no nodes, no hull; very many, their common box", () => {
  assert.deepEqual(hullLoops([], 7, free), []);
  const many = Array.from({ length: 400 }, (_, i) => rect((i % 20) * 100, Math.floor(i / 20) * 40, 80, 24));
  assert.equal(hullLoops(many, 7, free)[0]?.length, 4);
});
