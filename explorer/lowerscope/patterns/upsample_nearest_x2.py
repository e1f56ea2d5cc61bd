"""upsample_nearest_x2: nearest upsampling by exactly 2 as four copies and a depth-to-space."""

from __future__ import annotations

import torch
from torch.fx import Node

from lowerscope.arguments import arguments, aten, shape_of
from lowerscope.check import Check, Condition
from lowerscope.editor import Editor
from lowerscope.pattern import Declined, Kind, Match, Pattern, pattern


@pattern(
    "xnnpack",
    after=["fold_constants", "polyphase_conv_transpose"],
    before=[],
    source="pytorch/executorch#25004",
)
class UpsampleNearestX2(Pattern):
    """nearest_x2(x) = depth_to_space_2d(cat([x, x, x, x], dim=1), 2)

    x is [N, C, H, W], the result [N, C, 2 H, 2 W]; exact for every dtype. The channels are block-major,
    (a_y 2 + a_x) C + c: `pixel_shuffle`, which is channel-major, would mix channels.
    """

    name, kind, anchors = "upsample_nearest_x2", Kind.DECOMPOSITION, (aten.upsample_nearest2d.vec,)
    conditions = (
        Condition("rank_4", "its input is 4-D"),
        Condition("static_shape", "its input's sizes are known"),
        Condition("scale_2", "explicit scale factors are exactly 2"),
        Condition("output_twice", "the output is exactly twice as high and wide"),
    )

    def match(self, anchor: Node, check: Check) -> Match | None:
        given = arguments(anchor)
        source: Node = given["input"]
        shape = shape_of(source) or ()
        check.eq("rank_4", len(shape), 4, at=source)
        symbolic = [str(s) for s in shape if not isinstance(s, int)]
        check.that("static_shape", not symbolic, at=source, expected="numbers", actual=symbolic or shape)
        factors = given.get("scale_factors")
        if factors is not None:
            check.eq("scale_2", tuple(map(float, factors)), (2.0, 2.0), at=anchor)
        else:
            check.that("scale_2", True, at=anchor, actual="no factors, an output size")
        check.eq("output_twice", (shape_of(anchor) or ())[2:], (2 * shape[2], 2 * shape[3]), at=anchor)
        return Match(anchor, (anchor,), anchor, {"source": source})

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        copies = edit.call(aten.cat.default, [match["source"]] * 4, 1)
        return edit.call(torch.ops.lowerscope_xnnpack.depth_to_space_2d.default, copies, 2)

    def sentence(self, match: Match) -> str:
        return "Nearest upsampling by 2 becomes four copies side by side in the channels, and a depth-to-space."
