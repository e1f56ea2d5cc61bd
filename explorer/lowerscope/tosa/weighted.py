"""Convolutions and linears in integers: weights, the bias in the accumulator's scale, and what the accumulator can hold."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from lowerscope.arguments import ConvSpec, aten, shape_of
from lowerscope.check import Check
from lowerscope.editor import Editor
from lowerscope.ops import tosa
from lowerscope.ops.tosa_scale import INT32_MAX, INT32_MIN
from lowerscope.quantized import LinearSpec, Quantization, is_dequantize
from lowerscope.tosa.rescaling import Rescaling
from lowerscope.tosa.sites import Activation


@dataclass(frozen=True, slots=True)
class Weighted:
    """sum((x - zp) w) + b: a 2-D convolution, or a linear as a 1x1 convolution of [rows, K, 1, 1].

    spec: what the node is. weight: its dequantize node's parameters. scales: of each output channel.
    """

    spec: ConvSpec | LinearSpec
    input: Activation
    weight: Quantization
    scales: torch.Tensor
    bias: Node | None

    @property
    def axis(self) -> int:
        """The axis of the weight's output channels."""
        return 1 if isinstance(self.spec, ConvSpec) and self.spec.transposed else 0

    @property
    def outputs(self) -> int:
        """How many output channels there are."""
        return self.spec.out_channels if isinstance(self.spec, ConvSpec) else self.spec.outputs

    def accumulator_scales(self) -> list[float]:
        """What 1 in the accumulator stands for, in each output channel."""
        return [self.input.scale * float(s) for s in self.scales.to(torch.float64)]

    def bias_codes(self, bias: torch.Tensor) -> torch.Tensor:
        """The floating-point bias [N] in units of the accumulator, rounded half to even, as int64."""
        units = torch.tensor(self.accumulator_scales(), dtype=torch.float64)
        return torch.round(bias.to(torch.float64) / units).to(torch.int64)

    def ranges(self, codes: torch.Tensor, bias: torch.Tensor | None) -> list[tuple[int, int]]:
        """What each output channel's accumulator can hold, over all int8 inputs.

        codes: int8, the weight [C_out, C_in / groups, *K]; with axis 1, [C_in, C_out, *K]. bias: [C_out], floating-point.
        """
        low, high = self.input.centred
        rows = codes.to(torch.int64)
        if self.axis == 1:
            rows = rows.transpose(0, 1)
        rows = rows.reshape(rows.shape[0], -1)
        if self.axis == 1:  # grouped transposed weights are refused, so a row is an output channel here too
            assert rows.shape[0] == self.outputs
        up, down = rows.clamp(min=0).sum(1), rows.clamp(max=0).sum(1)
        offset = self.bias_codes(bias) if bias is not None else torch.zeros_like(up)
        # padding is the centred zero, which lies between the two ends
        least = torch.minimum(up * low + down * high, torch.zeros_like(up)) + offset
        most = torch.maximum(up * high + down * low, torch.zeros_like(up)) + offset
        return [(int(a), int(b)) for a, b in zip(least, most, strict=True)]


def match(check: Check, node: Node, spec: ConvSpec | LinearSpec, source: Activation) -> Weighted:
    """State the conditions of a weighted operator."""
    conv = spec if isinstance(spec, ConvSpec) else None
    if isinstance(spec, ConvSpec):
        fits, actual = spec.dims == 2, f"{spec.dims}-D"
    else:
        fits = spec.plain and spec.rows_are_outputs
        actual = "x · w" if not spec.rows_are_outputs else "scaled by alpha or beta"
    check.that("two_dimensional", fits, at=node, expected="a 2-D convolution, or x · w^T + b", actual=actual)
    turned = conv is not None and conv.transposed
    plain = conv is None or not turned or (conv.groups == 1 and set(conv.dilation) == {1})
    check.that(
        "transposed_plain", plain, at=node, expected="1 group, dilation 1",
        actual="a linear" if conv is None else f"{conv.groups} groups, dilation {conv.dilation}",
        because="TRANSPOSE_CONV2D has no dilation and no groups",
    )  # fmt: skip
    weight = Quantization.of(spec.weight) if is_dequantize(spec.weight) else None
    held = (
        [] if weight is None else [n for n in (weight.operand, weight.scale, weight.zero_point) if isinstance(n, Node)]
    )
    varying = next((n for n in held if not check.is_constant(n)), None)
    check.that(
        "quantized_weight", weight is not None and varying is None and weight.dtype == torch.int8, at=varying or spec.weight,
        expected="a dequantized int8 constant", actual=varying or ("computed" if weight is None else weight.dtype),
    )  # fmt: skip
    assert weight is not None
    axis = 1 if turned else 0
    outputs = spec.out_channels if isinstance(spec, ConvSpec) else spec.outputs
    per_tensor = weight.per_tensor and weight.literal
    check.that(
        "weight_per_channel", per_tensor or weight.axis == axis or (outputs == 1 and weight.per_tensor), at=weight.node,
        expected=f"a scale for each index of axis {axis}, or one for all", actual=weight.grain,
    )  # fmt: skip
    offset = weight.zero_point
    largest = int(check.value(offset).abs().max()) if isinstance(offset, Node) else int(offset or 0)
    check.eq("weight_symmetric", largest, 0, at=weight.node, because="CONV2D takes weights without a zero point here")
    scale = check.value(weight.scale).reshape(-1) if isinstance(weight.scale, Node) else torch.tensor([weight.scale])
    result = Weighted(spec, source, weight, scale.expand(outputs), spec.bias)
    if spec.bias is None:
        check.that("constant_bias", True, at=node, actual="no bias")
    else:
        constant = check.is_constant(spec.bias) and shape_of(spec.bias) == (outputs,)
        check.that("constant_bias", constant, at=spec.bias, expected=f"a constant ({outputs},)", actual=spec.bias)
    ranges = result.ranges(check.value(weight.operand), None if spec.bias is None else check.value(spec.bias))
    over = next(((c, r) for c, r in enumerate(ranges) if r[0] < INT32_MIN or r[1] > INT32_MAX), None)
    check.that(
        "accumulator_fits", over is None, at=node, expected="int32",
        actual="int32" if over is None else f"channel {over[0]} can reach {over[1]}",
        because="TOSA leaves an overflow of the accumulator open",
    )  # fmt: skip
    return result


def build(edit: Editor, node: Node, weighted: Weighted) -> Node:
    """CONV2D or TRANSPOSE_CONV2D: int32, [N, C_out, H, W] or [rows, N, 1, 1]."""
    spec, source, key = weighted.spec, weighted.input, ("tosa", weighted.input.scale)
    codes, bias = weighted.weight.operand, None
    if weighted.bias is not None:
        held: Node = weighted.bias
        bias = edit.constant(
            lambda: weighted.bias_codes(edit.constant_value(held)).to(torch.int32), held, "int32",
            key=(key, edit.id_of(codes)),
        )  # fmt: skip
    if isinstance(spec, LinearSpec):
        weight = edit.constant(lambda: edit.constant_value(codes)[:, :, None, None], codes, "1x1", key="tosa")
        x = _as_images(edit, source.codes, spec.inputs, node)
        return edit.call(tosa.conv2d, x, weight, bias, [1, 1], [0, 0], [1, 1], 1, source.zero_point, like=node)
    geometry = (list(spec.stride), list(spec.padding))
    if spec.transposed:
        return edit.call(
            tosa.transpose_conv2d, source.codes, codes, bias, *geometry, list(spec.output_padding), spec.groups,
            source.zero_point, like=node,
        )  # fmt: skip
    return edit.call(
        tosa.conv2d,
        source.codes,
        codes,
        bias,
        *geometry,
        list(spec.dilation),
        spec.groups,
        source.zero_point,
        like=node,
    )


def _as_images(edit: Editor, codes: Node, inputs: int, like: Node) -> Node:
    """[..., K] as [rows, K, 1, 1]; copied where it lies in memory in another order."""
    shape = [-1, inputs, 1, 1]
    try:
        codes.meta["val"].view(shape)
    except RuntimeError:
        codes = edit.call(aten.clone.default, codes, memory_format=torch.contiguous_format, like=like)
    return edit.call(aten.view.default, codes, shape, like=like)


def rescaling(weighted: Weighted, result: Quantization) -> Rescaling:
    """From the accumulator to the result's codes, channel by channel. OperatorError: a scale is out of range."""
    scales = [s / float(result.scale) for s in weighted.accumulator_scales()]
    return Rescaling.by(scales, output_zp=int(result.zero_point or 0), axis=1, dtype=torch.int8)
