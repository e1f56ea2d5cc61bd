"""The widget in Notebook 7: drawn, clicked, asked, and answered by the kernel."""

from __future__ import annotations

import pytest

from tests.widgets.lab import Lab
from tests.widgets.test_graph import SHOW, click_node, ready, shown_node, state

pytestmark = pytest.mark.browser


def test_notebook_7_draws_the_widget_and_its_kernel_answers(lab: Lab) -> None:
    page = lab.open_notebook([SHOW, "print(explorer.selected)"], app="notebook")
    assert "/notebooks/" in page.url
    of_its_own = list(lab.page_errors)  # Notebook 7.6 looks up a setting that it has no schema of
    lab.run_cell(0)
    ready(page)
    assert not page.locator(".ls-static").is_visible(), "the live widget is there: the picture is for pages without one"
    node = shown_node(page)
    click_node(page, node)
    page.locator(f'[data-ls="why-not"][data-node="{node}"][data-ready="true"]').wait_for()
    toggle = page.locator('[data-ls="pattern-row"][data-enabled="true"] [data-ls="pattern-toggle"]').first
    toggle.click()
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.scene().revision > 0")
    assert state(page, "kernel") == "idle"
    lab.run_cell(1)
    assert lab.output(1).strip() == f"['{node}']"
    assert lab.page_errors == of_its_own
    assert lab.foreign_requests == []
