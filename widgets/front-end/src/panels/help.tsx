/** The keys, and the syntax of search. */

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

import { Button, focused, Heading } from "./bits";
import { usePick, useStore } from "./use";

const KEYS: [string, string][] = [
  ["↑ ↓", "producer, consumer"],
  ["← →", "siblings in the layer"],
  ["Alt ← · Alt →", "selection back, forward"],
  ["Enter · ⌫", "open, close module"],
  ["/", "search; Enter next, Shift Enter previous"],
  ["B · A · D · S", "Before, After, Diff, Split"],
  ["[ · ]", "one step back, on"],
  ["{ · }", "first, last step"],
  ["P", "play, pause"],
  ["1 … 9", "focus pattern n"],
  ["Space", "switch the focused pattern"],
  ["W", "why not, side by side"],
  ["J · K", "next, previous near miss"],
  ["N", "next change"],
  ["X", "skip the selection"],
  ["+ · − · 0", "zoom in, out, 100%"],
  ["F", "fit; again: fit the selection"],
  ["M", "tables of numbers"],
  ["Ctrl Z", "undo"],
  ["Ctrl Shift Z", "redo"],
  ["C", "copy the recipe as Python"],
  ["F6", "next region"],
  ["Alt ↑ · Alt ↓", "move the pattern in the list"],
  ["Esc", "clear; again: leave to the notebook"],
];

const FILTERS =
  "op:conv   name:relu*   module:decoder.*   dtype:f16   shape:64   source:net.py   category:norm   users>1   fused   unfused   skipped   added   removed";

export function Help(): JSX.Element | null {
  const open = usePick((state) => state.helpOpen);
  return open ? <Sheet /> : null;
}

function Sheet(): JSX.Element {
  const store = useStore();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const before = focused(box.current);
    box.current?.querySelector<HTMLElement>("button")?.focus();
    return () => before?.focus();
  }, []);
  const close = () => store.setHelpOpen(false);
  const key = (event: KeyboardEvent) => {
    // Nothing behind the sheet hears a key while it is open.
    event.stopPropagation();
    if (event.key === "Escape" || event.key === "?") close();
    // There is one control: Tab stays on it.
    else if (event.key !== "Tab") return;
    event.preventDefault();
  };
  return (
    <div class="ls-cover" onClick={(event) => event.target === event.currentTarget && close()}>
      <div
        class="ls-sheet"
        role="dialog"
        aria-modal="true"
        aria-label="Keyboard"
        ref={box}
        onKeyDown={key}
        data-ls="help-sheet"
      >
        <Heading text="Keyboard">
          while the widget has the focus
          <Button label="Close (Esc)" icon="cross" bare data-ls="help-close" onClick={close} />
        </Heading>
        <div class="ls-scroll" tabIndex={-1}>
          <div class="ls-keys">
            {KEYS.map(([keys, does]) => (
              <div key={keys} class="ls-key">
                <span>
                  {keys
                    .split(" ")
                    .map((one) =>
                      one === "·" || one === "…" ? <span class="ls-2">{one}</span> : <kbd class="ls-kbd">{one}</kbd>,
                    )}
                </span>
                <span>{does}</span>
              </div>
            ))}
          </div>
          <div class="ls-pad" style={{ padding: "0 14px 14px" }}>
            <div class="ls-b" style={{ marginBottom: "4px" }}>
              Search
            </div>
            <div class="ls-2">
              Words match names, ops, modules and sources, letters may be left out. Filters narrow it:{" "}
              <span class="ls-mono">{FILTERS}</span>
            </div>
          </div>
        </div>
      </div>
    </div>
  );
}
