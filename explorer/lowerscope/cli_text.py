"""What `report` prints for a reader: lines that fit the terminal, sentences whole, nothing of which there is none."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from lowerscope.measure.report import ParityReport

#: The counts of a pattern that are told where there are any, and the word for each.
_COUNTS = {
    "applied": "applied",
    "near": "near",
    "declined": "declined",
    "skipped": "skipped",
    "shadowed": "shadowed",
    "would": "would match",
    "errors": "failed",
}
_MISSES = 10  # of which a report tells


def report_text(title: str, model: str, tables: Mapping[str, pd.DataFrame], parity: ParityReport, width: int) -> str:
    """The report on a model, a blank line between its parts.

    title: the first line. model: its path, as `lowerscope why` takes it. tables: `patterns`, `near_misses`, `operators`
    as a session gives them. width: of the terminal, in characters; names are never broken.
    """
    parts = [
        [title],
        ["patterns, in order", *_patterns(tables["patterns"], width)],
        list(_misses(tables["near_misses"], model, width)),
        list(_columns(["operators", *tables["operators"].columns], _cells(tables["operators"]))),
        list(_numbers(parity, width)),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _patterns(patterns: pd.DataFrame, width: int) -> Iterator[str]:
    room = max(map(len, map(str, patterns.index)))
    for name, row in patterns.to_dict(orient="index").items():
        counts = [f"{row[key]} {word}" for key, word in _COUNTS.items() if row[key]]
        said = " · ".join([*([] if row["enabled"] else ["off"]), *counts]) or "-"
        yield f"  {name!s:<{room}}  {said}"
        if row["note"] and row["note"] != "disabled":
            yield from _wrapped(row["note"], width, 4)


def _misses(misses: pd.DataFrame, model: str, width: int) -> Iterator[str]:
    if not len(misses):
        return
    yield from _wrapped(f"near misses, the nearest first; lowerscope why {model} PATTERN NODE explains one", width, 0)
    for row in misses.head(_MISSES).to_dict(orient="records"):
        yield f"  {row['passed']}/{row['of']}  {row['pattern']} {row['anchor']}"
        yield from _wrapped(row["reason"], width, 7)
    if len(misses) > _MISSES:
        yield f"  ... and {len(misses) - _MISSES} more: --json has them all"


def _numbers(parity: ParityReport, width: int) -> Iterator[str]:
    yield from _wrapped(f"numbers: {parity}", width, 0)
    frame = parity.frame()
    if len(frame):
        shown: Any = frame[["verdict", "max_abs", "sqnr_db"]].map(lambda v: f"{v:.3g}" if isinstance(v, float) else v)
        yield from _columns(["output", *shown.columns], _cells(shown))


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    return [[str(name), *map(str, row)] for name, row in zip(frame.index, frame.itertuples(index=False), strict=True)]


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table under its head: the first column to the left and further in, the others to the right."""
    rooms = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for indent, row in [("", head), *(("  ", row) for row in rows)]:
        first = indent + row[0]
        yield "  ".join([first.ljust(rooms[0] + 2), *(c.rjust(r) for c, r in zip(row[1:], rooms[1:], strict=True))])


def _wrapped(text: Any, width: int, indent: int) -> list[str]:
    """A text's lines as they fit, all of them indented."""
    return [
        line
        for paragraph in str(text).splitlines()
        for line in textwrap.wrap(
            paragraph, max(width, indent + 20), initial_indent=" " * indent, subsequent_indent=" " * indent,
            break_long_words=False, break_on_hyphens=False,
        )
    ]  # fmt: skip
