/** All that the drawing of one frame needs to know. */
import type { Scene } from "../scene";
import type { Attention } from "./attention";
import type { Detail } from "./lod";
import type { Rect } from "./rect";
import type { Shown } from "./shown";
import type { TextCache } from "./text";
import type { Theme } from "./theme";

/** Boxes by row, in layout units: the scene's own, or those of a moment between two layouts. */
export interface Boxes {
  readonly x: ArrayLike<number>;
  readonly y: ArrayLike<number>;
  readonly w: ArrayLike<number>;
  readonly h: ArrayLike<number>;
}

export interface Frame {
  context: CanvasRenderingContext2D;
  theme: Theme;
  text: TextCache;
  scene: Scene;
  shown: Shown;
  attention: Attention;
  nodes: Boxes;
  modules: Boxes;
  /** What is drawn: the pane and its margin, in layout units. */
  window: Rect;
  zoom: number;
  /** Device px per CSS px. */
  ratio: number;
  detail: Detail;
  /** Layout units per CSS px: lines that must not get thinner than one px are `Math.max(width, px)` wide. */
  px: number;
  /** Where the pane ends, in layout units. */
  right: number;
  /** Rows inside the window, ascending. */
  nodeRows: readonly number[];
  moduleRows: readonly number[];
  routeRows: readonly number[];
  hullRows: readonly number[];
  /** Opacity of what comes with a new layout, 1 when nothing moves. */
  arriving: number;
}

export function font(size: number, family: string, weight: 400 | 600 | 700 = 400): string {
  return `${weight} ${size}px ${family}`;
}

export function roundRect(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  w: number,
  h: number,
  radius: number,
): void {
  context.beginPath();
  context.roundRect(x, y, w, h, radius);
}
