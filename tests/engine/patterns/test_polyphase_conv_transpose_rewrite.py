"""polyphase_conv_transpose: what a convolution becomes, and what goes on around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F
from torch.nn.utils import parametrizations, weight_norm

from lowerscope.loading import load
from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.pattern import REGISTRY
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.target import pipeline
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import program_of
from tests.engine.patterns.polyphase_nets import DENSE_2D, DEPTHWISE_1D, DEPTHWISE_2D, PATTERN, up
from tests.engine.patterns.vulkan_nets import assert_agrees, calls_of, ops_of, verdict_of
from tests.engine.patterns.xnnpack_nets import (
    WITHOUT_LAYOUT,
    applied,
    counts_of,
    transposed_left,
)

SAMPLES = Path(__file__).parents[3] / "sample_models"
DEPTH_TO_SPACE = "xnnpack.depth_to_space_2d"


# ------------------------------------------------------------------ what it becomes
def test_dense_is_one_convolution_of_all_phases():
    program = program_of(up(DENSE_2D)())
    lowering = lower(program, WITHOUT_LAYOUT)
    assert counts_of(lowering) == {"aten.convolution": 1, DEPTH_TO_SPACE: 1, "aten.slice.Tensor": 2}
    (call,) = calls_of(lowering, "aten.convolution")
    assert tuple(call["weight"].meta["val"].shape) == (4 * 3, 4, 2, 2)
    assert (call["stride"], call["padding"], call["transposed"]) == ([1, 1], [1, 1], False)


def test_depthwise_is_one_depthwise_convolution_per_phase():
    program = program_of(up(DEPTHWISE_2D)())
    lowering = lower(program, "xnnpack")
    calls = calls_of(lowering, "aten.convolution")
    assert [tuple(c["weight"].meta["val"].shape) for c in calls] == [(4, 1, 2, 2)] * 4
    assert [c["groups"] for c in calls] == [4] * 4
    assert all(c["bias"].name == "p_conv_bias" for c in calls)


def test_equal_pads_are_the_convolutions_own_and_unequal_ones_are_shared():
    equal = program_of(up(lambda: nn.ConvTranspose1d(4, 4, 9, stride=3, padding=3, groups=4), x=torch.randn(1, 4, 7))())
    ops = counts_of(lower(equal, "xnnpack"))
    assert ops["aten.convolution"] == 3
    paddings = [tuple(c["padding"]) for c in calls_of(lower(equal, "xnnpack"), "aten.convolution")]
    assert paddings == [(0, 1)] * 3
    assert "aten.constant_pad_nd" not in ops
    unequal = program_of(up(DEPTHWISE_2D)())
    assert counts_of(lower(unequal, "xnnpack"))["aten.constant_pad_nd"] == 4


def test_sixteen_phases_in_1d_take_at_most_27_nodes():
    conv = nn.ConvTranspose1d(8, 8, 32, stride=16, padding=8, groups=8)
    program = program_of((conv, (torch.randn(1, 8, 6),)))
    lowering = lower(program, WITHOUT_LAYOUT)
    ops = counts_of(lowering)
    assert ops["aten.convolution"] == 16
    assert (ops["aten.unsqueeze"], ops["aten.squeeze.dims"], ops["aten.cat"]) == (1, 1, 1)
    assert sum(ops.values()) <= 27
    assert_agrees(program, lowering)


def test_the_interleave_is_block_major_and_not_pixel_shuffle():
    program = program_of(up(DENSE_2D)())
    lowered_program = lower(program, "xnnpack").program.exported_program
    graph = lowered_program.graph_module
    assert_close = torch.testing.assert_close
    args, _ = program.inputs()
    right = program.exported_program.module()(*args)

    class Shuffled(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target is torch.ops.lowerscope_xnnpack.depth_to_space_2d.default:
                return F.pixel_shuffle(*args)
            return super().call_function(target, args, kwargs)

    inputs = [*lowered_program.state_dict.values(), *args]
    assert_close(torch.fx.Interpreter(graph).run(*inputs)[0], right)
    assert (Shuffled(graph).run(*inputs)[0] - right).abs().max() > 0.1


@pytest.mark.parametrize("stride", [(2, 3), (1, 2), (3, 1)])
def test_strides_that_differ_per_axis_are_interleaved_by_views(stride):
    conv = nn.ConvTranspose2d(4, 3, tuple(2 * s for s in stride), stride=stride)
    program = program_of(up(lambda: conv)())
    lowering = lower(program, "xnnpack")
    assert DEPTH_TO_SPACE not in ops_of(lowering)
    assert applied(lowering, PATTERN) == 1
    assert_agrees(program, lowering)


def test_output_padding_beyond_the_padding_keeps_the_bias():
    conv = nn.ConvTranspose2d(4, 3, 3, stride=3, output_padding=2)
    nn.init.constant_(conv.get_parameter("bias"), 7.0)
    program = program_of(up(lambda: conv)())
    lowering = lower(program, "xnnpack")
    args, _ = program.inputs()
    result = lowering.program.exported_program.module()(*args)
    assert torch.allclose(result[..., -2:], torch.full_like(result[..., -2:], 7.0))
    assert_agrees(program, lowering)


@pytest.mark.parametrize(
    ("conv", "x", "dims"),
    [
        (DENSE_2D, torch.randn(2, 4, 5, 3), {0: "n", 2: "h", 3: "w"}),
        (DEPTHWISE_2D, torch.randn(2, 4, 5, 3), {0: "n", 2: "h", 3: "w"}),
        (DEPTHWISE_1D, torch.randn(2, 4, 5), {2: "l"}),
        (lambda: nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1), torch.randn(2, 4, 5), {0: "n"}),
    ],
)
def test_symbolic_sizes(conv, x, dims):
    shapes = ({axis: Dim(name, min=2, max=40) for axis, name in dims.items()},)
    program = capture(conv().eval(), (x,), None, shapes)
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 1
    lowering.program.exported_program.validate()
    for size in (3, 8):
        other = torch.randn([size if axis in dims else n for axis, n in enumerate(x.shape)])
        assert parity(program, lowering.program, inputs=(other,), oracle=False).agrees


# ------------------------------------------------------------------ around it
def test_transposed_convolutions_that_feed_each_other_all_go():
    net = nn.Sequential(
        nn.ConvTranspose2d(3, 3, 4, 2, 1, groups=3), nn.ConvTranspose2d(3, 3, 4, 2, 1, groups=3),
        nn.ConvTranspose2d(3, 2, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(2, 3, 2, 2), nn.ReLU(),
    )  # fmt: skip
    program = program_of((net, (torch.randn(1, 3, 2, 3),)))
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 4
    assert transposed_left(lowering) == 0
    assert_agrees(program, lowering)


def test_a_skipped_one_stays_and_the_others_go():
    net = nn.Sequential(DEPTHWISE_2D(), DEPTHWISE_2D())
    program = program_of((net, (torch.randn(1, 4, 3, 3),)))
    lowering = lower(program, Recipe("xnnpack").skip(Skip(module="0")))
    assert applied(lowering, PATTERN) == 1
    assert transposed_left(lowering) == 1
    assert_agrees(program, lowering)


def test_its_place():
    names = [p.name for p in pipeline("xnnpack")]
    assert names.index("fold_batch_norm") < names.index("depthwise_conv_transpose_as_mul") < names.index(PATTERN)
    assert names.index(PATTERN) < names.index("fuse_activation")
    assert REGISTRY.get(PATTERN).targets == ("xnnpack",)


def weight_normed(how):
    conv = nn.ConvTranspose1d(6, 4, 8, stride=4, padding=2)
    norm = weight_norm if how == "hook" else parametrizations.weight_norm
    return norm(conv)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("how", ["hook", "parametrization"])
def test_a_weight_normed_weight_is_folded_first(how):
    program = program_of((weight_normed(how), (torch.randn(1, 6, 5),)))
    lowering = lower(program, "xnnpack")
    assert [s.pattern for s in lowering.steps if s.pattern != "core_aten"] == ["fold_constants", PATTERN]
    assert_agrees(program, lowering)
    blocked = lower(program, Recipe("xnnpack").disable("fold_constants"))
    assert verdict_of(blocked, PATTERN).failed == "constant_weight"


def test_sample_models():
    upsampler = load(SAMPLES / "upsampler.pt2")
    lowering = lower(upsampler, "xnnpack")
    assert (applied(lowering, PATTERN), transposed_left(lowering)) == (5, 0)
    assert_agrees(upsampler, lowering)
    codec: Program = load(SAMPLES / "codec.pt2")
    streaming = lower(codec, "xnnpack")
    assert applied(streaming, "depthwise_conv_transpose_as_mul") == 1
    assert (applied(streaming, PATTERN), transposed_left(streaming)) == (3, 0)
    assert [v.outcome for v in streaming.verdicts_of(PATTERN)].count(Outcome.SHADOWED) == 1
    assert_agrees(codec, streaming)
