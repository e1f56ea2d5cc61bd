"""Which kernel of ONNX Runtime's WebGPU provider a convolution runs on (microsoft/onnxruntime#32185).

`uses_im2col` is the one predicate for the two places that ask it: what is computed, and how the weight is packed before.
If they disagreed, a kernel would read a weight that was packed for another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from lowerscope.arguments import ConvSpec, aten, dtype_of
from lowerscope.ops import ort_webgpu

if TYPE_CHECKING:
    from lowerscope.lowering import Lowering

IM2COL = "im2col"
ARCHITECTURES = ("xe-2lpg", "xe-2hpg", "xe-3lpg", "xe-3lpg-xs")


@dataclass(frozen=True, slots=True)
class Gate:
    """One question on the way to im2col: its condition's name, the answer, what it takes and what there is."""

    name: str
    holds: bool
    expected: Any
    actual: Any


def im2col_gates(spec: ConvSpec, profile: Mapping[str, Any]) -> tuple[Gate, ...]:
    """The five gates for a direct convolution on a device, in the order in which the provider asks them.

    profile: the fields `vendor`, `architecture` and `channels_last` of target ort-webgpu.
    """
    vendor, architecture = profile["vendor"], profile["architecture"]
    qualifies = vendor == "intel" and architecture in ARCHITECTURES
    channels_last, dtype = bool(profile["channels_last"]), dtype_of(spec.node)
    return (
        Gate("adapter", qualifies, f"intel {', '.join(ARCHITECTURES)}", f"{vendor} {architecture}"),
        Gate("float16", dtype is torch.float16, torch.float16, dtype),
        Gate("channels_last", channels_last, "NHWC", "NHWC" if channels_last else "NCHW"),
        Gate("groups_1", spec.groups == 1, 1, spec.groups),
        Gate("larger_than_1x1", _larger_than_1x1(spec), f"more than {_times((1,) * spec.dims)}", _times(spec.kernel)),
    )


def uses_im2col(spec: ConvSpec, profile: Mapping[str, Any]) -> bool:
    """Whether a direct convolution runs as im2col and a matrix product: whether all five gates are open."""
    return all(gate.holds for gate in im2col_gates(spec, profile))


def kernel_for(spec: ConvSpec, profile: Mapping[str, Any]) -> str:
    """The kernel that a direct 1-D or 2-D convolution runs on: "im2col", "grouped_conv", "matmul" or "conv2d_mm".

    "matmul": a 1x1 kernel of stride 1 without padding is a matrix product as it is.
    """
    if uses_im2col(spec, profile):
        return IM2COL
    if spec.groups != 1:
        return "grouped_conv"
    as_it_is = all(s == 1 for s in spec.stride) and all(p == 0 for p in spec.padding)
    return "matmul" if as_it_is and not _larger_than_1x1(spec) else "conv2d_mm"


def kernel_counts(lowering: Lowering) -> Counter[str]:
    """How many convolutions of a program lowered for ort-webgpu run on which kernel; one run dispatches each once.

    Transposed and 3-D convolutions, which have kernels of their own, are left out.
    """
    profile = lowering.target.device(lowering.recipe)
    counts: Counter[str] = Counter()
    for module in lowering.program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if node.target is ort_webgpu.im2col_conv_activation:
                counts[IM2COL] += 1
            elif node.target is aten.convolution.default:
                spec = ConvSpec.of(node)
                if not spec.transposed and spec.dims in (1, 2):
                    counts[kernel_for(spec, profile)] += 1
    return counts


def ohwi(weight: torch.Tensor) -> torch.Tensor:
    """A copy of a weight [out, in, *kernel] whose memory lies as im2col's matrix product reads it: [out, *kernel, in].

    Any dtype; the logical shape stays.
    """
    return weight.movedim(1, -1).clone(memory_format=torch.contiguous_format).movedim(-1, 1)


def _larger_than_1x1(spec: ConvSpec) -> bool:
    return any(k > 1 for k in spec.kernel)


def _times(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))
