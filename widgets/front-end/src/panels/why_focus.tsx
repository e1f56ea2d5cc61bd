/** The selected node and one pattern with room for all: condition, expected, actual, at. Key W. */

import type { JSX } from "preact";

import type { ConditionRow, Explanation } from "../protocol";
import { NEAR } from "../walk";
import { Badge, Button, Name, Pill, type Tone } from "./bits";
import { CodeMapPlot } from "./code_map";
import { classOf, partsOf, signOf, Ticks, wordOf } from "./condition";
import { Icon } from "./icons";
import { NodeLink } from "./node_link";
import { RegionError } from "./region_error";
import { Suggestions } from "./suggestions";
import { brief, count } from "./text";
import { usePatterns, usePick, useStore } from "./use";
import { usePlace } from "./walk_bar";
import { Asking, verdictInWords } from "./why_not";

export function WhyFocus(): JSX.Element {
  const store = useStore();
  const node = usePick((state) => state.selected[0] ?? null);
  const whyNot = usePick((state) => state.whyNot);
  const chosen = usePick((state) => state.whyPattern);
  const current = whyNot !== null && whyNot.node === node ? whyNot : null;
  const explanation =
    current?.explanations.find((one) => one.pattern === chosen) ??
    current?.explanations.find((one) => one.verdict !== "no anchor") ??
    current?.explanations[0];
  return (
    <section class="ls-column" aria-label="Why not" data-ls="why-focus" data-node={node ?? ""}>
      <div class="ls-why-head">
        <div class="ls-why-line">
          <Choices of={current?.explanations ?? []} chosen={explanation?.pattern ?? null} />
          <span class="ls-push" />
          <Button
            label="Back to the inspector (W)"
            icon="cross"
            bare
            data-ls="why-focus-close"
            onClick={() => store.setWhyFocus(false)}
          />
        </div>
        {explanation && node !== null && <Title of={explanation} node={node} />}
      </div>
      <RegionError region="why" />
      {node === null ? (
        <div class="ls-pad ls-2" style={{ paddingTop: "8px" }}>
          Select a node, or press J for the next near miss.
        </div>
      ) : current === null ? (
        <Asking />
      ) : (
        explanation && (
          <>
            <Table of={explanation} />
            <Suggestions of={explanation} node={node} table />
          </>
        )
      )}
    </section>
  );
}

/** A badge per pattern that has something to say about this node. */
function Choices({ of, chosen }: { of: readonly Explanation[]; chosen: string | null }): JSX.Element {
  const store = useStore();
  const patterns = usePatterns();
  return (
    <span class="ls-why-patterns" role="group" aria-label="Patterns">
      {of.map((one) => {
        const row = patterns.find(({ name }) => name === one.pattern);
        if (row === undefined || (one.verdict === "no anchor" && one.pattern !== chosen)) return null;
        return (
          <button
            type="button"
            key={one.pattern}
            class={`ls-c${row.color % 6}`}
            aria-pressed={one.pattern === chosen}
            aria-label={brief(`${row.number} ${row.name}, ${verdictInWords(one)}`)}
            title={brief(`${row.name}: ${verdictInWords(one)}`)}
            data-ls="why-choice"
            data-pattern={one.pattern}
            onClick={() => store.setWhyPattern(one.pattern)}
          >
            <Badge pattern={row} hollow={one.pattern !== chosen} />
          </button>
        );
      })}
    </span>
  );
}

const TONES: Partial<Record<Explanation["verdict"], Tone>> = {
  applied: "pass",
  "near miss": "near",
  declined: "near",
  error: "fail",
};

function Title({ of, node }: { of: Explanation; node: string }): JSX.Element {
  const row = usePatterns().find(({ name }) => name === of.pattern);
  const pill = of.verdict === "near miss" ? `near miss · ${of.passed} of ${of.total}` : of.verdict;
  return (
    <>
      <div class="ls-why-line" style={{ fontSize: "13px" }}>
        {row && <Badge pattern={row} />}
        <Name text={of.pattern} strong />
        <span class="ls-2">on</span>
        <Name text={node} strong />
        <NearWalk pattern={of.pattern} />
      </div>
      <div class="ls-why-line">
        <Pill
          tone={TONES[of.verdict] ?? "none"}
          text={pill}
          icon={of.verdict === "applied"}
          data-ls="why-verdict"
          data-verdict={of.verdict}
        />
        <Ticks of={of} />
        <span class="ls-2 ls-11 ls-cut" title={brief(of.reason)}>
          {brief(of.reason)}
        </span>
      </div>
    </>
  );
}

function NearWalk({ pattern }: { pattern: string }): JSX.Element | null {
  const store = useStore();
  const row = usePatterns().find(({ name }) => name === pattern);
  const at = usePlace(pattern, NEAR);
  const total = (row?.near ?? 0) + (row?.declined ?? 0);
  if (total === 0) return null;
  const go = (direction: 1 | -1) => {
    store.focusPattern(pattern);
    store.nextNearMiss(direction);
  };
  return (
    <span class="ls-h-right" data-ls="near-walk">
      near miss{" "}
      <b class="ls-b" style={{ color: "var(--text)" }}>
        {at > 0 && `${count(at)} of `}
        {count(total)}
      </b>
      <Button label="Previous near miss (K)" icon="left" bare data-ls="near-back" onClick={() => go(-1)} />
      <Button label="Next near miss (J)" icon="right" bare data-ls="near-on" onClick={() => go(1)} />
    </span>
  );
}

function Table({ of }: { of: Explanation }): JSX.Element {
  return (
    <div role="table" aria-label={brief(`Conditions of ${of.pattern}`)}>
      <div class="ls-why-row ls-why-names" role="row">
        <span role="columnheader" aria-label="status" />
        <span role="columnheader">condition</span>
        <span role="columnheader">expected</span>
        <span role="columnheader">actual</span>
        <span role="columnheader" class="ls-at">
          at
        </span>
      </div>
      <div class="ls-why-table" role="rowgroup">
        {partsOf(of.conditions).map((part) => (
          <>
            {part.name !== null && (
              <div class="ls-why-part" data-ls="part" data-part={part.name}>
                <b class="ls-b">{part.name}</b>
                <span class="ls-2">optional part</span>
              </div>
            )}
            {part.conditions.map((condition) => (
              <Row key={condition.name} of={condition} />
            ))}
          </>
        ))}
        {of.conditions.length === 0 && <div class="ls-pad ls-2">{brief(of.reason)}</div>}
      </div>
    </div>
  );
}

function Row({ of }: { of: ConditionRow }): JSX.Element {
  const unreached = of.status === "not reached";
  return (
    <div
      class={`ls-why-row ${classOf(of.status)}`}
      role="row"
      title={of.name}
      data-ls="condition"
      data-condition={of.name}
      data-status={of.status}
    >
      <span role="cell" class="ls-why-sign" aria-label={wordOf(of.status)}>
        <Icon name={signOf(of.status)} small />
      </span>
      <span role="cell" class="ls-says" data-ls="condition-says">
        {brief(of.says)}
      </span>
      <span role="cell" class="ls-mono ls-2" title={brief(of.expected)}>
        {brief(of.expected, 120)}
      </span>
      <span role="cell" class={unreached ? "ls-mono ls-2" : "ls-mono ls-actual"} title={brief(of.actual)}>
        {unreached ? "not reached" : brief(of.actual, 120)}
      </span>
      <span role="cell" class="ls-at">
        {of.node !== null && <NodeLink node={of.node} />}
      </span>
      {(of.status === "failed" || of.status === "follows") && of.sentence !== "" && (
        <span class={of.status === "follows" ? "ls-note ls-2" : "ls-note"} role="cell" data-ls="condition-sentence">
          {brief(of.sentence, 600)}
          <CodeMapPlot of={of.code_map} />
        </span>
      )}
    </div>
  );
}
