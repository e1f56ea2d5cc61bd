"""conv2d_with_epilogue: each condition by name and node, and what stays unfused for which reason."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.lowering import lower
from lowerscope.recipe import Recipe
from lowerscope.target import pipeline
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import case, lowered, program_of, run_case
from tests.engine.patterns.vulkan_nets import (
    SCALE,
    assert_agrees,
    calls_of,
    image,
    net,
    ops_of,
    relu,
    scaled_by,
    verdict_of,
)

PATTERN = "conv2d_with_epilogue"
FUSED = "et_vk.conv2d.with_epilogue"

added = net(lambda y, r, s: y + r, image())
scaled = scaled_by(SCALE)


def conv_with_weight_from_input():
    class Dynamic(nn.Module):
        def forward(self, x, w, b):
            return F.conv2d(x, w * 2, b, padding=1).relu()

    return Dynamic(), (image(), torch.randn(4, 4, 3, 3), torch.randn(4))


def conv_with_bias_from_input():
    class Dynamic(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 4, 3, 3))

        def forward(self, x, b):
            return F.conv2d(x, self.w, b, padding=1).relu()

    return Dynamic(), (image(), torch.randn(4))


def conv1d():
    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(4, 4, 3)

        def forward(self, x):
            return self.conv(x).relu()

    return One(), (torch.randn(1, 4, 9),)


def without_folding(recipe: Recipe) -> Recipe:
    return recipe.disable("fold_constants")


def narrow(recipe: Recipe) -> Recipe:
    return recipe.with_profile(max_texture_width=16, max_texture_height=16, max_texture_depth=2)


UPSAMPLING = {"conv": lambda: nn.ConvTranspose2d(4, 4, 2, stride=2), "x": image(height=9, width=9)}

CONDITION_CASES = [
    case("two_dimensional", passes=relu, fails=conv1d, fault="convolution"),
    case("constant_weight", passes=relu, fails=conv_with_weight_from_input, fault="mul"),
    case("constant_bias", passes=relu, fails=conv_with_bias_from_input, fault="b"),
    case("batch_1", passes=relu, fails=net(lambda y, s: y.relu(), x=image(batch=8)), fault="convolution"),
    case("dtype", passes=relu, fails=net(lambda y, s: y.relu(), dtype=torch.bfloat16), fault="convolution"),
    case("one_user", passes=relu, fails=net(lambda y, s: (y.relu(), y)), fault="output"),
    case(
        "input_fits_texture",
        passes=relu,
        fails=net(lambda y, s: y.relu(), x=image(width=17), conv=lambda: nn.Conv2d(4, 4, 3, stride=2)),
        fault="x",
        recipe=narrow,
    ),
    case(
        "output_fits_texture",
        passes=relu,
        fails=net(lambda y, s: y.relu(), **UPSAMPLING),
        fault="convolution",
        recipe=narrow,
    ),
    case("residual_shape", passes=added, fails=net(lambda y, r, s: y + r, image(height=1)), fault="others_0"),
    case(
        "residual_dtype",
        passes=added,
        fails=net(lambda y, r, s: y + r, image().half()),
        fault="others_0",
    ),
    case("operand_order", passes=added, fails=net(lambda y, r, s: r - y, image()), fault="sub"),
    case(
        "alpha_literal",
        passes=net(lambda y, r, s: torch.add(y, r, alpha=2), image()),
        fails=net(
            lambda y, r, t, s: torch.add(y, r, alpha=t.shape[0]),
            image(),
            torch.randn(3),
            shapes=({}, ({}, {0: Dim("t", min=2, max=9)})),
        ),
        fault="add",
    ),
    case("residual_not_itself", passes=added, fails=net(lambda y, s: y + y), fault="add"),
    case("scale_constant", passes=scaled, fails=net(lambda y, r, t, s: y + r * t, image(), SCALE), fault="mul"),
    case("scale_shape", passes=scaled, fails=scaled_by(torch.full((1, 1, 1, 1), 0.5)), fault="b_scale"),
    case(
        "scale_one_user",
        passes=scaled,
        fails=scaled_by(SCALE, then=lambda y, r, s: (lambda m: (y + m) * m)(r * s.scale)),
        fault="mul_1",
    ),
    case("scaled_shape", passes=scaled, fails=scaled_by(torch.ones(1, 4, 1, 1), image(channels=1)), fault="others_0"),
    case("scaled_dtype", passes=scaled, fails=scaled_by(SCALE, image().half()), fault="others_0"),
    case("scale_dtype", passes=scaled, fails=scaled_by(SCALE.half()), fault="b_scale"),
    case(
        "scaled_not_constant",
        passes=scaled,
        fails=net(lambda y, s: y + s.r * s.scale, r=image(), scale=SCALE),
        fault="b_r",
        recipe=without_folding,
    ),
    case(
        "activation_one_user",
        passes=net(lambda y, r, s: (y + r).relu(), image()),
        fails=net(lambda y, r, s: (lambda t: t.sigmoid() * t.relu())(y + r), image()),
        fault="sigmoid",
    ),
    case(
        "activation_literal",
        passes=net(lambda y, s: y.clamp(0, 3)),
        fails=net(lambda y, t, s: y.clamp(max=t.shape[0]), torch.randn(3), shapes=({}, ({0: Dim("t", min=2, max=9)},))),
        fault="sym_size_int_1",
    ),
    case("something_to_fuse", passes=relu, fails=net(lambda y, s: y.sigmoid()), fault="sigmoid"),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "vulkan")


@pytest.mark.parametrize(
    ("why", "make", "failed"),
    [
        ("the scale is one number for all channels", scaled_by(torch.full((1, 1, 1, 1), 2.0)), "scale_shape"),
        ("the scale is zero-dimensional", scaled_by(torch.tensor(2.0)), "scale_shape"),
        ("the scale is a literal", net(lambda y, r, s: y + r * 2.0, image()), "scale_constant"),
        ("the scale is computed", net(lambda y, r, t, s: y + r * t, image(), SCALE), "scale_constant"),
        ("the scale is a vector along the width", scaled_by(torch.ones(5)), "scale_shape"),
        ("what is scaled is broadcast", scaled_by(torch.ones(1, 4, 1, 1), image(channels=1)), "scaled_shape"),
        ("what is scaled is promoted", scaled_by(SCALE, image().half()), "scaled_dtype"),
        ("the scale is promoted", scaled_by(SCALE.half()), "scale_dtype"),
        ("a constant is scaled by a gate", net(lambda y, g, s: y + s.r * g, SCALE, r=image()), "scale_shape"),
    ],
)
def test_a_scale_that_does_not_qualify_leaves_the_mul_as_the_residual(why, make, failed):
    program = program_of(make())
    lowering = lower(program, "vulkan")
    (found,) = calls_of(lowering, FUSED)
    assert (found["residual"].name, found["residual_scale"]) == ("mul", None), why
    verdict = verdict_of(lowering, PATTERN)
    assert verdict.outcome is Outcome.APPLIED
    failure = verdict.record.failure()
    assert failure is not None
    assert failure.name == failed
    assert_agrees(program, lowering)


def test_a_mul_that_somebody_else_reads_stays_and_its_output_is_the_residual():
    program = program_of(scaled_by(SCALE, then=lambda y, r, s: (lambda m: ((y + m).relu(), m))(r * s.scale))())
    lowering = lower(program, "vulkan")
    (found,) = calls_of(lowering, FUSED)
    assert (found["residual"].name, found["residual_scale"], found["activation"]) == ("mul", None, "relu")
    failure = verdict_of(lowering, PATTERN).record.failure()
    assert failure is not None
    assert (failure.name, failure.node) == ("scale_one_user", "output")
    assert_agrees(program, lowering)


# ---------------------------------------------------------------------- what stays unfused, and why
@pytest.mark.parametrize(
    ("make", "outcome", "failed", "fault"),
    [
        (net(lambda y, r, s: torch.add(r, y, alpha=2), image()), Outcome.NEAR_MISS, "operand_order", "add"),
        (net(lambda y, r, s: r - y, image()), Outcome.NEAR_MISS, "operand_order", "sub"),
        (net(lambda y, s: 2 - y), Outcome.NEAR_MISS, "residual_shape", "sub"),
        (net(lambda y, s: y * y), Outcome.NEAR_MISS, "residual_not_itself", "mul"),
        (net(lambda y, s: y + 1.5), Outcome.NEAR_MISS, "residual_shape", "add"),
        (net(lambda y, s: y * s.scale, scale=SCALE), Outcome.NEAR_MISS, "residual_shape", "b_scale"),
        (net(lambda y, r, s: y * r, torch.tensor(2.0)), Outcome.NEAR_MISS, "residual_shape", "others_0"),
        (net(lambda y, r, s: y + r, image().half()), Outcome.NEAR_MISS, "residual_dtype", "others_0"),
        (net(lambda y, r, s: y + r, image(batch=3)), Outcome.NEAR_MISS, "residual_shape", "others_0"),
        (net(lambda y, r, s: (y + r, y), image()), Outcome.NEAR_MISS, "one_user", "output"),
        (net(lambda y, s: y.clamp(torch.zeros(1), None)), Outcome.NEAR_MISS, "activation_literal", None),
        (net(lambda y, s: y), Outcome.NOTHING_TO_FUSE, "something_to_fuse", "output"),
        (net(lambda y, s: y.sigmoid()), Outcome.NOTHING_TO_FUSE, "something_to_fuse", "sigmoid"),
        (net(lambda y, s: y.relu(), x=torch.randn(4, 6, 5)), Outcome.NOTHING_TO_FUSE, "something_to_fuse", "squeeze"),
    ],
)
def test_unfused(make, outcome, failed, fault):
    program = program_of(make())
    lowering = lower(program, "vulkan")
    verdict = verdict_of(lowering, PATTERN)
    assert (verdict.outcome, verdict.failed) == (outcome, failed)
    assert fault is None or verdict.fault == fault
    assert not calls_of(lowering, FUSED)
    assert_agrees(program, lowering)


def test_a_failed_residual_is_the_one_root_cause():
    lowering = lowered(net(lambda y, r, s: torch.add(r, y, alpha=2).relu(), image()), "vulkan")
    statuses = {e.name: str(e.status) for e in verdict_of(lowering, PATTERN).record.entries}
    assert statuses["operand_order"] == "failed"
    assert statuses["something_to_fuse"] == "follows"


@pytest.mark.parametrize("then", [lambda y, s: y + s.r, lambda y, s: (y + s.r).relu()], ids=["none", "relu"])
def test_a_constant_residual_without_a_scale_matches_and_is_declined(then):
    lowering = lowered(net(then, r=image()), "vulkan")
    verdict = verdict_of(lowering, PATTERN)
    assert verdict.outcome is Outcome.DECLINED
    assert verdict.reason == "the residual is a constant without a scale"
    assert "add" in verdict.nodes
    assert PATTERN not in {s.pattern for s in lowering.steps}
    assert not calls_of(lowering, FUSED)


def test_an_activation_bounded_by_a_size_stays_and_what_stands_before_it_fuses():
    shapes = ({}, ({}, {0: Dim("t", min=2, max=9)}))
    program = program_of(net(lambda y, r, t, s: (y + r).clamp(max=t.shape[0]), image(), torch.ones(3), shapes=shapes)())
    lowering = lower(program, "vulkan")
    (found,) = calls_of(lowering, FUSED)
    assert (found["residual_op"], found["activation"]) == ("add", "none")
    assert "aten.clamp" in ops_of(lowering)
    assert_agrees(program, lowering)


def test_a_symbolic_batch_is_not_known_to_be_1_and_its_symbol_is_shown():
    shapes = ({0: Dim("n", min=1, max=8)},)
    lowering = lowered(net(lambda y, s: y.relu(), x=image(batch=2), shapes=shapes), "vulkan")
    verdict = verdict_of(lowering, PATTERN)
    assert (verdict.failed, verdict.fault) == ("batch_1", "convolution")
    failure = verdict.record.failure()
    assert failure is not None
    assert str(failure.actual) in {str(s) for s in lowering.source.exported_program.range_constraints}


# ---------------------------------------------------------------------- targets
def test_order_on_each_target():
    vulkan = [p.name for p in pipeline("vulkan")]
    wanted = ["core_aten", "fold_constants", "fold_batch_norm", PATTERN, "conv1d_as_conv2d", "conv_with_clamp"]
    assert [name for name in vulkan if name in wanted] == wanted
    assert [p.name for p in pipeline("webgpu")] == vulkan


def test_webgpu_skips_it_and_leaves_the_convolution_to_the_clamp():
    lowering = lowered(relu, "webgpu")
    verdict = verdict_of(lowering, PATTERN)
    assert verdict.outcome is Outcome.SKIPPED
    assert "its runtime does not implement conv2d.with_epilogue" in verdict.reason
    assert ops_of(lowering) == ["et_vk.conv_with_clamp"]
