"""Which rewrites are to blame for wrong numbers: found by really lowering without some of them, and measuring again."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from lowerscope.errors import MeasureError
from lowerscope.measure.interpreter import Cancelled

Key = TypeVar("Key", bound=Hashable)


def culprits(
    candidates: Iterable[Key],
    agrees_without: Callable[[frozenset[Key]], bool],
    *,
    cancelled: Callable[[], bool] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Key]:
    """A smallest set of rewrites without which the numbers agree: each of them is needed, in the candidates' order.

    QuickXplain (Junker, AAAI 2004): about k log2(n / k) measurements for k culprits among n rewrites, if leaving out
    more never makes numbers worse. Of several such sets the one with the earliest candidates is found.

    Args:
        candidates: the rewrites, the most suspicious first (`StepError.guilt`); not looked at when the numbers agree.
        agrees_without: lowers without these rewrites, and whether its numbers agree; asked once for each set.
        cancelled: polled before each measurement.
        progress: called after each measurement with (measurements so far, how many there are at most if one rewrite is
            to blame); where more are, the second number grows.

    Raises:
        MeasureError: the numbers differ even without all of them, so that none is to blame.
        Cancelled: `cancelled` returned True.
    """
    known: dict[frozenset[Key], bool] = {}
    expected = 2

    def agrees(left_out: Sequence[Key]) -> bool:
        key = frozenset(left_out)
        if key not in known:
            if cancelled is not None and cancelled():
                raise Cancelled
            known[key] = agrees_without(key)
            if progress is not None:
                progress(len(known), max(expected, len(known)))
        return known[key]

    def needed(left_out: list[Key], is_new: bool, among: list[Key]) -> list[Key]:
        """The smallest part of `among` that has to be left out beside `left_out`."""
        if is_new and agrees(left_out):
            return []
        if len(among) == 1:
            return among
        middle = len(among) // 2
        first, second = among[:middle], among[middle:]
        of_second = needed(left_out + first, True, second)
        of_first = needed(left_out + of_second, bool(of_second), first)
        return of_first + of_second

    if agrees([]):
        return []
    rewrites = list(dict.fromkeys(candidates))
    # None left out and all left out, then two measurements each time that the candidates are halved.
    expected = 2 + 2 * math.ceil(math.log2(max(1, len(rewrites))))
    if not rewrites or not agrees(rewrites):
        raise MeasureError(
            f"the numbers differ even without all {len(rewrites)} rewrites: none of them is to blame, measure with a "
            "larger tolerance or on other inputs"
        )
    return needed([], False, rewrites)
