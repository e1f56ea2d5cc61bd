/** The step on screen: a slider over the steps of the lowering, with one step back and on. */

import type { JSX } from "preact";

import { clientBox } from "../client_box";
import { claim } from "../claim";
import { Button } from "./bits";
import { useSide } from "./side";
import { brief, count } from "./text";
import { usePick, useStore } from "./use";

export function Scrubber(): JSX.Element {
  const store = useStore();
  const side = useSide();
  const scene = usePick((state) => state.scene);
  const step = usePick((state) => state.step);
  const last = scene?.lastStep ?? 0;
  const where = scene && step > 0 ? scene.modules.path(scene.steps.module[step - 1] ?? 0) : "";
  const part = last === 0 ? 0 : (step / last) * 100;
  const seek = (event: PointerEvent) => {
    const track = event.currentTarget as HTMLElement;
    if (event.type === "pointerdown") {
      track.setPointerCapture(event.pointerId);
      track.focus();
    }
    if (!track.hasPointerCapture(event.pointerId)) return;
    const box = clientBox(track);
    store.setStep(Math.round(((event.clientX - box.left) / box.width) * last));
  };
  const key = (event: KeyboardEvent) => {
    const next = {
      ArrowLeft: step - 1,
      ArrowDown: step - 1,
      ArrowRight: step + 1,
      ArrowUp: step + 1,
      PageDown: step - 10,
      PageUp: step + 10,
      Home: 0,
      End: last,
    }[event.key];
    if (next === undefined) return;
    store.setStep(next);
    claim(event);
  };
  return (
    <span class="ls-scrub">
      <Button
        label="One step back ([)"
        icon="left"
        bare
        disabled={step === 0}
        data-ls="step-back"
        onClick={() => store.setStep(step - 1)}
      />
      <span
        class="ls-track"
        role="slider"
        tabIndex={0}
        aria-label="Step of the lowering"
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={step}
        aria-valuetext={brief(`step ${step} of ${last}${where === "" ? "" : `, ${where}`}`)}
        data-ls="scrubber"
        onPointerDown={seek}
        onPointerMove={seek}
        onKeyDown={key}
      >
        <i style={{ width: `${part}%` }} />
        <u style={{ left: `${part}%` }} />
      </span>
      <Button
        label="One step on (])"
        icon="right"
        bare
        disabled={step >= last}
        data-ls="step-on"
        onClick={() => store.setStep(step + 1)}
      />
      <button
        type="button"
        class="ls-at-step"
        title="Show the list of steps"
        data-ls="step"
        data-step={step}
        data-steps={last}
        onClick={() => side.open("steps")}
      >
        <span class="ls-step-word">step </span>
        <b>
          {count(step)} / {count(last)}
        </b>
      </button>
    </span>
  );
}
