"""Explorer: the notebook widget. One view on a `Session`: graph, patterns, inspector, numbers.

The kernel answers what the browser asks (`requests`) and sends a scene after every change, as messages with a buffer and
not as traits, which would echo them. What takes long runs in threads (`jobs`), on snapshots and values.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from torch.fx import Node

from lowerscope.errors import LowerscopeError, MissingOperatorError
from lowerscope.folding import Folding
from lowerscope.ledger import NodeRecord
from lowerscope.module_tree import ModuleTree
from lowerscope.program import as_program
from lowerscope.recipe import Recipe
from lowerscope.scene import Scene
from lowerscope.scene_nodes import NodeTable
from lowerscope.session import Session
from lowerscope.target import target_of
from lowerscope_widgets import html_export, requests
from lowerscope_widgets.background import Background
from lowerscope_widgets.bundle import bundle
from lowerscope_widgets.cells import follow_cells
from lowerscope_widgets.jobs import Jobs
from lowerscope_widgets.live_reload import follow
from lowerscope_widgets.measuring import WHAT
from lowerscope_widgets.opening import Opening, UnknownOps
from lowerscope_widgets.said import sentence_of
from lowerscope_widgets.samples import sample_models
from lowerscope_widgets.scenes import Scenes, pass_on
from lowerscope_widgets.static_view import StaticView, said_view, session_view, show_static

PANELS = ("toolbar", "patterns", "graph", "inspector", "metrics")
_GRACE = 0.5  # seconds in which most models are open: their static view is then shown at once
_SETTLED = 0.25  # seconds without a change before numbers are measured

_explorers: weakref.WeakKeyDictionary[Session, weakref.ref[Explorer]] = weakref.WeakKeyDictionary()


class Explorer(anywidget.AnyWidget):
    """The graph of a model's lowering, and all that can be asked about it, as one widget.

    Args:
        source: a Session, a Program, an exported program, or the path of a `.pt2`. All but a Session is opened beside the
            user, in named stages that the widget shows and can stop; `session` waits for it. None: the widget asks for a
            path, and offers the sample models where it finds some.
        target: the backend to lower for; of a session: to go to.
        panels: which of toolbar, patterns, graph, inspector, metrics to show; `["graph"]` is the bare graph.
        height: CSS px.

    Traits that can be observed and linked: `selected` (node ids), `recipe`. Methods: `focus(node)`, `export_html(path)`,
    `close()`, which frees it in kernel and browser.

    Raises:
        UnknownNameError: the target is not known. BundleError: the front end was not built. LowerscopeError: a panel of
        that name does not exist, or `source` is no program. A path that cannot be opened is said in the widget, with a
        way out, and raised by `session`; so is NoModelError before one is opened.
    """

    panels = traitlets.List(traitlets.Unicode()).tag(sync=True)
    height = traitlets.Int(640).tag(sync=True)
    selected = traitlets.List(traitlets.Unicode(), help="ids of the selected nodes, the first is inspected")
    recipe = traitlets.Instance(Recipe, help="the session's recipe; assign one to go there")

    def __init__(
        self, source: Any = None, *, target: str | None = None, panels: Sequence[str] | None = None, height: int = 640
    ) -> None:
        # first what `close` reads: ipywidgets closes a widget that its constructor gave up on, too
        self._jobs = Jobs()
        self._scenes = Scenes(self._jobs, self._tell)
        self._background = Background(self._jobs, self._tell)
        self._end_watching: Callable[[], Any] = lambda: None
        self._session: Session | None = None
        self._opening: Opening | None = None
        self._samples: list[dict[str, str]] | None = None  # offered by a widget that was made without a model
        self._show_other: Callable[[StaticView], None] | None = None  # in the place of the static view that is shown
        self._esm, self._css = bundle()
        for name in panels or ():
            if name not in PANELS:
                raise LowerscopeError(f"there is no panel {name!r}: use some of {', '.join(PANELS)}")
        if isinstance(source, Session):
            if target is not None:
                source.set_target(target)
        else:
            name = target_of(target or "vulkan").name
            if source is None:
                model, self._samples = None, sample_models()
            else:
                model = Path(source) if isinstance(source, (str, os.PathLike)) else as_program(source)
            self._opening = Opening(model, name, self._tell, self._adopt)
        self._quiet = False  # a trait is set to tell Python what happened, not to make it happen
        super().__init__(panels=list(panels or PANELS), height=height)
        self.on_msg(self._on_message)
        follow(self)
        if self._opening is not None:
            self._opening.start()
        else:
            self._adopt(source)  # type: ignore[arg-type]  # a Session, then

    @classmethod
    def of(cls, session: Session) -> Explorer:
        """The session's explorer that was made last and is not closed; a new one when there is none."""
        known = _explorers.get(session)
        found = known() if known is not None else None
        return found if found is not None and found.comm is not None else cls(session)

    # ------------------------------------------------------------------ the session
    @property
    def session(self) -> Session:
        """What the widget shows. Waits while it is opened. LoadError: it cannot be; says why. Stopped: it was stopped."""
        if self._session is None:
            assert self._opening is not None
            return self._opening.future.result()
        return self._session

    def load(self, unknown_ops: UnknownOps = "error", path: str | os.PathLike[str] | None = None) -> Future[None]:
        """Open again what could not be opened, or was stopped; the future ends when the scene is sent.

        unknown_ops: "stand-in" looks at the graph without the operators that are not registered here. path: of another
        `.pt2` to open instead; a widget that has its model keeps it.
        """
        if self._session is None and self._opening is not None:
            if path is not None:
                self._opening.open(Path(path).expanduser())
            self._opening.start(unknown_ops)
            self._opening.future.add_done_callback(self._renew_static)
        return self.show_opened()

    def show_opened(self) -> Future[None]:
        """Send the scene as soon as there is one, for a view that has just come; until then, what is being done."""
        if self._session is not None or self._opening is None:
            return self.show_again()
        shown: Future[None] = Future()
        if self._samples is not None:
            self._tell({"type": "empty", "samples": self._samples})
        if self._opening.is_idle:
            shown.set_result(None)
            return shown
        self._opening.tell_again()
        self._opening.future.add_done_callback(lambda done: self._show_first(done, shown))
        return shown

    def _show_first(self, done: Future[Session], shown: Future[None]) -> None:
        try:
            done.result()
            self.show_again().add_done_callback(lambda sent: pass_on(sent, shown))
        except BaseException as error:
            shown.set_exception(error)  # first: an answer takes the error away that was told before it
            otherwise = "Open without it" if isinstance(error, MissingOperatorError) else None
            self._tell({"type": "error", "where": "graph", "sentence": sentence_of(error), "otherwise": otherwise})

    def _adopt(self, session: Session) -> None:
        """A session is there: show it and follow its changes."""
        self._session = session
        self._end_watching = session.on_change(self._on_change)
        _explorers[session] = weakref.ref(self)
        follow_cells(self)

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

    def refresh(self) -> None:
        """Show what the patterns make of the program as they are now: done after each cell of a notebook."""
        if self._session is not None:
            try:
                self._session.refresh()
            except LowerscopeError as error:  # a pattern that cannot be put in order, say
                self._tell({"type": "error", "where": "graph", "sentence": sentence_of(error)})

    def focus(self, node: str | Node) -> None:
        """Select a node and bring it into view. UnknownNameError: there is none of that name."""
        id = self.session.lowering.id(node)
        self.reveal(id)
        self.note_selected([id])
        self._tell({"type": "focus", "node": id})

    def export_html(self, path: str | os.PathLike[str]) -> str:
        """Write a file that replays this session without a kernel; returns what it holds, in a sentence.

        LowerscopeError: the file cannot be written.
        """
        return html_export.write_html(path, self.session, self._scenes.maker.folding)

    def to_html(self) -> tuple[str, str]:
        """(a self-contained HTML document, what it holds in a sentence). No request leaves it."""
        return html_export.to_html(self.session, self._scenes.maker.folding)

    def close(self) -> None:
        """Free the widget in kernel and browser. The session lives on."""
        if self._opening is not None:
            self._opening.stop()
        self._jobs.cancel()
        self._end_watching()
        self._background.forget()
        self._scenes.forget()
        layout = self.layout if self.comm is not None else None
        super().close()
        if layout is not None:
            layout.close()  # a widget of its own, which ipywidgets leaves open

    # ------------------------------------------------------------------ scenes
    def scene(self) -> Scene:
        """The scene as it is now."""
        return self._scenes.scene(self.session)

    def prepared(self) -> tuple[NodeTable, ModuleTree, Folding]:
        """Node table, module tree and what is open, for the lowering as it is."""
        return self._scenes.prepared(self.session)

    def show(self, reason: str) -> Future[None]:
        """Send the scene to every view; the future ends when it is sent. A large one is made in a thread."""
        return self._scenes.show(self.session, reason)

    def shown(self) -> Future[None] | None:
        """The future of the scene that was sent last."""
        return self._scenes.shown

    def show_again(self) -> Future[None]:
        """Send the last scene and what was measured of it, for a view that has just come."""
        future = self._scenes.show_again(self.session)
        self._background.tell_again(self.session)
        return future

    def reveal(self, node: str) -> Future[None]:
        """Open what hides a node and send the scene. UnknownNameError: there is none of that name."""
        id = self.session.lowering.id(node)
        _, tree, folding = self.prepared()
        folding.reveal(tree, id)
        return self.show("")

    # ------------------------------------------------------------------ beside the user
    def measure(self, what: str, delay: float = 0.0) -> None:
        """Measure in the background; what ran before of that kind is told to stop."""
        self._background.measure(self.session, what, delay)

    def cancel(self, what: str) -> None:
        """Stop what runs in the background: a measurement, "load", "what_if" or "layout"."""
        if what == "load" and self._opening is not None:
            self._opening.stop()
        self._jobs.cancel("layout" if what == "load" else what)

    def what_if(self, pattern: str, node: str) -> Future[Any]:
        """Try changes under which `pattern` would match at `node`, in the background; None when it is told to stop."""
        return self._background.what_if(self.session, pattern, node)

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
        except (Exception, KeyboardInterrupt) as error:  # interrupted, it still owes the browser an answer
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
        for what in (*WHAT, "what_if"):
            self._jobs.cancel(what)
        self._quietly(recipe=self.session.recipe)
        records = self.session.lowering.ledger.records
        self._quietly(selected=[node for node in self.selected if node in records])
        self.show(sentence).add_done_callback(self._tell_failure)
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

    @traitlets.default("recipe")
    def _recipe_once_opened(self) -> Recipe:
        return self.session.recipe

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

    def _tell(self, message: dict[str, Any], buffers: list[bytes] | None = None) -> None:
        if self.comm is not None:  # closed meanwhile
            self.send(message, buffers)

    # ------------------------------------------------------------------ display
    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget; and before it, as an output of its own, what a page without a kernel shows."""
        if self._opening is not None:
            wait([self._opening.future], _GRACE)
        self._show_other = show_static(self._static_view())
        if self._opening is not None and not self._opening.future.done():
            self._opening.future.add_done_callback(self._renew_static)
        return super()._repr_mimebundle_(**options)

    def _static_view(self) -> StaticView:
        """Of the session; of a model that is still being opened, or cannot be, what there is to say."""
        if self._session is None and self._opening is not None:
            done = self._opening.future.done()
            error = self._opening.future.exception() if done else None
            return said_view(f"{self._opening.name} is being opened." if error is None else sentence_of(error))
        return session_view(self.session, self.scene())

    def _renew_static(self, _: Future[Session]) -> None:
        if self._show_other is not None:
            self._show_other(self._static_view())

    def __repr__(self) -> str:
        if self._session is None and self._opening is not None:
            return (
                "<Explorer, no model yet>" if self._opening.is_idle else f"<Explorer, opening {self._opening.name!r}>"
            )
        return f"<Explorer of {self.session!r}>"
