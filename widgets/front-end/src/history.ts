/** The selections visited, with back and forward, as a browser keeps pages. */
const LIMIT = 200;

export class Visited {
  #entries: (readonly string[])[] = [];
  #at = -1;

  visit(ids: readonly string[]): void {
    if (ids.length === 0) return;
    this.#entries = [...this.#entries.slice(0, this.#at + 1), ids].slice(-LIMIT);
    this.#at = this.#entries.length - 1;
  }

  back(): readonly string[] | null {
    return this.#at > 0 ? (this.#entries[--this.#at] ?? null) : null;
  }

  forward(): readonly string[] | null {
    return this.#at < this.#entries.length - 1 ? (this.#entries[++this.#at] ?? null) : null;
  }

  ends(): { canGoBack: boolean; canGoForward: boolean } {
    return { canGoBack: this.#at > 0, canGoForward: this.#at < this.#entries.length - 1 };
  }
}
