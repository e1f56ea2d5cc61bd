"""The graph's items in the self-contained page, which needs no kernel: 600 px wide and light, 1400 px and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from lowerscope_widgets.html_export import to_html
from tests.widgets import test_items_graph as items
from tests.widgets.widget import CELLS, Widget

pytestmark = pytest.mark.browser

ITEMS = (
    items.test_the_shape_on_an_edge_shows_when_it_is_pointed_at,
    items.test_inputs_and_outputs_are_traced_and_the_trace_ends,
    items.test_what_did_not_change_does_not_move_between_the_views,
    items.test_diff_marks_what_was_removed_added_changed_and_left,
    items.test_hovering_a_fused_node_says_which_nodes_it_came_from,
    items.test_split_panes_share_the_selection_through_provenance_and_pan_together,
)


class Replayed(Widget):
    """The widget of a page that was opened from disk."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        page.goto(path.as_uri())
        self.root = page.locator('.ls-root[data-ls-ready="true"]')
        self.root.wait_for(timeout=60_000)
        page.set_default_timeout(10_000)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network of the other items, recorded."""
    made: dict[str, Any] = {}
    exec(CELLS[0].partition("explorer = ")[0], made)
    path = tmp_path_factory.mktemp("items") / "net.html"
    path.write_text(to_html(made["session"])[0], encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "scheme"), [(600, "light"), (1400, "dark")])
def test_the_items_hold_without_a_kernel(file: Path, browser: Browser, width: int, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": width, "height": 740}, color_scheme=scheme)
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    widget = Replayed(page, file)
    assert widget.root.evaluate("(root) => root.classList.contains('ls-dark')") == (scheme == "dark")
    for item in ITEMS:
        items.start(widget)
        item(widget)
    assert errors == []
    context.close()
