"""Fake runs of new nodes leave the program's symbolic sizes as they are."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from lowerscope.check import Condition
from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.pattern import REGISTRY, Kind, Match, Pattern, pattern
from lowerscope.program import Program, capture
from lowerscope.verdict import Outcome

aten = torch.ops.aten


class Relu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()


def dynamic() -> Program:
    return capture(Relu(), (torch.randn(2, 5),), None, ({1: Dim("n", min=2, max=40)},))


def environment(program: Program):
    (node,) = program.graph.find_nodes(op="placeholder")
    return node.meta["val"].fake_mode.shape_env, str(node.meta["val"].shape[1])


@pytest.fixture
def rewriting_as(request):
    """Register a pattern that puts `request.param(edit, x)` in the place of a relu."""

    @pattern("vulkan", after=["core_aten"])
    class InRelusPlace(Pattern):
        """relu(x) = what the test says"""

        name, kind, anchors = "in_relus_place", Kind.DECOMPOSITION, (aten.relu.default,)
        conditions = (Condition("always", "it is there"),)

        def match(self, anchor, check):
            check.that("always", True, at=anchor)
            return Match(anchor, (anchor,), anchor)

        def rewrite(self, match, edit):
            return request.param(edit, match.anchor.args[0])

    yield
    REGISTRY.remove(InRelusPlace.name)


def baked(edit, x):
    return edit.call(aten.relu.default, edit.call(aten.view.default, x, [2, 5]))


def padded(edit, x):
    wider = edit.call(aten.constant_pad_nd.default, x, [1, 0], 0.0)
    return edit.call(aten.slice.Tensor, edit.call(aten.relu.default, wider), 1, 1)


@pytest.mark.parametrize("rewriting_as", [baked], indirect=True)
def test_a_rewrite_that_fixes_a_symbolic_size_is_declined(rewriting_as):
    program = dynamic()
    env, symbol = environment(program)
    lowering = lower(program, "vulkan")
    verdict = lowering.verdicts["in_relus_place", "relu"]
    assert verdict.outcome is Outcome.DECLINED
    assert f"aten.view.default with these arguments holds for {symbol} = 5 alone" in verdict.reason
    assert not lowering.steps
    assert environment(program)[1] == symbol
    assert not env.replacements
    assert not env.guards


@pytest.mark.parametrize("rewriting_as", [padded], indirect=True)
def test_a_padded_symbolic_size_stays_one(rewriting_as):
    program = dynamic()
    env, symbol = environment(program)
    lowering = lower(program, "vulkan")
    assert [s.pattern for s in lowering.steps] == ["in_relus_place"]
    assert lowering.program.graph.find_nodes(op="call_function", target=aten.constant_pad_nd.default)
    assert not env.guards
    assert environment(program)[1] == symbol
    for size in (3, 9):
        assert parity(program, lowering.program, inputs=(torch.randn(2, size),), oracle=False).agrees
