"""conv2d_with_epilogue: what each residual, scale and activation becomes, and that the numbers stay."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.lowering import lower
from lowerscope.recipe import Recipe, Skip
from lowerscope.verdict import Outcome
from tests.cases import CASES
from tests.engine.patterns.condition_cases import lowered, program_of
from tests.engine.patterns.conv_draws import convolutions, drawn
from tests.engine.patterns.vulkan_nets import assert_agrees, calls_of, image, net, ops_of, verdict_of

PATTERN = "conv2d_with_epilogue"
FUSED = "et_vk.conv2d.with_epilogue"
INF = math.inf


def fused(make, recipe=lambda r: r) -> dict[str, Any]:
    """Lower the sample, see that exactly one convolution was fused and that the numbers hold; its arguments."""
    program = program_of(make())
    lowering = lower(program, recipe(Recipe("vulkan")))
    assert [s.pattern for s in lowering.steps].count(PATTERN) == 1
    assert_agrees(program, lowering)
    (found,) = calls_of(lowering, FUSED)
    assert "aten.convolution" not in ops_of(lowering)
    return found


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (lambda y, s: y.relu(), ("relu", 0.0, 0.0)),
        (lambda y, s: F.relu(y, inplace=True), ("relu", 0.0, 0.0)),
        (lambda y, s: F.relu6(y), ("clamp", 0.0, 6.0)),
        (lambda y, s: torch.ops.aten.hardtanh(y), ("clamp", -1.0, 1.0)),
        (lambda y, s: torch.ops.aten.hardtanh(y, -2), ("clamp", -2.0, 1.0)),
        (lambda y, s: F.hardtanh(y, -0.25, 0.5), ("clamp", -0.25, 0.5)),
        (lambda y, s: y.clamp(-0.25, 0.5), ("clamp", -0.25, 0.5)),
        (lambda y, s: y.clamp(min=0.25), ("clamp", 0.25, INF)),
        (lambda y, s: y.clamp(min=None, max=0.25), ("clamp", -INF, 0.25)),
        (lambda y, s: y.clamp(max=0), ("clamp", -INF, 0.0)),
        (lambda y, s: torch.clamp_min(y, 0.125), ("clamp", 0.125, INF)),
        (lambda y, s: y.clamp(0.5, -0.5), ("clamp", 0.5, -0.5)),
        (lambda y, s: F.leaky_relu(y), ("leaky_relu", 0.01, 0.0)),
        (lambda y, s: F.leaky_relu(y, 0.2), ("leaky_relu", 0.2, 0.0)),
    ],
)
def test_activation(then, expected):
    found = fused(net(then))
    assert (found["activation"], found["activation_a"], found["activation_b"]) == expected
    assert (found["residual"], found["residual_scale"], found["residual_op"]) == (None, None, "none")


@pytest.mark.parametrize(
    ("then", "op", "alpha"),
    [
        (lambda y, r, s: y + r, "add", 1),
        (lambda y, r, s: r + y, "add", 1),
        (lambda y, r, s: torch.add(r, y, alpha=1.0), "add", 1),
        (lambda y, r, s: torch.add(y, r, alpha=2), "add", 2),
        (lambda y, r, s: torch.add(y, r, alpha=-0.5), "add", -0.5),
        (lambda y, r, s: torch.add(y, r, alpha=0), "add", 0),
        (lambda y, r, s: y.add_(r), "add", 1),
        (lambda y, r, s: y - r, "sub", 1),
        (lambda y, r, s: torch.sub(y, r, alpha=3), "sub", 3),
        (lambda y, r, s: y * r, "mul", 1),
        (lambda y, r, s: r * y, "mul", 1),
    ],
)
def test_residual(then, op, alpha):
    found = fused(net(then, image()))
    assert (found["residual"].name, found["residual_op"], found["alpha"]) == ("others_0", op, alpha)
    assert found["activation"] == "none"
    found = fused(net(lambda y, r, s: F.leaky_relu(then(y, r, s), 0.3), image()))
    assert (found["residual_op"], found["alpha"], found["activation_a"]) == (op, alpha, 0.3)


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1)])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("op", "then"),
    [("add", lambda y, p: p + y), ("sub", lambda y, p: torch.sub(y, p, alpha=2)), ("mul", lambda y, p: y * p)],
)
def test_residual_with_scale(shape, swapped, op, then):
    scale = nn.Parameter(torch.rand(shape) + 0.5)
    product = (lambda r, s: s.scale * r) if swapped else (lambda r, s: r * s.scale)
    found = fused(net(lambda y, r, s: then(y, product(r, s)).relu(), image(), scale=scale))
    assert (found["residual"].name, found["residual_scale"].name) == ("others_0", "p_scale")
    assert (found["residual_op"], found["activation"]) == (op, "relu")


@pytest.mark.parametrize(
    "conv",
    [
        lambda: nn.Conv2d(4, 4, 1),
        lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False),
        lambda: nn.Conv2d(4, 8, 3, stride=2, dilation=2, padding=3, groups=2),
        lambda: nn.ConvTranspose2d(4, 6, 4, stride=2, padding=1),
        lambda: nn.ConvTranspose2d(4, 4, 3, stride=3, output_padding=(1, 0), groups=4, bias=False),
    ],
    ids=["pointwise", "depthwise", "strided, dilated and grouped", "transposed", "transposed depthwise"],
)
def test_every_kind_of_2d_convolution(conv):
    with torch.no_grad():
        result = conv()(image())
    channels = result.shape[1]
    scale = torch.rand(1, channels, 1, 1) + 0.5
    make = net(lambda y, r, s: (y + r * s.scale).relu(), torch.randn_like(result), conv=conv, scale=scale)
    assert fused(make)["residual_scale"].name == "b_scale"


def test_half_precision_is_fused():
    assert fused(net(lambda y, r, s: (y + r).relu(), image(), dtype=torch.float16))["residual"].name == "others_0"


def test_symbolic_sizes_fuse_where_the_textures_are_known_to_fit():
    sizes = {2: 2 * Dim("h", min=2, max=64), 3: Dim("w", min=2, max=64)}
    make = net(lambda y, r, s: (y + r).relu(), image(), shapes=(sizes, (sizes,)))
    assert fused(make)["residual"].name == "others_0"
    small = lowered(make, "vulkan", lambda r: r.with_profile(max_texture_height=127))
    assert verdict_of(small, PATTERN).failed == "input_fits_texture"
    assert not calls_of(small, FUSED)


def test_of_two_convolutions_with_one_add_the_first_takes_it_and_a_skip_flips_it():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)

        def forward(self, x):
            return (self.left(x) + self.right(x)).relu()

    program = program_of((Two(), (image(),)))
    lowering = lower(program, "vulkan")
    taken, lost = verdict_of(lowering, PATTERN), verdict_of(lowering, PATTERN, "convolution_1")
    assert (taken.outcome, lost.outcome) == (Outcome.APPLIED, Outcome.SHADOWED)
    assert lost.by == (PATTERN, "convolution")
    flipped = lower(program, Recipe("vulkan").skip(Skip(pattern=PATTERN, node="conv2d")))
    assert verdict_of(flipped, PATTERN).outcome is Outcome.SKIPPED
    assert verdict_of(flipped, PATTERN, "convolution_1").outcome is Outcome.APPLIED
    (found,) = calls_of(flipped, FUSED)
    assert found["residual"].name == "convolution"
    for result in (lowering, flipped):
        assert_agrees(program, result)


def test_inside_a_no_grad_region_and_a_branch():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x):
            with torch.no_grad():
                y = torch.relu(self.conv(x))
            return torch.cond(x.sum() > 0, lambda t: self.conv(t).relu() + 1, lambda t: t.sin(), (y + x,))

    module = Inside().eval()
    with torch.enable_grad():
        program = program_of((module, (image(),)))
    lowering = lower(program, "vulkan")
    assert sorted(v.outcome for v in lowering.verdicts_of(PATTERN)) == [Outcome.APPLIED, Outcome.APPLIED]
    assert {v.anchor.rpartition("/")[0] for v in lowering.verdicts_of(PATTERN)} == {"submod_1", "true_graph_0"}
    assert_agrees(program, lowering)


# ---------------------------------------------------------------------- numbers over parameters
@drawn(
    40,
    convolution=convolutions((4, 4, 4, 3, 5, 4, 4, 4)),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.float16, torch.float32]),
    residual=st.sampled_from(["add", "none", "sub", "mul"]),
    scale=st.booleans(),
    alpha=st.sampled_from([1, 2, -0.5]),
    activation=st.sampled_from(["relu", "none", "clamp", "leaky_relu"]),
)
def test_numbers(convolution, dtype, residual, scale, alpha, activation):
    conv, x = convolution
    with torch.no_grad():
        r = torch.randn_like(conv(x))
    factor = torch.rand(1, r.shape[1], *[1] * (r.dim() - 2)) + 0.5
    combine = {
        "none": lambda y, r: y,
        "add": lambda y, r: torch.add(y, r, alpha=alpha),
        "sub": lambda y, r: torch.sub(y, r, alpha=alpha),
        "mul": lambda y, r: r * y,
    }[residual]
    end = {
        "none": lambda y: y,
        "relu": F.relu,
        "clamp": lambda y: y.clamp(-0.1, 0.3),
        "leaky_relu": lambda y: F.leaky_relu(y, 0.2),
    }[activation]

    def then(y, r, s):
        return end(combine(y, r * s.factor if scale else r))

    program = program_of(net(then, r, x=x, conv=lambda: conv, factor=factor, dtype=dtype)())
    lowering = lower(program, "vulkan")
    refused = {
        "two_dimensional": x.dim() != 4,
        "batch_1": x.shape[0] != 1,
        "dtype": dtype not in (torch.float16, torch.float32),
        "something_to_fuse": residual == activation == "none",
    }
    reason = next((name for name, holds in refused.items() if holds), None)
    verdict = verdict_of(lowering, PATTERN)
    assert verdict.failed == reason
    assert (verdict.outcome is Outcome.APPLIED) == (reason is None)
    if reason is None:
        (found,) = calls_of(lowering, FUSED)
        assert (found["residual_scale"] is not None) == (scale and residual != "none")
        assert (found["residual_op"], found["activation"]) == (residual, activation)
    assert_agrees(program, lowering)
    return reason


# ---------------------------------------------------------------------- public reports
@pytest.mark.parametrize(
    ("name", "failed", "fault"),
    [
        ("a_conv_relu_second_user", "one_user", "mul"),
        ("a_intermediate_is_output", "one_user", "output"),
        ("a_residual_minus_conv", "operand_order", "sub"),
        ("a_residual_broadcasts_up", "residual_shape", "r"),
        ("b_hardswish_decomposed", "one_user", "mul"),
    ],
)
def test_a_report_of_a_wrong_fusion_is_left_alone(name, failed, fault):
    lowering = lowered(lambda: with_batch_of_1(name), "vulkan")
    verdict = verdict_of(lowering, PATTERN)
    assert (verdict.outcome, verdict.failed, verdict.fault) == (Outcome.NEAR_MISS, failed, fault)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a_residual_add_alpha", [("add", 0.25, "relu", 0.0, 0.0)]),
        ("a_relu_open_bound_inf", [("none", 1, "relu", 0.0, 0.0)]),
        ("a_clamp_none_bounds", [("none", 1, "clamp", 0.0, INF)]),
        ("a_zero_size_batch", []),
        (
            "b_relu6_spelled_four_ways",
            [("none", 1, "clamp", 0.0, 6.0)] * 3 + [("none", 1, "relu", 0.0, 0.0)],
        ),
        ("b_inplace_residual", [("add", 1, "relu", 0.0, 0.0)]),
        ("b_padding_same_string", [("none", 1, "relu", 0.0, 0.0)] * 2),
        ("b_skip_only_the_relu", [("none", 1, "relu", 0.0, 0.0)]),
        ("b_pattern_inside_no_grad", [("none", 1, "relu", 0.0, 0.0)]),
    ],
)
def test_a_report_of_a_silent_miss_or_a_dropped_argument_is_fused_right(name, expected):
    program = program_of(with_batch_of_1(name))
    lowering = lower(program, "vulkan")
    keys = ("residual_op", "alpha", "activation", "activation_a", "activation_b")
    assert [tuple(call[k] for k in keys) for call in calls_of(lowering, FUSED)] == expected
    assert_agrees(program, lowering)


def with_batch_of_1(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A case's module and inputs, of which the first axis is cut to 1: most cases come with a batch of 2."""
    module, args, _, _ = CASES[name][0]()
    return module, tuple(a[:1] for a in args)
