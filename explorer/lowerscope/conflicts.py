"""Conflicts: patterns that claim the same nodes, who won and why, what flips it, and what it costs either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pandas as pd

from lowerscope.errors import LowerscopeError, MeasureError
from lowerscope.frame import Table
from lowerscope.lowering import Lowerer, Lowering
from lowerscope.measure.ledger_counts import count_alive
from lowerscope.measure.parity import parity
from lowerscope.program import Program
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
#: Each flip that is tried is a whole lowering; conflicts beyond this many are listed without one.
_MOST_TRIED = 24


@dataclass(frozen=True, slots=True)
class Conflict:
    """A match that lost its nodes to another one.

    winner, at, loser, loser_at: patterns and anchors. shared: the original nodes that both claim. why: why the winner
    won. flip: a line of Python that lets the loser win, tried ("": none does, or there are too many to try). recipe: what
    the line leads to. operators, operators_flipped: how many there are either way. parity_flipped: the verdict of the
    flipped lowering against the original program.
    """

    winner: str
    at: str
    loser: str
    loser_at: str
    shared: list[str]
    why: str
    operators: int
    flip: str = ""
    recipe: Recipe | None = None
    operators_flipped: int | None = None
    parity_flipped: str = ""


def conflicts_frame(lowering: Lowering) -> pd.DataFrame:
    """A row per match that lost its nodes to another one; the columns are the fields of `Conflict`, but for the recipe."""
    rows = [{name: getattr(c, name) for name in _COLUMNS} for c in conflicts(lowering)]
    return Table(rows, columns=pd.Index(_COLUMNS))


def conflicts(
    lowering: Lowering,
    polled: Callable[[], None] = lambda: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Conflict]:
    """Every match that lost its nodes to another one, and what letting it win takes and costs, tried on a copy.

    `polled` is called now and then; what it raises ends the search.
    """
    order = [s.pattern for s in lowering.stages]
    lowerer = Lowerer(lowering.source)
    now = sum(count_alive(lowering.ledger).values())
    pairs, found = list(_pairs(lowering)), []
    for place, (won, lost) in enumerate(pairs):
        polled()
        progress(place, len(pairs))
        shared = sorted(set(won.origins) & set(lost.origins))
        conflict = Conflict(won.pattern, won.anchor, lost.pattern, lost.anchor, shared, _why(order, won, lost), now)
        flip = _flip(lowerer, lowering, won, lost, polled) if place < _MOST_TRIED else None
        if flip is not None:
            line, recipe, tried = flip
            count = sum(count_alive(tried.ledger).values())
            said = _parity(lowering.source, tried.program, polled)
            conflict = replace(conflict, flip=line, recipe=recipe, operators_flipped=count, parity_flipped=said)
        found.append(conflict)
    return found


def flip_for(lowering: Lowering, pattern: str) -> Recipe:
    """The recipe by which a match of `pattern` wins nodes that it has lost: the first such that does when it is tried.

    LowerscopeError: nobody takes nodes from it, or no change of the recipe gives them back.
    """
    lowerer, lost_any = Lowerer(lowering.source), False
    for won, lost in _pairs(lowering):
        if lost.pattern == pattern:
            lost_any = True
            flip = _flip(lowerer, lowering, won, lost, lambda: None)
            if flip is not None:
                return flip[1]
    why = "no skip, order or switch gives them back" if lost_any else "no other match has any of them"
    raise LowerscopeError(f"{pattern} cannot win its nodes: {why}; see session.conflicts()")


def _pairs(lowering: Lowering) -> Iterator[tuple[Verdict, Verdict]]:
    """(the match that took nodes, the match that lost them); what core_aten takes apart is no conflict."""
    for verdict in lowering.verdicts.values():
        won = lowering.verdicts.get(verdict.by) if verdict.by is not None else None
        if verdict.outcome is Outcome.SHADOWED and won is not None and won.pattern != "core_aten":
            yield won, verdict


def _why(order: list[str], won: Verdict, lost: Verdict) -> str:
    if won.pattern == lost.pattern:
        return f"'{won.anchor}' stands before '{lost.anchor}' in the graph"
    stages = order.index(won.pattern) + 1, order.index(lost.pattern) + 1
    return f"{won.pattern} is stage {stages[0]}, {lost.pattern} stage {stages[1]}"


def _flip(
    lowerer: Lowerer, lowering: Lowering, won: Verdict, lost: Verdict, polled: Callable[[], None]
) -> tuple[str, Recipe, Lowering] | None:
    """The first change of the recipe under which the loser is applied: its line of Python, the recipe, the lowering."""
    for line, recipe in _flips(lowering.recipe, won, lost):
        try:
            tried = lowerer.lower(recipe, polled)
        except LowerscopeError:  # an order constraint forbids it: the next way may work
            continue
        claimed = set(lost.origins)
        if any(v.outcome is Outcome.APPLIED and claimed <= set(v.origins) for v in tried.verdicts_of(lost.pattern)):
            return line, recipe, tried
    return None


def _parity(before: Program, after: Program, polled: Callable[[], None]) -> str:
    def cancelled() -> bool:
        polled()
        return False

    try:
        return str(parity(before, after, oracle=False, cancelled=cancelled).verdict)
    except MeasureError as error:  # such as inputs that cannot be made: the flip holds all the same
        return f"not measured: {error}"


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
