"""Strides behind a replacement that lays its value out otherwise than what it replaces: those of all that reads it follow.

A later op is decomposed by the strides of its inputs: by stale ones into a view that no run can make.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

from lowerscope.errors import RewriteError
from lowerscope.fake_run import sizes_agree

if TYPE_CHECKING:
    from lowerscope.editor import Editor

aten = torch.ops.aten

#: Computing such a call's fake value again would give its sizes other symbols.
_OF_DATA = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})


def same_strides(made: Any, wanted: Any) -> bool:
    """Whether two fake values of the same shapes are laid out alike; the stride of an axis of size 1 says nothing."""
    if made is wanted:
        return True
    if isinstance(made, (tuple, list)) and isinstance(wanted, (tuple, list)):
        return all(map(same_strides, made, wanted))
    if not isinstance(made, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        return True
    if made.layout is not torch.strided or wanted.layout is not torch.strided:
        return True
    rows = zip(made.shape, made.stride(), wanted.stride(), strict=True)
    return all(m is w or statically_known_true(m == w) or statically_known_true(size == 1) for size, m, w in rows)


def follow(editor: Editor, changed: Node) -> None:
    """Compute the fake values again of what reads `changed`, as far as their strides change.

    A view that the new strides do not allow reads a contiguous copy. RewriteError: another op refuses them.
    """
    heap, seen = list(_readers(changed)), set(_readers(changed))
    heapq.heapify(heap)
    while heap:
        node = heapq.heappop(heap)
        before = node.meta["val"]
        value = _value(editor, node)
        # whose sizes come out otherwise is left as it is: they are what the rest of the graph was exported with
        if same_strides(value, before) or not _same_shapes(value, before):
            continue
        editor.set_value(node, value)
        for reader in _readers(node):
            if reader not in seen:
                seen.add(reader)
                heapq.heappush(heap, reader)


def _readers(node: Node) -> Iterator[Node]:
    return (u for u in node.users if u.op == "call_function" and _is_plain(u) and u.meta.get("val") is not None)


def _is_plain(node: Node) -> bool:
    target = node.target
    return target is operator.getitem or (isinstance(target, OpOverload) and _OF_DATA.isdisjoint(target.tags))


def _value(editor: Editor, node: Node) -> Any:
    try:
        return editor.run_again(node)
    except (RuntimeError, ValueError) as error:  # torch says both of a view that the strides do not allow
        source = node.args[0] if node.args else None
        if node.target is not aten.view.default or not isinstance(source, Node):
            raise RewriteError(f"'{editor.id_of(node)}' needs its input laid out as it was: {error}") from error
    copy = editor.insert_call(
        aten.clone.default, (source,), {"memory_format": torch.contiguous_format}, like=node, before=node
    )
    editor.set_input(node, source, copy)
    return editor.run_again(node)


def _same_shapes(made: Any, wanted: Any) -> bool:
    pairs = zip(pytree.tree_leaves(made), pytree.tree_leaves(wanted), strict=False)
    return all(
        sizes_agree(m.shape, w.shape) for m, w in pairs if isinstance(m, torch.Tensor) and isinstance(w, torch.Tensor)
    )
