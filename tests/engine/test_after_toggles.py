"""What toggles once got wrong: each way is gone by one session, and its end is what a fresh lowering gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from lowerscope.check import Check, Condition
from lowerscope.editor import Editor
from lowerscope.errors import LowerscopeError
from lowerscope.lowering import Lowerer, lower
from lowerscope.measure.parity import parity
from lowerscope.pattern import Declined, Kind, Match, Pattern, pattern
from lowerscope.program import capture
from lowerscope.recipe import Recipe
from lowerscope.scene import SceneMaker, make_scene
from lowerscope.session import Session
from tests.engine.scenes import same_scene

aten = torch.ops.aten


class Shared(nn.Module):
    """One convolution, two batch norms."""

    def __init__(self, rank: int, transposed: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        kind = {1: nn.Conv1d, 2: nn.ConvTranspose2d if transposed else nn.Conv2d}[rank]
        self.w = kind(3, 4, 4, stride=2, padding=1)
        norm = nn.BatchNorm1d if rank == 1 else nn.BatchNorm2d
        self.a, self.b = norm(4), norm(4)
        for one, scale in ((self.a, 1.0), (self.b, 5.0)):
            one.weight = nn.Parameter(torch.full((4,), scale))
            one.running_var = torch.full((4,), 0.25 * scale)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.a(self.w(x)), self.b(self.w(y + 1))


@pytest.mark.parametrize(
    ("target", "rank", "transposed"), [("vulkan", 1, False), ("xnnpack", 2, True), ("vulkan", 2, False)]
)
def test_a_name_that_stands_for_another_fold_is_computed_from_anew(target: str, rank: int, transposed: bool) -> None:
    x = torch.randn(1, 3, *[8] * rank)
    program = capture(Shared(rank, transposed).eval(), (x, x + 1))
    session = Session(program, target)
    first = next(v for v in session.lowering.verdicts_of("fold_batch_norm") if v.matched)
    session.skip(pattern="fold_batch_norm", match=first.anchor)
    made = session.lowering.program
    names = {step.pattern for step in session.lowering.steps}
    assert "fold_batch_norm" in names, "the other one is folded"
    assert parity(program, made).agrees
    fresh = lower(program, session.recipe).program
    for name, constant in made.constants.items():
        assert torch.equal(constant, fresh.constants[name]), name


class Net(nn.Module):
    """relu(x y) + sin(x), in which core_aten finds nothing to do: what a toggle of others leaves as it was is the ledger."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.mm(x, y)) + torch.sin(x)


def net() -> Any:
    return capture(Net(), (torch.randn(4, 4), torch.randn(4, 4)))


def sines(**members: Any) -> None:
    """Register a pattern of this name on sin."""

    class Mine(Pattern):
        """sin(x) = sin(x)."""

        name, kind, anchors = "mine", Kind.FUSION, (aten.sin.default,)
        conditions = (Condition("is_big", "it is big"),)

        def match(self, anchor: torch.fx.Node, check: Check) -> Match | None:
            return Match(anchor, (anchor,), anchor)

        def rewrite(self, match: Match, edit: Editor) -> torch.fx.Node | Declined | None:
            return Declined("not today")

    pattern("vulkan", after=["core_aten"])(type("Mine", (Mine,), {"__doc__": Mine.__doc__, **members}))


@pytest.mark.usefixtures("own")
def test_a_view_follows_a_pattern_that_rewrites_nothing_and_is_redefined() -> None:
    session, maker = Session(net(), "vulkan"), SceneMaker()
    maker.scene(session.lowering)

    def miss(self: Pattern, anchor: torch.fx.Node, check: Check) -> None:
        check.that("is_big", False, at=anchor, expected="99", actual="8")

    said = []
    for members in ({"match": miss}, {}):
        sines(**members)
        session.refresh()
        scene, fresh = maker.scene(session.lowering), SceneMaker()
        fresh._palette, fresh.folding = maker._palette, maker.folding
        same_scene(scene, fresh.scene(session.lowering))
        said.append(next(row["summary"] for row in scene.header["patterns"] if row["name"] == "mine"))
    assert said == ["1 near", "1 declined"]


@pytest.mark.usefixtures("own")
def test_a_node_that_its_op_refused_leaves_nothing_behind() -> None:
    def rewrite(self: Pattern, match: Match, edit: Editor) -> torch.fx.Node:
        try:
            return edit.call(aten.mm.default, match.anchor, match.anchor.args[0].args[0])  # type: ignore[union-attr]
        except (LowerscopeError, RuntimeError, AttributeError, IndexError, TypeError):
            pass
        try:
            return edit.call(aten.mm.default, match.anchor, 3.0)
        except Exception:  # whatever torch raises
            return edit.call(aten.sin.default, match.anchor.args[0])

    sines(rewrite=rewrite)
    session = Session(net(), "vulkan")
    assert any(step.pattern == "mine" for step in session.lowering.steps)
    session.lowering.program.exported_program.validate()
    session.disable("mine")
    session.undo()
    session.disable("fold_constants")
    assert None not in session.lowering.ledger.records.values()
    make_scene(session.lowering)
    assert parity(session.program, session.lowering.program).agrees


@pytest.mark.usefixtures("own")
def test_a_fusion_of_ones_own_may_ask_what_is_kept() -> None:
    def match(self: Pattern, anchor: torch.fx.Node, check: Check) -> Match:
        kept = check.profile["keep"]
        check.that("is_big", "aten.sin" in kept, at=anchor, expected="sin is kept", actual=str(sorted(kept)))
        return Match(anchor, (anchor,), anchor)

    sines(match=match)
    session = Session(net(), "vulkan")
    verdict = lambda lowering: [str(v.outcome) for v in lowering.verdicts_of("mine")]  # noqa: E731
    assert verdict(session.lowering) == ["near miss"]
    session.keep("aten.sin")
    assert verdict(session.lowering) == verdict(lower(session.program, session.recipe)) == ["declined"]


def test_a_way_that_was_broken_off_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(1, 3, 8, 8)
    program = capture(Shared(2, False).eval(), (x, x + 1))
    lowerer = Lowerer(program)
    whole = lowerer.lower(Recipe("vulkan"))
    undo, calls, half = lowerer.editor._undo, [], len(lowerer.editor._journal) // 2
    assert half > 5

    def interrupted(change: tuple[Any, ...]) -> Any:
        calls.append(change)
        if len(calls) == half:
            raise KeyboardInterrupt
        return undo(change)

    monkeypatch.setattr(lowerer.editor, "_undo", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lowerer.lower(Recipe("vulkan").disable("core_aten"))
    monkeypatch.undo()
    lowerer.forget()
    again = lowerer.lower(Recipe("vulkan"))
    assert (again.steps, list(again.ledger.records)) == (whole.steps, list(whole.ledger.records))
    assert parity(program, again.program).agrees
