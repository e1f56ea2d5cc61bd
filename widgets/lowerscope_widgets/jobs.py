"""What takes long runs here: one thread per kind of work, of which the newest counts and older ones are told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
Work = Callable[[Callable[[], bool]], None]


class Jobs:
    """Background work by kind ("parity", "latency", ...). Starting one cancels the one of its kind before it."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[threading.Event, threading.Thread]] = {}
        self._lock = threading.Lock()

    def start(self, kind: str, work: Work, delay: float = 0.0, dropped: Callable[[], None] = lambda: None) -> None:
        """Run `work(cancelled)` in a thread, after `delay` seconds unless it is cancelled by then: then `dropped()` is.

        `cancelled` is a flag for the work to poll. The work of one kind before it ends first: two never run together.
        """
        with self._lock:
            previous = self._running.get(kind)
            stop = threading.Event()
            thread = threading.Thread(
                target=self._run, args=(stop, work, delay, previous, dropped), name=f"lowerscope-{kind}", daemon=True
            )
            self._running[kind] = (stop, thread)
        if previous is not None:
            previous[0].set()
        thread.start()

    @staticmethod
    def _run(
        stop: threading.Event,
        work: Work,
        delay: float,
        previous: tuple[threading.Event, threading.Thread] | None,
        dropped: Callable[[], None],
    ) -> None:
        if not stop.wait(delay) and previous is not None:
            previous[1].join()
        if stop.is_set():
            dropped()
        else:
            work(stop.is_set)

    def cancel(self, kind: str | None = None) -> None:
        """Tell the work of a kind (all: None) to stop."""
        with self._lock:
            found = [self._running[k][0] for k in ([kind] if kind else list(self._running)) if k in self._running]
        for stop in found:
            stop.set()

    def wait(self, timeout: float = 60.0) -> bool:
        """Wait until nothing runs; whether that is so."""
        for _, thread in list(self._running.values()):
            thread.join(timeout)
        return not any(thread.is_alive() for _, thread in self._running.values())


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Do `work` in a thread of its own; its result, or its error, is the future's."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="lowerscope-later", daemon=True).start()
    return future
