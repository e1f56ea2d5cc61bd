"""The arithmetic of polyphase transposed convolution: phases, their kernels and pads, and how they are interleaved.

Per axis, for input length L, kernel K, stride s, padding p, output padding op and dilation 1, the output's length is
L_out = (L - 1) s - 2 p + K + op. Output s q + a belongs to phase a; with c, r = divmod(a + p, s) it reads the taps
k = r + s t, t = 0 ... T - 1, T = ceil((K - r) / s). Source: pytorch/executorch#25041.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import ConvSpec, aten, shape_of
from lowerscope.editor import Editor


@dataclass(frozen=True, slots=True)
class Phase:
    """One output phase of an axis: its number, the first tap, the number of taps, the stride, the pads of the input."""

    phase: int
    first: int
    taps: int
    stride: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of a transposed convolution, with its phases; `surplus` is how much the interleaved ones are too long."""

    kernel: int
    stride: int
    padding: int
    output_padding: int
    phases: tuple[Phase, ...]
    surplus: int

    @classmethod
    def of(cls, kernel: int, stride: int, padding: int, output_padding: int) -> Axis:
        """The phases of an axis. Every phase is given the length of the first one, ceil(L_out / s): the longest."""
        # L_out = L s + excess, so that lengths relative to L are numbers even where L is a symbol
        excess = kernel + output_padding - stride - 2 * padding
        longer = -(-excess // stride)  # ceil(L_out / s) - L
        phases = []
        for a in range(stride):
            c, r = divmod(a + padding, stride)
            taps = -(-(kernel - r) // stride)
            phases.append(Phase(a, r, taps, stride, taps - 1 - c, longer + c))
        return cls(kernel, stride, padding, output_padding, tuple(phases), longer * stride - excess)

    @classmethod
    def neutral(cls) -> Axis:
        """An axis of length 1 that nothing happens to: a 1-D convolution run as a 2-D one has it."""
        return cls(1, 1, 0, 0, (Phase(0, 0, 1, 1, 0, 0),), 0)


def axes_of(spec: ConvSpec) -> list[Axis]:
    """The axes of a transposed convolution."""
    given = zip(spec.kernel, spec.stride, spec.padding, spec.output_padding, strict=True)
    return [Axis.of(*map(int, axis)) for axis in given]


def dense_weight(weight: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """[C_in, C_out, *K] -> [s^d C_out, C_in, *T], K = s T: G[a C_out + co, ci, j] = w[ci, co, a + s (T - 1 - j)].

    With two axes a = a_y s_x + a_x: block-major. Any dtype.
    """
    c_in, c_out, *kernel = weight.shape
    taps = [k // s for k, s in zip(kernel, stride, strict=True)]
    split = [n for pair in zip(taps, stride, strict=True) for n in pair]
    parts = weight.reshape(c_in, c_out, *split)
    dims = len(kernel)
    phase_axes, tap_axes = [3 + 2 * i for i in range(dims)], [2 + 2 * i for i in range(dims)]
    parts = parts.permute(*phase_axes, 1, 0, *tap_axes).flip([dims + 2 + i for i in range(dims)])
    return parts.reshape(-1, c_in, *taps).contiguous()


def phase_weight(weight: torch.Tensor, phases: Sequence[Phase]) -> torch.Tensor:
    """[C, 1, *K] -> the kernel of one phase as a 2-D correlation, [C, 1, T_y, T_x]: g[j] = w[r + s (T - 1 - j)].

    Any dtype; T_y = 1 for one axis.
    """
    for axis, phase in enumerate(phases):
        taps = torch.tensor([phase.first + phase.stride * (phase.taps - 1 - j) for j in range(phase.taps)])
        weight = weight.index_select(axis + 2, taps)
    return (weight.unsqueeze(2) if len(phases) == 1 else weight).contiguous()


def has_interleaving_op(spec: ConvSpec) -> bool:
    """Whether XNNPACK has one operator for the interleave: two axes of equal strides. Otherwise it is a view."""
    return spec.dims == 2 and spec.stride[0] == spec.stride[1]


def interleave(value: Node, spec: ConvSpec, edit: Editor) -> Node:
    """[N, s^d C, *Q] with block-major channels (phase first) -> [N, C, *(s Q)]."""
    if has_interleaving_op(spec):
        return edit.call(torch.ops.lowerscope_xnnpack.depth_to_space_2d.default, value, spec.stride[0])
    shape: tuple[Any, ...] = shape_of(value) or ()
    batch, _, *lengths = shape
    strides, dims, channels = list(spec.stride), spec.dims, spec.out_channels
    split = edit.call(aten.view.default, value, _numbers([batch, *strides, channels, *lengths]))
    order = [0, 1 + dims, *(n for i in range(dims) for n in (2 + dims + i, 1 + i))]
    mixed = edit.call(aten.permute.default, split, order)
    copied = edit.call(aten.clone.default, mixed, memory_format=torch.contiguous_format)
    merged = [n * s for n, s in zip(lengths, strides, strict=True)]
    return edit.call(aten.view.default, copied, _numbers([batch, channels, *merged]))


def cut(value: Node, axis: int, start: int, surplus: int, edit: Editor) -> Node:
    """`value[start : length - surplus]` along `axis`; the value itself where nothing is cut."""
    if start == 0 and surplus == 0:
        return value
    end = -surplus if surplus else 2**63 - 1
    return edit.call(aten.slice.Tensor, value, axis, start, end)


def _numbers(sizes: list[Any]) -> list[int]:
    """Sizes for a view, the symbolic one (there is one at most) left for torch to work out."""
    return [s if isinstance(s, int) else -1 for s in sizes]
