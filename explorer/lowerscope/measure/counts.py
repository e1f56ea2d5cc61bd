"""Operators of a program, counted: what one is, what it is called, and how many there are before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from lowerscope.ops import display_name

if TYPE_CHECKING:
    from lowerscope.ledger import NodeRecord
    from lowerscope.program import Program

# Questions about a tensor that a runtime answers from its shape, and guards: nothing is computed.
_NOT_COMPUTING = frozenset(
    {
        "aten::sym_size",
        "aten::sym_stride",
        "aten::sym_numel",
        "aten::sym_storage_offset",
        "aten::sym_is_contiguous",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
        "aten::_assert_async",
        "aten::_assert_scalar",
        "aten::_assert_tensor_metadata",
        "aten::_functional_assert_async",
        "aten::_functional_assert_scalar",
        "aten::_functional_sym_constrain_range",
        "aten::_functional_sym_constrain_range_for_size",
        "aten::_make_dep_token",
        "prims::_make_token",
        "prims::_sink_tokens",
    }
)
# Higher-order operators that only say how their sub-graph runs; the operators inside it count.
_CONTEXTS = frozenset({"wrap_with_set_grad_enabled", "wrap_with_autocast"})
# Higher-order operators that stand for the one operator which is their argument at this position.
_WRAPPED = {"auto_functionalized": 0, "auto_functionalized_v2": 0, "with_effects": 1}


def is_operator(node: torch.fx.Node | NodeRecord) -> bool:
    """Whether `node` computes: getitem, arithmetic on sizes, shape questions and asserts do not.

    Whether the node is dead is a question about its graph: see `operators`.
    """
    if node.op != "call_function":
        return False
    target = node.target
    if isinstance(target, HigherOrderOperator):
        return target.name() not in _CONTEXTS
    if isinstance(target, OpOverload):
        return target._schema.name not in _NOT_COMPUTING
    return isinstance(target, OpOverloadPacket)


def node_op_name(node: torch.fx.Node | NodeRecord) -> str:
    """The display name of what a node runs: of the wrapped operator where the node's target only functionalises it."""
    return display_name(effective_target(node))


def effective_target(node: torch.fx.Node | NodeRecord) -> Any:
    """The operator that a node runs: its target, or the operator which that higher-order target wraps."""
    target = node.target
    if isinstance(target, HigherOrderOperator) and target.name() in _WRAPPED:
        position = _WRAPPED[target.name()]
        if len(node.args) > position and isinstance(node.args[position], (OpOverload, OpOverloadPacket)):
            return node.args[position]
    return target


def live_nodes(module: torch.fx.GraphModule, path: str = "") -> Iterator[tuple[str, torch.fx.Node]]:
    """(node id, node) of every node that is not dead, in graph order, a sub-graph's before the node that runs it.

    A node is dead when no output and no effect (an in-place write, an assert) depends on it. A sub-graph that several
    nodes run is walked once.
    """
    yield from _live(module, path, set())


def operators(module: torch.fx.GraphModule) -> Iterator[tuple[str, torch.fx.Node]]:
    """(node id, node) of every operator of a graph module and its sub-graphs, dead nodes left out."""
    return ((node_id, node) for node_id, node in live_nodes(module) if is_operator(node))


def count_ops(program: Program) -> dict[str, int]:
    """Name of each operator -> how many there are in the program's graph and sub-graphs, by name."""
    counts: dict[str, int] = {}
    for _, node in operators(program.exported_program.graph_module):
        name = node_op_name(node)
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))


def op_counts(before: Program | Mapping[str, int], after: Program | Mapping[str, int]) -> pd.DataFrame:
    """Operators before and after: index ``op``, columns ``before``, ``after``, ``delta``; the last row is "total".

    Takes programs, or counts already made by `count_ops`.
    """
    old = dict(before) if isinstance(before, Mapping) else count_ops(before)
    new = dict(after) if isinstance(after, Mapping) else count_ops(after)
    names = sorted({*old, *new})
    rows = [(old.get(name, 0), new.get(name, 0)) for name in names]
    rows.append((sum(old.values()), sum(new.values())))
    frame = pd.DataFrame(rows, columns=["before", "after"], index=pd.Index([*names, "total"], name="op"), dtype="int64")
    frame["delta"] = frame["after"] - frame["before"]
    return frame


def sub_modules(node: torch.fx.Node, module: torch.fx.GraphModule) -> Iterator[tuple[str, torch.fx.GraphModule]]:
    """(attribute name, graph module) of each sub-graph that a node takes as an argument."""
    for argument in node.all_input_nodes:
        if argument.op == "get_attr":
            value = attribute(module, str(argument.target))
            if isinstance(value, torch.fx.GraphModule):
                yield str(argument.target), value


def attribute(module: torch.nn.Module, target: str) -> Any:
    """What a get_attr node of `module`'s graph reads."""
    value: Any = module
    for part in target.split("."):
        value = getattr(value, part)
    return value


def has_effect(node: torch.fx.Node, module: torch.fx.GraphModule) -> bool:
    """Whether a node must run though nothing reads it: it writes in place, asserts, or runs a sub-graph that does."""
    if node.is_impure(impure_random=False):
        return True
    return any(
        inner.op == "call_function" and has_effect(inner, sub)
        for _, sub in sub_modules(node, module)
        for inner in sub.graph.nodes
    )


def _live(module: torch.fx.GraphModule, path: str, seen: set[int]) -> Iterator[tuple[str, torch.fx.Node]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    alive: set[torch.fx.Node] = set()
    for node in reversed(module.graph.nodes):
        if node.op in ("placeholder", "output") or node in alive or has_effect(node, module):
            alive.add(node)
            alive.update(node.all_input_nodes)
    for node in module.graph.nodes:
        if node not in alive:
            continue
        for name, sub in sub_modules(node, module):
            yield from _live(sub, f"{path}{name}/", seen)
        yield f"{path}{node.name}", node
