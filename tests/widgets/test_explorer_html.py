"""What works without a kernel: the self-contained HTML file, the static view; and the magic that shows a widget in a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from playwright.sync_api import Browser, Page

import lowerscope
from lowerscope.scene import make_scene
from lowerscope_widgets import Explorer
from lowerscope_widgets.html_export import record, request_key, to_html
from lowerscope_widgets.static_view import static_html, static_text
from tests.engine.nets import Named, mixed

EPILOGUE = "conv2d_with_epilogue"


@pytest.fixture(scope="module")
def session() -> lowerscope.Session:
    return lowerscope.Session(mixed())


@pytest.fixture(scope="module")
def file(session: lowerscope.Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("html") / "mixed.html"
    explorer = Explorer(session)
    note = explorer.export_html(path)
    explorer.close()
    assert note.startswith("It replays the recipe and ")
    return path


class Opened:
    """A page opened from disk: what it asked for, and what went wrong in it."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(path.as_uri())
        page.locator('.ls-root[data-ls-ready="true"]').wait_for(timeout=60_000)


@pytest.fixture
def opened(file: Path, browser: Browser) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    yield Opened(context.new_page(), file)
    context.close()


def operators_after(page: Page) -> int:
    return int(re.sub(r"\D", "", page.locator('[data-ls="operators-after"]').first.inner_text()))


@pytest.mark.browser
def test_the_file_shows_the_graph_without_a_request_leaving_it(opened: Opened, file: Path) -> None:
    assert [url for url in opened.requests if not url.startswith(("blob:", "data:"))] == [file.as_uri()]
    assert opened.errors == []
    assert operators_after(opened.page) > 0
    opened.page.locator('[data-ls="parity-pill"][data-state="fresh"]').wait_for()


@pytest.mark.browser
def test_the_file_replays_a_toggle_and_the_way_back(opened: Opened, session: lowerscope.Session) -> None:
    page = opened.page
    before = operators_after(page)
    assert before == session.op_counts().loc["total", "after"]
    toggle = page.locator(f'[data-ls="pattern-row"][data-pattern="{EPILOGUE}"] [data-ls="pattern-toggle"]')
    toggle.click()
    page.locator(f'[data-ls="pattern-row"][data-pattern="{EPILOGUE}"][data-enabled="false"]').wait_for()
    off = lowerscope.Session(session.program, recipe=session.recipe.disable(EPILOGUE))
    assert operators_after(page) == off.op_counts().loc["total", "after"] != before
    toggle.click()
    page.locator(f'[data-ls="pattern-row"][data-pattern="{EPILOGUE}"][data-enabled="true"]').wait_for()
    assert operators_after(page) == before


@pytest.mark.browser
def test_the_file_explains_a_node(opened: Opened) -> None:
    page = opened.page
    page.locator(".ls-root").evaluate("(root) => root.lowerscope.store.select(['conv2d_2'])")
    page.locator('[data-ls="why-not"][data-node="conv2d_2"][data-ready="true"]').wait_for()
    assert page.locator('[data-ls="ladder-row"]').count() > 2
    assert page.locator('[data-ls="inspector"]').get_attribute("data-node") == "conv2d_2"


def test_a_recording_leaves_the_session_as_it_is(session: lowerscope.Session) -> None:
    recipe, revision = session.recipe, session.revision
    recording, _ = record(session)
    assert (session.recipe, session.revision) == (recipe, revision)
    assert recording["scenes"].keys() >= {recording["first"], EPILOGUE}
    there = recording["moves"][recording["first"]][
        request_key({"type": "toggle", "pattern": EPILOGUE, "enabled": False})
    ]
    assert there == EPILOGUE
    asked = {key for key in recording["replies"][recording["first"]] if '"inspect"' in key}
    assert len(asked) == len(session.lowering.ledger.records)


def test_a_recording_without_room_says_so(session: lowerscope.Session) -> None:
    recording, note = record(session, largest=200_000)
    assert note.endswith("as far as there was room for the answers.")
    replies = recording["replies"][recording["first"]]
    assert 2 <= len(replies) < len(session.lowering.ledger.records)


HOSTILE = ("<img src=x onerror=hacked=1>", "</script><script>hacked=1</script>", "x" * 3000, "\u202ertl")


@pytest.fixture(scope="module")
def hostile() -> lowerscope.Session:
    module = Named(*HOSTILE).eval()
    return lowerscope.Session(lowerscope.capture(module, (torch.rand(1, 2, 4, 4),), name="</script><b>"))


@pytest.mark.browser
def test_names_of_any_kind_run_nothing_and_break_nothing(
    hostile: lowerscope.Session, browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(to_html(hostile)[0], encoding="utf-8")
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    opened = Opened(context.new_page(), path)
    page = opened.page
    page.locator(".ls-root").evaluate("(root) => root.lowerscope.store.select(['conv2d'])")
    page.locator('[data-ls="why-not"][data-node="conv2d"][data-ready="true"]').wait_for()
    page.locator('[data-ls="node-module"]').first.wait_for()
    assert "<img src=x" in page.locator('[data-ls="inspector"]').inner_text()
    assert page.evaluate("typeof hacked") == "undefined"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert opened.errors == []
    context.close()


def test_the_static_view_escapes_names_and_has_the_numbers(hostile: lowerscope.Session) -> None:
    scene = make_scene(hostile.lowering)
    shown = static_html(hostile, scene)
    assert "<script" not in shown
    assert "<b>&lt;/script&gt;&lt;b&gt;</b>" in shown
    total = hostile.op_counts().loc["total"]
    assert f"{total['before']} operators before, {total['after']} after" in shown
    assert f"{total['before']} operators before" in static_text(hostile, scene)


# ---------------------------------------------------------------------- the magic
def test_explore_takes_a_path_and_a_variable(shell: InteractiveShell, tmp_path: Path) -> None:
    path = mixed().save(tmp_path / "a model.pt2")
    found = shell.run_line_magic("explore", f"'{path}' --target qnn")
    assert isinstance(found, Explorer)
    assert found.session.target == "qnn"
    shell.user_ns["mine"] = found.session
    again = shell.run_line_magic("explore", "mine --target vulkan --panels graph,patterns")
    assert isinstance(again, Explorer)
    assert again.session is found.session
    assert found.session.target == "vulkan"
    assert again.panels == ["graph", "patterns"]
    for explorer in (found, again):
        explorer.close()


def test_explore_says_what_is_wrong_in_one_line(shell: InteractiveShell) -> None:
    with pytest.raises(UsageError, match=r"missing\.pt2"):
        shell.run_line_magic("explore", "missing.pt2")
