/** The shown step in one sentence above the graph, and the pattern's mathematics below it. */

import type { JSX } from "preact";

import { Badge, Name } from "./bits";
import { useSide } from "./side";
import { brief, count } from "./text";
import { usePick, useStore } from "./use";

function useShown(): boolean {
  const side = useSide();
  const teaching = usePick((state) => state.teaching);
  const steps = usePick((state) => state.scene !== null && state.scene.lastStep > 0);
  return steps && (teaching || side.state.sheet === "steps");
}

export function Sentence(): JSX.Element | null {
  const store = useStore();
  const shown = useShown();
  const scene = usePick((state) => state.scene);
  const step = usePick((state) => state.step);
  if (!shown || scene === null) return null;
  const row = step - 1;
  const pattern = step > 0 ? scene.patterns[scene.steps.pattern[row] ?? -1] : undefined;
  const where = step > 0 ? scene.modules.path(scene.steps.module[row] ?? 0) : "";
  const made = scene.stepMade(step)[0] ?? scene.stepTaken(step)[0];
  return (
    <div class="ls-say" data-ls="sentence" data-step={step}>
      <div class="ls-say-line">
        <b class="ls-b" style={{ color: "var(--text)" }}>
          Step {count(step)} of {count(scene.lastStep)}
        </b>
        {pattern && (
          <>
            · <Badge pattern={pattern} />
            <Name text={pattern.name} />
          </>
        )}
        {made !== undefined && (
          <>
            ·{" "}
            <button
              type="button"
              class="ls-link"
              data-ls="sentence-where"
              onClick={() => void store.travel(scene.nodes.id(made))}
            >
              <Name text={where || scene.nodes.id(made)} />
            </button>
          </>
        )}
      </div>
      <h2 aria-live="polite">{step > 0 ? brief(scene.steps.sentence(row), 600) : "The program as it was exported."}</h2>
    </div>
  );
}

/** Words of the mathematics that are operators, by the category whose colour underlines them. */
const TERMS: [RegExp, string][] = [
  [/^(?:conv\w*|∗)$/i, "conv"],
  [/^(?:matmul|mm|bmm|addmm|linear|gemm)$/i, "matmul"],
  [
    /^(?:relu6?|act(?:ivation)?|clamp|hardtanh|hardswish|hardsigmoid|sigmoid|silu|gelu|tanh|softmax|max|min)$/i,
    "activation",
  ],
  [/^(?:bn|batch_?norm|layer_?norm|group_?norm|rms_?norm|norm|sqrt|var|mean)$/i, "norm"],
  [/^(?:add|sub|mul|div|residual(?:_op)?|scale)$/i, "arithmetic"],
  [
    /^(?:reshape|view|permute|transpose|cat|concat|stack|slice|squeeze|unsqueeze|expand|interleave|pad|flip)$/i,
    "shape",
  ],
  [/^(?:upsample\w*|nearest|bilinear|resize|interpolate|pixel_shuffle)$/i, "resample"],
  [/^(?:quant\w*|dequant\w*|q|dq)$/i, "quant"],
];

export function Mathematics(): JSX.Element | null {
  const shown = useShown();
  const pattern = usePick((state) =>
    state.scene && state.step > 0
      ? (state.scene.patterns[state.scene.steps.pattern[state.step - 1] ?? -1] ?? null)
      : null,
  );
  if (!shown || pattern === null || pattern.mathematics === "") return null;
  const [formula, rest] = statement(brief(pattern.mathematics, 600));
  const sides = formula.split(/\s*(?:->|→|⇒|=>)\s*/);
  return (
    <div class="ls-math" data-ls="mathematics">
      <div class="ls-eq">
        {sides.map((side, index) => (
          <>
            {index > 0 && <span class="ls-becomes">→</span>}
            <Formula text={side} />
          </>
        ))}
      </div>
      {rest !== "" && <div class="ls-11 ls-2">{rest}</div>}
    </div>
  );
}

/** The formula, and what is said of its letters after it. */
function statement(mathematics: string): [string, string] {
  const end = /, where |[.;] /.exec(mathematics);
  return end === null
    ? [mathematics, ""]
    : [mathematics.slice(0, end.index), mathematics.slice(end.index).replace(/^[,.; ]+/, "")];
}

function Formula({ text }: { text: string }): JSX.Element {
  return (
    <span>
      {text.split(/(\ba (?=[a-z]{2})|'?\w[\w.]*|∗)/).map((word, i, all) => {
        const called = word !== "q" || all[i + 1]?.[0] === "("; // else an index
        const category = TERMS.find(([term]) => called && term.test(word.split(".").at(-1) ?? word))?.[1];
        if (category !== undefined) return <span class={`ls-term ls-k-${category}`}>{word}</span>;
        // A single letter is a variable, but for the article, and what follows an apostrophe.
        return /^[A-Za-z]$/.test(word) ? <i>{word}</i> : word;
      })}
    </span>
  );
}
