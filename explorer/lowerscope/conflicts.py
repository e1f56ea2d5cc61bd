"""Conflicts: patterns that claim the same nodes, who won and why, what flips it, and what it costs either way."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lowerscope.errors import LowerscopeError
from lowerscope.frame import Table
from lowerscope.lowering import Lowerer, Lowering
from lowerscope.measure.ledger_counts import count_alive
from lowerscope.measure.parity import parity
from lowerscope.recipe import Recipe, Skip
from lowerscope.verdict import Outcome, Verdict

_COLUMNS = [
    "winner",
    "at",
    "loser",
    "loser_at",
    "shared",
    "why",
    "flip",
    "operators",
    "operators_flipped",
    "parity_flipped",
]
#: Each flip is lowered by in full; beyond this many they are listed without being tried.
_MOST_TRIED = 24


def conflicts_frame(lowering: Lowering) -> pd.DataFrame:
    """A row per match that lost its nodes to another one.

    Columns: winner and at, loser and loser_at (patterns and anchors); shared (the original nodes that both claim); why
    the winner won; flip (a line of Python, tried: "" when no flip makes the loser apply); operators as it is and
    operators_flipped; parity_flipped, the verdict of the flipped lowering against the original.
    """
    order = [s.pattern for s in lowering.stages]
    lowerer = Lowerer(lowering.source)
    now = sum(count_alive(lowering.ledger).values())
    rows = []
    for verdict in lowering.verdicts.values():
        won = lowering.verdicts.get(verdict.by) if verdict.by is not None else None
        if verdict.outcome is not Outcome.SHADOWED or won is None or won.pattern == "core_aten":
            continue
        row: dict[str, Any] = {
            "winner": won.pattern,
            "at": won.anchor,
            "loser": verdict.pattern,
            "loser_at": verdict.anchor,
            "shared": sorted(set(won.origins) & set(verdict.origins)),
            "why": _why(order, won, verdict),
            "flip": "",
            "operators": now,
        }
        if len(rows) < _MOST_TRIED:
            row.update(_flipped(lowerer, lowering, won, verdict))
        rows.append(row)
    return Table(rows, columns=pd.Index(_COLUMNS))


def _why(order: list[str], won: Verdict, lost: Verdict) -> str:
    if won.pattern == lost.pattern:
        return f"'{won.anchor}' stands before '{lost.anchor}' in the graph"
    stages = order.index(won.pattern) + 1, order.index(lost.pattern) + 1
    return f"{won.pattern} is stage {stages[0]}, {lost.pattern} stage {stages[1]}"


def _flipped(lowerer: Lowerer, lowering: Lowering, won: Verdict, lost: Verdict) -> dict[str, Any]:
    for line, recipe in _flips(lowering.recipe, won, lost):
        try:
            tried = lowerer.lower(recipe)
        except LowerscopeError:  # an order constraint forbids it: the next way may work
            continue
        claimed = set(lost.origins)
        if any(v.outcome is Outcome.APPLIED and claimed <= set(v.origins) for v in tried.verdicts_of(lost.pattern)):
            report = parity(lowering.source, tried.program, oracle=False)
            count = sum(count_alive(tried.ledger).values())
            return {"flip": line, "operators_flipped": count, "parity_flipped": str(report.verdict)}
    return {}


def _flips(recipe: Recipe, won: Verdict, lost: Verdict) -> list[tuple[str, Recipe]]:
    skip = Skip(won.pattern, match=won.origins)
    ways = [(f"session.skip(pattern={won.pattern!r}, match={won.anchor!r})", recipe.skip(skip))]
    if won.pattern != lost.pattern:
        ways.append(
            (
                f"session.insert({lost.pattern!r}, before={won.pattern!r})",
                recipe.insert(lost.pattern, before=won.pattern),
            )
        )
        ways.append((f"session.disable({won.pattern!r})", recipe.disable(won.pattern)))
    return ways
