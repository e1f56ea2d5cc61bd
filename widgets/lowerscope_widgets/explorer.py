"""Explorer: the notebook widget. One view on a `Session`: graph, patterns, inspector, numbers.

The kernel answers what the browser asks (`requests`) and sends a scene after every change, as messages with a buffer and
not as traits, which would echo them. What takes long runs in threads (`jobs`), on snapshots and values.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import anywidget
import traitlets
from torch.fx import Node

from lowerscope.errors import LowerscopeError
from lowerscope.folding import Folding
from lowerscope.layout import LayoutCancelled
from lowerscope.ledger import NodeRecord
from lowerscope.module_tree import ModuleTree
from lowerscope.recipe import Recipe
from lowerscope.scene import Scene, SceneMaker
from lowerscope.scene_nodes import NodeTable
from lowerscope.session import Session
from lowerscope_widgets import requests
from lowerscope_widgets.bundle import bundle
from lowerscope_widgets.jobs import Jobs
from lowerscope_widgets.measuring import described, measure
from lowerscope_widgets.static_view import show_static

PANELS = ("toolbar", "patterns", "graph", "inspector", "metrics")
MEGABYTE = 1_000_000
_SETTLED = 0.25  # seconds without a change before numbers are measured
_SLOW = 4000  # nodes of which a scene takes longer than a click may

_explorers: weakref.WeakKeyDictionary[Session, weakref.ref[Explorer]] = weakref.WeakKeyDictionary()


class Explorer(anywidget.AnyWidget):
    """The graph of a model's lowering, and all that can be asked about it, as one widget.

    Args:
        source: a Session, a Program, an exported program, or the path of a `.pt2`.
        target: the backend to lower for; of a session: to go to.
        panels: which of toolbar, patterns, graph, inspector, metrics to show; `["graph"]` is the bare graph.
        height: CSS px.

    Traits that can be observed and linked: `selected` (node ids), `recipe`. Methods: `focus(node)`, `export_html(path)`,
    `close()`, which frees it in kernel and browser.

    Raises:
        LoadError, UnknownNameError: as `Session`. BundleError: the front end was not built. LowerscopeError: a panel of
        that name does not exist.
    """

    panels = traitlets.List(traitlets.Unicode()).tag(sync=True)
    height = traitlets.Int(640).tag(sync=True)
    selected = traitlets.List(traitlets.Unicode(), help="ids of the selected nodes, the first is inspected")
    recipe = traitlets.Instance(Recipe, help="the session's recipe; assign one to go there")

    largest_message = 9 * MEGABYTE  #: Jupyter drops messages of 10 MiB without a word

    def __init__(
        self, source: Any, *, target: str | None = None, panels: Sequence[str] | None = None, height: int = 640
    ) -> None:
        # first what `close` reads: ipywidgets closes a widget that its constructor gave up on, too
        self._jobs = Jobs()
        self._maker = SceneMaker()
        self._measured: dict[str, dict[str, Any]] = {}
        self._last: tuple[Any, bytes] | None = None  # the last scene's header and columns, for a view that comes later
        self._end_watching: Callable[[], Any] = lambda: None
        self._esm, self._css = bundle()
        for name in panels or ():
            if name not in PANELS:
                raise LowerscopeError(f"there is no panel {name!r}: use some of {', '.join(PANELS)}")
        if isinstance(source, Session):
            self.session = source
            if target is not None:
                source.set_target(target)
        else:
            self.session = Session(source, target or "vulkan")
        self._making = threading.Lock()
        self._sending = threading.Lock()  # the parts of a scene follow each other
        self._shown: Future[None] | None = None
        self._quiet = False  # a trait is set to tell Python what happened, not to make it happen
        super().__init__(panels=list(panels or PANELS), height=height, recipe=self.session.recipe)
        self.on_msg(self._on_message)
        self._end_watching = self.session.on_change(self._on_change)
        _explorers[self.session] = weakref.ref(self)

    @classmethod
    def of(cls, session: Session) -> Explorer:
        """The session's explorer that was made last and is not closed; a new one when there is none."""
        known = _explorers.get(session)
        found = known() if known is not None else None
        return found if found is not None and found.comm is not None else cls(session)

    # ------------------------------------------------------------------ for Python
    @property
    def selected_nodes(self) -> tuple[Node, ...]:
        """The selected nodes as fx nodes of a snapshot: of the lowered program, else of the latest one that had them."""
        lowering = self.session.lowering
        found = []
        for id in self.selected:
            record = lowering.ledger.records.get(id)
            if record is None or record.prefix:
                continue
            step = len(lowering.steps) if record.died is None else record.died - 1
            graph = lowering.program_at(step).graph
            found += [node for node in graph.nodes if node.name == id]
        return tuple(found)

    def focus(self, node: str | Node) -> None:
        """Select a node and bring it into view. UnknownNameError: there is none of that name."""
        id = self.session.lowering.id(node)
        self.reveal(id)
        self.note_selected([id])
        self._tell({"type": "focus", "node": id})

    def export_html(self, path: Any) -> str:
        """Write a file that replays this session without a kernel; returns what it holds, in a sentence."""
        text, note = self.to_html()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return note

    def to_html(self) -> tuple[str, str]:
        """(a self-contained HTML document, what it holds in a sentence). No request leaves it."""
        from lowerscope_widgets.html_export import to_html

        return to_html(self.session, self._maker.folding)

    def close(self) -> None:
        """Free the widget in kernel and browser. The session lives on."""
        self._jobs.cancel()
        self._end_watching()
        self._last = None
        self._measured.clear()
        self._maker = SceneMaker()
        super().close()

    # ------------------------------------------------------------------ scenes
    def scene(self) -> Scene:
        """The scene as it is now."""
        session = self.session
        with self._making:
            return self._maker.scene(
                session.lowering,
                name=session.program.name,
                revision=session.revision,
                can_undo=session.can_undo,
                can_redo=session.can_redo,
            )

    def prepared(self) -> tuple[NodeTable, ModuleTree, Folding]:
        """Node table, module tree and what is open, for the lowering as it is."""
        with self._making:
            return self._maker.prepare(self.session.lowering)

    def show(self, reason: str) -> Future[None]:
        """Send the scene to every view; the future ends when it is sent. A large one is made in a thread."""
        session = self.session
        future: Future[None] = Future()
        facts = {
            "name": session.program.name,
            "revision": session.revision,
            "can_undo": session.can_undo,
            "can_redo": session.can_redo,
        }
        lowering = session.lowering

        def make(cancelled: Callable[[], bool] = lambda: False) -> None:
            try:
                with self._making:
                    scene = self._maker.scene(lowering, cancelled=cancelled, **facts)
                    header, buffer = scene.message()
                self._send_scene(header, buffer, reason)
                future.set_result(None)
            except LayoutCancelled:
                future.set_exception(LowerscopeError("the layout was cancelled: open fewer modules"))
            except BaseException as error:
                future.set_exception(error)

        if len(lowering.ledger.records) < _SLOW:
            make()
        else:
            self._jobs.start("layout", self._with_progress(make))
        self._shown = future
        return future

    def shown(self) -> Future[None] | None:
        """The future of the scene that was sent last."""
        return self._shown

    def show_again(self) -> Future[None]:
        """Send the last scene and what was measured of it, for a view that has just come."""
        future: Future[None] = Future()
        current = self._last is not None and self._last[0]["revision"] == self.session.revision
        if current and self._last is not None:
            self._send_scene(*self._last, "")
            future.set_result(None)
        else:
            future = self.show("")
        for event in list(self._measured.values()):
            if event["revision"] == self.session.revision:
                self._tell(event)
        if "parity" not in self._measured or self._measured["parity"]["revision"] != self.session.revision:
            self.measure("parity")
        return future

    def reveal(self, node: str) -> Future[None]:
        """Open what hides a node and send the scene. UnknownNameError: there is none of that name."""
        id = self.session.lowering.id(node)
        _, tree, folding = self.prepared()
        folding.reveal(tree, id)
        return self.show("")

    def _with_progress(self, make: Callable[[Callable[[], bool]], None]) -> Callable[[Callable[[], bool]], None]:
        def work(cancelled: Callable[[], bool]) -> None:
            count = len(self.session.lowering.ledger.records)
            self._tell(
                {"type": "progress", "what": "layout", "done": 0, "total": 1, "sentence": f"laying out {count} nodes"}
            )
            make(cancelled)
            self._tell({"type": "progress", "what": "layout", "done": 1, "total": 1, "sentence": ""})

        return work

    def _send_scene(self, header: dict[str, Any], buffer: bytes, reason: str) -> None:
        """One message, or several where Jupyter would drop it: `part` messages carry the columns' beginning, in order."""
        names = len(json.dumps(header))
        room = self.largest_message - names
        if room <= 0:
            raise LowerscopeError(
                f"the names in this program take {names / MEGABYTE:.1f} MB, and Jupyter passes on no message above "
                f"{self.largest_message / MEGABYTE:.0f}: look at it with session.matches() and session.why_not()"
            )
        self._last = (header, buffer)
        *parts, rest = [buffer[at : at + room] for at in range(0, max(1, len(buffer)), room)]
        with self._sending:
            for part, columns in enumerate(parts):
                self.send({"type": "part", "part": part}, [columns])
            self.send({"type": "scene", "header": header, "reason": reason, "parts": len(parts)}, [rest])

    # ------------------------------------------------------------------ measuring
    def measure(self, what: str, delay: float = 0.0) -> None:
        """Measure in the background; what ran before of that kind is told to stop."""
        session = self.session
        lowering, revision = session.lowering, session.revision

        def tell(event: dict[str, Any]) -> None:
            if event["type"] == what:
                self._measured[what] = event
            if revision == session.revision:
                self._tell(event)

        self._jobs.start(what, lambda cancelled: measure(what, lowering, revision, tell, cancelled), delay)

    def cancel(self, what: str) -> None:
        """Stop what runs in the background ("parity", "latency", "by_step", "layout")."""
        self._jobs.cancel(what)

    def later(self, work: Callable[[], Any]) -> Future[Any]:
        """Do `work` in a thread of its own; its result, or its error, is the future's."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name="lowerscope-later", daemon=True).start()
        return future

    # ------------------------------------------------------------------ what the browser and the session say
    def note_selected(self, nodes: list[str]) -> None:
        """The browser has selected nodes: tell Python, and do not tell the browser."""
        known: Mapping[str, NodeRecord] = self.session.lowering.ledger.records
        self._quietly(selected=[node for node in nodes if node in known])

    def _on_message(self, _: Any, content: Any, buffers: Any) -> None:
        if not isinstance(content, dict) or "type" not in content:
            return
        id = content.get("id")
        try:
            found = requests.answer(self, content)
        except Exception as error:
            self._reply(content, id, error=error)
            return
        if isinstance(found, Future):
            found.add_done_callback(
                lambda f: self._reply(content, id, f.result() if not f.exception() else None, f.exception())
            )
        else:
            self._reply(content, id, found)

    def _reply(self, request: Mapping[str, Any], id: Any, data: Any = None, error: BaseException | None = None) -> None:
        if requests.is_told(request):
            return
        if error is None:
            self._tell({"id": id, "ok": True, "data": data})
        else:
            self._tell({"id": id, "ok": False, "error": sentence_of(error)})

    def _on_change(self, sentence: str) -> None:
        """The session has changed, here or in another cell."""
        for what in ("parity", "latency", "by_step"):
            self._jobs.cancel(what)
        self._quietly(recipe=self.session.recipe)
        records = self.session.lowering.ledger.records
        self._quietly(selected=[node for node in self.selected if node in records])
        self._shown = self.show(sentence)
        self._shown.add_done_callback(self._tell_failure)
        self.measure("parity", _SETTLED)

    def _tell_failure(self, future: Future[None]) -> None:
        error = future.exception()
        if error is not None:
            self._tell({"type": "error", "where": "graph", "sentence": sentence_of(error)})

    @traitlets.observe("selected")
    def _selected_in_python(self, change: Any) -> None:
        if not self._quiet:
            self._tell({"type": "select", "nodes": list(change.new)})

    @traitlets.validate("selected")
    def _known_nodes(self, proposal: Any) -> list[str]:
        return [self.session.lowering.id(node) for node in proposal.value]

    @traitlets.observe("recipe")
    def _recipe_in_python(self, change: Any) -> None:
        if not self._quiet and change.new != self.session.recipe:
            self.session.recipe = change.new

    def _quietly(self, **values: Any) -> None:
        self._quiet = True
        try:
            for name, value in values.items():
                setattr(self, name, value)
        finally:
            self._quiet = False

    def _tell(self, message: dict[str, Any]) -> None:
        if self.comm is not None:  # closed meanwhile
            self.send(message)

    # ------------------------------------------------------------------ display
    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget; and before it, as an output of its own, what a page without a kernel shows."""
        show_static(self.session, self.scene())
        return super()._repr_mimebundle_(**options)

    def __repr__(self) -> str:
        return f"<Explorer of {self.session!r}>"


def sentence_of(error: BaseException) -> str:
    """An error as one sentence for the widget: ours as they are; others with their class and where they arose."""
    return str(error) if isinstance(error, LowerscopeError) else described(error)
