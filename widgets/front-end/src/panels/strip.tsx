/** The strip of numbers: operators, partitions, transposes, parity, latency. Stale numbers are grey and say so. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { Latency, Parity } from "../protocol";
import type { Measured } from "../state";
import { Icon } from "./icons";
import { Link, Pill, Progress, type Tone } from "./bits";
import { operatorsByStep, type Share, sharesAt, stepOfNumbers, totalOf } from "./numbers";
import { RegionError } from "./region_error";
import { brief, count, milliseconds, signed } from "./text";
import { usePatterns, usePick, useStore } from "./use";

export function Strip(): JSX.Element {
  const store = useStore();
  const open = usePick((state) => state.metricsOpen);
  return (
    <>
      <RegionError region="metrics" />
      <div class="ls-strip" role="region" aria-label="Metrics" tabIndex={-1} data-ls="metrics">
        <Operators />
        <Partitions />
        <ParityCell />
        <LatencyCell />
        <button
          type="button"
          class="ls-metrics-toggle"
          aria-expanded={open}
          aria-label={open ? "Close the tables of numbers" : "Open the tables of numbers"}
          title={open ? "Close the tables (M)" : "Tables of numbers (M)"}
          data-ls="metrics-open"
          onClick={() => store.setMetricsOpen(!open)}
        >
          <Icon name={open ? "down" : "up"} />
        </button>
      </div>
    </>
  );
}

function Operators(): JSX.Element {
  const scene = usePick((state) => state.scene);
  const step = usePick(stepOfNumbers);
  const total = scene ? totalOf(scene) : undefined;
  const byStep = useMemo(() => (scene ? operatorsByStep(scene) : null), [scene]);
  const before = useMemo(() => (scene ? sharesAt(scene, 0) : []), [scene]);
  const now = useMemo(() => (scene ? sharesAt(scene, step) : []), [scene, step]);
  const partly = scene !== null && step < scene.lastStep;
  const after = partly ? (byStep?.[step] ?? 0) : (total?.after ?? 0);
  if (!total) {
    return (
      <div class="ls-cell">
        <span class="ls-cell-label">Operators</span>
        <span class="ls-cell-value ls-stale">–</span>
      </div>
    );
  }
  const change = partly ? signed(after - total.before) : total.change;
  const scale = Math.max(total.before, after, 1);
  return (
    <div class="ls-cell ls-operators">
      <div>
        <div class="ls-cell-label" style={{ marginBottom: "3px" }}>
          Operators{partly && ` at step ${count(step)}`}
        </div>
        <div class="ls-cell-value">
          <span class="ls-was">
            <span data-ls="operators-before">{count(total.before)}</span> →
          </span>
          <span data-ls="operators-after">{count(after)}</span>
          {after === total.before ? (
            <span class="ls-plain">no change</span>
          ) : (
            <span class={after < total.before ? "ls-change ls-good" : "ls-change ls-2"} data-ls="operators-change">
              {change}
            </span>
          )}
        </div>
      </div>
      <div class="ls-stacks" data-ls="operators-bars">
        <Stack shares={before} part={total.before / scale} label="before" />
        <Stack shares={now} part={after / scale} label={partly ? `at step ${step}` : "after"} />
      </div>
    </div>
  );
}

function Stack({ shares, part, label }: { shares: readonly Share[]; part: number; label: string }): JSX.Element {
  const patterns = usePatterns();
  const words = shares
    .map(
      (share) =>
        `${count(share.count)} ${share.pattern < 0 ? share.category : (patterns[share.pattern]?.name ?? "fused")}`,
    )
    .join(", ");
  return (
    <div
      class="ls-stack"
      role="img"
      aria-label={brief(`${label}: ${words}`)}
      title={brief(`${label}: ${words}`)}
      style={{ width: `${part * 100}%` }}
    >
      {shares.map((share) => (
        <i
          key={`${share.pattern} ${share.category}`}
          class={share.pattern < 0 ? `ls-k-${share.category}` : `ls-c${(patterns[share.pattern]?.color ?? 0) % 6}`}
          style={{ flex: `${share.count} 0 0` }}
        />
      ))}
    </div>
  );
}

function Partitions(): JSX.Element {
  const partitions = usePick((state) => state.scene?.header.partitions ?? null);
  if (partitions === null) {
    return (
      <div class="ls-cell">
        <span class="ls-cell-label">Partitions</span>
        <span class="ls-cell-value ls-stale">
          <span class="ls-plain" data-ls="partitions">
            not applicable
          </span>
        </span>
      </div>
    );
  }
  return (
    <>
      <Change label="Partitions" name="partitions" before={partitions.before} after={partitions.after} />
      <Change
        label="Transposes"
        name="transposes"
        before={partitions.transposes_before}
        after={partitions.transposes_after}
      />
    </>
  );
}

function Change({
  label,
  name,
  before,
  after,
}: {
  label: string;
  name: string;
  before: number;
  after: number;
}): JSX.Element {
  return (
    <div class="ls-cell">
      <span class="ls-cell-label">{label}</span>
      <span class="ls-cell-value" data-ls={name} data-before={before} data-after={after}>
        {before !== after && <span class="ls-was">{count(before)} →</span>}
        {count(after)}
        {before === after && <span class="ls-plain">no change</span>}
      </span>
    </div>
  );
}

const VERDICTS: Record<Parity["verdict"], Tone> = {
  equal: "pass",
  close: "pass",
  different: "fail",
  incomparable: "fail",
  nondeterministic: "near",
};

/** Stale once the recipe moved on, or while a newer measurement runs. */
function useStale(measured: Measured<unknown>): boolean {
  const revision = usePick((state) => state.scene?.revision ?? -1);
  return measured.value !== null && (measured.state !== "fresh" || measured.revision !== revision);
}

function ParityCell(): JSX.Element {
  const store = useStore();
  const measured = usePick((state) => state.parity);
  const progress = usePick((state) => state.progress["parity"]);
  const stale = useStale(measured);
  const { value, state, sentence } = measured;
  const data = {
    "data-ls": "parity-pill",
    "data-state": stale && state === "fresh" ? "stale" : state,
    "data-verdict": value?.verdict ?? "",
  };
  const again = (text: string) => <Link text={text} data-ls="measure-parity" onClick={() => store.measure("parity")} />;
  return (
    <div class={stale ? "ls-cell ls-parity ls-stale" : "ls-cell ls-parity"} data-ls="parity">
      <span style={{ display: "flex", gap: "8px", alignItems: "center", minWidth: "0" }}>
        {state === "measuring" ? (
          <>
            <span class="ls-spin" />
            <Pill tone="none" text="measuring…" icon={false} {...data} />
          </>
        ) : state === "failed" ? (
          <Pill tone="fail" text="Parity failed" {...data} />
        ) : value === null || stale ? (
          <Pill tone="none" text={value === null ? "Not measured" : "stale"} {...data} />
        ) : (
          <Pill tone={VERDICTS[value.verdict]} text={value.sentence.replace(/\.$/, "")} {...data} />
        )}
        {state === "measuring" ? (
          <Link text="Stop" data-ls="stop-parity" onClick={() => store.cancel("parity")} />
        ) : (
          (value === null || stale || state === "failed") && again("Measure")
        )}
      </span>
      {state === "measuring" && progress ? (
        <Progress {...progress} />
      ) : (
        <span class="ls-11 ls-2 ls-cut" data-ls="parity-detail" title={brief(sentence || (value?.detail ?? ""))}>
          {brief(
            state === "failed" || state === "cancelled"
              ? sentence
              : (value?.detail ?? "compares the numbers before and after"),
          )}
        </span>
      )}
    </div>
  );
}

function LatencyCell(): JSX.Element {
  const store = useStore();
  const measured = usePick((state) => state.latency);
  const progress = usePick((state) => state.progress["latency"]);
  const stale = useStale(measured);
  const { value, state, sentence } = measured;
  const head = value === null ? "Latency" : `Latency, ${value.runtime}${value.ratio ? ` · ${value.ratio}` : ""}`;
  return (
    <div
      class={stale ? "ls-cell ls-latency ls-stale" : "ls-cell ls-latency"}
      data-ls="latency"
      data-state={stale && state === "fresh" ? "stale" : state}
    >
      <span class="ls-cell-label">
        <span class="ls-cut" title={brief(value?.sentence ?? "")}>
          {brief(head, 80)}
        </span>
        {stale && state !== "measuring" && (
          <Link text="again" hint="Measure again" data-ls="measure-latency" onClick={() => store.measure("latency")} />
        )}
      </span>
      {state === "measuring" ? (
        <Progress
          {...(progress ?? { done: 0, total: 0, sentence: "measuring…" })}
          onStop={() => store.cancel("latency")}
        />
      ) : value !== null ? (
        <Bars of={value} />
      ) : (
        <span class="ls-arg">
          <Link text="Measure…" data-ls="measure-latency" onClick={() => store.measure("latency")} />
          <span class="ls-2 ls-cut" title={brief(sentence)}>
            {state === "failed" ? brief(sentence, 120) : "not measured"}
          </span>
        </span>
      )}
    </div>
  );
}

function Bars({ of }: { of: Latency }): JSX.Element {
  const scale = Math.max(of.before_ms, of.after_ms, Number.MIN_VALUE);
  return (
    <span class="ls-latency-bars" title={brief(of.sentence)} data-ls="latency-bars">
      <i style={{ width: `${(of.before_ms / scale) * 100}%` }} />
      <span data-ls="latency-before">{milliseconds(of.before_ms)}</span>
      <i class="ls-now" style={{ width: `${(of.after_ms / scale) * 100}%` }} />
      <b class="ls-b" data-ls="latency-after">
        {milliseconds(of.after_ms)}
      </b>
    </span>
  );
}
