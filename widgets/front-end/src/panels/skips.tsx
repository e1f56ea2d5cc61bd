/** The skip list: what no pattern may touch, as chips, and a field to add one by typing. */

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";

import { claim } from "../claim";
import type { SkipChip } from "../protocol";
import { Kind, type Scene } from "../scene";
import { Heading, Name } from "./bits";
import { Icon } from "./icons";
import { NodeLink } from "./node_link";
import { brief, count } from "./text";
import { useAway, usePick, useStore } from "./use";

const NO_CHIPS: readonly SkipChip[] = [];

export function Skips(): JSX.Element {
  const store = useStore();
  const chips = usePick((state) => state.scene?.header.skips ?? NO_CHIPS);
  const error = usePick((state) => state.errors.skips);
  const away = useAway();
  const [typed, setTyped] = useState("");
  return (
    <section class="ls-region ls-skips ls-line" aria-label="Skip list" tabIndex={-1} data-ls="skips">
      <Heading text="Skip list">{count(chips.length)}</Heading>
      {(chips.length > 0 || error !== undefined) && (
        <div class="ls-chips ls-scroll" role="list" aria-label="Skipped">
          {chips.map((chip) => (
            <Chip key={chip.key} chip={chip} onRemove={() => away || store.unskip(chip.key)} />
          ))}
          {error !== undefined && (
            <>
              {typed !== "" && (
                <span
                  class="ls-chip ls-wrong"
                  role="listitem"
                  data-ls="skip-chip"
                  data-value={typed}
                  data-valid="false"
                >
                  <Name text={typed} />
                  <Remove what={typed} onRemove={() => store.dismissError("skips")} />
                </span>
              )}
              <span class="ls-closest ls-bad" role="alert" data-ls="skip-error">
                {brief(error, 500)}
              </span>
            </>
          )}
        </div>
      )}
      <Add
        disabled={away}
        onAdd={(text) => {
          setTyped(text);
          store.skipText(text);
        }}
      />
    </section>
  );
}

function Chip({ chip, onRemove }: { chip: SkipChip; onRemove: () => void }): JSX.Element {
  const known = usePick((state) => chip.kind === "node" && (state.scene?.nodeRow(chip.value) ?? -1) >= 0);
  const title = [chip.hint, chip.active ? "" : "inactive: it finds nothing here"].filter(Boolean).join("; ");
  return (
    <span
      class={chip.active ? "ls-chip" : "ls-chip ls-idle"}
      role="listitem"
      title={brief(title)}
      data-ls="skip-chip"
      data-kind={chip.kind}
      data-value={chip.value}
      data-active={chip.active}
    >
      <span class="ls-2">{chip.kind}</span>
      {known ? <NodeLink node={chip.value} /> : <Name text={chip.value} />}
      {chip.pattern !== null && chip.kind !== "pattern" && (
        <span class="ls-2 ls-cut">of {brief(chip.pattern, 60)}</span>
      )}
      {!chip.active && <span class="ls-2">inactive</span>}
      <Remove what={`${chip.kind} ${chip.value}`} onRemove={onRemove} />
    </span>
  );
}

function Remove({ what, onRemove }: { what: string; onRemove: () => void }): JSX.Element {
  return (
    <button type="button" aria-label={brief(`Remove ${what}`)} data-ls="skip-remove" onClick={onRemove}>
      <Icon name="cross" />
    </button>
  );
}

function Add({ disabled, onAdd }: { disabled: boolean; onAdd: (text: string) => void }): JSX.Element {
  const scene = usePick((state) => state.scene);
  const [text, setText] = useState("");
  const [at, setAt] = useState(-1);
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const names = useMemo(() => (scene === null ? [] : completions(scene)), [scene]);
  const found = open && text.trim() !== "" ? complete(names, text.trim()) : [];
  const add = (value: string) => {
    if (disabled || value.trim() === "") return;
    onAdd(value.trim());
    setText("");
    setAt(-1);
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Enter") add(found[at]?.value ?? text);
    else if (event.key === "ArrowDown") setAt(Math.min(found.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(-1, at - 1));
    else if (event.key === "Tab" && found[at]) setText(found[at].value);
    else if (event.key === "Escape" && text !== "") setText("");
    else if (event.key === "Escape") (event.currentTarget as HTMLElement).closest<HTMLElement>(".ls-root")?.focus();
    else return;
    claim(event);
  };
  return (
    <div
      class="ls-skip-add"
      ref={box}
      onFocusOut={(event) => {
        if (!box.current?.contains(event.relatedTarget as Node | null)) setOpen(false);
      }}
    >
      {found.length > 0 && (
        <div class="ls-found" onPointerDown={(event) => event.preventDefault()}>
          <div class="ls-scroll" role="listbox" aria-label="Names to skip" data-ls="skip-completions">
            {found.map((name, index) => (
              <div
                class="ls-hit"
                role="option"
                key={`${name.kind} ${name.value}`}
                aria-selected={index === at}
                data-ls="skip-completion"
                data-value={name.value}
                onClick={() => add(name.value)}
              >
                <span />
                <Name text={name.value} />
                <span class="ls-11 ls-2" style={{ gridColumn: "3" }}>
                  {name.kind}
                </span>
              </div>
            ))}
          </div>
        </div>
      )}
      <div class="ls-skip-field">
        <Icon name="plus" small />
        <input
          type="text"
          role="combobox"
          aria-label="Skip a node, pattern, op or module"
          aria-expanded={found.length > 0}
          aria-autocomplete="list"
          autocomplete="off"
          spellcheck={false}
          placeholder="node, pattern or module.*"
          value={text}
          disabled={disabled}
          data-ls="skip-input"
          onFocus={() => setOpen(true)}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setOpen(true);
            setAt(-1);
          }}
          onKeyDown={key}
        />
      </div>
    </div>
  );
}

interface Completion {
  kind: SkipChip["kind"];
  value: string;
}

/** Every name that can be skipped: patterns, modules with all that is in them, ops, and the program's own nodes. */
function completions(scene: Scene): Completion[] {
  const names: Completion[] = scene.patterns.map(({ name }) => ({ kind: "pattern", value: name }));
  for (let row = 1; row < scene.modules.length; row++)
    names.push({ kind: "module", value: `${scene.modules.path(row)}.*` });
  const ops = new Set<string>();
  for (let row = 0; row < scene.nodes.length; row++) if (scene.nodes.kind[row] === Kind.operator) ops.add(scene.nodes.op(row));
  for (const op of ops) names.push({ kind: "op", value: op });
  for (let row = 0; row < scene.nodes.length; row++) {
    if (scene.nodes.kind[row] === Kind.operator && scene.nodes.born[row] === 0)
      names.push({ kind: "node", value: scene.nodes.id(row) });
  }
  return names;
}

function complete(names: readonly Completion[], text: string): Completion[] {
  const wanted = text.toLowerCase();
  const starts: Completion[] = [];
  const holds: Completion[] = [];
  for (const name of names) {
    const at = name.value.toLowerCase().indexOf(wanted);
    if (at === 0) starts.push(name);
    else if (at > 0) holds.push(name);
    if (starts.length >= 30) break;
  }
  return [...starts, ...holds].slice(0, 30);
}
