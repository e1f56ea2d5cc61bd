"""Which value outside a sub-graph each of its placeholders stands for, by the higher-order operator that calls it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.fx import Graph, GraphModule, Node

from lowerscope.ledger import sub_graph_paths

#: Higher-order operators whose last argument holds the operands; those of any other follow its sub-graph.
_OPERANDS_LAST = ("cond", "map_impl", "while_loop", "scan")


def outer_operand(call: Node, holder: Node, inner: Graph) -> Iterator[tuple[Node, Node]]:
    """(placeholder inside, node outside) pairs for one call of the sub-graph that `holder` (a get_attr) holds.

    Only operands that stay the same in every run of the sub-graph are given: what a loop carries around is left out.
    """
    name = getattr(call.target, "__name__", str(call.target))
    args: list[Any] = list(call.args)
    placeholders = [n for n in inner.nodes if n.op == "placeholder"]
    if holder not in args:
        return
    position = args.index(holder)
    if name in _OPERANDS_LAST:
        operands, skipped = list(args[-1]), len(placeholders) - len(args[-1])
    else:
        operands, skipped = args[position + 1 :], 0
    for placeholder, operand in zip(placeholders[max(skipped, 0) :], operands, strict=False):
        if isinstance(operand, Node):
            yield placeholder, operand


def seen_inside(module: GraphModule, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(id of a value, id of a placeholder that stands for it one sub-graph further in), at every depth."""
    for holder, held in sub_graph_paths(module.graph, module):
        inner = f"{prefix}{holder.target}/"
        for call in holder.users:
            for placeholder, operand in outer_operand(call, holder, held.graph):
                yield prefix + operand.name, inner + placeholder.name
        yield from seen_inside(held, inner)


def with_operand(call: Node, operand: Node) -> tuple[Any, ...]:
    """The arguments of a higher-order call with one more operand at the end, for a new last placeholder of its sub-graphs."""
    args = tuple(call.args)
    if getattr(call.target, "__name__", str(call.target)) in _OPERANDS_LAST:
        last: Any = args[-1]
        return (*args[:-1], type(last)([*last, operand]) if isinstance(last, (list, tuple)) else (last, operand))
    return (*args, operand)
