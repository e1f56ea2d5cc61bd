"""The widget's states in a real JupyterLab: what cannot be opened, a kernel that dies, is restarted, is busy, is interrupted."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.widgets.lab import Lab
from tests.widgets.test_graph import SHOW, ready, state
from tests.widgets.test_opening import unknown as unknown

pytestmark = pytest.mark.browser

SLEEP = """
import time
try:
    time.sleep(600)
except KeyboardInterrupt:
    print("interrupted")
"""
SIZES = (600, 1000, 1400)


def pictures(lab: Lab, name: str) -> None:
    """The state at every width, light and dark, for looking at; and it fits each width."""
    for theme in ("light", "dark"):
        lab.theme(theme)
        for width in SIZES:
            lab.size(width, 900)
            lab.page.wait_for_timeout(150)
            lab.screenshot(f"state_{name}_{theme}_{width}")
            wide = lab.page.locator(".ls-root").first.evaluate("(root) => root.scrollWidth <= root.clientWidth")
            assert wide, f"{name} is wider than the widget at {width} px"


def do(page: Page, command: str) -> None:
    """Have JupyterLab do something to the notebook's kernel."""
    page.evaluate(
        "(command) => { window.jupyterapp.shell.currentWidget.sessionContext.session.kernel[command](); }", command
    )


def toggle(page: Page) -> None:
    page.locator('[data-ls="pattern-row"][data-pattern="fold_batch_norm"] [data-ls="pattern-toggle"]').click()


def test_a_file_with_an_unknown_operator_says_so_and_is_opened_without_it(lab: Lab, unknown: Path) -> None:
    page = lab.open_notebook([f"%load_ext lowerscope\n%explore {unknown} --target vulkan"])
    lab.run_cell(0)
    error = page.locator('[data-ls="state-error"]')
    error.wait_for()
    assert "far_away::thrice" in error.inner_text()
    assert "Traceback" not in page.locator(".jp-Cell").first.inner_text()
    pictures(lab, "unknown_operator")
    page.locator('[data-ls="load-again"]').click()
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.state().pending.length === 0")
    error.wait_for()
    page.locator('[data-ls="load-without"]').click()
    ready(page)
    assert "parity is off" in page.locator('[data-ls="notice"]').inner_text()
    page.locator('[data-ls="parity-pill"][data-state="failed"]').wait_for()
    static = page.locator(".ls-static")
    assert static.count() == 1
    assert static.locator("table").count() == 2, "the picture has come in the place of the error"
    assert lab.page_errors == []


@pytest.mark.parametrize("how", ["it dies", "it is restarted"])
def test_a_kernel_that_is_gone_is_said_and_the_cell_run_again_reconnects(lab: Lab, how: str) -> None:
    page = lab.open_notebook([SHOW, "import os; os._exit(1)"])
    lab.run_cell(0)
    ready(page)
    if how == "it dies":
        page.evaluate(
            "() => { const lab = window.jupyterapp; lab.shell.currentWidget.content.activeCellIndex = 1;"
            " lab.commands.execute('notebook:run-cell'); }"
        )
    else:
        do(page, "restart")
    gone = page.locator('[data-ls="kernel-gone"]')
    gone.wait_for(timeout=30_000)
    assert "Run the cell again to reconnect." in gone.inner_text()
    if how == "it dies":
        page.locator(".jp-Dialog .jp-mod-accept").click()  # JupyterLab's own word on it
    before = page.locator('[data-ls="pattern-row"][data-enabled="true"]').count()
    toggle(page)
    page.locator(".ls-root").evaluate("(root) => root.lowerscope.store.measure('latency')")
    assert "not answering" in page.locator('[data-ls="region-error"][data-region="metrics"]').inner_text()
    assert state(page, "pending") == [], "nobody waits for an answer that cannot come"
    assert page.locator('[data-ls="pattern-row"][data-enabled="true"]').count() == before
    if how == "it is restarted":
        pictures(lab, "kernel_gone")
    lab.run_cell(0)
    ready(page)
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.state().kernel === 'idle'")
    assert page.locator('[data-ls="kernel-gone"]').count() == 0
    assert lab.page_errors == []


def test_while_a_cell_runs_and_after_it_is_interrupted_the_widget_goes_on(lab: Lab) -> None:
    page = lab.open_notebook([SHOW, SLEEP, "print(explorer.session.revision)"])
    lab.run_cell(0)
    ready(page)
    page.evaluate(
        "() => { const lab = window.jupyterapp; lab.shell.currentWidget.content.activeCellIndex = 1;"
        " lab.commands.execute('notebook:run-cell'); }"
    )
    page.wait_for_function("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'busy'")
    toggle(page)
    do(page, "interrupt")
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.scene().revision === 1")
    toggle(page)
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.scene().revision === 2")
    assert state(page, "kernel") == "idle"
    lab.run_cell(2)
    assert lab.output(2).strip() == "2"
    assert lab.page_errors == []


def test_a_kernel_that_hangs_is_said_to_be_busy_and_answers_once_it_can(lab: Lab) -> None:
    page = lab.open_notebook([SHOW, "import os; print(os.getpid())"])
    lab.run_all()
    ready(page)
    process = int(lab.output(1))
    os.kill(process, signal.SIGSTOP)
    try:
        toggle(page)
        page.locator('[data-ls="kernel-busy"]').wait_for()
        assert state(page, "kernel") == "busy"
    finally:
        os.kill(process, signal.SIGCONT)
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.scene().revision === 1")
    page.locator('[data-ls="kernel-busy"]').wait_for(state="detached")
    assert lab.page_errors == []
