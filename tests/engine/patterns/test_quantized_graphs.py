"""Statically quantized graphs: what patterns for floating ones leave alone, and that nothing is replaced twice."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from lowerscope.lowering import lower
from lowerscope.recipe import Recipe
from lowerscope.target import TARGETS
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import program_of
from tests.engine.patterns.tosa_nets import Net, assert_same_bytes, real, tensors_of_conv, weight
from tests.engine.patterns.vulkan_nets import ops_of

#: XNNPACK's kernels clamp quantized results too, and its layout is a matter of places, not of numbers.
TAKES_PART = {"core_aten", "lower_to_tosa", "fuse_activation", "channels_last"}


def network(normalise=False):
    """dq(q(relu(conv(x, dq(w))))), twice, in one block with a residual: what static quantization leaves."""
    held = tensors_of_conv(4, 4, 1, 1)
    norm = nn.BatchNorm2d(4).eval()
    for values in (norm.running_mean, norm.running_var):
        assert values is not None
        values.uniform_(0.5, 1.5)

    def f(x, s):
        y = torch.conv2d(real(x), weight(s), s.bias)
        y = real(torch.relu(s.norm(y) if normalise else y))
        z = real(torch.conv2d(y, weight(s), s.bias))
        return real(torch.relu(real(z + y)))

    made = Net(f, **held)
    made.norm = norm
    return made, (torch.randn(1, 4, 3, 3),)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_patterns_for_floating_graphs_leave_it_alone(target, normalise):
    program = program_of(network(normalise))
    lowering = lower(program, target)
    applied = Counter(step.pattern for step in lowering.steps)
    assert set(applied) <= TAKES_PART
    assert ops_of(lowering).count("aten._native_batch_norm_legit_no_training") == normalise
    reasons = {name: {v.failed for v in lowering.verdicts_of(name)} for name in ("fold_batch_norm", "fold_constants")}
    if normalise:
        assert reasons["fold_batch_norm"] == {"constant_weight"}
    if target != "ethos-u":
        assert reasons["fold_constants"] == {"not_quantized"}
        # every convolution still computes on the weight that its dequantize node gives
        assert ops_of(lowering).count("quantized_decomposed.dequantize_per_channel") == 2
    assert_same_bytes(program, lower(program, Recipe(target).disable(*TAKES_PART - {"core_aten"} & set(applied))))


@pytest.mark.parametrize(
    ("pattern", "at"), [("conv2d_with_epilogue", "constant_weight"), ("conv_with_clamp", "floating_weight")]
)
@pytest.mark.parametrize("target", ["vulkan", "webgpu"])
def test_vulkans_fusions_name_the_dequantized_weight(target, pattern, at):
    lowering = lower(program_of(network()), target)
    found = [v for v in lowering.verdicts_of(pattern) if v.outcome is Outcome.NEAR_MISS]
    assert found
    assert {v.failed for v in found} == {at}
    assert all(str(v.fault).startswith("dequantize_per_channel") for v in found)


@pytest.mark.parametrize("first", ["lower_to_tosa", "fuse_activation"])
def test_a_quantized_convolution_and_relu_that_one_pattern_has_replaced_match_no_other(first):
    recipe = Recipe("ethos-u")
    around = {"after": "lower_to_tosa"} if first == "lower_to_tosa" else {"before": "lower_to_tosa"}
    lowering = lower(program_of(network()), recipe.insert("fuse_activation", **around))
    steps = [step for step in lowering.steps if step.pattern in ("lower_to_tosa", "fuse_activation")]
    assert [step.pattern for step in steps if "relu" in step.taken] == [first]
    other = "fuse_activation" if first == "lower_to_tosa" else "lower_to_tosa"
    met = [v for v in lowering.verdicts_of(other) if {"conv2d", "relu"} & set(v.origins)]
    assert all(v.outcome is not Outcome.APPLIED for v in met)
    assert ("aten.relu" in ops_of(lowering)) is False
