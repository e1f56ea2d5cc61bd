"""upsample_nearest_x2: nearest upsampling by exactly 2 as four copies and a depth-to-space."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import arguments, aten, shape_of
from lowerscope.check import Check, Condition
from lowerscope.editor import Editor
from lowerscope.pattern import Declined, Kind, Match, Pattern, pattern


@pattern(
    "xnnpack",
    after=["fold_constants", "polyphase_conv_transpose"],
    source="pytorch/executorch#25004",
)
class UpsampleNearestX2(Pattern):
    """nearest_x2(x) = depth_to_space_2d(cat([x, x, x, x], dim=1), 2)

    x is [N, C, H, W], the result [N, C, 2 H, 2 W]; exact for every dtype. The channels are block-major,
    (a_y 2 + a_x) C + c: `pixel_shuffle`, which is channel-major, would mix channels. Between a dequantize and a quantize
    of the same parameters the copies are quantized by them too, so that both operators run on integers.
    """

    name, kind, anchors = "upsample_nearest_x2", Kind.DECOMPOSITION, (aten.upsample_nearest2d.vec,)
    conditions = (
        Condition("static_shape", "its input's sizes are known"),
        Condition("scale_2", "explicit scale factors are exactly 2"),
        Condition("output_twice", "the output is exactly twice as high and wide"),
        Condition("same_quantization", "if it stands between quantized values, both have the same parameters"),
    )

    def match(self, anchor: Node, check: Check) -> Match | None:
        given = arguments(anchor)
        source: Node = given["input"]
        shape: tuple[Any, ...] = shape_of(source) or ()
        symbolic = [str(s) for s in shape if not isinstance(s, int)]
        check.that("static_shape", not symbolic, at=source, expected="numbers", actual=symbolic or shape)
        factors = given.get("scale_factors")
        if factors is not None:
            check.eq("scale_2", tuple(map(float, factors)), (2.0, 2.0), at=anchor)
        else:
            check.that("scale_2", True, at=anchor, actual="no factors, an output size")
        check.eq("output_twice", (shape_of(anchor) or ())[2:], (2 * shape[2], 2 * shape[3]), at=anchor)
        quantizes = [u for u in sorted(anchor.users) if _is_call(u, "quantize_per_tensor")]
        between = _is_call(source, "dequantize_per_tensor") and len(quantizes) == len(anchor.users)
        other = next((q for q in quantizes if _parameters(q) != _parameters(source)), None) if between else None
        check.that(
            "same_quantization", other is None, at=other or anchor, expected=_shown(source) if between else None,
            actual=_shown(other) if other else None, because=other and "a copy of a value cannot change its parameters",
        )  # fmt: skip
        return Match(anchor, (anchor,), anchor, {"source": source, "quantize": quantizes[0] if between else None})

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        source, quantize = match["source"], match["quantize"]
        copies = edit.call(aten.cat.default, [source] * 4, 1)
        if quantize is not None:
            held = edit.call(quantize.target, copies, *_parameters(quantize))
            copies = edit.call(source.target, held, *_parameters(source))
        return edit.call(torch.ops.lowerscope_xnnpack.depth_to_space_2d.default, copies, 2)

    def sentence(self, match: Match) -> str:
        return "Nearest upsampling by 2 becomes four copies side by side in the channels, and a depth-to-space."


def _is_call(node: Node, op: str) -> bool:
    # by name: torch registers the namespace only when its quantization package is imported
    return str(node.target).startswith(f"quantized_decomposed.{op}.")


def _parameters(node: Node) -> tuple[Any, ...]:
    """Scale, zero point, smallest and largest integer, and dtype of a quantize or dequantize per tensor."""
    given = arguments(node)
    return tuple(given[name] for name in ("scale", "zero_point", "quant_min", "quant_max", "dtype"))


def _shown(node: Node) -> str:
    scale, zero_point, *_ = _parameters(node)
    return f"scale {scale}, zero point {zero_point}"
