/** Around a table of a measurement: its state, and how to take it, stop it or take it again. */

import type { ComponentChildren, JSX } from "preact";

import type { Measurable } from "../protocol";
import type { Measured } from "../state";
import { Button, Progress } from "./bits";
import { brief } from "./text";
import { usePick, useStore } from "./use";

interface MeasurementProps {
  of: Measured<unknown>;
  what: Measurable;
  say: string;
  children: ComponentChildren;
}

/** Around a table: whether its numbers are fresh, and how to measure, stop or measure again. */
export function Measurement({ of, what, say, children }: MeasurementProps): JSX.Element {
  const store = useStore();
  const progress = usePick((state) => state.progress[what]);
  const revision = usePick((state) => state.scene?.revision ?? -1);
  const stale = of.value !== null && (of.state !== "fresh" || of.revision !== revision);
  const measure = (label: string) => (
    <Button label={label} primary={of.value === null} data-ls={`measure-${what}`} onClick={() => store.measure(what)} />
  );
  return (
    <>
      {of.state === "measuring" ? (
        <div class="ls-pad" style={{ paddingTop: "8px" }}>
          <Progress
            {...(progress ?? { done: 0, total: 0, sentence: of.sentence || "measuring…" })}
            onStop={() => store.cancel(what)}
          />
        </div>
      ) : of.value === null ? (
        <div class="ls-pad" style={{ paddingTop: "10px" }} data-ls="not-measured">
          <p style={{ marginBottom: "8px" }}>{brief(of.sentence || say)}</p>
          {measure("Measure")}
        </div>
      ) : (
        stale && (
          <div class="ls-banner" data-ls="stale">
            <span>
              {of.state === "failed" || of.state === "cancelled"
                ? brief(of.sentence)
                : "These are the numbers of an earlier recipe."}
            </span>
            {measure("Measure again")}
          </div>
        )
      )}
      {of.value !== null && children}
    </>
  );
}
