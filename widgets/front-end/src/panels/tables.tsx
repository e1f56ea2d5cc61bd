/** The tables behind the strip: operators by kind, parity by output and by step, latency by operator. Key M. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Conflict, CountRow, Latency, Parity, PartitionerRow, StepError } from "../protocol";
import { Badge, Button, Link, Name, Pill } from "./bits";
import { Measurement } from "./measurement";
import { NodeLink } from "./node_link";
import { type ColumnOf, Table } from "./table";
import { Tabs } from "./tabs";
import { brief, count, milliseconds, numeric, plural, signed } from "./text";
import { usePatterns, usePick, useStore } from "./use";

const SHEETS = [
  { name: "operators", title: "Operators" },
  { name: "parity", title: "Parity" },
  { name: "by_step", title: "By step" },
  { name: "latency", title: "Latency" },
  { name: "conflicts", title: "Conflicts" },
  { name: "partitioner", title: "Partitioner" },
] as const;

type SheetName = (typeof SHEETS)[number]["name"];

export function Tables(): JSX.Element {
  const store = useStore();
  const [sheet, setSheet] = useState<SheetName>("operators");
  return (
    <section class="ls-tables" aria-label="Tables of numbers" data-ls="metrics-tables">
      <Tabs label="Numbers" tabs={SHEETS} current={sheet} choose={setSheet} ls="metrics-tab" data="sheet">
        <Button
          label="Close the tables (M)"
          icon="cross"
          bare
          data-ls="metrics-close"
          onClick={() => store.setMetricsOpen(false)}
        />
      </Tabs>
      {sheet === "operators" && <Operators />}
      {sheet === "parity" && <ParityTable />}
      {sheet === "by_step" && <ByStep />}
      {sheet === "latency" && <LatencyTable />}
      {sheet === "conflicts" && <Conflicts />}
      {sheet === "partitioner" && <Partitioner />}
    </section>
  );
}

const NO_COUNTS: readonly CountRow[] = [];

const COUNTS: ColumnOf<CountRow>[] = [
  { name: "op", title: "operator", value: (row) => row.op, show: (row) => <Name text={row.op} /> },
  {
    name: "category",
    title: "kind",
    value: (row) => row.category,
    show: (row) =>
      row.op === "total" ? null : (
        <span class="ls-flex" style={{ gap: "6px" }}>
          <i class={`ls-swatch ls-k-${row.category}`} />
          {row.category}
        </span>
      ),
  },
  {
    name: "before",
    title: "before",
    right: true,
    value: (row) => row.before,
    show: (row) => <span class="ls-2">{count(row.before)}</span>,
  },
  { name: "after", title: "after", right: true, value: (row) => row.after, show: (row) => count(row.after) },
  {
    name: "delta",
    title: "change",
    right: true,
    value: (row) => row.delta,
    show: (row) => (
      <span class={row.delta < 0 ? "ls-good" : "ls-2"}>{signed(row.delta)}</span>
    ),
  },
];

function Operators(): JSX.Element {
  const rows = usePick((state) => state.scene?.header.operators ?? NO_COUNTS);
  const partitions = usePick((state) => state.scene?.header.partitions ?? null);
  return (
    <>
      {partitions !== null && (
        <div class="ls-summary">
          <span>
            Partitions <b class="ls-b">{count(partitions.before)}</b> → <b class="ls-b">{count(partitions.after)}</b>
          </span>
          <span>
            Transposes <b class="ls-b">{count(partitions.transposes_before)}</b> →{" "}
            <b class="ls-b">{count(partitions.transposes_after)}</b>
          </span>
        </div>
      )}
      <Table
        name="operators"
        rows={rows}
        columns={COUNTS}
        keyOf={(row) => row.op}
        first={{ column: "before", down: true }}
        total={(row) => row.op === "total"}
      />
    </>
  );
}

/** A column of numbers that the engine has written, in which an empty one is a dash. */
const written = <K extends string>(name: K, title: string): ColumnOf<Record<K, string>> => ({
  name,
  title,
  right: true,
  value: (row) => numeric(row[name]),
  show: (row) => row[name] || "–",
});

const OUTPUTS: ColumnOf<Parity["outputs"][number]>[] = [
  { name: "name", title: "output", value: (row) => row.name, show: (row) => <Name text={row.name} /> },
  {
    name: "verdict",
    title: "verdict",
    value: (row) => row.verdict,
    show: (row) => (
      <span class="ls-small">
        <Pill
          tone={
            row.verdict === "equal" || row.verdict === "close"
              ? "pass"
              : row.verdict === "nondeterministic"
                ? "near"
                : "fail"
          }
          text={row.verdict}
        />
      </span>
    ),
  },
  written("sqnr_db", "SQNR dB"),
  written("max_abs", "max abs"),
  { name: "where", title: "where", show: (row) => <span class="ls-mono">{row.where}</span> },
  written("p99_abs", "p99 abs"),
  written("norm_l2", "norm. L2"),
  written("oracle_ratio", "fp64 ratio"),
];

function ParityTable(): JSX.Element {
  const measured = usePick((state) => state.parity);
  return (
    <Measurement of={measured} what="parity" say="Not measured.">
      {measured.value !== null && (
        <>
          <div class="ls-summary">
            <b class="ls-b">{brief(measured.value.sentence)}</b>
            <span class="ls-2">{brief(measured.value.detail)}</span>
          </div>
          <Table name="parity" rows={measured.value.outputs} columns={OUTPUTS} keyOf={(row) => row.name} />
          {measured.value.notes.map((note) => (
            <div key={note} class="ls-foot" data-ls="parity-note">
              {brief(note, 600)}
            </div>
          ))}
          <div class="ls-foot">
            fp64 ratio: error after ÷ error before, both against a float64 run of the original. 1.00× means the rewrite
            is as exact as the original.
          </div>
        </>
      )}
    </Measurement>
  );
}

function ByStep(): JSX.Element {
  const measured = usePick((state) => state.byStep);
  const store = useStore();
  const patterns = usePatterns();
  const rows = measured.value ?? [];
  const most = Math.max(...rows.map(({ guilt }) => guilt), 0);
  const columns: ColumnOf<StepError>[] = [
    {
      name: "step",
      title: "step",
      right: true,
      value: (row) => row.step,
      show: (row) => <Link text={count(row.step)} data-ls="go-step" onClick={() => store.setStep(row.step)} />,
    },
    {
      name: "pattern",
      title: "pattern",
      value: (row) => row.pattern,
      show: (row) => {
        const pattern = patterns.find(({ name }) => name === row.pattern);
        return (
          <span class="ls-flex">
            {pattern && <Badge pattern={pattern} />}
            <Name text={row.pattern} />
          </span>
        );
      },
    },
    { name: "node", title: "at", value: (row) => row.node, show: (row) => <NodeLink node={row.node} /> },
    written("isolated", "this step alone"),
    written("propagated", "all steps up to here"),
    {
      name: "guilt",
      title: "share of the error",
      value: (row) => row.guilt,
      show: (row) => (
        <span
          class={row.guilt === most && most > 0 ? "ls-meter ls-bad" : "ls-meter"}
          style={{ width: `${most > 0 ? (row.guilt / most) * 90 : 0}px` }}
          role="img"
          aria-label={`guilt ${row.guilt}`}
        />
      ),
    },
  ];
  return (
    <Measurement of={measured} what="by_step" say="The error of every step alone and of all up to it: not measured.">
      <div class="ls-summary">
        <span data-ls="by-step-summary">{brief(measured.sentence) || plural(rows.length, "step")}</span>
      </div>
      <Table
        name="by_step"
        rows={rows}
        columns={columns}
        keyOf={(row) => String(row.step)}
        first={{ column: "guilt", down: true }}
        rowClass={(row) => (row.guilt === most && most > 0 ? "ls-guilty" : "")}
      />
    </Measurement>
  );
}

const PROFILE: ColumnOf<Latency["profile"][number]>[] = [
  { name: "op", title: "operator", value: (row) => row.op, show: (row) => <Name text={row.op} /> },
  {
    name: "before",
    title: "before",
    right: true,
    value: (row) => row.before_ms,
    show: (row) => <span class="ls-2">{milliseconds(row.before_ms)}</span>,
  },
  {
    name: "after",
    title: "after",
    right: true,
    value: (row) => row.after_ms,
    show: (row) => milliseconds(row.after_ms),
  },
];

function LatencyTable(): JSX.Element {
  const measured = usePick((state) => state.latency);
  return (
    <Measurement of={measured} what="latency" say="Not measured.">
      {measured.value !== null && (
        <>
          <div class="ls-summary">
            <b class="ls-b">{brief(measured.value.sentence)}</b>
            <span class="ls-2">{brief(measured.value.runtime)}</span>
          </div>
          <Table
            name="latency"
            rows={measured.value.profile}
            columns={PROFILE}
            keyOf={(row) => row.op}
            first={{ column: "before", down: true }}
          />
        </>
      )}
    </Measurement>
  );
}

const party = (pattern: string, node: string) => (
  <>
    <Name text={pattern} /> <NodeLink node={node} />
  </>
);

function Conflicts(): JSX.Element {
  const store = useStore();
  const measured = usePick((state) => state.conflicts);
  const columns: ColumnOf<Conflict>[] = [
    { name: "winner", title: "took the nodes", show: (row) => party(row.winner, row.at) },
    { name: "loser", title: "lost them", show: (row) => party(row.loser, row.loser_at) },
    { name: "why", title: "why", show: (row) => brief(row.why) },
    { name: "operators", title: "operators", right: true, show: (row) => count(row.operators) },
    { name: "flipped", title: "flipped", right: true, show: (row) => row.flipped ?? "–" },
    { name: "parity", title: "numbers", show: (row) => row.parity },
    {
      name: "flip",
      title: "",
      show: (row) =>
        row.apply && (
          <Link text="Flip the winner" hint={row.flip} data-ls="flip" onClick={() => row.apply && store.apply(row.apply)} />
        ),
    },
  ];
  return (
    <Measurement of={measured} what="conflicts" say="Not tried.">
      <div class="ls-summary">{brief(measured.sentence)}</div>
      <Table
        name="conflicts"
        rows={measured.value ?? []}
        columns={columns}
        keyOf={(row) => `${row.loser} ${row.loser_at}`}
      />
    </Measurement>
  );
}

const SIDES: ColumnOf<PartitionerRow>[] = [
  { name: "node", title: "node", value: (row) => row.node, show: (row) => <NodeLink node={row.node} /> },
  ...(["op", "when", "ours", "executorch"] as const).map((name) => ({
    name,
    title: name,
    value: (row: PartitionerRow) => row[name],
    show: (row: PartitionerRow) => <span title={brief(row[name])}>{brief(row[name])}</span>,
  })),
];

function Partitioner(): JSX.Element {
  const measured = usePick((state) => state.partitioner);
  return (
    <Measurement of={measured} what="partitioner" say="What ExecuTorch's own partitioner takes: not asked.">
      <div class="ls-summary">{brief(measured.sentence)}</div>
      <Table
        name="partitioner"
        rows={measured.value ?? []}
        columns={SIDES}
        keyOf={(row) => `${row.when} ${row.node}`}
        rowClass={(row) => (row.agree ? "" : "ls-guilty")}
      />
    </Measurement>
  );
}
