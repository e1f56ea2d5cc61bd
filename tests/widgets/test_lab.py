"""The browser tests' own ground: an ordinary anywidget shows up in JupyterLab, is clicked, and survives a reload."""

from __future__ import annotations

import sys

import pytest
from playwright.sync_api import Browser

from tests.widgets.lab import Lab, launch_chromium

pytestmark = pytest.mark.browser

COUNTER = '''
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    count = traitlets.Int(0).tag(sync=True)
    _esm = """
    export default {
      render({ model, el }) {
        const button = document.createElement("button");
        button.className = "counter";
        const show = () => { button.textContent = `clicked ${model.get("count")}`; };
        button.onclick = () => { model.set("count", model.get("count") + 1); model.save_changes(); };
        model.on("change:count", show);
        show();
        el.append(button);
      },
    };
    """

counter = Counter()
counter
'''


def test_a_widget_is_shown_clicked_and_found_again(lab: Lab) -> None:
    page = lab.open_notebook([COUNTER, "print(counter.count)", "import sys; print(sys.prefix)"])
    lab.run_all()
    assert lab.output(1).strip() == "0"
    assert lab.output(2).strip() == sys.prefix, "the kernel is not of the environment under test"

    button = page.locator("button.counter")
    button.click()
    button.click()
    page.get_by_text("clicked 2").wait_for()
    lab.run_cell(1)
    assert lab.output(1).strip() == "2"

    page = lab.reload()
    page.get_by_text("clicked 2").wait_for()
    assert lab.page_errors == []
    assert lab.foreign_requests == []


def test_theme_size_and_screenshot_and_no_theme_is_left_behind(lab: Lab) -> None:
    page = lab.open_notebook(["1 + 1"])
    lab.run_all()
    assert lab.output(0) == "2"
    lab.size(1000, 700)
    background = "() => getComputedStyle(document.body).getPropertyValue('--jp-layout-color0').trim()"
    lab.theme("dark")
    dark = page.evaluate(background)
    picture = lab.screenshot("harness_dark_1000").read_bytes()
    assert int.from_bytes(picture[16:20]) == 1000, "a PNG's width stands at byte 16"
    lab.close()

    after = Lab(lab.server, lab.browser, name="after_the_dark", screenshots=lab.screenshots)
    assert after.open_notebook([]).evaluate(background) != dark
    after.close()


def test_without_chromium_the_browser_fails_with_the_way_out(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.widgets.lab.CHROMIUM", "/nowhere/chromium")
    with pytest.raises(
        RuntimeError, match=r"/nowhere/chromium cannot be started; install it \(apt-get install chromium"
    ):
        launch_chromium(browser.browser_type)


def test_a_failing_cell_fails_the_test(lab: Lab) -> None:
    lab.open_notebook(["1 / 0", "print('not reached')"])
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        lab.run_all()
