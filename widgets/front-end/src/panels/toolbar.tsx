/** Target, view, search, undo, step scrubber, outputs and help. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { claim } from "../claim";
import type { View } from "../state";
import { Button, focused, MenuButton } from "./bits";
import { Device } from "./device";
import { Scrubber } from "./scrubber";
import { Search } from "./search_field";
import type { Item } from "./side";
import { useAway, usePick, useStore } from "./use";

const VIEWS: { view: View; label: string; key: string }[] = [
  { view: "before", label: "Before", key: "B" },
  { view: "after", label: "After", key: "A" },
  { view: "diff", label: "Diff", key: "D" },
  { view: "split", label: "Split", key: "S" },
];

export function Toolbar(): JSX.Element {
  const bar = useRef<HTMLDivElement>(null);
  const key = useRoving(bar);
  return (
    <div class="ls-tools" role="toolbar" aria-label="lowerscope" ref={bar} onKeyDown={key} data-ls="toolbar">
      <Target />
      <Views />
      <Search />
      <History />
      <span class="ls-sep" />
      <Scrubber />
      <span class="ls-sep" />
      <Outputs />
    </div>
  );
}

function Target(): JSX.Element {
  const store = useStore();
  const program = usePick((state) => state.scene?.header.program ?? null);
  const fields = usePick((state) => state.scene?.header.profile.length ?? 0);
  const away = useAway();
  const [device, setDevice] = useState(false);
  const items = (): Item[] => [
    ...(program?.targets ?? []).map((target) => ({
      name: target,
      label: target,
      checked: target === program?.target,
      run: () => store.setTarget(target),
    })),
    ...(fields > 0
      ? [{ name: "device", label: "Device profile…", icon: "device" as const, run: () => setDevice(true) }]
      : []),
  ];
  return (
    <span class="ls-anchor">
      <MenuButton
        label={program?.target ?? "none"}
        prefix="Target"
        hint={program ? `Target ${program.target}: which patterns run, and in which order` : "Target"}
        items={items}
        menu="Target"
        caret
        class="ls-target"
        disabled={program === null || away}
        data-ls="target"
      />
      {device && <Device onClose={() => setDevice(false)} />}
    </span>
  );
}

function Views(): JSX.Element {
  const store = useStore();
  const view = usePick((state) => state.view);
  return (
    <span class="ls-views" role="radiogroup" aria-label="View" data-ls="views">
      {VIEWS.map((one) => (
        <button
          type="button"
          role="radio"
          key={one.view}
          aria-checked={one.view === view}
          title={`${one.label} (${one.key})`}
          data-text={one.label}
          data-ls="view"
          data-view={one.view}
          onClick={() => store.setView(one.view)}
        >
          {one.label}
        </button>
      ))}
    </span>
  );
}

function History(): JSX.Element {
  const store = useStore();
  const undo = usePick((state) => state.scene?.header.can_undo ?? null);
  const redo = usePick((state) => state.scene?.header.can_redo ?? null);
  const away = useAway();
  return (
    <span class="ls-group ls-push">
      <Button
        label={undo === null ? "Nothing to undo" : `Undo: ${undo}`}
        icon="undo"
        bare
        disabled={undo === null || away}
        data-ls="undo"
        onClick={() => store.undo()}
      />
      <Button
        label={redo === null ? "Nothing to redo" : `Redo: ${redo}`}
        icon="redo"
        bare
        disabled={redo === null || away}
        data-ls="redo"
        onClick={() => store.redo()}
      />
    </span>
  );
}

function Outputs(): JSX.Element {
  const store = useStore();
  const none = usePick((state) => state.scene === null);
  const live = usePick((state) => state.live);
  const away = useAway();
  const items = (): Item[] => [
    { name: "svg", label: "Picture as SVG", icon: "export", run: () => void store.exportAs("svg") },
    { name: "png", label: "Picture as PNG", icon: "export", run: () => void store.exportAs("png") },
    {
      name: "html",
      label: "Self-contained HTML",
      detail: "replays the steps and toggles without a kernel",
      icon: "file",
      disabled: !live,
      run: () => void store.exportAs("html"),
    },
    {
      name: "pt2",
      label: "Lowered program (.pt2)",
      detail: "saved beside the notebook",
      icon: "file",
      disabled: !live,
      run: () => void store.exportAs("pt2"),
    },
    { name: "json", label: "Copy recipe as JSON", icon: "copy", run: () => void store.copy("json") },
    {
      name: "compile_options",
      label: "Copy recipe as compile options",
      icon: "copy",
      run: () => void store.copy("compile_options"),
    },
  ];
  return (
    <span class="ls-group" style={{ gap: "2px" }}>
      <Button
        label="Python"
        hint="Copy the recipe as Python (C)"
        aria-label="Copy the recipe as Python"
        icon="copy"
        class="ls-python"
        disabled={none || away}
        data-ls="copy-python"
        onClick={() => void store.copy("python")}
      />
      <MenuButton
        label="Export"
        icon="export"
        bare
        caret
        items={items}
        menu="Export"
        disabled={none || away}
        data-ls="export"
      />
      <Button label="Keyboard and help (?)" icon="help" bare data-ls="help" onClick={() => store.setHelpOpen(true)} />
    </span>
  );
}

/**
 * One tab stop for the buttons of the toolbar: the arrow keys move along them. The search field and the scrubber need
 * the arrow keys themselves and are tab stops of their own.
 */
function useRoving(bar: { current: HTMLElement | null }): (event: KeyboardEvent) => void {
  const at = useRef<HTMLElement | null>(null);
  const buttons = () =>
    [...(bar.current?.querySelectorAll<HTMLElement>("button:not([data-stop])") ?? [])].filter(
      (one) => one.offsetParent !== null,
    );
  const settle = () => {
    const all = buttons();
    if (!at.current || !all.includes(at.current)) at.current = all[0] ?? null;
    for (const one of all) one.tabIndex = one === at.current ? 0 : -1;
  };
  useLayoutEffect(settle);
  useLayoutEffect(() => {
    const root = bar.current;
    const remember = (event: FocusEvent) => {
      if (buttons().includes(event.target as HTMLElement)) {
        at.current = event.target as HTMLElement;
        settle();
      }
    };
    // Buttons come and go with their panels' state, which does not draw the toolbar itself again.
    const watcher = new MutationObserver(settle);
    if (root) watcher.observe(root, { childList: true, subtree: true });
    root?.addEventListener("focusin", remember);
    return () => {
      watcher.disconnect();
      root?.removeEventListener("focusin", remember);
    };
  }, []);
  return (event) => {
    const all = buttons();
    const now = all.indexOf(focused(bar.current) as HTMLElement);
    if (now < 0) return;
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: all.length - 1 }[event.key];
    if (next === undefined) return;
    all[(next + all.length) % all.length]?.focus();
    claim(event);
  };
}
