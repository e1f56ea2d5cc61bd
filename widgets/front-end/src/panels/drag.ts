/** Dragging a row of a list to another place in it, with the pointer. */

import { useRef, useState } from "preact/hooks";

import { clientBox } from "../client_box";

/** A press that moves less than this, in CSS px, is a click. */
const SLACK = 5;

interface Over {
  name: string;
  after: boolean;
}

/**
 * Rows are the list's `[data-pattern]` elements. `onMove(name, before)` is called once, at the drop, with the row that
 * the dragged one should come before, or null for the end. Escape gives up.
 */
export function useDrag(list: { current: HTMLElement | null }, onMove: (name: string, before: string | null) => void) {
  const [moved, setMoved] = useState<{ name: string; over: Over | null } | null>(null);
  const justEnded = useRef(false);

  const start = (event: PointerEvent, name: string) => {
    if (event.button !== 0) return;
    justEnded.current = false;
    const from = event.clientY;
    let over: Over | null = null;
    let going = false;
    const rows = () => [...(list.current?.querySelectorAll<HTMLElement>('[role="option"][data-pattern]') ?? [])];
    const move = (to: PointerEvent) => {
      if (!going && Math.abs(to.clientY - from) < SLACK) return;
      going = true;
      over = placeAt(rows(), to.clientY);
      setMoved({ name, over });
    };
    const end = (stop: boolean) => {
      for (const [type, listener] of Object.entries(listeners))
        window.removeEventListener(type, listener as EventListener, true);
      setMoved(null);
      if (!going) return;
      justEnded.current = true;
      if (stop || over === null || over.name === name) return;
      const names = rows().map((row) => row.dataset["pattern"] ?? "");
      const before = over.after ? (names[names.indexOf(over.name) + 1] ?? null) : over.name;
      if (before !== name && names[names.indexOf(name) + 1] !== before) onMove(name, before);
      else if (before === null && names.at(-1) !== name) onMove(name, null);
    };
    const listeners = {
      pointermove: move,
      pointerup: () => end(false),
      pointercancel: () => end(true),
      keydown: (key: KeyboardEvent) => key.key === "Escape" && end(true),
    };
    for (const [type, listener] of Object.entries(listeners))
      window.addEventListener(type, listener as EventListener, true);
  };

  return {
    start,
    /** Whether a click is only the end of a drag. */
    ended(): boolean {
      const was = justEnded.current;
      justEnded.current = false;
      return was;
    },
    stateOf(name: string): string {
      if (moved === null) return "";
      if (moved.name === name) return "ls-dragged";
      if (moved.over?.name !== name) return "";
      return moved.over.after ? "ls-drop-after" : "ls-drop-before";
    },
  };
}

function placeAt(rows: readonly HTMLElement[], y: number): Over | null {
  for (const row of rows) {
    const box = clientBox(row);
    if (y < box.top + box.height / 2) return { name: row.dataset["pattern"] ?? "", after: false };
  }
  const last = rows.at(-1);
  return last === undefined ? null : { name: last.dataset["pattern"] ?? "", after: true };
}
