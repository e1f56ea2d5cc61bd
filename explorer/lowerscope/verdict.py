"""Verdicts: what became of one pattern at one anchor. Values: they hold ids and plain records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from lowerscope.check import Record
from lowerscope.pattern import Pattern
from lowerscope.sentences import failure_sentence


class Outcome(StrEnum):
    """What became of a pattern at an anchor."""

    APPLIED = "applied"
    DECLINED = "declined"
    SKIPPED = "skipped"
    DISABLED = "disabled"
    SHADOWED = "shadowed"
    NEAR_MISS = "near miss"
    NOTHING_TO_FUSE = "nothing to fuse"
    NO_ANCHOR = "no anchor"
    ERROR = "error"


#: Which outcome speaks first, of several that answer one question.
RANK = {
    Outcome.APPLIED: 0,
    Outcome.ERROR: 1,
    Outcome.DECLINED: 2,
    Outcome.SKIPPED: 3,
    Outcome.SHADOWED: 4,
    Outcome.DISABLED: 5,
    Outcome.NEAR_MISS: 6,
    Outcome.NOTHING_TO_FUSE: 7,
    Outcome.NO_ANCHOR: 8,
}


class Verdict(NamedTuple):
    """What became of `pattern` at `anchor`, on the graph as it was after step `met_at`.

    nodes: of a match the nodes it takes, of a miss those it had accepted so far (ids). origins: the original nodes those
    come from. said: why, where it is no condition that failed. record: the conditions as they were met. step: the step
    that applied it. by: (pattern, anchor) of the match that took its nodes. rule: the pattern itself, as it was: one of
    the user's may have been redefined since.
    """

    pattern: str
    anchor: str
    outcome: Outcome
    said: str
    record: Record
    nodes: tuple[str, ...]
    origins: tuple[str, ...]
    met_at: int
    rule: Pattern
    step: int | None = None
    by: tuple[str, str] | None = None

    @property
    def reason(self) -> str:
        """Why, in one sentence; "" when applied. Put into words only when somebody reads it."""
        failure = self.record.failure()
        if self.said or self.outcome is Outcome.APPLIED or failure is None:
            return self.said
        if failure.name == "not_skipped":
            return str(failure.actual)
        return failure_sentence(self.rule.says(failure.name), failure)

    @property
    def passed(self) -> int:
        """How many conditions held."""
        return self.record.passed()

    @property
    def total(self) -> int:
        """How many conditions there are on the path taken: those of an optional part that was not tried do not count."""
        tried = self.record.parts()
        return self.rule.count_conditions(tuple(self.record.ways), tried) + len(self.record.engine_names())

    @property
    def failed(self) -> str | None:
        """The name of the condition that is the root cause of a miss."""
        return self.record.root() if self.outcome is not Outcome.APPLIED else None

    @property
    def fault(self) -> str | None:
        """The id of the node at fault in a miss."""
        failure = self.record.failure()
        return failure.node if failure is not None and self.outcome is not Outcome.APPLIED else None

    @property
    def matched(self) -> bool:
        """Whether the conditions held, whatever came of it."""
        return self.outcome in (Outcome.APPLIED, Outcome.DECLINED, Outcome.DISABLED, Outcome.SHADOWED) or (
            self.outcome is Outcome.SKIPPED and self.record.root() is None
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One applied rewrite: step `number` of the lowering."""

    number: int
    pattern: str
    anchor: str
    sentence: str
    module: str
    taken: tuple[str, ...]
    made: tuple[str, ...]
    output: str  #: the taken node whose value the replacement gives
    result: str  #: the node that gives it now
