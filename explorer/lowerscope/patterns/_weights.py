"""Weights that a backend packs before the program runs."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from lowerscope.check import Check
from lowerscope.partition_graph import keeps_constant


def are_constants(check: Check, name: str, anchor: Node, *weights: Any) -> None:
    """The condition `name`: each of `weights` is a constant, one merely transposed or dequantized, or left out."""
    computed = None
    for w in weights:
        if not check.is_constant(w) and isinstance(w, Node) and not check.is_constant(_source(check, w)):
            computed = w
            break
    check.that(
        name, computed is None, at=computed or anchor, expected="constants", actual=computed or "constants",
        because="weights are packed before the program runs",
    )  # fmt: skip


def _source(check: Check, weight: Any) -> Any:
    while isinstance(weight, Node) and not check.is_constant(weight) and keeps_constant(weight.target, True):
        weight = weight.args[0]
    return weight
