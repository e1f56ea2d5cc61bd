"""depthwise_conv_transpose_as_mul: a depthwise transposed convolution whose outputs do not overlap is a multiplication."""

from __future__ import annotations

from torch.fx import Node

from lowerscope.arguments import ConvSpec, aten
from lowerscope.check import Check, Condition, holds
from lowerscope.editor import Editor
from lowerscope.pattern import Declined, Kind, Match, Pattern, pattern


@pattern("xnnpack", after=["fold_constants", "fold_batch_norm"], source="pytorch/executorch#25041")
class DepthwiseConvTransposeAsMul(Pattern):
    """conv_transpose(x, w)[n, c, s l + k] = x[n, c, l] * w[c, 0, k] + b[c], for K = s, or for one input step (L = 1)

    x is [N, C, L], w is [C, 1, K], groups = C; no padding, no output padding, dilation 1: no two input steps reach the
    same output. A streaming codec upsamples one step at a time this way. Any floating dtype.
    """

    name, kind, anchors = "depthwise_conv_transpose_as_mul", Kind.DECOMPOSITION, (aten.convolution.default,)
    conditions = (
        Condition("transposed", "the convolution is transposed"),
        Condition("one_dimensional", "it is 1-D"),
        Condition("depthwise", "it is depthwise: groups = input = output channels"),
        Condition("dilation_1", "its dilation is 1"),
        Condition("no_padding", "it has no padding"),
        Condition("no_output_padding", "it has no output padding"),
        Condition("no_overlap", "its outputs do not overlap: the kernel equals the stride, or there is one input step"),
        Condition("sizes_known", "at most one of batch and length is symbolic"),
        Condition("constant_weight", "its weight is a constant"),
        Condition("constant_bias", "its bias is a constant or absent"),
    )
    nothing_to_fuse = ("transposed", "one_dimensional")

    def match(self, anchor: Node, check: Check) -> Match | None:
        spec = ConvSpec.of(anchor)
        check.eq("transposed", spec.transposed, True, at=anchor)
        check.eq("one_dimensional", spec.dims, 1, at=anchor)
        check.that(
            "depthwise", spec.groups == spec.in_channels == spec.out_channels, at=anchor, expected=f"{spec.in_channels} groups",
            actual=f"{spec.groups} groups, {spec.in_channels} to {spec.out_channels} channels",
        )  # fmt: skip
        check.eq("dilation_1", spec.dilation, (1,), at=anchor)
        check.eq("no_padding", spec.padding, (0,), at=anchor)
        check.eq("no_output_padding", spec.output_padding, (0,), at=anchor)
        one_step = holds(spec.input_shape[2] == 1)
        check.that(
            "no_overlap", spec.kernel == spec.stride or one_step, at=anchor,
            expected=f"kernel {spec.stride[0]}, or one input step",
            actual=f"kernel {spec.kernel[0]}, stride {spec.stride[0]}, {spec.input_shape[2]} steps",
        )  # fmt: skip
        symbolic = [s for s in (spec.batch, spec.input_shape[2]) if not isinstance(s, int)]
        check.that(
            "sizes_known", len(symbolic) <= 1, at=spec.input, expected="at most 1", actual=[str(s) for s in symbolic]
        )
        check.constant("constant_weight", spec.weight)
        if spec.bias is not None:
            check.constant("constant_bias", spec.bias)
        else:
            check.that("constant_bias", True, at=anchor, actual="no bias")
        return Match(anchor, (anchor,), anchor, {"spec": spec})

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        spec: ConvSpec = match["spec"]
        # [C, 1, K] already broadcasts against [N, C, L, 1]
        steps = edit.call(aten.unsqueeze.default, spec.input, 3)
        product = edit.call(aten.mul.Tensor, steps, spec.weight, like=spec.node)
        batch, length = spec.batch, spec.output_shape[2]
        sizes = [s if isinstance(s, int) else -1 for s in (batch, spec.out_channels, length)]
        value = edit.call(aten.view.default, product, sizes)
        if spec.bias is None:
            return value
        bias = spec.bias
        column = edit.constant(lambda: edit.constant_value(bias).reshape(-1, 1).clone(), bias, "column", "column")
        return edit.call(aten.add.Tensor, value, column)

    def sentence(self, match: Match) -> str:
        spec: ConvSpec = match["spec"]
        return f"No two of its outputs overlap, so the transposed convolution becomes a multiplication by its {spec.kernel[0]} taps."
