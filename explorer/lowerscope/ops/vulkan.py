"""Fused convolutions of ExecuTorch's Vulkan backend (pytorch/executorch#24823), shown as ``et_vk.*``."""

from __future__ import annotations

import torch

from .activations import clamp_range, epilogue_activation
from .registry import OperatorError, register

NAMESPACE = "lowerscope_vulkan"

RESIDUAL_OPS = ("none", "add", "sub", "mul")
"""How ``conv2d.with_epilogue`` combines the convolution and the residual."""


@register(
    NAMESPACE,
    "conv2d_with_epilogue(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, Tensor? residual, "
    "Tensor? residual_scale, str residual_op, Scalar alpha, str activation, float activation_a, "
    "float activation_b) -> Tensor",
    display="et_vk.conv2d.with_epilogue",
    category="conv",
)
def conv2d_with_epilogue(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    residual: torch.Tensor | None,
    residual_scale: torch.Tensor | None,
    residual_op: str,
    alpha: float,
    activation: str,
    activation_a: float,
    activation_b: float,
) -> torch.Tensor:
    """``activation(conv(input) <residual_op> residual * residual_scale)``.

    Args:
        input: [1, C_in, H, W], floating.
        weight: as `aten.convolution` takes it, transposed layout included; `bias` is [C_out] or None.
        residual: [1, C_out, H_out, W_out], of the convolution's dtype; None exactly when `residual_op` is "none".
        residual_scale: [1, C_out, 1, 1] or [C_out, 1, 1], or None for a residual that is taken as it is.
        residual_op: "add" is conv + alpha * r, "sub" is conv - alpha * r, "mul" is conv * r and ignores alpha.
        activation: "none", "relu" (a = b = 0), "clamp" (a = min, b = max, -inf or inf where a side is open) or
            "leaky_relu" (a = slope).

    Raises:
        OperatorError: an encoding is unknown, or residual and `residual_op` contradict each other.
    """
    value = torch.ops.aten.convolution.default(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    value = _combine(value, residual, residual_scale, residual_op, alpha)
    return epilogue_activation(value, activation, activation_a, activation_b)


@register(
    NAMESPACE,
    "conv_with_clamp(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, float output_min, "
    "float output_max) -> Tensor",
    display="et_vk.conv_with_clamp",
    category="conv",
)
def conv_with_clamp(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    output_min: float,
    output_max: float,
) -> torch.Tensor:
    """A 1-D or 2-D convolution, direct or transposed, held to [output_min, output_max]; -inf and inf leave a side open.

    Upstream encodes an open upper side as the largest double, at which a float32 clamp raises.
    """
    value = torch.ops.aten.convolution.default(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    return clamp_range(value, output_min, output_max)


def _combine(
    value: torch.Tensor, residual: torch.Tensor | None, scale: torch.Tensor | None, residual_op: str, alpha: float
) -> torch.Tensor:
    if residual_op not in RESIDUAL_OPS:
        raise OperatorError(f"residual_op {residual_op!r} is unknown: use one of {', '.join(RESIDUAL_OPS)}")
    if (residual is None) != (residual_op == "none"):
        raise OperatorError(
            f"residual_op {residual_op!r} "
            + ("needs a residual: pass one, or 'none'" if residual is None else "takes no residual: leave it out")
        )
    if residual is None:
        if scale is not None:
            raise OperatorError("a residual scale was given without a residual: pass both, or neither")
        return value
    if scale is not None:
        residual = residual * scale
    if residual_op == "add":
        return torch.add(value, residual, alpha=alpha)
    if residual_op == "sub":
        return torch.sub(value, residual, alpha=alpha)
    return value * residual
