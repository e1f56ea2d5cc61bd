"""The integer operators of a TOSA graph for Arm Ethos-U, shown as ``tosa.*``; bit-exact against Arm's reference model.

Layouts stay ATen's: [N, C, H, W] and [C_out, C_in / groups, H, W]. TRANSPOSE and RESHAPE are ATen's permute and view.
Sums of int8 products are taken in float64, which holds every integer below 2**53 exactly and which ATen convolves.
"""

from __future__ import annotations

import torch

from .registry import OperatorError, register
from .tosa_scale import check_rescale

NAMESPACE = "lowerscope_tosa"
TABLE_SIZE = 256


@register(
    NAMESPACE,
    "rescale(Tensor input, int[] multiplier, int[] shift, int input_zp, int output_zp, int axis, "
    "ScalarType output_dtype) -> Tensor",
    display="tosa.RESCALE",
    category="quant",
)
def rescale(
    input: torch.Tensor,
    multiplier: list[int],
    shift: list[int],
    input_zp: int,
    output_zp: int,
    axis: int,
    output_dtype: torch.dtype,
) -> torch.Tensor:
    """``clamp((((x - input_zp) * m + (1 << (sh - 1))) >> sh) + output_zp)`` in int64: one rounding, half upwards.

    Args:
        input: int8, int16 or int32, of any shape.
        multiplier: one value for the whole tensor, or one for each index of `axis`; `shift` likewise.
        output_dtype: int8, int16 or int32; the result is clamped to its range.

    Raises:
        OperatorError: a parameter for which TOSA leaves the result open, see `tosa_scale.check_rescale`.
    """
    check_rescale(multiplier, shift, input_zp, output_zp, input.dtype, output_dtype)
    centred = input.to(torch.int64) - input_zp
    if len(multiplier) == 1:
        half = 1 << (shift[0] - 1)
        scaled = torch.bitwise_right_shift(centred * multiplier[0] + half, shift[0])
    else:
        scaled = _rescale_channels(centred, multiplier, shift, axis)
    limits = torch.iinfo(output_dtype)
    return torch.clamp(scaled + output_zp, limits.min, limits.max).to(output_dtype)


@register(NAMESPACE, "mul(Tensor input, Tensor other, int shift) -> Tensor", display="tosa.MUL", category="arithmetic")
def mul(input: torch.Tensor, other: torch.Tensor, shift: int) -> torch.Tensor:
    """The int32 product of two shapes that broadcast. 8-bit and 16-bit operands ignore the shift; int32 ones wrap with
    shift 0, and a shift above 0 is ``(a*b + (1 << (sh-1))) >> sh``.

    Raises:
        OperatorError: the operands' dtypes differ or are no integers, or the shift lies outside 0..63.
    """
    _require_integers("MUL", input, other)
    if not 0 <= shift <= 63:
        raise OperatorError(f"the MUL shift {shift} lies outside 0..63: use one in that range")
    product = input.to(torch.int64) * other.to(torch.int64)
    if shift > 0 and input.dtype == torch.int32:
        product = torch.bitwise_right_shift(product + (1 << (shift - 1)), shift)
    return product.to(torch.int32)


@register(NAMESPACE, "add(Tensor input, Tensor other) -> Tensor", display="tosa.ADD", category="arithmetic")
def add(input: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The int32 sum of two shapes that broadcast. TOSA leaves an overflow open: who builds the graph keeps
    the operands small enough; here it wraps.

    Raises:
        OperatorError: an operand is not int32.
    """
    _require_integers("ADD", input, other)
    if input.dtype != torch.int32:
        raise OperatorError(f"ADD takes int32 operands, not {input.dtype}: RESCALE them first")
    return torch.add(input, other)


@register(NAMESPACE, "table(Tensor input, Tensor table) -> Tensor", display="tosa.TABLE", category="activation")
def table(input: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """``table[x + 128]``: int8 of any shape through an int8 table [256].

    Raises:
        OperatorError: the input is not int8, or the table has not 256 int8 entries.
    """
    if input.dtype != torch.int8:
        raise OperatorError(f"TABLE takes an int8 input, not {input.dtype}: RESCALE it first")
    if table.dtype != torch.int8 or list(table.shape) != [TABLE_SIZE]:
        raise OperatorError(
            f"TABLE looks up {TABLE_SIZE} int8 entries, not {table.dtype} {list(table.shape)}: rebuild it"
        )
    return table[input.to(torch.int64) + TABLE_SIZE // 2]


@register(
    NAMESPACE,
    "conv2d(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
    "SymInt groups, int input_zp) -> Tensor",
    display="tosa.CONV2D",
    category="conv",
)
def conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    input_zp: int,
) -> torch.Tensor:
    """``sum((x - input_zp) * w) + b`` in int32; padding is the centred zero. Groups cover TOSA's DEPTHWISE_CONV2D.

    Args:
        input: int8 [N, C_in, H, W]; `weight` int8 [C_out, C_in / groups, KH, KW]; `bias` int32 [C_out] or None.
        padding: [top and bottom, left and right].

    Raises:
        OperatorError: input or weight is not int8, or the bias not int32.
    """
    return _convolve(input, weight, bias, stride, padding, dilation, False, [0, 0], groups, input_zp)


@register(
    NAMESPACE,
    "transpose_conv2d(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] output_padding, SymInt groups, int input_zp) -> Tensor",
    display="tosa.TRANSPOSE_CONV2D",
    category="conv",
)
def transpose_conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    output_padding: list[int],
    groups: int,
    input_zp: int,
) -> torch.Tensor:
    """The transposed convolution of the same kind: int8 [N, C_in, H, W], weight int8 [C_in, C_out / groups, KH, KW].

    Raises:
        OperatorError: input or weight is not int8, or the bias not int32.
    """
    return _convolve(input, weight, bias, stride, padding, [1, 1], True, output_padding, groups, input_zp)


@register(
    NAMESPACE,
    "matmul(Tensor input, Tensor other, int input_zp, int other_zp) -> Tensor",
    display="tosa.MATMUL",
    category="matmul",
)
def matmul(input: torch.Tensor, other: torch.Tensor, input_zp: int, other_zp: int) -> torch.Tensor:
    """``sum((a - input_zp) * (b - other_zp))`` in int32: int8 [N, H, C] by int8 [N, C, W].

    Raises:
        OperatorError: an operand is not int8.
    """
    _require_int8("MATMUL", input, other)
    return _to_int32(torch.bmm(_centred(input, input_zp), _centred(other, other_zp)))


def _rescale_channels(centred: torch.Tensor, multiplier: list[int], shift: list[int], axis: int) -> torch.Tensor:
    if centred.shape[axis] != len(multiplier):
        raise OperatorError(
            f"{len(multiplier)} multipliers do not fit axis {axis} of {list(centred.shape)}: give one for each index of it"
        )
    shape = [1] * centred.dim()
    shape[axis] = len(multiplier)
    m = torch.tensor(multiplier, dtype=torch.int64, device=centred.device).reshape(shape)
    sh = torch.tensor(shift, dtype=torch.int64, device=centred.device).reshape(shape)
    half = torch.tensor([1 << (s - 1) for s in shift], dtype=torch.int64, device=centred.device).reshape(shape)
    return torch.bitwise_right_shift(centred * m + half, sh)


def _convolve(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    input_zp: int,
) -> torch.Tensor:
    op = "TRANSPOSE_CONV2D" if transposed else "CONV2D"
    _require_int8(op, input, weight)
    if bias is not None and bias.dtype != torch.int32:
        raise OperatorError(f"{op} takes an int32 bias, not {bias.dtype}: quantize it with the accumulator's scale")
    sums = torch.ops.aten.convolution.default(
        _centred(input, input_zp),
        weight.to(torch.float64),
        None if bias is None else bias.to(torch.float64),
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    )
    return _to_int32(sums)


def _centred(value: torch.Tensor, zero_point: int) -> torch.Tensor:
    return value.to(torch.float64) - zero_point


def _to_int32(sums: torch.Tensor) -> torch.Tensor:
    # Through int64: a cast from float64 straight to int32 leaves a value out of range open, where a sum should wrap.
    return sums.to(torch.int64).to(torch.int32)


def _require_integers(op: str, input: torch.Tensor, other: torch.Tensor) -> None:
    if input.dtype != other.dtype or input.dtype not in (torch.int8, torch.int16, torch.int32):
        raise OperatorError(
            f"{op} takes two integers of one dtype, not {input.dtype} and {other.dtype}: RESCALE them first"
        )


def _require_int8(op: str, input: torch.Tensor, other: torch.Tensor) -> None:
    if input.dtype != torch.int8 or other.dtype != torch.int8:
        raise OperatorError(f"{op} takes int8 operands, not {input.dtype} and {other.dtype}: quantize them to 8 bits")
