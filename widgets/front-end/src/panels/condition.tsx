/** The conditions of a pattern on a node: one row each, and one tick each on the ladder. */

import type { JSX } from "preact";

import type { ConditionRow, Explanation, Status } from "../protocol";
import { type IconName } from "./icons";

const SIGNS: Record<Status, IconName> = { passed: "check", failed: "cross", follows: "cross", "not reached": "dash" };

export function signOf(status: Status): IconName {
  return SIGNS[status];
}

/** In words, for those who do not see the sign. */
export function wordOf(status: Status): string {
  return status === "follows" ? "failed, which only follows from another" : status;
}

export function classOf(status: Status): string {
  return `ls-${status.replace(" ", "-")}`;
}

/** From so many on, ticks are drawn finer; more than the last are not told apart by eye. */
const FINE = 14;
const TICKS = 32;

/** Green passed, taller red the first failure, grey not reached. What only follows from another failure is grey too. */
export function Ticks({ of }: { of: Explanation }): JSX.Element | null {
  if (of.conditions.length === 0) return null;
  return (
    <span
      class={of.conditions.length > FINE ? "ls-ticks ls-fine" : "ls-ticks"}
      role="img"
      aria-label={`${of.passed} of ${of.total} conditions passed`}
    >
      {of.conditions.slice(0, TICKS).map((condition) => (
        <i key={condition.name} class={`ls-t-${condition.status.replace(" ", "-")}`} />
      ))}
    </span>
  );
}

export interface Part {
  name: string | null;
  conditions: ConditionRow[];
}

/** Runs of conditions that belong to the same optional part, in the order in which they are checked. */
export function partsOf(conditions: readonly ConditionRow[]): Part[] {
  const parts: Part[] = [];
  for (const condition of conditions) {
    const last = parts.at(-1);
    if (last && last.name === condition.part) last.conditions.push(condition);
    else parts.push({ name: condition.part, conditions: [condition] });
  }
  return parts;
}
