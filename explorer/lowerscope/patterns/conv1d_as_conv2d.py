"""conv1d_as_conv2d: a 1-D convolution is written as a 2-D one of height 1."""

from __future__ import annotations

import torch
from torch.fx import Node

from lowerscope.arguments import ConvSpec
from lowerscope.check import Check, Condition
from lowerscope.editor import Editor
from lowerscope.pattern import Kind, Match, Pattern, pattern

aten = torch.ops.aten
_HEIGHT = 2  #: the axis that is put in: [N, C, L] becomes [N, C, 1, L]


@pattern(
    "vulkan",
    "webgpu",
    "qnn",
    after=["core_aten", "fold_batch_norm", "conv2d_with_epilogue"],
    source="pytorch/executorch#22994",
)
class Conv1dAsConv2d(Pattern):
    """conv1d(x, w, b) = squeeze(conv2d(unsqueeze(x), unsqueeze(w), b)): x [N, C_in, L] as [N, C_in, 1, L], w [O, I, K] as a
    constant [O, I, 1, K]; stride, dilation get a leading 1, padding and output padding a leading 0. Any dtype; direct,
    grouped and transposed.

    What describes a node's rank or axis order is not carried over to the nodes of another rank.
    """

    name, kind, anchors = "conv1d_as_conv2d", Kind.DECOMPOSITION, (aten.convolution.default,)
    conditions = (
        Condition("one_dimensional", "the convolution is 1-D"),
        Condition("constant_weight", "its weight is a constant, which is reshaped before the program runs"),
    )
    nothing_to_fuse = ("one_dimensional",)

    def match(self, anchor: Node, check: Check) -> Match | None:
        spec = ConvSpec.of(anchor)
        check.eq("one_dimensional", spec.dims, 1, at=anchor)
        check.constant("constant_weight", spec.weight)
        return Match(anchor, (anchor,), anchor, {"spec": spec})

    def rewrite(self, match: Match, edit: Editor) -> Node:
        spec: ConvSpec = match["spec"]
        value = edit.constant_value(spec.weight)
        weight = edit.constant(lambda: value.unsqueeze(_HEIGHT), like=spec.weight, suffix="2d", key=self.name)
        wide = edit.call(aten.unsqueeze.default, spec.input, _HEIGHT)
        conv = edit.call(
            aten.convolution.default,
            wide,
            weight,
            spec.bias,
            [1, *spec.stride],
            [0, *spec.padding],
            [1, *spec.dilation],
            spec.transposed,
            [0, *spec.output_padding],
            spec.groups,
        )
        return edit.call(aten.squeeze.dims, conv, [_HEIGHT])

    def sentence(self, match: Match) -> str:
        return "The 1-D convolution becomes a 2-D one of height 1, between an unsqueeze and a squeeze."
