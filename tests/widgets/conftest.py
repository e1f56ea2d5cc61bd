"""One JupyterLab and one Chromium for all browser tests, and a `lab` for each of them; a shell for the magics.

Where the browser cannot be started these tests fail; they are never skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from playwright.sync_api import Browser, sync_playwright

from tests.widgets.lab import Lab, LabServer, launch_chromium
from tests.widgets.widget import CELLS, Widget

SCREENSHOTS = Path(__file__).parent.parent / "build" / "screenshots"


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A running JupyterLab of this environment, with a home of its own."""
    with LabServer(tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright.chromium)
        yield browser
        browser.close()


@pytest.fixture
def lab(lab_server: LabServer, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A JupyterLab to open a notebook in. The page and its kernel end with the test."""
    lab = Lab(lab_server, browser, name=request.node.name, screenshots=SCREENSHOTS)
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def widget(lab_server: LabServer, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Widget]:
    """One widget for all tests of a file, in the file's own CELLS if it has some; each leaves the recipe as it found it."""
    lab = Lab(lab_server, browser, name=request.node.name, screenshots=SCREENSHOTS)
    yield Widget(lab, getattr(request.module, "CELLS", CELLS))
    assert lab.page_errors == []
    assert lab.foreign_requests == []
    lab.close()


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """IPython's shell with the extension loaded."""
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "lowerscope")
    yield shell
    InteractiveShell.clear_instance()
