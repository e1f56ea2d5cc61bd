"""depthwise_conv_transpose_as_mul: its conditions, the numbers, and how it competes with the polyphase decomposition."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.loading import load
from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.program import capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.verdict import Outcome
from lowerscope.why import why_not
from sample_models import codec
from tests.engine.patterns.condition_cases import case, program_of, run_case
from tests.engine.patterns.vulkan_nets import assert_agrees, ops_of, verdict_of
from tests.engine.patterns.xnnpack_nets import applied, counts_of, lowered_exactly, many, transposed_left

PATTERN = "depthwise_conv_transpose_as_mul"
POLYPHASE = "polyphase_conv_transpose"
SAMPLES = Path(__file__).parents[3] / "sample_models"


def up(kernel=2, stride=2, length=5, shapes=None, channels=4, groups=4, **options):
    """A factory of a 1-D transposed convolution and its input [2, channels, length]."""

    def make():
        torch.manual_seed(1)
        conv = nn.ConvTranspose1d(channels, 4, kernel, stride, groups=groups, **options)
        args = (torch.randn(2, channels, length),)
        return (conv, args) if shapes is None else (conv, args, shapes)

    return make


def plain():
    return nn.Conv1d(4, 4, 2, groups=4), (torch.randn(1, 4, 5),)


def two_dimensional():
    return nn.ConvTranspose2d(4, 4, 2, 2, groups=4), (torch.randn(1, 4, 3, 3),)


class Computed(nn.Module):
    """A transposed convolution whose weight or bias is an input."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 1, 2)), bias

    def forward(self, x, w, b):
        weight, bias = (self.weight, b) if self.bias else (w, None)
        return F.conv_transpose1d(x, weight, bias, 2, groups=4)


def computed(bias: bool):
    return lambda: (Computed(bias), (torch.randn(1, 4, 5), torch.randn(4, 1, 2), torch.randn(4)))


SYMBOLIC = ({0: Dim("n", min=1, max=8), 2: Dim("length", min=2, max=64)},)
CONDITION_CASES = [
    case("transposed", passes=up(), fails=plain, fault="convolution"),
    case("one_dimensional", passes=up(), fails=two_dimensional, fault="convolution"),
    case("depthwise", passes=up(), fails=up(channels=8), fault="convolution"),
    case("dilation_1", passes=up(), fails=up(dilation=2), fault="convolution"),
    case("no_padding", passes=up(), fails=up(4, 2, padding=1), fault="convolution"),
    case("no_output_padding", passes=up(), fails=up(output_padding=1), fault="convolution"),
    case("no_overlap", passes=up(4, 2, length=1), fails=up(4, 2), fault="convolution"),
    case("sizes_known", passes=up(), fails=up(shapes=SYMBOLIC), fault="input"),
    case("constant_weight", passes=up(), fails=computed(bias=False), fault="w"),
    case("constant_bias", passes=up(), fails=computed(bias=True), fault="b"),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "xnnpack")


@pytest.mark.parametrize("bias", [True, False])
def test_what_it_becomes(bias):
    program = program_of(up(bias=bias)())
    lowering = lower(program, "xnnpack")
    expected = ["aten.unsqueeze", "aten.mul.Tensor", "aten.view", "aten.add.Tensor"]
    assert ops_of(lowering) == expected[: 4 if bias else 3]
    assert_agrees(program, lowering)
    parameters = set(lowering.program.exported_program.graph_signature.parameters)
    assert parameters == ({"weight", "bias_column"} if bias else {"weight"})


SETS = st.tuples(
    st.integers(1, 4), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.booleans()
)  # stride, kernel, batch, length, channels, bias


@settings(max_examples=8)
@given(st.lists(SETS, min_size=25, max_size=25))
def test_numbers(drawn):
    torch.manual_seed(0)
    pairs = [
        (nn.ConvTranspose1d(c, c, kernel, stride, groups=c, bias=bias), torch.randn(batch, c, length))
        for stride, kernel, batch, length, c, bias in drawn
    ]
    expected = sum(kernel == stride or length == 1 for stride, kernel, _, length, _, _ in drawn)
    lowering = lowered_exactly(many(*zip(*pairs, strict=True)), Recipe("xnnpack").disable(POLYPHASE))
    assert applied(lowering, PATTERN) == expected
    assert transposed_left(lowering) == len(drawn) - expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_other_dtypes(dtype):
    module, (x,) = up()()[:2]
    program = program_of((module.to(dtype), (x.to(dtype),)))
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 1
    assert parity(program, lowering.program).agrees


@pytest.mark.parametrize("axis", [0, 2])
def test_a_symbolic_batch_or_length(axis):
    module, (x,) = up()()[:2]
    program = capture(module.eval(), (x,), None, ({axis: Dim("n", min=2, max=40)},))
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 1
    lowering.program.exported_program.validate()
    for size in (3, 9):
        other = torch.randn([size if i == axis else n for i, n in enumerate(x.shape)])
        assert parity(program, lowering.program, inputs=(other,), oracle=False).agrees


def test_two_patterns_compete_for_one_node_and_disabling_the_winner_flips_it():
    program = program_of(up()())
    lowering = lower(program, "xnnpack")
    assert verdict_of(lowering, PATTERN).outcome is Outcome.APPLIED
    loser = verdict_of(lowering, POLYPHASE)
    assert (loser.outcome, loser.by) == (Outcome.SHADOWED, (PATTERN, "convolution"))
    assert PATTERN in why_not(lowering, POLYPHASE, "convolution").reason
    for recipe in (Recipe("xnnpack").disable(PATTERN), Recipe("xnnpack").skip(Skip(PATTERN, node="convolution"))):
        flipped = lower(program, recipe)
        assert verdict_of(flipped, POLYPHASE).outcome is Outcome.APPLIED
        assert verdict_of(flipped, PATTERN).outcome in (Outcome.DISABLED, Outcome.SKIPPED)
        assert "aten.mul.Tensor" not in counts_of(flipped)
        assert_agrees(program, flipped)


def test_the_codec_streams_with_a_multiplication_and_on_several_frames_with_phases():
    streaming = lower(load(SAMPLES / "codec.pt2"), "xnnpack")
    assert (applied(streaming, PATTERN), applied(streaming, POLYPHASE)) == (1, 3)
    module, args = codec.build(frames=3)
    program = capture(module, args)
    several = lower(program, "xnnpack")
    assert (applied(several, PATTERN), applied(several, POLYPHASE)) == (0, 4)
    (missed,) = (v for v in several.verdicts_of(PATTERN) if v.failed == "no_overlap")
    assert "3 steps" in missed.reason
    assert_agrees(program, several)


def test_a_weight_and_a_bias_with_other_readers_stay_for_them():
    class Tail(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ConvTranspose1d(4, 4, 2, 2, groups=4)

        def forward(self, x):
            return self.up(x) - self.up.get_parameter("bias").reshape(-1, 1), self.up.weight

    program = program_of((Tail(), (torch.randn(1, 4, 3),)))
    lowering = lower(program, Recipe("xnnpack").disable("fold_constants"))
    assert set(lowering.program.exported_program.graph_signature.parameters) == {
        "up.weight",
        "up.bias",
        "up.bias_column",
    }
    assert_agrees(program, lowering)
