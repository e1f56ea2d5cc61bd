"""Widgets that follow their front end while it is being changed: an open one is drawn by each bundle that is built."""

from __future__ import annotations

import threading
import time
import weakref
from pathlib import Path

import anywidget

from lowerscope_widgets.bundle import FILES, live_folder, read_bundle

_SECONDS = 0.2  # between two looks at the files


def follow(widget: anywidget.AnyWidget) -> None:
    """In a live Lab, give the widget every bundle that is built while it is open; elsewhere, do nothing."""
    folder = live_folder()
    if folder is not None:
        threading.Thread(target=_follow, args=(weakref.ref(widget), folder), daemon=True).start()


def _follow(reference: weakref.ref[anywidget.AnyWidget], folder: Path) -> None:
    shown: tuple[int, ...] = ()
    before = _written(folder)
    while _is_open(reference()):
        time.sleep(_SECONDS)
        now = _written(folder)
        # Files that changed since the last look may be half written: they are read once they are at rest.
        if now and now == before != shown:
            _give(reference(), read_bundle(folder))
            shown = now
        before = now


def _written(folder: Path) -> tuple[int, ...]:
    """When each file was written, and its size; nothing where one is not there."""
    paths = [folder / name for name in FILES]
    if not all(path.is_file() for path in paths):
        return ()
    return tuple(n for path in paths for n in (path.stat().st_mtime_ns, path.stat().st_size))


def _is_open(widget: anywidget.AnyWidget | None) -> bool:
    return widget is not None and widget.comm is not None


def _give(widget: anywidget.AnyWidget | None, texts: tuple[str, str]) -> None:
    if widget is not None:
        with widget.hold_sync():  # both at once, or a new script would be drawn in the old style
            widget._esm, widget._css = texts  # type: ignore[attr-defined]  # anywidget makes traits of them
