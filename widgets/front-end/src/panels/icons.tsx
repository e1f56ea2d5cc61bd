/** The icons: strokes on a 14 × 14 grid, coloured by the text around them. */

import type { JSX } from "preact";

const PATHS = {
  check: "M2.5 7.4l3 3.1 6-7",
  cross: "M3.6 3.6l6.8 6.8M10.4 3.6l-6.8 6.8",
  dash: "M4 7h6",
  plus: "M7 2.6v8.8M2.6 7h8.8",
  up: "M3.5 8.8L7 5.2l3.5 3.6",
  down: "M3.5 5.2L7 8.8l3.5-3.6",
  left: "M8.7 3.5L5.2 7l3.5 3.5",
  right: "M5.3 3.5L8.8 7l-3.5 3.5",
  first: "M3.5 3v8M10.5 3.5L7 7l3.5 3.5",
  last: "M10.5 3v8M3.5 3.5L7 7l-3.5 3.5",
  arrow: "M2.5 7h9M8.3 3.8L11.5 7l-3.2 3.2",
  undo: "M4.8 3L2 5.8l2.8 2.8M2 5.8h6.2a3.6 3.6 0 0 1 0 7.2H6",
  redo: "M9.2 3L12 5.8 9.2 8.6M12 5.8H5.8a3.6 3.6 0 0 0 0 7.2H8",
  search: "M6 2a4 4 0 1 1 0 8a4 4 0 0 1 0-8M9 9l3.4 3.4",
  copy: "M5 5h7.2v7.2H5zM9.4 5V1.8H1.8v7.6H5",
  export: "M7 9V1.8M4.2 4.4L7 1.6l2.8 2.8M2 8.2v4.2h10V8.2",
  help: "M7 1.6a5.4 5.4 0 1 1 0 10.8a5.4 5.4 0 0 1 0-10.8M5.4 5.7a1.6 1.6 0 1 1 2.3 1.5c-.5.3-.7.6-.7 1.1M7 10.1v.1",
  play: "M4.2 2.6v8.8L11 7z",
  pause: "M4.6 3v8M9.4 3v8",
  stop: "M3.8 3.8h6.4v6.4H3.8z",
  skip: "M7 1.8a5.2 5.2 0 1 1 0 10.4a5.2 5.2 0 0 1 0-10.4M3.4 10.6l7.2-7.2",
  bulb: "M5.2 10.6h3.6M5.7 12.6h2.6M5.2 10.6c0-1-.2-1.4-.8-2a3.7 3.7 0 1 1 5.2 0c-.6.6-.8 1-.8 2",
  dots: "M7 3v.1M7 7v.1M7 11v.1",
  lock: "M3.2 6.4h7.6v5.8H3.2zM4.8 6.4V4.3a2.2 2.2 0 0 1 4.4 0v2.1",
  file: "M3.2 1.6h5l2.8 2.8v8H3.2zM8 1.6v3h3",
  filter: "M1.8 2.6h10.4L8.4 7.2v4.2l-2.8-1.2v-3z",
  teach: "M1.2 5L7 2.4 12.8 5 7 7.6zM3.6 6.4v3.2c1.8 1.6 5 1.6 6.8 0V6.4",
  device: "M3.6 3.6h6.8v6.8H3.6zM5.5 1.6v2M8.5 1.6v2M5.5 10.4v2M8.5 10.4v2M1.6 5.5h2M1.6 8.5h2M10.4 5.5h2M10.4 8.5h2",
  wide: "M8.6 2h3.4v3.4M5.4 12H2V8.6M12 2L8.2 5.8M2 12l3.8-3.8",
  locate: "M7 3.4a3.6 3.6 0 1 1 0 7.2a3.6 3.6 0 0 1 0-7.2M7 1v2.4M7 10.6V13M1 7h2.4M10.6 7H13",
  steps: "M1.8 11.6h3.2V8.4h3.6V5.2h3.6V2.4",
  // What a pattern does: fold a constant in, fuse two into one, take one apart, change the layout, go one level down.
  fold: "M1.8 3.5h6.4l4 3.5-4 3.5H1.8zM8.2 3.5v7",
  fusion: "M5 3.5a3.5 3.5 0 1 1 0 7a3.5 3.5 0 0 1 0-7M9 3.5a3.5 3.5 0 1 1 0 7a3.5 3.5 0 0 1 0-7",
  decomposition:
    "M7 1.5v3L3.4 8.8M7 4.5l3.6 4.3M3 9a1.8 1.8 0 1 1 0 3.6A1.8 1.8 0 0 1 3 9M11 9a1.8 1.8 0 1 1 0 3.6A1.8 1.8 0 0 1 11 9",
  layout: "M2 2h10v10H2zM7 2v10M2 7h10",
  lowering: "M2.4 2.4h9.2M7 4.8v7M4 8.8l3 3 3-3",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, small }: { name: IconName; small?: boolean }): JSX.Element {
  return (
    <svg class={small ? "ls-i ls-i-s" : "ls-i"} viewBox="0 0 14 14" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
