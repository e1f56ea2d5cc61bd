"""What an operator is called where a user reads it, and which category colours it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .registry import OWN_OPS, OwnOp

CATEGORIES = (
    "conv",
    "matmul",
    "arithmetic",
    "activation",
    "norm",
    "shape",
    "resample",
    "quant",
    "constant",
    "other",
)

_ATEN: dict[str, str] = {
    "conv": "convolution _convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "conv_depthwise3d _conv_depthwise2d slow_conv3d mkldnn_convolution",
    "matmul": "mm addmm bmm baddbmm matmul linear dot mv addmv addbmm einsum outer inner tensordot "
    "scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_efficient_attention multi_head_attention_forward",
    "arithmetic": "add sub rsub mul div neg abs pow sqrt rsqrt square exp exp2 expm1 log log2 log10 log1p reciprocal "
    "sum mean prod amax amin max min maximum minimum argmax argmin var std var_mean std_mean cumsum cumprod floor "
    "ceil round trunc sign sgn sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh remainder fmod "
    "floor_divide true_divide addcmul addcdiv lerp eq ne lt le gt ge logical_and logical_or logical_not logical_xor "
    "bitwise_and bitwise_or bitwise_not bitwise_xor bitwise_left_shift bitwise_right_shift where any all isnan isinf "
    "erf erfc masked_fill norm linalg_vector_norm cdist",
    "activation": "relu relu6 leaky_relu prelu rrelu elu celu selu gelu silu mish hardtanh hardswish hardsigmoid "
    "hardshrink softshrink softplus sigmoid log_sigmoid logsigmoid tanh softmax _softmax log_softmax _log_softmax "
    "threshold clamp clamp_min clamp_max clip glu dropout native_dropout",
    "norm": "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training "
    "_batch_norm_with_update native_layer_norm layer_norm native_group_norm group_norm instance_norm rms_norm "
    "_fused_rms_norm local_response_norm",
    "shape": "view _unsafe_view view_as reshape _reshape_alias permute transpose t mT movedim squeeze unsqueeze "
    "expand expand_as repeat repeat_interleave cat concat stack split split_with_sizes chunk unbind unfold slice "
    "select narrow index index_select index_put gather scatter scatter_add slice_scatter select_scatter flatten "
    "unflatten flip roll clone contiguous alias detach copy _to_copy to pad constant_pad_nd reflection_pad1d "
    "reflection_pad2d replication_pad1d replication_pad2d pixel_shuffle pixel_unshuffle channel_shuffle tile "
    "swapaxes swapdims as_strided diagonal tril triu embedding lift_fresh_copy sym_size im2col col2im",
    "resample": "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d "
    "_upsample_nearest_exact2d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_bicubic2d "
    "upsample_trilinear3d interpolate grid_sampler_2d grid_sampler grid_sampler_3d affine_grid_generator max_pool1d "
    "max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d "
    "adaptive_max_pool1d adaptive_max_pool2d",
    "quant": "quantize_per_tensor quantize_per_channel dequantize fake_quantize_per_tensor_affine "
    "fake_quantize_per_channel_affine choose_qparams_optimized _weight_int4pack_mm _weight_int8pack_mm _int_mm",
    "constant": "full full_like zeros zeros_like ones ones_like empty empty_like empty_strided new_zeros new_ones "
    "new_full new_empty arange linspace eye scalar_tensor tensor lift_fresh",
}
_CATEGORY_OF_ATEN = {name: kind for kind, names in _ATEN.items() for name in names.split()}
_QUANT_NAMESPACES = ("quantized_decomposed", "torchao", "quantized")


class _DisplayNames(Mapping[str, str]):
    """The backends' names of the registered operators, by torch name; a view, so that later operators show up in it."""

    def __getitem__(self, name: str) -> str:
        return OWN_OPS[name].display

    def __iter__(self) -> Iterator[str]:
        return iter(OWN_OPS)

    def __len__(self) -> int:
        return len(OWN_OPS)


DISPLAY_NAMES: Mapping[str, str] = _DisplayNames()
"""Torch name of an own operator (``"lowerscope_vulkan::conv_with_clamp"``) -> the name that is shown."""


def display_name(target: Callable[..., Any] | str) -> str:
    """The name that the user reads for a node's target.

    An own operator has its backend's name (``"et_vk.conv2d.with_epilogue"``), any other operator its namespace, name
    and overload, the overload left out where it is "default" (``"aten.convolution"``, ``"aten.add.Tensor"``). A Python
    function has its own name; a string which is no operator's (a placeholder's, an output's) is returned as it is.
    """
    known = _shown.get(id(target))
    if known is not None and known[0] is target:
        return known[1]
    name = _display_name(target)
    if isinstance(target, torch._ops.OpOverload):
        _shown[id(target)] = (target, name)
    return name


#: By an operator's address, as it is hashed in Python. An operator of ours is in the table of names before torch has it.
_shown: dict[int, tuple[torch._ops.OpOverload, str]] = {}


def _display_name(target: Callable[..., Any] | str) -> str:
    parts = _parts(target)
    if parts is None:
        return target if isinstance(target, str) else getattr(target, "__name__", None) or str(target)
    namespace, name, overload = parts
    own = OWN_OPS.get(f"{namespace}::{name}")
    if own is not None:
        return own.display
    return ".".join((namespace, name) if overload in ("", "default") else (namespace, name, overload))


def is_own(target: Callable[..., Any] | str) -> bool:
    """Whether the target is one of the project's reference operators."""
    return _own(target) is not None


def category(target: Callable[..., Any] | str) -> str:
    """The operator's category, one of `CATEGORIES`; "other" for what has none, Python functions included."""
    own = _own(target)
    if own is not None:
        return own.category
    parts = _parts(target)
    if parts is None:
        return "other"
    namespace, name, _ = parts
    if namespace in _QUANT_NAMESPACES:
        return "quant"
    # An in-place operator is what its functional form is.
    base = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    return _CATEGORY_OF_ATEN.get(base, "other")


def decomposition(target: Callable[..., Any] | str) -> Callable[..., torch.Tensor] | None:
    """The plain ATen function, of the operator's signature, that computes an own operator; None for any other target."""
    own = _own(target)
    return None if own is None else own.decomposition


def _own(target: Callable[..., Any] | str) -> OwnOp | None:
    parts = _parts(target)
    return None if parts is None else OWN_OPS.get(f"{parts[0]}::{parts[1]}")


def _parts(target: Callable[..., Any] | str) -> tuple[str, str, str] | None:
    """(namespace, name, overload) of an operator, an overload packet or a name such as "aten::add.Tensor"."""
    if isinstance(target, torch._ops.OpOverload):
        namespace, _, rest = target._schema.name.partition("::")
        return namespace, rest, target._overloadname
    if isinstance(target, torch._ops.OpOverloadPacket):
        namespace, _, rest = target._qualified_op_name.partition("::")
        return namespace, rest, ""
    if not isinstance(target, str):
        return _edge_parts(target)
    if "::" in target:
        namespace, _, rest = target.partition("::")
    elif target.startswith("torch.ops."):
        namespace, _, rest = target.removeprefix("torch.ops.").partition(".")
    else:
        namespace, _, rest = target.partition(".")
        if namespace not in ("aten", "prims", *_QUANT_NAMESPACES):
            return None
    name, _, overload = rest.partition(".")
    return (namespace, name, overload) if name else None


def _edge_parts(target: Callable[..., Any]) -> tuple[str, str, str] | None:
    # ExecuTorch's edge dialect wraps an ATen overload in an object of its own that holds the overload as `_op`.
    inner = getattr(target, "_op", None)
    return _parts(inner) if isinstance(inner, torch._ops.OpOverload) else None
