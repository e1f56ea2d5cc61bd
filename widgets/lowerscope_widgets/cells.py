"""An open widget follows the patterns that a notebook's cells define, redefine and remove."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

if TYPE_CHECKING:
    from lowerscope_widgets.explorer import Explorer


def follow_cells(explorer: Explorer) -> None:
    """Refresh the explorer after every cell, for as long as it is open. Outside of IPython, do nothing."""
    shell = get_ipython()
    if shell is None:
        return
    reference = weakref.ref(explorer)

    def look(_result: Any = None) -> None:
        widget = reference()
        if widget is None or widget.comm is None:
            shell.events.unregister("post_run_cell", look)
        else:
            widget.refresh()

    shell.events.register("post_run_cell", look)
