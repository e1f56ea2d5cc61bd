/** Pointer and wheel on a pane: pan, zoom, pinch, hover, click, double click, context menu. */
import { clientBox } from "../client_box";
import { claim } from "../claim";
import type { Pane } from "./pane";

export interface PointerPlace {
  x: number; // px of the pane
  y: number;
  clientX: number;
  clientY: number;
  additive: boolean; // Shift, Ctrl or Cmd: add to the selection
}

interface Handlers {
  moved(): void;
  hover(place: PointerPlace | null): void;
  click(place: PointerPlace): void;
  doubleClick(place: PointerPlace): void;
  menu(place: PointerPlace): void;
  /** Whether the wheel is ours: else the page scrolls. */
  takesWheel(event: WheelEvent): boolean;
}

/** Less movement than this (px) is a click with an unsteady hand. */
const DRAG = 4;

export function addGestures(pane: Pane, handlers: Handlers): () => void {
  const { element, camera } = pane;
  const pointers = new Map<number, { x: number; y: number }>();
  let start: { x: number; y: number } | null = null;
  let dragging = false;

  const place = (event: MouseEvent): PointerPlace => {
    const box = clientBox(element);
    return {
      x: event.clientX - box.left,
      y: event.clientY - box.top,
      clientX: event.clientX,
      clientY: event.clientY,
      additive: event.shiftKey || event.ctrlKey || event.metaKey,
    };
  };
  const down = (event: PointerEvent) => {
    if (event.pointerType === "mouse" && event.button > 1) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (pointers.size === 1) start = { x: event.clientX, y: event.clientY };
    dragging = false;
    pane.stopGliding();
    element.setPointerCapture(event.pointerId);
  };

  const move = (event: PointerEvent) => {
    const last = pointers.get(event.pointerId);
    if (last === undefined) {
      handlers.hover(place(event));
      return;
    }
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other !== undefined) {
      const before = Math.hypot(last.x - other.x, last.y - other.y);
      const now = Math.hypot(event.clientX - other.x, event.clientY - other.y);
      const box = clientBox(element);
      camera.pan((event.clientX - last.x) / 2, (event.clientY - last.y) / 2);
      if (before > 0)
        camera.zoomAt(now / before, (event.clientX + other.x) / 2 - box.left, (event.clientY + other.y) / 2 - box.top);
      dragging = true;
    } else if (dragging || (start !== null && Math.hypot(event.clientX - start.x, event.clientY - start.y) >= DRAG)) {
      if (!dragging) {
        dragging = true;
        element.classList.add("ls-dragging");
        handlers.hover(null);
        camera.pan(event.clientX - (start?.x ?? last.x), event.clientY - (start?.y ?? last.y));
      } else camera.pan(event.clientX - last.x, event.clientY - last.y);
    }
    last.x = event.clientX;
    last.y = event.clientY;
    if (dragging) {
      pane.moved();
      handlers.moved();
    }
  };

  const up = (event: PointerEvent) => {
    if (!pointers.delete(event.pointerId)) return;
    element.classList.remove("ls-dragging");
    if (pointers.size === 0 && !dragging && event.type === "pointerup" && event.button === 0)
      handlers.click(place(event));
    if (pointers.size === 0) start = null;
  };

  const leave = () => {
    if (pointers.size === 0) handlers.hover(null);
  };

  const wheel = (event: WheelEvent) => {
    if (!handlers.takesWheel(event)) return;
    claim(event);
    pane.stopGliding();
    const unit =
      event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : event.deltaMode === WheelEvent.DOM_DELTA_PAGE ? 400 : 1;
    if (event.shiftKey) camera.pan(-(event.deltaX || event.deltaY) * unit, 0);
    else {
      const { x, y } = place(event);
      // A pinch on a trackpad comes as small deltas with Ctrl.
      camera.zoomAt(Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0016)), x, y);
      camera.pan(-event.deltaX * unit * 0.5, 0);
    }
    pane.moved();
    handlers.moved();
  };

  const double = (event: MouseEvent) => handlers.doubleClick(place(event));
  const menu = (event: MouseEvent) => {
    claim(event);
    handlers.menu(place(event));
  };

  const abort = new AbortController();
  const { signal } = abort;
  element.addEventListener("pointerdown", down, { signal });
  element.addEventListener("pointermove", move, { signal });
  element.addEventListener("pointerup", up, { signal });
  element.addEventListener("pointercancel", up, { signal });
  element.addEventListener("pointerleave", leave, { signal });
  element.addEventListener("wheel", wheel, { signal, passive: false });
  element.addEventListener("dblclick", double, { signal });
  element.addEventListener("contextmenu", menu, { signal });
  return () => abort.abort();
}
