/** The conditions of the unfolded pattern, in the narrow column: sign, name, value, and the sentence of a failure. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { clientBox } from "../client_box";
import type { ConditionRow, Explanation } from "../protocol";
import { CodeMapPlot } from "./code_map";
import { classOf, partsOf, signOf, wordOf } from "./condition";
import { Icon } from "./icons";
import { NodeLink } from "./node_link";
import { brief, clauses } from "./text";
import { usePick } from "./use";

export function Conditions({ of }: { of: Explanation }): JSX.Element {
  const [all, setAll] = useState(false);
  const waiting = of.conditions.filter((condition) => condition.status === "not reached");
  const shown =
    all || waiting.length < 2 ? of.conditions : of.conditions.filter((condition) => condition.status !== "not reached");
  const box = useRef<HTMLDivElement>(null);
  // The facts above may come later than the conditions, and push them down.
  const inspection = usePick((state) => state.inspection);
  useLayoutEffect(
    () => bringIntoView(box.current?.querySelector<HTMLElement>('[data-status="failed"]')),
    [of, inspection],
  );
  return (
    <div role="list" aria-label="Conditions" ref={box}>
      {partsOf(shown).map((part) => (
        <>
          {part.name !== null && (
            <div class="ls-part" data-ls="part" data-part={part.name}>
              <span>{part.name}</span>
              <span>optional</span>
            </div>
          )}
          {part.conditions.map((condition) => (
            <Condition key={condition.name} of={condition} />
          ))}
        </>
      ))}
      {shown !== of.conditions && (
        <div class="ls-condition ls-not-reached">
          <Icon name="dash" small />
          <span>
            <button
              type="button"
              class="ls-link"
              data-ls="not-reached"
              data-count={waiting.length}
              onClick={() => setAll(true)}
            >
              {waiting.length} more not reached
            </button>
          </span>
        </div>
      )}
    </div>
  );
}

/** Kept below the row, CSS px: it may still be unfolding. */
const MARGIN = 14;

/** Scrolls the column, and nothing around it, as `scrollIntoView` would, so that the reason is on screen. */
function bringIntoView(row: HTMLElement | null | undefined): void {
  const column = row?.closest<HTMLElement>(".ls-scroll");
  if (!row || !column) return;
  const beyond = clientBox(row).bottom - clientBox(column).bottom;
  if (beyond > 0) column.scrollTop += beyond + MARGIN;
}

function Condition({ of }: { of: ConditionRow }): JSX.Element {
  const failed = of.status === "failed";
  const [what, why] = failed && of.sentence !== "" ? clauses(of.sentence) : [of.says, ""];
  return (
    <div
      class={`ls-condition ${classOf(of.status)}`}
      role="listitem"
      aria-label={brief(`${of.says}: ${wordOf(of.status)}. ${of.sentence}`)}
      title={brief(`${of.name}: expected ${of.expected || "–"}, actual ${of.actual || "–"}`)}
      data-ls="condition"
      data-condition={of.name}
      data-status={of.status}
    >
      <Icon name={signOf(of.status)} small />
      <span class="ls-says" data-ls="condition-says">
        {brief(what)}
      </span>
      <span class="ls-value">
        {(failed || of.status === "follows") && of.node !== null ? (
          <NodeLink node={of.node} />
        ) : (
          <span class="ls-cut">{of.status === "not reached" ? "" : brief(of.actual, 120)}</span>
        )}
      </span>
      {why !== "" && <span class="ls-note">{brief(why, 600)}</span>}
      {failed && (
        <span class="ls-note ls-2" data-ls="condition-values">
          <span class="ls-mono">{brief(of.name, 80)}</span>: expected{" "}
          <b class="ls-b">{brief(of.expected, 160) || "–"}</b>, actual{" "}
          <b class="ls-b">{brief(of.actual, 160) || "–"}</b>
        </span>
      )}
      <CodeMapPlot of={of.code_map} />
      {of.status === "follows" && of.sentence !== "" && <span class="ls-note ls-2">{brief(of.sentence)}</span>}
    </div>
  );
}
