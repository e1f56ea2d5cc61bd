"""Tables of a lowering: patterns, matches, near misses, reasons. One row each, as pandas frames."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from lowerscope.frame import Table
from lowerscope.lowering import Lowering
from lowerscope.ops import display_name
from lowerscope.sentences import difference, plain
from lowerscope.verdict import Outcome, Verdict

_COUNTED = {
    "applied": Outcome.APPLIED,
    "near": Outcome.NEAR_MISS,
    "skipped": Outcome.SKIPPED,
    "declined": Outcome.DECLINED,
    "shadowed": Outcome.SHADOWED,
    "would": Outcome.DISABLED,
    "errors": Outcome.ERROR,
}


def patterns_frame(lowering: Lowering) -> pd.DataFrame:
    """A row per pattern of the target, in its order.

    Columns: kind, enabled; how many anchors were applied, near (misses), skipped, declined, shadowed, would (a disabled
    pattern would take), errors; note (why it is off, or the first error). Skipped counts the anchors at which a skip is
    what ended the matching: since a skipped node is opaque, nothing is asked beyond it, so some of them might not have
    matched without the skip.
    """
    counts = counted(lowering)
    errors: dict[str, str] = {}
    for verdict in lowering.verdicts.values():
        if verdict.outcome is Outcome.ERROR:
            errors.setdefault(verdict.pattern, verdict.reason)
    rows = []
    for stage in lowering.stages:
        pattern = stage.rule
        row: dict[str, Any] = {"kind": str(pattern.kind), "enabled": not stage.off}
        row.update({name: counts[stage.pattern, outcome] for name, outcome in _COUNTED.items()})
        row["note"] = stage.off or errors.get(stage.pattern, "")
        rows.append(row)
    index = pd.Index([s.pattern for s in lowering.stages], name="pattern")
    return Table(rows, index=index)


def counted(lowering: Lowering) -> Counter[tuple[str, Outcome]]:
    """How many verdicts of each kind each pattern has."""
    return Counter((v.pattern, v.outcome) for v in lowering.verdicts.values())


def matches_frame(lowering: Lowering, pattern: str | None = None) -> pd.DataFrame:
    """A row per (pattern, anchor): verdict, nodes, module, failed (the condition at fault), fault (the node), reason."""
    order = {s.pattern: i for i, s in enumerate(lowering.stages)}
    verdicts = [v for v in lowering.verdicts.values() if pattern is None or v.pattern == pattern]
    verdicts.sort(key=lambda v: order[v.pattern])
    return _frame(lowering, verdicts)


def near_misses_frame(lowering: Lowering, pattern: str | None = None) -> pd.DataFrame:
    """The near misses, the nearest first: by the share of conditions that held."""
    missed = [v for v in lowering.verdicts.values() if v.outcome is Outcome.NEAR_MISS]
    missed = [v for v in missed if pattern is None or v.pattern == pattern]
    missed.sort(key=lambda v: (-(v.passed / max(v.total, 1)), -v.passed))
    return _frame(lowering, missed)


def reasons_frame(lowering: Lowering, pattern: str | None = None) -> pd.DataFrame:
    """The near misses grouped by reason, the largest group first.

    Columns: count, pattern, condition, sentence ("14 aten.convolution: the batch size is 8, expected 1"), anchors.
    """
    columns = ["count", "pattern", "condition", "sentence", "anchors"]
    return Table(reason_rows(lowering, pattern), columns=pd.Index(columns))


def reason_rows(lowering: Lowering, pattern: str | None = None) -> list[dict[str, Any]]:
    """The rows of `reasons_frame`."""
    groups: dict[tuple[str, str, str, str], list[Verdict]] = {}
    for verdict in lowering.verdicts.values():
        if verdict.outcome is not Outcome.NEAR_MISS or pattern not in (None, verdict.pattern):
            continue
        failure = verdict.record.failure()
        if failure:
            key = (verdict.pattern, failure.name, plain(failure.actual, " and "), plain(failure.expected))
            groups.setdefault(_blurred(key, failure.actual), []).append(verdict)
    rows = []
    for (name, condition, actual, _), members in groups.items():
        missed = members[0].record.failure()
        assert missed is not None
        sentence = difference(members[0].rule.says(condition), actual, missed.expected)
        rows.append(
            {
                "count": len(members),
                "pattern": name,
                "condition": condition,
                "sentence": f"{len(members)} {_subject(lowering, members)}: {sentence}",
                "anchors": [v.anchor for v in members],
            }
        )
    rows.sort(key=lambda r: -r["count"])
    return rows


def _blurred(key: tuple[str, str, str, str], actual: Any) -> tuple[str, str, str, str]:
    """Names of nodes differ from miss to miss; the reason that they state is the same."""
    if isinstance(actual, tuple) and any(isinstance(a, str) for a in actual):
        return (key[0], key[1], f"{len(actual)} users" if "user" in key[3] else "other nodes", key[3])
    return key


def _subject(lowering: Lowering, members: list[Verdict]) -> str:
    ops = {display_name(lowering.ledger.records[v.anchor].target) for v in members}
    return next(iter(ops)) if len(ops) == 1 else "anchors"


def _frame(lowering: Lowering, verdicts: list[Verdict]) -> pd.DataFrame:
    rows = []
    for v in verdicts:
        record = lowering.ledger.records.get(v.anchor)
        rows.append(
            {
                "pattern": v.pattern,
                "anchor": v.anchor,
                "verdict": str(v.outcome),
                "passed": v.passed,
                "of": v.total,
                "failed": v.failed or "",
                "fault": v.fault or "",
                "module": record.module if record is not None else "",
                "nodes": list(v.nodes),
                "reason": v.reason,
            }
        )
    columns = ["pattern", "anchor", "verdict", "passed", "of", "failed", "fault", "module", "nodes", "reason"]
    return Table(rows, columns=pd.Index(columns))
