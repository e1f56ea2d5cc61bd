"""Several explanations of one node: why none of a target's patterns, or which, took it."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from lowerscope.errors import unknown
from lowerscope.explain import Explanation
from lowerscope.frame import Table
from lowerscope.long_names import legible
from lowerscope.verdict import RANK, Outcome


class Explanations(Sequence[Explanation]):
    """Explanations of one node, those that came nearest first. Prints as trees, shows as HTML, `.to_frame()`."""

    def __init__(self, explanations: Sequence[Explanation], outside: str | None = None) -> None:
        def rank(e: Explanation) -> tuple[int, float]:
            return RANK[Outcome(e.verdict)], -(e.passed / max(e.total, 1))

        self._items = sorted(explanations, key=rank)
        #: why the target's backend does not take the node, if it does not; a line per target when several were asked
        self.outside = outside

    def __getitem__(self, place: int) -> Explanation:
        return self._items[place]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self._items)

    def of(self, pattern: str) -> Explanation:
        """The explanation for one pattern. UnknownNameError: it was not asked about."""
        found = next((e for e in self._items if e.pattern == pattern), None)
        if found is None:
            raise unknown("explained pattern", pattern, (e.pattern for e in self._items))
        return found

    def to_frame(self) -> pd.DataFrame:
        """A row per pattern: verdict, passed, of, failed, fault, reason; target, when several were asked about."""
        rows = [
            {
                "verdict": e.verdict,
                "passed": e.passed,
                "of": e.total,
                "failed": e.failed.name if e.failed else "",
                "fault": (e.failed.node or "") if e.failed else "",
                "reason": e.reason,
                **({"target": e.target} if e.target else {}),
            }
            for e in self._items
        ]
        return Table(rows, index=pd.Index([e.pattern for e in self._items], name="pattern"))

    @property
    def history(self) -> tuple[str, ...]:
        """What became of the node, as every one of the explanations tells it: printed once, above them."""
        told = [e.history for e in self._items if e.verdict != "no anchor"]
        return tuple(line for line in told[0] if all(line in h for h in told)) if len(told) > 1 else ()

    def __str__(self) -> str:
        parts = ["\n".join(self.history)] if self.history else []
        parts += [str(e) if e.verdict != "no anchor" else e.headline for e in self._shown()]
        parts += [f"outside the delegate: {line}" for line in (self.outside or "").splitlines()]
        return legible("\n\n".join(parts))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        history = "".join(f"<p>{html.escape(legible(line))}</p>" for line in self.history)
        outside = [
            f"<p>outside the delegate: {html.escape(legible(line))}</p>" for line in (self.outside or "").splitlines()
        ]
        return "".join([history, *(e._repr_html_() for e in self._shown()), *outside])

    def _shown(self) -> Iterator[Explanation]:
        """The explanations without the sentences that an earlier one has told already."""
        told = set(self.history)
        for explanation in self._items:
            yield replace(explanation, history=tuple(line for line in explanation.history if line not in told))
            told.update(explanation.history)
