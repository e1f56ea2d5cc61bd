"""What Arm's Ethos-U takes through TOSA INT8: integer operators, and quantized ones between dequantize and quantize."""

from __future__ import annotations

import torch

from lowerscope.arguments import op_of
from lowerscope.ops import tosa
from lowerscope.support.table import QUANTIZED, Site, Support, Table, ops, own

_REAL = frozenset({torch.float32})
_QUANTIZE = ("quantized_decomposed::quantize_per_tensor", "quantized_decomposed::quantize_per_channel")
_DEQUANTIZE = ("quantized_decomposed::dequantize_per_tensor", "quantized_decomposed::dequantize_per_channel")
#: ops that move values and compute none: they run on the codes themselves
_MOVES = "view permute squeeze.dims squeeze.dim unsqueeze expand clone cat slice.Tensor select.int constant_pad_nd repeat flip"


def _quantized(site: Site) -> str | None:
    """Every operand is dequantized, a constant, or again such an operator's result."""
    for reference in site.inputs:
        value = site.around.value(reference)
        if not isinstance(value, torch.Tensor) or site.around.is_constant(reference):
            continue
        op = op_of(site.around.target(reference))
        if value.dtype in QUANTIZED or op in _DEQUANTIZE or op in TABLE.entries:
            continue
        return "an operand is real and was never quantized; Ethos-U computes in integers only"
    return None


TABLE = Table(
    "Ethos-U",
    (
        Support(own(*(op for op in vars(tosa).values() if isinstance(op, torch._ops.OpOverload))), inputs=QUANTIZED),
        Support((*_QUANTIZE, *_DEQUANTIZE), inputs=QUANTIZED | _REAL | {torch.float64, torch.int64}),
        Support(ops(_MOVES), inputs=QUANTIZED | _REAL, limits=(_quantized,)),
        Support(
            ops("convolution linear addmm mm bmm add.Tensor add.Scalar sub.Tensor sub.Scalar mul.Tensor mul.Scalar "
                "div.Tensor div.Scalar maximum minimum relu hardtanh clamp sigmoid tanh leaky_relu elu gelu hardswish "
                "hardsigmoid abs neg exp log sqrt rsqrt reciprocal erf sin cos floor ceil round pow.Tensor_Scalar "
                "avg_pool2d max_pool2d _adaptive_avg_pool2d mean.dim sum.dim_IntList amax amin _softmax _log_softmax "
                "native_layer_norm native_group_norm upsample_nearest2d.vec upsample_bilinear2d.vec"),
            inputs=QUANTIZED | _REAL,
            limits=(_quantized,),
        ),
    ),
)  # fmt: skip
