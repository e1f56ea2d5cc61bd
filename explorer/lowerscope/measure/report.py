"""What a parity measurement found: a row per output and per piece of state, a verdict, and a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd
import torch

from lowerscope.arguments import dtype_name
from lowerscope.frame import Table
from lowerscope.measure.compare import (
    CLOSE,
    DIFFERENT,
    EQUAL,
    INCOMPARABLE,
    NONDETERMINISTIC,
    Comparison,
    ratio,
    sqnr,
)

# From good to bad: a row, and a report, is as bad as the worst thing in it.
_SEVERITY = (EQUAL, CLOSE, NONDETERMINISTIC, DIFFERENT, INCOMPARABLE)


@dataclass
class ParityRow:
    """One output, or one piece of state, over all batches.

    Attributes:
        output: the output's path, or "state NAME".
        worst: the comparison of the batch that decides the verdict.
        batch: that batch's label.
        verdict, why: of the row; those of `worst` unless the oracle or a second run of the reference says otherwise.
        max_abs, where, p99_abs: the largest over the batches.
        noise, signal: sums of squares over the batches; NaN as soon as one batch has no honest number.
        error_before, error_after: sums of squares of the errors against the oracle, or against the float32 reference.
        before: the original's comparison with the float32 reference, in a run in another dtype.
        as_bad: in that dtype it is far from the float32 reference, and agrees with the original, which is as far.
    """

    output: str
    worst: Comparison
    batch: str
    verdict: str
    why: str
    max_abs: float
    where: tuple[int, ...] | None
    p99_abs: float
    noise: float
    signal: float
    elements: int
    different: int
    error_before: float = math.nan
    error_after: float = math.nan
    before: Comparison | None = None
    as_bad: bool = False

    @classmethod
    def of(cls, output: str, comparison: Comparison, batch: str) -> ParityRow:
        """The row after one batch."""
        c = comparison
        return cls(
            output,
            c,
            batch,
            c.verdict,
            c.why,
            c.max_abs,
            c.where,
            c.p99_abs,
            c.noise,
            c.signal,
            c.elements,
            c.different,
        )

    def merge(self, other: ParityRow) -> None:
        """Take in the row of another batch."""
        if severity(other.verdict) > severity(self.verdict):
            self.worst, self.batch, self.verdict, self.why = other.worst, other.batch, other.verdict, other.why
        if math.isnan(other.max_abs) or other.max_abs > self.max_abs:
            self.max_abs, self.where = other.max_abs, other.where
        self.p99_abs = _largest(self.p99_abs, other.p99_abs)
        self.noise += other.noise
        self.signal += other.signal
        self.elements += other.elements
        self.different += other.different
        self.error_before += other.error_before
        self.error_after += other.error_after
        self.as_bad = self.as_bad or other.as_bad
        if other.before is not None and (self.before is None or other.before.max_abs > self.before.max_abs):
            self.before = other.before

    @property
    def sqnr_db(self) -> float:
        """Of all batches together, in decibels."""
        return math.nan if math.isnan(self.noise) else sqnr(self.noise, self.signal)

    @property
    def norm_l2(self) -> float:
        """Norm of the error over norm of the reference, of all batches together."""
        return math.nan if math.isnan(self.noise) else ratio(math.sqrt(self.noise), math.sqrt(self.signal))

    @property
    def oracle_ratio(self) -> float:
        """RMSE after / RMSE before, both against the oracle; 1 where both are exact, NaN where it was not measured."""
        if math.isnan(self.error_before) or math.isnan(self.error_after):
            return math.nan
        if self.error_before == 0 and self.error_after == 0:
            return 1.0
        return ratio(math.sqrt(self.error_after), math.sqrt(self.error_before))


@dataclass
class ParityReport:
    """How far a lowered program's results are from the original's.

    Attributes:
        rows: one per output and per piece of state, in the order of the outputs.
        batches: labels of the inputs that were run.
        notes: what a reader must know beside the numbers: lively statistics, an overflow, an alias, random operators.
        dtype: the dtype that both programs were run in, or None for their own.
        flips: where the lowered program took another branch than the original, or ran a loop otherwise; clauses.
        reference_twice: "identical" or "differs": whether the original agrees with itself.
    """

    rows: list[ParityRow] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dtype: torch.dtype | None = None
    flips: list[str] = field(default_factory=list)
    reference_twice: str = "identical"

    @property
    def verdict(self) -> str:
        """The worst row's: equal, close, nondeterministic, different or incomparable."""
        return max((row.verdict for row in self.rows), key=severity, default=EQUAL)

    @property
    def agrees(self) -> bool:
        """Whether every output and state is equal or close."""
        return self.verdict in (EQUAL, CLOSE)

    @property
    def sentence(self) -> str:
        """The verdict in words, with the first row that decides it."""
        if not self.rows:
            return "Nothing to compare: the program has no outputs."
        verdict = self.verdict
        row = next(row for row in self.rows if row.verdict == verdict)
        place = "" if len(self.batches) < 2 else f", {row.batch}"
        if verdict == EQUAL:
            return "Identical numbers."
        if verdict == CLOSE:
            if self.dtype is None:
                return "Same numbers."
            bad = next((row.output for row in self.rows if row.as_bad), None)
            alike = "" if bad is None else f" as the original has, which are far from its float32 ones in {bad}"
            return f"Same numbers in {dtype_name(self.dtype)}{alike}."
        if verdict == NONDETERMINISTIC:
            return f"The reference disagrees with itself in {row.output}: {row.why}."
        if verdict == INCOMPARABLE:
            why = row.why.rstrip(".")  # torch's words may end in a full stop
            return f"Broken: {row.output} has {why}{place}." if _is_kind(row) else f"Broken: {why}{place}."
        if row.worst.nan_agrees is False:
            head, _, rest = row.why.partition(":")
            return f"Broken: {head} in {row.output}{':' if rest else ''}{rest}{place}."
        at = "" if row.where is None else f" at {list(row.where)}"
        why = f"; {row.why}" if row.why else ""
        return f"Different numbers in {row.output}: off by {row.max_abs:.3g}{at}{place}{why}."

    def frame(self) -> pd.DataFrame:
        """A row per output and state, indexed by ``output``.

        Columns: verdict, why, shape_agrees, dtype_agrees, nan_agrees, max_abs, where, p99_abs, sqnr_db (decibels),
        norm_l2, oracle_ratio, elements, different, batch (the one that decides). For a run in another dtype the errors
        are those against the float32 reference, and max_abs_before, sqnr_db_before and norm_l2_before are the original's.
        """
        records = [self._record(row) for row in self.rows]
        index = pd.Index([row.output for row in self.rows], name="output")
        columns = list(records[0]) if records else list(self._record(ParityRow.of("", Comparison(EQUAL), "")))
        return Table(records, index=index, columns=columns)

    def _record(self, row: ParityRow) -> dict[str, object]:
        record: dict[str, object] = {
            "verdict": row.verdict,
            "why": row.why,
            "shape_agrees": row.worst.shape_agrees,
            "dtype_agrees": row.worst.dtype_agrees,
            "nan_agrees": row.worst.nan_agrees,
            "max_abs": row.max_abs,
            "where": row.where,
            "p99_abs": row.p99_abs,
            "sqnr_db": row.sqnr_db,
            "norm_l2": row.norm_l2,
            "oracle_ratio": row.oracle_ratio,
            "elements": row.elements,
            "different": row.different,
            "batch": row.batch,
        }
        if self.dtype is not None:
            for name in ("max_abs", "sqnr_db", "norm_l2"):
                record[f"{name}_before"] = math.nan if row.before is None else getattr(row.before, name)
        return record

    def __str__(self) -> str:
        return "\n".join([self.sentence, *self.notes])

    __repr__ = __str__


def severity(verdict: str) -> int:
    """How bad a verdict is, from 0."""
    return _SEVERITY.index(verdict)


def join(clauses: Sequence[str]) -> str:
    """Clauses of a sentence, empty ones left out."""
    return "; ".join(clause for clause in clauses if clause)


def _is_kind(row: ParityRow) -> bool:
    return row.worst.shape_agrees is False or row.worst.dtype_agrees is False


def _largest(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)
