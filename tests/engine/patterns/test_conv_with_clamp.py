"""conv_with_clamp: its conditions, the bounds of each activation, and what reaches it on each target."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.lowering import lower
from lowerscope.recipe import Recipe
from lowerscope.verdict import Outcome
from tests.cases import CASES
from tests.engine.patterns.condition_cases import case, lowered, program_of, run_case
from tests.engine.patterns.conv_draws import DTYPES, convolutions, drawn
from tests.engine.patterns.tosa_nets import Net, tensors_of_conv, weight
from tests.engine.patterns.vulkan_nets import assert_agrees, calls_of, image, net, ops_of, relu, verdict_of

PATTERN = "conv_with_clamp"
FUSED = "et_vk.conv_with_clamp"
INF = math.inf


def signal(batch=1):
    return torch.randn(batch, 4, 9)


def conv1d(then, x=None, conv=lambda: nn.Conv1d(4, 4, 3, padding=1)):
    return net(then, x=signal() if x is None else x, conv=conv)


def squeezed_twice(y, s):
    return y.squeeze(2).relu(), y.sigmoid()


def quantized_net():
    """relu(conv(x, dq(w))): [2, 4, 3, 3] to [2, 4, 3, 3]."""
    held = tensors_of_conv(4, 4, 1, 1)
    return Net(lambda x, s: F.conv2d(x, weight(s), s.bias).relu(), **held), (torch.randn(2, 4, 3, 3),)


flat = conv1d(lambda y, s: y.relu())
on_one_row = {"x": image(height=1), "conv": lambda: nn.Conv2d(4, 4, (1, 3))}

CONDITION_CASES = [
    case(
        "dimensions",
        passes=relu,
        fails=net(lambda y, s: y.relu(), x=torch.randn(1, 4, 3, 3, 3), conv=lambda: nn.Conv3d(4, 4, 2)),
        fault="convolution",
    ),
    case("squeeze_one_user", passes=flat, fails=net(squeezed_twice, **on_one_row), fault="sigmoid"),
    case("clamp_follows", passes=relu, fails=net(lambda y, s: y.sigmoid()), fault="sigmoid"),
    case("one_user", passes=relu, fails=net(lambda y, s: (y.relu(), y)), fault="output"),
    case(
        "constant_weights",
        passes=relu,
        fails=net(lambda y, w, s: F.conv2d(y, w).relu(), torch.randn(4, 4, 1, 1)),
        fault="others_0",
        anchor="convolution_1",
    ),
    case(
        "bounds_literal",
        passes=relu,
        fails=net(lambda y, t, s: y.clamp(max=t.shape[0]), torch.ones(3), shapes=({}, ({0: Dim("t", min=2, max=9)},))),
        fault="sym_size_int_1",
    ),
    case("floating_weight", passes=relu, fails=quantized_net, fault="dequantize_per_channel"),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
@pytest.mark.parametrize("target", ["vulkan", "webgpu"])
def test_condition(case, target):
    run_case(case, PATTERN, target)


@pytest.mark.parametrize("make", [net, conv1d], ids=["2-D", "1-D"])
@pytest.mark.parametrize(
    ("then", "low", "high"),
    [
        (lambda y, s: y.relu(), 0.0, INF),
        (lambda y, s: F.relu(y, inplace=True), 0.0, INF),
        (lambda y, s: F.relu6(y), 0.0, 6.0),
        (lambda y, s: torch.ops.aten.hardtanh(y), -1.0, 1.0),
        (lambda y, s: F.hardtanh(y, -0.25, 0.5), -0.25, 0.5),
        (lambda y, s: y.clamp(-0.25, 0.5), -0.25, 0.5),
        (lambda y, s: y.clamp(min=0.25), 0.25, INF),
        (lambda y, s: y.clamp(max=0), -INF, 0.0),
        (lambda y, s: y.clamp(0.5, -0.5), 0.5, -0.5),
    ],
)
def test_bounds(make, then, low, high):
    program = program_of(make(then)())
    lowering = lower(program, "webgpu")
    (call,) = calls_of(lowering, FUSED)
    assert (call["output_min"], call["output_max"]) == (low, high)
    assert not {"aten.relu", "aten.clamp", "aten.hardtanh", "aten.convolution"} & set(ops_of(lowering))
    assert_agrees(program, lowering)


@pytest.mark.parametrize(
    "then",
    [lambda y, s: F.leaky_relu(y), lambda y, s: y.sigmoid(), lambda y, s: y.clamp(torch.zeros(1), None)],
    ids=["leaky_relu", "sigmoid", "a tensor's bounds"],
)
def test_other_activations_stay(then):
    program = program_of(net(then)())
    lowering = lower(program, "webgpu")
    assert not calls_of(lowering, FUSED)
    assert_agrees(program, lowering)


def test_inf_stays_inf():
    module, args, _, _ = CASES["a_relu_open_bound_inf"][0]()
    program = program_of((module, args))
    lowering = lower(program, "webgpu")
    (call,) = calls_of(lowering, FUSED)
    assert call["output_max"] == INF
    result = lowering.program.exported_program.module()(*args)
    assert torch.isinf(result).any()
    assert torch.equal(result, module(*args))


def test_on_vulkan_a_1d_convolution_reaches_it_as_a_2d_one_and_the_squeeze_goes_behind():
    program = program_of(flat())
    lowering = lower(program, "vulkan")
    assert ops_of(lowering) == ["aten.unsqueeze", FUSED, "aten.squeeze.dims"]
    (call,) = calls_of(lowering, FUSED)
    assert (call["padding"], call["stride"]) == ([0, 1], [1, 1])
    assert_agrees(program, lowering)


def test_on_vulkan_a_1d_convolution_that_was_left_alone_reaches_it_too():
    program = program_of(flat())
    lowering = lower(program, Recipe("vulkan").disable("conv1d_as_conv2d"))
    assert ops_of(lowering) == [FUSED]
    assert_agrees(program, lowering)


def test_on_vulkan_the_epilogue_takes_2d_convolutions_first():
    lowering = lowered(relu, "vulkan")
    verdict = verdict_of(lowering, PATTERN)
    assert verdict.outcome is Outcome.SHADOWED
    assert verdict.by == ("conv2d_with_epilogue", "convolution")
    again = lowered(relu, "vulkan", lambda r: r.disable("conv2d_with_epilogue"))
    assert ops_of(again) == [FUSED]


def test_on_vulkan_it_takes_what_the_epilogue_leaves():
    program = program_of(net(lambda y, s: y.relu(), x=image(batch=8))())
    lowering = lower(program, "vulkan")
    assert verdict_of(lowering, "conv2d_with_epilogue").failed == "batch_1"
    assert ops_of(lowering) == [FUSED]
    assert_agrees(program, lowering)


@drawn(
    convolution=convolutions(),
    dtype=DTYPES,
    target=st.sampled_from(["vulkan", "webgpu"]),
    bounds=st.sampled_from([(0.0, None), (-0.2, 0.3), (None, 0.1)]),
)
def test_numbers(convolution, dtype, target, bounds):
    conv, x = convolution
    recipe = Recipe(target).disable(*(["conv2d_with_epilogue"] if target == "vulkan" else []))
    program = program_of(net(lambda y, s: y.clamp(*bounds), x=x, conv=lambda: conv, dtype=dtype)())
    lowering = lower(program, recipe)
    if x.dim() < 5:
        assert len(calls_of(lowering, FUSED)) == 1
        assert "aten.clamp" not in ops_of(lowering)
    else:
        assert verdict_of(lowering, PATTERN).failed == "dimensions"
        assert not calls_of(lowering, FUSED)
    assert_agrees(program, lowering)
    return None if x.dim() < 5 else "dimensions"
