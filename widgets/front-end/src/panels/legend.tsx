/** The colours of the operators' categories that this program has. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { Kind } from "../scene";
import { usePick } from "./use";

export function Legend(): JSX.Element | null {
  const scene = usePick((state) => state.scene);
  const present = useMemo(() => {
    if (scene === null) return [];
    const found = new Set<number>();
    for (let row = 0; row < scene.nodes.length; row++)
      if (scene.nodes.kind[row] === Kind.operator) found.add(scene.nodes.category[row] ?? -1);
    return scene.header.categories.filter((_, index) => found.has(index));
  }, [scene]);
  if (present.length === 0) return null;
  return (
    <div class="ls-legend" aria-label="Colours of operators" role="list" data-ls="legend">
      {present.map((category) => (
        <span key={category} role="listitem">
          <i class={`ls-swatch ls-k-${category}`} />
          {category}
        </span>
      ))}
    </div>
  );
}
