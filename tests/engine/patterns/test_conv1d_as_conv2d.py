"""conv1d_as_conv2d: its conditions, the neutral entries it puts in front, and the weight as a constant of its kind."""

from __future__ import annotations

import pytest
import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from lowerscope.lowering import Lowerer, lower
from lowerscope.recipe import Recipe
from lowerscope.target import pipeline
from lowerscope.verdict import Outcome
from tests.cases import CASES
from tests.engine.patterns.condition_cases import case, lowered, program_of, run_case
from tests.engine.patterns.conv_draws import DTYPES, convolutions, drawn
from tests.engine.patterns.vulkan_nets import assert_agrees, calls_of, net, ops_of, relu, verdict_of

PATTERN = "conv1d_as_conv2d"
TARGETS = ["vulkan", "webgpu", "qnn"]
_SQUEEZED = ["aten.unsqueeze", "aten.convolution", "aten.squeeze.dims"]
BECOMES = {
    "vulkan": _SQUEEZED,
    "webgpu": _SQUEEZED,
    "qnn": ["aten.unsqueeze", "xnnpack.to_nhwc", "aten.convolution", "xnnpack.to_nchw", "aten.squeeze.dims"],
}


def conv1d(conv=lambda: nn.Conv1d(4, 4, 3), x=None, then=lambda y, s: y):
    return net(then, x=torch.randn(2, 4, 9) if x is None else x, conv=conv)


def computed_weight():
    class Computed(nn.Module):
        def forward(self, x, w):
            return F.conv1d(x, w * 2)

    return Computed(), (torch.randn(2, 4, 9), torch.randn(4, 4, 3))


CONDITION_CASES = [
    case("one_dimensional", passes=conv1d(), fails=relu, fault="convolution", recipe=lambda r: r),
    case("constant_weight", passes=conv1d(), fails=computed_weight, fault="mul"),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
@pytest.mark.parametrize("target", ["webgpu", "qnn"])
def test_condition(case, target):
    run_case(case, PATTERN, target)


@pytest.mark.parametrize("target", TARGETS)
def test_what_it_becomes(target):
    conv = nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2)
    program = program_of(conv1d(lambda: conv)())
    lowering = lower(program, target)
    assert ops_of(lowering) == BECOMES[target]
    (call,) = calls_of(lowering, "aten.convolution")
    assert (call["stride"], call["padding"], call["dilation"]) == ([1, 2], [0, 1], [1, 2])
    assert (call["output_padding"], call["groups"], call["transposed"]) == ([0, 0], 2, False)
    assert_agrees(program, lowering)


def test_a_2d_convolution_is_none_of_its_business():
    assert verdict_of(lowered(relu, "webgpu"), PATTERN).outcome is Outcome.NOTHING_TO_FUSE


def test_the_weight_is_a_constant_of_the_same_kind_and_shares_memory():
    conv = nn.Conv1d(4, 4, 3)
    program = program_of(conv1d(lambda: conv)())
    lowered_program = lower(program, "qnn").program
    signature = lowered_program.exported_program.graph_signature
    assert set(signature.parameters) == {"conv.weight_2d", "conv.bias"}
    (name,) = (n for n in lowered_program.constants if n.endswith("weight_2d"))
    assert name == "p_conv_weight_2d"
    weight = lowered_program.constants[name]
    assert weight.shape == (4, 4, 1, 3)
    assert weight.data_ptr() == conv.weight.data_ptr()
    assert set(program.exported_program.graph_signature.parameters) == {"conv.weight", "conv.bias"}


def test_convolutions_that_share_a_weight_share_the_new_one_and_other_readers_keep_the_old():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(4, 4, 3, padding=1)

        def forward(self, x):
            return self.conv(self.conv(x).sigmoid()) + self.conv.weight.sum()

    program = program_of((Shared(), (torch.randn(1, 4, 9),)))
    lowering = lower(program, Recipe("qnn").disable("fold_constants"))
    first, second = calls_of(lowering, "aten.convolution")
    assert first["weight"] is second["weight"]
    assert set(lowering.program.exported_program.graph_signature.parameters) == {
        "conv.weight",
        "conv.weight_2d",
        "conv.bias",
    }
    assert_agrees(program, lowering)


def test_what_describes_rank_or_axis_order_is_not_inherited():
    program = program_of(conv1d()())
    lowerer = Lowerer(program)
    recipe = Recipe("qnn").disable("channels_last").disable(PATTERN)
    lowerer.lower(recipe)
    lowerer.editor.nodes["convolution"].meta.update({"dim_order": (0, 1, 2), "axis_order": (0, 2, 1)})
    lowerer.lower(recipe.enable(PATTERN))
    made = [n for n in lowerer.editor.nodes.values() if n.op == "call_function"]
    assert [n.meta["val"].dim() for n in made] == [4, 4, 3]
    assert not any({"dim_order", "axis_order"} & set(n.meta) for n in made)


@pytest.mark.parametrize("target", TARGETS)
def test_its_place(target):
    names = [p.name for p in pipeline(target)]
    place = names.index(PATTERN)
    assert place > names.index("fold_batch_norm")
    if target != "qnn":
        assert names.index("conv2d_with_epilogue") < place < names.index("conv_with_clamp")


def test_a_batch_norm_after_a_1d_convolution_is_folded_first():
    module, args, _, _ = CASES["a_conv1d_bn_relu"][0]()
    program = program_of((module, args))
    lowering = lower(program, "vulkan")
    assert ops_of(lowering) == ["aten.unsqueeze", "et_vk.conv_with_clamp", "aten.squeeze.dims"]
    assert_agrees(program, lowering)


@drawn(
    convolution=convolutions((3, 4, 5, 3)),
    dtype=DTYPES,
    target=st.sampled_from(TARGETS),
)
def test_numbers(convolution, dtype, target):
    conv, x = convolution
    program = program_of(conv1d(lambda: conv.to(dtype), x.to(dtype))())
    lowering = lower(program, target)
    applied = [s.pattern for s in lowering.steps].count(PATTERN)
    if x.dim() == 3:
        assert applied == 1
        (call,) = calls_of(lowering, "aten.convolution")
        assert call["weight"].meta["val"].dim() == 4
    else:
        assert applied == 0
        assert verdict_of(lowering, PATTERN).failed == "one_dimensional"
    assert_agrees(program, lowering)
    return verdict_of(lowering, PATTERN).failed
