"""upsample_nearest_x2: exactly 2 on a static image, block-major and not pixel_shuffle; every other scale stays."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.loading import load
from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.recipe import Recipe
from lowerscope.target import TARGETS, pipeline
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import case, program_of, run_case
from tests.engine.patterns.vulkan_nets import ops_of, verdict_of
from tests.engine.patterns.xnnpack_nets import WITHOUT_LAYOUT, applied

PATTERN = "upsample_nearest_x2"
BECOMES = ["aten.cat", "xnnpack.depth_to_space_2d"]
SAMPLES = Path(__file__).parents[3] / "sample_models"
vec = torch.ops.aten.upsample_nearest2d.vec


class Call(nn.Module):
    """`f(x)`."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def call(f, x=None, shapes=None):
    args = (torch.randn(1, 3, 4, 5) if x is None else x,)
    return lambda: (Call(f), args) if shapes is None else (Call(f), args, shapes)


twice = call(lambda x: F.interpolate(x, scale_factor=2))
CONDITION_CASES = [
    case("static_shape", passes=twice, fails=call(
        lambda x: vec(x, None, [2.0, 2.0]), shapes=({2: Dim("h", min=2, max=30)},)
    ), fault="x"),
    case("scale_2", passes=twice, fails=call(lambda x: vec(x, None, [2.2, 2.2]), x=torch.randn(1, 3, 4, 4)),
         fault="upsample_nearest2d"),
    case("output_twice", passes=twice, fails=call(lambda x: vec(x, [8, 11], None)), fault="upsample_nearest2d"),
    case("same_quantization", passes=lambda: between((0.05, 3), (0.05, 3))(),
         fails=lambda: between((0.05, 3), (0.05, 4))(), fault="quantize_per_tensor_1"),
]  # fmt: skip


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "xnnpack")


@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: F.interpolate(x, scale_factor=2.0),
        lambda x: F.interpolate(x, scale_factor=(2, 2), mode="nearest"),
        lambda x: F.interpolate(x, size=(8, 10)),
        nn.Upsample(scale_factor=2),
        nn.UpsamplingNearest2d(scale_factor=2),
        lambda x: vec(x, None, [2.0, 2.0]),
        lambda x: vec(x, [8, 10], None),
    ],
)
def test_each_spelling_of_twice_is_taken_and_exact(f):
    program = program_of(call(f)())
    lowering = lower(program, WITHOUT_LAYOUT)
    assert (applied(lowering, PATTERN), ops_of(lowering)) == (1, BECOMES)
    lowering.program.exported_program.validate()
    assert parity(program, lowering.program).verdict == "equal"


@pytest.mark.parametrize(
    ("f", "shape", "failed"),
    [
        (lambda x: vec(x, None, [2.1, 2.1]), (1, 3, 4, 4), "scale_2"),  # the output happens to be twice as large
        (lambda x: vec(x, None, [2.0, 2.2]), (1, 3, 4, 4), "scale_2"),
        (lambda x: vec(x, None, [3.0, 3.0]), (1, 3, 4, 4), "scale_2"),
        (lambda x: vec(x, None, [1.0, 2.0]), (1, 3, 4, 4), "scale_2"),
        (lambda x: vec(x, [8, 9], None), (1, 3, 4, 4), "output_twice"),
        (lambda x: vec(x, [4, 4], None), (1, 3, 4, 4), "output_twice"),
        (lambda x: vec(x, [16, 16], None), (1, 3, 4, 4), "output_twice"),
    ],
)
def test_every_other_scale_stays(f, shape, failed):
    program = program_of(call(f, torch.randn(shape))())
    lowering = lower(program, "xnnpack")
    verdict = verdict_of(lowering, PATTERN, "upsample_nearest2d")
    assert (verdict.failed, verdict.outcome) == (failed, Outcome.NEAR_MISS)
    assert ops_of(lowering) == ["aten.upsample_nearest2d.vec"]


quantized = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)


def between(first, second, readers=1):
    """An image held in int8 by (scale, zero point) `first`, upsampled, and quantized by `second`."""

    def forward(x):
        stored = quantized.quantize_per_tensor(x, *first, *INT8)
        wide = F.interpolate(quantized.dequantize_per_tensor(stored, *first, *INT8), scale_factor=2)
        held = quantized.quantize_per_tensor(wide, *second, *INT8)
        result = quantized.dequantize_per_tensor(held, *second, *INT8)
        return result if readers == 1 else (result, wide)

    return call(forward)


def test_between_quantized_values_the_one_in_the_middle_carries_their_parameters():
    program = program_of(between((0.05, 3), (0.05, 3))())
    lowering = lower(program, WITHOUT_LAYOUT)
    pair = ["quantized_decomposed.quantize_per_tensor", "quantized_decomposed.dequantize_per_tensor"]
    assert ops_of(lowering) == [*pair, BECOMES[0], *pair, BECOMES[1], *pair]
    calls = [n for n in lowering.program.graph.nodes if "quantize_per_tensor" in str(n.target)]
    assert {n.args[1:] for n in calls} == {(0.05, 3, *INT8)}
    assert parity(program, lowering.program).verdict == "equal"


def test_with_a_floating_point_reader_nothing_is_quantized_in_the_middle():
    program = program_of(between((0.05, 3), (0.1, 0), readers=2)())
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 1
    assert ops_of(lowering).count("quantized_decomposed.quantize_per_tensor") == 2
    assert parity(program, lowering.program).verdict == "equal"


@settings(max_examples=15)
@given(
    batch=st.integers(1, 3),
    channels=st.integers(1, 5),
    height=st.integers(1, 6),
    width=st.integers(1, 6),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8]),
    channels_last=st.booleans(),
    scale=st.sampled_from([2, 2, 2, 3, (2, 1)]),
)
def test_numbers(batch, channels, height, width, dtype, channels_last, scale):
    x = (torch.randn(batch, channels, height, width) * 50).abs().to(dtype)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    program = program_of(call(lambda x: F.interpolate(x, scale_factor=scale), x)())
    lowering = lower(program, WITHOUT_LAYOUT)
    (verdict,) = lowering.verdicts_of(PATTERN)
    assert verdict.failed == (None if scale == 2 else "scale_2")
    assert ops_of(lowering) == (BECOMES if scale == 2 else ["aten.upsample_nearest2d.vec"])
    assert torch.equal(lowering.program.exported_program.module()(x), F.interpolate(x, scale_factor=scale))


def test_pixel_shuffle_of_the_copies_would_be_wrong():
    x = torch.randn(1, 3, 4, 5)
    copies = torch.cat([x] * 4, dim=1)
    right = F.interpolate(x, scale_factor=2)
    assert torch.equal(torch.ops.lowerscope_xnnpack.depth_to_space_2d(copies, 2), right)
    assert (F.pixel_shuffle(copies, 2) - right).abs().max() > 0.1


def test_only_xnnpack_has_it():
    assert [t for t in TARGETS if PATTERN in [p.name for p in pipeline(t)]] == ["xnnpack"]


def test_migan_has_six():
    program = load(SAMPLES / "migan.pt2")
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 6
    assert "aten.upsample_nearest2d.vec" not in ops_of(lowering)
    assert parity(program, lowering.program).agrees
    without = lower(program, Recipe("xnnpack").disable(PATTERN))
    assert ops_of(without).count("aten.upsample_nearest2d.vec") == 6
