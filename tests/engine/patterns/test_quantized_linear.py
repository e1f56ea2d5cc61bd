"""quantized_linear: the three kernels and nothing else, with the reason for everything that is left out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import lowerscope
from lowerscope.lowering import lower
from lowerscope.recipe import Recipe
from lowerscope.target import pipeline
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import case, lowered, program_of, run_case
from tests.engine.patterns.quantized_nets import INT8, QuantizedLinear, linear, q
from tests.engine.patterns.vulkan_nets import assert_agrees, calls_of, ops_of

PATTERN = "quantized_linear"
TARGETS = ["vulkan", "webgpu"]
FOUR: dict[str, Any] = {"bits": 4, "group": 16}


def floating():
    return nn.Linear(8, 8), (torch.randn(2, 8),)


def computed_scales():
    class Computed(QuantizedLinear):
        def forward(self, x, scales):
            weight = q.dequantize_per_channel(self.codes, scales, self.zero_points, 0, -128, 127, INT8)
            return nn.functional.linear(self.input(x), weight, self.bias)

    return Computed(), (torch.randn(4, 32), torch.rand(8))


def computed_bias():
    class Computed(QuantizedLinear):
        def forward(self, x, bias):
            return nn.functional.linear(self.input(x), self.weight(), bias)

    return Computed(bias=False), (torch.randn(4, 32), torch.randn(8))


def bfloat16():
    class Half(QuantizedLinear):
        def weight(self):
            return q.dequantize_per_channel_group(
                self.codes, self.scales, self.zero_points, -8, 7, INT8, 16, torch.bfloat16
            )

        def forward(self, x):
            return nn.functional.linear(x, self.weight())

    return Half(**FOUR, bias=False), (torch.randn(4, 32, dtype=torch.bfloat16),)


def one_scale():
    """Dynamic parameters, but one scale for the whole tensor."""

    class Whole(QuantizedLinear):
        def input(self, x):
            scale, zero_point = q.choose_qparams.tensor(x, -128, 127, 1e-5, INT8)
            codes = q.quantize_per_tensor.tensor(x, scale, zero_point, -128, 127, INT8)
            return q.dequantize_per_tensor.tensor(codes, scale, zero_point, -128, 127, INT8)

    return Whole(**FOUR), (torch.randn(4, 32),)


def other_parameters():
    class Other(QuantizedLinear):
        def input(self, x):
            scale, zero_point = q.choose_qparams_per_token_asymmetric(x, INT8)
            codes = q.quantize_per_token(x, scale, zero_point, -128, 127, INT8)
            return q.dequantize_per_token(codes, scale * 2, zero_point, -128, 127, INT8, torch.float32)

    return Other(**FOUR), (torch.randn(4, 32),)


CONDITION_CASES = [
    case("dequantized_weight", passes=linear(), fails=floating, fault="p_weight_folded"),
    case("constant_weight", passes=linear(), fails=computed_scales, fault="scales"),
    case("weight_symmetric", passes=linear(), fails=linear(zero_point=2), fault="dequantize_per_channel"),
    case("weight_rows", passes=linear(), fails=linear(rows=False), fault="addmm"),
    case("plain_sum", passes=linear(), fails=linear(scaled=2.0), fault="addmm"),
    case("constant_bias", passes=linear(), fails=computed_bias, fault="bias"),
    case("dtype", passes=linear(), fails=bfloat16, fault="mm"),
    case("kernel", passes=linear(), fails=linear(activation="float"), fault="addmm"),
    case(
        "activation_range",
        passes=linear(),
        fails=linear(quantize=(0.05, 3, -127, 127)),
        fault="quantize_per_tensor",
    ),
    case(
        "static_same_parameters",
        passes=linear(),
        fails=linear(dequantize=(0.06, 3, -128, 127)),
        fault="dequantize_per_tensor",
    ),
    case(
        "inputs_even",
        passes=linear(**FOUR, activation="float"),
        fails=linear(k=33, bits=4, group=11, activation="float"),
        fault="addmm",
    ),
    case(
        "activation_per_row",
        passes=linear(**FOUR, activation="dynamic"),
        fails=one_scale,
        fault="quantize_per_tensor",
    ),
    case(
        "same_parameters",
        passes=linear(**FOUR, activation="dynamic"),
        fails=other_parameters,
        fault="dequantize_per_token",
    ),
    case(
        "outputs_multiple_of_4",
        passes=linear(**FOUR, activation="float"),
        fails=linear(n=6, **FOUR, activation="float"),
        fault="addmm",
    ),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_condition(case, target):
    run_case(case, PATTERN, target)


def test_its_place():
    for target in TARGETS:
        names = [p.name for p in pipeline(target)]
        assert names.index("fold_batch_norm") < names.index(PATTERN) < names.index("conv2d_with_epilogue")


@pytest.mark.parametrize(
    ("make", "op"),
    [
        (linear(), "et_vk.linear_q8ta_q8csw"),
        (linear(**FOUR, activation="float"), "et_vk.linear_q4gsw"),
        (linear(**FOUR, activation="dynamic"), "et_vk.linear_dq8ca_q4gsw"),
        (linear(n=1, **FOUR, activation="dynamic"), "et_vk.linear_dq8ca_q4gsw"),
        (linear(n=1), "et_vk.linear_q8ta_q8csw"),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_the_three_kernels(make, op, target):
    program = program_of(make())
    lowering = lower(program, target)
    (verdict,) = lowering.verdicts_of(PATTERN)
    assert verdict.outcome is Outcome.APPLIED
    left = [name for name in ops_of(lowering) if "choose_qparams" not in name and name != "getitem"]
    assert left == [op]
    assert_agrees(program, lowering)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (linear(activation="float"), "8-bit weights per output channel, floating activations"),
        (linear(activation="dynamic"), "8-bit weights per output channel, dynamically quantized 8-bit activations"),
        (linear(bits=4, group=16), "4-bit weights in groups, statically quantized 8-bit activations"),
        (linear(activation="outside"), "8-bit weights per output channel, activations quantized outside the graph"),
        (linear(bits=3, activation="float"), "3-bit weights per output channel, floating activations"),
    ],
)
def test_what_has_no_kernel_says_which_there_are_and_what_is_missing(make, words):
    lowering = lowered(make, "vulkan")
    (verdict,) = lowering.verdicts_of(PATTERN)
    assert (verdict.outcome, verdict.failed) == (Outcome.NEAR_MISS, "kernel")
    failure = verdict.record.failure()
    assert failure is not None
    assert failure.actual == words
    for kernel in failure.expected:
        assert kernel in verdict.reason
    assert "stays outside the delegate" in verdict.reason
    assert "Missing out variants: quantized_decomposed::dequantize" in verdict.reason


@given(
    n=st.integers(1, 9), groups=st.integers(1, 3), rank=st.integers(2, 4), bias=st.booleans(), dynamic=st.booleans(),
)  # fmt: skip
@settings(max_examples=20)
def test_four_bits_for_every_number_of_outputs_and_rank(n, groups, rank, bias, dynamic):
    k = 8 * groups
    make = linear(
        *([2] * (rank - 1)), k, n=n, k=k, bits=4, group=8, bias=bias, activation="dynamic" if dynamic else "float"
    )
    program = program_of(make())
    lowering = lower(program, "vulkan")
    (verdict,) = lowering.verdicts_of(PATTERN)
    if dynamic or n % 4 == 0:
        assert verdict.outcome is Outcome.APPLIED
    else:
        assert verdict.failed == "outputs_multiple_of_4"
    assert_agrees(program, lowering)


@given(n=st.integers(1, 9), rank=st.integers(2, 4), zero_point=st.integers(-128, 127), bias=st.booleans())
@settings(max_examples=15)
def test_eight_bits_for_every_number_of_outputs_and_rank(n, rank, zero_point, bias):
    make = linear(*([2] * (rank - 1)), 16, n=n, k=16, quantize=(0.03, zero_point, -128, 127), bias=bias)
    program = program_of(make())
    lowering = lower(program, "vulkan")
    assert [v.outcome for v in lowering.verdicts_of(PATTERN)] == [Outcome.APPLIED]
    assert_agrees(program, lowering)


def test_the_quantize_node_is_in_the_match_and_its_other_reader_keeps_it():
    class Shared(QuantizedLinear):
        def forward(self, x):
            y = self.input(x)
            return nn.functional.linear(y, self.weight(), self.bias), y

    program = program_of((Shared(), (torch.randn(4, 32),)))
    lowering = lower(program, "vulkan")
    (verdict,) = lowering.verdicts_of(PATTERN)
    assert {"quantize_per_tensor", "dequantize_per_tensor", "dequantize_per_channel"} <= set(verdict.nodes)
    assert "quantized_decomposed.quantize_per_tensor" in ops_of(lowering)
    assert_agrees(program, lowering)


def test_the_four_bit_weight_is_packed_once_for_linears_that_share_it():
    class Twice(QuantizedLinear):
        def forward(self, x):
            return nn.functional.linear(nn.functional.linear(x, self.weight(), self.bias), self.weight(), self.bias)

    program = program_of((Twice(32, 32, **FOUR, activation="float"), (torch.randn(4, 32),)))
    lowering = lower(program, "vulkan")
    first, second = calls_of(lowering, "et_vk.linear_q4gsw")
    assert first["weights"] is second["weights"]
    buffers = lowering.program.exported_program.graph_signature.buffers
    assert "codes" not in buffers
    assert "codes_packed" in buffers
    assert_agrees(program, lowering)


def test_a_linear_that_is_kept_whole_is_matched_too():
    lowering = lower(program_of(linear()()), Recipe("vulkan", keep=frozenset({"aten.linear"})))
    assert ops_of(lowering) == ["et_vk.linear_q8ta_q8csw"]


@pytest.mark.quantize
@pytest.mark.parametrize(
    ("mode", "op", "applied"),
    [
        ("static8", "et_vk.linear_q8ta_q8csw", 3),
        ("8da4w", "et_vk.linear_dq8ca_q4gsw", 3),
        ("4w", "et_vk.linear_q4gsw", 2),
        ("8w", "", 0),
    ],
)
def test_the_sample_models(mode, op, applied):
    import torchao  # noqa: F401  (registers what the file calls)

    program = lowerscope.load(f"sample_models/quantized_mlp_{mode}.pt2")
    lowering = lower(program, "vulkan")
    assert sum(v.outcome is Outcome.APPLIED for v in lowering.verdicts_of(PATTERN)) == applied
    assert ops_of(lowering).count(op) == applied
    missed = [v for v in lowering.verdicts_of(PATTERN) if v.outcome is not Outcome.APPLIED]
    assert len(missed) == 3 - applied
    for verdict in missed:
        assert verdict.failed == ("kernel" if mode == "8w" else "outputs_multiple_of_4")
        assert "Missing out variants: torchao::dequantize_affine" in verdict.reason
    assert_agrees(program, lowering)
