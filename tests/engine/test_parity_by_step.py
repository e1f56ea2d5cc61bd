"""step_errors(): the rewrite that is wrong is told from those that only inherit its error."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan

from lowerscope.lowering import lower
from lowerscope.measure.by_step import lowering_errors, step_errors, step_pairs
from lowerscope.measure.compare import Comparison
from lowerscope.measure.interpreter import Cancelled
from lowerscope.measure.step_error import StepError, step_frame
from lowerscope.program import Program, capture

aten = torch.ops.aten
EPILOGUE = torch.ops.lowerscope_vulkan.conv2d_with_epilogue.default


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(6, 6, generator=generator))

    def forward(self, x, r):
        y = torch.relu(x @ self.weight)
        y = torch.add(y, r, alpha=0.25)
        return torch.sigmoid(y * 2) - 1


def _before() -> Program:
    generator = torch.Generator().manual_seed(1)
    args = (torch.randn(4, 6, generator=generator), torch.randn(4, 6, generator=generator))
    return capture(Chain().eval(), args)


class Rewriter:
    """Replaces nodes of a copy of a program, and keeps the mapping of old outputs to new ones."""

    def __init__(self, program: Program) -> None:
        self.exported = copy.deepcopy(program.exported_program)
        self.graph = self.exported.graph
        self.mapping: list[tuple[int, str, str]] = []

    def replace(self, name: str, target, *args) -> torch.fx.Node:
        old = next(n for n in self.graph.nodes if n.name == name)
        with self.graph.inserting_before(old):
            new = self.graph.call_function(target, tuple(old.args[a] if isinstance(a, int) else a[0] for a in args))
        new.meta["val"] = old.meta["val"]
        old.replace_all_uses_with(new)
        self.graph.erase_node(old)
        self.mapping.append((len(self.mapping) + 1, name, new.name))
        return new

    @property
    def program(self) -> Program:
        return Program(self.exported)


def _alone(error: StepError) -> Comparison:
    assert error.isolated is not None, error.why
    return error.isolated


def _in_the_run(error: StepError) -> Comparison:
    assert error.propagated is not None, error.why
    return error.propagated


def test_the_wrong_rewrite_is_guilty_and_those_after_it_are_not():
    before = _before()
    rewriter = Rewriter(before)
    rewriter.replace("relu", aten.clamp_min.default, 0, (0.0,))
    rewriter.replace("add", aten.add.Tensor, 0, 1)  # alpha is dropped
    rewriter.replace("mul", aten.add.Tensor, 0, 0)
    errors = step_errors(before, rewriter.program, rewriter.mapping)
    assert [_alone(error).verdict for error in errors] == ["equal", "different", "equal"]
    assert [_in_the_run(error).verdict for error in errors] == ["equal", "different", "different"]
    assert errors[0].oracle_ratio == 1.0
    assert errors[1].oracle_ratio > 1e3
    frame = step_frame(errors)
    assert frame.loc[0, "step"] == 2, "sorted by guilt"
    assert list(frame["verdict"]) == ["different", "equal", "equal"]
    assert frame.loc[0, "before"] == "add"
    assert frame.loc[0, "isolated_max_abs"] == _alone(errors[1]).max_abs > 0.1


def test_a_rewrite_of_several_nodes_is_run_from_values_of_the_original():
    before = _before()
    rewriter = Rewriter(before)
    doubled = rewriter.replace("mul", aten.mul.Tensor, 0, (1.0,))
    with rewriter.graph.inserting_after(doubled):
        again = rewriter.graph.call_function(aten.mul.Tensor, (doubled, 2.0))
    again.meta["val"] = doubled.meta["val"]
    doubled.replace_all_uses_with(again, delete_user_cb=lambda user: user is not again)
    errors = step_errors(before, rewriter.program, [(1, "mul", again.name)])
    assert _alone(errors[0]).verdict == "equal"
    assert _alone(errors[0]).elements == 24
    assert _in_the_run(errors[0]).verdict == "equal"


def test_a_node_that_a_later_rewrite_took_away_says_so():
    before = _before()
    rewriter = Rewriter(before)
    rewriter.replace("relu", aten.clamp_min.default, 0, (0.0,))
    errors = step_errors(before, rewriter.program, [*rewriter.mapping, (2, "add", "gone"), (3, "add", "submod_1/add")])
    assert errors[1].isolated is None
    assert errors[1].propagated is None
    assert "gone is not in both programs" in errors[1].why
    assert "submod_1/add is not in both programs" in errors[2].why
    frame = step_frame(errors)
    assert list(frame["verdict"]) == ["equal", "not measured", "not measured"]
    assert math.isnan(frame.loc[1, "isolated_sqnr_db"])


def test_values_are_not_held_longer_than_needed():
    class Long(nn.Module):
        def forward(self, x):
            for _ in range(40):
                x = torch.relu(x + 1)
            return x

    import lowerscope.measure.by_step as module

    before = capture(Long(), (torch.randn(4),))
    rewriter = Rewriter(before)
    for node in [n.name for n in before.graph.nodes if n.target is aten.relu.default]:
        rewriter.replace(node, aten.clamp_min.default, 0, (0.0,))
    held = []
    take = module._Held.take

    def watched(self, name):
        value = take(self, name)
        held.append(len(self._values))
        return value

    module._Held.take = watched
    try:
        errors = step_errors(before, rewriter.program, rewriter.mapping)
    finally:
        module._Held.take = take
    assert len(errors) == 40
    assert all(_alone(error).verdict == "equal" for error in errors)
    assert max(held) <= 2


def test_values_that_the_original_overwrites_are_kept_as_they_were():
    class InPlace(nn.Module):
        def forward(self, x):
            y = x + 1
            return y.mul_(3) - 1

    before = capture(InPlace(), (torch.randn(4),))
    after = Program(before.exported_program.run_decompositions())
    names = [n.name for n in after.graph.nodes if n.op == "call_function"]
    add, product = names[0], names[1]
    errors = step_errors(before, after, [(1, "mul_", product), (2, "add", add)])
    assert [_in_the_run(error).verdict for error in errors] == ["equal", "equal"]


def test_it_can_be_cancelled():
    before = _before()
    with pytest.raises(Cancelled):
        step_errors(before, before, [(1, "add", "add")], cancelled=lambda: True)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        with torch.no_grad():
            assert self.norm.running_mean is not None
            assert self.norm.running_var is not None
            self.norm.running_mean.uniform_(-0.5, 0.5)
            self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.norm(self.first(x)))) + x)


def test_every_step_of_a_lowering_is_measured_though_later_ones_build_on_it():
    program = capture(Block().eval(), (torch.randn(1, 4, 8, 8),))
    lowering = lower(program, "vulkan")
    errors = lowering_errors(lowering)
    assert [error.step for error in errors] == [step.number for step in lowering.steps]
    patterns = {step.number: step.pattern for step in lowering.steps}
    assert {"core_aten", "fold_batch_norm", "conv2d_with_epilogue"} <= set(patterns.values())
    for error in errors:
        assert _alone(error).agrees, patterns[error.step]
        assert _in_the_run(error).agrees, patterns[error.step]
    fold = next(error for error in errors if patterns[error.step] == "fold_batch_norm")
    assert _alone(fold).different > 0
    later = [pair for pair in step_pairs(lowering.steps) if pair[0] > fold.step]
    assert {before for _, before, _ in later} <= {node.name for node in program.graph.nodes}


def test_it_tells_of_the_rewrites_within_a_stage_too_and_ends_with_all_of_them():
    net = nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, 1), nn.Hardswish()) for _ in range(80)))
    lowering = lower(capture(net.eval(), (torch.randn(1, 4, 2, 2),)), "vulkan")
    told: list[tuple[int, int]] = []
    lowering_errors(lowering, progress=lambda done, total: told.append((done, total)))
    steps = len(lowering.steps)
    assert len([s for s in lowering.stages if s.last > s.first]) < 10 < len(told) <= 101
    assert told == sorted(set(told))
    assert {total for _, total in told} == {steps}
    assert told[-1][0] >= 0.99 * steps - 1


def test_a_step_on_random_numbers_is_not_called_wrong():
    program = capture(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU()).train(), (torch.randn(8, 4),))
    errors = lowering_errors(lower(program, "vulkan"))
    dropout = next(error for error in errors if error.before == "dropout")
    assert _in_the_run(dropout).verdict == _alone(dropout).verdict == "nondeterministic"
    assert not any(_alone(error).verdict == "different" for error in errors)


class Branch(nn.Module):
    """relu(norm(conv(x))) in a branch, under no_grad or in a loop's body."""

    def __init__(self, where: str):
        super().__init__()
        self.block, self.where = Block(), where

    def forward(self, x):
        if self.where == "no_grad":
            with torch.no_grad():
                y = self.block(x)
            return y.sin()
        if self.where == "while_loop":
            return torch.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, self.block(x)), (torch.tensor(0), x))
        if self.where == "scan":
            return scan(lambda carry, x: (self.block(carry) + x, x * 2), x, torch.stack([x, x.sin()]), dim=0)
        return torch.cond(x.sum() > 0, self.block, lambda t: torch.sigmoid(t.cos()), (x,))


def _branch(where: str):
    with torch.enable_grad():
        program = capture(Branch(where).eval(), (torch.ones(1, 4, 8, 8),))
    return lower(program, "vulkan")


@pytest.mark.parametrize(("where", "runs"), [("cond", 1), ("no_grad", 1), ("while_loop", 3), ("scan", 2)])
def test_a_step_inside_a_sub_graph_has_both_errors(where, runs):
    lowering = _branch(where)
    errors = lowering_errors(lowering, (torch.rand(1, 4, 8, 8),))
    patterns = {step.number: step.pattern for step in lowering.steps}
    inside = [error for error in errors if "/" in error.before]
    assert {"core_aten", "fold_batch_norm", "conv2d_with_epilogue"} <= {patterns[error.step] for error in inside}
    for error in inside:
        assert _alone(error).agrees, patterns[error.step]
        assert _in_the_run(error).agrees, patterns[error.step]
        assert error.runs == runs
        assert not math.isnan(error.oracle_ratio)
    fold = next(error for error in inside if patterns[error.step] == "fold_batch_norm")
    assert 0 < _alone(fold).max_abs < 1e-5
    assert ("in the first of" in step_frame([fold]).loc[0, "why"]) == (runs > 1)


@pytest.mark.parametrize("where", ["cond", "no_grad", "while_loop", "scan"])
def test_the_wrong_rewrite_inside_a_sub_graph_is_told_from_those_after_it(where):
    lowering = _branch(where)
    wrong = copy.deepcopy(lowering.program.exported_program)
    graphs = [m.graph for m in wrong.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    fused = next(n for graph in graphs for n in graph.nodes if n.target is EPILOGUE and n.args[0].op == "placeholder")
    source = fused.args[0]
    with fused.graph.inserting_before(fused):  # what was relu(norm(conv(x))) is now of -x
        negated = fused.graph.call_function(aten.neg.default, (source,))
    negated.meta["val"] = source.meta["val"]
    fused.args = (negated, *fused.args[1:])
    mapping = [pair for pair in step_pairs(lowering.steps) if "/" in pair[1]]
    errors = step_errors(lowering.before, Program(wrong), mapping, (torch.rand(1, 4, 8, 8),))
    at = {error.after.rpartition("/")[2]: error for error in errors if error.isolated is not None}
    assert _alone(at[fused.name]).verdict == "different"
    later = [e for name, e in at.items() if name != fused.name and _in_the_run(e).verdict == "different"]
    assert later, "the error is handed on"
    assert all(_alone(error).agrees for error in later)


def test_a_sub_graph_that_only_one_program_has_says_so():
    lowering = _branch("cond")
    inside = [pair for pair in step_pairs(lowering.steps) if "/" in pair[1]]
    moved = [(step, before, after.replace("true_graph_0/", "submod_9/")) for step, before, after in inside]
    errors = step_errors(lowering.before, lowering.program, moved)
    assert {error.why for error in errors} == {
        "true_graph_0 is not a sub-graph of both programs: a rewrite took it away"
    }


def test_a_branch_that_is_not_taken_says_so():
    lowering = _branch("cond")
    frame = step_frame(lowering_errors(lowering, (-torch.rand(1, 4, 8, 8),)))
    inside = frame.loc[[name.startswith("true_graph_0/") for name in frame["before"]]]
    assert len(inside) > 2
    assert set(inside["verdict"]) == {"not measured"}
    assert all("the original does not run true_graph_0 on these inputs" in why for why in inside["why"])
