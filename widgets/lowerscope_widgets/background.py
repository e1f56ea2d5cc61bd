"""What is worked on beside the user for one widget: measurements of the recipe as it is, and the search for changes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from lowerscope.measure.interpreter import Cancelled
from lowerscope.session import Session
from lowerscope_widgets import answers
from lowerscope_widgets.jobs import Jobs
from lowerscope_widgets.measuring import measure, polled_by


class Background:
    """Works for a session as it is when it is asked, and keeps what was measured last.

    jobs: where the work runs, by what is measured, and as "what_if". tell: passes on a message.
    """

    def __init__(self, jobs: Jobs, tell: Callable[[dict[str, Any]], None]) -> None:
        self._jobs, self._tell = jobs, tell
        self._measured: dict[str, dict[str, Any]] = {}

    def measure(self, session: Session, what: str, delay: float = 0.0) -> None:
        """Measure after `delay` seconds; what ran before of that kind is told to stop."""
        lowering, revision = session.lowering, session.revision

        def tell(event: dict[str, Any]) -> None:
            if event["type"] == what:
                self._measured[what] = event
            if revision == session.revision:
                self._tell(event)

        self._jobs.start(what, lambda cancelled: measure(what, lowering, revision, tell, cancelled), delay)

    def tell_again(self, session: Session) -> None:
        """Tell what was measured of the recipe as it is, and measure parity where it was not."""
        for event in list(self._measured.values()):
            if event["revision"] == session.revision:
                self._tell(event)
        if "parity" not in self._measured or self._measured["parity"]["revision"] != session.revision:
            self.measure(session, "parity")

    def what_if(self, session: Session, pattern: str, node: str) -> Future[Any]:
        """Try changes under which `pattern` would match at `node`; None when it is told to stop."""
        lowering, future = session.lowering, Future[Any]()

        def work(cancelled: Callable[[], bool]) -> None:
            try:
                future.set_result(answers.suggestions(lowering, pattern, node, polled_by(cancelled)))
            except Cancelled:
                future.set_result(None)
            except BaseException as error:
                future.set_exception(error)

        self._jobs.start("what_if", work, dropped=lambda: future.set_result(None))
        return future

    def forget(self) -> None:
        """Free what was measured."""
        self._measured.clear()
