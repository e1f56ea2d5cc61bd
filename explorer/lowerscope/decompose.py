"""Decomposition of one op into core ATen: traced on its own fake inputs with torch's own table, and memoised.

Decomposing a program op by op gives the ops that `ExportedProgram.run_decompositions` gives, with names and provenance
kept, in a fraction of the time: a network calls few distinct (op, shapes, literals).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._export.utils import _is_preservable_cia_op
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from lowerscope.errors import RewriteError
from lowerscope.fake_run import Undescribable, describe, is_symbolic, sizes_kept
from lowerscope.ops import is_own


@dataclass(frozen=True, slots=True)
class Decomposition:
    """An op traced into core ATen: a graph whose placeholders are the op's nodes among its arguments, in order."""

    graph: Graph


_MEMO: dict[Any, Decomposition | None] = {}
_MEMO_LIMIT = 20_000


@cache
def table() -> dict[Any, Any]:
    """torch's default decompositions, as a plain dict."""
    return dict(torch.export.default_decompositions().items())


@cache
def decomposes(target: OpOverload) -> bool:
    """Whether torch decomposes the op at all, whatever its arguments."""
    if is_own(target) or target in _KEPT or target.namespace in QUANTIZATION:
        return False
    if target in table() or target is torch.ops.aten.lift_fresh_copy.default:
        return True
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")
    return composite and not _is_preservable_cia_op(target)  # torch keeps those that its table leaves out


#: Namespaces that a quantized graph is written in: taken apart, its operators are arithmetic that no backend recognises.
QUANTIZATION = frozenset({"quantized_decomposed", "quantized", "torchao"})

#: CompositeImplicit only in name: asking for a size is not a computation.
_KEPT = frozenset({torch.ops.aten.sym_size.int, torch.ops.aten.sym_stride.int, torch.ops.aten.sym_numel.default})


def decomposition(node: Node) -> Decomposition | None:
    """The decomposition of the call at `node`, or None when torch leaves these arguments as they are."""
    try:
        key: Any = (node.target, describe(node.args), describe(node.kwargs), _places(node))
        if key in _MEMO:
            return _MEMO[key]
    except (Undescribable, TypeError):  # symbolic sizes, or an argument that cannot be hashed
        key = None
    leaves, structure = pytree.tree_flatten((node.args, dict(node.kwargs)))
    values = [leaf.meta.get("val") if isinstance(leaf, Node) else leaf for leaf in leaves]
    found = _trace(node, leaves, values, structure)
    if key is not None and not _depends_on_data(found):
        if len(_MEMO) >= _MEMO_LIMIT:
            _MEMO.clear()
        _MEMO[key] = found
    return found


def _trace(node: Node, leaves: list[Any], values: list[Any], structure: Any) -> Decomposition | None:
    target: Any = node.target
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Node)]

    def call(*inputs: Any) -> Any:
        filled = list(values)
        for place, value in zip(places, inputs, strict=True):
            filled[place] = value
        args, kwargs = pytree.tree_unflatten(filled, structure)
        return target(*args, **kwargs)

    # a factory such as zeros has no tensor among its arguments
    known = [*values, *pytree.tree_leaves(node.meta.get("val"))]
    mode = next((v.fake_mode for v in known if isinstance(v, FakeTensor)), None)
    if mode is None:
        return None
    with enable_python_dispatcher(), mode, torch.no_grad():
        # composite operators may choose by requires_grad, which the tensors of a run do not have
        inputs = [values[i].detach() if isinstance(values[i], torch.Tensor) else values[i] for i in places]
        try:
            with sizes_kept(mode, target):
                graph = make_fx(call, decomposition_table=table())(*inputs).graph
        except RewriteError:  # it would hold for the example's sizes alone
            return None
    for lifted in graph.find_nodes(op="call_function", target=torch.ops.aten.lift_fresh_copy.default):
        lifted.target = torch.ops.aten.clone.default  # as functionalisation leaves it
    graph.eliminate_dead_code()
    calls = [n for n in graph.nodes if n.op != "placeholder" and n.op != "output"]
    if any(n.op == "get_attr" for n in calls):
        return None  # a tensor made while tracing would be baked in
    if any(n.target is target for n in calls):
        return None
    return Decomposition(graph)


def _depends_on_data(found: Decomposition | None) -> bool:
    """Whether a size or number in the trace is known only when it runs: every call has symbols of its own for those."""
    return found is not None and any(pytree.tree_any(is_symbolic, n.meta.get("val")) for n in found.graph.nodes)


def _places(node: Node) -> tuple[int, ...]:
    """The positions of a call's node arguments: what is a literal is baked into the trace, what is a node is not."""
    return tuple(i for i, value in enumerate(node.args) if isinstance(value, Node))
