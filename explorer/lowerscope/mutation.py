"""Which of a program's placeholders a run writes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec

from lowerscope.arguments import arguments
from lowerscope.subgraph_constants import outer_operand


def mutated_placeholders(
    graph: torch.fx.Graph, signature: ExportGraphSignature, specs: Mapping[str, InputSpec]
) -> frozenset[str]:
    """The placeholders that are written to: as the signature's mutation outputs say, or by an in-place operator.

    Args:
        graph: the top graph, functional or not.
        signature: of the same program.
        specs: placeholder name -> its input spec.
    """
    states = set(signature.buffers_to_mutate.values()) | set(signature.parameters_to_mutate.values())
    inputs = set(signature.user_inputs_to_mutate.values())
    names = {
        name
        for name, spec in specs.items()
        if (spec.kind in (InputKind.BUFFER, InputKind.PARAMETER) and spec.target in states) or name in inputs
    }
    return frozenset(names | _written_in_place(graph))


#: Operators that write to their running statistics without their schemas saying so, by the argument that decides it.
_UPDATES_STATISTICS = {
    "aten::batch_norm": "training",
    "aten::native_batch_norm": "training",
    "aten::cudnn_batch_norm": "training",
    "aten::_batch_norm_impl_index": "training",
    "aten::instance_norm": "use_input_stats",
}


def _written_in_place(graph: torch.fx.Graph) -> set[str]:
    """The placeholders that an in-place operator writes to: directly, through a view, or inside a sub-graph."""
    sources: dict[torch.fx.Node, str] = {}
    written: set[str] = set()
    for node in graph.nodes:
        if node.op == "placeholder":
            sources[node] = node.name
        for operand in _written_in_sub_graphs(node):
            written.update({sources[operand]} if operand in sources else ())
        for value, is_write, is_alias in _touched(node):
            for source in {sources[n] for n in _nodes_in(value) if n in sources}:
                if is_alias:
                    sources[node] = source
                if is_write:
                    written.add(source)
    return written


def written_into(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes that the call at `node` writes into, whether or not its schema says so."""
    return [found for value, is_write, _ in _touched(node) if is_write for found in _nodes_in(value)]


def _hidden_writes(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes that the call at `node` writes into without its schema saying so."""
    schema = getattr(node.target, "_schema", None)
    flag = None if schema is None else _UPDATES_STATISTICS.get(schema.name)
    if flag is None:
        return []
    given = arguments(node)
    statistics = [given["running_mean"], given["running_var"]] if given[flag] is True else []
    return [value for value in statistics if isinstance(value, torch.fx.Node)]


def _touched(node: torch.fx.Node) -> Iterator[tuple[Any, bool, bool]]:
    """(argument, whether it is written to, whether the result shares its memory) of the call at `node`."""
    for target in _hidden_writes(node):
        yield target, True, False
    schema = getattr(node.target, "_schema", None)
    if schema is None or all(argument.alias_info is None for argument in schema.arguments):
        return
    given = arguments(node)
    for argument in schema.arguments:
        if argument.alias_info is not None:
            yield given.get(argument.name), argument.alias_info.is_write, True


def _written_in_sub_graphs(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The operands of a higher-order operator that one of its sub-graphs writes to."""
    owner = node.graph.owning_module
    if node.op != "call_function" or owner is None:
        return
    for holder in node.all_input_nodes:
        held = getattr(owner, str(holder.target), None) if holder.op == "get_attr" else None
        if isinstance(held, torch.fx.GraphModule):
            inner = _written_in_place(held.graph)
            for placeholder, operand in outer_operand(node, holder, held.graph):
                if placeholder.name in inner:
                    yield operand


def _nodes_in(value: Any) -> list[torch.fx.Node]:
    if isinstance(value, torch.fx.Node):
        return [value]
    if isinstance(value, (list, tuple)):
        return [node for item in value for node in _nodes_in(item)]
    return []
