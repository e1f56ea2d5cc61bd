"""Integer-affine maps: whether y = s (x - a) + o + b holds with integers s and o for every int8 code, and where it breaks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low
from typing import Any

CODES = range(-128, 128)


@dataclass(frozen=True, slots=True)
class AffineMap:
    """A map of the 256 int8 codes beside the integer-affine map that is nearest to it.

    values: y for each code -128..127. nearest: s (x - input_zp) + o + output_zp for each code, not clamped. breaks: the
    codes at which the two differ, ascending. With none the map is integer-affine, with the slope `scale` = s and the
    offset `offset` = o between centred values.
    """

    values: list[int]
    nearest: list[int]
    scale: int
    offset: int
    breaks: list[int]

    @property
    def is_affine(self) -> bool:
        """Whether the map is the nearest integer-affine one at every code."""
        return not self.breaks

    @property
    def is_identity(self) -> bool:
        """Whether every code maps to itself."""
        return self.values == list(CODES)

    @property
    def first_break(self) -> int | None:
        """The lowest code at which the map is not integer-affine; None where it is."""
        return self.breaks[0] if self.breaks else None

    def describe(self) -> str:
        """Where it breaks, in words."""
        if self.first_break is None:
            return f"y = {self.scale}·x + {self.offset} at every code"
        at = self.first_break + 128
        value = self.values[at]
        saturates = value in (-128, 127) and self.values.count(value) > 1
        how = "saturates at" if saturates else "gives"
        return (
            f"code {self.first_break} {how} {value}, the nearest integer-affine map y = {self.scale}·x + {self.offset} "
            f"(of centred codes) gives {self.nearest[at]}; they differ at {len(self.breaks)} of 256 codes"
        )


def affine_map(values: Iterable[Any], input_zp: int = 0, output_zp: int = 0) -> AffineMap:
    """The integer-affine map nearest to `values`, y for each of the codes -128..127.

    Nearest is the one with the smallest sum of absolute differences: codes that saturate do not move it.

    Raises:
        ValueError: there are not 256 values.
    """
    given = [int(v) for v in values]
    if len(given) != len(CODES):
        raise ValueError(f"a map of int8 codes has {len(CODES)} values, not {len(given)}: give one for each code")
    x = [code - input_zp for code in CODES]
    y = [value - output_zp for value in given]
    candidates = []
    for slope in {b - a for a, b in pairwise(y)}:
        rest = [b - slope * a for a, b in zip(x, y, strict=True)]
        offset = median_low(rest)  # of all offsets it has the smallest sum
        candidates.append((sum(abs(r - offset) for r in rest), abs(slope), slope, offset))
    _, _, scale, offset = min(candidates)
    nearest = [scale * a + offset + output_zp for a in x]
    breaks = [code for code, v, n in zip(CODES, given, nearest, strict=True) if v != n]
    return AffineMap(given, nearest, scale, offset, breaks)
