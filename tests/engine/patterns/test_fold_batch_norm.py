"""fold_batch_norm: its conditions, every kind of convolution, shared parts, overflow, and float16 before and after."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators of quantized graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_weights

from lowerscope.loading import load
from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.ops import display_name
from lowerscope.pattern import REGISTRY, Kind, Pattern, pattern
from lowerscope.program import capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.target import TARGETS, faults, pipeline
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import case, program_of, run_case
from tests.engine.patterns.vulkan_nets import assert_agrees, calls_of, ops_of
from tests.engine.patterns.xnnpack_nets import applied, lowered_exactly, many

PATTERN = "fold_batch_norm"
SAMPLES = Path(__file__).parents[3] / "sample_models"
CONVS: dict[tuple[int, bool], Any] = {
    (1, False): nn.Conv1d, (2, False): nn.Conv2d, (3, False): nn.Conv3d,
    (1, True): nn.ConvTranspose1d, (2, True): nn.ConvTranspose2d, (3, True): nn.ConvTranspose3d,
}  # fmt: skip
NORMS: dict[int, Any] = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def lively(norm):
    """A batch norm in eval mode whose every part would show in a wrong fold."""
    with torch.no_grad():
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.3, 2.5)
        if norm.affine:
            norm.weight.uniform_(0.5, 2).mul_(torch.randn(norm.num_features).sign())
            norm.bias.uniform_(-1, 1)
    return norm.eval()


def pair(conv: Any = None, dims: int = 2, **options: Any) -> Any:
    conv = nn.Conv2d(3, 5, 3) if conv is None else conv
    return nn.Sequential(conv, lively(NORMS[dims](conv.out_channels, **options))).eval()


def image(channels=3, batch=2, dims=2):
    return torch.randn(batch, channels, *(6, 5, 4)[:dims])


class Net(nn.Module):
    """`f(conv, norm, net, x)` with a convolution of 3 to 5 channels."""

    def __init__(self, f, **members):
        super().__init__()
        torch.manual_seed(4)
        self.f, self.conv, self.norm = f, nn.Conv2d(3, 5, 3), lively(nn.BatchNorm2d(5))
        for name, value in members.items():
            setattr(self, name, value)

    def forward(self, x, *others):
        return self.f(self, x, *others)


def net(f, *others, x=None, **members):
    return lambda: (Net(f, **members), (image() if x is None else x, *others))


def functional(s, x, **changed):
    """The convolution and the batch norm with some of their tensors replaced."""
    given = {
        "w": s.conv.weight, "b": s.conv.bias, "mean": s.norm.running_mean, "var": s.norm.running_var,
        "gamma": s.norm.weight, "beta": s.norm.bias, **changed,
    }  # fmt: skip
    y = F.conv2d(x, given["w"], given["b"])
    return F.batch_norm(y, given["mean"], given["var"], given["gamma"], given["beta"], False, 0.1, 1e-5)


class Legit(nn.Module):
    """A convolution, and the batch norm operator itself with all its outputs."""

    def __init__(self, output: int) -> None:
        super().__init__()
        self.conv, self.norm, self.output = nn.Conv2d(3, 5, 3), lively(nn.BatchNorm2d(5)), output

    def forward(self, x):
        n = self.norm
        found = torch.ops.aten._native_batch_norm_legit_no_training(
            self.conv(x), n.weight, n.bias, n.running_mean, n.running_var, 0.1, 1e-5
        )
        return found[0] if self.output == 0 else (found[0], found[1])


class Training(nn.Module):
    """The same convolution and batch norm, normalised by the batch's own statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5, track_running_stats=False)

    def forward(self, x):
        return self.norm(self.conv(x))


good = net(lambda s, x: s.norm(s.conv(x)))
transposed = net(lambda s, x: s.norm(s.up(x)), up=nn.ConvTranspose2d(3, 5, 3))
CONDITION_CASES = [
    case(
        "not_training",
        passes=good,
        fails=lambda: (Training(), (image(),)),
        fault="batch_norm",
    ),
    case("convolution_before", passes=good, fails=net(lambda s, x: s.norm(s.conv(x).relu())), fault="relu"),
    case("not_transposed", passes=good, fails=transposed, fault="convolution", recipe=lambda r: Recipe("qnn")),
    case("one_user", passes=good, fails=net(lambda s, x: (lambda y: s.norm(y) + y * 2)(s.conv(x))), fault="mul"),
    case("first_output_only", passes=lambda: (Legit(0), (image(),)), fails=lambda: (Legit(1), (image(),)),
         fault="getitem_1"),
    case("constant_weight", passes=good, fails=net(lambda s, x, w: functional(s, x, w=w), torch.randn(5, 3, 3, 3)),
         fault="others_0"),
    case("constant_bias", passes=good, fails=net(lambda s, x, b: functional(s, x, b=b), torch.randn(5)),
         fault="others_0"),
    case("constant_statistics", passes=good, fails=net(lambda s, x, g: functional(s, x, gamma=g), torch.randn(5)),
         fault="others_0"),
]  # fmt: skip


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "xnnpack")


class Native(Legit):
    """The older operator, which is told whether it trains."""

    def __init__(self, training: bool) -> None:
        super().__init__(0)
        self.train_it = training

    def forward(self, x):
        n = self.norm
        assert n.running_mean is not None
        assert n.running_var is not None
        return torch.ops.aten.native_batch_norm(
            self.conv(x), n.weight, n.bias, n.running_mean.clone(), n.running_var.clone(), self.train_it, 0.1, 1e-5
        )[0]


@pytest.mark.parametrize("training", [False, True])
def test_the_operator_before_decomposition_and_the_older_one(training):
    program = program_of((Native(training), (image(),)))
    kept = Recipe("vulkan", keep=frozenset({"aten.native_batch_norm"}))
    lowering = lower(program, kept)
    (verdict,) = lowering.verdicts_of(PATTERN)
    assert (verdict.outcome is Outcome.APPLIED, verdict.failed) == (not training, "not_training" if training else None)
    assert_agrees(program, lowering)
    whole = lower(program_of((pair(), (image(),))), Recipe("vulkan", keep=frozenset({"aten.batch_norm"})))
    assert ops_of(whole) == ["aten.convolution"]


@pytest.mark.parametrize("name", ["mean", "var", "gamma", "beta"])
def test_each_statistic_must_be_a_constant(name):
    program = program_of(net(lambda s, x, t: functional(s, x, **{name: t}), torch.rand(5) + 0.5)())
    lowering = lower(program, "vulkan")
    (verdict,) = lowering.verdicts_of(PATTERN)
    assert (verdict.failed, verdict.fault) == ("constant_statistics", "others_0")


# ------------------------------------------------------------------ the numbers
PARAMETERS = st.tuples(
    st.integers(1, 3), st.booleans(), st.sampled_from([1, 2, 3]), st.integers(1, 2), st.integers(1, 3),
    st.booleans(), st.booleans(), st.integers(1, 2), st.integers(0, 1), st.integers(1, 2), st.integers(1, 3),
)  # fmt: skip


@settings(max_examples=5)
@given(st.lists(PARAMETERS, min_size=12, max_size=12))
def test_numbers(drawn):
    torch.manual_seed(0)
    modules, inputs = [], []
    for dims, transposed, groups, ins, outs, bias, affine, stride, padding, kernel, batch in drawn:
        conv = CONVS[dims, transposed](
            groups * ins,
            groups * outs,
            kernel,
            stride=stride,
            padding=min(padding, kernel - 1),
            groups=groups,
            bias=bias,
        )
        modules.append(pair(conv, dims, affine=affine))
        inputs.append(image(groups * ins, batch, dims))
    lowering = lowered_exactly(many(modules, inputs), "vulkan")
    assert applied(lowering, PATTERN) == len(drawn)
    assert not [name for name in ops_of(lowering) if "batch_norm" in name]


GRID = list(itertools.product([1, 2, 3], [1, 2], [1, 3], [1, 2], [1, 3]))


def test_48_transposed_convolutions_with_groups():
    modules, inputs = [], []
    for dims, groups, ins, outs, kernel in GRID:
        conv = CONVS[dims, True](groups * ins, groups * outs, kernel, groups=groups, bias=kernel == 1)
        modules.append(pair(conv, dims, affine=(ins + outs) % 3 != 0))
        inputs.append(image(groups * ins, 2, dims))
    assert len(modules) == 48
    lowering = lowered_exactly(many(modules, inputs), "vulkan")
    assert applied(lowering, PATTERN) == 48
    assert not [name for name in ops_of(lowering) if "batch_norm" in name]


def test_folding_a_square_transposed_weight_along_axis_0_would_be_silently_wrong():
    torch.manual_seed(1)
    module = pair(nn.ConvTranspose2d(8, 8, 3))
    x = image(8)
    program = program_of((module, (x,)))
    conv, norm = module
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    bias = (conv.bias - norm.running_mean) * scale + norm.bias
    wrong = F.conv_transpose2d(x, conv.weight * scale.reshape(-1, 1, 1, 1), bias)
    right = module(x)
    assert (wrong - right).abs().max() > 1
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 1
    assert torch.allclose(lowering.program.exported_program.module()(x), right, atol=1e-5)


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_qnn_declines_transposed_ones_and_every_other_target_folds_them(target):
    program = program_of((pair(nn.ConvTranspose2d(8, 8, 3)), (image(8),)))
    lowering = lower(program, target)
    (verdict,) = lowering.verdicts_of(PATTERN)
    if target == "qnn":
        assert (verdict.failed, verdict.fault) == ("not_transposed", "convolution")
        assert "no transposed convolution on qnn" in verdict.reason
        assert any("batch_norm" in name for name in ops_of(lowering))
    else:
        assert verdict.outcome is Outcome.APPLIED
        assert not any("batch_norm" in name for name in ops_of(lowering))
    assert_agrees(program, lowering)


def test_it_agrees_with_torchs_own_fold():
    module = pair(nn.Conv2d(4, 6, 3, groups=2))
    conv, norm = module
    weight, bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
    constants = lower(program_of((module, (image(4),))), "vulkan").program.constants
    assert torch.allclose(constants["p_0_weight_folded"], weight, atol=1e-6)
    assert torch.allclose(constants["p_0_bias_folded"], bias, atol=1e-6)


def test_the_fold_is_computed_in_float64_and_rounded_once():
    module = pair(nn.Conv2d(4, 6, 3)).half()
    conv, norm = module
    scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
    weight = (conv.weight.double() * scale.reshape(-1, 1, 1, 1)).half()
    constants = lower(program_of((module, (image(4).half(),))), "vulkan").program.constants
    assert torch.equal(constants["p_0_weight_folded"], weight)


# ------------------------------------------------------------------ constants
def test_a_convolution_without_a_bias_gets_one_of_its_weights_kind():
    program = program_of((pair(nn.Conv2d(3, 5, 3, bias=False)), (image(),)))
    lowering = lower(program, "vulkan")
    signature = lowering.program.exported_program.graph_signature
    assert set(signature.parameters) == {"0.weight_folded", "0.weight_folded_bias"}
    assert set(signature.buffers) == {"1.num_batches_tracked"}  # which nobody has read before, either
    (call,) = calls_of(lowering, "aten.convolution")
    assert call["bias"].name == "p_0_weight_folded_bias"
    assert_agrees(program, lowering)


def test_stride_padding_dilation_groups_and_output_padding_are_carried_over():
    up = nn.ConvTranspose2d(4, 4, 3, (2, 3), (1, 0), (1, 2), groups=2, dilation=(1, 2))
    lowering = lower(program_of((pair(up), (image(4),))), "vulkan")
    (call,) = calls_of(lowering, "aten.convolution")
    assert (call["stride"], call["padding"], call["output_padding"]) == ([2, 3], [1, 0], [1, 2])
    assert (call["dilation"], call["groups"], call["transposed"]) == ([1, 2], 2, True)


def test_the_tags_of_the_weight_are_kept():
    program = program_of((pair(), (image(),)))
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name.startswith("p_0"):
            node.meta["delegate_constant_tag"] = node.name
    made = {n.name: n.meta.get("delegate_constant_tag") for n in lower(program, "vulkan").program.graph.nodes}
    assert (made["p_0_weight_folded"], made["p_0_bias_folded"]) == ("p_0_weight", "p_0_bias")


def test_a_convolution_called_twice_of_which_one_is_normalised_keeps_its_weight_for_the_other():
    program = program_of(net(lambda s, x: (s.norm(s.conv(x)), s.conv(x.relu())))())
    lowering = lower(program, "vulkan")
    assert applied(lowering, PATTERN) == 1
    assert {"conv.weight", "conv.weight_folded"} <= set(lowering.program.exported_program.graph_signature.parameters)
    assert_agrees(program, lowering)


def test_a_shared_weight_folded_with_two_batch_norms_gives_two_and_with_one_gives_one():
    two = net(lambda s, x: (s.norm(s.conv(x)), s.other(s.conv(x + 1))), other=lively(nn.BatchNorm2d(5)))
    lowering = lower(program_of(two()), "vulkan")
    assert applied(lowering, PATTERN) == 2
    assert len({c["weight"].name for c in calls_of(lowering, "aten.convolution")}) == 2
    assert_agrees(program_of(two()), lowering)
    one = net(lambda s, x: (s.norm(s.conv(x)), s.norm(s.conv(x + 1))))
    lowering = lower(program_of(one()), "vulkan")
    assert applied(lowering, PATTERN) == 2
    assert len({c["weight"].name for c in calls_of(lowering, "aten.convolution")}) == 1
    assert "conv.weight" not in lowering.program.exported_program.graph_signature.parameters
    assert_agrees(program_of(one()), lowering)


def test_a_bias_with_another_reader_stays_for_it():
    make = net(lambda s, x: s.norm(s.conv(x)) - s.conv.bias.reshape(-1, 1, 1))
    lowering = lower(program_of(make()), Recipe("vulkan").disable("fold_constants"))
    assert {"conv.bias", "conv.bias_folded"} <= set(lowering.program.exported_program.graph_signature.parameters)
    assert_agrees(program_of(make()), lowering)


def test_a_sub_graph_is_folded_too():
    def region(s, x):
        with torch.no_grad():
            y = s.norm(s.conv(x))
        return y * 2

    program = program_of(net(region)())
    lowering = lower(program, "vulkan")
    assert applied(lowering, PATTERN) == 1
    assert_agrees(program, lowering)


# ------------------------------------------------------------------ what is left as it is
def test_a_folded_weight_that_overflows_float16_is_declined():
    module = pair().half()
    with torch.no_grad():
        module[1].running_var.fill_(1e-7)
        module[1].weight.fill_(6e4)
    program = program_of((module, (image().half(),)))
    lowering = lower(program, "vulkan")
    (verdict,) = lowering.verdicts_of(PATTERN)
    assert (verdict.outcome, verdict.reason) == (Outcome.DECLINED, "the folded weight overflows float16")
    assert not lowering.steps or applied(lowering, PATTERN) == 0
    assert any("batch_norm" in name for name in ops_of(lowering))


def test_a_model_in_train_mode_names_the_way_out():
    module = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)).train()
    lowering = lower(capture(module, (image(),)), "vulkan")
    (verdict,) = lowering.verdicts_of(PATTERN)
    assert (verdict.failed, verdict.outcome) == ("not_training", Outcome.NEAR_MISS)
    assert "eval mode" in verdict.reason


def test_a_statically_quantized_graph_is_left_as_it_is():
    quantized = torch.ops.quantized_decomposed

    class Static(Net):
        def __init__(self):
            super().__init__(None)
            self.register_buffer("stored", torch.randint(-9, 9, (5, 3, 3, 3), dtype=torch.int8))

        def forward(self, x):
            weight = quantized.dequantize_per_tensor(self.stored, 0.1, 0, -128, 127, torch.int8)
            return functional(self, x, w=weight)

    program = program_of((Static(), (image(),)))
    for target in TARGETS:
        lowering = lower(program, target)
        (verdict,) = lowering.verdicts_of(PATTERN)
        assert (verdict.failed, verdict.fault) == ("constant_weight", "dequantize_per_tensor")
        assert any("batch_norm" in name for name in ops_of(lowering))


# ------------------------------------------------------------------ float16, order, and where one looks
def test_in_float16_the_fold_cuts_the_error_of_scales_of_about_100():
    program = load(SAMPLES / "conv_bn.pt2")
    folded = lower(program, "qnn")
    assert applied(folded, PATTERN) == 9
    unfolded = lower(program, Recipe("qnn").disable(PATTERN))
    after, before = (parity(program, it.program, dtype=torch.float16).rows[0] for it in (folded, unfolded))
    assert before.error_after > 20 * after.error_after  # sums of squares against float32
    assert after.verdict in ("equal", "close")


def test_no_batch_norm_is_left_on_the_unpartitioned_graph_and_without_the_fold_they_are():
    program = load(SAMPLES / "conv_bn.pt2")
    with_fold = [display_name(n.target) for n in lower(program, "qnn").program.graph.nodes if n.op == "call_function"]
    without = lower(program, Recipe("qnn").disable(PATTERN))
    assert not [name for name in with_fold if "batch_norm" in name]
    assert len([name for name in ops_of(without) if "batch_norm" in name]) == 9


def test_a_skip_of_one_module_leaves_its_batch_norm():
    program = load(SAMPLES / "conv_bn.pt2")
    lowering = lower(program, Recipe("qnn").skip(Skip(module="blocks.1")))
    assert applied(lowering, PATTERN) == 7
    assert len([name for name in ops_of(lowering) if "batch_norm" in name]) == 2


def test_its_place_is_declared():
    for target in TARGETS:
        names = [p.name for p in pipeline(target)]
        assert names.index("fold_constants") < names.index(PATTERN)
        for later in ("conv1d_as_conv2d", "conv2d_with_epilogue", "polyphase_conv_transpose", "im2col_conv_activation"):
            assert later not in names or names.index(PATTERN) < names.index(later)
    assert "core_aten" in REGISTRY.get(PATTERN).after
    assert PATTERN in REGISTRY.get("conv1d_as_conv2d").after or "conv1d_as_conv2d" in REGISTRY.get(PATTERN).before


@pytest.mark.parametrize("constraint", [{"after": ["fold_batch_norms"]}, {"before": [PATTERN], "after": [PATTERN]}])
def test_a_cycle_or_an_unknown_name_among_a_users_constraints_is_told_and_leaves_the_fold_where_it_is(constraint):
    order = [p.name for p in pipeline("qnn")]

    @pattern("qnn", **constraint)
    class Contradicting(Pattern):
        """x = x"""

        name, kind, anchors, conditions = "contradicting", Kind.FOLD, (), ()

        def match(self, anchor, check):
            return None

    try:
        assert "contradicting" in faults("qnn")["contradicting"]
        assert [p.name for p in pipeline("qnn") if p.name != "contradicting"] == order
    finally:
        REGISTRY.remove(Contradicting.name)
    assert faults("qnn") == {}
