"""A widget that is scrolled out of view: soon back it has kept what it drew, later its bitmaps are given back.

The page is the self-contained HTML file, made tall.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

import lowerscope
from lowerscope_widgets.html_export import to_html
from tests.engine.nets import mixed
from tests.widgets.lab import eventually

pytestmark = pytest.mark.browser

COUNT = """
() => {
  window.cleared = 0;  // every drawing of a bitmap begins with it
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...box) { window.cleared++; clear.apply(this, box); };
  const below = document.body.appendChild(document.createElement('div'));
  below.style.height = '6000px';
}
"""
WIDTHS = "() => [...document.querySelectorAll('.ls-stage canvas')].map((canvas) => canvas.width)"


def test_scrolling_back_and_forth_draws_nothing_anew_and_bitmaps_are_given_back(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "mixed.html"
    path.write_text(to_html(lowerscope.Session(mixed()))[0], encoding="utf-8")
    page = browser.new_page(viewport={"width": 1000, "height": 600})
    page.goto(path.as_uri())
    page.locator('.ls-root[data-ls-ready="true"]').wait_for()
    page.evaluate(COUNT)
    page.wait_for_timeout(500)
    drawn = page.evaluate("window.cleared")
    for _ in range(3):
        page.evaluate("scrollTo(0, 4000)")
        page.wait_for_timeout(300)
        assert page.locator(".ls-root").evaluate("(root) => root.getBoundingClientRect().bottom") < -300
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(300)
    assert page.evaluate("window.cleared") == drawn
    assert min(page.evaluate(WIDTHS)) > 0
    page.evaluate("scrollTo(0, 4000)")
    assert eventually(lambda: set(page.evaluate(WIDTHS)) == {0}, page, 10)
    page.evaluate("scrollTo(0, 0)")
    assert eventually(lambda: min(page.evaluate(WIDTHS)) > 0 and page.evaluate("window.cleared") > drawn, page, 10)
    page.close()
