"""The notebook widget of lowerscope: one view, `Explorer`, on a `lowerscope.Session`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowerscope_widgets.bundle import BundleError
from lowerscope_widgets.explorer import Explorer

if TYPE_CHECKING:
    from lowerscope.session import Session

__all__ = ["BundleError", "Explorer", "display_session", "load_ipython_extension"]


def display_session(session: Session, include: Any = None, exclude: Any = None) -> Any:
    """What a session shows as the last line of a notebook cell: its widget, the same one each time."""
    return Explorer.of(session)._repr_mimebundle_(include=include, exclude=exclude)


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext lowerscope_widgets` gives `%explore MODEL.pt2 --target T`."""
    from lowerscope_widgets.magics import load_ipython_extension as load_magics

    load_magics(ipython)
