"""The activations that fused operators carry, and the range that an output is held to."""

from __future__ import annotations

import math

import torch

from .registry import OperatorError

EPILOGUE_ACTIVATIONS = ("none", "relu", "clamp", "leaky_relu")
"""What ``conv2d.with_epilogue`` can end with."""


def clamp_range(value: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """``min(max(value, low), high)``; a side at -inf or inf is open, and ``low > high`` gives ``high`` as ATen does.

    Of any shape. An integer tensor keeps its dtype: its bounds are whole numbers, or open.

    Raises:
        OperatorError: a bound of an integer tensor is no whole number.
    """
    if not value.is_floating_point():
        _require_whole(low, high)
    lower = None if low == -math.inf else _bound(value, low)
    upper = None if high == math.inf else _bound(value, high)
    # A clamp without any bound is an error in ATen, and an operator's result must not alias its input.
    return value.clone() if lower is None and upper is None else torch.clamp(value, lower, upper)


def epilogue_activation(value: torch.Tensor, activation: str, a: float, b: float) -> torch.Tensor:
    """Apply one of `EPILOGUE_ACTIVATIONS`: "clamp" to [a, b], "leaky_relu" of slope a. Any shape and dtype.

    Raises:
        OperatorError: the activation is none of them.
    """
    if activation == "none":
        return value
    if activation == "relu":
        return torch.relu(value)
    if activation == "clamp":
        return clamp_range(value, a, b)
    if activation == "leaky_relu":
        return torch.nn.functional.leaky_relu(value, a)
    raise OperatorError(f"activation {activation!r} has no epilogue: use one of {', '.join(EPILOGUE_ACTIVATIONS)}")


def _bound(value: torch.Tensor, bound: float) -> float | int:
    return bound if value.is_floating_point() else int(bound)


def _require_whole(low: float, high: float) -> None:
    for bound in (low, high):
        if math.isfinite(bound) and bound != int(bound):
            raise OperatorError(f"the bound {bound} cannot hold an integer tensor: use a whole number")
