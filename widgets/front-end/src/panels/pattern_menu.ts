/** The menu of a pattern's row, and moving a pattern within the order of the target. */

import type { PatternRow } from "../protocol";
import type { Store } from "../store";
import type { Item } from "./side";
import { brief } from "./text";

/** What can be done with a pattern from its row. */
export function menuOf(store: Store, row: PatternRow, away: boolean): Item[] {
  const { scene } = store.state;
  const patterns = scene?.patterns ?? [];
  const at = patterns.indexOf(row);
  const items: Item[] = [
    {
      name: "toggle",
      label: row.enabled ? "Switch off" : "Switch on",
      icon: "check",
      disabled: away || (row.locked !== null && !row.enabled),
      ...(row.locked ? { detail: row.locked } : {}),
      run: () => store.toggle(row.name),
    },
    {
      name: "only",
      label: "Only this one",
      detail: "switches every other pattern off",
      disabled: away,
      run: () => store.only(row.name),
    },
    {
      name: "skip",
      label: "Skip this pattern",
      icon: "skip",
      disabled: away,
      run: () => store.skip({ pattern: row.name }),
    },
    {
      name: "earlier",
      label: "Move one earlier",
      icon: "up",
      disabled: away || at <= 0,
      run: () => shift(store, row, -1),
    },
    {
      name: "later",
      label: "Move one later",
      icon: "down",
      disabled: away || at >= patterns.length - 1,
      run: () => shift(store, row, 1),
    },
  ];
  for (const own of patterns.filter((one) => one.yours && one.name !== row.name).slice(0, 3)) {
    items.push({
      name: `before:${own.name}`,
      label: brief(`Insert ${own.name} before`, 60),
      icon: "plus",
      disabled: away,
      run: () => store.move(own.name, row.name),
    });
    items.push({
      name: `after:${own.name}`,
      label: brief(`Insert ${own.name} after`, 60),
      icon: "plus",
      disabled: away,
      run: () => store.move(own.name, following(patterns, row)),
    });
  }
  if (row.shadowed > 0)
    items.push({
      name: "flip",
      label: "Flip the winner",
      detail: "takes back nodes that another match has",
      icon: "undo",
      disabled: away,
      run: () => store.flip(row.name),
    });
  items.push({
    name: "mathematics",
    label: "Copy the mathematics",
    detail: brief(row.mathematics, 160),
    icon: "copy",
    run: () => void store.copyText(row.mathematics, "mathematics"),
  });
  if (row.source !== "")
    items.push({
      name: "source",
      label: "Copy the source",
      detail: brief(row.source, 90),
      icon: "file",
      run: () => void store.copyText(row.source, "source"),
    });
  return items;
}

function following(patterns: readonly PatternRow[], row: PatternRow): string | null {
  return patterns[patterns.indexOf(row) + 1]?.name ?? null;
}

/** Move one place: earlier is before the one before, later is before the one after the next. */
export function shift(store: Store, row: PatternRow, by: number): void {
  const patterns = store.state.scene?.patterns ?? [];
  const at = patterns.findIndex((one) => one.name === row.name);
  if (at < 0 || at + by < 0 || at + by >= patterns.length) return;
  store.move(row.name, patterns[by < 0 ? at - 1 : at + 2]?.name ?? null);
}
