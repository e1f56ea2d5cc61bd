"""Tables as a reader wants them: sentences whole, lists and names of thousands of characters short."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lowerscope.long_names import legible

_ITEMS_SHOWN = 3  #: of a list in a cell


class Table(pd.DataFrame):
    """A frame that shows its sentences whole, and of a list its first items; what it holds is a frame's like any other."""

    @property
    def _constructor(self) -> type[Table]:
        return Table

    def _repr_html_(self) -> str:
        with pd.option_context("display.max_colwidth", None):
            return self._legible()._repr_html_()  # type: ignore[operator]

    def __repr__(self) -> str:
        with pd.option_context("display.max_colwidth", None, "display.max_columns", None):
            return pd.DataFrame.__repr__(self._legible())

    def _legible(self) -> pd.DataFrame:
        return pd.DataFrame(self.map(_shortened)).rename(index=_shortened)


def _shortened(value: Any) -> Any:
    """A list as a reader wants it in a cell: three items, and how many more there are; a long name cut in the middle."""
    if isinstance(value, str):
        return legible(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
        return value
    more = f" and {len(value) - _ITEMS_SHOWN} more" if len(value) > _ITEMS_SHOWN else ""
    return legible(", ".join(value[:_ITEMS_SHOWN]) + more)
