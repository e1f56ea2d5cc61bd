"""culprits(): the rewrites to blame are found, all of them and no others, in few measurements."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowerscope.errors import MeasureError
from lowerscope.measure.blame import culprits
from lowerscope.measure.interpreter import Cancelled


class Lowering:
    """Agrees without its wrong rewrites; counts how often it was measured."""

    def __init__(self, wrong: set[int]) -> None:
        self.wrong, self.asked = wrong, []

    def agrees_without(self, left_out: frozenset[int]) -> bool:
        assert left_out not in self.asked, "no set is measured twice"
        self.asked.append(left_out)
        return self.wrong <= left_out


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=4))))
def test_exactly_the_wrong_ones_are_named(drawn):
    count, wrong = drawn
    lowering = Lowering(wrong)
    assert culprits(range(count), lowering.agrees_without) == sorted(wrong)


def test_one_among_a_thousand_takes_few_measurements_and_fewer_when_suspected():
    for wrong, limit in ((777, 2 * math.log2(1000) + 4), (0, math.log2(1000) + 4)):
        lowering = Lowering({wrong})
        assert culprits(range(1000), lowering.agrees_without) == [wrong]
        assert len(lowering.asked) <= limit


def test_either_of_two_is_enough_and_the_first_is_named():
    asked = []

    def agrees_without(left_out: frozenset[int]) -> bool:
        asked.append(left_out)
        return 3 in left_out or 7 in left_out

    assert culprits(range(10), agrees_without) == [3]
    assert culprits([7, *range(7)], agrees_without) == [7]


def test_nothing_is_wrong():
    lowering = Lowering(set())
    assert culprits(range(9), lowering.agrees_without) == []
    assert len(lowering.asked) == 1


def test_what_no_rewrite_causes_is_said():
    with pytest.raises(MeasureError, match="even without all 9 rewrites"):
        culprits(range(9), Lowering({99}).agrees_without)


def test_it_can_be_cancelled_and_tells_how_far_it_is():
    seen: list[int] = []
    with pytest.raises(Cancelled):
        culprits(
            range(9),
            Lowering({4}).agrees_without,
            progress=lambda done, _: seen.append(done),
            cancelled=lambda: len(seen) == 3,
        )
    assert seen == [1, 2, 3]


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_one_to_blame_takes_no_more_measurements_than_was_said(drawn):
    count, wrong = drawn
    seen: list[tuple[int, int]] = []
    culprits(range(count), Lowering({wrong}).agrees_without, progress=lambda *told: seen.append(told))
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert len(seen) <= seen[2 if len(seen) > 2 else -1][1]
    assert all(done <= total for done, total in seen)
