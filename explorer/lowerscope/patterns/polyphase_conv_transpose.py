"""polyphase_conv_transpose: a strided transposed convolution as stride-1 convolutions, one per output phase."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

from torch.fx import Node

from lowerscope import polyphase
from lowerscope.arguments import ConvSpec, aten
from lowerscope.check import Check, Condition, Either
from lowerscope.editor import Editor
from lowerscope.pattern import Declined, Kind, Match, Pattern, pattern


@pattern(
    "xnnpack",
    after=["fold_constants", "fold_batch_norm", "depthwise_conv_transpose_as_mul"],
    source="pytorch/executorch#25041",
)
class PolyphaseConvTranspose(Pattern):
    """conv_transpose(x, w)[s q + a] = sum_t w[r + s t] x[q + c - t], with c, r = divmod(a + p, s): one stride-1 conv per phase a

    Per axis: input length L, kernel K, stride s, padding p, T taps. x is [N, C_in, *L], w is [C_in, C_out / groups, *K],
    of one floating dtype.
    Dense (groups = 1, K a multiple of s): one convolution with s^d C_out outputs, interleaved, then cut to size.
    Depthwise (groups = C_in = C_out): one depthwise convolution per phase, joined and interleaved.
    """

    name, kind, anchors = "polyphase_conv_transpose", Kind.DECOMPOSITION, (aten.convolution.default,)
    conditions = (
        Condition("transposed", "the convolution is transposed"),
        Condition("one_or_two_dimensional", "it is 1-D or 2-D"),
        Condition("strided", "its stride is larger than 1 on some axis"),
        Condition("dilation_1", "its dilation is 1"),
        Condition("dense_or_depthwise", "it is dense (groups = 1) or depthwise (groups = input = output channels)"),
        Condition("constant_weight", "its weight is a constant"),
        Condition("constant_bias", "its bias is a constant or absent"),
        Condition("sizes_known", "where the interleave is a view, at most one of batch and spatial sizes is symbolic"),
        Either("dense", Condition("kernel_multiple_of_stride", "the kernel is a multiple of the stride on every axis")),
        Either(
            "depthwise",
            Condition("every_phase_has_taps", "every output phase has a tap: the kernel reaches it"),
            Condition("no_negative_pad", "no phase would need a negative pad"),
        ),
    )
    nothing_to_fuse = ("transposed",)

    def match(self, anchor: Node, check: Check) -> Match | None:
        spec = ConvSpec.of(anchor)
        check.eq("transposed", spec.transposed, True, at=anchor)
        check.one_of("one_or_two_dimensional", spec.dims, (1, 2), at=anchor)
        check.that("strided", any(s != 1 for s in spec.stride), at=anchor, expected="more than 1", actual=spec.stride)
        check.eq("dilation_1", spec.dilation, (1,) * spec.dims, at=anchor)
        depthwise = spec.groups == spec.in_channels == spec.out_channels
        check.that(
            "dense_or_depthwise", spec.groups == 1 or depthwise, at=anchor, expected=f"1 or {spec.in_channels} groups",
            actual=f"{spec.groups} groups, {spec.in_channels} to {spec.out_channels} channels",
        )  # fmt: skip
        check.constant("constant_weight", spec.weight)
        if spec.bias is not None:
            check.constant("constant_bias", spec.bias)
        else:
            check.that("constant_bias", True, at=anchor, actual="no bias")
        sizes = (spec.batch, *spec.input_shape[2:])
        symbolic = [s for s in sizes if not isinstance(s, int)]
        check.that(
            "sizes_known", len(symbolic) <= 1 or polyphase.has_interleaving_op(spec), at=spec.input,
            expected="at most 1", actual=[str(s) for s in symbolic],
        )  # fmt: skip
        multiple = all(k % s == 0 for k, s in zip(spec.kernel, spec.stride, strict=True))
        axes = polyphase.axes_of(spec)
        if spec.groups == 1 and (multiple or not depthwise):
            check.way("dense")
            check.that(
                "kernel_multiple_of_stride",
                multiple,
                at=anchor,
                expected=f"a multiple of {spec.stride}",
                actual=spec.kernel,
            )
            return Match(anchor, (anchor,), anchor, {"spec": spec, "axes": axes, "dense": True})
        check.way("depthwise")
        empty = [(i, a.phase) for i, axis in enumerate(axes) for a in axis.phases if a.taps <= 0]
        check.that("every_phase_has_taps", not empty, at=anchor, expected="a tap in every phase", actual=_phases(empty))
        negative = [(i, a.phase) for i, axis in enumerate(axes) for a in axis.phases if a.left < 0]
        check.that("no_negative_pad", not negative, at=anchor, expected="pads of 0 and more", actual=_phases(negative))
        return Match(anchor, (anchor,), anchor, {"spec": spec, "axes": axes, "dense": False})

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        build = _dense if match["dense"] else _depthwise
        return build(match["spec"], match["axes"], edit)

    def sentence(self, match: Match) -> str:
        spec: ConvSpec = match["spec"]
        phases = prod(spec.stride)
        form = "one convolution with" if match["dense"] else f"{phases} depthwise convolutions, one for each of"
        return f"The transposed convolution of stride {'×'.join(map(str, spec.stride))} becomes {form} {phases} output phases, interleaved."


def _phases(found: list[tuple[int, int]]) -> str:
    return ", ".join(f"phase {phase} of axis {axis}" for axis, phase in found) or "none"


def _dense(spec: ConvSpec, axes: list[polyphase.Axis], edit: Editor) -> Node:
    """One convolution whose outputs are all phases, padded by T - 1 on both sides, interleaved, cut to [p : p + L_out]."""
    weight = edit.constant(
        lambda: polyphase.dense_weight(edit.constant_value(spec.weight), spec.stride),
        spec.weight,
        "phases",
        ("dense", spec.stride),
    )
    count = prod(spec.stride)
    bias = None
    if spec.bias is not None:
        held = spec.bias
        bias = edit.constant(lambda: edit.constant_value(held).repeat(count), held, "phases", ("repeat", count))
    # where the output padding reaches past what the padding cuts off, the input is made longer: zeros put in after the
    # interleave would lack the bias
    extra = [max(0, ceil((axis.output_padding - axis.padding) / axis.stride)) for axis in axes]
    source = spec.input
    if any(extra):
        source = edit.call(aten.constant_pad_nd.default, source, [n for e in reversed(extra) for n in (0, e)], 0.0)
    taps = [axis.kernel // axis.stride for axis in axes]
    ones, zeros = [1] * spec.dims, [0] * spec.dims
    conv = edit.call(
        aten.convolution.default,
        source,
        weight,
        bias,
        ones,
        [t - 1 for t in taps],
        ones,
        False,
        zeros,
        1,
        like=spec.node,
    )
    value = polyphase.interleave(conv, spec, edit)
    for place, (axis, more) in enumerate(zip(axes, extra, strict=True)):
        end = more * axis.stride + axis.padding - axis.output_padding  # how much is beyond the end
        value = polyphase.cut(value, place + 2, axis.padding, end, edit)
    return value


def _depthwise(spec: ConvSpec, axes: list[polyphase.Axis], edit: Editor) -> Node:
    """A depthwise convolution per phase, all of the first phase's length, joined in block-major order and interleaved."""
    source, frame = spec.input, axes
    if spec.dims == 1:  # XNNPACK's depthwise kernels are 2-D: one unsqueeze for all phases, one squeeze after the join
        source = edit.call(aten.unsqueeze.default, source, 2)
        frame = [polyphase.Axis.neutral(), *axes]
    padded: dict[tuple[int, ...], Node] = {}  # phases that need the same pads share one padded input
    parts = [
        _phase(spec, source, padded, rows, columns, edit) for rows in frame[0].phases for columns in frame[1].phases
    ]
    joined = edit.call(aten.cat.default, parts, 1)
    if spec.dims == 1:
        joined = edit.call(aten.squeeze.dims, joined, [2])
    value = polyphase.interleave(joined, spec, edit)
    for place, axis in enumerate(axes):
        value = polyphase.cut(value, place + 2, 0, axis.surplus, edit)
    return value


def _phase(
    spec: ConvSpec,
    source: Node,
    padded: dict[tuple[int, ...], Node],
    rows: polyphase.Phase,
    columns: polyphase.Phase,
    edit: Editor,
) -> Node:
    phases: tuple[polyphase.Phase, ...] = (rows, columns)
    taken = phases[2 - spec.dims :]
    key: Any = ("phase", tuple((p.first, p.taps, p.stride) for p in phases))
    weight = edit.constant(
        lambda: polyphase.phase_weight(edit.constant_value(spec.weight), taken), spec.weight, _suffix(taken), key
    )
    pads = [(p.left, p.right) for p in phases]
    if any(left != right for left, right in pads):
        around = tuple(n for pair in reversed(pads) for n in pair)
        if around not in padded:
            padded[around] = edit.call(aten.constant_pad_nd.default, source, list(around), 0.0)
        source, pads = padded[around], [(0, 0), (0, 0)]
    return edit.call(
        aten.convolution.default, source, weight, spec.bias, [1, 1], [left for left, _ in pads], [1, 1], False, [0, 0],
        spec.groups, like=spec.node,
    )  # fmt: skip


def _suffix(phases: tuple[polyphase.Phase, ...]) -> str:
    return "phase_" + "_".join(str(p.phase) for p in phases)
