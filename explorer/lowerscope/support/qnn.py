"""What ExecuTorch's Qualcomm delegate takes: the operators that it has builders for in ExecuTorch 1.5.1."""

from __future__ import annotations

import torch

from lowerscope.ops import xnnpack
from lowerscope.support.table import (
    FLOATING,
    QUANTIZED,
    Support,
    Table,
    constant_weights,
    not_empty,
    ops,
    own,
    static_sizes,
)

_INTEGERS = frozenset({torch.int32, torch.int64})
_BOOL = frozenset({torch.bool})
_NUMBERS = FLOATING | QUANTIZED | _INTEGERS
_ANYTHING = _NUMBERS | _BOOL


TABLE = Table(
    "QNN",
    (
        Support(ops("relu hardtanh clamp sigmoid tanh elu gelu hardswish hardsigmoid leaky_relu prelu abs neg exp log"), inputs=_NUMBERS),
        Support(ops("sqrt rsqrt sin cos asin atan floor ceil round sign reciprocal"), inputs=_NUMBERS),
        Support(ops("add.Tensor add.Scalar sub.Tensor sub.Scalar mul.Tensor mul.Scalar div.Tensor div.Scalar"), inputs=_NUMBERS),
        Support(ops("maximum minimum pow.Tensor_Tensor pow.Tensor_Scalar floor_divide"), inputs=_NUMBERS),
        Support(ops("eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor"), inputs=_NUMBERS, outputs=_BOOL),
        Support(ops("eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar"), inputs=_NUMBERS, outputs=_BOOL),
        Support(ops("logical_and logical_or logical_not bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor"), inputs=_BOOL),
        Support(ops("isinf isnan"), outputs=_BOOL),
        Support(ops("convolution"), inputs=_NUMBERS, limits=(constant_weights("weight", "bias"),)),
        Support(ops("linear mm addmm bmm matmul"), inputs=_NUMBERS),
        Support(ops("avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d max_pool2d"), inputs=_NUMBERS),
        Support(ops("max_pool2d_with_indices max.dim min.dim topk sort"), inputs=_NUMBERS),
        Support(ops("mean.dim sum.dim_IntList amax amin cumsum"), inputs=_NUMBERS),
        Support(ops("argmax argmin"), inputs=_NUMBERS),
        Support(ops("_softmax _log_softmax"), inputs=_NUMBERS),
        Support(ops("_native_batch_norm_legit_no_training native_layer_norm native_group_norm"), inputs=_NUMBERS),
        Support(ops("upsample_nearest2d.vec upsample_bilinear2d.vec upsample_bicubic2d.vec"), inputs=_NUMBERS),
        Support(ops("pixel_shuffle pixel_unshuffle grid_sampler_2d channel_shuffle"), inputs=_NUMBERS),
        Support(ops("cat stack where.self"), inputs=_ANYTHING),
        Support(ops("view permute squeeze.dims squeeze.dim unsqueeze expand repeat clone slice.Tensor select.int"), inputs=_ANYTHING),
        Support(ops("split_with_sizes unbind.int flip constant_pad_nd _to_copy"), inputs=_ANYTHING),
        Support(ops("embedding gather index.Tensor index_select index_put scatter.src slice_scatter"), inputs=_ANYTHING),
        Support(ops("full full_like arange.start_step scalar_tensor"), inputs=_ANYTHING),
        Support(
            ops("quantize_per_tensor dequantize_per_tensor quantize_per_channel dequantize_per_channel", "quantized_decomposed"),
            inputs=_NUMBERS | {torch.float64},
            outputs=_NUMBERS,
        ),
        Support(own(xnnpack.to_nhwc, xnnpack.to_nchw), inputs=_ANYTHING),
    ),
    common=(not_empty, static_sizes),
)  # fmt: skip
