"""What a run of a program would write to: the values that have to be copied first, so that the program stays as it is.

`lowerscope.mutation` tells what a program writes to for certain; here whatever it may write to counts.
"""

from __future__ import annotations

import torch

from lowerscope.measure.counts import sub_modules
from lowerscope.mutation import written_into


def writes_in_place(module: torch.fx.GraphModule) -> bool:
    """Whether an operator of the graph, or of a sub-graph, writes to one of its inputs."""
    graphs = (sub.graph for sub in module.modules() if isinstance(sub, torch.fx.GraphModule))
    return any(written_into(node) for graph in graphs for node in graph.nodes)


def written_placeholders(module: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """Placeholders that an in-place operator may write to, directly, through a view, or inside a sub-graph."""
    if not writes_in_place(module):
        return set()
    sources: dict[torch.fx.Node, set[torch.fx.Node]] = {}
    written: set[torch.fx.Node] = set()
    for node in module.graph.nodes:
        if node.op == "placeholder":
            sources[node] = {node}
        elif node.op == "call_function":
            of_args = {used: sources.get(used, set()) for used in node.all_input_nodes}
            schema = getattr(node.target, "_schema", None)
            aliasing = schema is None or any(r.alias_info is not None for r in schema.returns)
            # Some composite operators (reshape, to, contiguous) return a view though their schema does not say so.
            aliasing = aliasing or torch.Tag.maybe_aliasing_or_mutating in getattr(node.target, "tags", ())
            aliasing = aliasing or getattr(node.target, "_can_decompose", lambda: False)()
            sources[node] = set().union(*of_args.values()) if aliasing else set()
            for _, sub in sub_modules(node, module):
                if written_placeholders(sub) or any(written_into(inner) for inner in sub.graph.nodes):
                    written.update(*of_args.values())
            for target in written_into(node):
                written.update(sources.get(target, set()))
    return written
