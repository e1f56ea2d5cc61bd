/** How much is drawn, by zoom. */
export const enum Detail {
  blocks,
  boxes,
  labels,
  full,
}

const THRESHOLDS = [0.25, 0.6, 1.3] as const;

export function detailAt(zoom: number): Detail {
  return zoom < THRESHOLDS[0]
    ? Detail.blocks
    : zoom < THRESHOLDS[1]
      ? Detail.boxes
      : zoom < THRESHOLDS[2]
        ? Detail.labels
        : Detail.full;
}

/** Smaller text (device px) cannot be read and costs the most: it is left out. */
const SMALLEST_TEXT = 9;

export function readable(size: number, zoom: number, ratio: number): boolean {
  return size * zoom * ratio >= SMALLEST_TEXT;
}
