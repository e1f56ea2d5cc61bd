"""Two graphs side by side: which nodes compute the same, and what lies between a rewrite's output and the nearest such ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from lowerscope.mutation import written_into

# A replacement that has to be traced back further than this to values of the original is not one rewrite's work.
_LARGEST = 256


class Region(NamedTuple):
    """What a replacement runs alone: its nodes in order, and the nodes whose values the original gives."""

    order: list[torch.fx.Node]
    edge: list[torch.fx.Node]


class Alignment:
    """What stands in the new graph for which value of the old one.

    Args:
        pairs: (node of the old graph, node of the new one) for each output that a rewrite replaced.
        changed: names of placeholders that need not hold the same in both. given: those of the new graph among them
            whose values are known without the old one.
    """

    def __init__(
        self,
        old: torch.fx.Graph,
        new: torch.fx.Graph,
        pairs: Iterable[tuple[str, str]],
        *,
        changed: Collection[str],
        given: Collection[str],
    ) -> None:
        self.old = {node.name: node for node in old.nodes}
        self.new = {node.name: node for node in new.nodes}
        self._given = given
        self.same = {
            name: name
            for name, node in self.new.items()
            if name in self.old and name not in changed and _is_same(self.old[name], node)
        }
        self.same |= {after: before for before, after in pairs if after in self.new and before in self.old}

    def region(self, name: str) -> Region | str:
        """What the new graph's node `name` runs from values of the old one, or why it cannot stand alone."""
        end = self.new[name]
        inside, edge, stack = {end}, set(), [end]
        while stack:
            for used in stack.pop().all_input_nodes:
                if used in inside or used in edge:
                    continue
                if used.name in self.same:
                    edge.add(used)
                elif used.op == "placeholder":
                    if used.name not in self._given:
                        return f"the original has no value for {used.name}"
                    edge.add(used)
                else:
                    inside.add(used)
                    stack.append(used)
            if len(inside) > _LARGEST:
                return f"over {_LARGEST} nodes lie between {name} and values that the original has too"
        if any(written_into(node) for node in inside):
            return "it writes in place"
        order = [node for node in end.graph.nodes if node in inside]
        return Region(order, [node for node in edge if node.name in self.same])


def _is_same(old: torch.fx.Node, new: torch.fx.Node) -> bool:
    """Whether two nodes of one name compute the same thing: a rewrite may change a node's arguments in place."""
    if old.op != new.op or (old.op == "call_function" and old.target != new.target):
        return False
    return old.op in ("placeholder", "call_function") and _shape(old) == _shape(new)


def _shape(node: torch.fx.Node) -> list[Any]:
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return [(str(tuple(v.shape)), v.dtype) if isinstance(v, torch.Tensor) else type(v).__name__ for v in leaves]
