"""Comparing two lowerings: what is applied in the one only, and the condition that is at fault."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lowerscope
from lowerscope.errors import LowerscopeError, UnknownNameError
from lowerscope.lowering import lower
from lowerscope.program import capture
from lowerscope.recipe import Recipe
from lowerscope.session import Session
from tests.engine.nets import mixed
from tests.engine.test_why import EPILOGUE


class Net(nn.Module):
    """Two convolutions with a relu each; `today` the second one's value is read twice."""

    def __init__(self, today: bool = False):
        super().__init__()
        self.a, self.b, self.today = nn.Conv2d(3, 3, 3), nn.Conv2d(3, 3, 3), today

    def forward(self, x):
        y = self.b(self.a(x).relu())
        return (y.relu(), y.sigmoid()) if self.today else y.relu()


def net(today: bool = False, batch: int = 1):
    return capture(Net(today).eval(), (torch.randn(batch, 3, 9, 9),))


def test_fused_yesterday_not_today():
    frame = lowerscope.compare(net(), net(today=True))
    rows = frame[frame.pattern == EPILOGUE]
    assert len(rows) == 1
    row = rows.iloc[0]
    assert (row.a, row.b, row.condition, row.node) == ("applied", "near miss", "one_user", "sigmoid")
    assert row.why == "the convolution has 2 users (relu_1, sigmoid), expected 1 user"
    assert row.nodes == ["conv2d_1", "relu_1"]


def test_the_other_way_round():
    frame = lowerscope.compare(net(today=True), net())
    row = frame[frame.pattern == EPILOGUE].iloc[0]
    assert (row.a, row.b, row.condition) == ("near miss", "applied", "one_user")


def test_another_batch_size():
    frame = lowerscope.compare(net(), net(batch=2))
    assert set(frame[frame.pattern == EPILOGUE].condition) == {"batch_1"}
    assert set(frame[(frame.b == "applied")].pattern) == {"conv_with_clamp"}


def test_sessions_recipes_lowerings_and_paths(tmp_path):
    program = net()
    off = Recipe("vulkan").disable(EPILOGUE)
    by_recipe = lowerscope.compare(Recipe("vulkan"), off, program=program)
    rows = by_recipe[by_recipe.pattern == EPILOGUE]
    assert list(rows.b) == ["disabled", "disabled"]
    assert list(rows.why) == ["disabled", "disabled"]
    assert set(by_recipe[by_recipe.a == "shadowed"].pattern) == {"conv_with_clamp"}
    by_session = lowerscope.compare(Session(program), Session(program, recipe=off))
    assert by_session.equals(by_recipe)
    assert lowerscope.compare(lower(program, "vulkan"), lower(program, off)).equals(by_recipe)
    path = program.save(tmp_path / "net.pt2")
    assert len(lowerscope.compare(path, program)) == 0


def test_targets_that_lack_a_pattern_say_so():
    program = mixed()
    frame = lowerscope.compare(Session(program, "vulkan"), Session(program, "xnnpack"))
    row = frame[frame.pattern == EPILOGUE].iloc[0]
    assert row.why == f"{EPILOGUE} is no pattern of target xnnpack"
    assert row.b == "no such anchor"


def test_what_is_the_same_is_no_row():
    frame = lowerscope.compare(mixed(), mixed())
    assert len(frame) == 0
    assert list(frame.columns) == ["pattern", "nodes", "a", "b", "condition", "node", "why"]


def test_renamed_nodes_are_found_by_their_module():
    class Renamed(Net):
        def forward(self, x):
            x = x.sigmoid()
            return super().forward(nn.functional.conv2d(x, torch.ones(3, 3, 1, 1)))

    frame = lowerscope.compare(net(), capture(Renamed(today=True).eval(), (torch.randn(1, 3, 9, 9),)))
    missing = frame[(frame.pattern == EPILOGUE) & (frame.a == "applied")]
    assert "one_user" in set(missing.condition)


def test_what_is_missing_is_said():
    with pytest.raises(LowerscopeError, match="give program="):
        lowerscope.compare(Recipe("vulkan"), Recipe("vulkan"))
    with pytest.raises(UnknownNameError, match="no target named"):
        lowerscope.compare(net(), net(), target="vulcan")
