/** What went wrong, shown where it arose: the kernel's one sentence, with the way out in it. */

import type { JSX } from "preact";

import type { Region } from "../state";
import { Button } from "./bits";
import { brief } from "./text";
import { usePick, useStore } from "./use";

export function RegionError({ region }: { region: Region }): JSX.Element | null {
  const store = useStore();
  const sentence = usePick((state) => state.errors[region]);
  if (sentence === undefined) return null;
  return (
    <div class="ls-error" role="alert" data-ls="region-error" data-region={region}>
      <span>{brief(sentence, 600)}</span>
      <Button label="Dismiss" icon="cross" bare data-ls="dismiss-error" onClick={() => store.dismissError(region)} />
    </div>
  );
}
