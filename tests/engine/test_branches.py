"""Branches and loops that rounding, or a rewrite, sends another way: parity and blame say so, and at which node."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lowerscope.by_example import pattern_from
from lowerscope.program import capture
from lowerscope.session import Session
from tests.engine.nets import Of

EVEN = torch.tensor([1.0, -1.0, 1.0, -1.0])  # the sum of its sines is 0: the last bit of one decides its sign
FLIPPED = "at cond the branch flipped: false_graph_0 before, true_graph_0 after"


pytestmark = pytest.mark.usefixtures("own")


def shifted(forward: Callable, by: float, given: torch.Tensor = EVEN) -> Session:
    """A session on `forward`, in which a pattern makes every sin larger by `by`."""
    pattern_from(torch.sin, lambda x: torch.sin(x) + by, [torch.zeros_like(given)], name="shifted")
    found = Session(capture(Of(forward), (given,)))
    assert found.patterns().loc["shifted", "applied"] == 1
    return found


def branch(y: torch.Tensor) -> torch.Tensor:
    return torch.cond(y.sum() > 0, lambda t: t + 5, lambda t: t - 5, (y,))


def test_a_branch_that_rounding_decides_is_named_with_its_node():
    found = shifted(lambda s, x: branch(torch.sin(x)), 1e-6)
    report = found.parity_report()
    assert [(row.verdict, row.why) for row in report.rows] == [("different", FLIPPED)]
    assert report.sentence.startswith("Different numbers in out: off by 10 at [")
    assert report.sentence.endswith(f"]; {FLIPPED}.")
    assert found.parity().why.item() == FLIPPED
    sentence = found.blame().sentence.item()
    assert f". A{FLIPPED[1:]}. Its own error is no more than 1." in sentence
    assert sentence.endswith("e-06: rounding has decided.")


def test_nothing_is_said_where_both_take_the_same_branch():
    report = shifted(lambda s, x: branch(torch.sin(x)), 1e-6).parity_report((torch.ones(4),))
    assert (report.verdict, report.rows[0].why, report.flips) == ("close", "", [])


def test_blame_does_not_put_down_to_rounding_what_is_a_wrong_rewrite():
    (sentence,) = shifted(lambda s, x: branch(torch.sin(x)), 1.0).blame().sentence
    assert FLIPPED[1:] in sentence
    assert "rounding" not in sentence


def test_only_outputs_behind_the_branch_are_put_down_to_it():
    def forward(s, x):
        y = torch.sin(x)
        return branch(y), y, x * 2

    report = shifted(forward, 0.5).parity_report()
    assert {row.output: row.why for row in report.rows} == {"out[0]": FLIPPED, "out[1]": "", "out[2]": ""}
    assert [row.verdict for row in report.rows] == ["different", "different", "equal"]


def test_state_behind_the_branch_is_put_down_to_it():
    class Keeps(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(4))

        def forward(self, x):
            y = torch.sin(x)
            self.kept.copy_(branch(y))  # type: ignore[operator]
            return y

    pattern_from(torch.sin, lambda x: torch.sin(x) + 1e-6, [EVEN], name="shifted")
    report = Session(capture(Keeps(), (EVEN,))).parity_report()
    assert {row.output: FLIPPED in row.why for row in report.rows} == {"out": False, "state kept": True}


def test_a_branch_within_a_branch_is_named_by_its_path_and_what_is_inside_a_flipped_one_is_not():
    def inner(t):
        return torch.cond(t.sum() > 0, branch, lambda t: t - 7, (t,))

    def forward(s, x):
        y = torch.sin(x)
        return torch.cond(y.sum() > -1, inner, lambda t: t.cos(), (y,))

    (row,) = shifted(forward, 1e-6).parity_report().rows
    assert row.why == "at true_graph_0/cond the branch flipped: false_graph_0 before, true_graph_0 after"


def test_a_branch_in_a_loop_says_in_how_many_runs_it_flipped():
    def turn(i, t):
        return i + 1, torch.cond(t.sum() * (i < 1) > 0, lambda t: t + 5, lambda t: t * 2, (t,))

    def forward(s, x):
        return torch.while_loop(lambda i, t: i < 3, turn, (torch.tensor(0), torch.sin(x)))

    row = shifted(forward, 1e-6).parity_report().rows[-1]
    at = "at while_loop_body_graph_0/cond the branch flipped in 1 of its 3 runs"
    assert row.why.endswith(f"{at}: false_graph_0 before, true_graph_0 after")


def test_a_loop_that_makes_another_number_of_turns_is_named():
    def forward(s, x):
        return torch.while_loop(lambda t: t.sum() < 2.5, lambda t: (t + 0.25,), (torch.sin(x),))

    (row,) = shifted(forward, -1e-3, torch.zeros(1)).parity_report().rows
    assert row.why == "at while_loop while_loop_body_graph_0 ran 10 times before, 11 times after"


def test_nan_behind_a_flipped_branch_is_still_said_first():
    def forward(s, x):
        y = torch.sin(x)
        return torch.cond(y.sum() > 0, lambda t: (t * 0 - 1).log(), lambda t: t - 5, (y,))

    sentence = shifted(forward, 1e-6).parity_report().sentence
    assert sentence.startswith("Broken: NaN places differ in out: 0 of 4 before, 4 after")
    assert sentence.endswith(f"; {FLIPPED}.")


def test_in_float16_the_original_itself_may_go_another_way_and_that_is_noted():
    big = torch.tensor([2048.0, 1.0, -2048.0])  # the sum, from the left, is 1 in float32 and 0 in float16

    def forward(s, x):
        y = torch.sin(x * 0) + x
        return torch.cond(y[0] + y[1] + y[2] > 0.5, lambda t: t + 5, lambda t: t - 5, (y,))

    found = Session(capture(Of(forward), (big,)))
    report = found.parity_report(dtype=torch.float16)
    at = "at cond the branch flipped: true_graph_0 in float32"
    assert f"the original itself takes another way in float16: {at}, false_graph_0 in float16" in report.notes
    assert report.flips == [f"{at} before, false_graph_0 in float16 after"]
