"""One RESCALE away from the graph: made from scales, read from a node, put into a graph, run on codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from lowerscope.arguments import arguments
from lowerscope.editor import Editor
from lowerscope.ops import tosa
from lowerscope.ops.tosa_scale import rescale_multiplier_shift, rescale_scale, rescale_unpredictable

#: The real scale of a RESCALE is a ratio of scales rounded to 31 bits: what agrees is equal to this relative error.
AGREES = 1e-6


@dataclass(frozen=True, slots=True)
class Rescaling:
    """clamp(round((x - input_zp) * scale) + output_zp), one scale or one for each index of `axis`."""

    multiplier: tuple[int, ...]
    shift: tuple[int, ...]
    input_zp: int = 0
    output_zp: int = 0
    axis: int = 0
    dtype: torch.dtype = torch.int32

    @classmethod
    def by(
        cls,
        scales: float | Sequence[float],
        *,
        input_zp: int = 0,
        output_zp: int = 0,
        axis: int = 0,
        dtype: torch.dtype = torch.int32,
    ) -> Rescaling:
        """Rescale by real factors. OperatorError: a factor is not positive and finite, or too large."""
        factors = [scales] if isinstance(scales, (int, float)) else scales
        pairs = [rescale_multiplier_shift(f) for f in factors]
        return cls(tuple(m for m, _ in pairs), tuple(s for _, s in pairs), input_zp, output_zp, axis, dtype)

    @classmethod
    def of(cls, node: Node) -> Rescaling:
        """Read a `tosa.RESCALE` node."""
        a = arguments(node)
        return cls(
            tuple(a["multiplier"]), tuple(a["shift"]), a["input_zp"], a["output_zp"], a["axis"], a["output_dtype"]
        )

    @property
    def scales(self) -> tuple[float, ...]:
        """The factors that multiplier and shift stand for, exactly."""
        return tuple(rescale_scale(m, s) for m, s in zip(self.multiplier, self.shift, strict=True))

    @property
    def per_tensor(self) -> bool:
        """One factor for the whole tensor."""
        return len(self.multiplier) == 1

    def undefined(self, ranges: Iterable[tuple[int, int]]) -> str | None:
        """Why TOSA leaves the result open for inputs in `ranges` (one for each factor, or one for all); None where it does not."""
        bounds = list(ranges) * (len(self.multiplier) if self.per_tensor else 1)
        if len(bounds) == 1:
            bounds *= len(self.multiplier)
        for (low, high), shift in zip(bounds, self.shift, strict=True):
            reason = rescale_unpredictable(low, high, shift, self.input_zp)
            if reason is not None:
                return reason
        return None

    def put(self, edit: Editor, source: Node, like: Node | None = None) -> Node:
        """A `tosa.RESCALE` of `source`."""
        return edit.call(
            tosa.rescale, source, list(self.multiplier), list(self.shift), self.input_zp, self.output_zp, self.axis,
            self.dtype, like=like,
        )  # fmt: skip

    def run(self, codes: torch.Tensor) -> torch.Tensor:
        """What it makes of `codes`, integers of any shape: as many, in its own dtype."""
        return tosa.rescale(
            codes, list(self.multiplier), list(self.shift), self.input_zp, self.output_zp, self.axis, self.dtype
        )
