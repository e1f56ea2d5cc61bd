"""Whether a result that differs counts as the same number: judged by how far the original itself is from the truth.

The truth is a float64 run of the original, or, for a run in float16 or bfloat16, its float32 run.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from lowerscope.arguments import dtype_name
from lowerscope.measure.compare import CLOSE, DIFFERENT, INCOMPARABLE, TOLERANCES, Comparison, compare
from lowerscope.measure.report import ParityRow, join

# The lowered program may be this many times further from the truth than the original before that counts against it.
_AS_GOOD = 2.0
# An original further off than this, relative to the result, is no yardstick: what is as bad as it is bad.
_YARDSTICK = {None: 0.05, torch.float16: 0.5, torch.bfloat16: 0.5}


def judge_by_oracle(row: ParityRow, oracle: torch.Tensor, old: Any, new: Any) -> None:
    """Enter the errors of the original's and the lowered program's result, of one shape, against the float64 run's.

    A result that differs is close when it is no further off than the original's.
    """
    before, after = (compare(oracle, value, check_dtype=False) for value in (old, new))
    row.error_before, row.error_after = before.noise, after.noise
    if row.verdict != DIFFERENT or row.worst.nan_agrees is False:
        return
    if before.norm_l2 <= _YARDSTICK[None] and _as_good(before, after):
        row.verdict = CLOSE
        row.why = join([row.why, "no further from the float64 run than the original is"])


def judged_in(
    low: torch.dtype, name: str, batch: str, exact: Any, old: Any, new: Any, tolerance: float | None
) -> ParityRow:
    """The row of a result computed in `low`, float16 or bfloat16: the original's (`old`) and the lowered program's.

    exact: the same of the original in float32. What differs from it is close when it is no further off than the
    original's, or agrees with the original's, which is as far.
    """
    tolerance = tolerance if tolerance is not None else TOLERANCES[low]
    before = compare(exact, old, tolerance=tolerance, check_dtype=False)
    after = compare(exact, new, tolerance=tolerance, check_dtype=False)
    got, expected = _dtype(new), _dtype(old)
    after = replace(after, dtype_agrees=got == expected)
    if after.verdict != INCOMPARABLE and not after.dtype_agrees:
        after = replace(after, verdict=INCOMPARABLE, why=f"dtype {got}, expected {expected}")
    row = ParityRow.of(name, after, batch)
    row.before, row.error_before, row.error_after = before, before.noise, after.noise
    if after.verdict == DIFFERENT:
        usable = before.nan_agrees is not False and before.norm_l2 <= _YARDSTICK[low]
        if usable and _as_good(before, after):
            row.verdict, row.why = CLOSE, join([after.why, "no further from float32 than the original is"])
        elif compare(old, new, tolerance=tolerance).agrees:
            row.verdict, row.as_bad = CLOSE, True
            row.why = join([after.why, f"and so is the original, which {dtype_name(low)} serves badly"])
    return row


def _as_good(before: Comparison, after: Comparison) -> bool:
    if math.isnan(before.noise) or math.isnan(after.noise):
        return False
    return after.max_abs <= _AS_GOOD * before.max_abs and math.sqrt(after.noise) <= _AS_GOOD * math.sqrt(before.noise)


def _dtype(value: Any) -> str:
    return dtype_name(value.dtype) if isinstance(value, torch.Tensor) else type(value).__name__
