"""Names of any kind in a real JupyterLab: modules, nodes, inputs, ops, patterns and the program, wherever a notebook shows them.

Printed forms, tables, explanations, pictures, errors of cells and magics, the widget with its menus, tooltips and what it
saves: all is text, nothing runs, and the layout holds at 600, 1000 and 1400 px, light and dark.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal

import pytest

from tests.widgets.test_hostile import FILE, KEPT, NAMES, Tags
from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser

START = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import torch
from torch import nn
import lowerscope
from lowerscope.by_example import pattern_from
from lowerscope_widgets import Explorer
torch.set_num_threads(2)
names, file = json.loads({json.dumps(json.dumps(NAMES))}), json.loads({json.dumps(json.dumps(FILE))})

library = torch.library.Library("lowerscope_hostile_lab", "DEF")
library.define("o" * 10_000 + "(Tensor x) -> Tensor")
library.impl("o" * 10_000, torch.clone, "CompositeExplicitAutograd")
library.impl("o" * 10_000, torch.empty_like, "Meta")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        for name in names:
            self.add_module(name, nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU()))
    def forward(self, x, y):
        for name in names:
            x = getattr(self, name)(x)
        return torch.relu(x) + torch.sigmoid(getattr(torch.ops.lowerscope_hostile_lab, "o" * 10_000)(y)) * y

image = torch.rand(1, 2, 4, 4)
exported = torch.export.export(Net().eval(), (image, image))
# named as the modules are: the two inputs, the op of 10,000 letters, and what follows it
nodes = [node for node in exported.graph.nodes if node.op != "output" and not node.name.startswith("p_")]
for node, name in zip([*nodes[:2], *nodes[-5:]], names, strict=True):
    for spec in (*exported.graph_signature.input_specs, *exported.graph_signature.output_specs):
        if spec.arg.name == node.name:
            spec.arg.name = name
    node.name = name
examples = [torch.relu, torch.tanh, torch.abs, torch.neg, torch.exp, torch.sin, torch.cos]
for function, name in zip(examples, names, strict=True):
    pattern_from(function, lambda x: x.clamp(min=0), [torch.rand(2, 3)], name=name)
session = lowerscope.Session(lowerscope.Program(exported, name=file))
explorer = Explorer(session, height=700)
explorer
"""
#: All that a session is asked for in cells.
TABLES = """
from IPython.display import display
print(session, explorer, session.recipe, session.recipe.to_python())
for table in (session.patterns(), session.matches(), session.near_misses(), session.op_counts(), session.reasons()):
    print(table)
    display(table)
for name in names:
    print(session.why_not(node=name))
    display(session.why_not(node=name))
"""
#: Cells that fail, and what they say.
ERRORS = {
    "session.why_not(node=names[0] + '?')": "there is no node named '<img src=x onerror=hacked=1>?'",
    "session.disable(names[1] + '?')": "</script><script>hacked=1</script>?",
    "lowerscope.Session('<img src=x onerror=hacked=1>.pt2')": "there is no file '<img src=x onerror=hacked=1>.pt2'",
    "session.skip(module=names[3] + '.no')": "there is no module named 'xxx",
}
CELLS = [START, "print(json.dumps({}))", TABLES, *ERRORS]

STRAY = """
() => [...document.querySelectorAll('.jp-Notebook .jp-OutputArea :is(img, script, iframe, object, embed)')]
  .filter((one) => !one.alt?.startsWith('the graph of')).map((one) => one.outerHTML.slice(0, 200))
"""
LONGEST = """
(root) => Math.max(...[...root.querySelectorAll('*')].flatMap((one) =>
  ['title', 'aria-label', 'aria-valuetext', 'aria-description'].map((name) => one.getAttribute(name)?.length ?? 0)))
"""


def holds(widget: Widget, at: str) -> None:
    """Nothing ran, nothing is an element that should be text, nothing is wider than its place or too long to be said."""
    assert widget.page.evaluate("typeof hacked") == "undefined", at
    assert widget.page.evaluate(STRAY) == [], at
    assert widget.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), at
    assert widget.root.evaluate("(root) => root.scrollWidth - root.clientWidth") <= 0, at
    assert widget.root.evaluate(LONGEST) < 2_000, at


def test_printed_forms_tables_and_explanations_are_text(widget: Widget) -> None:
    widget.lab.run_cell(2)
    holds(widget, "tables")
    cell = widget.page.locator(".jp-Cell").nth(2)
    assert cell.locator("table").count() >= 5
    assert NAMES[0] in cell.inner_text()
    assert max(map(len, widget.lab.output(2).splitlines())) < 2_000


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_an_error_of_a_cell_is_one_sentence_of_text(widget: Widget, index: int) -> None:
    cell, said = list(ERRORS.items())[index]
    with pytest.raises(AssertionError, match=r"cell \d+ failed"):
        widget.lab.run_cell(3 + index)
    shown = widget.page.locator(".jp-Cell").nth(3 + index).locator(".jp-OutputArea-output").inner_text()
    assert said in shown, cell
    assert "Traceback" not in shown
    assert len(shown) < 2_000
    holds(widget, cell)


def test_what_is_saved_in_the_notebook_is_what_a_sanitiser_keeps(widget: Widget) -> None:
    outputs = widget.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.outputs.toJSON()"
    )
    bundles = [output["data"] for output in outputs if "data" in output]
    html = next("".join(data["text/html"]) for data in bundles if "text/html" in data)
    assert Tags(html).tags <= KEPT
    assert len("".join(next(data["text/plain"] for data in bundles if "text/plain" in data))) < 5_000


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [600, 1000, 1400])
def test_in_the_widget_nothing_runs_and_the_layout_holds(
    widget: Widget, width: int, theme: Literal["light", "dark"]
) -> None:
    widget.fit(width, theme)
    widget.root.scroll_into_view_if_needed()
    widget.view("before")
    for name in NAMES:
        widget.root.evaluate("(root, node) => root.lowerscope.store.travel(node)", name)
        widget.until(lambda name=name: (widget.state("whyNot") or {}).get("node") == name)
        title = widget.find("node-name").inner_text()
        assert title[:4] == name[:4] or name.startswith("\u202e"), "the name is what is read"
        holds(widget, f"node {name[:20]}")
    # its menus, its tooltip, and a search
    widget.find("node-menu").click()
    widget.find("menu").wait_for()
    holds(widget, "the node's menu")
    widget.page.keyboard.press("Escape")
    widget.travel(NAMES[0])
    where = widget.place(NAMES[0])
    widget.page.mouse.move(1, 1)
    widget.page.mouse.move(*where)
    assert NAMES[0] in widget.tip()
    holds(widget, "the tooltip")
    widget.page.mouse.click(*where, button="right")
    widget.root.get_by_role("menuitem").first.wait_for()
    holds(widget, "the menu of the graph")
    widget.page.keyboard.press("Escape")
    widget.keys("/")
    widget.page.keyboard.type("name:*onerror=hacked*")
    widget.find("search-hit", node=NAMES[0]).wait_for()
    holds(widget, "the search")
    widget.page.keyboard.press("Enter")
    widget.page.keyboard.press("Escape")
    # what is refused is said in the place where it was asked
    widget.patterns()
    entry = widget.find("skip-input")
    entry.fill("<img src=x onerror=hacked=1>.no")
    entry.press("Enter")
    error = widget.root.locator('[data-ls="region-error"][data-region="skips"], [data-ls="skip-error"]').first
    error.wait_for()
    assert "<img src=x onerror=hacked=1>" in error.inner_text()
    holds(widget, "the refused skip")
    entry.fill("")
    rows = widget.find("pattern-row")
    shown = rows.evaluate_all("(all) => all.map((one) => one.dataset.pattern)")
    assert set(NAMES) <= set(shown)
    for name in NAMES:
        rows.nth(shown.index(name)).click()
        holds(widget, f"pattern {name[:20]}")
    widget.lab.screenshot(f"hostile_{theme}_{width}")
    widget.without_drawer()
    widget.keys("m")
    for tab in ("operators", "parity"):
        widget.find("metrics-tab", sheet=tab).click()
        holds(widget, f"the table of {tab}")
    widget.find("metrics-close").click()


def test_the_saved_picture_has_the_names_as_text(widget: Widget, tmp_path: Path) -> None:
    with widget.page.expect_download() as download:
        widget.find("export").click()
        widget.find("menu-item", item="svg").click()
    download.value.save_as(tmp_path / "graph.svg")
    svg = (tmp_path / "graph.svg").read_text()
    assert not Tags(svg).tags & {"script", "img", "foreignobject", "iframe"}
    assert "&lt;img" in svg
    assert re.search(r"\w{3000}", svg) is None, "ten thousand characters are shortened"
    holds(widget, "the picture")
