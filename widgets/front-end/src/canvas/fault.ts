/** The node at fault that is ringed: of the explanation unfolded, else of the near miss pointed at. */
import type { Scene } from "../scene";
import type { State } from "../state";

export function faultOf(scene: Scene, state: State): number {
  const { hover, whyNot, whyPattern, selected } = state;
  if (hover.match >= 0 && hover.match < scene.matches.length) {
    const row = scene.matches.fault[hover.match];
    if (row >= 0) return row;
  }
  if (whyNot === null || whyNot.node !== selected[0]) return -1;
  const explanation = whyNot.explanations.find((one) => one.pattern === whyPattern);
  const root = explanation?.conditions.find((condition) => condition.status === "failed");
  return scene.nodeRow(root?.node ?? "");
}
