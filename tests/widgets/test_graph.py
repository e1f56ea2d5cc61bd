"""The graph of the widget in a real JupyterLab: clicks, keys, modules, themes, several widgets, and what closing frees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.widgets.lab import Lab, at_rest, eventually

pytestmark = pytest.mark.browser

MODEL = Path(__file__).parents[2] / "sample_models" / "conv_bn.pt2"
SHOW = f"""
import torch
torch.set_num_threads(2)
from lowerscope_widgets import Explorer

explorer = Explorer({str(MODEL)!r}, target="vulkan")
explorer
"""


@pytest.fixture
def page(lab: Lab) -> Page:
    """A notebook with one widget that is drawn."""
    page = lab.open_notebook([SHOW, "print(explorer.selected)", "explorer", "explorer.close()"])
    lab.run_cell(0)
    ready(page)
    return page


def ready(page: Page, index: int = 0) -> None:
    page.locator('.ls-root[data-ls-ready="true"]').nth(index).wait_for(timeout=60_000)


def state(page: Page, name: str, index: int = 0) -> Any:
    return page.locator(".ls-root").nth(index).evaluate("(root, name) => root.lowerscope.state()[name]", name)


def box(page: Page, node: str) -> dict[str, float] | None:
    return page.locator(".ls-root").first.evaluate("(root, node) => root.nodeRect(node)?.toJSON() ?? null", node)


def shown_node(page: Page) -> str:
    """The first operator that has a box inside the pane."""
    return page.locator(".ls-mirror [data-node-id*='conv']").first.get_attribute("data-node-id") or ""


def click_node(page: Page, node: str, button: Any = "left") -> None:
    where = at_rest(lambda: box(page, node), page)
    assert where is not None
    page.mouse.click(where["x"] + where["width"] / 2, where["y"] + where["height"] / 2, button=button)


def test_a_click_selects_what_python_then_sees(lab: Lab, page: Page) -> None:
    node = shown_node(page)
    click_node(page, node)
    assert state(page, "selected") == [node]
    lab.run_cell(1)
    assert lab.output(1).strip() == f"['{node}']"
    assert lab.page_errors == []
    assert lab.foreign_requests == []


def test_keys_are_the_widgets_while_it_has_focus_and_the_notebooks_otherwise(lab: Lab, page: Page) -> None:
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    node = shown_node(page)
    click_node(page, node)
    for key in "dd":  # would delete the cell
        page.keyboard.press(key)
    page.keyboard.press("a")  # would insert one
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells
    assert state(page, "view") == "after"
    page.keyboard.press("b")
    assert state(page, "view") == "before"
    page.keyboard.press("ArrowDown")
    assert state(page, "selected") != [node]
    page.keyboard.press("Escape")
    assert state(page, "selected") == []
    page.keyboard.press("Escape")
    assert not page.evaluate("document.querySelector('.ls-root').contains(document.activeElement)")
    page.keyboard.press("a")
    page.wait_for_function("(cells) => document.querySelectorAll('.jp-Notebook .jp-Cell').length > cells", arg=cells)


def test_a_module_closes_and_opens_where_it_was(page: Page) -> None:
    module = page.locator('.ls-mirror [aria-expanded="true"]').first
    path = module.get_attribute("data-module-path")
    before = at_rest(module.bounding_box, page)
    assert before is not None
    page.mouse.click(before["x"] + 10, before["y"] + 10)
    closed = page.locator(f'.ls-mirror [data-module-path="{path}"][aria-expanded="false"]')
    closed.wait_for(state="attached")
    page.keyboard.press("Enter")
    page.locator(f'.ls-mirror [data-module-path="{path}"][aria-expanded="true"]').wait_for(state="attached")
    after = at_rest(lambda: page.locator(f'.ls-mirror [data-module-path="{path}"]').bounding_box(), page)
    assert after is not None
    assert abs(after["x"] - before["x"]) < 2
    assert abs(after["y"] - before["y"]) < 2


def test_colours_follow_the_theme_at_once(lab: Lab, page: Page) -> None:
    root = page.locator(".ls-root").first
    assert not root.evaluate("(root) => root.classList.contains('ls-dark')")
    light = root.evaluate(PIXEL)
    lab.theme("dark")
    page.wait_for_function("document.querySelector('.ls-root').classList.contains('ls-dark')")
    assert eventually(lambda: root.evaluate(PIXEL) != light, page)


# The colour in the middle of the first module's header.
PIXEL = """
(root) => {
  const module = root.querySelector('.ls-mirror [data-module-path]').getBoundingClientRect();
  const canvas = root.querySelector('.ls-stage canvas');
  const outer = canvas.getBoundingClientRect();
  const ratio = canvas.width / outer.width;
  const x = (module.left + module.width / 2 - outer.left) * ratio;
  return [...canvas.getContext('2d').getImageData(x, (module.top + 3 - outer.top) * ratio, 1, 1).data];
}
"""


def test_shown_twice_it_stays_in_step_and_closing_frees_both(lab: Lab, page: Page) -> None:
    lab.run_cell(2)
    ready(page, 1)
    pattern = page.locator(".ls-root").first.evaluate(
        "(root) => root.lowerscope.scene().patterns.find((one) => one.enabled && one.locked === null).name"
    )
    page.locator(".ls-root").first.evaluate("(root, name) => root.lowerscope.store.toggle(name, false)", pattern)
    page.wait_for_function(
        "(name) => [...document.querySelectorAll('.ls-root')].every((root) => !root.lowerscope.scene().patterns.find((one) => one.name === name).enabled)",
        arg=pattern,
    )
    first, second = (
        page.locator(".ls-root").nth(i).evaluate("(root) => root.lowerscope.scene().revision") for i in (0, 1)
    )
    assert first == second
    assert page.evaluate(
        "(() => { const [a, b] = document.querySelectorAll('.ls-root'); return a.lowerscope.scene() === b.lowerscope.scene(); })()"
    )
    lab.run_cell(3)
    page.wait_for_function("document.querySelectorAll('.ls-root').length === 0")
    assert lab.page_errors == []


def test_the_wheel_zooms_at_the_cursor_and_a_drag_pans(page: Page) -> None:
    node = shown_node(page)
    click_node(page, node)
    before = at_rest(lambda: box(page, node), page)
    assert before is not None
    page.mouse.wheel(0, -200)
    assert eventually(lambda: box(page, node) != before, page)
    zoomed = at_rest(lambda: box(page, node), page)
    assert zoomed is not None
    assert zoomed["width"] > before["width"] * 1.1
    middle = before["x"] + before["width"] / 2
    assert abs(zoomed["x"] + zoomed["width"] / 2 - middle) < 2
    graph = page.locator(".ls-pane").first.bounding_box()
    assert graph is not None
    x, y = graph["x"] + 30, graph["y"] + graph["height"] - 60
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 50, y - 40, steps=5)
    page.mouse.up()
    panned = at_rest(lambda: box(page, node), page)
    assert panned is not None
    assert abs(panned["x"] - zoomed["x"] - 50) < 1
    assert abs(panned["y"] - zoomed["y"] + 40) < 1
