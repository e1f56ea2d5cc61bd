"""im2col_conv_activation: the five gates, the six epilogues and their slots, who takes over, and one predicate for both."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.arguments import ConvSpec
from lowerscope.check import Status
from lowerscope.loading import load
from lowerscope.lowering import Lowerer, lower
from lowerscope.measure.parity import parity
from lowerscope.ops import ort_webgpu
from lowerscope.ort_kernels import im2col_gates, kernel_counts, kernel_for, uses_im2col
from lowerscope.recipe import Recipe, Skip
from lowerscope.target import pipeline
from lowerscope.verdict import Outcome
from lowerscope.why import why_not
from tests.engine.patterns.condition_cases import case, lowered, program_of, run_case
from tests.engine.patterns.vulkan_nets import calls_of, net, ops_of, verdict_of

PATTERN = "im2col_conv_activation"
FUSED = "ort_webgpu.im2col_conv_activation"
INTEL = {"vendor": "intel", "architecture": "xe-2lpg", "channels_last": True}
SAMPLES = Path(__file__).parents[3] / "sample_models"
GATES = ("adapter", "float16", "channels_last", "groups_1", "larger_than_1x1")


def half(then=lambda y, s: y, *others, conv=lambda: nn.Conv2d(4, 4, 3, padding=1), **more):
    return net(then, *others, conv=conv, dtype=torch.float16, **more)


def fused(make, recipe=lambda r: r):
    """Lower the sample, see that its one convolution was taken and that the numbers hold; the call's arguments."""
    program = program_of(make())
    lowering = lower(program, recipe(Recipe("ort-webgpu")))
    assert [s.pattern for s in lowering.steps].count(PATTERN) == 1
    lowering.program.exported_program.validate()
    assert parity(program, lowering.program).agrees
    (found,) = calls_of(lowering, FUSED)
    assert "aten.convolution" not in ops_of(lowering)
    return found


CONDITION_CASES = [
    case("direct", passes=half(), fails=half(conv=lambda: nn.ConvTranspose2d(4, 4, 3)), fault="convolution"),
    case(
        "one_or_two_dimensional",
        passes=half(conv=lambda: nn.Conv1d(4, 4, 3), x=torch.randn(1, 4, 9)),
        fails=half(conv=lambda: nn.Conv3d(4, 4, 3), x=torch.randn(1, 4, 5, 5, 5)),
        fault="convolution",
    ),
    case("adapter", passes=half(), fails=half(), fault="convolution"),
    case("float16", passes=half(), fails=net(lambda y, s: y), fault="convolution"),
    case("channels_last", passes=half(), fails=half(), fault="convolution"),
    case("groups_1", passes=half(), fails=half(conv=lambda: nn.Conv2d(4, 4, 3, groups=2)), fault="convolution"),
    case("larger_than_1x1", passes=half(), fails=half(conv=lambda: nn.Conv2d(4, 4, 1)), fault="convolution"),
    case("activation_kind", passes=half(lambda y, s: y.relu()), fails=half(lambda y, s: F.gelu(y)), fault="gelu"),
    case(
        "activation_one_user",
        passes=half(lambda y, s: y.sigmoid()),
        fails=half(lambda y, s: y * y.sigmoid()),
        fault="mul",
    ),
    case(
        "activation_literal",
        passes=half(lambda y, s: y.clamp(0, 1)),
        fails=half(lambda y, s: torch.clamp(y, s.low), low=torch.tensor(0.25)),
        fault="b_low",
    ),
]
#: Conditions on the device: the same program fails when the profile changes.
OF_THE_DEVICE = {"adapter": {"vendor": "nvidia"}, "channels_last": {"channels_last": False}}


@pytest.mark.parametrize("case", [c for c in CONDITION_CASES if c.condition not in OF_THE_DEVICE], ids=str)
def test_condition(case):
    run_case(case, PATTERN, "ort-webgpu")


@pytest.mark.parametrize("case", [c for c in CONDITION_CASES if c.condition in OF_THE_DEVICE], ids=str)
def test_condition_of_the_device(case):
    good = lowered(case.passes, "ort-webgpu")
    record = verdict_of(good, PATTERN).record
    assert [e.status for e in record.entries if e.name == case.condition] == [Status.PASSED]
    bad = verdict_of(
        lowered(case.fails, "ort-webgpu", lambda r: r.with_profile(**OF_THE_DEVICE[case.condition])), PATTERN
    )
    assert (bad.failed, bad.fault, bad.outcome) == (case.condition, case.fault, Outcome.NEAR_MISS)


@pytest.mark.parametrize(
    ("vendor", "architecture", "qualifies"),
    [
        ("intel", "xe-2lpg", True),
        ("intel", "xe-2hpg", True),
        ("intel", "xe-3lpg", True),
        ("intel", "xe-3lpg-xs", True),
        ("intel", "xe-lpg", False),
        ("nvidia", "volta", False),
        ("nvidia", "xe-2lpg", False),
    ],
)
def test_the_adapters_that_qualify(vendor, architecture, qualifies):
    lowering = lowered(half(), "ort-webgpu", lambda r: r.with_profile(vendor=vendor, architecture=architecture))
    verdict = verdict_of(lowering, PATTERN)
    assert (verdict.outcome is Outcome.APPLIED) == qualifies
    assert verdict.failed == (None if qualifies else "adapter")
    assert qualifies or f"{vendor} {architecture}" in verdict.reason


@pytest.mark.parametrize(
    ("conv", "kernel", "gate"),
    [
        (lambda: nn.Conv2d(4, 4, 3, groups=4), "grouped_conv", "groups_1"),
        (lambda: nn.Conv2d(4, 4, 1, groups=2), "grouped_conv", "groups_1"),
        (lambda: nn.Conv2d(4, 4, 1), "matmul", "larger_than_1x1"),
        (lambda: nn.Conv2d(4, 4, 1, padding=1), "conv2d_mm", "larger_than_1x1"),
        (lambda: nn.Conv2d(4, 4, 1, stride=2), "conv2d_mm", "larger_than_1x1"),
        (lambda: nn.Conv2d(4, 4, 1, stride=(1, 2)), "conv2d_mm", "larger_than_1x1"),
    ],
)
def test_the_kernel_that_takes_over_is_named(conv, kernel, gate):
    lowering = lowered(half(lambda y, s: y.relu(), conv=conv), "ort-webgpu")
    explanation = why_not(lowering, PATTERN, "convolution")
    assert explanation.failed is not None
    assert explanation.failed.name == gate
    assert f"{kernel} takes over" in explanation.reason
    assert "aten.convolution" in ops_of(lowering)
    assert "aten.relu" in ops_of(lowering)
    assert kernel_counts(lowering) == {kernel: 1}


def test_without_im2col_a_3x3_goes_to_the_generic_kernel():
    for change in OF_THE_DEVICE.values():
        lowering = lowered(half(), "ort-webgpu", lambda r, change=change: r.with_profile(**change))
        assert "conv2d_mm takes over" in verdict_of(lowering, PATTERN).reason
        assert kernel_counts(lowering) == {"conv2d_mm": 1}


@pytest.mark.parametrize(
    ("then", "kind", "params"),
    [
        (lambda y, s: y.relu(), "Relu", []),
        (lambda y, s: F.relu(y, inplace=True), "Relu", []),
        (lambda y, s: y.sigmoid(), "Sigmoid", []),
        (lambda y, s: y.tanh(), "Tanh", []),
        (lambda y, s: F.leaky_relu(y), "LeakyRelu", [0.01]),
        (lambda y, s: F.leaky_relu(y, 0.25), "LeakyRelu", [0.25]),
        (lambda y, s: F.hardsigmoid(y), "HardSigmoid", [1 / 6, 0.5]),
        (lambda y, s: F.hardsigmoid(y, inplace=True), "HardSigmoid", [1 / 6, 0.5]),
        (lambda y, s: y.clamp(-0.25, 0.5), "Clip", [-0.25, 0.5]),
        (lambda y, s: y.clamp(min=0.25), "Clip", [0.25, math.inf]),
        (lambda y, s: y.clamp(max=0.25), "Clip", [-math.inf, 0.25]),
        (lambda y, s: F.relu6(y), "Clip", [0.0, 6.0]),
        (lambda y, s: F.hardtanh(y, -2, 3), "Clip", [-2.0, 3.0]),
        (lambda y, s: y, "none", []),
        (lambda y, s: y + 1, "none", []),
    ],
)
def test_each_activation_has_its_slots(then, kind, params):
    call = fused(half(then))
    assert (call["activation"], call["params"]) == (kind, params)


@pytest.mark.parametrize(("kind", "slots"), [(k, s) for k, s in ort_webgpu.PARAMETER_SLOTS.items() if len(s) == 2])
def test_slots_mixed_up_are_seen_by_each_kinds_own_parity_case(kind, slots):
    then = {"HardSigmoid": lambda y, s: F.hardsigmoid(y), "Clip": lambda y, s: y.clamp(-0.25, 0.5)}[kind]
    make = half(then)
    call = fused(make)
    module, args = make()[:2]
    with torch.no_grad():
        conv, right = module.conv(*args), module(*args)
        swapped = ort_webgpu.activate(conv, kind, call["params"][::-1])
    assert len(slots) == len(call["params"]) == 2
    assert torch.allclose(ort_webgpu.activate(conv, kind, call["params"]), right, atol=2e-3)
    assert (swapped - right).abs().max() > 0.1


@pytest.mark.parametrize(
    ("then", "op"),
    [
        (lambda y, s: F.gelu(y), "aten.gelu"),
        (lambda y, s: F.elu(y), "aten.elu"),
        (lambda y, s: y.softmax(1), "_softmax"),
    ],
)
def test_any_other_activation_is_refused_and_stays_an_operator(then, op):
    program = program_of(half(then)())
    lowering = lower(program, Recipe("ort-webgpu", keep=frozenset({"aten.elu"})))
    verdict = verdict_of(lowering, PATTERN)
    failure = verdict.record.failure()
    assert failure is not None
    assert failure.name == "activation_kind"
    assert op in str(failure.actual)
    (call,) = calls_of(lowering, FUSED)
    assert (call["activation"], call["params"]) == ("none", [])
    assert any(op in name for name in ops_of(lowering))
    assert parity(program, lowering.program).agrees


def test_a_clamp_by_tensors_stays_an_operator():
    program = program_of(half(lambda y, lo, s: torch.clamp(y, lo), torch.tensor(0.25))())
    lowering = lower(program, "ort-webgpu")
    assert ops_of(lowering) == [FUSED, "aten.clamp.Tensor"]
    assert calls_of(lowering, FUSED)[0]["activation"] == "none"
    assert parity(program, lowering.program).agrees


def test_hardsigmoid_is_kept_whole_by_this_target_alone():
    program = program_of(half(lambda y, s: F.hardsigmoid(y + 1))())
    assert "aten.hardsigmoid" in ops_of(lower(program, "ort-webgpu"))
    assert "aten.hardsigmoid" not in ops_of(lower(program, "vulkan"))
    decomposed = why_not(lower(program, "ort-webgpu"), "core_aten", "hardsigmoid")
    assert decomposed.failed is not None
    assert decomposed.failed.name == "not_kept"


def test_a_skipped_activation_leaves_the_convolution_taken():
    call = fused(half(lambda y, s: y.relu()), lambda r: r.skip(Skip(node="relu")))
    assert call["activation"] == "none"


def test_the_weight_is_packed_exactly_where_im2col_is_chosen():
    program = program_of(half(lambda y, s: y.relu())())
    for recipe in (Recipe("ort-webgpu"), Recipe("ort-webgpu").with_profile(vendor="nvidia")):
        lowering = lower(program, recipe)
        parameters = set(lowering.program.exported_program.graph_signature.parameters)
        assert ("conv.weight_ohwi" in parameters) == (FUSED in ops_of(lowering))
        assert ("conv.weight" in parameters) == (FUSED not in ops_of(lowering))


def test_the_packed_weight_keeps_shape_and_kind_and_survives_a_save(tmp_path):
    conv = nn.Conv2d(3, 5, (3, 2)).half()
    program = program_of(half(conv=lambda: conv, x=torch.randn(1, 3, 6, 5))())
    saved = load(lower(program, "ort-webgpu").program.save(tmp_path / "packed.pt2"))
    weight = saved.constants["p_conv_weight_ohwi"]
    assert saved.constant_kind("p_conv_weight_ohwi") == "parameter"
    assert torch.equal(weight, conv.weight)
    assert weight.permute(0, 2, 3, 1).is_contiguous()


@pytest.mark.parametrize("nhwc", ["", "input", "weight", "both"])
@pytest.mark.parametrize("batch", ["static", "dynamic"])
def test_the_result_lies_in_memory_as_the_convolutions_did(nhwc, batch):
    """A packed weight lies as NHWC, which eager torch would hand on to the result, and a view behind it would fail."""
    x, conv = torch.randn(2, 4, 6, 5), nn.Conv2d(4, 4, 3, padding=1)
    if nhwc in ("input", "both"):
        x = x.contiguous(memory_format=torch.channels_last)
    if nhwc in ("weight", "both"):
        conv.weight.data = conv.weight.data.contiguous(memory_format=torch.channels_last)
    flat = (lambda y: y.permute(0, 2, 3, 1).flatten(1, 2)) if nhwc else (lambda y: y.flatten(1))
    shapes = {} if batch == "static" else {"shapes": {"x": {0: Dim("n", min=2, max=9)}}}
    program = program_of(half(lambda y, s: flat(y.relu()), conv=lambda: conv, x=x, **shapes)())
    lowering = lower(program, "ort-webgpu")
    lowering.program.exported_program.validate()
    (call,) = calls_of(lowering, FUSED)
    assert call["channels_last"] is bool(nhwc)
    assert ops_of(lowering)[-1] == "aten.view"
    report = parity(program, lowering.program)
    assert report.agrees, str(report)


def test_a_weight_that_the_program_computes_is_not_packed():
    class Computed(nn.Module):
        def forward(self, x, w):
            return F.relu(F.conv2d(x, w * 2))

    make = lambda: (Computed(), (torch.randn(1, 4, 6, 5).half(), torch.randn(4, 4, 3, 3).half()))  # noqa: E731
    assert fused(make)["weight"].name == "mul"


def test_shared_weights_are_packed_once_and_other_readers_keep_the_old():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x):
            return self.conv(self.conv(x).relu()), self.conv.weight

    program = program_of((Shared().half(), (torch.randn(1, 4, 5, 5).half(),)))
    lowering = lower(program, "ort-webgpu")
    first, second = calls_of(lowering, FUSED)
    assert first["weight"] is second["weight"]
    assert {"conv.weight", "conv.weight_ohwi"} < set(lowering.program.exported_program.graph_signature.parameters)
    assert parity(program, lowering.program).agrees


def test_a_sub_graph_is_taken_too():
    class Region(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3)

        def forward(self, x):
            with torch.no_grad():
                y = self.conv(x).relu()
            return y * 2

    program = program_of((Region().half(), (torch.randn(1, 4, 5, 5).half(),)))
    lowering = lower(program, "ort-webgpu")
    assert calls_of(lowering, FUSED)[0]["activation"] == "Relu"
    assert parity(program, lowering.program).agrees


GRID = st.fixed_dictionaries(
    {
        "groups": st.sampled_from([1, 2]),
        "kernel": st.sampled_from([(1, 1), (1, 3), (3, 1), (2, 2)]),
        "stride": st.sampled_from([1, 2]),
        "padding": st.sampled_from([0, 1]),
        "dtype": st.sampled_from([torch.float16, torch.float32]),
        "vendor": st.sampled_from(["intel", "nvidia"]),
        "channels_last": st.booleans(),
    }
)


@settings(max_examples=40)
@given(GRID)
def test_compute_and_packing_agree_and_every_convolution_has_one_kernel(drawn):
    conv = nn.Conv2d(4, 4, drawn["kernel"], drawn["stride"], drawn["padding"], groups=drawn["groups"])
    program = program_of(net(lambda y, s: y.relu(), conv=lambda: conv, dtype=drawn["dtype"])())
    profile = {**INTEL, "vendor": drawn["vendor"], "channels_last": drawn["channels_last"]}
    lowering = lower(program, Recipe("ort-webgpu").with_profile(**profile))
    lowerer = Lowerer(program)
    lowerer.lower(Recipe("ort-webgpu").disable(PATTERN))
    spec = ConvSpec.of(lowerer.editor.nodes["convolution"])
    chosen = uses_im2col(spec, profile)
    wanted = (
        drawn["vendor"] == "intel", drawn["dtype"] is torch.float16, drawn["channels_last"], drawn["groups"] == 1,
        drawn["kernel"] != (1, 1),
    )  # fmt: skip
    assert tuple(g.holds for g in im2col_gates(spec, profile)) == wanted
    assert tuple(g.name for g in im2col_gates(spec, profile)) == GATES
    assert chosen == all(wanted) == (FUSED in ops_of(lowering))
    assert chosen == ("p_conv_weight_ohwi" in lowering.program.constants)
    assert kernel_counts(lowering) == {kernel_for(spec, profile): 1}
    missed = verdict_of(lowering, PATTERN).failed
    assert missed == next((name for name, holds in zip(GATES, wanted, strict=True) if not holds), None)


@settings(max_examples=20)
@given(
    kernel=st.sampled_from([(3,), (2, 3), (5, 1)]),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
    dilation=st.integers(1, 2),
    channels=st.sampled_from([(1, 1), (3, 2), (4, 5)]),
    bias=st.booleans(),
    batch=st.integers(1, 2),
    kind=st.sampled_from(list(ort_webgpu.PARAMETER_SLOTS)),
)
def test_numbers(kernel, stride, padding, dilation, channels, bias, batch, kind):
    then = {
        "none": lambda y, s: y, "Relu": lambda y, s: y.relu(), "Sigmoid": lambda y, s: y.sigmoid(),
        "Tanh": lambda y, s: y.tanh(), "LeakyRelu": lambda y, s: F.leaky_relu(y, 0.3),
        "HardSigmoid": lambda y, s: F.hardsigmoid(y), "Clip": lambda y, s: y.clamp(-0.3, 0.7),
    }[kind]  # fmt: skip
    build: Any = nn.Conv1d if len(kernel) == 1 else nn.Conv2d
    conv = build(*channels, kernel, stride, padding, dilation, bias=bias)
    x = torch.randn(batch, channels[0], *(9, 7)[: len(kernel)])
    assert fused(half(then, conv=lambda: conv, x=x))["activation"] == kind


def test_on_resnet_50s_shape_17_of_20_convolutions_of_the_generic_kernel_qualify():
    program = load(SAMPLES / "resnet50_like.pt2")
    intel = lower(program, "ort-webgpu")
    counts = kernel_counts(intel)
    assert (counts["im2col"], counts["conv2d_mm"], counts["matmul"]) == (17, 3, 33)
    without = lower(program, Recipe("ort-webgpu").disable(PATTERN))
    assert [s.pattern for s in without.steps].count(PATTERN) == 0
    nvidia = lower(program, Recipe("ort-webgpu").with_profile(vendor="nvidia", architecture="volta"))
    generic = kernel_counts(nvidia)
    assert generic == {"conv2d_mm": 20, "matmul": 33}
    assert (4 * counts["im2col"], 4 * generic["conv2d_mm"]) == (68, 80)
    verdicts = list(nvidia.verdicts_of(PATTERN))
    assert len(verdicts) == 53
    assert {v.failed for v in verdicts} == {"adapter"}
    assert sum(call["activation"] == "Relu" for call in calls_of(intel, FUSED)) == 17
    assert parity(program, intel.program).agrees


def test_on_the_depthwise_network_none_qualifies_whatever_the_device():
    program = load(SAMPLES / "depthwise_net.pt2")
    lowering = lower(program, "ort-webgpu")
    counts = kernel_counts(lowering)
    assert counts["im2col"] == 0
    assert set(counts) == {"grouped_conv", "matmul"}
    assert {v.failed for v in lowering.verdicts_of(PATTERN)} == {"groups_1", "larger_than_1x1"}
    assert "aten.hardsigmoid" in ops_of(lowering)


def test_its_place():
    names = [p.name for p in pipeline("ort-webgpu")]
    assert names == ["core_aten", "fold_constants", "fold_batch_norm", PATTERN]
    for other in ("vulkan", "webgpu", "xnnpack", "qnn", "ethos-u"):
        assert PATTERN not in [p.name for p in pipeline(other)]
