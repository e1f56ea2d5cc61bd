"""The main job in a real JupyterLab: toggle a pattern, skip a match, ask why not, come back after a reload, both themes."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.widgets.lab import Lab, at_rest

pytestmark = pytest.mark.browser

MODELS = Path(__file__).parents[2] / "sample_models"
MODEL = MODELS / "dsr_alpha_second.pt2"
EPILOGUE = "conv2d_with_epilogue"
SHOW = f"""
import torch
torch.set_num_threads(2)
import lowerscope

session = lowerscope.Session({str(MODEL)!r}, target="vulkan")
explorer = lowerscope.explore(session)
explorer
"""
ASK = f"""
import json
misses = session.near_misses("{EPILOGUE}")
miss = misses[misses["failed"] == "operand_order"].iloc[0]
matches = session.matches("{EPILOGUE}")
applied = list(matches[matches["verdict"] == "applied"]["anchor"])
print(json.dumps({{
    "operators": int(session.op_counts().loc["total", "after"]),
    "skips": len(session.recipe.skips),
    "miss": session.lowering.origin(miss["anchor"])[0],
    "applied": len(applied),
    "match": session.lowering.origin(applied[-1])[0] if applied else "",
}}))
"""


@pytest.fixture
def page(lab: Lab) -> Page:
    """A notebook with one widget that is drawn; cell 1 prints what the session says."""
    page = lab.open_notebook([SHOW, ASK, f"session.disable('{EPILOGUE}')", "session.undo()"])
    lab.run_cell(0)
    ready(page)
    return page


def ready(page: Page) -> None:
    page.locator('.ls-root[data-ls-ready="true"]').first.wait_for(timeout=60_000)


def said(lab: Lab) -> dict[str, int | str]:
    """What the session says in Python."""
    import json

    lab.run_cell(1)
    return json.loads(lab.output(1))


def number(page: Page, name: str) -> int:
    return int(re.sub(r"\D", "", page.locator(f'[data-ls="{name}"]').first.inner_text()))


def wait_for_operators(page: Page, count: int) -> None:
    page.wait_for_function(
        "(count) => Number(document.querySelector('[data-ls=operators-after]').textContent.replace(/\\D/g, '')) === count",
        arg=count,
    )


def travel(page: Page, node: str) -> None:
    """Find a node by its name, as a reader does, and go there."""
    search = page.locator('[data-ls="search"]')
    search = search if search.evaluate("(e) => e.tagName") == "INPUT" else search.locator("input")
    search.fill(node)
    search.press("Enter")
    page.wait_for_function(
        "(node) => document.querySelector('.ls-root').lowerscope.state().selected[0] === node", arg=node
    )
    search.press("Escape")


def click_node(page: Page, node: str, button: str = "left") -> None:
    rect = "(root, node) => root.nodeRect(node)?.toJSON() ?? null"
    where = at_rest(lambda: page.locator(".ls-root").evaluate(rect, node), page)
    assert where is not None, f"{node} is not drawn"
    page.mouse.click(where["x"] + where["width"] / 2, where["y"] + where["height"] / 2, button=button)  # type: ignore[arg-type]


def test_a_toggle_changes_the_operators_and_parity_is_measured_again(lab: Lab, page: Page) -> None:
    before, after = number(page, "operators-before"), number(page, "operators-after")
    assert after == said(lab)["operators"]
    assert before > after
    pill = page.locator('[data-ls="parity-pill"]')
    page.locator('[data-ls="parity-pill"][data-state="fresh"]').wait_for(timeout=60_000)
    assert "numbers" in pill.inner_text()

    page.locator(f'[data-ls="pattern-row"][data-pattern="{EPILOGUE}"] [data-ls="pattern-toggle"]').click()
    row = page.locator(f'[data-ls="pattern-row"][data-pattern="{EPILOGUE}"][data-enabled="false"]')
    row.wait_for()
    assert "would match" in row.inner_text()
    more = said(lab)["operators"]
    assert isinstance(more, int)
    assert more > after
    wait_for_operators(page, more)
    page.locator('[data-ls="parity-pill"][data-state="fresh"]').wait_for(timeout=60_000)
    page.locator('[data-ls="undo"]').click()
    wait_for_operators(page, after)
    assert lab.page_errors == []
    assert lab.foreign_requests == []


def test_a_change_in_another_cell_reaches_the_widget(lab: Lab, page: Page) -> None:
    after = number(page, "operators-after")
    lab.run_cell(2)
    page.locator(f'[data-ls="pattern-row"][data-pattern="{EPILOGUE}"][data-enabled="false"]').wait_for()
    assert number(page, "operators-after") > after
    lab.run_cell(3)
    wait_for_operators(page, after)


def test_a_match_is_skipped_from_its_menu_and_the_skip_undone(lab: Lab, page: Page) -> None:
    first = said(lab)
    after = number(page, "operators-after")
    travel(page, str(first["match"]))
    click_node(page, str(first["match"]), button="right")
    page.get_by_role("menuitem", name=re.compile(f"Skip this match of {EPILOGUE}")).first.click()
    chip = page.locator('[data-ls="skip-chip"][data-kind="match"]')
    chip.wait_for()
    second = said(lab)
    assert second["skips"] == 1
    assert second["applied"] == int(first["applied"]) - 1
    wait_for_operators(page, int(second["operators"]))
    assert int(second["operators"]) > after
    page.locator('[data-ls="undo"]').click()
    chip.wait_for(state="detached")
    wait_for_operators(page, after)


def test_a_node_that_did_not_fuse_says_which_condition_failed(lab: Lab, page: Page) -> None:
    miss = str(said(lab)["miss"])
    travel(page, miss)
    click_node(page, miss)
    page.locator(f'[data-ls="why-not"][data-node="{miss}"]').wait_for()
    ladder = page.locator(f'[data-ls="ladder-row"][data-pattern="{EPILOGUE}"]')
    assert ladder.get_attribute("data-verdict") == "near miss"
    if page.locator(f'[data-ls="unfolded"][data-pattern="{EPILOGUE}"]').count() == 0:
        ladder.click()
    failed = page.locator('[data-ls="condition"][data-status="failed"]')
    failed.first.wait_for()
    assert failed.first.get_attribute("data-condition") == "operand_order"
    assert "expected the convolution first" in page.locator('[data-ls="why-not"]').inner_text()
    assert page.locator('[data-ls="inspector"]').get_attribute("data-node") == miss
    assert "_conv_forward" in page.locator('[data-ls="node-source"]').inner_text()
    lab.screenshot("explorer_why_not")
    # and what would make it match is tried on a copy
    page.locator('[data-ls="what-if"]').click()
    page.locator('[data-ls="suggestion"][data-same="true"]').wait_for(timeout=60_000)


def test_after_a_reload_the_widget_is_there_again(lab: Lab, page: Page) -> None:
    after = number(page, "operators-after")
    page.locator(f'[data-ls="pattern-row"][data-pattern="{EPILOGUE}"] [data-ls="pattern-toggle"]').click()
    page.wait_for_function(
        "(count) => Number(document.querySelector('[data-ls=operators-after]').textContent.replace(/\\D/g, '')) > count",
        arg=after,
    )
    changed = number(page, "operators-after")
    page = lab.reload()
    ready(page)
    wait_for_operators(page, changed)
    page.locator('[data-ls="undo"]').click()
    wait_for_operators(page, after)


def test_an_error_is_shown_where_it_arose_and_no_traceback_in_the_cell(lab: Lab, page: Page) -> None:
    entry = page.locator('[data-ls="skip-input"]')
    entry = entry if entry.evaluate("(e) => e.tagName") == "INPUT" else entry.locator("input")
    entry.fill("tial.*")
    entry.press("Enter")
    error = page.locator('[data-ls="region-error"][data-region="skips"], [data-ls="skip-error"]')
    error.first.wait_for()
    assert "tail" in error.first.inner_text(), "the closest names are given"
    assert "Traceback" not in page.locator(".jp-Cell").first.inner_text()


def test_only_the_live_widget_is_seen_and_the_picture_is_saved_beside_it(lab: Lab, page: Page) -> None:
    assert page.locator(".ls-static").count() == 1
    assert not page.locator(".ls-static").is_visible()
    outputs = page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.outputs.toJSON()")
    static = next("".join(o["data"]["text/html"]) for o in outputs if "ls-static" in str(o["data"].get("text/html")))
    picture = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', static)
    assert picture is not None
    svg = base64.b64decode(picture[1]).decode()
    assert svg.startswith("<svg")
    assert "conv2d" in svg
    assert EPILOGUE in static
    assert "<script" not in static


def test_without_a_kernel_the_picture_and_tables_are_shown(lab: Lab, page: Page) -> None:
    page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
    lab.server.end_kernels()
    page.reload()
    page.locator(".ls-static").wait_for(timeout=60_000)
    assert page.locator(".ls-static table").count() == 2
    assert page.locator(".ls-static").is_visible()
    assert page.locator(".ls-root").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_screenshots(lab: Lab, page: Page, theme: str) -> None:
    lab.theme(theme)  # type: ignore[arg-type]
    page.locator('[data-ls="parity-pill"][data-state="fresh"]').wait_for(timeout=60_000)
    page.locator(".ls-root").scroll_into_view_if_needed()
    for view in ("before", "after", "diff", "split"):
        page.locator(f'[data-ls="view"][data-view="{view}"]').click()
        page.wait_for_timeout(700)
        assert lab.screenshot(f"explorer_{view}_{theme}").stat().st_size > 20_000
    assert lab.page_errors == []
