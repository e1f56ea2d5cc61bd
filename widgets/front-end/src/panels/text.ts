/** How names and numbers are written. Every sentence comes from the engine; here is only what depends on the space. */

/** A string in the DOM is cut at this many characters: a name may be 10,000 characters long, a line on the screen not. */
const LONGEST = 400;

/** Characters of a name that are kept at its end when it does not fit. */
const TAIL = 7;

/** Splits a name for truncation in the middle: the head may be cut by the layout, the tail always shows. */
export function split(name: string): { head: string; tail: string } {
  const letters = Array.from(name.length > 4 * LONGEST ? `${name.slice(0, LONGEST)}…${name.slice(-LONGEST)}` : name);
  if (letters.length <= TAIL + 3) return { head: letters.join(""), tail: "" };
  const cut =
    letters.length > LONGEST ? [...letters.slice(0, LONGEST / 2), "…", ...letters.slice(-LONGEST / 2)] : letters;
  return { head: cut.slice(0, -TAIL).join(""), tail: cut.slice(-TAIL).join("") };
}

/** A string for a tooltip or a label of assistive technology, which must stay readable too. */
export function brief(text: string, length = LONGEST): string {
  if (text.length <= length) return text;
  const letters = Array.from(text.slice(0, length * 2));
  return `${letters.slice(0, length - 1).join("")}…`;
}

/** −3, +2, 0: with a real minus sign, as wide as a digit. */
export function signed(value: number): string {
  return value === 0 ? "0" : value > 0 ? `+${count(value)}` : `−${count(-value)}`;
}

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value: number): string {
  return grouped.format(value);
}

export function milliseconds(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return value >= 1000
    ? `${(value / 1000).toFixed(2)} s`
    : value >= 10
      ? `${value.toFixed(1)} ms`
      : `${value.toPrecision(3)} ms`;
}

/** A number of a statistic: four significant digits, the exponent with a real minus sign. */
export function figure(value: number | null): string {
  if (value === null) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace("-", "−");
  const written =
    Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
  return written.replaceAll("-", "−").replace("+", "");
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** "add.alpha = 2, expected 1" and "(conv is the second operand). …": what is, which stands out, and the rest. */
export function clauses(sentence: string): [string, string] {
  const end = /(?=\s\()|(?<=[.;:])\s/.exec(sentence)?.index ?? -1;
  return end < 0 ? [sentence, ""] : [sentence.slice(0, end).replace(/[.;:]$/, ""), sentence.slice(end).trim()];
}

/** A number out of the engine's writing of it, for sorting: "2.4e−7", "∞", "138". What is no number comes last. */
export function numeric(text: string): number {
  if (text.includes("∞") || text === "inf") return text.startsWith("−") || text.startsWith("-") ? -Infinity : Infinity;
  const value = Number.parseFloat(text.replaceAll("−", "-").replace(/^[^\d-]+/, ""));
  return Number.isNaN(value) ? -Number.MAX_VALUE : value;
}
