"""The integer arithmetic of a TOSA RESCALE, away from tensors: parameters, and the ranges that a build-time check needs."""

from __future__ import annotations

import math

import torch

from .registry import OperatorError

MIN_SHIFT, MAX_SHIFT = 2, 62
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
INTEGER_DTYPES = (torch.int8, torch.int16, torch.int32)


def rescale_multiplier_shift(scale: float) -> tuple[int, int]:
    """The (multiplier, shift) whose ``multiplier * 2**-shift`` stands for `scale`: 31 bits of mantissa, rounded half to even.

    A scale below 2**-31 or so keeps fewer bits, since the shift ends at 62.

    Raises:
        OperatorError: the scale is not a positive finite number, or too large for the smallest shift, 2.
    """
    if not (math.isfinite(scale) and scale > 0):
        raise OperatorError(f"a RESCALE cannot scale by {scale}: use a positive, finite scale")
    mantissa, exponent = math.frexp(scale)
    multiplier = round(mantissa * (1 << 31))  # Python rounds halves to even
    shift = 31 - exponent
    if multiplier == 1 << 31:
        multiplier //= 2
        shift -= 1
    if shift > MAX_SHIFT:
        multiplier >>= min(31, shift - MAX_SHIFT)
        shift = MAX_SHIFT
    if shift < MIN_SHIFT:
        raise OperatorError(
            f"a RESCALE by {scale} needs shift {shift}, and the smallest is {MIN_SHIFT}: use a smaller scale"
        )
    return multiplier, shift


def rescale_scale(multiplier: int, shift: int) -> float:
    """The scale that (multiplier, shift) stands for, exactly."""
    return math.ldexp(multiplier, -shift)


def check_rescale(
    multiplier: list[int],
    shift: list[int],
    input_zp: int,
    output_zp: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> None:
    """Refuse the parameters for which TOSA leaves a RESCALE's result open.

    Raises:
        OperatorError: names the parameter and the values it may have.
    """
    if len(multiplier) != len(shift) or not multiplier:
        raise OperatorError(
            f"{len(multiplier)} multipliers do not go with {len(shift)} shifts: give one of each a channel"
        )
    for m in multiplier:
        if not 0 <= m <= INT32_MAX:
            raise OperatorError(f"the RESCALE multiplier {m} is no non-negative int32: use rescale_multiplier_shift")
    for sh in shift:
        if not MIN_SHIFT <= sh <= MAX_SHIFT:
            raise OperatorError(
                f"the RESCALE shift {sh} lies outside {MIN_SHIFT}..{MAX_SHIFT}: use rescale_multiplier_shift"
            )
    for side, zero_point, kind in (("input", input_zp, dtype), ("output", output_zp, output_dtype)):
        if kind not in INTEGER_DTYPES:
            raise OperatorError(f"a RESCALE's {side} cannot be {kind}: use int8, int16 or int32")
        if zero_point and kind != torch.int8:
            raise OperatorError(
                f"a RESCALE's {kind} {side} has the zero point {zero_point}: only 8-bit values may have one"
            )
        if kind == torch.int8 and not -128 <= zero_point <= 127:
            raise OperatorError(f"the zero point {zero_point} is no {kind} value: use one in its range")


def rescale_value(value: int, multiplier: int, shift: int, input_zp: int = 0) -> int:
    """What a RESCALE makes of one value before the output zero point and the clamp, in unbounded integers."""
    return ((value - input_zp) * multiplier + (1 << (shift - 1))) >> shift


def rescale_unpredictable(low: int, high: int, shift: int, input_zp: int = 0) -> str | None:
    """Why TOSA leaves open what a RESCALE makes of the inputs in [low, high]; None where it is defined for all of them.

    A centred value must lie in [-2**(shift - 1), 2**(shift - 1)); what it scales to is then an int32 whatever the
    multiplier. The two ends decide, since nothing between them lies further out.
    """
    bound = 1 << (shift - 1)
    for value in (low, high):
        if not -bound <= value - input_zp < bound:
            return (
                f"the centred value {value - input_zp} lies outside [{-bound}, {bound}), which shift {shift} asks for"
            )
    return None
