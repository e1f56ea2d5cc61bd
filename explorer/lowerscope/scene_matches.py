"""The match and step tables of a scene. The rows of verdicts and steps that stayed are taken from the tables before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowerscope.columns import Strings, ints, small
from lowerscope.labels import shortened
from lowerscope.lowering import Lowering
from lowerscope.scene_nodes import NodeTable
from lowerscope.verdict import Outcome, Step, Verdict

VERDICTS = tuple(str(outcome) for outcome in Outcome)
_CODE = {outcome: place for place, outcome in enumerate(Outcome)}
_NOT_DRAWN = frozenset((Outcome.NOTHING_TO_FUSE, Outcome.NO_ANCHOR))
_MATCH = (
    "pattern", "verdict", "anchor", "member", "members", "origin", "origins", "step", "fault", "passed", "total", "reason",
    "by",
)  # fmt: skip
_STEP = ("pattern", "module", "sentence", "delta", "taken", "takens", "made", "mades")


@dataclass(frozen=True, slots=True)
class _Row:
    """What is written of a verdict or a step. runs: rows of nodes, two runs of them. top: the last row that is meant; -1:
    some node has no row, so that it has to be looked for again."""

    of: Any  # held, so that its address stands for it
    values: tuple[int, ...]
    runs: tuple[list[int], list[int]]
    top: int


@dataclass(slots=True)
class MatchTables:
    """matches, members, steps: the protocol's tables, members as one column."""

    matches: dict[str, np.ndarray]
    members: np.ndarray
    steps: dict[str, np.ndarray]
    _rows: dict[int, _Row] = field(repr=False)


def match_tables(
    lowering: Lowering,
    table: NodeTable,
    module_of: np.ndarray,
    strings: Strings,
    before: MatchTables | None = None,
) -> MatchTables:
    """The tables of a lowering. before: those of the lowering that `table` took its rows from, of the same stages and modules."""
    known = before._rows if before is not None else {}
    rows: dict[int, _Row] = {}
    row_of_pattern = {stage.pattern: row for row, stage in enumerate(lowering.stages)}
    writer = _Writer(table, module_of, row_of_pattern, strings)

    def written(things: Iterable[Any], write: Any) -> list[_Row]:
        out = []
        for thing in things:
            row = known.get(id(thing))
            if row is None or not 0 <= row.top < table.kept or row.of is not thing:
                row = write(thing)
            rows[id(thing)] = row
            out.append(row)
        return out

    drawn = (v for v in lowering.verdicts.values() if v.outcome not in _NOT_DRAWN and v.anchor in table.rows)
    matches, members = _columns(written(drawn, writer.match), _MATCH, 3, 0)
    steps, more = _columns(written(lowering.steps, writer.step), _STEP, 4, len(members))
    return MatchTables({**matches, "verdict": small(matches["verdict"])}, ints([*members, *more]), steps, rows)


class _Writer:
    def __init__(
        self, table: NodeTable, module_of: np.ndarray, row_of_pattern: Mapping[str, int], strings: Strings
    ) -> None:
        self._rows = table.rows
        self._operator = table.columns["operator"]
        self._module_of = module_of
        self._patterns = row_of_pattern
        self._text = strings

    def match(self, verdict: Verdict) -> _Row:
        rows = self._rows
        fault = verdict.fault
        at_fault = rows.get(fault or "", -1)
        anchor = rows[verdict.anchor]
        values = (
            self._patterns[verdict.pattern],
            _CODE[verdict.outcome],
            anchor,
            -1 if verdict.step is None else verdict.step,
            at_fault,
            verdict.passed,
            verdict.total,
            self._text(shortened(verdict.reason)),
            -1 if verdict.by is None else self._patterns.get(verdict.by[0], -1),
        )
        return self._row(verdict, values, verdict.nodes, verdict.origins, max(anchor, at_fault), fault and at_fault < 0)

    def step(self, step: Step) -> _Row:
        anchor = self._rows.get(step.anchor)
        taken, made = ([self._rows[id] for id in ids if id in self._rows] for ids in (step.taken, step.made))
        delta = int(self._operator[made].sum()) - int(self._operator[taken].sum())
        module = 0 if anchor is None else int(self._module_of[anchor])
        values = (self._patterns[step.pattern], module, self._text(shortened(step.sentence)), delta)
        return self._row(step, values, step.taken, step.made, anchor or 0, anchor is None)

    def _row(
        self, of: Any, values: tuple[int, ...], first: Iterable[str], second: Iterable[str], top: int, lacking: Any
    ) -> _Row:
        rows, runs = self._rows, []
        for ids in (first, second):
            wanted = dict.fromkeys(ids)
            runs.append(found := [rows[id] for id in wanted if id in rows])
            lacking = lacking or len(found) < len(wanted)
            top = max(top, *found) if found else top
        return _Row(of, values, (runs[0], runs[1]), -1 if lacking else top)


def _columns(
    rows: list[_Row], names: tuple[str, ...], place: int, first: int
) -> tuple[dict[str, np.ndarray], list[int]]:
    """Columns of rows, and the nodes that their runs name; the runs' own columns stand at `place`, and count from `first`."""
    members: list[int] = []
    lengths: list[tuple[int, int]] = []
    for row in rows:
        one, two = row.runs
        lengths.append((len(one), len(two)))
        members += one
        members += two
    values = np.array([row.values for row in rows], np.int32).reshape(len(rows), len(names) - 4)
    lengths_of = np.array(lengths, np.int32).reshape(len(rows), 2)
    ends = np.cumsum(lengths_of.reshape(-1))
    starts = (first + ends - lengths_of.reshape(-1)).reshape(len(rows), 2).astype(np.int32)
    runs = np.stack([starts[:, 0], lengths_of[:, 0], starts[:, 1], lengths_of[:, 1]], 1)
    whole = np.ascontiguousarray(np.concatenate([values[:, :place], runs, values[:, place:]], 1).T)
    return dict(zip(names, whole, strict=True)), members
