"""How much longer a measurement will take, from how long what is done has taken."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

# Work that has taken less says nothing yet, and is mostly over before the estimate is read.
_SECONDS_BEFORE = 1.0


class TimeLeft:
    """An estimate in words, for work that tells how much of it is done.

    Args:
        done: how much of it was done at the start.
        of: of what it is an estimate, where that is not the whole work: ``" of this phase"``.
        clock: seconds, from any start; never running backwards.
    """

    def __init__(self, done: int = 0, of: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._of = clock, of
        self._began, self._first, self._last = clock(), done, done

    def said(self, sentence: str, done: int, total: int | None) -> str:
        """`sentence` with "about 12 s left" behind it, once a second has passed and something is done.

        When `done` goes back another piece of work has begun: it is timed from there.
        """
        left = self._left(done, total)
        return f"{sentence} · {left}" if left else sentence

    def _left(self, done: int, total: int | None) -> str:
        now = self._clock()
        if done < self._last:
            self._began, self._first = now, done
        self._last = done
        elapsed, finished = now - self._began, done - self._first
        if total is None or finished <= 0 or done >= total or elapsed < _SECONDS_BEFORE:
            return ""
        return f"about {in_words(elapsed / finished * (total - done))} left{self._of}"


def in_words(seconds: float) -> str:
    """A length of time as it is read: "1 s" at least, minutes from a minute and a half on."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min"


class Halves:
    """Counts work that takes two turns for each thing, and tells of it about a hundred times in all.

    Args:
        total: turns in all, two for each thing.
        progress: called with (things done, things in all); a thing of which one turn is done counts as half.
    """

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._total, self._progress = total, progress
        self._done = self._said = 0

    def one(self) -> None:
        """One more turn is done."""
        self.at_least(self._done + 1)

    def at_least(self, done: int) -> None:
        """So many turns are done, or not needed."""
        self._done = max(self._done, done)
        enough = max(2, math.ceil(self._total / 100))
        if self._progress is not None and self._done >= self._said + enough:
            self._said = self._done
            self._progress(self._done // 2, self._total // 2)
