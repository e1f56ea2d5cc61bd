"""What ONNX Runtime's WebGPU execution provider takes, by the ATen operator that an exporter writes as the ONNX one."""

from __future__ import annotations

import torch

from lowerscope.ops import ort_webgpu
from lowerscope.support.table import FLOATING, Site, Support, Table, one_dtype, ops, own

_INTEGERS = frozenset({torch.int32, torch.int64})
_BOOL = frozenset({torch.bool})
_NUMBERS = FLOATING | _INTEGERS
_ANYTHING = _NUMBERS | _BOOL


def _dims(site: Site) -> str | None:
    dims = len(site.shape("weight") or ()) - 2
    if dims == 3 and site.given["transposed"]:
        return "it is a transposed 3-D convolution"
    return None if dims in (1, 2, 3) else f"it is a {dims}-D convolution"


TABLE = Table(
    "WebGPU",
    (
        Support(ops("relu hardtanh clamp sigmoid tanh elu gelu hardswish hardsigmoid leaky_relu abs neg exp log sqrt rsqrt")),
        Support(ops("reciprocal erf sin cos tan asin acos atan sinh cosh asinh acosh atanh floor ceil round")),
        Support(ops("add.Tensor add.Scalar sub.Tensor sub.Scalar mul.Tensor mul.Scalar div.Tensor div.Scalar"), inputs=_NUMBERS),
        Support(ops("pow.Tensor_Tensor pow.Tensor_Scalar maximum minimum"), inputs=_NUMBERS),
        Support(ops("eq.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor"), inputs=_NUMBERS, outputs=_BOOL),
        Support(ops("eq.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar"), inputs=_NUMBERS, outputs=_BOOL),
        Support(ops("logical_not"), inputs=_BOOL),
        Support(ops("convolution"), limits=(_dims,)),
        Support(ops("linear mm addmm bmm matmul")),
        Support(ops("avg_pool2d max_pool2d _adaptive_avg_pool2d")),
        Support(ops("max_pool2d_with_indices"), outputs=_NUMBERS),
        Support(ops("mean.dim sum.dim_IntList amax amin prod.dim_int cumsum"), inputs=_NUMBERS),
        Support(ops("argmax argmin"), inputs=_NUMBERS),
        Support(ops("_softmax")),
        Support(ops("_native_batch_norm_legit_no_training native_layer_norm native_group_norm")),
        Support(ops("upsample_nearest2d.vec upsample_bilinear2d.vec upsample_bicubic2d.vec pixel_shuffle")),
        Support(ops("cat where.self _to_copy constant_pad_nd"), inputs=_ANYTHING),
        Support(ops("view permute squeeze.dims squeeze.dim unsqueeze expand repeat clone alias slice.Tensor select.int"), inputs=_ANYTHING),
        Support(ops("split_with_sizes t transpose.int"), inputs=_ANYTHING),
        Support(ops("embedding gather index_select"), inputs=_ANYTHING),
        Support(ops("arange.start_step full"), inputs=_ANYTHING),
        Support(own(*(op for op in vars(ort_webgpu).values() if isinstance(op, torch._ops.OpOverload)))),
    ),
    common=(one_dtype,),
)  # fmt: skip
