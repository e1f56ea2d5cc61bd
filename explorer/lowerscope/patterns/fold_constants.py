"""fold_constants: what constants alone compute becomes a constant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from lowerscope.arguments import shape_of, value_of
from lowerscope.check import Check, Condition
from lowerscope.editor import Editor
from lowerscope.ops import display_name
from lowerscope.pattern import ANY, Declined, Kind, Match, Pattern, pattern

#: A result larger than this (in elements) is left to be computed: a lookup table expanded to a file of gigabytes helps nobody.
_LARGEST = 2**24
#: ... unless it is no larger than what it is computed from, as a reshaped weight is.


@pattern("*", after=["core_aten"], source="pytorch/executorch#25041")
class FoldConstants(Pattern):
    """f(c1, c2, ...) = c, computed once: a call whose tensors are all constants becomes a constant of the same value.

    Any shape and dtype; the value is bit for bit what the ops give when the program runs. Weight norm's
    `g * v / norm(v)` becomes the weight that a convolution's pattern can read. Never a random result, never a huge one.
    """

    name, kind, anchors = "fold_constants", Kind.FOLD, ANY
    conditions = (
        Condition("constant_inputs", "everything that it computes from is a constant"),
        Condition("pure", "the ops are deterministic and write nothing"),
        Condition("one_tensor", "the result is one tensor"),
        Condition("not_huge", "the result is not huge"),
    )
    nothing_to_fuse = ("constant_inputs",)

    def anchors_in(self, editor: Editor) -> Iterable[Node]:
        """The last call of every run that constants alone feed; found in one pass, since most calls are none."""
        for graph in editor.graphs.values():
            known: set[Node] = set()
            for node in graph.nodes:
                inputs = node.all_input_nodes
                if editor.is_constant(node) or (node.op == "call_function" and inputs and known.issuperset(inputs)):
                    known.add(node)
            for node in graph.nodes:
                if node in known and node.op == "call_function" and not known.issuperset(node.users):
                    yield node

    def match(self, anchor: Node, check: Check) -> Match | None:
        computed: dict[Node, None] = {}
        varying = _walk(anchor, check, computed)
        check.that("constant_inputs", varying is None, at=varying or anchor, expected="constants", actual=varying)
        if all(_only_constants(user, check, computed) for user in anchor.users):
            check.fail(
                "constant_inputs", at=anchor, expected="a reader that needs the value", actual="part of a larger fold"
            )
        impure = next((n for n in computed if _impure(n)), None)
        check.that(
            "pure",
            impure is None,
            at=impure or anchor,
            expected="a pure op",
            actual=impure and display_name(impure.target),
        )
        split = next((n for n in computed if not isinstance(value_of(n), torch.Tensor)), None)
        check.that("one_tensor", split is None, at=split or anchor, expected="one tensor", actual=split)
        size, sources = value_of(anchor).numel(), _sources(computed)
        limit = max([_LARGEST, *(value_of(s).numel() for s in sources)])
        check.at_most("not_huge", size, limit, at=anchor)
        nodes = tuple(sorted(computed))
        kept = tuple(n for n in nodes if n is anchor or all(u in computed for u in n.users))
        return Match(anchor, kept, anchor, {"computed": nodes, "sources": sources})

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        order: tuple[Node, ...] = match["computed"]
        like = max(match["sources"], key=lambda n: value_of(n).numel())
        names = tuple(edit.id_of(edit.constant_origin(s)) for s in match["sources"])
        recipe = tuple((str(n.target), str(n.args), str(n.kwargs)) for n in order)
        return edit.constant(lambda: _compute(order, edit), like, "folded", key=(names, recipe))

    def sentence(self, match: Match) -> str:
        count, shape = len(match["computed"]), "×".join(str(s) for s in shape_of(match.anchor) or ())
        return f"{count} call{'s' if count != 1 else ''} on constants become{'s' if count == 1 else ''} one constant of shape {shape or 'scalar'}."


def _walk(node: Node, check: Check, computed: dict[Node, None]) -> Node | None:
    """Collect the calls that `node` is computed by; the first input found that is no constant."""
    todo, seen = [node], {node}
    while todo:
        current = todo.pop()
        if check.is_constant(current):
            continue
        if current.op != "call_function" or not current.all_input_nodes:
            return current
        computed[current] = None
        for source in current.all_input_nodes:
            if source not in seen:
                seen.add(source)
                todo.append(source)
    return None


def _only_constants(user: Node, check: Check, computed: dict[Node, None]) -> bool:
    """Whether a reader of the anchor is itself a call on constants alone, and so the larger fold."""
    if user.op != "call_function" or not isinstance(value_of(user), torch.Tensor) or _impure(user):
        return False
    return all(n in computed or check.is_constant(n) for n in user.all_input_nodes)


def _impure(node: Node) -> bool:
    tags = getattr(node.target, "tags", ())
    schema = getattr(node.target, "_schema", None)
    return torch.Tag.nondeterministic_seeded in tags or (schema is not None and bool(schema.is_mutable))


def _sources(computed: dict[Node, None]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(s for n in computed for s in n.all_input_nodes if s not in computed))


def _compute(order: tuple[Node, ...], edit: Editor) -> torch.Tensor:
    values: dict[Node, Any] = {}

    def value(node: Node) -> Any:
        return values[node] if node in values else edit.constant_value(node).detach()

    with torch.no_grad():
        for node in order:
            args: Any = map_arg(node.args, value)
            kwargs: Any = map_arg(dict(node.kwargs), value)
            values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
    # a view would keep the whole of what it looks into in the saved program, and tie the two together
    return values[order[-1]].clone()
