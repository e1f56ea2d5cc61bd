"""A self-contained HTML file: the widget's own bundle and a recording of what the kernel would say, no kernel, no request.

Recorded are the session's recipe and each single pattern switched the other way, the depths to which modules can be
opened, the parity of the recipe, and the answers about nodes: of the recipe about every node, of a switched pattern about
the nodes that it bears upon.
"""

from __future__ import annotations

import base64
import copy
import gzip
import html
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lowerscope.errors import LowerscopeError
from lowerscope.folding import Folding
from lowerscope.labels import shortened
from lowerscope.scene import SceneMaker
from lowerscope.session import Session
from lowerscope.verdict import Outcome
from lowerscope_widgets import answers
from lowerscope_widgets.bundle import bundle
from lowerscope_widgets.exports import recipe_text
from lowerscope_widgets.measuring import measure

LARGEST = 40_000_000  #: characters before compression (about 20 times as many as after); what has no room is left out
_FIRST = "as it is"
_DEEPEST = 6

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:">
<title>{title}</title>
<style>html, body {{ margin: 0; height: 100%; }} #explorer {{ height: 100%; }} #explorer > .ls-root {{ height: 100% !important; }}
{css}</style>
</head>
<body>
<noscript>This page is drawn by a script, which this browser does not run.</noscript>
<div id="explorer"></div>
<script id="bundle" type="application/json">{bundle}</script>
<script id="recording" type="application/octet-stream">{recording}</script>
<script type="module">
const text = (id) => document.getElementById(id).textContent;
const packed = Uint8Array.from(atob(text("recording")), (character) => character.charCodeAt(0));
const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
const url = URL.createObjectURL(new Blob([JSON.parse(text("bundle"))], {{ type: "text/javascript" }}));
const {{ replay }} = await import(url);
URL.revokeObjectURL(url);
replay(document.getElementById("explorer"), await new Response(unpacked).json());
</script>
</body>
</html>
"""


def to_html(session: Session, folding: Folding | None = None, *, largest: int = LARGEST) -> tuple[str, str]:
    """(the document, what it holds in a sentence). `folding`: what is open at first; as a new widget has it when None."""
    recording, note = record(session, folding, largest=largest)
    script, css = bundle()
    title = f"{shortened(session.program.name, 120)} for {session.target} - lowerscope"
    document = _PAGE.format(
        title=html.escape(title),
        css=css.replace("</", "<\\/"),
        bundle=_json_in_html(script),
        recording=base64.b64encode(gzip.compress(json.dumps(recording).encode(), mtime=0)).decode(),
    )
    return document, note


def write_html(path: str | os.PathLike[str], session: Session, folding: Folding | None = None) -> str:
    """Write what `to_html` gives; returns what it holds, in a sentence. LowerscopeError: the file cannot be written."""
    document, held = to_html(session, folding)
    try:
        Path(path).write_text(document, encoding="utf-8")
    except OSError as error:
        raise LowerscopeError(f"cannot write {os.fspath(path)!r} ({error.strerror}): choose another place") from error
    return held


def record(session: Session, folding: Folding | None = None, *, largest: int = LARGEST) -> tuple[dict[str, Any], str]:
    """(what `ReplayClient` of the front end replays, what it holds in a sentence). The session is left as it is."""
    tape = _Tape(folding, largest)
    other = Session(session.program, recipe=session.recipe)
    tape.scene(_FIRST, other)
    tape.depths(_FIRST, other)
    tape.events(_FIRST, other)
    tape.answers(_FIRST, other, list(other.lowering.ledger.records))
    switched = 0
    for name in other.patterns().index:
        switched += _switch(tape, other, str(name))
    left_out = "" if tape.complete else ", as far as there was room for the answers"
    said = f"It replays the recipe and {switched} patterns switched one by one, {len(tape.scenes)} pictures{left_out}."
    return tape.recording(), said


def request_key(request: Mapping[str, Any]) -> str:
    """A request as the front end's recording knows it: its fields but the id, sorted by name."""
    fields = {name: value for name, value in sorted(request.items()) if name != "id" and value is not None}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def _switch(tape: _Tape, session: Session, name: str) -> bool:
    """Record a pattern switched the other way, and the ways there and back; whether it can be."""
    enabled = bool(session.patterns().loc[name, "enabled"])
    bears = _bears_upon(session, name)
    try:
        (session.disable if enabled else session.enable)(name)
    except LowerscopeError:  # the target refuses it; the widget shows why beside the pattern
        return False
    tape.scene(name, session)
    there = {"type": "toggle", "pattern": name, "enabled": not enabled}
    tape.move(_FIRST, there, name)
    tape.move(name, {**there, "enabled": enabled}, _FIRST)
    tape.move(name, {"type": "undo"}, _FIRST)
    bears |= _bears_upon(session, name)
    tape.answers(name, session, [node for node in session.lowering.ledger.records if node in bears])
    session.undo()
    return True


def _bears_upon(session: Session, pattern: str) -> set[str]:
    """The nodes that a pattern takes, would take or nearly takes."""
    found: set[str] = set()
    for verdict in session.lowering.verdicts_of(pattern):
        if verdict.outcome is not Outcome.NOTHING_TO_FUSE:
            found |= {verdict.anchor, *verdict.nodes, *verdict.origins}
    return found


class _Tape:
    """A recording as it is made; `complete` until something did not fit."""

    def __init__(self, folding: Folding | None, largest: int) -> None:
        self.scenes: dict[str, Any] = {}
        self.complete = True
        self._maker = SceneMaker()
        self._maker.folding = copy.deepcopy(folding)
        self._moves: dict[str, dict[str, str]] = {}
        self._replies: dict[str, Any] = {}
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._room = largest

    def scene(self, key: str, session: Session) -> None:
        """Record the scene of a session under `key`."""
        scene = self._maker.scene(session.lowering, name=session.program.name, can_undo=session.can_undo)
        header, buffer = scene.message()
        event = {"type": "scene", "header": header, "reason": session.can_undo or ""}
        self.scenes[key] = {"event": event, "buffer": base64.b64encode(buffer).decode()}
        self._room -= len(json.dumps(self.scenes[key]))

    def depths(self, key: str, session: Session) -> None:
        """Record the scenes with the modules opened to each depth."""
        _, tree, folding = self._maker.prepare(session.lowering)
        deepest = min(_DEEPEST, max(module.depth for module in tree.modules) + 1)
        names = {depth: f"{key}, depth {depth}" for depth in range(1, deepest + 1)}
        for depth, name in names.items():
            self._maker.folding = Folding()
            self._maker.folding.set_depth(tree, depth)
            self.scene(name, session)
            self._replies[name] = key  # the same lowering, so the same answers
        self._maker.folding = folding
        for source in (key, *names.values()):
            for depth, name in names.items():
                self.move(source, {"type": "open_depth", "depth": depth}, name)

    def move(self, source: str, request: Mapping[str, Any], target: str) -> None:
        """A request that leads from one scene to another."""
        self._moves.setdefault(source, {})[request_key(request)] = target

    def events(self, key: str, session: Session) -> None:
        """Measure parity, and have it told after the scene."""
        told: list[dict[str, Any]] = []
        measure("parity", session.lowering, 0, told.append, lambda: False)
        self._events[key] = [event for event in told if event["type"] == "parity" and event["state"] != "measuring"]

    def answers(self, key: str, session: Session, nodes: list[str]) -> None:
        """Record what is asked about nodes, while there is room; and the recipe's written forms."""
        lowering = session.lowering
        recipe = session.recipe
        for form in ("python", "json"):
            self._reply(key, {"type": "copy", "what": form}, lambda form=form: recipe_text(recipe, form))
        for node in nodes:
            if self._room <= 0:
                self.complete = False
                return
            self._reply(key, {"type": "inspect", "node": node}, lambda node=node: answers.inspection(lowering, node))
            self._reply(key, {"type": "why_not", "node": node}, lambda node=node: answers.why_not(lowering, node, None))

    def _reply(self, key: str, request: Mapping[str, Any], made: Callable[[], Any]) -> None:
        data = made()
        self._room -= len(json.dumps(data))
        self._replies.setdefault(key, {})[request_key(request)] = data

    def recording(self) -> dict[str, Any]:
        """What the front end's `Recording` is."""
        return {
            "version": 1,
            "first": _FIRST,
            "scenes": self.scenes,
            "moves": self._moves,
            "replies": self._replies,
            "events": self._events,
        }


def _json_in_html(value: Any) -> str:
    """JSON that an HTML parser reads as text up to the closing tag."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
