"""Explanations: a verdict's record turned into words, rows and trees."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from lowerscope.check import Entry, Status

if TYPE_CHECKING:
    from lowerscope.pattern import Pattern
    from lowerscope.verdict import Verdict

_SIGNS = {Status.PASSED: "✓", Status.FAILED: "✕", Status.FOLLOWS: "✕", Status.NOT_REACHED: "–"}
_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64"}


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """One condition of an explanation. `node` is the id of the node at fault, or of the one that was looked at."""

    name: str
    says: str
    part: str | None
    status: Status
    expected: str
    actual: str
    node: str | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a pattern did, or did not, match at a node. Prints as a tree, shows as HTML in a notebook, `.to_frame()`.

    node: what was asked about. anchor: where the pattern started, which may be another node. nodes: what was matched so
    far (ids). by: (pattern, anchor) of the match that took the nodes.
    """

    pattern: str
    node: str
    anchor: str | None
    verdict: str
    reason: str
    conditions: tuple[ConditionRow, ...]
    nodes: tuple[str, ...]
    by: tuple[str, str] | None
    step: int | None = None

    @property
    def passed(self) -> int:
        """How many conditions held."""
        return sum(1 for c in self.conditions if c.status is Status.PASSED)

    @property
    def failed(self) -> ConditionRow | None:
        """The root cause: the one failed condition that does not follow from another."""
        if self.verdict == "applied":
            return None
        return next((c for c in self.conditions if c.status is Status.FAILED), None)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        counted = f"{self.passed} of {len(self.conditions)} conditions"
        if self.verdict == "applied":
            return f"{self.pattern} is applied at {self.anchor} in step {self.step}"
        if self.verdict == "no anchor":
            return f"{self.pattern}: {self.reason}"
        if self.verdict == "near miss":
            return f"{self.pattern} does not match at {self.anchor}: near miss, {counted}; {self.reason}"
        return f"{self.pattern} at {self.anchor}: {self.verdict}" + (f"; {self.reason}" if self.reason else "")

    def to_frame(self) -> pd.DataFrame:
        """A row per condition, indexed by its name: part, status, expected, actual, node, says, sentence."""
        columns = ["part", "status", "expected", "actual", "node", "says", "sentence"]
        rows = [{k: str(getattr(c, k) or "") for k in columns} for c in self.conditions]
        index = pd.Index([c.name for c in self.conditions], name="condition")
        return pd.DataFrame(rows, columns=pd.Index(columns), index=index)

    def __str__(self) -> str:
        lines = [self.headline]
        for last, part, row in self._tree():
            if part is not None:
                lines.append(f"│  {part} (optional part)")
            indent = "│     " if row.part else ("└─ " if last else "├─ ")
            facts = f"  [{row.actual}]" if row.actual and row.status is Status.PASSED else ""
            lines.append(f"{indent}{_SIGNS[row.status]} {row.says}{facts}" + (f"  @ {row.node}" if row.node else ""))
            if row.sentence:
                lines.append(f"{'│        ' if row.part or not last else '      '}{row.sentence}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = []
        for _, part, row in self._tree():
            if part is not None:
                cells.append(
                    f"<tr><td></td><td colspan=4 style='text-align:left'><b>{_text(part)}</b> optional part</td></tr>"
                )
            tint = "background:rgba(192,38,31,.12)" if row.status is Status.FAILED and self.verdict != "applied" else ""
            left = "text-align:left;" + tint
            sentence = f"<br><small>{_text(row.sentence)}</small>" if row.sentence else ""
            cells.append(
                f"<tr><td style='{left}'>{_SIGNS[row.status]}</td><td style='{left}'>{_text(row.says)}{sentence}</td>"
                f"<td style='{left}'>{_text(row.expected)}</td><td style='{left}'>{_text(row.actual)}</td>"
                f"<td style='{left}'><code>{_text(row.node or '')}</code></td></tr>"
            )
        head = "<tr><th></th><th>condition</th><th>expected</th><th>actual</th><th>at</th></tr>" if cells else ""
        return f"<div><b>{_text(self.headline)}</b><table>{head}{''.join(cells)}</table></div>"

    def _tree(self) -> Iterator[tuple[bool, str | None, ConditionRow]]:
        """(is the last row, heading of an optional part that begins here, row)."""
        previous: str | None = None
        for place, row in enumerate(self.conditions):
            heading = row.part if row.part != previous else None
            previous = row.part
            yield place == len(self.conditions) - 1, heading, row


def explain(pattern: Pattern, verdict: Verdict, node: str | None = None) -> Explanation:
    """The explanation of a verdict: the conditions as met, then those that were not reached, in declared order."""
    return Explanation(
        pattern=pattern.name,
        node=node or verdict.anchor,
        anchor=verdict.anchor,
        verdict=str(verdict.outcome),
        reason=verdict.reason,
        conditions=tuple(_rows(pattern, verdict)),
        nodes=verdict.nodes,
        by=verdict.by,
        step=verdict.step,
    )


def _rows(pattern: Pattern, verdict: Verdict) -> Iterator[ConditionRow]:
    met: dict[str, Entry] = {}
    for entry in verdict.record.entries:
        met[entry.name] = (
            entry  # a condition met at several nodes shows the last one, which is the failing one if any is
        )
    declared = list(pattern.condition_rows(verdict.record.ways))
    names = {c.name for c, _ in declared}
    extra = [(e.name, pattern.says(e.name), e.part) for e in verdict.record.entries if e.name not in names]
    rows = [(c.name, c.says, part) for c, part in declared]
    for name, says, part in [*rows, *dict.fromkeys(extra)]:
        entry = met.get(name)
        if entry is None:
            yield ConditionRow(name, says, part, Status.NOT_REACHED, "", "", None, "")
            continue
        sentence = ""
        if entry.status is Status.FAILED:
            sentence = failure_sentence(pattern, entry)
        elif entry.status is Status.FOLLOWS:
            sentence = entry.because or ""
        yield ConditionRow(
            name,
            says,
            part or entry.part,
            entry.status,
            plain(entry.expected),
            plain(entry.actual, " and "),
            entry.node,
            sentence,
        )


def failure_sentence(pattern: Pattern, entry: Entry) -> str:
    """A failed condition as a sentence: what is, what was expected, and why it matters."""
    actual = plain(entry.actual, " and ")
    where = f" at {entry.node}" if entry.node and entry.node != actual else ""
    wanted = f"; expected {plain(entry.expected)}" if entry.expected is not None else ""
    because = f" ({entry.because})" if entry.because else ""
    return f"{pattern.says(entry.name)}: no, {actual or 'it is not so'}{where}{wanted}{because}"



def plain(value: Any, joint: str = " or ") -> str:
    """A condition's value as a reader wants it: shapes as 1×64×8×8, dtypes as f32, several values joined by `joint`."""
    if value is None:
        return ""
    if isinstance(value, torch.dtype):
        return _DTYPES.get(value, str(value).removeprefix("torch."))
    if isinstance(value, torch.Size) or (isinstance(value, tuple) and value and all(_is_size(v) for v in value)):
        return "×".join(str(v) for v in value) or "scalar"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return joint.join(plain(v) if v is not None else "None" for v in value) if value else "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool)


def _text(value: str) -> str:
    return html.escape(value)
