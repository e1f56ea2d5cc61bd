"""core_aten: torch's own decompositions, node by node, as steps that one can see, skip, and ask about."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from lowerscope.arguments import dtype_of
from lowerscope.check import Check, Condition
from lowerscope.decompose import Decomposition, decomposes, decomposition
from lowerscope.editor import Editor
from lowerscope.fake_run import is_symbolic, sizes_agree
from lowerscope.functional import functional_twin, is_simple, later_readers, writes
from lowerscope.ops import display_name
from lowerscope.partition_graph import is_getitem
from lowerscope.pattern import ANY, Declined, Kind, Match, Pattern, pattern
from lowerscope.splice import splice

aten = torch.ops.aten


@pattern("*", source="torch.export.default_decompositions")
class CoreAten(Pattern):
    """f(x, ...) = the same function written in core ATen operators, by torch's own table.

    conv2d becomes convolution, linear becomes permute and addmm, hardswish becomes add, clamp, mul and div. Shapes and
    dtypes of every output stay. An in-place op becomes its functional twin first. An op that the target or the recipe
    keeps stays whole.
    """

    name, kind, anchors = "core_aten", Kind.DECOMPOSITION, ANY
    conditions = (
        Condition("not_kept", "neither target nor recipe keeps the op whole"),
        Condition("has_decomposition", "torch's table has a decomposition into core ATen for these arguments"),
    )
    nothing_to_fuse = ("not_kept", "has_decomposition")
    repeats = True
    honours_plain_skips = False

    def is_anchor(self, node: Node) -> bool:
        return isinstance(node.target, OpOverload) and (writes(node) or decomposes(node.target))

    def match(self, anchor: Node, check: Check) -> Match | None:
        name = display_name(anchor.target)
        kept = check.profile.get("keep", frozenset())
        keeper = name if name in kept else next((k for k in kept if name.startswith(k + ".")), None)
        check.that("not_kept", keeper is None, at=anchor, expected="not kept", actual=f"{name} is kept")
        if writes(anchor):
            check.that(
                "has_decomposition", is_simple(anchor), at=anchor, expected="a write nobody else sees", actual=name
            )
            return Match(anchor, (anchor,), anchor, {"in_place": True, "twin": functional_twin(anchor.target)})
        found = decomposition(anchor)
        check.that("has_decomposition", found is not None, at=anchor, expected="a decomposition", actual="none")
        parts = _getitems(anchor)
        return Match(anchor, (anchor, *parts), anchor, {"in_place": False, "found": found})

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        anchor = match.anchor
        if match["in_place"]:
            written = anchor.args[0]
            assert isinstance(written, Node)
            if match["twin"] is aten.detach.default:
                return written
            twin = edit.insert_call(match["twin"], anchor.args, anchor.kwargs)
            if dtype_of(twin) != dtype_of(written):  # in place, what is written keeps its dtype
                twin = edit.call(aten._to_copy.default, twin, dtype=dtype_of(written))
            edit.replace(written, twin, readers=later_readers(anchor, written))
            return twin
        found: Decomposition = match["found"]
        leaves = [leaf for leaf in pytree.arg_tree_leaves(*anchor.args, **anchor.kwargs) if isinstance(leaf, Node)]
        results = splice(found.graph, leaves, anchor, edit)
        if not isinstance(results, (tuple, list)):
            _keep_symbols(anchor, results, edit)
            return results
        for part in _getitems(anchor):
            result = results[part.args[1]]  # type: ignore[index]
            _keep_symbols(part, result, edit)
            edit.replace(part, result)
        return None

    def sentence(self, match: Match) -> str:
        name = display_name(match.anchor.target)
        if match["in_place"] and match["twin"] is not aten.detach.default:
            return f"{name} becomes {display_name(match['twin'])}, which writes nothing."
        nodes = [] if match["in_place"] else match["found"].graph.nodes
        names = list(dict.fromkeys(display_name(n.target) for n in nodes if n.op == "call_function"))
        return f"{name} becomes {', '.join(names)}." if names else f"{name} does nothing here and goes."


def _keep_symbols(old: Node, new: Any, edit: Editor) -> None:
    """Let a number or size that is known only when the program runs keep the symbol by which later nodes know it."""
    value, made = old.meta.get("val"), new.meta.get("val") if isinstance(new, Node) else None
    if not is_symbolic(value) or not is_symbolic(made):
        return
    if isinstance(value, torch.Tensor) and isinstance(made, torch.Tensor) and sizes_agree(made.shape, value.shape):
        return  # its strides are its own: by those of the op it replaces, a later op would be decomposed into a wrong view
    edit.set_value(new, value)


def _getitems(node: Node) -> tuple[Node, ...]:
    """The readers that take one output out of a node with several."""
    if not isinstance(node.meta.get("val"), (tuple, list)):
        return ()
    return tuple(filter(is_getitem, node.users))
