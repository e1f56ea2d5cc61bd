"""A bug in one panel, planted where it draws itself, leaves the graph and every other panel working; and it can be shown again.

The page is the self-contained HTML file: the widget's own bundle, without a kernel, so that this is fast.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

import lowerscope
from lowerscope_widgets.html_export import to_html
from tests.engine.nets import mixed

pytestmark = pytest.mark.browser

#: Each panel by the name that its error has: an element that it alone draws, and what brings it onto the page.
PANELS = {
    "toolbar": ("target", ""),
    "patterns": ("pattern-row", ""),
    "skip list": ("skip-input", ""),
    "legend": ("legend", ""),
    "inspector": ("node-name", "store.select(['conv2d_2'])"),
    "why not": ("why-not", "store.select(['conv2d_2'])"),
    "misses": ("reasons", "root.querySelector('[data-ls=sheet][data-sheet=misses]').click()"),
    "steps": ("steps", "root.querySelector('[data-ls=sheet][data-sheet=steps]').click()"),
    "changes": ("changes", "store.setView('diff')"),
    "metrics": ("parity-pill", ""),
    "numbers": ("metrics-tables", "store.setMetricsOpen(true)"),
    "notices": ("sentence", "store.setTeaching(true); store.setStep(1)"),
    "mathematics": ("mathematics", "store.setTeaching(true); store.setStep(1)"),
    "overlay": ("help-sheet", "store.setHelpOpen(true)"),
}
PLANT = """
window.broken = %s;
const set = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === 'data-ls' && value === window.broken) throw new Error('a planted bug');
  return set.call(this, name, value);
};
"""
#: What every other panel shows when it works: the first element that it draws, once it is on the page.
WORKS = """
(root, broken) => ['toolbar', 'pattern-row', 'skip-input', 'legend', 'metrics', 'sheet']
  .filter((name) => !broken.includes(name) && root.querySelector(`[data-ls="${name}"]`) === null)
"""
OPERATORS = "document.querySelector('.ls-root').lowerscope.scene().header.operators.at(-1).after"
#: A panel is broken as a whole: what else is gone with it.
WITH = {"toolbar": ["toolbar"], "metrics": ["metrics"], "patterns": ["pattern-row"], "skip list": ["skip-input"]}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("broken") / "mixed.html"
    path.write_text(to_html(lowerscope.Session(mixed()))[0], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    page.set_default_timeout(10_000)
    yield page
    page.close()


@pytest.mark.parametrize("panel", PANELS)
def test_a_bug_in_a_panel_leaves_the_others_working_and_it_is_shown_again(page: Page, file: Path, panel: str) -> None:
    drawn, show = PANELS[panel]
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.add_init_script(PLANT % json.dumps(drawn))
    page.goto(file.as_uri())
    root = page.locator('.ls-root[data-ls-ready="true"]')
    root.wait_for()
    root.evaluate(f"(root) => {{ const {{ store }} = root.lowerscope; {show} }}")
    error = page.locator(f'[data-ls="panel-error"][data-panel="{panel}"]')
    error.wait_for()
    assert f"The panel “{panel}” cannot be shown: a planted bug. The others keep working." in error.inner_text()
    assert page.locator('[data-ls="panel-error"]').count() == 1

    # the graph answers keys, the recipe changes, steps go on, and what else was drawn is drawn
    root.evaluate(
        "(root) => { const { store } = root.lowerscope; store.setHelpOpen(false); store.setTeaching(false); }"
    )
    state = "(root, name) => root.lowerscope.state()[name]"
    root.focus()
    page.keyboard.press("b")
    page.keyboard.press("ArrowDown")
    first = root.evaluate(state, "selected")
    page.keyboard.press("ArrowDown")
    assert root.evaluate(state, "selected") not in ([], first)
    page.keyboard.press("]")
    assert root.evaluate(state, "step") == 1
    before = root.evaluate(f"() => {OPERATORS}")
    root.evaluate("(root) => root.lowerscope.store.focusPattern('conv2d_with_epilogue')")
    root.focus()
    page.keyboard.press("Space")
    page.wait_for_function(f"(before) => {OPERATORS} > before", arg=before)
    assert root.evaluate(WORKS, WITH.get(panel, [panel])) == []

    page.evaluate("window.broken = ''")
    root.evaluate(f"(root) => {{ const {{ store }} = root.lowerscope; {show} }}")
    if error.count() > 0:  # it may have been taken away and drawn anew meanwhile
        error.locator('[data-ls="panel-retry"]').click()
    page.locator(f'[data-ls="{drawn}"]').first.wait_for(state="attached")
    assert page.locator('[data-ls="panel-error"]').count() == 0
    assert errors == []
