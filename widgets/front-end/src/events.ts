/** What the kernel says unasked, put into the store. */
import type { Event } from "./protocol";
import { decode } from "./scene";
import type { Measured, Region } from "./state";
import type { Store } from "./store";

/** Places of the kernel's errors; an unknown one is shown on the graph, never dropped. */
const REGIONS: readonly Region[] = [
  "graph",
  "patterns",
  "skips",
  "inspector",
  "why",
  "steps",
  "metrics",
  "search",
  "toolbar",
];

export class EventReader {
  constructor(readonly store: Store) {}

  read(event: Event, buffer: DataView | null): void {
    const { store } = this;
    switch (event.type) {
      case "scene":
        this.#scene(event, buffer);
        break;
      case "progress":
        this.#progress(event);
        break;
      case "parity":
      case "latency":
      case "by_step":
      case "conflicts":
      case "partitioner":
        if (this.#current(event.revision)) {
          const key = event.type === "by_step" ? "byStep" : event.type;
          const body = event.type === "parity" ? event.parity : event.type === "latency" ? event.latency : event.rows;
          store.update({ [key]: measured<unknown>(event, body, store.state[key]) });
        }
        break;
      case "focus":
        void store.travel(event.node);
        break;
      case "select":
        store.select(event.nodes, { quiet: true });
        break;
      case "empty":
        store.update({ samples: event.samples });
        break;
      case "error":
        store.update({ otherwise: event.otherwise ?? null });
        store.fail(REGIONS.find((region) => region === event.where) ?? "graph", event.sentence);
        break;
    }
    if ("state" in event && event.state !== "measuring" && event.sentence !== "" && this.#current(event.revision))
      store.say(event.sentence, false);
  }

  #scene(event: Event & { type: "scene" }, buffer: DataView | null): void {
    const { store } = this;
    const before = store.state;
    if (before.scene !== null && event.header.revision < before.scene.revision) return; // a later one is here already
    try {
      const scene = decode(event.header, buffer ?? new DataView(new ArrayBuffer(0)));
      const wasLast = before.scene === null || before.step === before.scene.lastStep;
      const step = before.view === "before" ? 0 : wasLast ? scene.lastStep : Math.min(before.step, scene.lastStep);
      const { layout: _, lowering: __, ...progress } = before.progress;
      const { graph: ___, ...errors } = before.errors;
      const changed = before.scene?.revision !== scene.revision;
      store.update({ scene, step, progress, errors, ...(changed ? { whatIf: {} } : {}) });
      store.sceneArrived();
      if (before.scene !== null && event.reason !== "") store.say(event.reason, false);
    } catch (error) {
      store.fail("graph", error instanceof Error ? error.message : String(error));
    }
  }

  #progress(event: Event & { type: "progress" }): void {
    const { what, done, total, sentence } = event;
    const { [what]: _, ...others } = this.store.state.progress;
    const over = total > 0 && done >= total;
    this.store.update({ progress: over ? others : { ...others, [what]: { what, done, total, sentence } } });
  }

  /** Whether a measurement is of the recipe on screen (or of one whose scene is still on its way). */
  #current(revision: number): boolean {
    return revision >= (this.store.state.scene?.revision ?? 0);
  }
}

function measured<T>(
  event: { state: Measured<T>["state"]; revision: number; sentence: string },
  value: T | null,
  before: Measured<T>,
): Measured<T> {
  // While a new one is measured the old stays on screen, in grey.
  return {
    state: event.state,
    revision: event.revision,
    value: event.state === "fresh" ? value : before.value,
    sentence: event.sentence,
  };
}
