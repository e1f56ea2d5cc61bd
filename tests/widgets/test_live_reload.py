"""A live Lab: a change of the front end's source shows in the widget that is open, and the kernel goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lowerscope_widgets.bundle import LIVE, STATIC, BundleError, bundle, read_bundle
from tests.widgets.lab import Lab, eventually

ROOT = Path(__file__).parents[2]
FRONT_END = ROOT / "widgets" / "front-end"
SHOW = """
import os
os.environ["{live}"] = {folder!r}
import lowerscope
session = lowerscope.Session({model!r}, target="vulkan")
session.disable("conv2d_with_epilogue")
explorer = lowerscope.explore(session)
explorer
"""


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    """A copy of the front end's source, with the watcher at work on it."""
    front_end = tmp_path / "front-end"
    shutil.copytree(FRONT_END, front_end, ignore=shutil.ignore_patterns("node_modules", "build", "tests"))
    (front_end / "node_modules").symlink_to((FRONT_END / "node_modules").resolve())
    with (tmp_path / "watcher.log").open("wb") as log:
        watcher = subprocess.Popen(["node", "build.mjs", "--watch"], cwd=front_end, stdout=log, stderr=log)
        yield front_end / "src"
        watcher.terminate()
        watcher.wait(timeout=20)


@pytest.mark.browser
def test_a_changed_colour_and_a_changed_script_show_in_the_open_widget(lab: Lab, source: Path) -> None:
    folder = source.parent / "build" / "live"
    model = str(ROOT / "sample_models" / "dsr_alpha_second.pt2")
    show = SHOW.format(live=LIVE, folder=str(folder), model=model)
    page = lab.open_notebook([show, "print(os.getpid(), session.recipe.disabled)"])
    assert eventually((folder / "explorer.css").is_file, page)
    lab.run_cell(0)
    lab.run_cell(1)
    before = lab.output(1)
    widget = page.locator(".ls-root").first
    page.locator('.ls-root[data-ls-ready="true"]').first.wait_for(timeout=60_000)

    def outline() -> str:
        return widget.evaluate("(element) => getComputedStyle(element).outlineColor")

    style = source / "styles.css"
    style.write_text(style.read_text() + "\n.ls-root { outline-color: rgb(1, 2, 3) !important; }\n")
    assert eventually(lambda: outline() == "rgb(1, 2, 3)", page)

    script = source / "index.ts"
    script.write_text(script.read_text().replace("return mount(el", 'el.dataset.drawn = "anew";\n  return mount(el', 1))
    page.locator('[data-drawn="anew"] .ls-root[data-ls-ready="true"]').first.wait_for(timeout=60_000)

    lab.run_cell(1)
    assert lab.output(1) == before
    assert "conv2d_with_epilogue" in before
    assert lab.page_errors == []


def test_outside_a_live_lab_the_released_bundle_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(LIVE, raising=False)
    assert bundle() == read_bundle(STATIC)
    monkeypatch.setenv(LIVE, os.fspath(tmp_path))
    with pytest.raises(BundleError, match="make bundle"):
        bundle()
