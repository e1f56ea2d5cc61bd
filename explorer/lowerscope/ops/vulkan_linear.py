"""The three quantized linears that ExecuTorch's Vulkan backend has a kernel for, shown as ``et_vk.linear_*``.

Names read left to right: how the activation is quantized, then how the weight is. ``q8ta`` is 8-bit, static, per tensor;
``dq8ca`` 8-bit, dynamic, per row; ``q8csw`` 8-bit per output channel, symmetric; ``q4gsw`` 4-bit per group, symmetric.

The weight sums that the device precomputes to take zero points out of its integer products are left out of the schemas:
they are a packing detail, and the references dequantize.
"""

from __future__ import annotations

import torch

from .registry import OperatorError, register
from .vulkan import NAMESPACE

OUTPUT_ALIGNMENT = 4
"""The 4-bit kernels work on blocks of this many outputs: scales and bias are padded to a multiple of it."""


def pack_int4(codes: torch.Tensor) -> torch.Tensor:
    """Pack int8 codes [N, K] in -8..7 into uint8 [N, K / 2]: column 2i in the low half of byte i, each offset by 8.

    Raises:
        OperatorError: K is odd, or a code does not fit 4 bits.
    """
    if codes.dim() != 2 or codes.shape[1] % 2:
        raise OperatorError(f"4-bit codes of shape {list(codes.shape)} do not pair up: give [N, K] with an even K")
    if codes.numel() and (int(codes.min()) < -8 or int(codes.max()) > 7):
        raise OperatorError("a code lies outside -8..7, which is all that 4 bits hold: quantize the weight to 4 bits")
    shifted = (codes.to(torch.int16) + 8).to(torch.uint8)
    return shifted[:, ::2] | (shifted[:, 1::2] << 4)


def unpack_int4(packed: torch.Tensor) -> torch.Tensor:
    """The int8 codes [N, K] that `pack_int4` packed."""
    halves = torch.stack((packed & 0x0F, packed >> 4), dim=-1)
    return halves.reshape(packed.shape[0], 2 * packed.shape[1]).to(torch.int8) - 8


def pad_outputs(values: torch.Tensor) -> torch.Tensor:
    """Zero-pad [..., N], of any dtype and with a value for each output, to a multiple of `OUTPUT_ALIGNMENT`."""
    missing = -values.shape[-1] % OUTPUT_ALIGNMENT
    return torch.nn.functional.pad(values, (0, missing))


@register(
    NAMESPACE,
    "linear_q8ta_q8csw(Tensor input, float input_scale, int input_zero_point, Tensor weights, Tensor weight_scales, "
    "Tensor? bias) -> Tensor",
    display="et_vk.linear_q8ta_q8csw",
    category="matmul",
)
def linear_q8ta_q8csw(
    input: torch.Tensor,
    input_scale: float,
    input_zero_point: int,
    weights: torch.Tensor,
    weight_scales: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """8-bit weights, static 8-bit activations. The activation is quantized inside.

    Args:
        input: [..., K], floating; the result is [..., N] of its dtype.
        weights: int8 [N, K]; `weight_scales` [N]; `bias` [N] or None.
    """
    return _linear(_through_int8(input, input_scale, input_zero_point), _per_channel(weights, weight_scales), bias)


@register(
    NAMESPACE,
    "linear_q4gsw(Tensor input, Tensor weights, Tensor weight_scales, int group_size, Tensor? bias) -> Tensor",
    display="et_vk.linear_q4gsw",
    category="matmul",
)
def linear_q4gsw(
    input: torch.Tensor, weights: torch.Tensor, weight_scales: torch.Tensor, group_size: int, bias: torch.Tensor | None
) -> torch.Tensor:
    """4-bit group-quantized weights, floating activations.

    Args:
        input: [..., K], floating; the result is [..., N] of its dtype.
        weights: uint8 [N, K / 2], packed by `pack_int4`: its rows are the N real outputs.
        weight_scales: [K / group_size, N4] with N4 the multiple of 4 at or above N; `bias` is [N4] or None. What they
            hold beyond N is padding and does not reach the result.

    Raises:
        OperatorError: `group_size` does not divide K.
    """
    return _linear(input, _per_group(input, weights, weight_scales, group_size), _real_outputs(bias, weights))


@register(
    NAMESPACE,
    "linear_dq8ca_q4gsw(Tensor input, Tensor input_scale, Tensor input_zero_point, Tensor weights, "
    "Tensor weight_scales, int group_size, Tensor? bias) -> Tensor",
    display="et_vk.linear_dq8ca_q4gsw",
    category="matmul",
)
def linear_dq8ca_q4gsw(
    input: torch.Tensor,
    input_scale: torch.Tensor,
    input_zero_point: torch.Tensor,
    weights: torch.Tensor,
    weight_scales: torch.Tensor,
    group_size: int,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """4-bit group-quantized weights, activations quantized to 8 bits row by row with parameters chosen at run time.

    Args:
        input: [..., K], floating; the result is [..., N] of its dtype.
        input_scale: one value for each row of the input, in any shape that holds them in order; `input_zero_point`,
            an integer tensor, likewise.
        weights: as for `linear_q4gsw`, and so are `weight_scales` and `bias`.

    Raises:
        OperatorError: `group_size` does not divide K.
    """
    rows = (*input.shape[:-1], 1)
    activation = _through_int8(input, input_scale.reshape(rows), input_zero_point.reshape(rows))
    return _linear(activation, _per_group(input, weights, weight_scales, group_size), _real_outputs(bias, weights))


def _through_int8(value: torch.Tensor, scale: torch.Tensor | float, zero_point: torch.Tensor | int) -> torch.Tensor:
    """Quantize to -128..127 and back, in the value's dtype, with the rounding of torchao's quantize and dequantize."""
    if isinstance(scale, torch.Tensor):
        scale = scale.to(value.dtype)
    if isinstance(zero_point, torch.Tensor):
        # int8 zero points would wrap when they are subtracted from codes.
        zero_point = zero_point.to(value.dtype)
    codes = torch.clamp(torch.round(value * (1.0 / scale)) + zero_point, -128, 127)
    return (codes - zero_point) * scale


def _per_channel(weights: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return weights.to(scales.dtype) * scales.unsqueeze(1)


def _per_group(input: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, group_size: int) -> torch.Tensor:
    codes = unpack_int4(packed)
    n, k = codes.shape
    if k % group_size:
        raise OperatorError(f"{k} inputs do not divide into groups of {group_size}: use a group size that divides them")
    per_output = scales[:, :n].transpose(0, 1).to(input.dtype)
    groups = codes.reshape(n, k // group_size, group_size).to(input.dtype)
    return (groups * per_output.unsqueeze(-1)).reshape(n, k)


def _real_outputs(bias: torch.Tensor | None, packed: torch.Tensor) -> torch.Tensor | None:
    return None if bias is None else bias[: packed.shape[0]]


def _linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return torch.nn.functional.linear(input, weight.to(input.dtype), None if bias is None else bias.to(input.dtype))
