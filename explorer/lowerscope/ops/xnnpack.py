"""Operators of the XNNPACK lowering (pytorch/executorch#25041): output ranges, depth-to-space and layout changes."""

from __future__ import annotations

import torch

from .activations import clamp_range
from .registry import OperatorError, register

NAMESPACE = "lowerscope_xnnpack"


@register(
    NAMESPACE,
    "depth_to_space_2d(Tensor input, SymInt block_size) -> Tensor",
    display="xnnpack.depth_to_space_2d",
    category="shape",
)
def depth_to_space_2d(input: torch.Tensor, block_size: int) -> torch.Tensor:
    """Interleave channels into space, block-major: [N, s*s*C, H, W] -> [N, C, H*s, W*s], any dtype, s = `block_size`.

    Output pixel (y*s + a_y, x*s + a_x) of channel c is input channel ``(a_y*s + a_x)*C + c`` at (y, x). This is not
    `pixel_shuffle`, which reads channel ``c*s*s + a_y*s + a_x``.

    Raises:
        OperatorError: the input is not 4-D, or its channels do not divide into s*s blocks.
    """
    if input.dim() != 4:
        raise OperatorError(f"depth_to_space_2d takes a 4-D input, this one is {input.dim()}-D: add a batch dimension")
    n, channels, h, w = input.shape
    blocks = block_size * block_size
    if channels % blocks != 0:
        raise OperatorError(
            f"{channels} channels do not divide into {blocks} blocks: use a block size whose square divides them"
        )
    c = channels // blocks
    split = input.reshape(n, block_size, block_size, c, h, w)
    # Where nothing moves (a block of 1, a single pixel) the reshapes are views: an operator's result is a tensor of its own.
    return split.permute(0, 3, 4, 1, 5, 2).reshape(n, c, h * block_size, w * block_size).clone()


@register(
    NAMESPACE,
    "conv_with_range(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, float output_min, "
    "float output_max) -> Tensor",
    display="xnnpack.conv_with_range",
    category="conv",
)
def conv_with_range(
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
    """`aten.convolution`, of one floating dtype, held to [output_min, output_max]; -inf and inf leave a side open."""
    value = torch.ops.aten.convolution.default(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    return clamp_range(value, output_min, output_max)


@register(
    NAMESPACE,
    "linear_with_range(Tensor input, Tensor weight, Tensor? bias, float output_min, float output_max) -> Tensor",
    display="xnnpack.linear_with_range",
    category="matmul",
)
def linear_with_range(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, output_min: float, output_max: float
) -> torch.Tensor:
    """``input [..., K] @ weight [N, K].T + bias [N]``, of one floating dtype, held to [output_min, output_max]."""
    return clamp_range(torch.nn.functional.linear(input, weight, bias), output_min, output_max)


@register(
    NAMESPACE,
    "mm_with_range(Tensor input, Tensor mat2, float output_min, float output_max) -> Tensor",
    display="xnnpack.mm_with_range",
    category="matmul",
)
def mm_with_range(input: torch.Tensor, mat2: torch.Tensor, output_min: float, output_max: float) -> torch.Tensor:
    """`aten.mm`, a linear without a bias, of one floating dtype, held to [output_min, output_max]."""
    return clamp_range(torch.mm(input, mat2), output_min, output_max)


@register(
    NAMESPACE,
    "addmm_with_range(Tensor bias, Tensor mat1, Tensor mat2, Scalar beta, Scalar alpha, float output_min, "
    "float output_max) -> Tensor",
    display="xnnpack.addmm_with_range",
    category="matmul",
)
def addmm_with_range(
    bias: torch.Tensor,
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    beta: float,
    alpha: float,
    output_min: float,
    output_max: float,
) -> torch.Tensor:
    """`aten.addmm`, which a linear decomposes to, of one floating dtype, held to [output_min, output_max]."""
    return clamp_range(torch.addmm(bias, mat1, mat2, beta=beta, alpha=alpha), output_min, output_max)


@register(
    NAMESPACE,
    "add_with_range(Tensor input, Tensor other, Scalar alpha, float output_min, float output_max) -> Tensor",
    display="xnnpack.add_with_range",
    category="arithmetic",
)
def add_with_range(
    input: torch.Tensor, other: torch.Tensor, alpha: float, output_min: float, output_max: float
) -> torch.Tensor:
    """``input + alpha * other``, with ATen's broadcast shape and promoted dtype, held to [output_min, output_max]."""
    return clamp_range(torch.add(input, other, alpha=alpha), output_min, output_max)


@register(
    NAMESPACE,
    "sub_with_range(Tensor input, Tensor other, Scalar alpha, float output_min, float output_max) -> Tensor",
    display="xnnpack.sub_with_range",
    category="arithmetic",
)
def sub_with_range(
    input: torch.Tensor, other: torch.Tensor, alpha: float, output_min: float, output_max: float
) -> torch.Tensor:
    """``input - alpha * other``, with ATen's broadcast shape and promoted dtype, held to [output_min, output_max]."""
    return clamp_range(torch.sub(input, other, alpha=alpha), output_min, output_max)


@register(
    NAMESPACE,
    "mul_with_range(Tensor input, Tensor other, float output_min, float output_max) -> Tensor",
    display="xnnpack.mul_with_range",
    category="arithmetic",
)
def mul_with_range(input: torch.Tensor, other: torch.Tensor, output_min: float, output_max: float) -> torch.Tensor:
    """``input * other``, shapes and dtypes broadcast and promoted as ATen does, held to [output_min, output_max]."""
    return clamp_range(torch.mul(input, other), output_min, output_max)


@register(
    NAMESPACE,
    "add_scalar_with_range(Tensor input, Scalar other, Scalar alpha, float output_min, float output_max) -> Tensor",
    display="xnnpack.add_scalar_with_range",
    category="arithmetic",
)
def add_scalar_with_range(
    input: torch.Tensor, other: float, alpha: float, output_min: float, output_max: float
) -> torch.Tensor:
    """``input + alpha * other`` with a number for `other`, of any shape and dtype, held to [output_min, output_max]."""
    return clamp_range(torch.add(input, other, alpha=alpha), output_min, output_max)


@register(
    NAMESPACE,
    "sub_scalar_with_range(Tensor input, Scalar other, Scalar alpha, float output_min, float output_max) -> Tensor",
    display="xnnpack.sub_scalar_with_range",
    category="arithmetic",
)
def sub_scalar_with_range(
    input: torch.Tensor, other: float, alpha: float, output_min: float, output_max: float
) -> torch.Tensor:
    """``input - alpha * other`` with a number for `other`, of any shape and dtype, held to [output_min, output_max]."""
    return clamp_range(torch.sub(input, other, alpha=alpha), output_min, output_max)


@register(
    NAMESPACE,
    "mul_scalar_with_range(Tensor input, Scalar other, float output_min, float output_max) -> Tensor",
    display="xnnpack.mul_scalar_with_range",
    category="arithmetic",
)
def mul_scalar_with_range(input: torch.Tensor, other: float, output_min: float, output_max: float) -> torch.Tensor:
    """``input * other`` with a number for `other`, of any shape and dtype, held to [output_min, output_max]."""
    return clamp_range(torch.mul(input, other), output_min, output_max)


@register(NAMESPACE, "to_nhwc(Tensor input) -> Tensor", display="xnnpack.to_nhwc", category="shape")
def to_nhwc(input: torch.Tensor) -> torch.Tensor:
    """The transpose to NHWC that a layout pass inserts: values and logical shape [N, C, H, W] stay, memory becomes
    channels-last. Always a copy, as on the device. Any dtype.

    Raises:
        OperatorError: the input is not 4-D.
    """
    _require_4d("to_nhwc", input)
    return torch.clone(input, memory_format=torch.channels_last)


@register(NAMESPACE, "to_nchw(Tensor input) -> Tensor", display="xnnpack.to_nchw", category="shape")
def to_nchw(input: torch.Tensor) -> torch.Tensor:
    """The transpose back to NCHW: values and logical shape [N, C, H, W] stay, memory becomes contiguous. Always a copy.
    Any dtype.

    Raises:
        OperatorError: the input is not 4-D.
    """
    _require_4d("to_nchw", input)
    return torch.clone(input, memory_format=torch.contiguous_format)


def _require_4d(op: str, input: torch.Tensor) -> None:
    if input.dim() != 4:
        raise OperatorError(f"{op} takes a 4-D input, this one is {input.dim()}-D: only 4-D values have these layouts")
