"""Which nodes of an editor's graph the target's backend takes, and the regions that they make, while a stage runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from lowerscope.arguments import op_of
from lowerscope.editor import Editor
from lowerscope.measure.counts import is_operator
from lowerscope.memory_layout import gives_number
from lowerscope.ops.registry import OWN_OPS
from lowerscope.partition_graph import has_effect, is_getitem, keeps_constant, ranks
from lowerscope.pattern import Kind, Pattern
from lowerscope.support.table import Site

#: kinds of pattern whose match the backend takes as one; a user's own pattern is judged by the table
_DELEGATING = frozenset({Kind.FUSION, Kind.DECOMPOSITION, Kind.LOWERING, Kind.LAYOUT})


def delegates(rule: Pattern | None) -> bool:
    """Whether the backend takes what a pattern has made as a whole, whatever the table says of its ATen nodes."""
    return rule is not None and rule.kind in _DELEGATING and rule.name != "core_aten" and not rule.yours


def judged_by_table(target: Any) -> bool:
    """Whether the table decides on a node whoever made it: an operator of a backend's is in it, with its limits."""
    return op_of(target).partition(".")[0] in OWN_OPS


class LiveGraph:
    """One of an editor's graphs without its dead nodes; it answers a support table's questions, and a layout's.

    order: topological, of what an output or an effect depends on.
    """

    def __init__(self, editor: Editor, graph: Graph) -> None:
        self.editor = editor
        self.order: list[Node] = []
        self._readers: dict[Node, list[Node]] = {}
        live: set[Node] = set()
        for node in reversed(graph.nodes):
            if node in live or has_effect(node):
                live.add(node)
                live.update(node.all_input_nodes)
                self.order.append(node)
                for source in node.all_input_nodes:
                    self._readers.setdefault(source, []).append(node)
        self.order.reverse()

    # ------------------------------------------------------------------ what a table asks
    def value(self, reference: Any) -> Any:
        """The fake value of a node."""
        return reference.meta.get("val") if isinstance(reference, Node) else None

    def is_constant(self, reference: Any, dequantized: bool = False) -> bool:
        """Whether a node is a constant of the program, or one merely transposed or, if `dequantized`, dequantized."""
        while isinstance(reference, Node) and keeps_constant(reference.target, dequantized):
            reference = reference.args[0]
        return isinstance(reference, Node) and self.editor.is_constant(reference)

    def target(self, reference: Any) -> Any:
        """The op of a node, None for what computes nothing."""
        return reference.target if isinstance(reference, Node) and reference.op == "call_function" else None

    def items_read(self, call: Node) -> frozenset[int] | None:
        """Which outputs of an op with several are read; None when something reads them as a whole."""
        found = self.readers_of(call)
        return frozenset(r.args[1] for r in found) if all(map(is_getitem, found)) else None  # type: ignore[arg-type]

    # ------------------------------------------------------------------ what a layout asks
    def op(self, node: Node) -> str:
        """The torch name of a node's op, "" for what is none."""
        return op_of(node.target)

    def reads(self, node: Node) -> Sequence[Node]:
        """The nodes that a node reads."""
        return node.all_input_nodes

    def readers_of(self, node: Node) -> Sequence[Node]:
        """The live nodes that read a node, the last of the graph first."""
        return self._readers.get(node, ())

    def has_number(self, node: Node) -> bool:
        """Whether a binary op was given a number for its second operand."""
        return gives_number(node)

    # ------------------------------------------------------------------ regions
    def regions(self, takes: Callable[[Site], str | None], profile: Mapping[str, Any]) -> list[list[Node]]:
        """The nodes of each region that the backend takes whole, in the order of the graph."""
        taken: set[Node] = set()
        for node in self.order:
            if node.op == "call_function" and self._taken(node, taken, takes, profile):
                taken.add(node)
        rank = ranks(self.order, self.readers_of, taken.__contains__)
        groups: dict[int, list[Node]] = {}
        for node in self.order:
            if node in taken:
                groups.setdefault(rank[node], []).append(node)
        return [groups[key] for key in sorted(groups, reverse=True)]

    def _taken(self, node: Node, taken: set[Node], takes: Any, profile: Mapping[str, Any]) -> bool:
        editor, id = self.editor, self.editor.id_of(node)
        if not judged_by_table(node.target) and delegates(editor.made_by.get(editor.ledger.records[id].born)):
            return True
        if is_getitem(node):
            return node.args[0] in taken
        if not is_operator(node):
            return False
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):  # what is read of several outputs may have changed
            return takes(Site(node, self, profile, tuple(node.all_input_nodes), value)) is None
        # what a table says of a node stays as long as the node and what it reads stay, which a toggle leaves to most
        key = ("taken", editor.profile["target"], tuple(sorted(profile.items())))
        known = editor.memo.setdefault(key, {})
        records = editor.ledger.records
        state = (records[id], *(records[editor.id_of(n)] for n in node.all_input_nodes))
        found = known.get(id)
        if (
            found is None
            or len(found[0]) != len(state)
            or any(a is not b for a, b in zip(found[0], state, strict=True))
        ):
            answer = takes(Site(node, self, profile, tuple(node.all_input_nodes), value)) is None
            found = known[id] = (state, answer)
        return found[1]
