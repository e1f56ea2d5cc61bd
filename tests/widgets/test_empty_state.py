"""A widget without a model: it asks for a path, offers the sample models, and is the widget of the one that is opened."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import lowerscope
from lowerscope_widgets import Explorer
from lowerscope_widgets.opening import NoModelError
from lowerscope_widgets.samples import sample_models
from tests.engine.nets import mixed
from tests.widgets.lab import Lab
from tests.widgets.test_explorer_requests import Browser
from tests.widgets.test_graph import ready
from tests.widgets.test_states_lab import pictures

SAMPLES = Path(__file__).parents[2] / "sample_models"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return mixed().save(tmp_path / "mine.pt2")


@pytest.fixture
def explorer(saved: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Explorer]:
    monkeypatch.chdir(saved.parent)
    explorer = lowerscope.explore(target="xnnpack")
    yield explorer
    explorer.close()
    explorer._jobs.wait()


def test_it_offers_what_is_at_hand_and_becomes_the_widget_of_the_file_that_is_opened(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Browser(explorer, monkeypatch)
    assert browser.ask("ready") is None
    (event,) = browser.events("empty")
    offered = {sample["name"]: sample["path"] for sample in event["samples"]}
    assert offered["mine"] == str(Path.cwd() / "mine.pt2")
    assert offered["dsr"] == str(SAMPLES / "dsr.pt2")
    assert not browser.events("error")
    assert repr(explorer) == "<Explorer, no model yet>"
    with pytest.raises(NoModelError, match="there is no model yet: open one in the widget"):
        _ = explorer.session
    assert browser.ask("load", without=False, path="mine.pt2") is None
    assert browser.header["program"]["name"] == "mine"
    assert explorer.session.target == "xnnpack"
    # it has its model, and keeps it
    assert browser.ask("load", without=False, path="other.pt2") is None
    assert explorer.session.program.name == "mine"


def test_a_path_that_cannot_be_opened_is_said_and_another_one_is_opened(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Browser(explorer, monkeypatch)
    assert "there is no file 'yours.pt2'" in browser.fails("load", without=False, path="yours.pt2")
    assert browser.events("error")[-1]["where"] == "graph"
    browser.heard.clear()
    browser.fails("ready")
    assert browser.events("empty"), "a view that comes now may open another one, too"
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert browser.ask("load", without=False, path="~/mine.pt2") is None
    assert browser.header["program"]["name"] == "mine"


def test_samples_are_those_here_then_those_of_the_nearest_folder_and_none_where_there_is_none(tmp_path: Path) -> None:
    here, nearest, package = tmp_path / "a" / "b", tmp_path / "a" / "sample_models", tmp_path / "lib" / "module.py"
    here.mkdir(parents=True)
    assert sample_models(here, package) == []
    paths: list[str] = []
    for folder in (tmp_path / "lib" / "sample_models", tmp_path / "sample_models", nearest):
        folder.mkdir(parents=True)
        (folder / "net.pt2").touch()
        paths = [sample["path"] for sample in sample_models(here, package)]
        assert paths == [str(folder / "net.pt2")], "a nearer folder wins"
    (here / "mine.pt2").touch()
    assert [sample["path"] for sample in sample_models(here, package)] == [str(here / "mine.pt2"), *paths]
    for number in range(40):
        (here / f"{number}.pt2").touch()
    assert len(sample_models(here, package)) == 24


@pytest.mark.browser
def test_a_sample_is_opened_by_a_click_and_a_file_by_its_path(lab: Lab) -> None:
    shutil.copy(SAMPLES / "conv_bn.pt2", lab.server.notebooks / "conv_bn.pt2")
    page = lab.open_notebook(
        ["import lowerscope\nlowerscope.explore()", "%load_ext lowerscope\n%explore --target xnnpack"]
    )
    lab.run_cell(0)
    empty = page.locator('[data-ls="state-empty"]')
    empty.wait_for()
    assert "No model yet" in empty.inner_text()
    pictures(lab, "empty")
    path = page.locator('[data-ls="open-path"]')
    path.fill("<b>nowhere</b>.pt2")
    path.press("Enter")
    error = page.locator('[data-ls="state-error"]')
    error.wait_for()
    assert "there is no file '<b>nowhere</b>.pt2'" in error.inner_text()
    path.fill("conv_bn.pt2")
    page.locator('[data-ls="open"]').click()
    ready(page)
    assert page.locator(".ls-root").evaluate("(root) => root.lowerscope.scene().header.program.name") == "conv_bn"
    assert page.locator('[data-ls="cover"]').count() == 0
    lab.run_cell(1)
    second = page.locator(".jp-Cell").nth(1)
    second.locator('[data-ls="open-sample"]', has_text="dsr_shared_mul").click()
    second.locator('.ls-root[data-ls-ready="true"]').wait_for(timeout=60_000)
    program = second.locator(".ls-root").evaluate("(root) => root.lowerscope.scene().header.program")
    assert (program["name"], program["target"]) == ("dsr_shared_mul", "xnnpack")
    assert page.locator(".ls-static").count() == 2
    assert all("no model yet" not in text for text in page.locator(".ls-static").all_text_contents())
    assert lab.page_errors == []
