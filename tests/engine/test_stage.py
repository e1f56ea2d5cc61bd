"""A stage's verdicts: what is applied, declined, skipped, shadowed or an error, in whatever graph the nodes live."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.check import Check, Condition, Failed
from lowerscope.editor import Editor
from lowerscope.errors import LowerscopeError
from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.pattern import REGISTRY, Declined, Kind, Match, Pattern, pattern
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.session import Session
from lowerscope.verdict import Outcome
from tests.cases import CASES

aten = torch.ops.aten


@dataclass
class Behaviour:
    """What the test's own pattern does at a relu."""

    match: Callable[[torch.fx.Node, Check], Match | None]
    rewrite: Callable[[Match, object], object] = lambda match, edit: Declined("never")


@pytest.fixture
def mine():
    """Registers the pattern `mine`, anchored at relu, for every target; forgets it afterwards."""

    def define(match, rewrite=lambda match, edit: Declined("never"), **order):
        behaviour = Behaviour(match, rewrite)

        @pattern("*", **{"after": ["core_aten"], **order})
        class Mine(Pattern):
            """relu(x) = max(x, 0)."""

            name, kind, anchors = "mine", Kind.FUSION, (aten.relu.default,)
            conditions = (Condition("declared", "it is declared"), Condition("second", "it is second"))

            def match(self, anchor, check):
                return behaviour.match(anchor, check)

            def rewrite(self, match, edit):
                return behaviour.rewrite(match, edit)

    yield define
    if "mine" in REGISTRY:
        REGISTRY.remove("mine")


def program(function=None, *args, shapes=None) -> Program:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 1)

        def forward(self, x):
            return F.relu(self.conv(x)) if function is None else function(self, x)

    return capture(Net().eval(), args or (torch.randn(1, 2, 3, 3),), dynamic_shapes=shapes)


def alone(anchor, check):
    check.that("declared", True)
    return Match(anchor, (anchor,), anchor)


def clamped(match, edit):
    return edit.call(aten.clamp.default, match.anchor.args[0], 0)


def verdict(lowering, name="mine", anchor="relu"):
    return lowering.verdicts[name, anchor]


# ---------------------------------------------------------------------- a user's pattern
def test_a_users_pattern_is_applied_like_any_other(mine):
    mine(alone, clamped, before=["conv2d_with_epilogue"])
    lowering = lower(program(), Recipe("vulkan"))
    assert verdict(lowering).outcome is Outcome.APPLIED
    assert [s.pattern for s in lowering.steps] == ["core_aten", "mine", "conv2d_with_epilogue"]


def test_a_rewrite_that_declines_leaves_the_graph_and_says_why(mine):
    mine(alone, lambda match, edit: (clamped(match, edit), Declined("the weather"))[1])
    before = program()
    lowering = lower(before, Recipe("qnn").disable("channels_last"))
    assert (verdict(lowering).outcome, verdict(lowering).reason) == (Outcome.DECLINED, "the weather")
    assert not any(s.pattern == "mine" for s in lowering.steps)
    assert {str(n.target) for n in lowering.program.graph.nodes if n.op == "call_function"} == {
        "aten.convolution.default",
        "aten.relu.default",
    }


def test_an_error_of_ours_inside_a_rewrite_is_a_decline(mine):
    def refuse(match, edit):
        raise LowerscopeError("it cannot be done")

    mine(alone, refuse)
    assert (verdict(lower(program(), "qnn")).outcome, verdict(lower(program(), "qnn")).reason) == (
        Outcome.DECLINED,
        "it cannot be done",
    )


def test_an_exception_in_a_match_is_a_verdict_with_its_line_and_the_others_go_on(mine):
    def match(anchor, check):
        return {}["missing"]

    mine(match)
    lowering = lower(program(), Recipe("vulkan"))
    found = verdict(lowering)
    assert found.outcome is Outcome.ERROR
    assert "KeyError: 'missing'" in found.reason
    assert 'return {}["missing"]' in found.reason
    assert "of test_stage.py" in found.reason
    assert verdict(lowering, "conv2d_with_epilogue", "convolution").outcome is Outcome.APPLIED


def test_an_exception_in_a_rewrite_is_a_verdict_and_leaves_no_trace(mine):
    def rewrite(match, edit):
        edit.call(aten.relu.default, match.anchor.args[0])
        return 1 / 0

    mine(alone, rewrite)
    lowering = lower(program(), Recipe("qnn").disable("channels_last"))
    assert verdict(lowering).outcome is Outcome.ERROR
    assert "ZeroDivisionError" in verdict(lowering).reason
    assert "return 1 / 0" in verdict(lowering).reason
    assert [n.name for n in lowering.program.graph.nodes if n.op == "call_function"] == ["convolution", "relu"]


def test_a_condition_that_is_not_declared_is_an_error(mine):
    mine(lambda anchor, check: check.that("undeclared", True))
    found = verdict(lower(program(), "qnn"))
    assert found.outcome is Outcome.ERROR
    assert "condition 'undeclared' is not declared" in found.reason


def test_a_failed_condition_is_a_near_miss_that_names_node_expected_and_actual(mine):
    def match(anchor, check):
        check.that("declared", True)
        check.eq("second", anchor.meta["val"].shape[1], 3, at=anchor, because="three is a crowd")
        return

    mine(match)
    found = verdict(lower(program(), "qnn"))
    assert (found.outcome, found.failed, found.fault) == (Outcome.NEAR_MISS, "second", "relu")
    assert (found.passed, found.total) == (1, 2)
    for words in ("it is second", "2", "expected 3", "three is a crowd"):
        assert words in found.reason


def test_no_match_and_no_failure_is_nothing_to_fuse(mine):
    mine(lambda anchor, check: None)
    assert verdict(lower(program(), "qnn")).outcome is Outcome.NOTHING_TO_FUSE


def test_a_later_pattern_whose_node_was_taken_is_shadowed(mine):
    mine(alone, clamped)
    lowering = lower(program(), Recipe("vulkan").insert("mine", after="conv2d_with_epilogue"))
    found = verdict(lowering)
    assert (found.outcome, found.by) == (Outcome.SHADOWED, ("conv2d_with_epilogue", "convolution"))
    first = lower(program(), Recipe("vulkan").insert("mine", before="conv2d_with_epilogue"))
    assert verdict(first).outcome is Outcome.APPLIED


def test_a_disabled_pattern_is_matched_on_the_graph_it_would_have_met():
    lowering = lower(program(), Recipe("vulkan").disable("conv2d_with_epilogue", "conv_with_clamp"))
    found = verdict(lowering, "conv2d_with_epilogue", "convolution")
    assert (found.outcome, found.nodes) == (Outcome.DISABLED, ("convolution", "relu"))
    assert verdict(lowering, "conv_with_clamp", "convolution").outcome is Outcome.DISABLED


# ---------------------------------------------------------------------- what the engine states itself
def test_a_match_that_a_path_leaves_and_comes_back_into_is_refused(mine):
    def match(anchor, check):
        last = next(iter(next(u for u in anchor.users if u.target is aten.sigmoid.default).users))
        return Match(anchor, (anchor, last), last)

    mine(match, clamped)
    around = program(lambda s, x: (lambda y: y.sigmoid() + y)(F.relu(s.conv(x))))
    found = verdict(lower(around, Recipe("qnn")))
    assert (found.failed, found.fault) == ("no_cycle", "sigmoid")


def test_a_match_over_two_graphs_is_refused(mine):
    class Region(nn.Module):
        def forward(self, x):
            y = x.relu()
            with torch.no_grad():
                z = y.relu()
            return z + 1

    seen = []

    def match(anchor, check):
        seen.append(anchor)
        return Match(anchor, tuple(seen[-2:]), anchor)

    mine(match, lambda match, edit: edit.call(aten.relu.default, match.anchor.args[0]))
    with torch.enable_grad():
        captured = capture(Region(), (torch.randn(3),))
    lowering = lower(captured, Recipe("qnn"))
    (inner,) = (v for v in lowering.verdicts_of("mine") if "/" in v.anchor)
    assert (inner.outcome, inner.failed) == (Outcome.NEAR_MISS, "one_graph")


def test_a_match_across_a_write_is_refused(mine):
    class Writes(nn.Module):
        def forward(self, x):
            y = x + 1
            a = y.relu()
            y.mul_(2)
            return a.sigmoid() + y

    def match(anchor, check):
        sigmoid = next(iter(anchor.users))
        return Match(anchor, (anchor, sigmoid), sigmoid)

    mine(match, clamped, after=[], before=["core_aten"])
    found = verdict(lower(capture(Writes(), (torch.randn(3),)), Recipe("qnn")))
    assert (found.failed, found.fault) == ("no_mutation_between", "mul_")


# ---------------------------------------------------------------------- skips
def conv_bn_relu() -> Program:
    module, args, _, _ = CASES["b_skip_only_the_relu"][0]()
    return capture(module, (args[0][:1],))


def applied(lowering) -> set[str]:
    return {s.pattern for s in lowering.steps} - {"core_aten"}


def test_skipping_the_relu_of_a_match_leaves_conv_and_batch_norm_applied():
    everything = lower(conv_bn_relu(), Recipe("vulkan"))
    assert applied(everything) == {"fold_batch_norm", "conv2d_with_epilogue"}
    lowering = lower(conv_bn_relu(), Recipe("vulkan").skip(Skip(node="relu")))
    assert applied(lowering) == {"fold_batch_norm"}
    (found,) = lowering.verdicts_of("conv2d_with_epilogue")
    assert (found.outcome, found.fault) == (Outcome.SKIPPED, "relu")
    assert "skipped by node relu" in found.reason


def test_skipping_the_convolution_leaves_nothing():
    lowering = lower(conv_bn_relu(), Recipe("vulkan").skip(Skip(node="conv2d")))
    assert applied(lowering) == set()
    assert verdict(lowering, "conv2d_with_epilogue", "convolution").outcome is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("skip", "reason"),
    [
        (Skip(pattern="conv2d_with_epilogue"), "skipped by pattern conv2d_with_epilogue"),
        (Skip(pattern="conv2d_with_epilogue", node="conv2d"), "skipped by node conv2d for conv2d_with_epilogue"),
        (Skip(node="conv2d"), "skipped by node conv2d"),
        (Skip(op="aten.relu"), "skipped by op aten.relu"),
        (Skip(op="relu"), "skipped by op relu"),
        (Skip(module="conv"), "skipped by module conv"),
        (Skip(module="c*"), "skipped by module c*"),
        (
            Skip(pattern="conv2d_with_epilogue", match=("relu", "conv2d")),
            "skipped by match conv2d + relu for conv2d_with_epilogue",
        ),
    ],
    ids=str,
)
def test_every_kind_of_skip(skip, reason):
    lowering = lower(program(), Recipe("vulkan").disable("conv_with_clamp").skip(skip))
    found = verdict(lowering, "conv2d_with_epilogue", "convolution")
    assert (found.outcome, found.reason) == (Outcome.SKIPPED, reason)
    assert applied(lowering) == set()
    assert lower(program(), Recipe("vulkan").skip(skip).unskip(skip)).steps == lower(program(), "vulkan").steps


def test_a_skip_of_one_match_is_keyed_by_the_original_nodes_it_covers():
    (found,) = lower(conv_bn_relu(), Recipe("vulkan")).verdicts_of("conv2d_with_epilogue")
    assert found.outcome is Outcome.APPLIED
    assert found.origins == ("batch_norm", "conv2d", "relu")
    skip = Skip(pattern="conv2d_with_epilogue", match=found.origins)
    lowering = lower(conv_bn_relu(), Recipe("vulkan").skip(skip))
    assert applied(lowering) == {"fold_batch_norm", "conv_with_clamp"}
    (found,) = lowering.verdicts_of("conv2d_with_epilogue")
    assert found.outcome is Outcome.SKIPPED


def test_a_skip_that_finds_nothing_is_kept_and_changes_nothing():
    recipe = Recipe("vulkan").skip(Skip(node="not_there"), Skip(module="nowhere.*"))
    lowering = lower(program(), recipe)
    assert lowering.recipe.skips == recipe.skips
    assert lowering.steps == lower(program(), "vulkan").steps


def test_a_skip_of_an_op_keeps_it_whole_and_a_plain_skip_of_a_node_does_not_stop_its_decomposition():
    swish = program(lambda s, x: F.hardswish(s.conv(x)))
    kept = lower(swish, Recipe("vulkan").skip(Skip(op="aten.hardswish")))
    assert verdict(kept, "core_aten", "hardswish").outcome is Outcome.SKIPPED
    assert "hardswish" in {n.name for n in kept.program.graph.nodes}
    plain = lower(swish, Recipe("vulkan").skip(Skip(node="hardswish")))
    assert verdict(plain, "core_aten", "hardswish").outcome is Outcome.APPLIED
    named = lower(swish, Recipe("vulkan").skip(Skip(pattern="core_aten", node="hardswish")))
    assert verdict(named, "core_aten", "hardswish").outcome is Outcome.SKIPPED


# ---------------------------------------------------------------------- everywhere in the graph
def test_regions_and_branches_are_matched_with_their_path():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 1)

        def forward(self, x):
            with torch.no_grad():
                y = F.relu(self.conv(x))
            return torch.cond(x.sum() > 0, lambda t: F.relu(self.conv(t)), lambda t: t.sin(), (y,))

    with torch.enable_grad():
        captured = capture(Inside().eval(), (torch.randn(1, 2, 3, 3),))
    lowering = lower(captured, Recipe("vulkan"))
    found = {v.anchor: v.outcome for v in lowering.verdicts_of("conv2d_with_epilogue")}
    assert len(found) == 2
    assert set(found.values()) == {Outcome.APPLIED}
    assert {anchor.partition("/")[0] for anchor in found} == {"submod_1", "true_graph_0"}
    one = next(a for a in found if a.startswith("true_graph_0"))
    original = lowering.origin(one)
    assert all(name.startswith("true_graph_0/") for name in original)
    skipped = lower(captured, Recipe("vulkan").skip(Skip(node=original[0])))
    assert sorted(v.outcome for v in skipped.verdicts_of("conv2d_with_epilogue")) == ["applied", "skipped"]


def test_a_new_constant_for_a_match_inside_a_region_is_brought_in_as_an_operand():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(2, 2, 1)

        def forward(self, x):
            with torch.no_grad():
                y = self.conv(x)
            return torch.cond(x.sum() > 0, lambda t: self.conv(t) + 1, lambda t: t.sin(), (y,))

    with torch.enable_grad():
        captured = capture(Inside().eval(), (torch.randn(1, 2, 3),))
    lowering = lower(captured, Recipe("qnn"))
    assert [v.outcome for v in lowering.verdicts_of("conv1d_as_conv2d")] == [Outcome.APPLIED] * 2
    lowering.program.exported_program.validate()
    assert parity(captured, lowering.program, oracle=False).agrees


def test_a_comparison_with_a_symbolic_size_adds_no_guard():
    shapes = ({0: Dim("n", min=1, max=8)},)
    captured = program(None, torch.randn(2, 2, 3, 3), shapes=shapes)
    before = dict(captured.exported_program.range_constraints)
    lowering = lower(captured, Recipe("vulkan"))
    assert verdict(lowering, "conv2d_with_epilogue", "convolution").failed == "batch_1"
    assert dict(lowering.program.exported_program.range_constraints) == before
    module = lowering.program.exported_program.module()
    for size in (1, 2, 8):
        assert module(torch.randn(size, 2, 3, 3)).shape[0] == size


def test_a_pattern_without_a_rewrite_finds_and_declines():
    @pattern("*", after=["core_aten"])
    class OnlyFinds(Pattern):
        """relu(x)."""

        name, kind, anchors, conditions = "only_finds", Kind.FUSION, (aten.relu.default,), ()

        def match(self, anchor, check):
            return Match(anchor, (anchor,), anchor)

    try:
        lowering = lower(program(), Recipe("vulkan"))
        (verdict,) = lowering.verdicts_of("only_finds")
        assert verdict.outcome is Outcome.DECLINED
        assert verdict.reason == "pattern 'only_finds' has no rewrite method yet"
    finally:
        REGISTRY.remove("only_finds")


def test_the_table_of_patterns_says_what_went_wrong(mine):
    def match(anchor, check):
        raise ValueError("no idea")

    mine(match)
    session = Session(program(), target="vulkan")
    row = session.patterns().loc["mine"]
    assert row.errors == 1
    assert row.note.startswith("ValueError: no idea")


class Shifted(nn.Module):
    def forward(self, x):
        return torch.relu(x + 1)


def _redirected(match, edit):
    edit.replace(match.anchor, edit.call(aten._to_copy.default, match.anchor.args[0], dtype=torch.float64))


OTHERS = {
    "float32 [3], not": lambda match, edit: edit.call(aten.sum.dim_IntList, match.anchor.args[0], [0]),
    "[{twice}, 3], not": lambda match, edit: edit.call(aten.cat.default, [match.anchor.args[0]] * 2),
    "float64 [{size}, 3], not torch.float32 [{size}, 3] as 'relu' does": _redirected,
    "2 outputs, not": lambda match, edit: edit.call(aten.topk.default, match.anchor.args[0], 1),
    "a str: return the node": lambda match, edit: "relu",
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("says", OTHERS)
def test_a_rewrite_that_changes_dtype_or_shape_is_declined_by_name(mine, says, dynamic):
    mine(lambda anchor, check: Match(anchor, (anchor,), anchor), OTHERS[says])
    shapes = {"x": {0: Dim("rows", min=2, max=64)}} if dynamic else None
    found = Session(capture(Shifted().eval(), (torch.randn(5, 3),), None, shapes))
    size = str(found.program.graph.find_nodes(op="placeholder")[0].meta["val"].shape[0])
    told = found.why_not("mine", "relu")
    assert told.verdict == "declined"
    assert says.format(size=size, twice=f"2*{size}" if dynamic else "10") in told.reason
    calls = [n for n in found.lowering.program.graph.nodes if n.op == "call_function"]
    assert [n.target for n in calls] == [aten.add.Tensor, aten.relu.default]
    assert found.parity().verdict.item() == "equal"


def test_sizes_that_are_written_otherwise_are_the_same(mine):
    def rewrite(match, edit):
        rows = edit.call(aten.sym_size.int, match.anchor.args[0], 0)
        wide = edit.call(aten.view.default, match.anchor.args[0], [edit.call(operator.mul, rows, 3)])
        return edit.call(aten.view.default, edit.call(aten.relu.default, wide), [-1, 3])

    mine(lambda anchor, check: Match(anchor, (anchor,), anchor), rewrite)
    found = Session(capture(Shifted().eval(), (torch.randn(5, 3),), None, {"x": {0: Dim("rows", min=2, max=64)}}))
    assert found.why_not("mine", "relu").headline.startswith("mine is applied at relu")
    assert found.parity().verdict.item() == "equal"


def test_a_check_that_begins_anew_leaves_what_it_recorded_before():
    editor = Editor(capture(nn.ReLU(), (torch.randn(2),)))
    node = editor.nodes["relu"]
    check = Check({"width": None}, editor)
    check.eq("width", 1, 1, at=node)
    check.touch(node)
    first = check.record

    check.begin(("other",))
    with pytest.raises(Failed):
        check.eq("width", [2, node], [1, node], at=node)
    assert [(e.name, e.status, e.actual, e.node) for e in first.entries] == [("width", "passed", 1, "relu")]
    assert (first.root(), first.passed(), tuple(first.touched)) == (None, 1, ("relu",))
    failure = check.record.failure()
    assert failure is not None
    # a value that holds a node is kept by the node's id, as it was
    assert (failure.expected, failure.actual, check.record.root()) == ((1, "relu"), (2, "relu"), "width")
    assert (check.record.passed(), tuple(check.record.touched)) == (0, ("other",))
