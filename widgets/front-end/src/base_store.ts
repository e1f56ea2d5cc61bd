/** A state that can be watched, and a kernel that can be asked: what every group of actions builds on. */
import type { Ask, Client } from "./client";
import { initialState, type Region, type State } from "./state";

/** What the canvas does for the store and the panels. The store has none until the canvas is there. */
export interface CameraPort {
  fit(): void;
  fitSelection(): void;
  zoomBy(factor: number): void;
  zoomTo(zoom: number): void;
  /** Pan so that the node is in view; when `always`, centre it even where it already is in view. */
  centre(node: string, always?: boolean): void;
  picture(format: "png"): Promise<Blob>;
}

const WAITING_MS = 300;
const BUSY_MS = 3000;

export class BaseStore {
  state: State;
  camera: CameraPort | null = null;
  readonly #listeners = new Set<(state: State, before: State) => void>();
  #kernelTimer = 0;
  #closed = false;

  constructor(readonly client: Client) {
    this.state = initialState(client.live);
    client.onPending = () => this.#watchKernel();
    client.onGone = () => this.update({ kernel: "gone", playing: false });
  }

  subscribe(listener: (state: State, before: State) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Change the state; a listener that throws must not keep the others from hearing of it. */
  update(change: Partial<State>): void {
    if (this.#closed) return;
    const before = this.state;
    this.state = { ...before, ...change };
    for (const listener of [...this.#listeners]) {
      try {
        listener(this.state, before);
      } catch (error) {
        console.error("lowerscope:", error);
      }
    }
  }

  /** Open the model again, after an error, or another one; `without` what is not registered. */
  reload(without = false, path?: string): void {
    this.dismissError("graph");
    void this.ask({ type: "load", without, ...(path && { path }) }, "graph");
  }

  say(text: string, aloud = true): void {
    this.update({ said: { text, serial: this.state.said.serial + 1, aloud } });
  }

  fail(region: Region, sentence: string): void {
    this.update({ errors: { ...this.state.errors, [region]: sentence } });
  }

  dismissError(region: Region): void {
    const { [region]: _, ...errors } = this.state.errors;
    this.update({ errors });
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#kernelTimer);
    this.client.close();
    this.#listeners.clear();
    this.camera = null;
  }

  /** The reply's data, or null where the request failed: the sentence then stands in its region. */
  protected async ask<T>(request: Ask, region: Region): Promise<T | null> {
    try {
      const data = await this.client.ask<T>(request);
      if (this.state.errors[region] !== undefined) this.dismissError(region);
      return data;
    } catch (error) {
      this.fail(region, error instanceof Error ? error.message : String(error));
      return null;
    }
  }

  #watchKernel(): void {
    clearTimeout(this.#kernelTimer);
    if (this.state.kernel === "gone") return;
    const pending = this.client.pending;
    const oldest = pending.length === 0 ? Number.NaN : Math.min(...pending.map((one) => one.since));
    const waited = performance.now() - oldest;
    const kernel =
      pending.length === 0 ? "idle" : waited >= BUSY_MS ? "busy" : waited >= WAITING_MS ? "waiting" : "idle";
    this.update({ pending, kernel });
    if (pending.length > 0 && kernel !== "busy") {
      const next = (kernel === "waiting" ? BUSY_MS : WAITING_MS) - waited;
      this.#kernelTimer = window.setTimeout(() => this.#watchKernel(), Math.max(1, next));
    }
  }
}
