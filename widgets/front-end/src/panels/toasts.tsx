/** What was just said, for a moment; errors that belong to no column, until dismissed; text to be copied by hand. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { Button, Heading } from "./bits";
import { brief } from "./text";
import { usePick, useStore } from "./use";

/** How long a sentence stays, in ms: longer sentences take longer to read. */
function stay(text: string): number {
  return 2500 + 40 * Math.min(text.length, 120);
}

export function Toasts(): JSX.Element {
  const store = useStore();
  const said = usePick((state) => state.said);
  const toolbar = usePick((state) => state.errors.toolbar);
  const search = usePick((state) => state.errors.search);
  const [gone, setGone] = useState(0);
  useEffect(() => {
    if (said.serial === 0) return;
    const timer = setTimeout(() => setGone(said.serial), stay(said.text));
    return () => clearTimeout(timer);
  }, [said.serial]);
  const errors = [
    { region: "toolbar" as const, sentence: toolbar },
    { region: "search" as const, sentence: search },
  ];
  return (
    <div class="ls-toasts">
      {errors.map(
        ({ region, sentence }) =>
          sentence !== undefined && (
            <div class="ls-toast ls-fail" role="alert" key={region} data-ls="region-error" data-region={region}>
              <span>{brief(sentence, 600)}</span>
              <Button
                label="Dismiss"
                icon="cross"
                bare
                data-ls="dismiss-error"
                onClick={() => store.dismissError(region)}
              />
            </div>
          ),
      )}
      {said.aloud && said.text !== "" && said.serial > gone && (
        // It is read out by the live region of the frame: not twice.
        <div class="ls-toast" aria-hidden="true" data-ls="toast">
          <span>{brief(said.text, 400)}</span>
        </div>
      )}
    </div>
  );
}

/** The clipboard was refused: the text is shown, selected, to be copied by hand. */
export function CopyByHand(): JSX.Element | null {
  const store = useStore();
  const copied = usePick((state) => state.copied);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.select(), [copied]);
  if (copied === null) return null;
  return (
    <div class="ls-cover" onClick={(event) => event.target === event.currentTarget && store.closeCopied()}>
      <div
        class="ls-sheet"
        role="dialog"
        aria-modal="true"
        aria-label="Copy by hand"
        data-ls="copy-by-hand"
        onKeyDown={(event) => {
          event.stopPropagation();
          if (event.key === "Escape") store.closeCopied();
        }}
      >
        <Heading text={`Copy the ${copied.format} by hand: the browser refused the clipboard`}>
          <Button label="Close (Esc)" icon="cross" bare data-ls="copy-close" onClick={() => store.closeCopied()} />
        </Heading>
        <textarea
          ref={area}
          class="ls-mono ls-by-hand"
          readOnly
          rows={12}
          value={copied.text}
          aria-label="Text to copy"
        />
      </div>
    </div>
  );
}
