"""Explanations: a verdict's record turned into rows and trees."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import pandas as pd

from lowerscope.check import Entry, Status
from lowerscope.code_map import CodeMap
from lowerscope.frame import Table
from lowerscope.long_names import legible
from lowerscope.sentences import failure_sentence, plain

if TYPE_CHECKING:
    from lowerscope.verdict import Verdict

_SIGNS = {Status.PASSED: "✓", Status.FAILED: "✕", Status.FOLLOWS: "✕", Status.NOT_REACHED: "–"}


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """One condition of an explanation. `node` is the id of the node at fault, or of the one that was looked at.

    code_map: of a failure that is one of a map of codes, that map beside the one that is asked for.
    """

    name: str
    says: str
    part: str | None
    status: Status
    expected: str
    actual: str
    node: str | None
    sentence: str
    code_map: CodeMap | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a pattern did, or did not, match at a node. Prints as a tree, shows as HTML in a notebook, `.to_frame()`.

    node: what was asked about. anchor: where the pattern started, which may be another node. nodes: what was matched so
    far (ids). by: (pattern, anchor) of the match that took the nodes. history: what became of the node, or of the one at
    fault, in stages before the pattern's, a sentence each. target: of which target's lowering this speaks.
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
    history: tuple[str, ...] = ()
    target: str = ""

    @property
    def passed(self) -> int:
        """How many conditions held."""
        return sum(1 for c in self.conditions if c.status is Status.PASSED)

    @property
    def total(self) -> int:
        """How many conditions there are on the path taken: those of an optional part that was not tried do not count."""
        tried = {c.part for c in self.conditions if c.status is not Status.NOT_REACHED}
        return sum(1 for c in self.conditions if c.part is None or c.part in tried)

    @property
    def failed(self) -> ConditionRow | None:
        """The root cause: the one failed condition that does not follow from another."""
        if self.verdict == "applied":
            return None
        return next((c for c in self.conditions if c.status is Status.FAILED), None)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        name = f"{self.pattern} ({self.target})" if self.target else self.pattern
        if self.verdict == "applied":
            return f"{name} is applied at {self.anchor} in step {self.step}"
        if self.verdict == "no anchor":
            return f"{name}: {self.reason}"
        if self.verdict == "near miss":
            counted = f"{self.passed} of {self.total} conditions"
            return f"{name} does not match at {self.anchor}: near miss, {counted}; {self.reason}"
        if self.reason.startswith(self.verdict):  # "skipped by node relu"
            return f"{name} at {self.anchor}: {self.reason}"
        return f"{name} at {self.anchor}: {self.verdict}" + (f"; {self.reason}" if self.reason else "")

    def to_frame(self) -> pd.DataFrame:
        """A row per condition, indexed by its name: part, status, expected, actual, node, says, sentence."""
        columns = ["part", "status", "expected", "actual", "node", "says", "sentence"]
        rows = [{k: str(getattr(c, k) or "") for k in columns} for c in self.conditions]
        index = pd.Index([c.name for c in self.conditions], name="condition")
        return Table(rows, columns=pd.Index(columns), index=index)

    def __str__(self) -> str:
        lines = [self.headline, *self.history]
        groups = list(self._groups())
        for place, (part, rows) in enumerate(groups):
            branch, below = ("└─ ", "   ") if place == len(groups) - 1 else ("├─ ", "│  ")
            if part is None:
                lines.append(branch + _line(rows[0]))
            elif not rows:
                lines.append(f"{branch}– {part}")
            else:
                lines.append(f"{branch}{part}")
                lines += [f"{below}{'└─ ' if row is rows[-1] else '├─ '}{_line(row)}" for row in rows]
        return legible("\n".join(lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = []
        for part, rows in self._groups():
            if part is not None:
                cells.append(f"<tr><td></td><td colspan=4 style='text-align:left'><b>{_text(part)}</b></td></tr>")
            for row in rows:
                failing = row.status is Status.FAILED and self.verdict != "applied"
                left = "text-align:left;" + ("background:rgba(192,38,31,.12)" if failing else "")
                sentence = f"<br><small>{_text(row.sentence)}</small>" if row.sentence else ""
                if row.code_map is not None:
                    sentence += f"<br>{row.code_map.to_svg()}<br><small>{_text(row.code_map.caption)}</small>"
                cells.append(
                    f"<tr><td style='{left}'>{_SIGNS[row.status]}</td>"
                    f"<td style='{left}'>{_text(row.says)}{sentence}</td>"
                    f"<td style='{left}'>{_text(row.expected)}</td><td style='{left}'>{_text(row.actual)}</td>"
                    f"<td style='{left}'>{f'<code>{_text(row.node)}</code>' if row.node else ''}</td></tr>"
                )
        head = "<tr><th></th><th>condition</th><th>expected</th><th>actual</th><th>at</th></tr>" if cells else ""
        history = "".join(f"<br><small>{_text(line)}</small>" for line in self.history)
        return f"<div><b>{_text(self.headline)}</b>{history}<table>{head}{''.join(cells)}</table></div>"

    def _groups(self) -> Iterator[tuple[str | None, list[ConditionRow]]]:
        """(None, [a condition]), or an optional part's heading and its conditions; of one that was not tried, none."""
        met = [place for place, row in enumerate(self.conditions) if row.status is not Status.NOT_REACHED]
        last, place = max(met, default=-1), 0
        for part, group in groupby(self.conditions, key=lambda row: row.part):
            rows = list(group)
            if part is None:
                yield from ((None, [row]) for row in rows)
            elif all(row.status is Status.NOT_REACHED for row in rows):
                yield f"{part} (optional part): {'absent' if place < last else 'not reached'}", []
            else:
                yield f"{part} (optional part)", rows
            place += len(rows)


def _line(row: ConditionRow) -> str:
    """A condition in one line of a terminal."""
    if row.sentence:
        at = f" @ {row.node}" if row.node else ""
        return f"{_SIGNS[row.status]} {row.sentence}  [{row.name}{at}]"
    facts = f"  [{row.actual}]" if row.actual else ""
    return f"{_SIGNS[row.status]} {row.says}{facts}" + (f"  @ {row.node}" if row.node else "")


def explain(verdict: Verdict, node: str | None = None, history: tuple[str, ...] = (), target: str = "") -> Explanation:
    """The explanation of a verdict: the conditions as met, then those that were not reached, in declared order."""
    return Explanation(
        pattern=verdict.pattern,
        node=node or verdict.anchor,
        anchor=verdict.anchor,
        verdict=str(verdict.outcome),
        reason=verdict.reason,
        conditions=tuple(_rows(verdict)),
        nodes=verdict.nodes,
        by=verdict.by,
        step=verdict.step,
        history=history,
        target=target,
    )


def _rows(verdict: Verdict) -> Iterator[ConditionRow]:
    rule = verdict.rule
    # a condition met at several nodes shows the last one, which is the failing one if any is
    met: dict[str, Entry] = {entry.name: entry for entry in verdict.record.entries}
    declared = list(rule.condition_rows(verdict.record.ways))
    names = {c.name for c, _ in declared}
    extra = [(e.name, rule.says(e.name), e.part) for e in verdict.record.entries if e.name not in names]
    rows = [(c.name, c.says, part) for c, part in declared]
    for name, says, part in [*rows, *dict.fromkeys(extra)]:
        entry = met.get(name)
        if entry is None:
            yield ConditionRow(name, says, part, Status.NOT_REACHED, "", "", None, "")
            continue
        sentence = ""
        if entry.status is Status.FAILED:
            sentence = failure_sentence(says, entry)
        elif entry.status is Status.FOLLOWS:
            sentence = entry.because or ""
        expected = plain(entry.expected)
        yield ConditionRow(
            name, says, part or entry.part, entry.status, expected, _found(entry), entry.node, sentence, entry.code_map
        )


def _found(entry: Entry) -> str:
    """What was found. Words that a pattern has for the failure only are not shown of a condition that holds."""
    actual = plain(entry.actual, " and ")
    if entry.status is Status.PASSED and isinstance(entry.actual, str) and isinstance(entry.expected, str):
        return actual if actual.startswith(entry.expected) else ""
    return actual


def _text(value: str) -> str:
    return html.escape(legible(value))
