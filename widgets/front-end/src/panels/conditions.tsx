/** The conditions of the unfolded pattern, in the narrow column: sign, name, value, and the sentence of a failure. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { ConditionRow, Explanation } from "../protocol";
import { classOf, partsOf, signOf, wordOf } from "./condition";
import { Icon } from "./icons";
import { NodeLink } from "./node_link";
import { brief } from "./text";

export function Conditions({ of }: { of: Explanation }): JSX.Element {
  const [all, setAll] = useState(false);
  const waiting = of.conditions.filter((condition) => condition.status === "not reached");
  const shown = all || waiting.length < 2 ? of.conditions : of.conditions.filter((condition) => condition.status !== "not reached");
  return (
    <div role="list" aria-label="Conditions">
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
            <button type="button" class="ls-link" data-ls="not-reached" data-count={waiting.length} onClick={() => setAll(true)}>
              {waiting.length} more not reached
            </button>
          </span>
        </div>
      )}
    </div>
  );
}

function Condition({ of }: { of: ConditionRow }): JSX.Element {
  const failed = of.status === "failed";
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
        {brief(failed && of.sentence !== "" ? of.sentence : of.says)}
      </span>
      <span class="ls-value">
        {(failed || of.status === "follows") && of.node !== null ? (
          <NodeLink node={of.node} />
        ) : (
          <span class="ls-cut">{of.status === "not reached" ? "" : brief(of.actual, 120)}</span>
        )}
      </span>
      {failed && (
        <span class="ls-note" data-ls="condition-values">
          <span class="ls-mono">{brief(of.name, 80)}</span>: expected <b class="ls-b">{brief(of.expected, 160) || "–"}</b>, actual <b class="ls-b">{brief(of.actual, 160) || "–"}</b>
        </span>
      )}
      {of.status === "follows" && of.sentence !== "" && <span class="ls-note ls-2">{brief(of.sentence)}</span>}
    </div>
  );
}
