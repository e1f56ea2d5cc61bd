"""Keys go to the widget as long as it was the last to be clicked: in JupyterLab X cuts the cell, and the widget with it."""

from __future__ import annotations

import pytest

from tests.widgets.lab import at_rest
from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser


def keeps_the_focus(widget: Widget) -> bool:
    return widget.root.evaluate("(root) => root.contains(document.activeElement)")


def test_keys_stay_in_the_widget_when_what_was_clicked_goes(widget: Widget) -> None:
    cells, skips = widget.page.locator(".jp-Cell"), widget.find("skip-chip")
    before = cells.count()
    widget.find("sheet", sheet="misses").click()
    widget.find("reason-group").first.click()  # it goes with its sheet: the node's is shown
    widget.until(lambda: widget.state("selected") != [] and keeps_the_focus(widget))
    widget.page.keyboard.press("x")
    widget.until(lambda: skips.count() == 1)
    undo = widget.find("undo")
    while undo.is_enabled():
        undo.click()
        at_rest(lambda: undo.get_attribute("title"), widget.page)
    widget.until(lambda: skips.count() == 0 and keeps_the_focus(widget))
    widget.page.keyboard.press("?")
    widget.find("help-sheet").wait_for()
    widget.page.keyboard.press("Escape")
    widget.find("help-sheet").wait_for(state="detached")
    assert cells.count() == before
