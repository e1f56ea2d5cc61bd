/** The steps of the lowering as a list, with play, pause, next and previous, and what the shown step did to the numbers. */

import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { claim } from "../claim";
import type { Scene } from "../scene";
import { Badge, Button, Heading, MenuButton, Name } from "./bits";
import { operatorsByStep } from "./numbers";
import { RegionError } from "./region_error";
import { useSide } from "./side";
import { brief, count, signed } from "./text";
import { usePick, useStore } from "./use";

const ROW = 24;
/** Rows drawn above and below what is in view. */
const SPARE = 8;
const SPEEDS = [0.5, 1, 2, 4];

export function Steps(): JSX.Element {
  const scene = usePick((state) => state.scene);
  const step = usePick((state) => state.step);
  const last = scene?.lastStep ?? 0;
  return (
    <section class="ls-column" style={{ flex: "1", minHeight: "0" }} aria-label="Steps" data-ls="steps">
      <Heading text="Steps">
        {count(step)} of {count(last)}
      </Heading>
      <RegionError region="steps" />
      {scene !== null && last > 0 ? (
        <List scene={scene} step={step} />
      ) : (
        <div class="ls-pad ls-2">Nothing was rewritten: the lowered program is the program.</div>
      )}
      {scene !== null && <StepFacts scene={scene} step={step} />}
      <Play step={step} last={last} />
    </section>
  );
}

/** Only the rows in view are in the DOM: a lowering may have ten thousand steps. */
function List({ scene, step }: { scene: Scene; step: number }): JSX.Element {
  const store = useStore();
  const side = useSide();
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 400 });
  const last = scene.lastStep;
  useLayoutEffect(() => {
    const list = box.current;
    if (!list) return;
    const top = (step - 1) * ROW;
    if (top < list.scrollTop || top + ROW > list.scrollTop + list.clientHeight)
      list.scrollTop = Math.max(0, top - list.clientHeight / 3);
    setView({ top: list.scrollTop, height: list.clientHeight });
  }, [step, scene]);
  const from = Math.max(1, Math.floor(view.top / ROW) + 1 - SPARE);
  const to = Math.min(last, Math.ceil((view.top + view.height) / ROW) + SPARE);
  const rows = [];
  for (let one = from; one <= to; one++) rows.push(<StepRow key={one} scene={scene} step={one} now={step} />);
  const key = (event: KeyboardEvent) => {
    const next = { ArrowUp: step - 1, ArrowDown: step + 1, Home: 1, End: last, PageUp: step - 10, PageDown: step + 10 }[
      event.key
    ];
    if (next === undefined) return;
    store.setStep(Math.max(1, next));
    claim(event);
  };
  return (
    <div
      class="ls-scroll ls-steps"
      ref={box}
      role="listbox"
      aria-label="Steps of the lowering"
      aria-activedescendant={step > 0 ? `${side.id}-step-${step}` : undefined}
      tabIndex={0}
      onKeyDown={key}
      onScroll={(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
    >
      <div style={{ height: `${last * ROW}px` }} />
      {rows}
    </div>
  );
}

function StepRow({ scene, step, now }: { scene: Scene; step: number; now: number }): JSX.Element {
  const store = useStore();
  const side = useSide();
  const row = step - 1;
  const pattern = scene.patterns[scene.steps.pattern[row] ?? -1];
  const where = scene.modules.path(scene.steps.module[row] ?? 0);
  // Steps of one module are told apart by the operator that they decompose.
  const op = pattern?.kind === "decomposition" && scene.nodes.label(scene.stepTaken(step)[0] ?? -1);
  const sentence = scene.steps.sentence(row);
  const state = step === now ? "ls-now" : step < now ? "ls-past" : "ls-future";
  return (
    <div
      class={`ls-step ${state}`}
      style={{ top: `${row * ROW}px` }}
      role="option"
      id={`${side.id}-step-${step}`}
      aria-selected={step === now}
      aria-posinset={step}
      aria-setsize={scene.lastStep}
      aria-label={brief(`step ${step}: ${sentence}`)}
      title={brief(sentence)}
      data-ls="step-row"
      data-step={step}
      data-pattern={pattern?.name ?? ""}
      onClick={() => store.setStep(step)}
    >
      <span>{count(step)}</span>
      {pattern ? <Badge pattern={pattern} hollow={step > now} /> : <span />}
      <Name text={[op, where].filter(Boolean).join(" · ") || (pattern?.name ?? "")} />
      <span class="ls-2 ls-11">{signed(scene.steps.delta[row] ?? 0)}</span>
    </div>
  );
}

function StepFacts({ scene, step }: { scene: Scene; step: number }): JSX.Element {
  const counts = useMemo(() => operatorsByStep(scene), [scene]);
  const error = usePick((state) =>
    state.byStep.revision === scene.revision ? state.byStep.value?.find((row) => row.step === step) : undefined,
  );
  // With room for it, the sentence stands above the graph.
  const here = usePick((state) => state.width === "narrow" || state.width === "small");
  const sentence = step > 0 ? scene.steps.sentence(step - 1) : "The program as it was exported.";
  return (
    <div class="ls-step-facts">
      {here && (
        <p style={{ marginBottom: "4px", overflowWrap: "anywhere" }} data-ls="step-sentence">
          {brief(sentence, 600)}
        </p>
      )}
      <div>
        <span class="ls-2">operators so far</span>
        <b class="ls-b" data-ls="operators-so-far">
          {count(counts[0] ?? 0)} → {count(counts[step] ?? 0)}
        </b>
      </div>
      {error && (
        <>
          <div>
            <span class="ls-2">this step alone</span>
            <span>{error.isolated}</span>
          </div>
          <div>
            <span class="ls-2">all steps up to here</span>
            <span>{error.propagated}</span>
          </div>
        </>
      )}
    </div>
  );
}

function Play({ step, last }: { step: number; last: number }): JSX.Element {
  const store = useStore();
  const playing = usePick((state) => state.playing);
  const speed = usePick((state) => state.speed);
  const teaching = usePick((state) => state.teaching);
  const none = last === 0;
  return (
    <div class="ls-play" role="group" aria-label="Play the steps">
      <Button
        label="First step ({)"
        icon="first"
        bare
        disabled={none || step <= 1}
        data-ls="step-first"
        onClick={() => store.setStep(teaching ? 1 : 0)}
      />
      <Button
        label="One step back ([)"
        icon="left"
        bare
        disabled={none || step === 0}
        data-ls="step-previous"
        onClick={() => store.setStep(step - 1)}
      />
      <Button
        label={playing ? "Pause" : "Play"}
        hint={playing ? "Pause (P)" : "Play (P)"}
        icon={playing ? "pause" : "play"}
        primary
        disabled={none}
        data-ls="play"
        data-playing={playing}
        onClick={() => (playing ? store.pause() : store.play())}
      />
      <Button
        label="One step on (])"
        icon="right"
        bare
        disabled={none || step >= last}
        data-ls="step-next"
        onClick={() => store.setStep(step + 1)}
      />
      <MenuButton
        label={`${speed}×`}
        hint="Speed"
        quiet
        menu="Speed"
        items={() =>
          SPEEDS.map((one) => ({
            name: String(one),
            label: `${one}×`,
            checked: one === speed,
            run: () => store.setSpeed(one),
          }))
        }
        data-ls="speed"
      />
      <Button
        label={
          teaching
            ? "Leave teaching: show the other panels"
            : "Teaching: only the step, its sentence and its mathematics"
        }
        icon="teach"
        bare
        pressed={teaching}
        data-ls="teach"
        onClick={() => store.setTeaching(!teaching)}
      />
    </div>
  );
}
