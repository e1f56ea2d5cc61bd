"""The public reports: what a right lowering computes, what a wrong one would, and what is said of a pattern that misses."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from lowerscope.by_example import pattern_from
from lowerscope.errors import CaptureError
from lowerscope.lowering import Lowering, lower
from lowerscope.measure.parity import parity
from lowerscope.ops import display_name
from lowerscope.pattern import REGISTRY
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.session import Session
from lowerscope.target import TARGETS
from lowerscope.verdict import Outcome, Verdict
from lowerscope.why import why_not
from tests.cases import CASES, INFO, _gelu_a, call, differ, fresh

AGREE = ("equal", "close")
#: Wrong rewrites that cannot even run.
RAISES = ("a_matmul_add_broadcasts_up", "a_dynamic_batch_baked")


def names(*classes: str, **wanted: Any) -> list[str]:
    """The exportable cases of some classes; `trap=True` and the like: only those that have one."""
    return [
        name
        for name, info in INFO.items()
        if info["cls"] in classes and info["export"] == "ok" and all(bool(info[k]) == v for k, v in wanted.items())
    ]


@cache
def program(name: str) -> Program:
    """The case, captured once."""
    module, args, kwargs, shapes = fresh(name)
    return capture(module, args, kwargs, shapes, name=name)


@cache
def lowered(name: str, target: str) -> Lowering:
    """The case, lowered once for each target."""
    return lower(program(name), target)


def run(name: str, target: str, inputs: Any) -> Any:
    """What the lowered program computes; on a copy, since a program may write to its buffers."""
    return call(copy.deepcopy(lowered(name, target).program.exported_program).module(), *inputs)


@cache
def result(name: str, target: str) -> Any:
    """What the lowered program computes on the case's inputs."""
    return run(name, target, fresh(name)[1:3])


def eager(name: str, which: str | None = None, inputs: Any = None) -> Any:
    """What the module computes, or what its `good` or `trap` does."""
    module, args, kwargs, _ = fresh(name)
    args, kwargs = (args, kwargs) if inputs is None else inputs
    if which is None:
        return call(module, args, kwargs)
    return call(lambda *a, **k: INFO[name][which](module, *a, **k), args, kwargs)


def alternative(name: str) -> Any:
    """The case's second inputs."""
    torch.manual_seed(99)
    return INFO[name]["alt"]()


# ------------------------------------------------------------------ wrong numbers, and what could not be shown
@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("name", names("a", "c"))
def test_every_target_lowers_it_without_an_error_and_the_numbers_stay(name, target):
    lowering = lowered(name, target)
    assert [
        f"{v.pattern} at {v.anchor}: {v.reason}" for v in lowering.verdicts.values() if v.outcome is Outcome.ERROR
    ] == []
    lowering.program.exported_program.validate()
    assert differ(eager(name), result(name, target))[0] in AGREE


@pytest.mark.parametrize("name", names("a", "c"))
def test_parity_finds_no_difference(name):
    seen: set[str] = set()
    for target in TARGETS:
        lowering = lowered(name, target)
        graph = str(lowering.program.graph)
        if graph not in seen:  # most targets make the same of a case that no pattern of theirs is about
            report = parity(program(name), lowering.program, oracle=False)
            assert report.agrees, f"{target}: {report}"
        seen.add(graph)


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("name", names("a", good=True))
def test_it_computes_what_a_right_rewrite_does(name, target):
    assert differ(eager(name, "good"), result(name, target))[0] in AGREE
    if INFO[name]["alt"]:
        assert differ(eager(name, "good", alternative(name)), run(name, target, alternative(name)))[0] in AGREE


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("name", names("a", trap=True))
def test_it_does_not_compute_what_the_wrong_rewrite_does(name, target):
    inputs = alternative(name) if INFO[name]["alt"] else None
    ours = result(name, target) if inputs is None else run(name, target, inputs)
    if name in RAISES:
        with pytest.raises(RuntimeError):
            eager(name, "trap", inputs)
    else:
        assert differ(eager(name, "trap", inputs), ours)[0] not in AGREE


@pytest.mark.parametrize("name", [name for name in CASES if INFO[name]["export"] == "fails"])
def test_only_what_cannot_be_exported_raises_and_says_why(name):
    module, args, kwargs, shapes = fresh(name)
    with pytest.raises(CaptureError, match="cannot be exported"):
        capture(module, args, kwargs, shapes)


# ------------------------------------------------------------------ the reasons
#: (case, target, pattern, anchor) -> (failed condition, node at fault), or None where the pattern applies
REASONS: dict[tuple[str, str, str, str], tuple[str, str] | None] = {
    ("a_conv_relu_second_user", "webgpu", "conv_with_clamp", "convolution"): ("one_user", "mul"),
    ("a_conv_relu_second_user", "xnnpack", "fuse_activation", "convolution"): ("one_user", "mul"),
    ("a_intermediate_is_output", "webgpu", "conv_with_clamp", "convolution"): ("one_user", "output"),
    ("a_bn_in_train_mode", "qnn", "fold_batch_norm", "_native_batch_norm_legit_functional"): (
        "not_training", "_native_batch_norm_legit_functional",
    ),
    ("a_bn_before_padded_conv", "qnn", "fold_batch_norm", "native_batch_norm_legit_no_training"): (
        "convolution_before", "x",
    ),
    ("a_convtranspose_bn_square", "qnn", "fold_batch_norm", "native_batch_norm_legit_no_training"): (
        "not_transposed", "convolution",
    ),
    ("a_convtranspose_bn_square", "vulkan", "fold_batch_norm", "native_batch_norm_legit_no_training"): None,
    ("a_convtranspose_depthwise_bn", "vulkan", "fold_batch_norm", "native_batch_norm_legit_no_training"): None,
    ("a_conv_nobias_bn", "vulkan", "fold_batch_norm", "native_batch_norm_legit_no_training"): None,
    ("a_depthwise_dilated_bn", "vulkan", "fold_batch_norm", "native_batch_norm_legit_no_training"): None,
    ("a_conv_called_twice_one_bn", "vulkan", "fold_batch_norm", "native_batch_norm_legit_no_training"): None,
    ("a_dynamic_batch_baked", "vulkan", "fold_batch_norm", "native_batch_norm_legit_no_training"): None,
    ("a_conv1d_bn_relu", "vulkan", "fold_batch_norm", "native_batch_norm_legit_no_training"): None,
    ("b_relu6_spelled_four_ways", "webgpu", "conv_with_clamp", "convolution"): None,
    ("b_relu6_spelled_four_ways", "webgpu", "conv_with_clamp", "convolution_1"): None,
    ("b_relu6_spelled_four_ways", "webgpu", "conv_with_clamp", "convolution_2"): None,
    ("b_relu6_spelled_four_ways", "webgpu", "conv_with_clamp", "convolution_3"): None,
    ("b_inplace_residual", "vulkan", "conv2d_with_epilogue", "convolution"): ("batch_1", "convolution"),
    ("b_inplace_residual", "xnnpack", "fuse_activation", "add"): None,
    ("b_hardswish_decomposed", "webgpu", "conv_with_clamp", "convolution"): ("clamp_follows", "add"),
    ("b_stride_literal", "vulkan", "conv2d_with_epilogue", "convolution"): None,
    ("b_defaults_trimmed_or_written", "vulkan", "conv2d_with_epilogue", "convolution"): None,
    ("b_defaults_trimmed_or_written", "vulkan", "conv2d_with_epilogue", "convolution_1"): None,
    ("b_conv3d_bn", "vulkan", "fold_batch_norm", "native_batch_norm_legit_no_training"): None,
    ("b_conv3d_bn", "vulkan", "conv2d_with_epilogue", "convolution_1"): ("two_dimensional", "convolution_1"),
    ("b_bn_affine_false", "qnn", "fold_batch_norm", "native_batch_norm_legit_no_training"): None,
    ("b_two_convs_one_add", "vulkan", "conv2d_with_epilogue", "convolution"): ("batch_1", "convolution"),
    ("b_padding_same_string", "webgpu", "conv_with_clamp", "convolution"): None,
    ("b_padding_same_string", "webgpu", "conv_with_clamp", "convolution_1"): None,
    ("b_noop_between_conv_and_bn", "qnn", "fold_batch_norm", "native_batch_norm_legit_no_training"): (
        "convolution_before", "clone",
    ),
    ("b_noop_between_conv_and_bn", "qnn", "fold_batch_norm", "native_batch_norm_legit_no_training_1"): None,
    ("b_noop_between_conv_and_bn", "qnn", "fold_batch_norm", "native_batch_norm_legit_no_training_2"): (
        "one_user", "_assert_tensor_metadata_default",
    ),
    ("b_noop_between_conv_and_bn", "qnn", "fold_batch_norm", "native_batch_norm_legit_no_training_3"): (
        "convolution_before", "slice_1",
    ),
    ("b_skip_only_the_relu", "webgpu", "fold_batch_norm", "native_batch_norm_legit_no_training"): None,
    ("b_skip_only_the_relu", "webgpu", "conv_with_clamp", "convolution_1"): None,
    ("b_pattern_inside_no_grad", "webgpu", "conv_with_clamp", "submod_1/convolution"): None,
    ("b_relu6_spelled_four_ways", "xnnpack", "fuse_activation", "convolution"): None,
    ("b_relu6_spelled_four_ways", "xnnpack", "fuse_activation", "convolution_1"): None,
    ("b_relu6_spelled_four_ways", "xnnpack", "fuse_activation", "convolution_2"): None,
    ("b_relu6_spelled_four_ways", "xnnpack", "fuse_activation", "convolution_3"): None,
    ("b_stride_literal", "xnnpack", "fuse_activation", "convolution"): None,
    ("b_stride_literal", "webgpu", "conv_with_clamp", "convolution"): None,
    ("b_defaults_trimmed_or_written", "xnnpack", "fuse_activation", "convolution"): None,
    ("b_defaults_trimmed_or_written", "xnnpack", "fuse_activation", "convolution_1"): None,
    ("b_conv3d_bn", "webgpu", "conv_with_clamp", "convolution_1"): ("dimensions", "convolution_1"),
    ("b_conv3d_bn", "xnnpack", "fuse_activation", "convolution_1"): ("dimensions", "convolution_1"),
    ("b_two_convs_one_add", "vulkan", "conv2d_with_epilogue", "convolution_1"): ("batch_1", "convolution_1"),
    ("b_two_convs_one_add", "xnnpack", "fuse_activation", "add"): None,
    ("b_padding_same_string", "xnnpack", "fuse_activation", "convolution"): None,
    ("b_padding_same_string", "xnnpack", "fuse_activation", "convolution_1"): None,
    ("b_skip_only_the_relu", "xnnpack", "fuse_activation", "convolution_1"): None,
    ("b_pattern_inside_no_grad", "xnnpack", "fuse_activation", "submod_1/convolution"): None,
    ("b_lifted_scalar_constant", "xnnpack", "fuse_activation", "add"): None,
    ("b_lifted_scalar_constant", "xnnpack", "fuse_activation", "add_1"): None,
}  # fmt: skip


def verdict(name: str, target: str, pattern: str, anchor: str) -> Verdict:
    found = lowered(name, target).verdicts
    assert (pattern, anchor) in found, f"{pattern} has verdicts at {[a for p, a in found if p == pattern]}"
    return found[pattern, anchor]


@pytest.mark.parametrize("where", REASONS, ids="-".join)
def test_it_matches_or_the_reason_is_what_the_report_is_about(where):
    name, target, pattern, anchor = where
    found = verdict(*where)
    reason = REASONS[where]
    if reason is None:
        assert (found.outcome, found.reason) == (Outcome.APPLIED, "")
        return
    assert (found.failed, found.fault) == reason
    explanation = why_not(lowered(name, target), pattern, anchor)
    assert explanation.failed is not None
    assert explanation.failed.name == reason[0]
    assert explanation.failed.sentence in str(explanation)


def _rms(x: Any, w: Any) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def _attention(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-2, -1) / 3.0, -1) @ v


#: case -> a function to search for, the shapes of its example, how often it matches, and of its nearest misses the
#: condition, the node at fault, and what stands there in the place of what is expected
BY_EXAMPLE: dict[str, tuple[Any, list[tuple[int, ...]], int, list[tuple[str, str, str]]]] = {
    "b_gelu_tanh_orders": (_gelu_a, [(32,)], 1, [("node_pow_1", "mul_6", "aten.mul.Tensor")]),
    "b_attention_mul_for_div": (_attention, [(1, 2, 5, 9)] * 3, 1, [("node_div", "mul", "aten.mul.Tensor")]),
    "b_dynamic_view_sym_size": (
        lambda x, w, b: F.linear(x.view(2, 8), w, b), [(2, 2, 4), (6, 8), (6,)], 0,
        [("node_view", "view", "size = [sym_size_int_1, -1]")],
    ),
    "b_int_vs_float_literal": (lambda x: x * 2.0, [(8,)], 1, []),
    "b_rmsnorm_spellings": (_rms, [(2, 3, 8), (8,)], 2, [("node_rsqrt", "pow_3", "aten.pow.Tensor_Scalar")]),
    "b_batched_matmul_bias": (
        lambda x, w, b: x @ w + b, [(2, 10), (10, 16), (16,)], 0, [("node_mm", "view_1", "aten.view")],
    ),
    "b_stride_literal": (
        lambda x, w, b: F.relu(F.conv2d(x, w, b)), [(1, 3, 9, 9), (4, 3, 3, 3), (4,)], 0,
        [("node_convolution", "convolution", "stride = [2, 2]")],
    ),
    "b_defaults_trimmed_or_written": (
        lambda x, w, b: F.relu(F.conv2d(x, w, b)), [(1, 3, 9, 9), (4, 3, 1, 1), (4,)], 2, [],
    ),
}  # fmt: skip


@pytest.fixture
def searched():
    """Registers a pattern by example that replaces a value by itself; forgets it afterwards."""

    def search(function: Any, shapes: list[tuple[int, ...]]) -> str:
        torch.manual_seed(0)
        pattern_from(function, function, [torch.randn(shape) for shape in shapes], name="searched")
        return "searched"

    yield search
    REGISTRY.remove("searched")


@pytest.mark.parametrize("name", BY_EXAMPLE)
def test_a_pattern_by_example_matches_or_names_what_the_report_is_about(name, searched):
    function, shapes, count, misses = BY_EXAMPLE[name]
    pattern = searched(function, shapes)
    session = Session(program(name), "qnn")
    session.expect({pattern: count})
    nearest = session.near_misses(pattern).head(len(misses))
    assert list(zip(nearest.failed, nearest.fault, strict=True)) == [miss[:2] for miss in misses]
    for anchor, (_, _, actual) in zip(nearest.anchor, misses, strict=True):
        told = session.why_not(pattern, anchor).failed
        assert told is not None
        assert told.actual == actual


def test_two_convolutions_that_both_could_hold_the_add_are_a_conflict_that_flips():
    module, (x,), kwargs, _ = fresh("b_two_convs_one_add")
    session = Session(capture(module, (x[:1],), kwargs))  # fusing is for one image: of two that would be the reason
    row = session.conflicts().iloc[0]
    assert (row.winner, row.loser) == ("conv2d_with_epilogue",) * 2
    assert row.shared == ["add", "relu"]
    assert row.operators == row.operators_flipped
    skipped = session.lowering.verdicts["conv2d_with_epilogue", row.loser_at]
    assert skipped.by == ("conv2d_with_epilogue", row["at"])


def test_every_silent_miss_has_its_reason_asserted():
    told = (
        {name for name, *_ in REASONS} | set(BY_EXAMPLE) | {"b_false_match_dropout"}
    )  # of which there is no match at all
    assert set(names("b")) <= told


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("name", names("b"))
def test_a_silent_miss_is_lowered_by_every_target_and_the_numbers_stay(name, target):
    lowering = lowered(name, target)
    assert Outcome.ERROR not in {v.outcome for v in lowering.verdicts.values()}
    for step in lowering.steps:
        assert all(id in lowering.ledger.records for id in (*step.taken, *step.made))
    if name != "b_false_match_dropout":
        assert differ(eager(name), result(name, target))[0] in AGREE
    if INFO[name]["good"]:
        assert differ(eager(name, "good"), result(name, target))[0] in AGREE


def test_of_an_empty_batch_torch_itself_takes_the_batch_norm_apart_and_that_is_said():
    found = verdict("a_zero_size_batch", "vulkan", "fold_batch_norm", "batch_norm")
    assert (found.outcome, found.by) == (Outcome.SHADOWED, ("core_aten", "batch_norm"))


def test_the_noop_between_convolution_and_batch_norm_is_said_to_be_one():
    for anchor in ("native_batch_norm_legit_no_training", "native_batch_norm_legit_no_training_3"):
        found = verdict("b_noop_between_conv_and_bn", "qnn", "fold_batch_norm", anchor)
        assert "changes nothing here" in found.reason
    other = verdict("a_bn_before_padded_conv", "qnn", "fold_batch_norm", "native_batch_norm_legit_no_training")
    assert "changes nothing" not in other.reason


def test_a_decomposed_hardswish_is_found_again_and_can_be_kept():
    lowering = lowered("b_hardswish_decomposed", "webgpu")
    assert "hardswish" in lowering.origin("add")
    assert "add" in lowering.became("hardswish")
    step = next(s for s in lowering.steps if s.anchor == "hardswish")
    assert len(step.made) >= 4
    kept = lower(program("b_hardswish_decomposed"), Recipe("webgpu", keep=frozenset({"aten.hardswish"})))
    assert kept.verdicts["conv_with_clamp", "convolution"].fault == "hardswish"


def test_an_even_kernel_of_padding_same_shows_its_pad():
    ops = [display_name(n.target) for n in lowered("b_padding_same_string", "webgpu").program.graph.nodes]
    assert [op for op in ops if op in ("aten.constant_pad_nd", "et_vk.conv_with_clamp")] == [
        "et_vk.conv_with_clamp",
        "aten.constant_pad_nd",
        "et_vk.conv_with_clamp",
    ]


def test_skipping_the_relu_leaves_the_batch_norm_folded_and_skipping_the_convolution_leaves_nothing():
    relu = lower(program("b_skip_only_the_relu"), Recipe("webgpu").skip(Skip(node="relu")))
    assert {s.pattern for s in relu.steps} == {"core_aten", "fold_batch_norm"}
    conv = lower(program("b_skip_only_the_relu"), Recipe("webgpu").skip(Skip(node="conv2d")))
    assert {s.pattern for s in conv.steps} == {"core_aten"}
    everything = lowered("b_skip_only_the_relu", "webgpu")
    counts = [
        len(x.program.graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default))
        for x in (relu, everything)
    ]
    assert counts == [1, 0]


def test_no_pattern_claims_a_match_whose_nodes_are_not_there():
    for target in TARGETS:
        lowering = lowered("b_false_match_dropout", target)
        assert {s.pattern for s in lowering.steps} <= {"core_aten"}


@pytest.mark.parametrize("name", ["a_residual_minus_conv", "a_clamp_clamp_disjoint", "a_sdpa_scale_not_default"])
def test_the_lowered_program_survives_a_second_lowering(name):
    for target in TARGETS:
        again = lower(lowered(name, target).program, target)
        assert Outcome.ERROR not in {v.outcome for v in again.verdicts.values()}
        assert differ(eager(name), call(again.program.exported_program.module(), *fresh(name)[1:3]))[0] in AGREE
