"""Measurements for the browser: run beside the user on snapshots, told as events that carry the recipe's revision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

from lowerscope.conflicts import conflicts
from lowerscope.lowering import Lowering, lower
from lowerscope.measure.by_step import lowering_errors
from lowerscope.measure.compare import EQUAL, Comparison
from lowerscope.measure.interpreter import Cancelled
from lowerscope.measure.latency import LatencyReport, latency
from lowerscope.measure.parity import parity
from lowerscope.measure.partitioner import partitioner
from lowerscope.measure.report import ParityReport, ParityRow
from lowerscope.measure.step_error import StepError
from lowerscope.measure.time_left import TimeLeft
from lowerscope_widgets.said import sentence_of

if TYPE_CHECKING:
    from lowerscope.program import Program

Tell = Callable[[dict[str, Any]], None]
WHAT = ("parity", "latency", "by_step", "conflicts", "partitioner")
_BODY = {
    "parity": ("parity", None),
    "latency": ("latency", None),
    "by_step": ("rows", []),
    "conflicts": ("rows", []),
    "partitioner": ("rows", []),
}
_ROWS_SHOWN = 500


def measure(what: str, lowering: Lowering, revision: int, tell: Tell, cancelled: Callable[[], bool]) -> None:
    """Take one measurement of `lowering` and tell of it: measuring, progress, then fresh, failed or cancelled."""
    name, nothing = _BODY[what]

    def say(state: str, body: Any = nothing, sentence: str = "") -> None:
        tell({"type": what, "revision": revision, "state": state, name: body, "sentence": sentence})

    left = TimeLeft(of=" of this phase" if what == "latency" else "")

    def progress(done: int, total: int | None, sentence: str) -> None:
        if total:
            said = left.said(sentence, done, total)
            tell({"type": "progress", "what": what, "done": done, "total": total, "sentence": said})

    say("measuring", sentence="measuring…")
    try:
        body, sentence = _TAKE[what](lowering, cancelled, progress)
        say("fresh", body, sentence)
    except Cancelled:
        say("cancelled", sentence="Not measured: cancelled.")
    except Exception as error:  # a bug here must neither end the kernel's thread silently nor look like a result
        say("failed", sentence=f"Not measured: {sentence_of(error)}")
    finally:
        tell({"type": "progress", "what": what, "done": 1, "total": 1, "sentence": ""})


def _parity(lowering: Lowering, cancelled: Callable[[], bool], progress: Any) -> tuple[dict[str, Any], str]:
    def relower(program: Program) -> Program:
        return lower(program, lowering.recipe).program

    report = parity(
        lowering.before,
        lowering.program,
        relower=relower,
        cancelled=cancelled,
        progress=lambda done, total: progress(done, total, f"parity, run {done}" + (f" of {total}" if total else "")),
    )
    return parity_body(report), report.sentence


def _latency(lowering: Lowering, cancelled: Callable[[], bool], progress: Any) -> tuple[dict[str, Any], str]:
    report = latency(
        lowering.before,
        lowering.program,
        cancelled=cancelled,
        progress=lambda said, done, total: progress(done, total, f"latency, {said}"),
    )
    return latency_body(report), report.sentence


def _by_step(lowering: Lowering, cancelled: Callable[[], bool], progress: Any) -> tuple[list[dict[str, Any]], str]:
    errors = lowering_errors(
        lowering,
        cancelled=cancelled,
        progress=lambda done, total: progress(done, total, f"each rewrite alone, {done} of {total}"),
    )
    errors.sort(key=lambda e: e.guilt, reverse=True)
    pattern = {step.number: step.pattern for step in lowering.steps}
    rows = [step_row(e, pattern[e.step]) for e in errors[:_ROWS_SHOWN]]
    return rows, f"Measured {len(errors)} rewrites one by one."


def _conflicts(lowering: Lowering, cancelled: Callable[[], bool], progress: Any) -> tuple[list[dict[str, Any]], str]:
    found = conflicts(
        lowering,
        polled_by(cancelled),
        lambda done, total: progress(done, total, f"flipping winners, {done + 1} of {total}"),
    )
    rows = [
        {
            "loser": c.loser,
            "loser_at": c.loser_at,
            "winner": c.winner,
            "at": c.at,
            "why": c.why,
            "operators": c.operators,
            "flipped": c.operators_flipped,
            "parity": c.parity_flipped,
            "flip": c.flip,
            "apply": None if c.recipe is None else c.recipe.as_dict(),
        }
        for c in found[:_ROWS_SHOWN]
    ]
    return rows, "No two matches claim the same node." if not found else f"{len(found)} matches lost their nodes."


def _partitioner(lowering: Lowering, cancelled: Callable[[], bool], progress: Any) -> tuple[list[dict[str, Any]], str]:
    report = partitioner(
        lowering,
        cancelled=cancelled,
        progress=lambda said, done, total: progress(done, total, f"ExecuTorch, {said}"),
    )
    return [asdict(row) for row in report.rows[:_ROWS_SHOWN]], report.sentence


def polled_by(cancelled: Callable[[], bool]) -> Callable[[], None]:
    """What raises Cancelled once `cancelled()` holds, for work that polls so."""

    def polled() -> None:
        if cancelled():
            raise Cancelled

    return polled


_TAKE: dict[str, Callable[..., tuple[Any, str]]] = {
    "parity": _parity,
    "latency": _latency,
    "by_step": _by_step,
    "conflicts": _conflicts,
    "partitioner": _partitioner,
}


def parity_body(report: ParityReport) -> dict[str, Any]:
    """The protocol's Parity."""
    worst = max(report.rows, key=lambda r: (math.isnan(r.max_abs), r.max_abs), default=None)
    detail = ""
    if worst is not None and report.verdict != EQUAL:
        parts = {  # of a program that cannot be run there is no number, and none is shown
            f"SQNR {_number(worst.sqnr_db, 4)} dB": worst.sqnr_db,
            f"max abs {_number(worst.max_abs)}": worst.max_abs,
            f"fp64 {worst.oracle_ratio:.2f}×": worst.oracle_ratio,
        }
        detail = " · ".join(said for said, number in parts.items() if not math.isnan(number))
    return {
        "verdict": report.verdict,
        "sentence": report.sentence,
        "detail": detail,
        "outputs": [_parity_row(row) for row in report.rows],
        "notes": list(report.notes),
    }


def _parity_row(row: ParityRow) -> dict[str, Any]:
    return {
        "name": row.output,
        "verdict": row.verdict,
        "max_abs": _number(row.max_abs),
        "where": "" if row.where is None else str(list(row.where)),
        "sqnr_db": _number(row.sqnr_db, 4),
        "norm_l2": _number(row.norm_l2),
        "p99_abs": _number(row.p99_abs),
        "oracle_ratio": "" if math.isnan(row.oracle_ratio) else f"{row.oracle_ratio:.2f}×",
    }


def latency_body(report: LatencyReport) -> dict[str, Any]:
    """The protocol's Latency."""
    ratio = "within noise" if report.verdict == "within noise" else f"{report.ratio:.2f}×"
    frame = report.profile
    times = zip(frame.index, frame["ms_before"].tolist(), frame["ms_after"].tolist(), strict=True) if len(frame) else ()
    profile = [{"op": str(op), "before_ms": old, "after_ms": new} for op, old, new in times]
    return {
        "runtime": report.runtime,
        "before_ms": median(report.before_ms),
        "after_ms": median(report.after_ms),
        "ratio": ratio,
        "sentence": report.sentence,
        "profile": profile,
    }


def step_row(error: StepError, pattern: str) -> dict[str, Any]:
    """The protocol's StepError."""
    grade, size = error.guilt
    return {
        "step": error.step,
        "pattern": pattern,
        "node": error.after,
        "isolated": _compared(error.isolated, error.why),
        "propagated": _compared(error.propagated, ""),
        # severity first; JSON has no infinity
        "guilt": grade + (size / (1 + size) if math.isfinite(size) else 1.0) if grade >= 0 else -1,
    }


def _compared(comparison: Comparison | None, why: str) -> str:
    if comparison is None:
        return why or "not measured"
    if comparison.verdict == EQUAL:
        return "identical"
    return f"max {_number(comparison.max_abs)}, {_number(comparison.sqnr_db, 4)} dB"


def _number(value: float, digits: int = 3) -> str:
    """A figure as it is read; "not a number" is said, never 0."""
    if math.isnan(value):
        return "NaN"
    return "∞" if value == math.inf else f"{value:.{digits}g}".replace("e-0", "e-").replace("e-", "e−")
