"""polyphase_conv_transpose: its conditions, and the numbers over thousands of parameter sets."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.polyphase import Axis, phase_weight
from lowerscope.recipe import Recipe
from tests.engine.patterns.condition_cases import case, program_of, run_case
from tests.engine.patterns.polyphase_nets import DENSE_2D, DEPTHWISE_1D, DEPTHWISE_2D, PATTERN, up
from tests.engine.patterns.xnnpack_nets import (
    applied,
    lowered_exactly,
    many,
    transposed_left,
)


def computed(bias: bool):
    class Computed(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 3, 4, 4))

        def forward(self, x, w, b):
            return F.conv_transpose2d(x, self.w if bias else w, b if bias else None, stride=2)

    return lambda: (Computed(), (torch.randn(1, 4, 3, 3), torch.randn(4, 3, 4, 4), torch.randn(3)))


SYMBOLIC = ({0: Dim("n", min=1, max=8), 2: Dim("length", min=2, max=64)},)
CONDITION_CASES = [
    case("transposed", passes=up(DENSE_2D), fails=up(lambda: nn.Conv2d(4, 4, 3)), fault="convolution"),
    case(
        "one_or_two_dimensional",
        passes=up(DENSE_2D),
        fails=up(lambda: nn.ConvTranspose3d(4, 4, 2, stride=2), x=torch.randn(1, 4, 3, 3, 3)),
        fault="convolution",
    ),
    case("strided", passes=up(DENSE_2D), fails=up(lambda: nn.ConvTranspose2d(4, 3, 4)), fault="convolution"),
    case(
        "dilation_1",
        passes=up(DENSE_2D),
        fails=up(lambda: nn.ConvTranspose2d(4, 3, 4, stride=2, dilation=2)),
        fault="convolution",
    ),
    case(
        "dense_or_depthwise",
        passes=up(DEPTHWISE_2D),
        fails=up(lambda: nn.ConvTranspose2d(4, 4, 4, stride=2, groups=2)),
        fault="convolution",
    ),
    case("constant_weight", passes=up(DENSE_2D), fails=computed(bias=False), fault="w"),
    case("constant_bias", passes=up(DENSE_2D), fails=computed(bias=True), fault="b"),
    case(
        "sizes_known",
        passes=up(lambda: nn.ConvTranspose1d(4, 3, 4, stride=2), x=torch.randn(2, 4, 5)),
        fails=up(lambda: nn.ConvTranspose1d(4, 3, 4, stride=2), x=torch.randn(2, 4, 5), shapes=SYMBOLIC),
        fault="x",
    ),
    case(
        "kernel_multiple_of_stride",
        passes=up(DENSE_2D),
        fails=up(lambda: nn.ConvTranspose2d(4, 3, (4, 3), stride=2)),
        fault="convolution",
    ),
    case(
        "every_phase_has_taps",
        passes=up(DEPTHWISE_2D),
        fails=up(lambda: nn.ConvTranspose2d(4, 4, 2, stride=3, groups=4)),
        fault="convolution",
    ),
    case(
        "no_negative_pad",
        passes=up(DEPTHWISE_2D),
        fails=up(lambda: nn.ConvTranspose2d(4, 4, 3, stride=2, padding=2, groups=4)),
        fault="convolution",
    ),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "xnnpack")


# ------------------------------------------------------------------ the numbers, over parameters
def axis_of(stride, kernel, padding, output_padding, length):
    """The parameters of an axis, held to what gives at least one output."""
    output_padding = min(output_padding, stride - 1)
    most = ((length - 1) * stride + kernel + output_padding - 1) // 2
    return kernel, stride, min(padding, most), output_padding, length


SMALL = (st.integers(0, 5), st.integers(0, 3), st.integers(1, 4))
AXIS = st.builds(axis_of, st.integers(1, 4), st.integers(1, 8), *SMALL)
#: What a dense convolution is taken for: a kernel of whole strides, each padding, even p > K - s.
WHOLE_AXIS = st.builds(lambda s, t, *rest: axis_of(s, s * t, *rest), st.integers(1, 4), st.integers(1, 3), *SMALL)


def valid(axis):
    kernel, stride, padding, output_padding, length = axis
    return output_padding < stride and (length - 1) * stride - 2 * padding + kernel + output_padding > 0


def build(axes, groups, channels, bias):
    kernel, stride, padding, output_padding, lengths = (list(v) for v in zip(*axes, strict=True))
    cls: Any = nn.ConvTranspose1d if len(axes) == 1 else nn.ConvTranspose2d
    conv = cls(*channels, kernel, stride, padding, output_padding, groups=groups, bias=bias)
    return conv, torch.randn(2, channels[0], *lengths)


def phases_of(axis):
    """(taps, left pad) of each phase, worked out from the definition: which inputs an output reads."""
    kernel, stride, padding, _, _ = axis
    found = []
    for phase in range(stride):
        taps = [k for k in range(kernel) if (phase + padding - k) % stride == 0]
        # output s q + phase reads input q + (phase + padding - k) / s: the first tap reads furthest ahead
        left = -((phase + padding - max(taps)) // stride) if taps else 0
        found.append((len(taps), left))
    return found


def taken(axes, depthwise):
    """Whether the pattern takes a convolution of these axes, by the rules alone."""
    if all(stride == 1 for _, stride, *_ in axes):
        return False
    if depthwise:
        return all(taps > 0 and left >= 0 for axis in axes for taps, left in phases_of(axis))
    return all(kernel % stride == 0 for kernel, stride, *_ in axes)


def sweep(drawn, depthwise):
    torch.manual_seed(0)
    pairs, expected = [], 0
    for axes, bias in drawn:
        groups, channels = (3, (3, 3)) if depthwise else (1, (3, 2))
        pairs.append(build(axes, groups, channels, bias))
        expected += taken(axes, depthwise)
    program = many(*zip(*pairs, strict=True))
    lowering = lowered_exactly(program, Recipe("xnnpack").disable("depthwise_conv_transpose_as_mul"))
    assert applied(lowering, PATTERN) == expected
    assert transposed_left(lowering) == len(drawn) - expected


def sets(dims):
    """Parameter sets for one program, of both kinds of axes."""
    one = st.tuples(st.tuples(*[AXIS | WHOLE_AXIS] * dims), st.booleans())
    return st.lists(one, min_size=30, max_size=30)


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
@settings(max_examples=10)
@given(sets(1))
def test_numbers_1d(depthwise, drawn):
    sweep(drawn, depthwise)


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
@settings(max_examples=8)
@given(sets(2))
def test_numbers_2d(depthwise, drawn):
    sweep(drawn, depthwise)


def test_the_rules_by_their_formulas():
    for kernel in range(1, 9):
        for stride in range(1, 5):
            for padding in range(6):
                axis = Axis.of(kernel, stride, padding, 0)
                worked_out = [(p.taps, p.left) for p in axis.phases if p.taps > 0]
                assert worked_out == [pair for pair in phases_of((kernel, stride, padding, 0, 4)) if pair[0]]
                assert any(p.taps <= 0 for p in axis.phases) == (kernel < stride)
                every = all(p.taps > 0 and p.left >= 0 for p in axis.phases)
                assert every == (padding <= kernel - stride)
                assert all(p.right >= 0 for p in axis.phases) or not every
                for p in axis.phases:
                    assert (p.taps > 0 and p.left < 0) == (p.taps > 0 and p.phase + padding >= kernel)


def by_phases(x, weight, axes):
    """The depthwise form written out: each phase's correlation lands at its own outputs; None where a phase has none."""
    found = [Axis.of(*axis[:4]) for axis in axes]
    if any(p.taps <= 0 or p.left < 0 for axis in found for p in axis.phases):
        return None
    lengths = [(x.shape[2 + i] - 1) * s - 2 * p + k + op for i, (k, s, p, op, _) in enumerate(axes)]
    result = torch.zeros(*x.shape[:2], *lengths, dtype=x.dtype)
    for phases in itertools.product(*(axis.phases for axis in found)):
        kernel = phase_weight(weight, phases).reshape(-1, 1, *(p.taps for p in phases))
        padded = F.pad(x, [n for p in reversed(phases) for n in (p.left, p.right)])
        conv = F.conv1d if len(axes) == 1 else F.conv2d
        part = conv(padded, kernel, groups=x.shape[1])
        places = tuple(slice(p.phase, None, p.stride) for p in phases)
        target = result[(..., *places)]
        target.copy_(part[(..., *(slice(n) for n in target.shape[2:]))])
    return result


def test_the_arithmetic_over_every_small_axis_and_pairs_of_them():
    every = [a for a in itertools.product(range(1, 9), range(1, 5), range(6), range(4), (1, 2, 4)) if valid(a)]
    pairs = list(zip(every, reversed(every), strict=True))[::6]
    checked = 0
    for axes in [*((axis,) for axis in every), *pairs]:
        x, weight = (
            torch.randn(1, 2, *sizes, dtype=torch.float64) for sizes in ([a[4] for a in axes], [a[0] for a in axes])
        )
        weight = weight.transpose(0, 1).contiguous()
        found = by_phases(x, weight, axes)
        assert (found is not None) == all(t > 0 and left >= 0 for a in axes for t, left in phases_of(a))
        if found is not None:
            transpose = F.conv_transpose1d if len(axes) == 1 else F.conv_transpose2d
            _, stride, padding, out, _ = zip(*axes, strict=True)
            assert (found - transpose(x, weight, None, stride, padding, out, 2)).abs().max() < 1e-12
            checked += 1
    assert len(every) > 1000
    assert checked > 500


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("conv", [DENSE_2D, DEPTHWISE_2D, DEPTHWISE_1D])
def test_other_dtypes(conv, dtype):
    made = conv()
    x = torch.randn(1, 4, 5) if isinstance(made, nn.ConvTranspose1d) else torch.randn(1, 4, 5, 3)
    program = program_of((made.to(dtype), (x.to(dtype),)))
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 1
    assert parity(program, lowering.program).agrees
    assert next(iter(lowering.program.constants.values())).dtype == dtype
