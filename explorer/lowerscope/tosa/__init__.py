"""The integer side of a quantized graph: how operators between quantize nodes become TOSA's, and which maps are affine."""

from __future__ import annotations

from lowerscope.tosa.affine import AffineMap, affine_map
from lowerscope.tosa.rescaling import Rescaling

__all__ = ["AffineMap", "Rescaling", "affine_map"]
