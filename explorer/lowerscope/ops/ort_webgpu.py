"""The im2col convolution of ONNX Runtime's WebGPU provider with its fused activation (microsoft/onnxruntime#32185)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .activations import clamp_range
from .registry import OperatorError, register

NAMESPACE = "lowerscope_ort"

PARAMETER_SLOTS: dict[str, tuple[str, ...]] = {
    "none": (),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}
"""What each uniform slot of an activation means. Clip's two mean {min, max}, HardSigmoid's {alpha, beta}."""


@register(
    NAMESPACE,
    "im2col_conv_activation(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, SymInt groups, str activation, float[] params, bool channels_last=False) -> Tensor",
    display="ort_webgpu.im2col_conv_activation",
    category="conv",
)
def im2col_conv_activation(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    activation: str,
    params: list[float],
    channels_last: bool = False,
) -> torch.Tensor:
    """``activation(conv(input))`` for a direct convolution that the device computes as im2col and a matrix product.

    The values are the convolution's; only the device's order of summation differs, which no CPU reference reproduces.

    Args:
        input: [N, C_in, *spatial], floating; `weight` [C_out, C_in / groups, *kernel]; `bias` [C_out] or None.
        activation: a key of `PARAMETER_SLOTS`; "none" is the plain im2col convolution.
        params: one value for each of the activation's slots, in order.
        channels_last: the order in memory of a 4-D result, which a view behind it depends on; contiguous otherwise,
            whatever the order of the packed weight.

    Raises:
        OperatorError: the activation is not one of the six or "none", or a slot is missing or in excess.
    """
    value = torch.ops.aten.convolution.default(
        input, weight, bias, stride, padding, dilation, False, [0] * len(stride), groups
    )
    value = value.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
    return activate(value, activation, params)


def activate(value: torch.Tensor, activation: str, params: Sequence[float]) -> torch.Tensor:
    """Apply the epilogue `activation` with its uniforms `params`; see `PARAMETER_SLOTS`. Any shape and floating dtype.

    OperatorError: there is no such epilogue, or it takes another number of parameters.
    """
    slots = PARAMETER_SLOTS.get(activation)
    if slots is None:
        raise OperatorError(f"activation {activation!r} has no epilogue: use one of {', '.join(PARAMETER_SLOTS)}")
    if len(params) != len(slots):
        raise OperatorError(
            f"{activation} takes {len(slots)} parameters ({', '.join(slots) or 'none'}), got {len(params)}: fill each slot"
        )
    if activation == "Relu":
        return torch.relu(value)
    if activation == "Sigmoid":
        return torch.sigmoid(value)
    if activation == "Tanh":
        return torch.tanh(value)
    if activation == "LeakyRelu":
        return torch.nn.functional.leaky_relu(value, params[0])
    if activation == "HardSigmoid":
        alpha, beta = params
        return torch.clamp(value * alpha + beta, 0.0, 1.0)
    if activation == "Clip":
        low, high = params
        return clamp_range(value, low, high)
    return value
