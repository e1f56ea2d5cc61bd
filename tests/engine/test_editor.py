"""Editor: what it takes back is as if it had never been, names stay unique, and a step that fails leaves no trace."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lowerscope.editor import Editor
from lowerscope.errors import RewriteError
from lowerscope.lowering import Lowerer
from lowerscope.pattern import Match
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.session import Session
from lowerscope.why import why_not_all
from tests.engine.nets import mixed, state_of

aten = torch.ops.aten

PROGRAM = mixed()
RECIPES = [
    Recipe("vulkan"),
    Recipe("vulkan").disable("fold_batch_norm"),
    Recipe("vulkan").disable("core_aten"),
    Recipe("vulkan").disable("conv2d_with_epilogue"),
    Recipe("vulkan").skip(Skip(op="aten.hardswish")),
    Recipe("vulkan").skip(Skip(module="stem")),
    Recipe("webgpu").disable("conv1d_as_conv2d"),
    Recipe("xnnpack"),
    Recipe("qnn"),
]


class Adds(nn.Module):
    def forward(self, x):
        return ((x + 1) * 2).relu() + x


def editor() -> Editor:
    return Editor(capture(Adds(), (torch.randn(3),)))


def match_of(edit: Editor, *names: str) -> Match:
    nodes = tuple(edit.nodes[name] for name in names)
    return Match(nodes[0], nodes, nodes[-1])


def test_undoing_everything_gives_the_program_as_it_was():
    lowerer = Lowerer(PROGRAM)
    before = state_of(lowerer.editor)
    start = lowerer.editor.mark()
    lowerer.lower(Recipe("vulkan"))
    assert state_of(lowerer.editor) != before
    lowerer.editor.undo_to(start)
    assert state_of(lowerer.editor) == before


@settings(max_examples=12)
@given(st.lists(st.sampled_from(range(len(RECIPES))), min_size=2, max_size=6))
def test_toggling_back_and_forth_equals_a_fresh_lowering(places):
    lowerer = Lowerer(PROGRAM)
    for place in places:
        lowerer.forget()
        lowering = lowerer.lower(RECIPES[place])
    fresh = Lowerer(PROGRAM)
    expected = fresh.lower(RECIPES[places[-1]])
    assert lowering.steps == expected.steps
    assert {k: (v.outcome, v.reason, v.nodes, v.origins) for k, v in lowering.verdicts.items()} == {
        k: (v.outcome, v.reason, v.nodes, v.origins) for k, v in expected.verdicts.items()
    }
    assert state_of(lowerer.editor_after(RECIPES[places[-1]])) == state_of(fresh.editor)


def test_at_every_step_taken_back_the_graph_holds_what_the_ledger_says():
    lowerer = Lowerer(PROGRAM)
    edit = lowerer.editor
    before = state_of(edit)
    lowering = lowerer.lower(Recipe("vulkan"))
    inputs = {(e.source, e.target): e for e in lowering.ledger.edges()}
    for step in range(len(lowering.steps), -1, -1):
        edit.undo_to(edit.mark_after(step))
        assert set(edit.nodes) == {r.id for r in lowering.ledger.alive_at(step)}
        for id, node in edit.nodes.items():
            for source in node.all_input_nodes:
                edge = inputs[edit.id_of(source), id]
                assert edge.born <= step and (edge.died is None or edge.died > step)  # noqa: PT018
    assert state_of(edit) == before


def test_a_name_never_stands_for_two_nodes():
    edit = editor()
    for _ in range(3):
        output = next(n for n in edit.nodes.values() if n.op == "output").args[0][0]  # type: ignore[index]
        assert isinstance(output, torch.fx.Node)
        with edit.rewriting(match_of(edit, output.name)):
            edit.finish(edit.call(aten.add.Tensor, *output.args))
    records = edit.ledger.records
    assert len([r for r in records.values() if str(r.target) == "aten.add.Tensor"]) == 5
    assert all(id == r.id for id, r in records.items())
    assert set(edit.nodes) == {r.id for r in edit.ledger.alive_at(edit.step)}


def test_a_step_writes_lives_and_provenance():
    edit = editor()
    with edit.rewriting(match_of(edit, "mul", "relu")):
        new = edit.call(aten.relu.default, edit.nodes["add"], name="fused")
        gone, made = edit.finish(new)
    assert set(gone) == {"mul", "relu"}
    assert made == (new.name,)
    ledger = edit.ledger
    assert ledger.origin(new.name) == ("mul", "relu")
    assert ledger.became("mul") == ledger.became("relu") == (new.name,)
    assert (ledger.records["relu"].born, ledger.records["relu"].died) == (0, 1)
    assert ledger.records[new.name].born == 1
    assert edit.nodes["add_1"].args[0] is new


def test_a_value_that_was_read_by_others_stays_when_a_match_is_replaced():
    edit = editor()
    with edit.rewriting(match_of(edit, "add", "mul")):
        edit.finish(edit.call(aten.mul.Tensor, edit.nodes["x"], 2))
    assert "add" not in edit.nodes
    assert edit.nodes["add_1"].args[1] is edit.nodes["x"]


def test_only_some_readers_are_redirected():
    edit = editor()
    with edit.rewriting(match_of(edit, "add")):
        new = edit.call(aten.relu.default, edit.nodes["x"])
        edit.replace(edit.nodes["x"], new, readers=[edit.nodes["add_1"]])
        edit.finish(None)
    assert edit.nodes["add_1"].args[1] is new
    assert edit.nodes["add"].args[0] is edit.nodes["x"]


def test_what_describes_a_rank_or_an_axis_order_is_not_inherited():
    edit = editor()
    edit.nodes["mul"].meta.update(dim_order=(0,), custom={"mine": 1})
    with edit.rewriting(match_of(edit, "mul")):
        new = edit.call(aten.unsqueeze.default, edit.nodes["add"], 0)
        edit.finish(edit.call(aten.squeeze.dims, new, [0]))
    assert "dim_order" not in new.meta
    assert new.meta["custom"] == {"mine": 1}
    assert new.meta["val"].shape == (1, 3)


def test_a_step_that_is_left_by_an_exception_leaves_no_trace():
    edit = editor()
    before = state_of(edit)

    def step():
        with edit.rewriting(match_of(edit, "mul", "relu")):
            new = edit.call(aten.relu.default, edit.nodes["x"])
            edit.replace(edit.nodes["relu"], new)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        step()
    assert state_of(edit) == before


def test_a_step_that_changes_nothing_is_refused():
    edit = editor()
    before = state_of(edit)
    with pytest.raises(RewriteError, match="the rewrite changed nothing"), edit.rewriting(match_of(edit, "mul")):
        edit.finish(edit.nodes["mul"])
    assert state_of(edit) == before


def test_nodes_are_made_inside_a_step_only():
    edit = editor()
    with pytest.raises(RewriteError, match="only made inside a rewrite"):
        edit.call(aten.relu.default, edit.nodes["x"])


# ---------------------------------------------------------------------- constants
class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.register_buffer("kept", torch.randn(3))
        self.register_buffer("passing", torch.randn(3), persistent=False)

    def forward(self, x):
        return (x * self.weight + self.kept) * self.passing + torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("like", "name", "key", "held_by"),
    [
        ("p_weight", "p_weight_twice", "weight_twice", "state_dict"),
        ("b_kept", "b_kept_twice", "kept_twice", "state_dict"),
        ("b_passing", "b_passing_twice", "passing_twice", "constants"),
        ("c_lifted_tensor_0", "c_lifted_tensor_0_twice", "lifted_tensor_0_twice", "constants"),
    ],
)
def test_a_constant_is_named_kept_and_typed_as_export_does(like, name, key, held_by):
    from lowerscope.snapshot import take_snapshot

    edit = Editor(capture(Constants(), (torch.randn(3),)))
    user = next(iter(edit.nodes[like].users))
    with edit.rewriting(match_of(edit, user.name)):
        made = edit.constant(lambda: edit.constant_value(edit.nodes[like]) * 2, like=edit.nodes[like], suffix="twice")
        again = edit.constant(lambda: torch.zeros(3), like=edit.nodes[like], suffix="twice")
        args = [made if a is edit.nodes[like] else a for a in user.args]
        edit.finish(edit.call(user.target, *args))
    assert made is again
    assert made.name == name
    program: Program = take_snapshot(edit, "changed")
    program.exported_program.validate()
    assert program.constant_kind(name) == edit.program.constant_kind(like)
    assert like not in program.constants
    assert key in getattr(program.exported_program, held_by)
    x = torch.randn(3)
    assert torch.equal(program.exported_program.module()(x), _by_hand(edit.program, like, x))


def _by_hand(program: Program, doubled: str, x: torch.Tensor) -> torch.Tensor:
    value = {n: t * 2 if n == doubled else t for n, t in program.constants.items()}
    return (x * value["p_weight"] + value["b_kept"]) * value["b_passing"] + value["c_lifted_tensor_0"]


def test_a_constant_like_an_input_is_refused():
    edit = editor()
    with pytest.raises(RewriteError, match="'x' is no constant"), edit.rewriting(match_of(edit, "add")):
        edit.constant(torch.zeros(1), like=edit.nodes["x"], suffix="folded")


def test_a_buffer_that_the_program_writes_to_is_no_constant():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count += 1
            return x * self.count

    edit = Lowerer(capture(Counts(), (torch.randn(3),))).editor
    assert not edit.is_constant(edit.nodes["b_count"])
    with pytest.raises(RewriteError, match="is not a constant"):
        edit.constant_value(edit.nodes["b_count"])


def test_a_constant_of_a_module_with_a_name_beyond_ascii_is_called_the_same_in_graph_and_ledger():
    net = nn.Sequential()
    for name in ("слой 1", "層"):
        net.add_module(name, nn.Linear(2, 2))
    lowering = Session(capture(net.eval(), (torch.rand(1, 2),)), "vulkan").lowering
    made = [id for id, record in lowering.ledger.records.items() if id.endswith("_folded")]
    assert len(made) == 2
    assert set(made) <= {node.name for node in lowering.program.graph.nodes}
    for id in lowering.ledger.records:
        assert why_not_all(lowering, id)
