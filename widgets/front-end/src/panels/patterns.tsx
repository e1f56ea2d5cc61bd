/** The patterns in pipeline order: switch, count, hover to see the matches, click to walk through them, drag to reorder. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";

import { claim } from "../claim";
import type { PatternRow } from "../protocol";
import { Badge, Heading, Name } from "./bits";
import { Icon } from "./icons";
import { menuOf, shift } from "./pattern_menu";
import { RegionError } from "./region_error";
import { useSide } from "./side";
import { brief } from "./text";
import { hovering, useAway, usePatterns, usePick, useStore } from "./use";
import { useDrag } from "./drag";
import { Walk } from "./walk_bar";

export function Patterns(): JSX.Element {
  const store = useStore();
  const patterns = usePatterns();
  const focusedPattern = usePick((state) => state.focusedPattern);
  const working = usePick(isWorking);
  const away = useAway();
  const [changing, setChanging] = useState(false);
  const [current, setCurrent] = useState<string | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const drag = useDrag(list, (name, before) => store.move(name, before));
  const on = patterns.filter((row) => row.enabled).length;
  const shown = changing
    ? patterns.filter((row) => row.applied > 0 || row.would > 0 || row.name === focusedPattern)
    : patterns;
  const stop = shown.some((row) => row.name === current)
    ? current
    : (shown.find((row) => row.name === focusedPattern) ?? shown[0])?.name;
  return (
    <section class="ls-region" aria-label="Patterns" tabIndex={-1} data-ls="patterns">
      <Heading text="Patterns">
        <span data-ls="patterns-on">
          {on} of {patterns.length} on
        </span>
      </Heading>
      <RegionError region="patterns" />
      <div
        class={away ? "ls-patterns ls-off-line" : working ? "ls-patterns ls-working" : "ls-patterns"}
        role="listbox"
        aria-label="Patterns, in pipeline order"
        aria-busy={working}
        aria-disabled={away}
        ref={list}
      >
        {shown.map((row) => (
          <Pattern key={row.name} row={row} stop={row.name === stop} onStop={() => setCurrent(row.name)} drag={drag} />
        ))}
        {shown.length === 0 && (
          <div class="ls-pad ls-2">
            {patterns.length === 0 ? "This target has no patterns." : "No pattern changes anything here."}
          </div>
        )}
      </div>
      <Tools changing={changing} setChanging={setChanging} />
    </section>
  );
}

/** A change of the recipe is on its way: the counts on screen are those of the recipe before. */
function isWorking(state: { kernel: string; pending: readonly { type: string }[] }): boolean {
  return state.kernel !== "idle" && state.pending.some(({ type }) => RECIPE_CHANGES.has(type));
}

const RECIPE_CHANGES = new Set([
  "toggle",
  "only",
  "all",
  "move",
  "flip",
  "skip",
  "skip_text",
  "unskip",
  "undo",
  "redo",
  "target",
  "profile",
  "apply",
]);

function Tools({ changing, setChanging }: { changing: boolean; setChanging: (on: boolean) => void }): JSX.Element {
  const store = useStore();
  const away = useAway();
  const focusedPattern = usePick((state) => state.focusedPattern);
  return (
    <div class="ls-pattern-tools">
      <button
        type="button"
        class="ls-tool"
        aria-disabled={away}
        title="Switch every pattern on"
        data-ls="patterns-all"
        onClick={() => away || store.all(true)}
      >
        All
      </button>
      <button
        type="button"
        class="ls-tool"
        aria-disabled={away}
        title="Switch every pattern off"
        data-ls="patterns-none"
        onClick={() => away || store.all(false)}
      >
        None
      </button>
      <button
        type="button"
        class="ls-tool"
        aria-disabled={away || focusedPattern === null}
        title={
          focusedPattern === null ? "Only the focused pattern: click a pattern first" : brief(`Only ${focusedPattern}`)
        }
        data-ls="patterns-solo"
        onClick={() => !away && focusedPattern !== null && store.only(focusedPattern)}
      >
        Solo
      </button>
      <button
        type="button"
        class="ls-tool"
        style={{ marginLeft: "auto" }}
        aria-pressed={changing}
        title="Show only the patterns that change anything here"
        data-ls="patterns-filter"
        onClick={() => setChanging(!changing)}
      >
        <Icon name="filter" small />
        changing
      </button>
    </div>
  );
}

interface RowProps {
  row: PatternRow;
  stop: boolean;
  onStop: () => void;
  drag: ReturnType<typeof useDrag>;
}

function Pattern({ row, stop, onStop, drag }: RowProps): JSX.Element {
  const store = useStore();
  const focus = usePick((state) => state.focusedPattern === row.name);
  const away = useAway();
  const side = useSide();
  const self = useRef<HTMLDivElement>(null);
  const menu = side.state.menu !== null && side.state.menu.anchor === self.current;
  const openMenu = () => {
    if (self.current)
      side.toggleMenu({ label: brief(row.name, 80), items: menuOf(store, row, away), anchor: self.current });
  };
  const click = () => {
    onStop();
    if (!focus) store.focusPattern(row.name);
    else if (row.applied > 0) store.nextMatch(1, row.name);
    else if (row.near + row.declined > 0) store.nextNearMiss(1);
  };
  const key = (event: KeyboardEvent) => {
    const option = event.currentTarget as HTMLElement;
    if (event.target !== option) return;
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step !== undefined && event.altKey) shift(store, row, step);
    else if (step !== undefined) sibling(option, step)?.focus();
    else if (event.key === "Home" || event.key === "End")
      sibling(option, event.key === "Home" ? -Infinity : Infinity)?.focus();
    else if (event.key === " ") !away && store.toggle(row.name);
    else if (event.key === "Enter") click();
    else if (event.key === "ArrowRight" || event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey))
      openMenu();
    else return;
    claim(event);
  };
  const state = drag.stateOf(row.name);
  const names = ["ls-pattern", `ls-c${row.color % 6}`, !row.enabled && "ls-off", focus && "ls-on", state]
    .filter(Boolean)
    .join(" ");
  return (
    <>
      <div
        class={names}
        ref={self}
        role="option"
        tabIndex={stop ? 0 : -1}
        aria-selected={focus}
        aria-checked={row.enabled}
        aria-label={brief(
          `${row.number}, ${row.name}, ${row.enabled ? "on" : "off"}, ${row.summary}${row.locked ? `, ${row.locked}` : ""}`,
        )}
        title={brief(row.mathematics)}
        data-ls="pattern-row"
        data-pattern={row.name}
        data-number={row.number}
        data-enabled={row.enabled}
        data-applied={row.applied}
        data-near={row.near}
        onKeyDown={key}
        onFocus={onStop}
        onClick={() => !drag.ended() && click()}
        onContextMenu={(event) => {
          claim(event);
          openMenu();
        }}
        {...hovering(store, { pattern: row.name })}
        onPointerDown={(event) => !away && drag.start(event, row.name)}
      >
        <span
          class="ls-check"
          title={row.locked ?? (row.enabled ? "Switch off (Space)" : "Switch on (Space)")}
          data-ls="pattern-toggle"
          onPointerDown={(event) => event.stopPropagation()}
          onClick={(event) => {
            event.stopPropagation();
            if (!away) store.toggle(row.name);
          }}
        >
          <span class={`ls-box${row.enabled ? " ls-ticked" : ""}${row.locked ? " ls-locked" : ""}`}>
            {row.enabled ? <Icon name="check" /> : row.locked ? <Icon name="lock" /> : null}
          </span>
        </span>
        <Badge pattern={row} hollow={!row.enabled} />
        <span class="ls-pattern-name">
          <Name text={row.name} />
          {row.yours && <span class="ls-11 ls-2">yours</span>}
        </span>
        <Summary text={row.locked && !row.enabled ? row.locked : row.summary} />
        <button
          type="button"
          class="ls-more"
          tabIndex={-1}
          aria-hidden="true"
          aria-expanded={menu}
          title={`${row.kind}; more`}
          data-ls="pattern-menu"
          onPointerDown={(event) => event.stopPropagation()}
          onClick={(event) => {
            event.stopPropagation();
            openMenu();
          }}
        >
          <Icon name={row.kind} />
          <Icon name="dots" />
        </button>
      </div>
      {focus && <Walk row={row} />}
    </>
  );
}

/** The engine's summary, with the counts that one looks for first made to stand out. */
function Summary({ text }: { text: string }): JSX.Element {
  const parts = brief(text).split(" · ");
  return (
    <span class="ls-pattern-counts ls-cut" data-ls="pattern-counts" title={brief(text)}>
      {parts.map((part, index) => {
        const matched = /^([\d,]+)( matched.*)$/.exec(part);
        return (
          <>
            {index > 0 && " · "}
            {matched ? (
              <>
                <b>{matched[1]}</b>
                {matched[2]}
              </>
            ) : / near$/.test(part) ? (
              <span class="ls-warn">{part}</span>
            ) : (
              part
            )}
          </>
        );
      })}
    </span>
  );
}

function sibling(self: HTMLElement, by: number): HTMLElement | undefined {
  const all = [...(self.parentElement?.querySelectorAll<HTMLElement>('[role="option"]') ?? [])];
  return all[Math.max(0, Math.min(all.length - 1, all.indexOf(self) + by))];
}
