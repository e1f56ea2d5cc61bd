"""Ten widgets in one notebook: idle they do nothing, and closed they are gone from the browser. An untrusted notebook."""

from __future__ import annotations

import json

import nbformat
import pytest
from playwright.sync_api import Page

from tests.widgets.lab import Lab, eventually
from tests.widgets.test_graph import SHOW

pytestmark = pytest.mark.browser

TEN = """
from IPython.display import display
import lowerscope

explorers = [Explorer(lowerscope.Session(explorer.session.program), panels=["graph", "patterns"]) for _ in range(9)]
for one in explorers:
    display(one)
"""
# Counts the frames that the widgets, whose module comes from a blob, ask for from here on, and notes what of the page itself
# they hold on to, and which canvases are drawn on.
COUNT = """
() => {
  window.frames_asked = 0;
  window.held = [];
  window.drawn = new Set();
  const ours = () => new Error().stack.includes('blob:');
  const ask = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (work) => {
    if (ours()) window.frames_asked++;
    return ask(work);
  };
  for (const target of [window, document, document.body, document.documentElement]) {
    const add = target.addEventListener;
    target.addEventListener = function (type, ...rest) {
      if (ours()) window.held.push(type);
      return add.call(this, type, ...rest);
    };
  }
  const every = window.setInterval;
  window.setInterval = (...given) => {
    if (ours()) window.held.push('setInterval');
    return every(...given);
  };
  for (const name of ['fill', 'stroke', 'fillRect', 'clearRect', 'drawImage', 'fillText']) {
    const draw = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...given) {
      window.drawn.add(this.canvas);
      return draw.apply(this, given);
    };
  }
}
"""
# Which of the page's widgets have drawn; a canvas that is in none of them is a picture that one has kept.
DRAWN = """
() => {
  const roots = [...document.querySelectorAll('.ls-root')];
  return [...new Set([...window.drawn].map((canvas) => roots.indexOf(canvas.closest('.ls-root'))))].filter((at) => at >= 0);
}
"""


def canvases(page: Page) -> int:
    """How many canvas elements live in the page's memory, attached or not, after its garbage is collected."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    prototype = session.send("Runtime.evaluate", {"expression": "HTMLCanvasElement.prototype"})["result"]["objectId"]
    found = session.send("Runtime.queryObjects", {"prototypeObjectId": prototype})["objects"]["objectId"]
    count = session.send(
        "Runtime.callFunctionOn",
        {"objectId": found, "functionDeclaration": "function () { return this.length; }", "returnByValue": True},
    )
    session.detach()
    return int(count["result"]["value"])


def test_ten_widgets_cost_the_page_nothing_but_what_is_used_and_closing_frees_them(lab: Lab) -> None:
    close = "for one in [explorer, *explorers]:\n    one.close()"
    page = lab.open_notebook([SHOW, TEN, close])
    page.evaluate(COUNT)
    none = canvases(page)
    lab.run_cell(0)
    lab.run_cell(1)
    page.wait_for_function(
        """document.querySelectorAll('.ls-root[data-ls-ready="true"]').length === 10""", timeout=60_000
    )
    page.wait_for_function(
        "[...document.querySelectorAll('.ls-root')].every((root) => root.lowerscope.state().parity.state === 'fresh')",
        timeout=60_000,
    )
    assert canvases(page) - none >= 10
    page.wait_for_timeout(1500)  # what moved into place has come to rest
    page.evaluate("() => { window.frames_asked = 0; }")
    page.wait_for_timeout(1000)
    assert page.evaluate("window.frames_asked") == 0
    page.locator(".ls-root").first.evaluate("(root) => root.lowerscope.store.camera.zoomBy(1.5)")
    assert eventually(lambda: page.evaluate("window.frames_asked") > 0, page), "frames are counted"
    held = page.evaluate("window.held")
    assert held == ["keydown"] * 10, (
        "of the page a widget hears keys alone, to keep its own from the notebook; it has no clock"
    )
    page.wait_for_timeout(500)

    # while one is panned the nine others draw nothing; a scroll draws none but those that come into view
    last = page.locator(".ls-root").last
    last.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    page.evaluate("() => window.drawn.clear()")
    pane = last.locator(".ls-pane").bounding_box()
    assert pane is not None
    page.mouse.move(pane["x"] + 20, pane["y"] + pane["height"] / 2)
    page.mouse.down()
    page.mouse.move(pane["x"] + 60, pane["y"] + pane["height"] / 2 + 80, steps=8)
    page.mouse.up()
    assert eventually(lambda: page.evaluate(DRAWN) == [9], page), page.evaluate(DRAWN)
    root = last.bounding_box()
    assert root is not None
    page.mouse.move(root["x"] - 40, pane["y"] + 100)  # beside it, where the wheel is the notebook's
    page.wait_for_timeout(500)
    top = last.bounding_box()
    page.evaluate("() => { window.drawn.clear(); window.frames_asked = 0; }")
    for _ in range(20):
        page.mouse.wheel(0, -60)
        page.wait_for_timeout(30)
    page.wait_for_timeout(300)
    assert last.bounding_box() != top, "the notebook has moved"
    assert 9 not in page.evaluate(DRAWN), "what stays in view is not drawn again"
    assert page.evaluate("window.frames_asked") <= 2 * len(page.evaluate(DRAWN)), "what comes into view is drawn once"
    assert page.evaluate("window.held") == held

    lab.run_cell(2)
    page.wait_for_function("document.querySelectorAll('.ls-root').length === 0")
    page.evaluate("() => window.drawn.clear()")
    assert eventually(lambda: canvases(page) <= none, page), f"{canvases(page) - none} canvases are still held"
    assert lab.page_errors == []


def test_an_untrusted_notebook_shows_the_picture_and_tables(lab: Lab) -> None:
    page = lab.open_notebook([SHOW])
    lab.run_cell(0)
    page.locator('.ls-root[data-ls-ready="true"]').wait_for(timeout=60_000)
    page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
    path = next(lab.server.notebooks.glob("test_an_untrusted*.ipynb"))
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].source += "\n# from a stranger"  # so nobody has signed it
    notebook.metadata.pop("widgets", None)
    lab.server.end_kernels()
    stranger = path.with_name("stranger.ipynb")
    nbformat.write(notebook, stranger)
    page = lab.open_notebook(stranger)
    static = page.locator(".jp-OutputArea table").first
    static.wait_for()
    assert page.locator(".jp-OutputArea table").count() == 2
    picture = page.locator('.jp-OutputArea img[alt^="the graph of"]')
    assert picture.evaluate("(image) => image.complete && image.naturalWidth > 0")
    assert page.locator(".ls-root").count() == 0


COUNTS = """
import gc, json, threading
from comm import get_comm_manager
gc.collect()
print(json.dumps([
    len(get_comm_manager().comms),
    sum(thread.name.startswith("lowerscope") for thread in threading.enumerate()),
    sum(issubclass(type(one), Explorer) for one in gc.get_objects()),
]))
"""
OURS = """
import lowerscope
from IPython.display import display

for _ in range(3):
    display(Explorer(lowerscope.Session(explorer.session.program)))
"""
BARE = """
import anywidget
from IPython.display import display

class Bare(anywidget.AnyWidget):
    _esm = "export default { render({ el }) { el.className = 'bare'; } };"

for _ in range(3):
    display(Bare())
"""
CLOSE = """
import gc
for one in gc.get_objects():
    if issubclass(type(one), anywidget.AnyWidget) and one is not explorer:
        one.close()
del one
"""


def listeners(page: Page) -> int:
    """How many event listeners the page holds, after its garbage is collected."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return int(found["JSEventListeners"])


def test_closing_leaves_no_comm_thread_object_or_listener_behind(lab: Lab) -> None:
    page = lab.open_notebook([SHOW, COUNTS, BARE, OURS, CLOSE])

    def kernel() -> list[int]:
        lab.run_cell(1)
        return json.loads(lab.output(1))

    def opened_and_closed(cell: int) -> tuple[int, int]:
        """Listeners that three widgets add while they are open, and those that stay."""
        before = listeners(page)
        lab.run_cell(cell)
        shown = "document.querySelectorAll('.bare, .ls-root[data-ls-ready=\"true\"]').length === 4"
        page.wait_for_function(shown, timeout=60_000)
        page.wait_for_timeout(500)
        during = listeners(page)
        lab.run_cell(4)
        page.wait_for_function("document.querySelectorAll('.bare, .ls-root').length === 1")
        page.wait_for_timeout(500)
        return during - before, listeners(page) - before

    lab.run_cell(0)
    page.locator('.ls-root[data-ls-ready="true"]').wait_for(timeout=60_000)
    opened_and_closed(2)  # the first of each brings what the page keeps
    opened_and_closed(3)
    bare_open, bare_left = opened_and_closed(2)
    start = kernel()
    assert start[2] == 1
    ours_open, ours_left = opened_and_closed(3)
    # JupyterLab itself holds on to listeners of every output that it has shown, whatever is in it.
    assert ours_open - bare_open > 3 * 30, "those of the widget are counted"
    assert ours_left - bare_left < 60
    assert kernel() == start
    lab.run_cell(3)
    assert kernel()[0] == start[0] + 3 * 2, "each has a comm, and one for its place on the page"
