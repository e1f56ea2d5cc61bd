/** All misses grouped by the condition they stop at, largest group first; a click walks through the nodes of a group. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { ReasonGroup } from "../protocol";
import { Badge, Heading } from "./bits";
import { brief, count } from "./text";
import { hovering, usePatterns, usePick, useStore } from "./use";

const NO_REASONS: readonly ReasonGroup[] = [];

export function Reasons({ only }: { only?: number }): JSX.Element {
  const reasons = usePick((state) => state.scene?.header.reasons ?? NO_REASONS);
  const shown = only === undefined ? reasons : reasons.slice(0, only);
  const misses = reasons.reduce((sum, reason) => sum + reason.count, 0);
  return (
    <section aria-label="Misses by reason" data-ls="reasons">
      <Heading text="Why patterns miss" line={only !== undefined}>
        {count(misses)}
      </Heading>
      {shown.length === 0 && <div class="ls-pad ls-2">No pattern missed anything here.</div>}
      {shown.map((reason) => (
        <Group key={`${reason.pattern} ${reason.condition}`} of={reason} />
      ))}
    </section>
  );
}

function Group({ of }: { of: ReasonGroup }): JSX.Element {
  const store = useStore();
  const row = usePatterns().find(({ name }) => name === of.pattern);
  const selected = usePick((state) => state.selected[0] ?? "");
  const at = useMemo(() => of.anchors.indexOf(selected), [of, selected]);
  const next = () => {
    const anchor = of.anchors[(at + 1) % of.anchors.length];
    store.setWhyPattern(of.pattern);
    if (anchor !== undefined) void store.travel(anchor);
  };
  return (
    <button
      type="button"
      class="ls-reasons-row"
      title="Go to the next of these nodes"
      data-ls="reason-group"
      data-pattern={of.pattern}
      data-condition={of.condition}
      data-count={of.count}
      {...hovering(store, { pattern: of.pattern })}
      onClick={next}
    >
      {row ? <Badge pattern={row} hollow /> : <span />}
      <span style={{ overflowWrap: "anywhere" }}>{brief(of.sentence)}</span>
      <span class="ls-b" style={{ color: "var(--accent)" }}>
        {at >= 0 && `${count(at + 1)} of `}
        {count(of.count)}
      </span>
      <span class="ls-11 ls-2 ls-cut">
        {brief(of.pattern, 60)} · {brief(of.condition, 60)}
      </span>
    </button>
  );
}
