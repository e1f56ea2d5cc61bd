/**
 * Who lives at which step.
 *
 * A life is [born, died); died = -1 lives on. A comparison of two steps sees what lives at either: what lived only at
 * the first was removed, what lives only at the second was added.
 */
export function isAlive(born: number, died: number, step: number): boolean {
  return born <= step && (died < 0 || died > step);
}

/** `changed`: it lives at both steps, but is given others; `fate` itself knows of no arguments. */
export const enum Fate {
  absent,
  unchanged,
  removed,
  added,
  changed,
}

export function fate(born: number, died: number, from: number, to: number): Fate {
  const was = isAlive(born, died, from);
  const is = isAlive(born, died, to);
  if (was && is) return Fate.unchanged;
  if (was) return Fate.removed;
  return is ? Fate.added : Fate.absent;
}
