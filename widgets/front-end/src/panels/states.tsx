/** What stands in the graph's place, or above it, while there is no graph, or something about it has to be said. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

import type { Progress as Stage, State } from "../state";
import { Button, Link, Progress } from "./bits";
import { Icon } from "./icons";
import { useSide } from "./side";
import { brief, clauses } from "./text";
import { usePick, useStore } from "./use";

const EXAMPLE = `import lowerscope

session = lowerscope.Session("model.pt2", target="vulkan")
session`;

/** Over the whole widget until the first scene is here. */
export function Cover(): JSX.Element | null {
  const none = usePick((state) => state.scene === null);
  const empty = usePick((state) => state.scene?.header.program.nodes === 0);
  const error = usePick((state) => state.errors.graph);
  // Of a widget without a model; what it has been asked to open is on its way.
  const asked = usePick((state) => state.samples !== null && state.pending.length === 0);
  if (!none && !empty) return null;
  return (
    <div class="ls-state" data-ls="cover">
      <div>
        {error !== undefined ? (
          <Failed sentence={error} />
        ) : empty || asked ? (
          <div data-ls="state-empty">
            <h2>No {empty ? "operators to show" : "model yet"}</h2>
            <p>Pass an exported program, a module with example inputs, or the path of a saved program.</p>
            <pre>{EXAMPLE}</pre>
          </div>
        ) : (
          <Loading />
        )}
        {asked && <Open />}
      </div>
    </div>
  );
}

/** A path to type, and the files at hand. */
function Open(): JSX.Element {
  const store = useStore();
  return (
    <form
      class="ls-row"
      onSubmit={(event) => {
        event.preventDefault();
        store.reload(false, event.currentTarget.querySelector("input")?.value);
      }}
    >
      <input class="ls-input" style={{ width: "70%" }} required placeholder="model.pt2" aria-label="Path of a saved program" data-ls="open-path" />
      <button class="ls-btn ls-primary" data-ls="open">
        Open
      </button>
      {store.state.samples?.map(({ name, path }) => (
        <Button key={path} label={name} hint={path} data-ls="open-sample" onClick={() => store.reload(false, path)} />
      ))}
    </form>
  );
}

function Failed({ sentence }: { sentence: string }): JSX.Element {
  const store = useStore();
  const otherwise = usePick((state) => state.otherwise);
  const [what, why] = clauses(sentence);
  return (
    <div data-ls="state-error" role="alert">
      <div class="ls-banner ls-fail" style={{ marginBottom: "10px" }}>
        <span>
          <b class="ls-b">{brief(what, 600)}</b>
          {why !== "" && <div style={{ marginTop: "3px" }}>{brief(why, 1200)}</div>}
        </span>
      </div>
      <div class="ls-row">
        <Button label="Load again" primary data-ls="load-again" onClick={() => store.reload()} />
        {otherwise !== null && <Button label={otherwise} data-ls="load-without" onClick={() => store.reload(true)} />}
        <Button
          label="Copy details"
          icon="copy"
          quiet
          data-ls="copy-details"
          onClick={() => void store.copyText(sentence, "details")}
        />
      </div>
    </div>
  );
}

/** The stages that were named so far: those that are over keep their last sentence and get a tick. */
function Loading(): JSX.Element {
  const store = useStore();
  const progress = usePick((state) => state.progress);
  const kernel = usePick((state) => state.kernel);
  const [seen, see] = useState<ReadonlyMap<string, Stage>>(new Map());
  const [late, setLate] = useState(false);
  useLayoutEffect(() => {
    const note = (state: State) => {
      for (const stage of Object.values(state.progress)) see((before) => new Map(before).set(stage.what, stage));
    };
    note(store.state);
    // Not from what is drawn: a short stage may be over before the next drawing.
    return store.subscribe(note);
  }, []);
  useEffect(() => {
    // Most programs are there in a moment: no flash of a progress bar for them.
    const timer = setTimeout(() => setLate(true), 300);
    return () => clearTimeout(timer);
  }, []);
  const stages = [...seen.values()];
  const running = Object.values(progress).at(-1);
  if (!late && stages.length === 0) return <div data-ls="state-loading" />;
  return (
    <div data-ls="state-loading">
      <h2>
        {kernel === "gone"
          ? "The kernel is not answering"
          : kernel === "busy" && stages.length === 0
            ? "The kernel is busy with a cell"
            : "Loading"}
      </h2>
      {kernel === "gone" ? (
        <p>Run the cell again to reconnect.</p>
      ) : stages.length === 0 ? (
        <p>The graph appears as soon as the kernel answers.</p>
      ) : (
        <div class="ls-stages">
          {stages.map((stage) => (
            <StageRow key={stage.what} stage={stage} running={progress[stage.what] !== undefined} />
          ))}
          {running && (
            <div
              class="ls-bar"
              role="progressbar"
              aria-label={running.sentence}
              aria-valuemin={0}
              aria-valuemax={running.total}
              aria-valuenow={running.done}
            >
              <i style={{ width: `${running.total > 0 ? (running.done / running.total) * 100 : 0}%` }} />
            </div>
          )}
        </div>
      )}
      {running && (
        <div class="ls-arg ls-11" style={{ marginTop: "4px" }}>
          <span class="ls-2">The graph appears as soon as it is laid out.</span>
          <span class="ls-push">
            <Link text="Stop" data-ls="stop-loading" onClick={() => store.cancel("load")} />
          </span>
        </div>
      )}
    </div>
  );
}

function StageRow({ stage, running }: { stage: Stage; running: boolean }): JSX.Element {
  return (
    <>
      {running ? (
        <span class="ls-spin" />
      ) : (
        <span class="ls-good">
          <Icon name="check" small />
        </span>
      )}
      <span class={running ? "ls-b" : ""} data-ls="stage" data-stage={stage.what} data-running={running}>
        {brief(stage.sentence, 200)}
      </span>
      <span class="ls-11 ls-2">{stage.total > 1 && running ? `${stage.done} of ${stage.total}` : ""}</span>
    </>
  );
}

/** Above the graph: a lost or busy kernel, an error of the graph, what the engine wants said, work that takes long. */
export function Notices(): JSX.Element | null {
  const store = useStore();
  const side = useSide();
  const scene = usePick((state) => state.scene);
  const kernel = usePick((state) => state.kernel);
  const live = usePick((state) => state.live);
  const error = usePick((state) => state.errors.graph);
  const layout = usePick((state) => state.progress["layout"] ?? state.progress["lowering"]);
  const [dismissed, dismiss] = useState("");
  if (scene === null) return null;
  const { notice, reasons } = scene.header;
  return (
    <>
      {kernel === "gone" && live && (
        <div class="ls-banner ls-notice" role="alert" data-ls="kernel-gone">
          <span>
            <b class="ls-b">The kernel is not answering.</b> You see its last answer; toggles are off. Run the cell
            again to reconnect.
          </span>
        </div>
      )}
      {kernel === "busy" && (
        <div class="ls-banner ls-notice" role="status" data-ls="kernel-busy">
          <span class="ls-spin" />
          <span>The kernel is busy with a cell. What you asked for comes after it.</span>
        </div>
      )}
      {error !== undefined && (
        <div class="ls-error ls-notice" role="alert" data-ls="region-error" data-region="graph">
          <span>{brief(error, 600)}</span>
          <Button
            label="Dismiss"
            icon="cross"
            bare
            data-ls="dismiss-error"
            onClick={() => store.dismissError("graph")}
          />
        </div>
      )}
      {notice !== null && notice !== dismissed && (
        <div class="ls-banner ls-notice" role="status" data-ls="notice">
          <span style={{ flex: "1" }}>{brief(notice, 600)}</span>
          {reasons.length > 0 && (
            <Link text="Show the reasons" data-ls="notice-reasons" onClick={() => side.open("misses")} />
          )}
          <Button label="Dismiss" icon="cross" bare data-ls="notice-dismiss" onClick={() => dismiss(notice)} />
        </div>
      )}
      {layout && (
        <div class="ls-pad ls-notice" style={{ paddingTop: "6px" }}>
          <Progress {...layout} onStop={() => store.cancel("layout")} />
        </div>
      )}
    </>
  );
}
