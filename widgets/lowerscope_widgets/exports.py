"""What leaves the widget: the recipe as text, the graph as a picture, a page or a program."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from lowerscope.errors import unknown
from lowerscope.lowering import Lowering
from lowerscope.ops import display_name, is_own
from lowerscope.recipe import Recipe
from lowerscope.svg import to_svg
from lowerscope_widgets.jobs import in_thread
from lowerscope_widgets.scenes import LARGEST_MESSAGE

if TYPE_CHECKING:
    from lowerscope_widgets.explorer import Explorer


def recipe_text(recipe: Recipe, what: str) -> dict[str, str]:
    """A recipe as text, and what that is: "python", "json" or "compile_options". UnknownNameError: another form."""
    if what == "python":
        return {"text": recipe.to_python(), "format": "Python"}
    if what == "json":
        return {"text": recipe.to_json(), "format": "JSON"}
    if what == "compile_options":
        options = {name: sorted(values) for name, values in recipe.compile_options().items()}
        inside = ", ".join(f"{name!r}: {{{', '.join(map(repr, values))}}}" for name, values in options.items())
        return {"text": f"compile_options = {{{inside}}}", "format": "compile options"}
    raise unknown("form of a recipe", what, ("python", "json", "compile_options"))


def export(explorer: Explorer, what: str, step: int = 0) -> dict[str, str] | Future[dict[str, str]]:
    """The file that is asked for, or where it was written, and a sentence: "svg" (after `step`), "html" or "pt2".

    UnknownNameError: another kind of file.
    """
    name = f"{explorer.session.program.name}-{explorer.session.target}"
    if what == "svg":
        svg = to_svg(explorer.scene(), step)
        return {"text": svg, "filename": f"{name}.svg", "note": f"Saved the picture as {name}.svg."}
    if what == "html":
        return in_thread(lambda: _html(explorer, name))
    if what == "pt2":
        return in_thread(lambda: _pt2(explorer.session.lowering, name))
    raise unknown("export", what, ("svg", "html", "pt2"))


def _html(explorer: Explorer, name: str) -> dict[str, str]:
    text, note = explorer.to_html()
    if len(text) < LARGEST_MESSAGE:
        return {"text": text, "filename": f"{name}.html", "note": note}
    path = Path.cwd() / f"{name}.html"
    path.write_text(text, encoding="utf-8")
    return {"text": "", "filename": str(path), "note": f"Saved as {path}, beside the notebook. {note}"}


def _pt2(lowering: Lowering, name: str) -> dict[str, str]:
    program = lowering.program
    path = program.save(Path.cwd() / f"{name}.pt2")
    own = sorted({display_name(n.target) for n in program.graph.nodes if n.op == "call_function" and is_own(n.target)})
    needs = f" It needs `import lowerscope` for {', '.join(own)}." if own else " It needs no operator but torch's own."
    return {"text": "", "filename": str(path), "note": f"Saved the lowered program as {path}.{needs}"}
