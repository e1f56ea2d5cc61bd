"""What ExecuTorch's XNNPACK delegate takes (its partitioner's configurations in ExecuTorch 1.5.1), and our own operators."""

from __future__ import annotations

from functools import partial

import torch

from lowerscope.ops import xnnpack
from lowerscope.support.table import (
    FLOATING,
    QUANTIZED,
    Site,
    Support,
    Table,
    constant_weights,
    not_empty,
    one_dtype,
    only_values,
    ops,
    own,
    static_sizes,
    unscaled,
)

aten = torch.ops.aten
#: views that order dimensions anew, or leave some elements out
MOVES = frozenset({aten.permute.default, aten.transpose.int, aten.t.default, aten.slice.Tensor, aten.expand.default})
#: spatial axes of the convolutions that it has
CONVOLUTION_DIMS = (1, 2)


def _dims(site: Site) -> str | None:
    dims = len(site.shape("weight") or ()) - 2
    return None if dims in CONVOLUTION_DIMS else f"it is a {dims}-D convolution; XNNPACK has 1-D and 2-D ones"


def _numbers(name: str):
    def limit(site: Site) -> str | None:
        sizes = site.given.get(name) or ()
        symbolic = [str(s) for s in sizes if not isinstance(s, int)]
        return f"its {name} is not known ahead of time: {', '.join(symbolic)}" if symbolic else None

    return limit


def _last_dim(site: Site) -> str | None:
    dim, rank = site.given["dim"], len(site.shape("self") or ())
    return None if dim in (-1, rank - 1) else f"it is over dimension {dim}; XNNPACK has it over the last one only"


def _trailing(site: Site) -> str | None:
    dim, rank = site.given["dim"], len(site.shape("self") or ())
    return None if dim in (-1, rank) else f"dimension {dim} is put in; XNNPACK puts one in behind the last only"


def _pooled_mean(site: Site) -> str | None:
    rank = len(site.shape("self") or ())
    dims = sorted(d % rank for d in site.given["dim"] or range(rank)) if rank else []
    if rank != 4 or dims != [2, 3] or not site.given["keepdim"] or site.given.get("dtype") is not None:
        return "XNNPACK has the mean of a 4-D tensor over height and width only, both kept"
    return None


def _square(site: Site) -> str | None:
    power = site.given["exponent"]
    return None if power == 2 else f"the power is {power}; XNNPACK has squares only"


def _max_pool(site: Site) -> str | None:
    kernel, stride = site.given["kernel_size"], site.given["stride"] or site.given["kernel_size"]
    if any(s > k for s, k in zip(stride, list(kernel) * (len(stride) // len(kernel)), strict=False)):
        return f"its stride {tuple(stride)} is larger than its kernel {tuple(kernel)}"
    return None


def _avg_pool(site: Site) -> str | None:
    given = site.given
    if given["ceil_mode"]:
        return "it rounds sizes up (ceil_mode)"
    if given["count_include_pad"] and any(given["padding"]):
        return "it counts the padding in"
    divisor = given.get("divisor_override")
    kernel = list(given["kernel_size"]) * (2 // len(given["kernel_size"]))
    return None if divisor in (None, kernel[0] * kernel[1]) else f"it divides by {divisor}"


def _several(site: Site) -> str | None:
    return None if len(site.inputs) >= 2 else "it joins one tensor only"


def _stride_1(site: Site) -> str | None:
    return None if site.given["step"] == 1 else f"its step is {site.given['step']}, not 1"


def _no_cropping(site: Site) -> str | None:
    pads = site.given["pad"]
    if not all(isinstance(p, int) for p in pads):
        return "its pads are not known ahead of time"
    return f"it crops: pads {pads}" if any(p < 0 for p in pads) else None


def _keeps_order(site: Site) -> str | None:
    before, after = site.around.value(site.given["self"]), site.output
    if site.around.target(site.given["self"]) in MOVES and isinstance(after, torch.Tensor):
        # a delegate's views are copies in the usual order, whatever the strides of ATen's
        return None if after.is_contiguous() else "it changes the order of the dimensions in memory"
    known = isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor)
    same = known and all(isinstance(s, int) for s in before.shape) and before.dim_order() == after.dim_order()
    return None if same else "it changes the order of the dimensions in memory"


def _not_half(site: Site) -> str | None:
    return "XNNPACK has no gelu for float16" if any(t.dtype is torch.float16 for _, t in site.tensors()) else None


_UNARY = "relu hardtanh clamp sigmoid tanh leaky_relu hardswish abs neg exp log sqrt rsqrt sin cos floor ceil"
_ALL_DTYPES = FLOATING | QUANTIZED
#: it has convolutions and linears of codes, too
_packed = partial(constant_weights, dequantized=True)

TABLE = Table(
    "XNNPACK",
    (
        Support(ops(_UNARY)),
        Support(ops("gelu"), limits=(_not_half,)),
        Support(ops("mul.Tensor mul.Scalar div.Tensor div.Scalar maximum minimum")),
        Support(ops("add.Tensor add.Scalar sub.Tensor sub.Scalar"), limits=(unscaled,)),
        Support(ops("pow.Tensor_Scalar"), limits=(_square,)),
        Support(ops("convolution"), limits=(_dims, _packed("weight", "bias"))),
        Support(ops("linear"), limits=(_packed("weight", "bias"),)),
        Support(ops("addmm"), limits=(_packed("mat2", "self"),)),
        Support(ops("mm"), limits=(_packed("mat2"),)),
        Support(ops("bmm")),
        Support(
            ops("_native_batch_norm_legit_no_training"),
            limits=(constant_weights("weight", "bias", "running_mean", "running_var"), only_values),
        ),
        Support(ops("prelu"), limits=(constant_weights("weight"),)),
        Support(ops("avg_pool2d"), limits=(_avg_pool,)),
        Support(ops("max_pool2d"), limits=(_max_pool,)),
        Support(ops("max_pool2d_with_indices"), outputs=FLOATING | {torch.int64}, limits=(_max_pool, only_values)),
        Support(ops("max.dim"), outputs=FLOATING | {torch.int64}, limits=(only_values,)),
        Support(ops("mean.dim"), limits=(_pooled_mean,)),
        Support(ops("_softmax"), limits=(_last_dim,)),
        Support(ops("upsample_bilinear2d.vec"), limits=(static_sizes,)),
        Support(ops("cat"), limits=(_several,)),
        Support(ops("slice.Tensor"), limits=(_stride_1, static_sizes)),
        Support(ops("constant_pad_nd"), limits=(_no_cropping,)),
        Support(ops("view"), limits=(_numbers("size"),)),
        Support(ops("permute")),
        Support(ops("unsqueeze"), limits=(_trailing,)),
        Support(ops("clone"), limits=(_keeps_order,)),
        Support(
            ops("quantize_per_tensor dequantize_per_tensor dequantize_per_channel", "quantized_decomposed"),
            inputs=_ALL_DTYPES | {torch.float64, torch.int64},
            outputs=_ALL_DTYPES,
        ),
        Support(own(xnnpack.conv_with_range), limits=(_dims, _packed("weight", "bias"))),
        Support(own(xnnpack.linear_with_range), limits=(_packed("weight", "bias"),)),
        Support(own(xnnpack.addmm_with_range), limits=(_packed("mat2", "bias"),)),
        Support(own(xnnpack.mm_with_range), limits=(_packed("mat2"),)),
        Support(own(xnnpack.add_with_range, xnnpack.add_scalar_with_range, xnnpack.sub_with_range, xnnpack.sub_scalar_with_range), limits=(unscaled,)),
        Support(own(xnnpack.mul_with_range, xnnpack.mul_scalar_with_range)),
        Support(own(xnnpack.depth_to_space_2d, xnnpack.to_nhwc, xnnpack.to_nchw), inputs=_ALL_DTYPES),
    ),
    common=(not_empty, one_dtype),
)  # fmt: skip
