"""Which of a program's placeholders a run writes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec


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


def _written_in_place(graph: torch.fx.Graph) -> set[str]:
    """The placeholders that an in-place operator writes to, directly or through a view."""
    sources: dict[torch.fx.Node, str] = {}
    written: set[str] = set()
    for node in graph.nodes:
        if node.op == "placeholder":
            sources[node] = node.name
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            continue
        for position, argument in enumerate(schema.arguments):
            if argument.alias_info is None:
                continue
            value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            for source in {sources[n] for n in _nodes_in(value) if n in sources}:
                sources[node] = source
                if argument.alias_info.is_write:
                    written.add(source)
    return written


def _nodes_in(value: Any) -> list[torch.fx.Node]:
    if isinstance(value, torch.fx.Node):
        return [value]
    if isinstance(value, (list, tuple)):
        return [node for item in value for node in _nodes_in(item)]
    return []
