/** A constant of the selected node; its statistics and a histogram are computed in the kernel when asked for. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Inspection, Statistics } from "../protocol";
import { Name } from "./bits";
import { Icon } from "./icons";
import { brief, count, figure } from "./text";
import { useAway, usePick, useStore } from "./use";

export function Constant({ constant }: { constant: Inspection["constants"][number] }): JSX.Element {
  const store = useStore();
  const statistics = usePick((state) => state.statistics[constant.node]);
  const away = useAway();
  const [open, setOpen] = useState(false);
  const toggle = () => {
    if (!open && statistics === undefined && !away) void store.requestStatistics(constant.node);
    setOpen(!open);
  };
  return (
    <div data-ls="constant" data-node={constant.node}>
      <button
        type="button"
        class="ls-link ls-arg"
        aria-expanded={open}
        title={brief(`${constant.kind} ${constant.name}: show its statistics`)}
        data-ls="constant-open"
        onClick={toggle}
      >
        <Icon name={open ? "down" : "right"} small />
        <Name text={constant.name} />
        <span class="ls-mono ls-2 ls-cut">{brief(constant.shape, 60)}</span>
      </button>
      {open && statistics === "asking" && (
        <div class="ls-2">
          <span class="ls-spin" /> counting…
        </div>
      )}
      {open && statistics !== undefined && statistics !== "asking" && <Numbers of={statistics} />}
    </div>
  );
}

function Numbers({ of }: { of: Statistics }): JSX.Element {
  const facts: [string, string][] = [
    ["min", figure(of.min)],
    ["max", figure(of.max)],
    ["mean", figure(of.mean)],
    ["std", figure(of.std)],
  ];
  const notes = [of.zeros > 0 && `${count(of.zeros)} zero`, of.nan > 0 && `${count(of.nan)} NaN`]
    .filter(Boolean)
    .join(" · ");
  return (
    <div class="ls-stats" data-ls="statistics" data-node={of.node}>
      <Histogram of={of} />
      {facts.map(([name, value]) => (
        <span key={name}>
          <span class="ls-2">{name}</span> {value}
        </span>
      ))}
      <span class="ls-2" style={{ gridColumn: "1 / -1" }}>
        {of.dtype}
        {of.nan > 0 ? " · " : notes && ` · ${notes}`}
        {of.nan > 0 && <span class="ls-bad">{notes}</span>}
      </span>
    </div>
  );
}

function Histogram({ of }: { of: Statistics }): JSX.Element | null {
  const most = Math.max(...of.histogram, 1);
  if (of.histogram.length === 0) return null;
  const width = 100 / of.histogram.length;
  const label = `Histogram from ${figure(of.edges[0] ?? null)} to ${figure(of.edges.at(-1) ?? null)}, ${of.histogram.length} bins`;
  return (
    <svg viewBox="0 0 100 34" preserveAspectRatio="none" role="img" aria-label={label} data-ls="histogram">
      <title>{label}</title>
      {of.histogram.map((bin, index) => {
        // A bin that holds anything stays visible.
        const height = bin === 0 ? 0 : Math.max(1, (bin / most) * 33);
        return (
          <rect key={index} x={index * width + width * 0.05} y={34 - height} width={width * 0.9} height={height} />
        );
      })}
    </svg>
  );
}
