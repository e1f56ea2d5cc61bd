"""A bug planted in one panel after another, in a widget with its kernel in JupyterLab: the others go on, and it is shown again.

Each time the notebook's last cell displays a new widget, so that every panel draws itself anew.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from tests.widgets.test_broken_panel import PANELS, PLANT, WITH, WORKS
from tests.widgets.widget import CELLS as SHARED
from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser

CELLS = [*SHARED, "Explorer(lowerscope.Session(program, target='vulkan'), height=700)"]
PATTERN = "conv2d_with_epilogue"
OPERATORS = "(root) => root.lowerscope.scene().header.operators.at(-1).after"


@pytest.fixture(scope="module", autouse=True)
def planted(widget: Widget) -> None:
    """Whatever sets `data-ls` to `window.broken` fails."""
    widget.page.evaluate(f"() => {{ {PLANT % 'null'} }}")


def displayed(widget: Widget) -> Locator:
    """A new widget, displayed below the others."""
    last = len(CELLS) - 1
    widget.lab.run_cell(last)
    root = widget.page.locator(".jp-CodeCell").nth(last).locator('.ls-root[data-ls-ready="true"]')
    root.wait_for(timeout=60_000)
    root.scroll_into_view_if_needed()
    return root


@pytest.mark.parametrize("panel", PANELS)
def test_a_bug_in_a_panel_leaves_the_others_and_the_kernel_working(widget: Widget, panel: str) -> None:
    drawn, show = PANELS[panel]
    show = f"(root) => {{ const {{ store }} = root.lowerscope; {show.replace('conv2d_2', 'conv2d_3')} }}"
    widget.page.evaluate("(name) => { window.broken = name; }", drawn)
    root = displayed(widget)
    root.evaluate("(root) => root.lowerscope.store.setView('before')")
    root.evaluate(show)
    error = root.locator(f'[data-ls="panel-error"][data-panel="{panel}"]')
    error.wait_for()
    assert f"The panel “{panel}” cannot be shown: a planted bug. The others keep working." in error.inner_text()
    assert root.locator('[data-ls="panel-error"]').count() == 1

    # the graph answers keys, and the kernel lowers anew
    root.evaluate(
        "(root) => { const { store } = root.lowerscope; store.setHelpOpen(false); store.setTeaching(false); }"
    )
    root.focus()
    widget.page.keyboard.press("b")
    widget.page.keyboard.press("ArrowDown")
    selected = root.evaluate("(root) => root.lowerscope.state().selected")
    widget.page.keyboard.press("ArrowDown")
    assert root.evaluate("(root) => root.lowerscope.state().selected") not in ([], selected)
    before = root.evaluate(OPERATORS)
    root.evaluate("(root, name) => root.lowerscope.store.focusPattern(name)", PATTERN)
    root.focus()
    widget.page.keyboard.press("Space")
    widget.until(lambda: root.evaluate(OPERATORS) > before)
    assert root.evaluate(WORKS, WITH.get(panel, [panel])) == []

    widget.page.evaluate("() => { window.broken = null; }")
    root.evaluate(show)
    if error.count() > 0:  # it may have been taken away and drawn anew meanwhile
        error.locator('[data-ls="panel-retry"]').click()
    root.locator(f'[data-ls="{drawn}"]').first.wait_for(state="attached")
    assert root.locator('[data-ls="panel-error"]').count() == 0
