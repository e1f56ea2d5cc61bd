/** Why not: a ladder with a row per pattern; the chosen one unfolds into its conditions, the one at fault stands out. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { ConditionRow, Explanation, WhyNot } from "../protocol";
import type { Scene } from "../scene";
import { Badge, Button, Heading, Name, Pill } from "./bits";
import { Conditions } from "./conditions";
import { Icon } from "./icons";
import { RegionError } from "./region_error";
import { Suggestions } from "./suggestions";
import { Ticks } from "./condition";
import { brief, plural } from "./text";
import { hovering, usePatterns, usePick, useStore } from "./use";

export function WhyNotPanel(): JSX.Element | null {
  const store = useStore();
  const node = usePick((state) => state.selected[0] ?? null);
  const whyNot = usePick((state) => state.whyNot);
  if (node === null) return null;
  const current = whyNot?.node === node ? whyNot : null;
  return (
    <section aria-label="Why not" data-ls="why-not" data-node={node} data-ready={current !== null}>
      <Heading text="Why not?" line>
        {current !== null && <span class="ls-cut">{plural(current.explanations.length, "pattern")}</span>}
        <Button
          label="All conditions, side by side (W)"
          icon="wide"
          bare
          data-ls="why-focus-open"
          onClick={() => store.setWhyFocus(true)}
        />
      </Heading>
      <RegionError region="why" />
      {current === null ? <Asking /> : <Ladder of={current} />}
    </section>
  );
}

/** The answer waits while a cell runs: then one reads that, and not nothing. */
export function Asking(): JSX.Element | null {
  const kernel = usePick((state) => state.kernel);
  const failed = usePick((state) => state.errors.why !== undefined);
  if (failed || kernel === "idle") return null;
  return (
    <div class="ls-pad ls-2 ls-arg" data-ls="asking">
      <span class="ls-spin" />
      {kernel === "waiting"
        ? "asking…"
        : kernel === "busy"
          ? "The kernel is busy with a cell; this answer comes after it."
          : "The kernel is not answering."}
    </div>
  );
}

function Ladder({ of }: { of: WhyNot }): JSX.Element {
  const chosen = usePick((state) => state.whyPattern);
  const idle = of.explanations.filter((one) => one.verdict === "no anchor" && one.pattern !== chosen);
  const rows = of.explanations.filter((one) => !idle.includes(one));
  return (
    <>
      {of.delegated !== null && (
        <div class="ls-reason" style={{ paddingLeft: "10px" }} data-ls="delegated">
          {brief(of.delegated)}
        </div>
      )}
      <div class="ls-ladder">
        {rows.map((one) => (
          <Rung key={one.pattern} of={one} node={of.node} open={one.pattern === chosen} />
        ))}
      </div>
      {idle.length > 0 && (
        <details class="ls-fold" open={rows.length === 0} data-ls="no-anchor">
          <summary>
            <Icon name="right" small />
            {plural(idle.length, "pattern")} with no anchor here
          </summary>
          <div class="ls-ladder">
            {idle.map((one) => (
              <Rung key={one.pattern} of={one} node={of.node} open={false} />
            ))}
          </div>
        </details>
      )}
    </>
  );
}

function Rung({ of, node, open }: { of: Explanation; node: string; open: boolean }): JSX.Element | null {
  const store = useStore();
  const row = usePatterns().find(({ name }) => name === of.pattern);
  if (row === undefined) return null;
  const color = `ls-c${row.color % 6}`;
  const takes = of.verdict === "applied";
  return (
    <>
      <button
        type="button"
        class={`ls-ladder-row ${color}`}
        aria-expanded={open}
        aria-label={brief(`${row.number} ${row.name}: ${verdictInWords(of)}. ${of.reason}`)}
        title={brief(of.reason)}
        data-ls="ladder-row"
        data-pattern={of.pattern}
        data-verdict={of.verdict}
        data-passed={of.passed}
        data-total={of.total}
        {...hovering(store, { pattern: of.pattern })}
        onClick={() => store.setWhyPattern(open ? null : of.pattern)}
      >
        <Badge pattern={row} hollow={!takes && !open} />
        <Name text={row.name} strong={open} />
        <Verdict of={of} open={open} />
      </button>
      {open && (
        <div class={`ls-unfolded ${color}`} data-ls="unfolded" data-pattern={of.pattern}>
          {/* The failed condition's own sentence is the reason of a near miss: it is not said twice. */}
          {of.reason !== "" && of.reason !== failureOf(of)?.sentence && (
            <div class="ls-reason" data-ls="reason">
              {brief(of.reason, 600)}
            </div>
          )}
          <Conditions of={of} />
          <Actions of={of} node={node} />
          <Suggestions of={of} node={node} />
        </div>
      )}
    </>
  );
}

function failureOf(of: Explanation): ConditionRow | undefined {
  return of.conditions.find(({ status }) => status === "failed");
}

/** applied · near miss, 7 of 11 · shadowed … : the verdict without its reason. */
export function verdictInWords(of: Explanation): string {
  return of.verdict === "near miss" ? `near miss, ${of.passed} of ${of.total} conditions` : of.verdict;
}

function Verdict({ of, open }: { of: Explanation; open: boolean }): JSX.Element {
  const by = usePatterns().find(({ name }) => name === of.by?.pattern);
  switch (of.verdict) {
    case "applied":
      return (
        <span class="ls-verdict ls-yes">
          <Icon name="check" small />
          applied
        </span>
      );
    case "near miss":
      return (
        <span class="ls-verdict">
          <Ticks of={of} />
          {open ? (
            <span class="ls-small">
              <Pill tone="near" text={`${of.passed}/${of.total}`} icon={false} data-ls="near-count" />
            </span>
          ) : (
            <span class="ls-cut">{firstFailure(of)}</span>
          )}
        </span>
      );
    case "shadowed":
      return <span class="ls-verdict">shadowed by {by && <Badge pattern={by} />}</span>;
    case "declined":
      return (
        <span class="ls-verdict">
          <Ticks of={of} />
          <span class="ls-warn">declined</span>
        </span>
      );
    case "no anchor":
    case "nothing to fuse":
      return <span class="ls-verdict ls-cut">{open ? of.verdict : firstFailure(of) || of.verdict}</span>;
    case "error":
      return <span class="ls-verdict ls-bad">error</span>;
    default:
      return <span class="ls-verdict ls-cut">{of.verdict}</span>;
  }
}

/** What the closed row says: the condition that stops it. */
function firstFailure(of: Explanation): string {
  return brief(failureOf(of)?.says ?? of.reason, 80);
}

function Actions({ of, node }: { of: Explanation; node: string }): JSX.Element | null {
  const store = useStore();
  const enabled = usePatterns().find(({ name }) => name === of.pattern)?.enabled ?? true;
  const scene = usePick((state) => state.scene);
  const step = useMemo(() => stepOf(scene, of), [scene, of]);
  const similar = useMemo(() => similarTo(scene, of), [scene, of]);
  const next = similar[(similar.indexOf(node) + 1) % similar.length];
  const links: { name: string; text: string; run: () => void }[] = [];
  if (step > 0) links.push({ name: "show-step", text: `Show step ${step}`, run: () => store.setStep(step) });
  if (of.verdict === "applied" && of.anchor !== null) {
    const match = { pattern: of.pattern, anchor: of.anchor };
    links.push({ name: "skip-match", text: "Skip this match", run: () => store.skip({ match }) });
  }
  if (of.verdict === "shadowed" && of.by !== null) {
    const match = of.by;
    links.push({ name: "flip", text: "Let this one win", run: () => store.skip({ match }) });
    links.push({ name: "show-winner", text: "Show the winner", run: () => store.setWhyPattern(match.pattern) });
  }
  if (!enabled)
    links.push({ name: "enable", text: "Switch the pattern on", run: () => store.toggle(of.pattern, true) });
  if (of.anchor !== null && of.anchor !== node) {
    const anchor = of.anchor;
    links.push({ name: "anchor", text: brief(`Go to the anchor ${anchor}`, 60), run: () => void store.travel(anchor) });
  }
  if (similar.length > 1 && next !== undefined)
    links.push({
      name: "similar",
      text: `Next of ${similar.length} that stop here`,
      run: () => void store.travel(next),
    });
  if (links.length === 0) return null;
  return (
    <div class="ls-actions">
      {links.map(({ name, text, run }) => (
        <button type="button" class="ls-link" key={name} data-ls="why-action" data-action={name} onClick={run}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** The step that applied this match; 0 when none did. */
function stepOf(scene: Scene | null, of: Explanation): number {
  if (scene === null || of.verdict !== "applied" || of.anchor === null) return 0;
  const pattern = scene.patternRow(of.pattern);
  const anchor = scene.nodeRow(of.anchor);
  const { matches } = scene;
  const found = matches.pattern.findIndex((row, match) => row === pattern && matches.anchor[match] === anchor);
  return Math.max(0, matches.step[found] ?? 0);
}

/** The anchors of this pattern that stop at the same condition. */
function similarTo(scene: Scene | null, of: Explanation): readonly string[] {
  const failed = failureOf(of)?.name;
  const group = scene?.header.reasons.find((reason) => reason.pattern === of.pattern && reason.condition === failed);
  return group?.anchors ?? [];
}
