import assert from "node:assert/strict";
import { test } from "node:test";

import { type Ask, type Client, KernelClient, type Recording, ReplayClient, requestKey } from "../src/client";
import { decode } from "../src/scene";
import { shownSteps, widthClass } from "../src/state";
import { Store } from "../src/store";
import { neighbour } from "../src/walk";
import { StandIn } from "./stand_in";
import { synthetic } from "./synthetic";

// The store's timers are the window's; node has the same functions.
Object.assign(globalThis, { window: globalThis });

const columns = [
  { name: "body", blocks: 3 },
  { name: "detail", blocks: 3 },
];
const whole = ((made) => decode(made.header, made.buffer))(synthetic({ columns }));
const later = (ms = 20) => new Promise((resolve) => setTimeout(resolve, ms));

async function started(): Promise<{ store: Store; model: StandIn }> {
  const model = new StandIn({ columns });
  const store = new Store(new KernelClient(model));
  await later();
  return { store, model };
}

test("a store asks for the scene and shows it before anything is applied", async () => {
  const { store, model } = await started();
  assert.equal(model.asked[0]?.type, "ready");
  assert.equal(store.state.scene?.lastStep, 5);
  assert.equal(store.state.view, "before");
  assert.deepEqual(shownSteps(store.state), [{ from: 0, to: 0 }]);
  store.close();
});

test("a toggle asks, and the scene that comes back is the answer; the selection survives it", async () => {
  const { store, model } = await started();
  store.select(["conv_1"]);
  store.toggle("conv2d_with_epilogue");
  assert.deepEqual(model.asked.at(-1), {
    ...model.asked.at(-1),
    type: "toggle",
    pattern: "conv2d_with_epilogue",
    enabled: false,
  });
  await later();
  assert.equal(store.state.scene?.lastStep, 0);
  assert.deepEqual(store.state.selected, ["conv_1"]);
  store.close();
});

test("an older scene than the one shown is dropped", async () => {
  const { store, model } = await started();
  const { header, buffer } = synthetic({ columns, revision: 0 });
  model.say({ type: "scene", header, reason: "" }, [buffer]);
  assert.equal(store.state.scene?.revision, 1);
  store.close();
});

test("a scene in parts is shown when all of them are there, and dropped when its beginning was not heard", async () => {
  const { store, model } = await started();
  const { header, buffer } = synthetic({ columns, revision: 7 });
  const piece = Math.ceil(buffer.byteLength / 24) * 8;
  const pieces = [0, 1, 2].map((i) => buffer.slice(i * piece, (i + 1) * piece));
  const [first, second, rest] = pieces as [ArrayBuffer, ArrayBuffer, ArrayBuffer];
  model.say({ type: "part", part: 1 }, [second]);
  model.say({ type: "scene", header, reason: "", parts: 2 }, [rest]);
  assert.equal(store.state.scene?.revision, 1);
  model.say({ type: "part", part: 0 }, [first]);
  model.say({ type: "part", part: 1 }, [second]);
  assert.equal(store.state.scene?.revision, 1);
  model.say({ type: "scene", header, reason: "", parts: 2 }, [rest]);
  assert.equal(store.state.scene?.revision, 7);
  assert.deepEqual(store.state.scene?.nodes.id(3), whole.nodes.id(3));
  store.close();
});

test("stepping leaves Before for After and comes back; Split compares the step with the one before it", async () => {
  const { store } = await started();
  store.setStep(2);
  assert.deepEqual([store.state.view, store.state.step], ["after", 2]);
  store.setView("split");
  assert.deepEqual(shownSteps(store.state), [
    { from: 1, to: 1 },
    { from: 2, to: 2 },
  ]);
  store.setView("diff");
  assert.deepEqual(shownSteps(store.state), [{ from: 0, to: 5 }]);
  store.setView("after");
  store.setStep(0);
  assert.equal(store.state.view, "before");
  store.close();
});

test("selecting asks why not and opens the near miss; back and forward revisit", async () => {
  const { store } = await started();
  store.select(["conv_4"]);
  await later(140);
  assert.equal(store.state.whyNot?.node, "conv_4");
  assert.equal(store.state.whyPattern, "conv2d_with_epilogue");
  store.select(["add_4"]);
  store.back();
  assert.deepEqual(store.state.selected, ["conv_4"]);
  store.forward();
  assert.deepEqual(store.state.selected, ["add_4"]);
  store.close();
});

test("a refused request shows its sentence where it arose, and a later success clears it", async () => {
  let refuse = true;
  const client: Client = {
    live: true,
    pending: [],
    onEvent: () => {},
    onPending: () => {},
    onGone: () => {},
    ask: (request: Ask) =>
      refuse && request.type === "move"
        ? Promise.reject(new Error("fold_batch_norm must come first."))
        : Promise.resolve(null as never),
    tell: () => {},
    close: () => {},
  };
  const store = new Store(client);
  store.move("relu", null);
  await later();
  assert.equal(store.state.errors.patterns, "fold_batch_norm must come first.");
  refuse = false;
  store.move("relu", null);
  await later();
  assert.equal(store.state.errors.patterns, undefined);
  store.close();
});

test("an unanswered request shows waiting after 300 ms", async () => {
  const { store, model } = await started();
  model.send = () => {};
  store.undo();
  void store.reveal("conv_1");
  assert.equal(store.state.kernel, "idle");
  await later(340);
  assert.equal(store.state.kernel, "waiting");
  store.close();
});

test("the walk goes through matches, near misses and changes, and starts over at the end", async () => {
  const { store } = await started();
  const seen: (string | undefined)[] = [];
  for (let i = 0; i < 6; i++) {
    store.nextMatch();
    seen.push(store.state.selected[0]);
  }
  assert.deepEqual(seen, ["conv_0", "conv_1", "conv_2", "conv_3", "conv_5", "conv_0"]);
  store.nextNearMiss();
  assert.equal(store.state.selected[0], "conv_4");
  store.setView("diff");
  store.nextChange();
  assert.equal(store.state.selected[0], "conv2d_with_epilogue_0");
  store.close();
});

test("arrows follow producers, consumers and siblings", async () => {
  const { store } = await started();
  store.select(["conv_1"]);
  assert.deepEqual(neighbour(store.state, "down"), { node: "add_1" });
  assert.deepEqual(neighbour(store.state, "right"), { node: "mul_1" });
  assert.deepEqual(neighbour(store.state, "up"), { node: "relu_0" });
  store.select([]);
  assert.deepEqual(neighbour(store.state, "down"), { node: "x" });
  store.close();
});

test("closing a store takes its listener off the model", async () => {
  const { store, model } = await started();
  assert.equal(model.listeners, 1);
  store.close();
  assert.equal(model.listeners, 0);
});

test("a recording answers from what it holds, moves between its scenes, and says so when it cannot", async () => {
  const on = synthetic({ columns, revision: 1 });
  const off = synthetic({ columns, revision: 2, enabled: new Set() });
  const base64 = (buffer: ArrayBuffer) => Buffer.from(buffer).toString("base64");
  const recording: Recording = {
    version: 1,
    first: "on",
    scenes: {
      on: { event: { type: "scene", header: on.header, reason: "" }, buffer: base64(on.buffer) },
      off: { event: { type: "scene", header: off.header, reason: "" }, buffer: base64(off.buffer) },
    },
    moves: { on: { [requestKey({ type: "toggle", pattern: "conv2d_with_epilogue", enabled: false })]: "off" } },
    replies: { "*": { [requestKey({ type: "copy", what: "json" })]: { text: "{}", format: "JSON" } } },
    events: {},
  };
  const client = new ReplayClient(recording);
  const store = new Store(client);
  await later();
  assert.equal(store.state.scene?.lastStep, 5);
  assert.equal(store.state.live, false);
  store.toggle("conv2d_with_epilogue", false);
  await later();
  assert.equal(store.state.scene?.lastStep, 0);
  assert.deepEqual(await client.ask({ type: "copy", what: "json" }), { text: "{}", format: "JSON" });
  await assert.rejects(client.ask({ type: "undo" }), /recording/);
  store.close();
});

test("the widget's own width decides its class", () => {
  assert.deepEqual([1200, 1199, 900, 899, 600, 599].map(widthClass), [
    "wide",
    "medium",
    "medium",
    "narrow",
    "narrow",
    "small",
  ]);
});

test("a closed kernel is said, and what was asked of it fails instead of waiting for ever", async () => {
  const { store, model } = await started();
  model.send = () => {};
  store.move("conv_with_clamp", null);
  model.end();
  await later();
  assert.equal(store.state.kernel, "gone");
  assert.match(store.state.errors.patterns ?? "", /not answering/);
  store.close();
});

test("travelling to a hidden node opens what hides it and waits for the scene that shows it", async () => {
  const model = new StandIn({ columns, closed: new Set(["detail.2"]) });
  const store = new Store(new KernelClient(model));
  await later();
  let centred = "";
  store.camera = {
    fit() {},
    fitSelection() {},
    zoomBy() {},
    zoomTo() {},
    centre: (node) => (centred = node),
    picture: () => Promise.reject(new Error("none")),
  };
  assert.equal(store.state.scene?.nodeVisible(store.state.scene.nodeRow("conv_5")), false);
  await store.travel("conv_5");
  assert.equal(store.state.scene?.nodeVisible(store.state.scene.nodeRow("conv_5")), true);
  assert.equal(centred, "conv_5");
  store.close();
});
