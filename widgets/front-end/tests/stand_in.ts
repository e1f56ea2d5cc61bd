/** A kernel's stand-in for pages without one: answers from the synthetic network. */
import type { Model } from "../src/client";
import type { Reply, Request, WhyNot } from "../src/protocol";
import { decode } from "../src/scene";
import { EPILOGUE, synthetic, type Wanted } from "./synthetic";

type Listener = (message: unknown, buffers: DataView[]) => void;

export class StandIn implements Model {
  readonly asked: Request[] = [];
  readonly #listeners = new Set<Listener>();
  readonly #onEnd = new Set<() => void>();
  readonly #closed: Set<string>;
  readonly #enabled = new Set(["fold_batch_norm", "quantized_linear", EPILOGUE, "conv1d_as_conv2d", "conv_with_clamp"]);
  #revision = 1;

  constructor(readonly wanted: Wanted) {
    this.#closed = new Set(wanted.closed);
  }

  get(): unknown {
    return null;
  }
  set(): void {}
  save_changes(): void {}

  on(event: string, listener: (...parts: never[]) => void): void {
    if (event === "msg:custom") this.#listeners.add(listener as Listener);
    if (event === "comm:close") this.#onEnd.add(listener as () => void);
  }

  off(_event: string, listener: (...parts: never[]) => void): void {
    this.#listeners.delete(listener as Listener);
  }

  /** As when the kernel is restarted. */
  end(): void {
    for (const listener of this.#onEnd) listener();
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  send(content: unknown): void {
    const request = content as Request;
    this.asked.push(request);
    setTimeout(() => this.#answer(request), 1);
  }

  say(message: unknown, buffers: ArrayBuffer[] = []): void {
    for (const listener of [...this.#listeners])
      listener(
        message,
        buffers.map((buffer) => new DataView(buffer)),
      );
  }

  scene(reason = ""): void {
    const { header, buffer } = synthetic({
      ...this.wanted,
      closed: this.#closed,
      enabled: this.#enabled,
      revision: this.#revision,
    });
    this.say({ type: "scene", header, reason }, [buffer]);
  }

  #answer(request: Request): void {
    const reply = (data: unknown) => this.say({ id: request.id, ok: true, data } satisfies Reply);
    switch (request.type) {
      case "ready":
        this.scene();
        this.say({
          type: "parity",
          revision: this.#revision,
          state: "fresh",
          sentence: "Same numbers",
          parity: {
            verdict: "close",
            sentence: "Same numbers",
            detail: "SQNR 138 dB · max abs 2.4e−7 · fp64 1.02×",
            outputs: [],
            notes: [],
          },
        });
        break;
      case "toggle":
        if (request.enabled) this.#enabled.add(request.pattern);
        else this.#enabled.delete(request.pattern);
        this.#revision++;
        this.scene(`${request.pattern} is ${request.enabled ? "on" : "off"}.`);
        break;
      case "open": {
        const { header, buffer } = synthetic({ ...this.wanted, closed: this.#closed });
        const scene = decode(header, buffer);
        for (const row of request.modules) {
          if (request.open) this.#closed.delete(scene.modules.path(row));
          else this.#closed.add(scene.modules.path(row));
        }
        this.scene();
        break;
      }
      case "reveal": {
        const { header, buffer } = synthetic({ ...this.wanted, closed: this.#closed });
        const scene = decode(header, buffer);
        this.#closed.delete(scene.modules.path(scene.nodes.module[scene.nodeRow(request.node)]));
        reply(null);
        this.scene(); // after the reply, as a kernel that lays out in another process may
        return;
      }
      case "why_not":
        reply(whyNot(request.node));
        return;
      case "inspect":
        reply({
          node: request.node,
          op: "convolution",
          target: "aten.convolution.default",
          kind: "operator",
          module: [
            { path: "detail", type: "Sequential" },
            { path: "detail.1", type: "RefineBlock" },
          ],
          source: { file: "dsr.py", line: 58, text: "r + 2 * self.conv(x)" },
          output: "f32[1,64,128,128]",
          strides: "1048576, 16384, 128, 1",
          arguments: [{ name: "input", text: "relu_50", nodes: ["relu_50"] }],
          users: ["add_52"],
          constants: [],
          origin: [],
          became: [],
          born: null,
          died: null,
          delegated: { before: "yes", after: "yes" },
          skipped: null,
        });
        return;
      case "selected":
        return;
      default:
    }
    reply(null);
  }
}

function whyNot(node: string): WhyNot {
  const number = node.split("_").pop() ?? "";
  return {
    node,
    delegated: null,
    explanations: [
      {
        pattern: EPILOGUE,
        node,
        anchor: node,
        verdict: "near miss",
        reason: "add.alpha = 2, expected 1 (conv is the second operand)",
        passed: 7,
        total: 11,
        conditions: [
          {
            name: "two_dimensional",
            says: "the convolution is 2-D",
            part: null,
            status: "passed",
            expected: "2",
            actual: "2",
            node,
            sentence: "",
          },
          {
            name: "alpha",
            says: "alpha is 1",
            part: "residual",
            status: "failed",
            expected: "1",
            actual: "2",
            node: `add_${number}`,
            sentence: "add.alpha = 2, expected 1 (conv is the second operand)",
          },
        ],
        nodes: [node],
        by: null,
        suggestions_possible: true,
      },
    ],
  };
}
