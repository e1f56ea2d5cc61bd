"""Weights that a backend packs before the program runs."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from lowerscope.check import Check
from lowerscope.partition_graph import keeps_constant

PACKED = "weights are packed before the program runs"


def computed(check: Check, *weights: Any) -> Node | None:
    """The first of `weights` that is no constant, no constant merely transposed or dequantized, and not left out."""
    return next((w for w in weights if isinstance(w, Node) and not check.is_constant(_source(check, w))), None)


def _source(check: Check, weight: Any) -> Any:
    while isinstance(weight, Node) and not check.is_constant(weight) and keeps_constant(weight.target, True):
        weight = weight.args[0]
    return weight
