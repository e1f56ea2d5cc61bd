/** What a channel makes of the 256 int8 codes, beside the map that the condition asks for: where the two part. */

import type { JSX } from "preact";

import type { CodeMap } from "../protocol";

export function CodeMapPlot({ of }: { of: CodeMap | null | undefined }): JSX.Element | null {
  if (!of) return null;
  const line = (codes: number[]) => codes.map((code, place) => [place, 127 - code]).join(" ");
  // The inner svg cuts off what leaves int8.
  return (
    <div class="ls-note ls-2" data-ls="code-map">
      <svg viewBox="-16 -1 274 274" role="img" aria-label={of.says} class="ls-map">
        <rect width="256" height="256" />
        <svg width="256" height="256">
          <polyline points={line(of.nearest)} stroke-dasharray="5" />
          <polyline points={line(of.values)} class="ls-bad" />
          <circle cx={of.code + 128} cy={127 - of.values[of.code + 128]!} r="6" />
        </svg>
        <text y="269">code in, -128 to 127</text>
        <text transform="rotate(-90)" x="-256" y="-5">
          code out, -128 to 127
        </text>
      </svg>
      {of.caption}
    </div>
  );
}
