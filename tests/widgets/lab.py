"""A real JupyterLab in a real Chromium, for tests: start it, open a notebook, run its cells, look at the page."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import nbformat
from playwright.sync_api import Browser, BrowserContext, BrowserType, Page
from playwright.sync_api import Error as PlaywrightError

T = TypeVar("T")

CHROMIUM = "/usr/bin/chromium"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

# Generous, since two cores may be busy with other tests; nothing waits longer than it must.
START_SECONDS = 90.0
RUN_SECONDS = 120.0

KERNEL_IS_IDLE = """
() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === "idle"
"""

# A cell that has run has a number, one still waiting has none; the kernel turns idle only after its last message.
ALL_HAVE_RUN = """
(cells) => {
  const panel = window.jupyterapp.shell.currentWidget;
  const code = panel.content.widgets.filter((cell) => cell.model.type === "code");
  const chosen = cells === null ? code : cells.map((index) => panel.content.widgets[index]);
  const failed = chosen.some((cell) => cell.model.outputs.toJSON().some((output) => output.output_type === "error"));
  const done = chosen.every((cell) => cell.model.executionCount !== null || cell.model.sharedModel.source.trim() === "");
  return (failed || done) && panel.sessionContext.session.kernel.status === "idle";
}
"""

# What an earlier run left would pass for the result of the next.
CLEAR = """
(index) => {
  const { content } = window.jupyterapp.shell.currentWidget;
  for (const cell of index === null ? content.widgets : [content.widgets[index]]) {
    if (cell.model.type === "code") cell.model.clearExecution();
  }
  if (index !== null) content.activeCellIndex = index;
}
"""

OUTPUTS = """
(index) => window.jupyterapp.shell.currentWidget.content.widgets[index].model.outputs.toJSON()
"""


def launch_chromium(browser_type: BrowserType) -> Browser:
    """Start Debian's Chromium without a window. Raises `RuntimeError` naming what is missing."""
    # Chromium refuses to sandbox itself for root, which is who runs tests in a container.
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    try:
        return browser_type.launch(executable_path=CHROMIUM, args=arguments)
    except PlaywrightError as error:
        raise RuntimeError(f"{CHROMIUM} cannot be started; install it (apt-get install chromium): {error}") from error


class LabServer:
    """JupyterLab of this interpreter's environment, in a process of its own; a context manager.

    `home` holds its notebooks, settings and logs, so that nothing of the user's is read or written.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.notebooks = home / "notebooks"
        self.token = secrets.token_hex(16)
        self.url = f"http://127.0.0.1:{free_port()}"
        self._settings = home / "settings" / "@jupyterlab" / "apputils-extension"
        self._log = home / "jupyterlab.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LabServer:
        self.notebooks.mkdir()
        self._decline_news()
        port = self.url.rpartition(":")[2]
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
        command += [f"--ServerApp.root_dir={self.notebooks}", f"--IdentityProvider.token={self.token}"]
        command += ["--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"]
        command += ["--JupyterNotebookApp.expose_app_in_browser=True"]  # the same server serves Notebook 7
        command += ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self.notebooks, env=self._environment(), stdout=log, stderr=subprocess.STDOUT
            )
        try:
            self._wait_until_up()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server and, through it, its kernels."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def end_kernels(self) -> None:
        """Shut down every running session, so that the next test finds both cores free."""
        for session in self._request("GET", "/api/sessions"):
            self._request("DELETE", f"/api/sessions/{session['id']}")

    def forget_theme(self) -> None:
        """Go back to the default theme, which JupyterLab keeps among its settings."""
        (self._settings / "themes.jupyterlab-settings").unlink(missing_ok=True)

    def log(self) -> str:
        """The last 4000 characters that the server wrote."""
        return self._log.read_text(errors="replace")[-4000:]

    def _decline_news(self) -> None:
        # JupyterLab otherwise asks, in a box that covers the lower right of the page.
        self._settings.mkdir(parents=True)
        (self._settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')

    def _environment(self) -> dict[str, str]:
        private = {
            "HOME": self.home,
            "IPYTHONDIR": self.home / "ipython",
            "JUPYTER_CONFIG_DIR": self.home / "config",
            "JUPYTER_DATA_DIR": self.home / "data",
            "JUPYTER_RUNTIME_DIR": self.home / "runtime",
            "JUPYTERLAB_SETTINGS_DIR": self.home / "settings",
            "JUPYTERLAB_WORKSPACES_DIR": self.home / "workspaces",
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON"))}
        # The kernelspec of this environment comes before one that the machine may have elsewhere.
        return {
            **inherited,
            **{name: str(path) for name, path in private.items()},
            "JUPYTER_PREFER_ENV_PATH": "1",
            "OMP_NUM_THREADS": "2",
        }

    def _wait_until_up(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"JupyterLab ended with {self._process.returncode} on starting:\n{self.log()}")
            try:
                self._request("GET", "/api/status")
                return
            except urllib.error.URLError:
                time.sleep(0.1)
        raise TimeoutError(f"JupyterLab did not answer within {START_SECONDS:.0f} s:\n{self.log()}")

    def _request(self, method: str, path: str) -> Any:
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"token {self.token}")
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.loads(response.read() or b"null")


class Lab:
    """One browser page on a `LabServer`: what a test opens, runs and looks at.

    `page_errors` lists the page's JavaScript exceptions, `foreign_requests` the addresses that it asked for outside the
    server.
    """

    def __init__(self, server: LabServer, browser: Browser, name: str, screenshots: Path) -> None:
        self.server = server
        self.browser = browser
        self.screenshots = screenshots
        self.page_errors: list[str] = []
        self.foreign_requests: list[str] = []
        self._name = re.sub(r"\W+", "_", name).strip("_")
        self._context: BrowserContext = browser.new_context(viewport={"width": 1400, "height": 900})
        self._page: Page | None = None

    @property
    def page(self) -> Page:
        """The page of the open notebook."""
        if self._page is None:
            raise RuntimeError("no notebook is open; call open_notebook() first")
        return self._page

    def open_notebook(self, cells: list[str] | Path, app: Literal["lab", "notebook"] = "lab") -> Page:
        """Open a notebook made of these code cells (or a copy of the file at a path), its kernel idle and nothing run.

        `app`: JupyterLab, or Notebook 7, which knows no sidebars and no splash screen.
        """
        path = self.server.notebooks / f"{self._name}.ipynb"
        if isinstance(cells, Path):
            path.write_bytes(cells.read_bytes())
        else:
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
            notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
            nbformat.write(notebook, path)
        self._page = self._context.new_page()
        self._page.on("pageerror", lambda error: self.page_errors.append(str(error)))
        self._page.on("request", lambda request: self._note_request(request.url))
        # A workspace of its own, so that no page opens what another left behind.
        place = f"lab/workspaces/{self._name}/tree" if app == "lab" else "notebooks"
        self._page.goto(f"{self.server.url}/{place}/{path.name}?token={self.server.token}")
        self._wait_for_kernel()
        return self._page

    def run_all(self, timeout: float = RUN_SECONDS) -> None:
        """Run all cells and wait until they have run. Raises `AssertionError` with the traceback when one fails."""
        self.page.evaluate(CLEAR, None)
        self._execute("notebook:run-all-cells")
        self._wait_for_cells(None, timeout)

    def run_cell(self, index: int, timeout: float = RUN_SECONDS) -> None:
        """Run one cell, as `run_all` does."""
        self.page.evaluate(CLEAR, index)
        self._execute("notebook:run-cell")
        self._wait_for_cells([index], timeout)

    def output(self, index: int) -> str:
        """What the cell printed, and its last value as plain text."""
        text = []
        for output in self.page.evaluate(OUTPUTS, index):
            part = output["text"] if output["output_type"] == "stream" else output.get("data", {}).get("text/plain", "")
            text.append("".join(part))
        return "".join(text)

    def reload(self) -> Page:
        """Save the notebook and load the page again; the kernel goes on."""
        self.page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
        self.page.reload()
        self._wait_for_kernel()
        return self.page

    def theme(self, theme: Literal["light", "dark"]) -> None:
        """Switch JupyterLab's theme and wait until it is drawn."""
        self._execute("apputils:change-theme", {"theme": THEMES[theme]})
        wanted = json.dumps(theme == "light")
        self.page.wait_for_function("(wanted) => document.body.dataset.jpThemeLight === wanted", arg=wanted)
        self._wait_for_splash()

    def size(self, width: int, height: int) -> None:
        """Set the page's size in CSS pixels."""
        self.page.set_viewport_size({"width": width, "height": height})

    def screenshot(self, name: str) -> Path:
        """Keep a picture of the page among the build outputs; returns where."""
        self.screenshots.mkdir(parents=True, exist_ok=True)
        path = self.screenshots / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def close(self) -> None:
        """Close the page, end its kernel and put the theme back."""
        self._context.close()
        self.server.end_kernels()
        self.server.forget_theme()

    def _execute(self, command: str, arguments: dict[str, object] | None = None) -> None:
        # Not awaited: a running cell would keep the promise, and with it this call, open.
        self.page.evaluate(
            "([command, args]) => { window.jupyterapp.commands.execute(command, args); }", [command, arguments or {}]
        )

    def _wait_for_kernel(self) -> None:
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=START_SECONDS * 1000)
        self.page.evaluate("() => { window.jupyterapp.shell.collapseLeft?.(); }")
        self._wait_for_splash()

    def _wait_for_splash(self) -> None:
        # JupyterLab fades its splash screen out over everything, a clicked widget included.
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def _wait_for_cells(self, cells: list[int] | None, timeout: float) -> None:
        self.page.wait_for_function(ALL_HAVE_RUN, arg=cells, timeout=timeout * 1000)
        count = self.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length")
        for index in range(count):
            for output in self.page.evaluate(OUTPUTS, index) if self._is_code(index) else []:
                if output["output_type"] == "error":
                    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(output["traceback"]))
                    raise AssertionError(f"cell {index} failed:\n{plain}")

    def _is_code(self, index: int) -> bool:
        kind = "(index) => window.jupyterapp.shell.currentWidget.content.widgets[index].model.type"
        return self.page.evaluate(kind, index) == "code"

    def _note_request(self, url: str) -> None:
        if not url.startswith((self.server.url, "data:", "blob:")):
            self.foreign_requests.append(url)


def free_port() -> int:
    """A port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def eventually(holds: Callable[[], bool], page: Page, seconds: float = 20.0) -> bool:
    """Whether something comes to hold: a busy machine takes its time, and an idle one does not wait."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        page.wait_for_timeout(50)
    return True


def at_rest(read: Callable[[], T], page: Page, seconds: float = 20.0, every: float = 100) -> T:
    """What `read` gives once it has been the same for a while: four times, `every` so many ms."""
    end, last, same = time.monotonic() + seconds, read(), 0
    while same < 4 and time.monotonic() < end:
        page.wait_for_timeout(every)
        now = read()
        same = same + 1 if now == last else 0
        last = now
    return last
