"""Several explanations of one node: why none of a target's patterns, or which, took it."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

import pandas as pd

from lowerscope.explain import Explanation
from lowerscope.frame import Table

_RANK = ("applied", "error", "declined", "skipped", "shadowed", "disabled", "near miss", "nothing to fuse", "no anchor")


class Explanations(Sequence[Explanation]):
    """Explanations of one node, those that came nearest first. Prints as trees, shows as HTML, `.to_frame()`."""

    def __init__(self, explanations: Sequence[Explanation], outside: str | None = None) -> None:
        def rank(e: Explanation) -> tuple[int, float]:
            return _RANK.index(e.verdict), -(e.passed / max(e.total, 1))

        self._items = sorted(explanations, key=rank)
        self.outside = outside  #: why the target's backend does not take the node, if it does not

    def __getitem__(self, place: int) -> Explanation:  # type: ignore[override]
        return self._items[place]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self._items)

    def of(self, pattern: str) -> Explanation:
        """The explanation for one pattern. KeyError: it was not asked about."""
        return next(e for e in self._items if e.pattern == pattern)

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

    def __str__(self) -> str:
        parts = [str(e) if e.verdict not in ("no anchor",) else e.headline for e in self._items]
        if self.outside:
            parts.append(f"outside the delegate: {self.outside}")
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        outside = f"<p>outside the delegate: {html.escape(self.outside)}</p>" if self.outside else ""
        return "".join(e._repr_html_() for e in self._items) + outside
