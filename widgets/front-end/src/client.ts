/**
 * Asking the kernel.
 *
 * A `Client` turns requests into promises and hands on what the kernel says unasked. `KernelClient` speaks over
 * anywidget's model, `ReplayClient` answers from a recording, so that a saved HTML file works without a kernel.
 */
import type { Event, Reply, Request } from "./protocol";

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
/** A request without its id, which the client gives it. */
export type Ask = DistributiveOmit<Request, "id">;

export interface Pending {
  readonly id: number;
  readonly type: Ask["type"];
  readonly since: number; // performance.now(), ms
}

export interface Client {
  /** Resolves to the reply's data; rejects with an `Error` whose message is the kernel's sentence. */
  ask<T = unknown>(request: Ask): Promise<T>;
  /** Told, not asked: nothing comes back. */
  tell(request: Ask): void;
  onEvent: (event: Event, buffer: DataView | null) => void;
  /** Called whenever `pending` changed. */
  onPending: () => void;
  readonly pending: readonly Pending[];
  /** Called when the kernel's side of the widget is closed: nothing will be answered any more. */
  onGone: () => void;
  /** False for a recording: what needs a kernel is switched off in the panels. */
  readonly live: boolean;
  close(): void;
}

/** The part of anywidget's model that the front end uses. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
  on(event: string, listener: (...parts: never[]) => void): void;
  off(event: string, listener: (...parts: never[]) => void): void;
  /** Jupyter's own, which knows the kernel; other hosts have none. */
  widget_manager?: { kernel?: { statusChanged?: Signal } | null };
}

interface Signal {
  connect(listener: (sender: unknown, status: string) => void): void;
  disconnect(listener: (sender: unknown, status: string) => void): void;
}

interface Waiting extends Pending {
  resolve(data: unknown): void;
  reject(error: Error): void;
}

/** Events of a model whose kernel is restarted or shut down, or whose widget is closed there. */
const CLOSED = ["comm:close", "destroy"];
const GONE = "The kernel is not answering: run the cell again to reconnect.";

export class KernelClient implements Client {
  readonly live = true;
  onEvent: Client["onEvent"] = () => {};
  onPending: Client["onPending"] = () => {};
  onGone: Client["onGone"] = () => {};
  readonly #waiting = new Map<number, Waiting>();
  #parts: DataView[] = []; // of the scene that is arriving
  // Every display of a widget hears every reply, so ids must differ between displays, even in two browsers.
  #next = Math.floor(Math.random() * 2 ** 40);
  readonly #listener = (message: Reply | Event, buffers?: (DataView | ArrayBuffer)[]) =>
    this.#receive(message, buffers);

  #gone = false;

  readonly #closed = () => {
    this.#gone = true;
    for (const waiting of [...this.#waiting.values()]) this.#settle(waiting.id)?.reject(new Error(GONE));
    this.onGone();
  };

  /** A kernel that dies or is restarted closes no widget: only its status tells. */
  readonly #status = (_: unknown, status: string) => {
    if (/dead|restart|terminat/.test(status)) this.#closed();
  };
  readonly #statusChanged: Signal | undefined;

  constructor(readonly model: Model) {
    model.on("msg:custom", this.#listener);
    for (const event of CLOSED) model.on(event, this.#closed);
    this.#statusChanged = model.widget_manager?.kernel?.statusChanged;
    this.#statusChanged?.connect(this.#status);
  }

  get pending(): readonly Pending[] {
    return [...this.#waiting.values()];
  }

  ask<T>(request: Ask): Promise<T> {
    if (this.#gone) return Promise.reject(new Error(GONE));
    const id = this.#next++;
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, {
        id,
        type: request.type,
        since: performance.now(),
        resolve: resolve as (data: unknown) => void,
        reject,
      });
      this.onPending();
      try {
        this.model.send({ ...request, id });
      } catch (error) {
        this.#settle(id)?.reject(new Error(`${GONE} (${String(error)})`));
      }
    });
  }

  tell(request: Ask): void {
    this.model.send({ ...request, id: this.#next++ });
  }

  close(): void {
    this.model.off("msg:custom", this.#listener);
    for (const event of CLOSED) this.model.off(event, this.#closed);
    this.#statusChanged?.disconnect(this.#status);
    this.#waiting.clear();
    this.onEvent = () => {};
    this.onPending = () => {};
  }

  #receive(message: Reply | Event, buffers: (DataView | ArrayBuffer)[] | undefined): void {
    if ("type" in message) {
      const buffer = buffers?.[0];
      const view = buffer === undefined ? null : buffer instanceof DataView ? buffer : new DataView(buffer);
      if (message.type === "part") this.#parts.splice(message.part, Infinity, ...(view === null ? [] : [view]));
      else if (message.type !== "scene" || !message.parts) this.onEvent(message, view);
      // A display that came in between has heard only the last of the parts: it has asked for a scene of its own.
      else if (this.#parts.length === message.parts && view !== null) this.onEvent(message, joined(this.#parts, view));
      if (message.type === "scene") this.#parts = [];
      return;
    }
    const waiting = this.#settle(message.id);
    if (waiting === undefined) return; // another display of this widget asked
    if (message.ok) waiting.resolve(message.data);
    else waiting.reject(new Error(message.error));
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (waiting !== undefined) this.onPending();
    return waiting;
  }
}

function joined(parts: readonly DataView[], last: DataView): DataView {
  const whole = new Uint8Array([...parts, last].reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const { buffer, byteOffset, byteLength } of [...parts, last]) {
    whole.set(new Uint8Array(buffer, byteOffset, byteLength), at);
    at += byteLength;
  }
  return new DataView(whole.buffer);
}

/** What a self-contained HTML file carries: scenes by recipe, the recipe each toggle leads to, and replies. */
export interface Recording {
  version: 1;
  first: string; // key of the scene shown first
  scenes: Record<string, { event: Event & { type: "scene" }; buffer: string /* base64 */ }>;
  /** From a scene's key and a request (`requestKey`) to the key of the scene that it leads to. */
  moves: Record<string, Record<string, string>>;
  /** Replies by scene key, then request; "*" holds those that are the same in every scene. */
  replies: Record<string, Record<string, unknown> | string>; // a string: those of the scene of that key
  /** Said right after the scene of that key: measurements. */
  events: Record<string, Event[]>;
}

/** A request as a key of a recording: its fields but the id and what is null, sorted by name. */
export function requestKey(request: Ask): string {
  const fields = Object.entries(request).filter(([name, value]) => name !== "id" && value != null);
  return JSON.stringify(Object.fromEntries(fields.sort(([a], [b]) => (a < b ? -1 : 1))));
}

const NOT_RECORDED =
  "This file is a recording without a kernel, and this was not recorded: open the notebook to try it.";

export class ReplayClient implements Client {
  readonly live = false;
  readonly pending: readonly Pending[] = [];
  onEvent: Client["onEvent"] = () => {};
  onPending: Client["onPending"] = () => {};
  onGone: Client["onGone"] = () => {};
  #scene: string;
  readonly #buffers = new Map<string, DataView>();

  constructor(readonly recording: Recording) {
    this.#scene = recording.first;
  }

  async ask<T>(request: Ask): Promise<T> {
    await Promise.resolve(); // never answers before the caller has its promise
    const key = requestKey(request);
    if (request.type === "ready") {
      this.#show(this.#scene);
      return null as T;
    }
    const next = this.recording.moves[this.#scene]?.[key];
    if (next !== undefined) {
      this.#show(next);
      return null as T;
    }
    for (const scene of [this.#scene, "*"]) {
      const held = this.recording.replies[scene];
      const replies = typeof held === "string" ? this.recording.replies[held] : held;
      if (typeof replies === "object" && Object.hasOwn(replies, key)) return replies[key] as T;
    }
    throw new Error(NOT_RECORDED);
  }

  tell(): void {}

  close(): void {
    this.#buffers.clear();
  }

  #show(key: string): void {
    const recorded = this.recording.scenes[key];
    if (recorded === undefined) throw new Error(NOT_RECORDED);
    this.#scene = key;
    let buffer = this.#buffers.get(key);
    if (buffer === undefined) {
      buffer = new DataView(Uint8Array.from(atob(recorded.buffer), (char) => char.charCodeAt(0)).buffer);
      this.#buffers.set(key, buffer);
    }
    this.onEvent(recorded.event, buffer);
    for (const event of this.recording.events[key] ?? []) this.onEvent(event, null);
  }
}
