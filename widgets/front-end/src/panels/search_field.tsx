/** Search over the nodes: the field and the list of what it found, which walks the graph. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { claim } from "../claim";
import type { Scene } from "../scene";
import type { SearchHit } from "../search";
import { Icon } from "./icons";
import { useSide } from "./side";
import { brief, count, plural } from "./text";
import { hovering, usePick, useStore } from "./use";

const FIND = "Find node, op or module";

/** As many hits are listed; Enter walks through all of them. */
const LISTED = 100;

export function Search(): JSX.Element {
  const store = useStore();
  const side = useSide();
  const query = usePick((state) => state.query);
  const results = usePick((state) => state.results);
  const at = usePick((state) => state.resultIndex);
  const scene = usePick((state) => state.scene);
  const width = usePick((state) => state.width);
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    box.current?.querySelector(`[data-index="${at}"]`)?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const key = (event: KeyboardEvent) => {
    if (event.key === "Enter") store.nextResult(event.shiftKey ? -1 : 1);
    else if (event.key === "ArrowDown") store.nextResult(1);
    else if (event.key === "ArrowUp") store.nextResult(-1);
    else if (event.key === "Escape" && query !== "") store.search("");
    else if (event.key === "Escape") (event.currentTarget as HTMLElement).closest<HTMLElement>(".ls-root")?.focus();
    else return;
    setOpen(true);
    claim(event);
  };
  const shown = open && query !== "" && scene !== null;
  return (
    <div
      class="ls-search"
      ref={box}
      onFocusOut={(event) => {
        if (!box.current?.contains(event.relatedTarget as Node | null)) setOpen(false);
      }}
    >
      <div class="ls-search-field">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label={FIND}
          aria-expanded={shown}
          aria-controls={`${side.id}-found`}
          aria-activedescendant={shown && at >= 0 ? `${side.id}-hit-${at}` : undefined}
          aria-autocomplete="list"
          autocomplete="off"
          spellcheck={false}
          placeholder={width === "medium" || width === "narrow" ? "Find" : FIND}
          title="Words, and filters such as op:conv dtype:f16 module:decoder.* users>1 unfused"
          value={query}
          data-ls="search"
          onFocus={() => setOpen(true)}
          onInput={(event) => {
            setOpen(true);
            store.search(event.currentTarget.value);
          }}
          onKeyDown={key}
        />
        {query === "" && <span class="ls-kbd">/</span>}
      </div>
      {shown && (
        <div
          class="ls-found"
          data-ls="search-results"
          data-count={results.length}
          onPointerDown={(event) => event.preventDefault()}
        >
          <div class="ls-h ls-11 ls-2">
            {results.length === 0
              ? "Nothing found. Try op:conv, module:body.*, dtype:f16, users>1, unfused"
              : `${plural(results.length, "node")}, Enter for the next`}
          </div>
          <div class="ls-scroll" role="listbox" id={`${side.id}-found`} aria-label="Found nodes">
            {results.slice(0, LISTED).map((hit, index) => (
              <Hit key={hit.id} hit={hit} scene={scene} index={index} chosen={index === at} />
            ))}
            {results.length > LISTED && (
              <div class="ls-hit ls-2">and {count(results.length - LISTED)} more</div>
            )}
          </div>
        </div>
      )}
    </div>
  );
}

function Hit({
  hit,
  scene,
  index,
  chosen,
}: {
  hit: SearchHit;
  scene: Scene;
  index: number;
  chosen: boolean;
}): JSX.Element {
  const store = useStore();
  const side = useSide();
  const { nodes } = scene;
  return (
    <div
      class="ls-hit"
      role="option"
      id={`${side.id}-hit-${index}`}
      aria-selected={chosen}
      data-ls="search-hit"
      data-node={hit.id}
      data-index={index}
      {...hovering(store, { node: hit.id })}
      onClick={() => store.goToResult(index)}
    >
      <span class={`ls-swatch ls-k-${scene.category(hit.node)}`} />
      <span class="ls-cut">
        <Emphasised text={brief(hit.id, 120)} at={hit.at} />
      </span>
      <span class="ls-mono ls-2">{brief(nodes.shape(hit.node), 24)}</span>
      <span class="ls-11 ls-2 ls-cut">
        {brief(nodes.op(hit.node), 60)} in {brief(scene.modules.path(nodes.module[hit.node] ?? 0), 80) || "the program"}
      </span>
    </div>
  );
}

/** The name with the characters that the words matched in bold. */
function Emphasised({ text, at }: { text: string; at: readonly number[] }): JSX.Element {
  const marked = new Set(at);
  const runs: { text: string; bold: boolean }[] = [];
  for (let i = 0; i < text.length; i++) {
    const bold = marked.has(i);
    const last = runs.at(-1);
    if (last && last.bold === bold) last.text += text.charAt(i);
    else runs.push({ text: text.charAt(i), bold });
  }
  return <>{runs.map((run) => (run.bold ? <b class="ls-b">{run.text}</b> : run.text))}</>;
}
