"""Lowering: a value that stays, with provenance both ways, whose program is valid, saves, loads and runs."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lowerscope.errors import LowerscopeError, UnknownNameError
from lowerscope.functional import functional_program
from lowerscope.loading import load
from lowerscope.lowering import Lowerer, lower
from lowerscope.measure.counts import count_ops
from lowerscope.measure.parity import parity
from lowerscope.pattern import REGISTRY
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.target import pipeline
from lowerscope.verdict import Outcome
from sample_models import dsr
from tests.engine.nets import mixed

TARGETS = ["vulkan", "webgpu", "xnnpack", "qnn", "ort-webgpu", "ethos-u"]
PROGRAM = mixed()


def contents(program: Program) -> tuple:
    """The graph as text with its metadata, and the constants with their memory: what must not change."""
    nodes = [
        (n.op, n.name, str(n.target), str(n.args), str(n.kwargs), sorted(n.meta), id(n.meta.get("val")))
        for m in program.graph_module.modules()
        if isinstance(m, torch.fx.GraphModule)
        for n in m.graph.nodes
    ]
    signature = copy.deepcopy(program.exported_program.graph_signature)
    tensors = {k: (t.data_ptr(), t._version, t.clone()) for k, t in program.constants.items()}
    return nodes, str(signature), list(program.exported_program.state_dict), tensors


def assert_unchanged(before: tuple, after: tuple) -> None:
    assert before[:3] == after[:3]
    assert set(before[3]) == set(after[3])
    for name, (pointer, version, value) in before[3].items():
        assert after[3][name][:2] == (pointer, version)
        assert torch.equal(value, after[3][name][2])


@pytest.mark.parametrize("target", TARGETS)
def test_the_lowered_program_is_valid_saves_loads_and_runs(target, tmp_path):
    before = contents(PROGRAM)
    lowering = lower(PROGRAM, target)
    program = lowering.program
    program.exported_program.validate()
    assert parity(PROGRAM, program, oracle=False).agrees
    args, _ = PROGRAM.inputs()
    expected = program.exported_program.module()(*args)
    again = load(program.save(tmp_path / "lowered.pt2"))
    for one, other in zip(again.exported_program.module()(*args), expected, strict=True):
        assert torch.equal(one, other)
    assert_unchanged(before, contents(PROGRAM))


def test_a_lowered_program_can_be_decomposed_again():
    args, _ = PROGRAM.inputs()
    expected = PROGRAM.exported_program.module()(*args)
    again = lower(PROGRAM, "qnn").program.exported_program.run_decompositions()
    for one, other in zip(again.module()(*args), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_new_constants_of_equal_shapes_are_not_taken_for_one_another():
    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            for place in range(3):
                self.register_buffer(f"w{place}", torch.randn(2, 2, 3), persistent=place > 0)

        def forward(self, x):
            for weight in self.buffers():
                x = F.conv1d(x, weight)
            return x

    module, x = Rows(), torch.randn(1, 2, 9)
    lowered = lower(capture(module, (x,)), "qnn").program.exported_program
    assert len(lowered.graph_signature.buffers) == 3
    torch.testing.assert_close(lowered.module()(x), module(x))
    torch.testing.assert_close(lowered.run_decompositions().module()(x), module(x))


def test_an_old_lowering_stays_intact_whatever_is_toggled_afterwards():
    lowerer = Lowerer(PROGRAM)
    old = lowerer.lower(Recipe("vulkan"))
    steps, verdicts = old.steps, dict(old.verdicts)
    records = {id: (r.born, r.died) for id, r in old.ledger.records.items()}
    new = lowerer.lower(Recipe("vulkan").disable("conv2d_with_epilogue", "fold_batch_norm"))
    lowerer.lower(Recipe("qnn"))
    assert (old.steps, dict(old.verdicts)) == (steps, verdicts)
    assert {id: (r.born, r.died) for id, r in old.ledger.records.items()} == records
    assert "et_vk.conv2d.with_epilogue" in count_ops(old.program)
    assert "et_vk.conv2d.with_epilogue" not in count_ops(new.program)
    assert parity(PROGRAM, old.program, oracle=False).agrees


def test_the_program_at_every_step_is_valid_and_agrees():
    lowering = lower(PROGRAM, "vulkan")
    for step in range(0, len(lowering.steps) + 1, 6):
        program = lowering.program_at(step)
        program.exported_program.validate()
        assert parity(PROGRAM, program, oracle=False).agrees
    assert lowering.program_at(0) is lowering.source is lowering.before
    assert lowering.program_at(len(lowering.steps)) is lowering.program
    with pytest.raises(UnknownNameError, match="no step named '999'"):
        lowering.program_at(999)


# ---------------------------------------------------------------------- provenance
def test_every_node_of_the_lowered_program_comes_from_the_original_and_back():
    lowering = lower(PROGRAM, "vulkan")
    original = {r.id for r in lowering.ledger.alive_at(0)}
    for record in lowering.ledger.alive_at(len(lowering.steps)):
        origin = lowering.origin(record.id)
        assert set(origin) <= original
        if record.op == "call_function":
            assert all(record.id in lowering.became(name) for name in origin)


def test_a_fused_node_comes_from_all_that_it_took():
    program = capture(dsr.Skip(2).eval(), (torch.randn(1, 2, 4, 4),))
    lowering = lower(program, "vulkan")
    (fused,) = (n for n in lowering.program.graph.nodes if n.op == "call_function")
    assert lowering.origin(fused) == lowering.origin(fused.name) == ("add", "conv2d", "mul", "relu")
    for name in ("add", "conv2d", "mul", "relu"):
        assert lowering.became(name) == (fused.name,)


def test_a_decomposed_node_became_all_that_it_was_written_as():
    class Swish(nn.Module):
        def forward(self, x):
            return F.hardswish(x)

    lowering = lower(capture(Swish(), (torch.randn(3),)), "qnn")
    made = {n.name for n in lowering.program.graph.nodes if n.op == "call_function"}
    assert len(made) > 3
    assert set(lowering.became("hardswish")) == made
    assert all(lowering.origin(name) == ("hardswish",) for name in made)


def test_a_new_constant_comes_from_the_one_it_was_made_of():
    lowering = lower(PROGRAM, "vulkan")
    assert "p_row_weight" in lowering.origin("p_row_weight_2d")
    assert "p_row_weight_2d" in lowering.became("p_row_weight")


def test_an_unknown_node_is_answered_with_the_closest_names():
    with pytest.raises(UnknownNameError, match=r"no node named 'conv2dd': .*'conv2d'"):
        lower(PROGRAM, "vulkan").origin("conv2dd")


# ---------------------------------------------------------------------- in-place programs, cancelling
def test_a_program_that_writes_where_others_read_is_made_functional_and_says_so():
    class Writes(nn.Module):
        def forward(self, x):
            y = x + 1
            y[:, :1].relu_()
            return y

    program = capture(Writes(), (torch.randn(2, 3),))
    lowering = lower(program, "vulkan")
    assert len(lowering.notes) == 1
    assert "writes into memory that others read" in lowering.notes[0]
    assert parity(program, lowering.program, oracle=False).agrees


def test_a_program_whose_modules_are_named_by_python_keywords_is_made_functional_too():
    class Keywords(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"class": nn.BatchNorm1d(4), "def": nn.Linear(4, 3)})
            self.parts_class = nn.Linear(3, 2)  # what "parts.class" would be spelled as

        def forward(self, x):
            y = self.parts["class"](x)
            y[:, :1].relu_()
            return self.parts_class(self.parts["def"](y))

    program = capture(Keywords(), (torch.randn(2, 4),))
    functional, (note,) = functional_program(program)
    assert "writes into memory that others read" in note
    assert {
        "p_parts_def_weight",
        "b_parts_class_running_mean",
    } <= functional.constants.keys() & program.constants.keys()
    made = functional.exported_program
    assert set(made.state_dict) == set(program.exported_program.state_dict)
    assert "parts.class.running_mean" in made.graph_signature.buffers_to_mutate.values()
    assert parity(program, lower(program, "vulkan").program, oracle=False).agrees


def test_a_written_buffer_is_still_written_after_lowering():
    class Counts(nn.Module):
        count: torch.Tensor

        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 1)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            return F.relu(self.conv(x)) * self.count

    program = capture(Counts().eval(), (torch.randn(1, 2, 3, 3),))
    lowering = lower(program, "vulkan")
    assert "et_vk.conv2d.with_epilogue" in count_ops(lowering.program)
    report = parity(program, lowering.program, oracle=False)
    assert report.agrees
    assert [row.output for row in report.rows] == ["out", "state count"]
    assert program.exported_program.state_dict["count"].item() == 0


def test_a_lowering_that_is_cancelled_leaves_a_lowerer_that_goes_on():
    class Enough(LowerscopeError):
        pass

    polls = []

    def polled():
        polls.append(1)
        if len(polls) == 4:
            raise Enough

    lowerer = Lowerer(PROGRAM)
    with pytest.raises(Enough):
        lowerer.lower(Recipe("vulkan"), polled)
    assert lowerer.lower(Recipe("vulkan")).steps == lower(PROGRAM, "vulkan").steps


def test_only_the_stages_from_the_changed_one_on_are_run_again():
    lowerer = Lowerer(PROGRAM)
    first = lowerer.lower(Recipe("vulkan"))
    kept = list(first.verdicts_of("core_aten"))
    second = lowerer.lower(Recipe("vulkan").disable("conv_with_clamp"))
    assert all(a is b for a, b in zip(kept, second.verdicts_of("core_aten"), strict=True))
    third = lowerer.lower(Recipe("vulkan").skip(Skip(op="aten.hardswish")))
    assert not all(a is b for a, b in zip(kept, third.verdicts_of("core_aten"), strict=True))


# ---------------------------------------------------------------------- dsr
def test_dsr_has_83_scaled_skips_and_no_mul_or_add_is_left():
    program = capture(*dsr.build())
    lowering = lower(program, "vulkan")
    found = list(lowering.verdicts_of("conv2d_with_epilogue"))
    scaled = [v for v in found if any(n.startswith("mul") for n in v.nodes)]
    assert len([v for v in scaled if v.outcome is Outcome.APPLIED]) == len(scaled) == dsr.SKIPS == 83
    counts = count_ops(lowering.program)
    assert not {"aten.mul.Tensor", "aten.add.Tensor", "aten.relu"} & set(counts)
    calls = [n for n in lowering.program.graph.nodes if "conv2d_with_epilogue" in str(n.target)]
    assert sum(n.args[10] is not None and n.args[11] == "add" for n in calls) == 83
    assert parity(program, lowering.program, oracle=False).agrees


@pytest.mark.parametrize(
    ("variant", "outcome", "failed", "fault"),
    [
        ("scale_1111", Outcome.APPLIED, "scale_shape", "p_detail_1_scale"),
        ("alpha_second", Outcome.NEAR_MISS, "operand_order", "add_61"),
        ("shared_mul", Outcome.APPLIED, "scale_one_user", "sub"),
    ],
)
def test_a_planted_variant_of_dsr_leaves_82_and_names_the_condition(variant, outcome, failed, fault):
    program = capture(*dsr.build(variant))
    lowering = lower(program, "vulkan")
    calls = [n for n in lowering.program.graph.nodes if "conv2d_with_epilogue" in str(n.target)]
    assert sum(n.args[10] is not None for n in calls) == 82
    planted = [
        v
        for v in lowering.verdicts_of("conv2d_with_epilogue")
        if (failure := v.record.failure()) and (failure.name, failure.node) == (failed, fault)
    ]
    assert [v.outcome for v in planted] == [outcome]
    assert lowering.ledger.records[planted[0].anchor].module == "detail.1.conv"
    assert parity(program, lowering.program, oracle=False).agrees


@pytest.mark.parametrize("target", TARGETS)
def test_a_pattern_put_in_from_another_target_finds_the_fields_of_its_device(target):
    here = {p.name for p in pipeline(target)}
    foreign = [p.name for p in REGISTRY if not p.yours and p.name not in here]
    assert foreign
    lowerer = Lowerer(PROGRAM)
    for name in foreign:
        # before what it must precede: at the end it may be refused
        later = next((p.name for p in pipeline(target) if name in p.after or p.name in REGISTRY.get(name).before), None)
        lowering = lowerer.lower(Recipe(target).insert(name, before=later))
        assert not [v.reason for v in lowering.verdicts.values() if v.outcome is Outcome.ERROR], name
        assert parity(PROGRAM, lowering.program, oracle=False).agrees, name


def test_a_recipe_lowered_lately_costs_nothing_and_its_program_is_the_same():
    lowerer = Lowerer(PROGRAM)
    on, off = Recipe("vulkan"), Recipe("vulkan").disable("conv2d_with_epilogue")
    first = lowerer.lower(on)
    lowerer.lower(off)
    polled: list[int] = []
    again = lowerer.lower(on, lambda: polled.append(1))
    assert not polled
    assert (again.steps, dict(again.verdicts)) == (first.steps, dict(first.verdicts))
    fresh = lower(PROGRAM, on)
    assert str(again.program.graph) == str(fresh.program.graph)
    lowerer.forget()
    lowerer.lower(off, lambda: polled.append(1))
    assert polled
