"""Integer-affine maps: whether y = s (x - a) + o + b holds with integers s and o for the int8 codes there are, and where it breaks."""

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

    values: y for each code -128..127. nearest: s (x - input_zp) + o + output_zp for each code, not clamped. given: the
    codes that occur, ascending; the others are nobody's loss. breaks: those of them at which the two maps differ. With
    none the map is integer-affine, with the slope `scale` = s and the offset `offset` = o between centred values.
    """

    values: list[int]
    nearest: list[int]
    scale: int
    offset: int
    breaks: list[int]
    given: list[int]

    @property
    def is_identity(self) -> bool:
        """Whether every code that occurs maps to itself."""
        return all(self.values[code + 128] == code for code in self.given)

    @property
    def first_break(self) -> int | None:
        """The lowest code that occurs and at which the map is not integer-affine; None where it is."""
        return self.breaks[0] if self.breaks else None

    @property
    def formula(self) -> str:
        """The nearest integer-affine map of centred codes: "y = 1·x - 24"."""
        return f"y = {self.scale}·x {'-' if self.offset < 0 else '+'} {abs(self.offset)}"

    def describe(self) -> str:
        """Where it breaks, in words."""
        if self.first_break is None:
            return f"{self.formula} at every code"
        at = self.first_break + 128
        value = self.values[at]
        saturates = value in (-128, 127) and sum(self.values[code + 128] == value for code in self.given) > 1
        count = len(self.given)
        among = f"{count} codes" if count == len(CODES) else f"the {count} codes that occur"
        how = "saturates at" if saturates else "gives"
        return (
            f"code {self.first_break} {how} {value}, the nearest integer-affine map {self.formula} "
            f"(of centred codes) gives {self.nearest[at]}; they differ at {len(self.breaks)} of {among}"
        )


def affine_map(
    values: Iterable[Any], input_zp: int = 0, output_zp: int = 0, given: Iterable[int] | None = None
) -> AffineMap:
    """The integer-affine map nearest to `values`, y for each of the codes -128..127, at the codes that are `given` (all).

    Nearest is the one with the smallest sum of absolute differences: codes that saturate do not move it.

    Raises:
        ValueError: there are not 256 values, or no code is given.
    """
    held = [int(v) for v in values]
    if len(held) != len(CODES):
        raise ValueError(f"a map of int8 codes has {len(CODES)} values, not {len(held)}: give one for each code")
    occur = list(CODES) if given is None else sorted(set(given))
    if not occur:
        raise ValueError("no code is given: a map needs at least one")
    x = [code - input_zp for code in occur]
    y = [held[code + 128] - output_zp for code in occur]
    # Between codes that lie apart the slope need be no integer: then those beside it are tried.
    slopes = {0} if len(occur) == 1 else set()
    for (x0, y0), (x1, y1) in pairwise(zip(x, y, strict=True)):
        slopes |= {(y1 - y0) // (x1 - x0), -((y0 - y1) // (x1 - x0))}
    candidates = []
    for slope in slopes:
        rest = [b - slope * a for a, b in zip(x, y, strict=True)]
        offset = median_low(rest)  # of all offsets it has the smallest sum
        candidates.append((sum(abs(r - offset) for r in rest), abs(slope), slope, offset))
    _, _, scale, offset = min(candidates)
    return between(held, occur, scale, offset, input_zp, output_zp)


def between(
    values: list[int], given: list[int], scale: int, offset: int, input_zp: int = 0, output_zp: int = 0
) -> AffineMap:
    """A map of codes beside the integer-affine one of slope `scale` and offset `offset`."""
    nearest = [scale * (code - input_zp) + offset + output_zp for code in CODES]
    breaks = [code for code in given if values[code + 128] != nearest[code + 128]]
    return AffineMap(values, nearest, scale, offset, breaks, given)
