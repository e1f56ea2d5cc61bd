"""Symbolic sizes of a graph as numbers: the symbols are bound by the shapes of the inputs that are run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind

if TYPE_CHECKING:
    from lowerscope.program import Program

_KINDS = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def bind(node: torch.fx.Node, value: Any, symbols: dict[Any, int]) -> None:
    """Enter into `symbols` what a placeholder's value says about the symbols of its fake value."""
    fake = node.meta.get("val")
    pairs: Sequence[tuple[Any, Any]] = [(fake, value)]
    if isinstance(fake, torch.Tensor) and isinstance(value, torch.Tensor) and fake.dim() == value.dim():
        pairs = list(zip(fake.shape, value.shape, strict=True))
    for size, actual in pairs:
        if isinstance(size, torch.SymInt) and isinstance(actual, int) and size.node.expr.is_Symbol:
            symbols[size.node.expr] = actual


def resolve(size: Any, symbols: Mapping[Any, int]) -> Any:
    """A size as a number, or None where it depends on what the data turn out to be; anything else as it is."""
    if not isinstance(size, tuple(_KINDS)):
        return size
    value = size.node.expr.subs(symbols)
    return None if value.free_symbols else _KINDS[type(size)](value)


def symbols_of(program: Program, flat_inputs: Sequence[Any]) -> dict[Any, int]:
    """Symbol -> size, for a program's inputs in the order of its placeholders."""
    exported = program.exported_program
    placeholders = (node for node in exported.graph.nodes if node.op == "placeholder")
    symbols: dict[Any, int] = {}
    feed = iter(flat_inputs)
    for node, spec in zip(placeholders, exported.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            bind(node, next(feed, None), symbols)
    return symbols
