"""A model on its way to a `Session`: read, decomposed, matched in a thread, in named stages that can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal

from lowerscope.errors import LowerscopeError
from lowerscope.loading import load
from lowerscope.measure.time_left import TimeLeft
from lowerscope.program import Program
from lowerscope.session import Session

Event = dict[str, Any]
UnknownOps = Literal["error", "stand-in"]


class Stopped(LowerscopeError):
    """Loading was stopped from the widget."""


class NoModelError(LowerscopeError):
    """The widget was made without a model, and none has been opened in it."""


class Opening:
    """Opens `source` (the path of a `.pt2`, or a Program) for `target`, as often as it is asked to.

    Without a source there is nothing to wait for until `open` is told one. `tell` hears of each stage as a progress
    event; `opened` is called with the session, in the thread, before those who wait for it go on.
    """

    def __init__(
        self,
        source: Path | Program | None,
        target: str,
        tell: Callable[[Event], None],
        opened: Callable[[Session], None],
    ) -> None:
        self._source, self._target = source, target
        self._tell, self._opened = tell, opened
        self._stage: Event | None = None
        self._left = TimeLeft()
        self._future: Future[Session] = Future()
        self._stop = threading.Event()
        self._lock = threading.Lock()

    @property
    def future(self) -> Future[Session]:
        """Of the latest attempt. Its errors: LoadError and the like, Stopped, and NoModelError."""
        return self._future

    @property
    def name(self) -> str:
        """What is opened, in words."""
        return "no model" if self._source is None else self._source.name

    @property
    def is_idle(self) -> bool:
        """Whether there is no source yet."""
        return self._source is None

    def open(self, path: Path) -> None:
        """Turn to another file; what is at work is stopped. `start` begins with it."""
        self.stop()
        self._source = path

    def start(self, unknown_ops: UnknownOps = "error") -> None:
        """Begin, unless it is at work or done."""
        if self._future.done() and self._future.exception() is None:
            return
        if self._stage is not None and not self._future.done():
            return
        self._future, self._stop = Future(), threading.Event()
        if self._source is None:
            message = "there is no model yet: open one in the widget, or pass its path to lowerscope.explore"
            self._future.set_exception(NoModelError(message))
            return
        self._at("read", f"Read {self.name}{self._size()}")
        threading.Thread(
            target=self._run,
            args=(self._source, self._future, self._stop, unknown_ops),
            name="lowerscope-open",
            daemon=True,
        ).start()

    def stop(self) -> None:
        """End it: whoever waits hears so at once, and the thread ends with the stage that it is in."""
        self._stop.set()
        self._settle(self._future, Stopped(f"loading {self.name} was stopped: load it again when you want it"))

    def tell_again(self) -> None:
        """Tell of the stage at work, for a view that has just come."""
        if self._stage is not None and not self._future.done():
            self._tell(self._stage)

    def _run(
        self, source: Path | Program, future: Future[Session], stop: threading.Event, unknown_ops: UnknownOps
    ) -> None:
        def entering(pattern: str, place: int, count: int) -> None:
            if stop.is_set():
                raise Stopped("stopped")
            if pattern == "core_aten":
                self._at("decompose", "Decompose to core ATen", place, count)
            else:
                self._at("match", f"Match {count} patterns for {self._target}: {pattern}", place, count)

        try:
            program = source if isinstance(source, Program) else load(source, unknown_ops=unknown_ops)
            if stop.is_set():
                return
            session = Session(program, self._target, entering=entering)
            if not stop.is_set():
                self._opened(session)
            self._settle(future, session)
        except BaseException as error:
            self._settle(future, error)

    def _settle(self, future: Future[Session], result: Session | BaseException) -> None:
        """The first to settle an attempt wins: its thread, or a stop."""
        with self._lock:
            if future.running() or future.done():
                return
            future.set_running_or_notify_cancel()
        self._over()
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    def _at(self, what: str, sentence: str, done: int = 0, total: int = 1) -> None:
        if self._stage is None or self._stage["what"] != what:
            self._over()
            self._left = TimeLeft(done)
        said = self._left.said(sentence, done, total)
        self._stage = {"type": "progress", "what": what, "done": done, "total": total, "sentence": said}
        self._tell(self._stage)

    def _over(self) -> None:
        if self._stage is not None:
            self._tell({**self._stage, "done": 1, "total": 1})
            self._stage = None

    def _size(self) -> str:
        if not isinstance(self._source, Path):
            return ""
        try:
            return f" ({self._source.stat().st_size / 1e6:.1f} MB)"
        except OSError:  # whoever reads it says what is wrong with it
            return ""
