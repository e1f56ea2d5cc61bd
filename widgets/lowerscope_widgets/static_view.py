"""What is seen without a kernel: a picture and tables, in a saved notebook, an untrusted one, on a page that runs nothing.

It is an output of its own. Where the live widget is drawn, the widget's style sheet hides it.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lowerscope import labels
from lowerscope.long_names import legible
from lowerscope.scene import Scene
from lowerscope.session import Session
from lowerscope.svg import to_svg

_LARGEST_PICTURE = 1_500_000  # characters; it is saved with the notebook
_ROWS = 40


@dataclass(frozen=True)
class StaticView:
    """The same as HTML without a script, every name in it escaped, and as plain text."""

    html: str
    text: str


def session_view(session: Session, scene: Scene) -> StaticView:
    """Picture and tables of a session."""
    return StaticView(static_html(session, scene), static_text(session, scene))


def said_view(sentence: str) -> StaticView:
    """A sentence in their place, while a model is being opened or where it cannot be."""
    return StaticView(f'<div class="ls-static"><p>{html.escape(labels.shortened(sentence, 600))}</p></div>', sentence)


def show_static(view: StaticView) -> Callable[[StaticView], None] | None:
    """Display the static view, in a notebook; returns what puts another one in its place. Elsewhere do nothing: None."""
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    handle = display(_data(view), raw=True, display_id=True)
    assert handle is not None
    return lambda other: handle.update(_data(other), raw=True)


def _data(view: StaticView) -> dict[str, str]:
    return {"text/html": view.html, "text/plain": view.text}


def static_html(session: Session, scene: Scene) -> str:
    """Picture and tables as HTML without a script; every name in it is escaped."""
    svg = to_svg(scene)
    name = html.escape(labels.shortened(session.program.name, 120))
    parts = [
        f'<div class="ls-static"><p><b>{name}</b> for {html.escape(session.target)}: {html.escape(_sentence(scene))}</p>'
    ]
    if len(svg) <= _LARGEST_PICTURE:
        data = base64.b64encode(svg.encode()).decode()
        parts.append(
            f'<p><img alt="the graph of {name}" style="max-width:100%;max-height:640px" '
            f'src="data:image/svg+xml;base64,{data}"></p>'
        )
    else:
        parts.append("<p>The picture is too large to be saved with the notebook: run the cell to see it.</p>")
    parts.append(_table(("pattern", "on", "what it does here"), _patterns(scene)))
    parts.append(_table(("operator", "before", "after", "delta"), _operators(scene)))
    parts.append("<p>Run the cell to explore.</p></div>")
    return "".join(parts)


def static_text(session: Session, scene: Scene) -> str:
    """The same as plain text."""
    lines = [f"{session.program.name} for {session.target}: {_sentence(scene)}"]
    lines += [f"  {'on ' if on == 'yes' else 'off'} {name}: {summary}" for name, on, summary in _patterns(scene)]
    lines += [f"  {before:>6} → {after:<6} {op}" for op, before, after, _ in _operators(scene)]
    return legible("\n".join(lines))


def _sentence(scene: Scene) -> str:
    total = scene.header["operators"][-1]
    return (
        f"{total['before']} operators before, {total['after']} after {len(scene.tables['steps']['pattern'])} rewrites"
    )


def _patterns(scene: Scene) -> list[tuple[str, str, str]]:
    return [(p["name"], "yes" if p["enabled"] else "no", p["summary"]) for p in scene.header["patterns"]]


def _operators(scene: Scene) -> list[tuple[str, int, int, str]]:
    rows = scene.header["operators"]
    shown = rows if len(rows) <= _ROWS else [*rows[: _ROWS - 1], rows[-1]]
    return [(r["op"], r["before"], r["after"], f"{r['delta']:+d}" if r["delta"] else "") for r in shown]


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(labels.shortened(str(cell), 200))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
