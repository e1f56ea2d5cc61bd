"""What the browser may ask, request by request: each handler does it on the explorer's session and returns the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lowerscope.conflicts import flip_for
from lowerscope.errors import LowerscopeError, unknown
from lowerscope.lowering import Lowering
from lowerscope.ops import display_name
from lowerscope.recipe import Recipe, Skip
from lowerscope.scene_words import skip_key
from lowerscope.target import faults, pipeline
from lowerscope_widgets import answers, exports
from lowerscope_widgets.jobs import in_thread
from lowerscope_widgets.measuring import WHAT

if TYPE_CHECKING:
    from lowerscope_widgets.explorer import Explorer

Handler = Callable[["Explorer", Mapping[str, Any]], Any]


def answer(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    """The reply's data, or a Future of it. LowerscopeError: the request is not one of the protocol's, or cannot be met."""
    handler = _HANDLERS.get(str(request.get("type")))
    if handler is None:
        raise LowerscopeError(
            f"the kernel does not know the request {request.get('type')!r}: restart it and reload the page"
        )
    try:
        return handler(explorer, request)
    except KeyError as error:
        if isinstance(error, LowerscopeError):
            raise
        raise LowerscopeError(f"the request {request.get('type')!r} lacks its field {error}: reload the page") from None


# ---------------------------------------------------------------------- the recipe
def _toggle(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    change = explorer.session.enable if request["enabled"] else explorer.session.disable
    change(request["pattern"])
    return explorer.shown()


def _only(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    explorer.session.only(request["pattern"])
    return explorer.shown()


def _all(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    session = explorer.session
    names = [p.name for p in pipeline(session.target, session.recipe.insertions)]
    refused = session.lowering.target.refused
    if request["enabled"]:
        faulty = faults(session.target)
        session.enable(*(name for name in names if name not in refused and name not in faulty))
    else:
        session.disable(*(name for name in names if name != "core_aten"))
    return explorer.shown()


def _move(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    explorer.session.insert(request["pattern"], before=request["before"])
    return explorer.shown()


def _flip(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    session = explorer.session
    session.recipe = flip_for(session.lowering, *session.known_patterns([request["pattern"]]))
    return explorer.shown()


def _apply(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    explorer.session.recipe = Recipe.from_json(request["recipe"])
    return explorer.shown()


def _skip(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    session = explorer.session
    match = request.get("match")
    if match is not None:
        session.skip(pattern=match["pattern"], match=match["anchor"])
        return explorer.shown()
    given = {name: request.get(name) for name in ("pattern", "node", "module", "op")}
    if given["node"] is not None:
        _skip_node(explorer, given)
    else:
        session.skip(**given)
    return explorer.shown()


def _skip_node(explorer: Explorer, given: dict[str, Any]) -> None:
    """A node that a rewrite made has a name that shifts: skip the node it comes from, or the match that made it."""
    session = explorer.session
    lowering = session.lowering
    id = lowering.id(given["node"])
    origin = lowering.origin(id)
    record = lowering.ledger.records[id]
    if record.born == 0 or len(origin) == 1:
        session.skip(**{**given, "node": origin[0] if len(origin) == 1 else id})
        return
    step = lowering.steps[record.born - 1]
    session.skip(pattern=step.pattern, match=step.anchor)


def _skip_text(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    explorer.session.skip(**named(explorer.session.lowering, str(request["text"]).strip()))
    return explorer.shown()


def named(lowering: Lowering, text: str) -> dict[str, str]:
    """What a reader typed, as an argument of `Session.skip`: a pattern, a node, an op, or a module glob.

    UnknownNameError: it is none of them; names the closest.
    """
    patterns = [stage.pattern for stage in lowering.stages]
    records = lowering.ledger.records
    if text in patterns:
        return {"pattern": text}
    if text in records:
        return {"node": text}
    ops = {display_name(r.target) for r in records.values() if r.op == "call_function"}
    if any(Skip(op=text).covers_op(op) for op in ops):
        return {"op": text}
    modules = {r.module for r in records.values() if r.module}
    if text and any(Skip(module=text).covers_module(module) for module in modules):
        return {"module": text}
    raise unknown("pattern, node, op or module", text, [*patterns, *sorted(modules), *sorted(ops), *records])


def _unskip(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    session = explorer.session
    skip = next((s for s in session.recipe.skips if skip_key(s) == request["key"]), None)
    if skip is None:
        raise LowerscopeError("this skip is not on the list any more: it was taken off elsewhere")
    session.unskip(skip.pattern, skip.node, skip.module, skip.op, skip.match)
    return explorer.shown()


def _undo(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    explorer.session.undo()
    return explorer.shown()


def _redo(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    explorer.session.redo()
    return explorer.shown()


def _target(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    explorer.session.set_target(request["target"])
    return explorer.shown()


def _profile(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    explorer.session.set_profile(**{request["name"]: request["value"]})
    return explorer.shown()


# ---------------------------------------------------------------------- modules
def _ready(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    return explorer.show_opened()


def _load(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    return explorer.load("stand-in" if request["without"] else "error", request.get("path"))


def _open(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    _, tree, folding = explorer.prepared()
    rows = [int(row) for row in request["modules"] if 0 <= int(row) < len(tree.modules)]
    folding.set_open(tree, rows, bool(request["open"]))
    return explorer.show("")


def _open_depth(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    _, tree, folding = explorer.prepared()
    folding.set_depth(tree, int(request["depth"]))
    return explorer.show("")


def _reveal(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    return explorer.reveal(request["node"])


def _merge(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    _, tree, folding = explorer.prepared()
    row = int(request["module"])
    if 0 <= row < len(tree.modules):
        folding.set_merged(tree, explorer.session.lowering.ledger.records, row, bool(request["merged"]))
    return explorer.show("")


# ---------------------------------------------------------------------- questions
def _inspect(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    return answers.inspection(explorer.session.lowering, request["node"])


def _why_not(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    return answers.why_not(explorer.session.lowering, request["node"], request.get("pattern"))


def _what_if(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    return explorer.what_if(request["pattern"], request["node"])


def _statistics(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    lowering, node = explorer.session.lowering, request["node"]
    return in_thread(lambda: answers.statistics(lowering, node))


def _measure(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    if request["what"] not in WHAT:
        raise unknown("measurement", str(request["what"]), WHAT)
    explorer.measure(request["what"])


def _cancel(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    explorer.cancel(request["what"])


def _selected(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    explorer.note_selected([str(node) for node in request["nodes"]])


# ---------------------------------------------------------------------- what leaves the widget
def _copy(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    return exports.recipe_text(explorer.session.recipe, str(request["what"]))


def _export(explorer: Explorer, request: Mapping[str, Any]) -> Any:
    return exports.export(explorer, str(request["what"]), int(request.get("step", 0)))


_HANDLERS: dict[str, Handler] = {
    "ready": _ready,
    "load": _load,
    "toggle": _toggle,
    "only": _only,
    "all": _all,
    "move": _move,
    "flip": _flip,
    "apply": _apply,
    "skip": _skip,
    "skip_text": _skip_text,
    "unskip": _unskip,
    "undo": _undo,
    "redo": _redo,
    "target": _target,
    "profile": _profile,
    "open": _open,
    "open_depth": _open_depth,
    "reveal": _reveal,
    "merge": _merge,
    "inspect": _inspect,
    "why_not": _why_not,
    "what_if": _what_if,
    "statistics": _statistics,
    "measure": _measure,
    "cancel": _cancel,
    "selected": _selected,
    "copy": _copy,
    "export": _export,
}


def is_told(request: Mapping[str, Any]) -> bool:
    """Whether a request is told, not asked: nothing is replied."""
    return request.get("type") == "selected"
