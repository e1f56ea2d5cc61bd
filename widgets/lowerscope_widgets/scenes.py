"""The scenes of an explorer: made of its session as it is, a large one in a thread, and sent in parts where they must be."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from lowerscope.errors import LowerscopeError
from lowerscope.folding import Folding
from lowerscope.layout import LayoutCancelled
from lowerscope.lowering import Lowering
from lowerscope.module_tree import ModuleTree
from lowerscope.scene import Scene, SceneMaker
from lowerscope.scene_nodes import NodeTable
from lowerscope.session import Session
from lowerscope_widgets.jobs import Jobs

_MEGABYTE = 1_000_000
LARGEST_MESSAGE = 9 * _MEGABYTE  #: bytes: Jupyter drops messages of 10 MiB without a word
_SLOW = 4000  # nodes of which a scene takes longer than a click may


class Scenes:
    """Makes scenes one at a time and sends them one after the other; of those asked for meanwhile the newest is made.

    jobs: where a large scene is made, as "layout". send: passes on a message and its buffers.
    """

    def __init__(self, jobs: Jobs, send: Callable[[dict[str, Any], list[bytes]], None]) -> None:
        self.maker = SceneMaker()
        self._jobs, self._send = jobs, send
        self._making = threading.Lock()
        self._sending = threading.Lock()  # the parts of a scene follow each other
        self._last: tuple[dict[str, Any], bytes] | None = None  # header and columns, for a view that comes later
        self.shown: Future[None] | None = None  #: of the scene that was asked for last

    def scene(self, session: Session) -> Scene:
        """The session's scene as it is now."""
        with self._making:
            return self.maker.scene(session.lowering, **_facts(session))

    def prepared(self, session: Session) -> tuple[NodeTable, ModuleTree, Folding]:
        """Node table, module tree and what is open, for the session's lowering as it is."""
        with self._making:
            return self.maker.prepare(session.lowering)

    def show(self, session: Session, reason: str) -> Future[None]:
        """Send the session's scene; the future ends when it is sent. A large one is made in a thread."""
        future: Future[None] = Future()
        lowering, facts = session.lowering, _facts(session)

        def make(cancelled: Callable[[], bool] = lambda: False) -> None:
            try:
                with self._making:
                    scene = self.maker.scene(lowering, cancelled=cancelled, **facts)
                    header, buffer = scene.message()
                self._pass_on(header, buffer, reason)
                future.set_result(None)
            except LayoutCancelled:
                unmade()
            except BaseException as error:
                future.set_exception(error)

        def unmade() -> None:
            newer = self.shown
            if newer is None or newer is future:
                future.set_exception(LowerscopeError("the layout was cancelled: open fewer modules"))
            else:  # whoever waits for this scene is shown the one that took its place
                newer.add_done_callback(lambda sent: pass_on(sent, future))

        self.shown = future
        if len(lowering.ledger.records) < _SLOW:
            make()
        else:
            self._jobs.start("layout", lambda cancelled: self._with_progress(lowering, make, cancelled), dropped=unmade)
        return future

    def show_again(self, session: Session) -> Future[None]:
        """Send the last scene for a view that has just come; where the session has changed since, a new one.

        LowerscopeError: its names alone are more than Jupyter passes on.
        """
        if self._last is None or self._last[0]["revision"] != session.revision:
            return self.show(session, "")
        future: Future[None] = Future()
        self._pass_on(*self._last, "")
        future.set_result(None)
        return future

    def forget(self) -> None:
        """Free what was made."""
        self._last = None
        self.maker = SceneMaker()

    def _with_progress(
        self, lowering: Lowering, make: Callable[[Callable[[], bool]], None], cancelled: Callable[[], bool]
    ) -> None:
        told = {"type": "progress", "what": "layout", "total": 1}
        self._send({**told, "done": 0, "sentence": f"laying out {len(lowering.ledger.records)} nodes"}, [])
        make(cancelled)
        self._send({**told, "done": 1, "sentence": ""}, [])

    def _pass_on(self, header: dict[str, Any], buffer: bytes, reason: str) -> None:
        """One message, or several where Jupyter would drop it: `part` messages carry the columns' beginning, in order."""
        names = len(json.dumps(header))
        room = LARGEST_MESSAGE - names
        if room <= 0:
            raise LowerscopeError(
                f"the names in this program take {names / _MEGABYTE:.1f} MB, and Jupyter passes on no message above "
                f"{LARGEST_MESSAGE / _MEGABYTE:.0f}: look at it with session.matches() and session.why_not()"
            )
        self._last = (header, buffer)
        *parts, rest = [buffer[at : at + room] for at in range(0, max(1, len(buffer)), room)]
        with self._sending:
            for part, columns in enumerate(parts):
                self._send({"type": "part", "part": part}, [columns])
            self._send({"type": "scene", "header": header, "reason": reason, "parts": len(parts)}, [rest])


def pass_on(done: Future[None], other: Future[None]) -> None:
    """End `other` as `done` has ended."""
    error = done.exception()
    if error is None:
        other.set_result(None)
    else:
        other.set_exception(error)


def _facts(session: Session) -> dict[str, Any]:
    return {
        "name": session.program.name,
        "revision": session.revision,
        "can_undo": session.can_undo,
        "can_redo": session.can_redo,
    }
