"""Comparing two lowerings: what fused in the one and not in the other, and why ("fused yesterday, not today")."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lowerscope.errors import LowerscopeError
from lowerscope.frame import Table
from lowerscope.lowering import Lowering, lower
from lowerscope.recipe import Recipe
from lowerscope.verdict import Outcome, Verdict

_COLUMNS = ["pattern", "nodes", "a", "b", "condition", "node", "why"]


def compare(a: Any, b: Any, *, target: str | None = None, program: Any = None) -> pd.DataFrame:
    """What is applied in `a` and not in `b`, or the other way round: a row per match.

    `a` and `b` are sessions, lowerings, programs (or paths), or recipes (then give `program`). Programs are lowered for
    `target`, by default "vulkan".

    Columns: pattern; nodes (original ones); a and b (the verdicts); condition and node (the root cause where it is
    missing); why. Matches are told apart by pattern, original nodes, and, when names differ, by module.

    UnknownNameError: no such target. LowerscopeError: a recipe came without a program.
    """
    one, two = _lowering(a, target, program), _lowering(b, target, program)
    rows = []
    for first, second, swapped in ((one, two, False), (two, one, True)):
        present = {_key(v) for v in second.verdicts.values() if v.outcome is Outcome.APPLIED}
        for verdict in first.verdicts.values():
            if verdict.outcome is not Outcome.APPLIED or _key(verdict) in present:
                continue
            other = _counterpart(verdict, first, second)
            words = (str(verdict.outcome), str(other.outcome) if other else "no such anchor")
            rows.append(
                {
                    "pattern": verdict.pattern,
                    "nodes": list(verdict.origins),
                    "a": words[1] if swapped else words[0],
                    "b": words[0] if swapped else words[1],
                    "condition": (other.failed or "") if other else "",
                    "node": (other.fault or "") if other else "",
                    "why": other.reason if other else _absent(verdict, second),
                }
            )
    return Table(rows, columns=pd.Index(_COLUMNS))


def _lowering(value: Any, target: str | None, program: Any) -> Lowering:
    from lowerscope.session import Session

    if isinstance(value, Lowering):
        return value
    if isinstance(value, Session):
        return value.lowering
    if isinstance(value, Recipe):
        if program is None:
            raise LowerscopeError("two recipes are compared on a program: give program=")
        return lower(program, value)
    return lower(value, target or "vulkan")


def _key(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.pattern, verdict.origins


def _counterpart(verdict: Verdict, first: Lowering, second: Lowering) -> Verdict | None:
    """The verdict in `second` that speaks of the same place: by original nodes, else by module and op."""
    wanted = set(verdict.origins)
    others = [v for v in second.verdicts_of(verdict.pattern) if v.outcome is not Outcome.APPLIED]
    shared = [v for v in others if wanted & set(second.ledger.origin(v.anchor))]
    if shared:
        return shared[0]
    place = first.ledger.records[verdict.anchor]
    alike = [v for v in others if second.ledger.records[v.anchor].module == place.module]
    return next((v for v in alike if second.ledger.records[v.anchor].target == place.target), None)


def _absent(verdict: Verdict, second: Lowering) -> str:
    stages = [s.pattern for s in second.stages]
    if verdict.pattern not in stages:
        return f"{verdict.pattern} is no pattern of target {second.recipe.target}"
    off = next(s.off for s in second.stages if s.pattern == verdict.pattern)
    return off or "none of these nodes is there"
