/** Under the focused pattern: where one is among its matches and its near misses, and how to get to the next. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import type { PatternRow, Verdict } from "../protocol";
import type { Scene } from "../scene";
import { APPLIED, NEAR } from "../walk";
import { Button } from "./bits";
import { Icon } from "./icons";
import { count, plural } from "./text";
import { usePick, useStore } from "./use";

export function Walk({ row }: { row: PatternRow }): JSX.Element {
  const store = useStore();
  const match = usePlace(row.name, APPLIED);
  const near = usePlace(row.name, NEAR);
  const misses = row.near + row.declined;
  return (
    <div class={`ls-walk ls-c${row.color % 6}`} data-ls="walk">
      {row.applied > 0 && (
        <>
          <span data-ls="walk-match" title={`${plural(row.applied, "match", "matches")} applied`}>
            <Icon name="check" small />
            {match > 0 && `${count(match)}/`}
            {count(row.applied)}
          </span>
          <Button
            label="Previous match"
            icon="left"
            bare
            data-ls="match-back"
            onClick={() => store.nextMatch(-1, row.name)}
          />
          <Button
            label="Next match"
            icon="right"
            bare
            data-ls="match-on"
            onClick={() => store.nextMatch(1, row.name)}
          />
        </>
      )}
      {misses > 0 && (
        <>
          <span class="ls-warn" data-ls="walk-near">
            near {near > 0 && `${count(near)}/`}
            {count(misses)}
          </span>
          <Button
            label="Previous near miss (K)"
            icon="left"
            bare
            data-ls="near-back"
            onClick={() => store.nextNearMiss(-1)}
          />
          <Button
            label="Next near miss (J)"
            icon="right"
            bare
            data-ls="near-on"
            onClick={() => store.nextNearMiss(1)}
          />
        </>
      )}
      {row.applied + misses === 0 && <span>nothing to walk through</span>}
      <Button
        label="Stop focusing this pattern (Esc)"
        icon="cross"
        bare
        class="ls-push"
        data-ls="unfocus-pattern"
        onClick={() => store.focusPattern(null)}
      />
    </div>
  );
}

/** `placeOf` for the selected node; counted again only when the scene or the selection changed, not at every hover. */
export function usePlace(pattern: string, verdicts: readonly Verdict[]): number {
  const scene = usePick((state) => state.scene);
  const selected = usePick((state) => state.selected[0] ?? null);
  return useMemo(
    () => (scene === null || selected === null ? 0 : placeOf(scene, selected, pattern, verdicts)),
    [scene, selected, pattern],
  );
}

/** Which of the pattern's matches of these verdicts a node belongs to, from 1; 0 when to none. Anchors go first. */
export function placeOf(scene: Scene, node: string, pattern: string, verdicts: readonly Verdict[]): number {
  const selected = scene.nodeRow(node);
  if (selected < 0) return 0;
  const row = scene.patternRow(pattern);
  const { matches } = scene;
  let place = 0;
  let loose = 0;
  for (let match = 0; match < matches.length; match++) {
    const verdict = scene.verdict(match);
    if (matches.pattern[match] !== row || verdict === undefined || !verdicts.includes(verdict)) continue;
    place++;
    if (matches.anchor[match] === selected) return place;
    const step = matches.step[match] ?? -1;
    if (
      loose === 0 &&
      (scene.matchMembers(match).includes(selected) ||
        scene.matchOrigins(match).includes(selected) ||
        (step > 0 && scene.stepMade(step).includes(selected)))
    )
      loose = place;
  }
  return loose;
}
