/** What the lowering changed, up to the step on screen: by operator, by module, and where the selected node came from. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { fate, Fate } from "../lives";
import { Kind, type Scene } from "../scene";
import { Button, Heading, Name } from "./bits";
import { Provenance } from "./inspector";
import { NodeLinks } from "./node_link";
import { brief, count, plural, signed } from "./text";
import { hovering, usePick, useStore } from "./use";

/** Modules deeper than this are counted with the one at this depth: body.12, not each of its layers. */
const DEPTH = 2;
const LISTED = 200;
/** Width of the longest bar of a module, CSS px. */
const BAR = 66;

interface ModuleChange {
  row: number;
  removed: number;
  added: number;
  /** A node to go to. */
  first: number;
}

export function Changes(): JSX.Element | null {
  const store = useStore();
  const scene = usePick((state) => state.scene);
  const step = usePick((state) => (state.view === "before" ? (state.scene?.lastStep ?? 0) : state.step));
  const node = usePick((state) => state.scene?.nodeRow(state.selected[0] ?? "") ?? -1);
  const changes = useMemo(() => (scene === null ? null : collect(scene, step)), [scene, step]);
  if (scene === null || changes === null) return null;
  const here = node >= 0 ? blockOf(scene, scene.nodes.module[node] ?? 0) : -1;
  const most = Math.max(...changes.modules.map(({ removed, added }) => removed + added), 1);
  return (
    <section aria-label="What changed" data-ls="changes">
      <Heading text="What changed">
        <span data-ls="changes-total" data-removed={changes.removed} data-added={changes.added}>
          {count(changes.removed)} removed · {count(changes.added)} added
        </span>
      </Heading>
      <ByOperator scene={scene} />
      <Heading text="By module" line>
        next change <span class="ls-kbd">N</span>
        <Button label="Next change (N)" icon="right" bare data-ls="change-on" onClick={() => store.nextChange(1)} />
      </Heading>
      {changes.modules.slice(0, LISTED).map((change) => (
        <ModuleRow key={change.row} scene={scene} of={change} scale={BAR / most} on={change.row === here} />
      ))}
      {changes.modules.length === 0 && <div class="ls-pad ls-2">Nothing changed.</div>}
      {changes.unchanged > 0 && (
        <div class="ls-pad ls-2" style={{ paddingTop: "3px" }}>
          {plural(changes.unchanged, "module")} unchanged
        </div>
      )}
      <Origin />
    </section>
  );
}

function ByOperator({ scene }: { scene: Scene }): JSX.Element {
  const rows = scene.header.operators.filter(({ op }) => op !== "total");
  const changed = rows.filter(({ delta }) => delta !== 0).sort((a, b) => b.delta - a.delta);
  const others = rows.length - changed.length;
  const rest = rows.filter(({ delta }) => delta === 0).reduce((sum, row) => sum + row.before, 0);
  return (
    <div class="ls-counts" role="table" aria-label="Operators before and after">
      {["operator", "before", "after", "change"].map((name) => (
        <span key={name} class="ls-counts-head">
          {name}
        </span>
      ))}
      {changed.slice(0, 12).map((row) => (
        <>
          <Name text={row.op} />
          <span class="ls-2">{count(row.before)}</span>
          <span>{count(row.after)}</span>
          <span class={row.delta > 0 ? "ls-good" : "ls-bad"} data-ls="change" data-op={row.op} data-delta={row.delta}>
            {signed(row.delta)}
          </span>
        </>
      ))}
      {others > 0 && (
        <>
          <span class="ls-2">{plural(others, "other kind")}</span>
          <span class="ls-2">{count(rest)}</span>
          <span class="ls-2">{count(rest)}</span>
          <span class="ls-2">0</span>
        </>
      )}
    </div>
  );
}

function ModuleRow({
  scene,
  of,
  scale,
  on,
}: {
  scene: Scene;
  of: ModuleChange;
  scale: number;
  on: boolean;
}): JSX.Element {
  const store = useStore();
  const path = scene.modules.path(of.row);
  return (
    <button
      type="button"
      class={on ? "ls-change-row ls-on" : "ls-change-row"}
      data-ls="change-module"
      data-module={path}
      data-removed={of.removed}
      data-added={of.added}
      {...hovering(store, { module: of.row })}
      onClick={() => void store.travel(scene.nodes.id(of.first))}
    >
      <Name text={path === "" ? "the program itself" : path} />
      <span class="ls-bars">
        <i style={{ width: `${of.removed * scale}px`, background: "var(--fail)" }} />
        <i style={{ width: `${of.added * scale}px`, background: "var(--pass)" }} />
      </span>
      <span class="ls-2">
        {of.removed > 0 && `−${count(of.removed)}`} {of.added > 0 && `+${count(of.added)}`}
      </span>
    </button>
  );
}

function Origin(): JSX.Element | null {
  const node = usePick((state) => state.selected[0] ?? null);
  const inspection = usePick((state) => state.inspection);
  if (node === null || inspection === null || inspection.node !== node) return null;
  const untouched = inspection.born === null && inspection.died === null;
  return (
    <section aria-label="Provenance" data-ls="changes-provenance">
      <Heading text="Provenance" line>
        <span class="ls-cut">{brief(node, 60)}</span>
      </Heading>
      <dl class="ls-kv">
        {untouched ? (
          <dd class="ls-2" style={{ gridColumn: "1 / -1" }}>
            No step touched it.
          </dd>
        ) : (
          <Provenance of={inspection} />
        )}
        {inspection.origin.length > 0 &&
          inspection.born === null &&
          inspection.died === null &&
          inspection.origin[0] !== node && (
            <dd>
              <NodeLinks nodes={inspection.origin} />
            </dd>
          )}
      </dl>
    </section>
  );
}

/** The ancestor at `DEPTH`, or the module itself when it is not that deep. */
function blockOf(scene: Scene, module: number): number {
  const chain = scene.ancestors(module);
  return chain[Math.min(DEPTH, chain.length - 1)] ?? module;
}

function collect(
  scene: Scene,
  step: number,
): { removed: number; added: number; modules: ModuleChange[]; unchanged: number } {
  const { nodes } = scene;
  const found = new Map<number, ModuleChange>();
  const blocks = new Map<number, number>();
  const seen = new Set<number>();
  let removed = 0;
  let added = 0;
  for (let row = 0; row < nodes.length; row++) {
    if (nodes.kind[row] !== Kind.operator) continue;
    const module = nodes.module[row] ?? 0;
    const block = blocks.get(module) ?? blockOf(scene, module);
    blocks.set(module, block);
    seen.add(block);
    const what = fate(nodes.born[row] ?? 0, nodes.died[row] ?? -1, 0, step);
    if (what !== Fate.removed && what !== Fate.added) continue;
    const change = found.get(block) ?? { row: block, removed: 0, added: 0, first: row };
    if (what === Fate.removed) {
      change.removed++;
      removed++;
    } else {
      change.added++;
      added++;
    }
    found.set(block, change);
  }
  return {
    removed,
    added,
    modules: [...found.values()].sort((a, b) => a.row - b.row),
    unchanged: seen.size - found.size,
  };
}
