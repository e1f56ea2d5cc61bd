/** Names of nodes that lead to them: hovering outlines the node in the graph, a click selects and centres it. */

import type { JSX } from "preact";

import { Name } from "./bits";
import { brief, plural } from "./text";
import { hovering, useStore } from "./use";

export function NodeLink({ node, label }: { node: string; label?: string }): JSX.Element {
  const store = useStore();
  const leave = () => store.hover({});
  return (
    <button
      type="button"
      class="ls-link"
      aria-label={brief(label ?? node)}
      data-ls="node-link"
      data-node={node}
      {...hovering(store, { node })}
      onFocus={() => store.hover({ node, from: "panel" })}
      onBlur={leave}
      onClick={() => void store.travel(node)}
    >
      <Name text={label ?? node} />
    </button>
  );
}

/** Links to nodes; a long list is cut, and says how many more there are. */
export function NodeLinks({ nodes, most = 8 }: { nodes: readonly string[]; most?: number }): JSX.Element {
  return (
    <span class="ls-links">
      {nodes.slice(0, most).map((node) => (
        <NodeLink key={node} node={node} />
      ))}
      {nodes.length > most && <span class="ls-2">and {plural(nodes.length - most, "more", "more")}</span>}
    </span>
  );
}

/** A text of the engine in which the names of nodes are links. */
export function LinkedText({ text, nodes }: { text: string; nodes: readonly string[] }): JSX.Element {
  const parts: (string | { node: string })[] = [];
  const known = [...nodes].sort((a, b) => b.length - a.length);
  let rest = brief(text);
  while (rest !== "") {
    let at = -1;
    let found = "";
    for (const node of known) {
      const place = whole(rest, node);
      if (place >= 0 && (at < 0 || place < at)) [at, found] = [place, node];
    }
    if (at < 0) break;
    if (at > 0) parts.push(rest.slice(0, at));
    parts.push({ node: found });
    rest = rest.slice(at + found.length);
  }
  if (rest !== "") parts.push(rest);
  return <>{parts.map((part) => (typeof part === "string" ? part : <NodeLink node={part.node} />))}</>;
}

/** Where `node` stands in `text` as a whole word: "add" is not in "add_1". */
function whole(text: string, node: string): number {
  for (let at = text.indexOf(node); at >= 0; at = text.indexOf(node, at + 1)) {
    const around = (text[at - 1] ?? " ") + (text[at + node.length] ?? " ");
    if (!/\w/.test(around)) return at;
  }
  return -1;
}
