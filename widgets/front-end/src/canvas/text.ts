/**
 * Names as pictures. They come from the user's files and may hold anything: a name is drawn as one line of plain text,
 * left to right as a whole, cut in the middle so that its telling end stays.
 */

/** Longer names are cut before they are measured: nothing that is drawn shows more. */
const LONGEST = 400;
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;
/** Marks that change the direction of what follows: inside an isolate they would still jumble the name itself. */
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** One line without control and direction characters; what was taken out is shown as a box, never dropped silently. */
export function plain(text: string): string {
  const short = text.length > LONGEST ? `${text.slice(0, LONGEST / 2)}…${text.slice(-LONGEST / 2)}` : text;
  return short
    .replace(CONTROLS, "␣")
    .replace(DIRECTION, "▯")
    .replace(/\p{Surrogate}/gu, "\ufffd");
}

/** `text` if it fits, else its beginning and end around "…": `depthwise_conv…as_mul`. */
export function middle(text: string, width: number, measure: (text: string) => number): string {
  if (measure(text) <= width) return text;
  const chars = Array.from(text); // by code point: half a surrogate pair is no character
  let fits = 0;
  let tooMany = chars.length;
  while (tooMany - fits > 1) {
    const kept = (fits + tooMany) >> 1;
    if (measure(join(chars, kept)) <= width) fits = kept;
    else tooMany = kept;
  }
  return join(chars, fits);
}

function join(chars: readonly string[], kept: number): string {
  const head = Math.ceil(kept * 0.6);
  const tail = kept - head;
  return `${chars.slice(0, head).join("")}…${tail > 0 ? chars.slice(-tail).join("") : ""}`;
}

/** Measured and cut texts, kept: measuring is the slowest part of drawing a label. */
export class TextCache {
  readonly #widths = new Map<string, Map<string, number>>();
  readonly #cut = new Map<string, string>();

  constructor(readonly context: CanvasRenderingContext2D) {}

  /** Width of `text` at zoom 1, in CSS px, in the font (which must not be set in the context afterwards unasked). */
  width(text: string, font: string): number {
    let widths = this.#widths.get(font);
    if (widths === undefined) this.#widths.set(font, (widths = new Map()));
    let width = widths.get(text);
    if (width === undefined) {
      if (this.context.font !== font) this.context.font = font;
      if (widths.size > 20_000) widths.clear();
      width = this.context.measureText(text).width;
      widths.set(text, width);
    }
    return width;
  }

  fit(text: string, width: number, font: string): string {
    const key = `${Math.floor(width)}\n${font}\n${text}`;
    let cut = this.#cut.get(key);
    if (cut === undefined) {
      if (this.#cut.size > 20_000) this.#cut.clear();
      cut = middle(plain(text), width, (one) => this.width(one, font));
      this.#cut.set(key, cut);
    }
    return cut;
  }

  clear(): void {
    this.#widths.clear();
    this.#cut.clear();
  }
}
