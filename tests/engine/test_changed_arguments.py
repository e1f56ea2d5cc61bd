"""A rewrite that changes a literal, or the order of inputs, in place: ledger, scene and inspector tell it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from lowerscope.check import Check, Condition
from lowerscope.editor import Editor
from lowerscope.ledger import Ref
from lowerscope.measure.parity import parity
from lowerscope.pattern import Kind, Match, Pattern, pattern
from lowerscope.program import capture
from lowerscope.scene import SceneMaker, make_scene
from lowerscope.session import Session
from lowerscope_widgets.answers import inspection
from tests.engine.scenes import same_scene

aten = torch.ops.aten
pytestmark = pytest.mark.usefixtures("own")

Change = Callable[[Editor, torch.fx.Node], None]


class Net(nn.Module):
    """softmax(x + y, last axis) * 2."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.add(x, y, alpha=1), -1) * 2


def session(op: torch._ops.OpOverload, change: Change, *, returns: bool = False) -> Session:
    """A session on `Net` with a pattern that changes the calls of `op`; what its rewrite returns: the node itself, or None."""

    @pattern("vulkan", after=["core_aten"])
    class Changing(Pattern):
        """f(x) = f(x), otherwise written."""

        name, kind, anchors = "changing", Kind.DECOMPOSITION, (op,)
        conditions = (Condition("one_user", "it has one user"),)

        def match(self, anchor: torch.fx.Node, check: Check) -> Match:
            check.that("one_user", len(anchor.users) == 1, at=anchor)
            return Match(anchor, (anchor,), anchor)

        def rewrite(self, match: Match, edit: Editor) -> torch.fx.Node | None:
            change(edit, match.anchor)
            return match.anchor if returns else None

    program = capture(Net(), (torch.rand(2, 3), torch.rand(2, 3)), name="net")
    return Session(program, target="vulkan")


def other_axis(edit: Editor, node: torch.fx.Node) -> None:
    edit.set_args(node, (node.args[0], 1, *node.args[2:]), node.kwargs)


def swapped(edit: Editor, node: torch.fx.Node) -> None:
    edit.set_args(node, (node.args[1], node.args[0]), node.kwargs)


def changes(made: Session) -> list[tuple[str, int]]:
    scene = make_scene(made.lowering)
    ids = scene.texts("nodes", "id")
    table = scene.tables["changes"]
    return [(ids[node], step) for node, step in zip(table["node"].tolist(), table["step"].tolist(), strict=True)]


@pytest.mark.parametrize("returns", [False, True])
def test_a_changed_literal_is_in_the_ledger_and_the_scene(returns: bool) -> None:
    made = session(aten._softmax.default, other_axis, returns=returns)
    [step] = [step for step in made.lowering.steps if step.pattern == "changing"]
    [former] = made.lowering.ledger.former
    node = former.node
    record = made.lowering.ledger.records[node]
    assert (former.step, former.args[1], record.args[1]) == (step.number, -1, 1)
    assert former.of(record).args == former.args
    assert changes(made) == [(node, step.number)]
    assert not any(edge.born == step.number for edge in made.lowering.ledger.edges()), "no edge tells it"
    assert parity(made.program, made.lowering.program).verdict == "equal"


def test_the_box_of_a_changed_node_shows_both_literals() -> None:
    made = session(aten._softmax.default, other_axis)
    scene = make_scene(made.lowering)
    row = scene.texts("nodes", "id").index(made.lowering.ledger.former[0].node)
    assert scene.texts("nodes", "detail")[row] == "-1, False → 1, False"


def test_inputs_in_another_order_are_a_change_though_every_edge_stays() -> None:
    made = session(aten.add.Tensor, swapped)
    [former] = made.lowering.ledger.former
    assert former.args == (Ref("x"), Ref("y"))
    assert made.lowering.ledger.records[former.node].args == (Ref("y"), Ref("x"))
    assert [node for node, _ in changes(made)] == [former.node]


def test_the_inspector_says_what_an_argument_was_and_until_when() -> None:
    made = session(aten._softmax.default, other_axis)
    [former] = made.lowering.ledger.former
    said = {one["name"]: one["text"] for one in inspection(made.lowering, former.node)["arguments"]}
    assert said["dim"] == f"1, -1 until step {former.step}"
    assert said["half_to_float"] == "False"


def test_taking_the_step_back_forgets_the_change() -> None:
    made = session(aten._softmax.default, other_axis)
    kept = made.lowering
    made.disable("changing")
    assert made.lowering.ledger.former == []
    assert changes(made) == []
    assert len(kept.ledger.former) == 1, "a lowering is a value"
    made.undo()
    assert len(changes(made)) == 1


def test_what_no_rewrite_changed_in_place_is_not_among_the_changes() -> None:
    program = capture(nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU()).eval(), (torch.rand(1, 1, 2, 2),))
    made = Session(program, target="vulkan")
    assert made.lowering.steps
    assert changes(made) == []


def test_a_view_that_goes_on_marks_the_change_and_takes_the_mark_away() -> None:
    made, maker = session(aten._softmax.default, other_axis), SceneMaker()
    for switch in (made.disable, made.enable, made.disable):
        maker.scene(made.lowering)
        switch("changing")
        fresh = SceneMaker()
        fresh.scene(made.lowering)
        same_scene(maker.scene(made.lowering), fresh.scene(made.lowering))
