"""The time that a measurement has left, on a clock that the test moves."""

from __future__ import annotations

import pytest

from lowerscope.measure.time_left import TimeLeft, in_words


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_follows_from_what_is_done_and_how_long_that_took():
    clock = Clock()
    left = TimeLeft(clock=clock)
    clock.now += 6
    assert left.said("run 2", 2, 10) == "run 2 · about 24 s left"
    clock.now += 2
    assert left.said("run 4", 4, 10) == "run 4 · about 12 s left"


def test_nothing_is_said_before_a_second_has_passed_nor_without_a_total_nor_at_the_end():
    clock = Clock()
    left = TimeLeft(clock=clock)
    clock.now += 0.9
    assert left.said("run 1", 1, 3) == "run 1"
    clock.now += 5
    assert left.said("run 2", 2, None) == "run 2"
    assert left.said("run 0", 2, 2) == "run 0"


def test_another_phase_is_timed_from_its_own_start():
    clock = Clock()
    left = TimeLeft(of=" of this phase", clock=clock)
    clock.now += 50
    assert left.said("lowering", 1, 2) == "lowering · about 50 s left of this phase"
    clock.now += 50
    assert left.said("running", 0, 20) == "running"
    clock.now += 2
    assert left.said("running", 4, 20) == "running · about 8 s left of this phase"


def test_what_was_done_at_the_start_took_none_of_the_time():
    clock = Clock()
    left = TimeLeft(3, clock=clock)
    clock.now += 4
    assert left.said("stage", 5, 10) == "stage · about 10 s left"


@pytest.mark.parametrize(("seconds", "words"), [(0.01, "1 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min")])
def test_seconds_are_said_up_to_a_minute_and_a_half(seconds, words):
    assert in_words(seconds) == words
