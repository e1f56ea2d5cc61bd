"""A map of the 256 int8 codes beside the one that a condition asks for: what a reader is shown where the two part."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CodeMap:
    """What a channel makes of each int8 code, and what it would have to make of it.

    values: y for each of the codes -128..127. nearest: the same of the map that is asked for, which may leave int8.
    code: the first code at which the two differ. says: all of it in words, for who cannot see the plot. caption: what is
    drawn how.
    """

    channel: int
    code: int
    values: tuple[int, ...]
    nearest: tuple[int, ...]
    says: str
    caption: str

    def to_svg(self) -> str:
        """The two maps as an SVG in the colours of the page: codes in from left to right, codes out upwards."""
        at = f"cx='{self.code + 128}' cy='{127 - self.values[self.code + 128]}'"
        # The inner svg cuts off what leaves int8.
        return (
            f"<svg viewBox='-16 -1 274 274' width='274' role='img' aria-label='{html.escape(self.says)}' fill='none' "
            "stroke='currentColor' style='color:var(--jp-ui-font-color1,currentColor)'>"
            f"<title>{html.escape(self.says)}</title><rect width='256' height='256' opacity='.4'/>"
            f"<svg width='256' height='256'><polyline points='{_points(self.nearest)}' stroke-dasharray='5'/>"
            f"<polyline points='{_points(self.values)}' stroke='var(--jp-error-color1,#c0261f)' stroke-width='2'/>"
            f"<circle {at} r='6'/></svg>"
            "<g fill='currentColor' stroke='none' font-size='11'><text y='269'>code in, -128 to 127</text>"
            "<text transform='rotate(-90)' x='-256' y='-5'>code out, -128 to 127</text></g></svg>"
        )


def _points(codes: Sequence[int]) -> str:
    return " ".join(f"{place},{127 - code}" for place, code in enumerate(codes))
