"""Activations that a convolution may end with, read from their nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import arguments, in_order
from lowerscope.check import Check
from lowerscope.ops import display_name

aten = torch.ops.aten

#: ops that hold a value between two bounds; `clamp.Tensor` is among them so that its bounds can be named as the fault
CLAMPING = (aten.relu.default, aten.hardtanh.default, aten.clamp.default, aten.clamp.Tensor)


def clamping_reader(node: Node) -> Node | None:
    """The first reader of a node that is one of `CLAMPING`."""
    for user in in_order(node.users):
        if user.target in CLAMPING:
            return user
    return None


def clamp_follows(check: Check, name: str, before: Node) -> Node:
    """The condition `name`: one of `CLAMPING` reads `before`; returns it. At fault is what reads it instead."""
    found = clamping_reader(before)
    follower = found if found is not None else min(before.users, default=before)
    check.follows(
        name,
        found is not None,
        at=follower,
        expected="relu, hardtanh or clamp",
        actual="a graph output" if follower.op == "output" else display_name(follower.target),
    )
    assert found is not None
    return found


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a clamping op holds its input between: numbers, an open side as -inf or inf, or nodes that compute a bound."""

    low: Any
    high: Any

    @classmethod
    def of(cls, node: Node) -> Bounds:
        """Read one of `CLAMPING`: relu is [0, inf], hardtanh [-1, 1] where it does not say, and None leaves a side open."""
        if node.target is aten.relu.default:
            return cls(0.0, math.inf)
        a = arguments(node)
        low, high = (a["min_val"], a["max_val"]) if node.target is aten.hardtanh.default else (a["min"], a["max"])
        return cls(-math.inf if low is None else low, math.inf if high is None else high)

    def computed(self) -> Iterator[Node]:
        """The bounds that the graph computes, which no operator can carry as a number."""
        return (bound for bound in (self.low, self.high) if isinstance(bound, Node))

    def as_floats(self) -> tuple[float, float]:
        """Both bounds as the floats that a fused operator takes; call it when none is computed."""
        return float(self.low), float(self.high)
