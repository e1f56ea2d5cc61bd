"""Putting a traced graph in at a place of an editor's graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch.fx import Graph, Node
from torch.fx.node import map_arg

from lowerscope.editor import Editor


def splice(traced: Graph, inputs: Sequence[Any], like: Node, edit: Editor) -> Any:
    """Insert the calls of `traced`, its placeholders standing for `inputs` in order; what gives its value, or values.

    The nodes take module path and source line from `like`.
    """
    inner: dict[Node, Any] = {}
    given = iter(inputs)
    for node in traced.nodes:
        if node.op == "placeholder":
            inner[node] = next(given)
        elif node.op == "call_function":
            args = cast("tuple[Any, ...]", map_arg(node.args, inner.__getitem__))
            kwargs = cast("dict[str, Any]", map_arg(dict(node.kwargs), inner.__getitem__))
            inner[node] = edit.insert_call(node.target, args, kwargs, val=node.meta.get("val"), like=like)
    return map_arg(traced.output_node().args[0], inner.__getitem__)
