"""fold_constants: what constants alone compute becomes a constant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from lowerscope.arguments import shape_of, value_of
from lowerscope.check import Check, Condition
from lowerscope.decompose import QUANTIZATION
from lowerscope.editor import Editor
from lowerscope.mutation import written_into
from lowerscope.ops import display_name
from lowerscope.pattern import ANY, Declined, Kind, Match, Pattern, pattern

#: A result larger than this (in elements) is left to be computed, unless it is no larger than what it is computed from, as
#: a reshaped weight is: a lookup table expanded to a file of gigabytes helps nobody.
_LARGEST = 2**24


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
        Condition("not_written", "nothing writes into the result afterwards"),
        Condition("not_quantized", "none of the ops quantizes or dequantizes: a quantized weight stays one"),
        Condition("one_tensor", "the result is one tensor"),
        Condition("not_huge", "the result is not huge"),
    )
    nothing_to_fuse = ("constant_inputs", "not_quantized")

    def anchors_in(self, editor: Editor) -> Iterable[Node]:
        """The last call of every run that constants alone feed, and each call that ends one because it may not be folded.

        Found in one pass, since most calls are none.
        """
        for graph in editor.graphs.values():
            known: set[Node] = set()
            found: list[Node] = []
            for node in graph.nodes:
                if editor.is_constant(node):
                    known.add(node)
                elif node.op == "call_function" and (inputs := node.all_input_nodes):
                    written = [n for n in inputs if n.op == "placeholder" and editor.id_of(n) in editor.program.mutated]
                    if not known.issuperset(n for n in inputs if n not in written):
                        continue
                    if not written and _fit(node):
                        known.add(node)
                    elif value_of(node) is not None:
                        found.append(node)
            ends = (n for n in known if n.op == "call_function")
            found += [n for n in ends if not all(u in known or _leads_nowhere(u) for u in n.users)]
            yield from sorted(found)

    def match(self, anchor: Node, check: Check) -> Match | None:
        computed: dict[Node, None] = {}
        varying = _walk(anchor, check, computed)
        check.that(
            "constant_inputs", varying is None, at=varying or anchor, expected="constants",
            actual="constants" if varying is None else f"{varying.name}, which the program writes to",
        )  # fmt: skip
        impure = next((n for n in computed if _impure(n)), None)
        check.that("pure", impure is None, at=impure or anchor, expected="a pure op", actual=_called(impure))
        writer = next((u for n in sorted(computed) for u in n.users if n in written_into(u)), None)
        check.that(
            "not_written", writer is None, at=writer or anchor, expected="readers only",
            actual=_called(writer), because=writer and "it would write into the program's own constant",
        )  # fmt: skip
        quantizing = next((n for n in computed if _quantizes(n)), None)
        check.that(
            "not_quantized", quantizing is None, at=quantizing or anchor, expected="no quantization",
            actual=_called(quantizing),
        )  # fmt: skip
        value = value_of(anchor)
        check.that(
            "one_tensor", isinstance(value, torch.Tensor), at=anchor, expected="a tensor", actual=type(value).__name__
        )
        sources = _sources(computed)
        limit = max([_LARGEST, *(value_of(s).numel() for s in sources)])
        check.at_most("not_huge", value.numel(), limit, at=anchor)
        order = tuple(sorted(computed))
        return Match(anchor, _taken(order, anchor), anchor, {"computed": order, "sources": sources})

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


def _taken(order: tuple[Node, ...], anchor: Node) -> tuple[Node, ...]:
    """Of the calls that are computed, those that nothing outside reads, with the readers of theirs that lead nowhere."""
    taken = {anchor}
    for node in reversed(order):
        unread = [u for u in node.users if _leads_nowhere(u)]
        if node is anchor or all(u in taken or u in unread for u in node.users):
            taken.update((node, *(unread if node is not anchor else ())))
    return tuple(sorted(taken))


def _leads_nowhere(node: Node) -> bool:
    """Whether a call has no readers and no effect, like an unused part of a split or a check of a constant's dtype."""
    return node.op == "call_function" and not node.users and not _impure(node)


def _fit(node: Node) -> bool:
    """Whether a call on constants may be part of a fold."""
    value = value_of(node)
    values = value if isinstance(value, (tuple, list)) else (value,)
    if _impure(node) or _quantizes(node) or not all(isinstance(v, torch.Tensor) for v in values):
        return False
    sizes = [n.numel() for n in map(value_of, node.all_input_nodes) if isinstance(n, torch.Tensor)]
    return all(v.numel() <= max([_LARGEST, *sizes]) for v in values)


def _quantizes(node: Node) -> bool:
    return getattr(node.target, "namespace", "") in QUANTIZATION


def _called(node: Node | None) -> str | None:
    return None if node is None else display_name(node.target)


def _impure(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) or bool(written_into(node))


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
