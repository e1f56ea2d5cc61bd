"""The values of one node in two programs: how far they are apart, and which is nearer to a float64 run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lowerscope.measure.compare import EQUAL, INCOMPARABLE, NONDETERMINISTIC, Comparison, compare, ratio
from lowerscope.measure.report import severity


def compare_values(reference: Any, value: Any, tolerance: float | None, *, random: bool) -> Comparison:
    """The worst comparison among the leaves of a node's value.

    random: the node depends on random numbers or unset memory, so that a difference is not the rewrite's.
    """
    if len(pytree.tree_leaves(reference)) != len(pytree.tree_leaves(value)):
        return Comparison(INCOMPARABLE, "it returns another number of values")
    found = [compare(old, new, tolerance=tolerance) for old, new in _leaves(reference, value)]
    worst = max(found, key=lambda c: (severity(c.verdict), c.worst), default=Comparison(EQUAL))
    if not random or worst.verdict in (EQUAL, INCOMPARABLE):
        return worst
    return replace(worst, verdict=NONDETERMINISTIC, why="it depends on random numbers or unset memory")


def rmse_ratio(exact: Any, old: Any, new: Any) -> float:
    """RMSE of `new` over that of `old`, both against a float64 run; 1 where they are alike, NaN where there is none."""
    before, after = (_noise(exact, value) for value in (old, new))
    if math.isnan(before) or math.isnan(after):
        return math.nan
    return 1.0 if before == after else ratio(math.sqrt(after), math.sqrt(before))


def _noise(exact: Any, value: Any) -> float:
    leaves = [(a, b) for a, b in _leaves(exact, value) if isinstance(a, torch.Tensor) and a.is_floating_point()]
    found = [compare(a, b, check_dtype=False) for a, b in leaves]
    return sum(c.noise for c in found) if found else math.nan


def _leaves(reference: Any, value: Any) -> list[tuple[Any, Any]]:
    return list(zip(pytree.tree_leaves(reference), pytree.tree_leaves(value), strict=False))
