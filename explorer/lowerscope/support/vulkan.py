"""What ExecuTorch's Vulkan delegate takes (its operator registry in ExecuTorch 1.5.1), and WebGPU on the same pipeline."""

from __future__ import annotations

from typing import Any

import torch

from lowerscope.ops import vulkan, vulkan_linear
from lowerscope.support.table import FLOATING, Site, Support, Table, constant_weights, one_dtype, ops, own

_INTEGERS = frozenset({torch.int8, torch.uint8, torch.int32, torch.int64})  # 64-bit ones are narrowed ahead of time
_BOOL = frozenset({torch.bool})
_NUMBERS = FLOATING | _INTEGERS
_ANYTHING = _NUMBERS | _BOOL


def texture_extents(shape: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Extents (W, H, ceil(C / 4) · N) of the texture that holds an [N, C, H, W] tensor, four channels a texel."""
    n, c, h, w = shape
    return w, h, (c + 3) // 4 * n


def _fits_texture(site: Site) -> str | None:
    limits = tuple(site.profile[f"max_texture_{axis}"] for axis in ("width", "height", "depth"))
    first = site.around.value(site.inputs[0]) if site.inputs else None
    for role, tensor in site.tensors():
        shape = tuple(tensor.shape)
        held_in_texture = role == "output" or tensor is first
        if len(shape) != 4 or not held_in_texture or not all(isinstance(s, int) for s in shape):
            continue
        extents = texture_extents(shape)
        if any(e > limit for e, limit in zip(extents, limits, strict=True)):
            needed, there = "×".join(map(str, extents)), "×".join(map(str, limits))
            return f"an {role} needs a texture of {needed}; the device has {there}"
    return None


def _convolution(site: Site) -> str | None:
    shape = site.shape("input") or ()
    if len(shape) == 4 and not (isinstance(shape[0], int) and shape[0] == 1):
        return f"its batch is {shape[0]}; Vulkan has 2-D convolutions for a batch of 1"
    if len(shape) == 3 and site.given["transposed"]:
        return "it is 1-D and transposed"
    return f"it is a {len(shape) - 2}-D convolution" if len(shape) not in (3, 4) else None


def _fused_convolution(site: Site) -> str | None:
    # the 1-D convolution that an unsqueeze makes a 2-D one of is one that Vulkan has for any batch, transposed or not
    flat = (
        len(site.shape("input") or ()) == 3
        or site.around.target(site.given["input"]) is torch.ops.aten.unsqueeze.default
    )
    return None if flat else _convolution(site)


def _reduction(site: Site) -> str | None:
    rank, dims = len(site.shape("self") or ()), site.given.get("dim")
    listed = [dims] if isinstance(dims, int) else list(dims or range(rank))
    listed = sorted({d % rank for d in listed}) if rank else []
    if listed == [rank - 1]:
        return None
    if len(listed) > 2:
        return f"it is over {len(listed)} dimensions; Vulkan reduces one or two"
    return None if site.given.get("keepdim") else "it drops the dimensions that it reduces, which are not just the last"


def _floating_cast(site: Site) -> str | None:
    before, after = site.around.value(site.inputs[0]), site.output
    kept = before.dtype == after.dtype or {before.dtype, after.dtype} <= FLOATING
    return None if kept else f"it casts {before.dtype} to {after.dtype}".replace("torch.", "")


_ENTRIES = (
    Support(ops("abs cos exp gelu hardshrink hardswish hardtanh neg relu sigmoid sin sqrt rsqrt tanh round leaky_relu log10")),
    Support(ops("clamp"), inputs=_NUMBERS),
    Support(ops("add.Tensor add.Scalar sub.Tensor sub.Scalar minimum mul.Tensor mul.Scalar div.Tensor div.Scalar"), inputs=_NUMBERS),
    Support(ops("div.Tensor_mode pow.Tensor_Tensor"), inputs=_NUMBERS),
    Support(ops("pow.Tensor_Scalar")),
    Support(ops("eq.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor"), inputs=_NUMBERS, outputs=_BOOL),
    Support(ops("eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar"), inputs=_NUMBERS, outputs=_BOOL),
    Support(ops("bitwise_and.Tensor bitwise_or.Tensor bitwise_not logical_and logical_or logical_not"), inputs=_BOOL),
    Support(ops("_to_copy"), inputs=_ANYTHING, limits=(_floating_cast,)),
    Support(ops("_log_softmax _softmax")),
    Support(ops("bmm mm addmm linear")),
    Support(ops("mean.dim sum.dim_IntList amax amin"), limits=(_reduction,)),
    Support(ops("argmax argmin"), outputs=_INTEGERS, limits=(_reduction,)),
    Support(ops("avg_pool2d max_pool2d"), limits=(_fits_texture,)),
    Support(ops("max_pool2d_with_indices"), outputs=_NUMBERS, limits=(_fits_texture,)),
    Support(ops("convolution"), limits=(_convolution, constant_weights("weight", "bias"), _fits_texture)),
    Support(ops("permute view squeeze.dims squeeze.dim unsqueeze clone alias gather expand"), inputs=_ANYTHING),
    Support(ops("select.int slice.Tensor split_with_sizes t flip index_select repeat constant_pad_nd"), inputs=_ANYTHING),
    Support(ops("cat"), inputs=_NUMBERS),
    Support(ops("where.self"), inputs=FLOATING | _BOOL, outputs=FLOATING),
    Support(ops("index.Tensor"), inputs=_NUMBERS),
    Support(ops("arange.start_step full full_like ones ones_like zeros zeros_like scalar_tensor"), inputs=_ANYTHING),
    Support(ops("upsample_nearest2d.vec upsample_bilinear2d.vec"), limits=(_fits_texture,)),
    Support(ops("pixel_shuffle grid_sampler_2d")),
    Support(ops("embedding"), inputs=_NUMBERS),
    Support(ops("_native_batch_norm_legit_no_training native_group_norm"), limits=(_fits_texture,)),
    Support(ops("native_layer_norm")),
    Support(own(vulkan.conv_with_clamp), limits=(_fused_convolution, constant_weights("weight", "bias"), _fits_texture)),
    Support(own(*(op for op in vars(vulkan_linear).values() if isinstance(op, torch._ops.OpOverload))), inputs=_NUMBERS),
)  # fmt: skip
_EPILOGUE = Support(
    own(vulkan.conv2d_with_epilogue), limits=(_convolution, constant_weights("weight", "bias"), _fits_texture)
)

VULKAN = Table("Vulkan", (*_ENTRIES, _EPILOGUE), common=(one_dtype,))
WEBGPU = Table("WebGPU", _ENTRIES, common=(one_dtype,))
