"""What is known of each rewrite's error, as values and as a table; the shape of the lowering that it is taken from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from lowerscope.frame import Table
from lowerscope.measure.compare import Comparison
from lowerscope.measure.report import severity

if TYPE_CHECKING:
    from lowerscope.program import Program


class Rewrite(Protocol):
    """What is read of a lowering's step."""

    @property
    def number(self) -> int: ...
    @property
    def output(self) -> str: ...
    @property
    def result(self) -> str: ...


class Span(Protocol):
    """What is read of a lowering's stage: the step before its first one, and its last one."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


class Lowered(Protocol):
    """What is read of a lowering: `measure` stands below it and does not import it."""

    @property
    def before(self) -> Program: ...
    @property
    def program(self) -> Program: ...
    @property
    def steps(self) -> Sequence[Rewrite]: ...
    @property
    def stages(self) -> Sequence[Span]: ...
    def program_at(self, step: int) -> Program: ...


@dataclass
class StepError:
    """How far the result of one rewrite is from what it replaced.

    Attributes:
        step: number of the rewrite.
        before, after: the node of the original, and the node of the lowered program that stands for it.
        isolated: the error of the replacement alone, run on the original's values; None if it could not be.
        propagated: the error at its output in the whole run; None if the node is not in both programs.
        oracle_ratio: RMSE after / RMSE before at its output against a float64 run of the original; NaN without one.
        why: why a figure is missing.
        runs: how often the original runs the sub-graph that it is in; the figures are those of the first run.
    """

    step: int
    before: str
    after: str
    isolated: Comparison | None = None
    propagated: Comparison | None = None
    oracle_ratio: float = math.nan
    why: str = ""
    runs: int = 1

    @property
    def guilt(self) -> tuple[int, float]:
        """Sorts the rewrites: the isolated error's verdict and relative size, else the propagated one's."""
        comparison = self.isolated or self.propagated
        if comparison is None:
            return -1, 0.0
        return severity(comparison.verdict), math.inf if math.isnan(comparison.worst) else comparison.worst


def step_frame(errors: Sequence[StepError]) -> pd.DataFrame:
    """A row per rewrite, the guiltiest first: step, before, after, verdict, isolated_* and propagated_* figures."""
    records = [_record(error) for error in sorted(errors, key=lambda error: error.guilt, reverse=True)]
    columns = list(_record(StepError(0, "", "")))
    return Table(records, columns=pd.Index(columns))


def _record(error: StepError) -> dict[str, Any]:
    comparison = error.isolated or error.propagated
    record: dict[str, Any] = {
        "step": error.step,
        "before": error.before,
        "after": error.after,
        "verdict": comparison.verdict if comparison else "not measured",
    }
    for name in ("isolated", "propagated"):
        of: Comparison | None = getattr(error, name)
        for figure in ("max_abs", "where", "sqnr_db"):
            missing = None if figure == "where" else math.nan
            record[f"{name}_{figure}"] = getattr(of, figure) if of is not None else missing
    first = f"in the first of {error.runs} runs of its sub-graph" if error.runs > 1 else ""
    clauses = [error.why, comparison.why if comparison else "", first]
    return record | {"oracle_ratio": error.oracle_ratio, "why": "; ".join(filter(None, clauses))}
