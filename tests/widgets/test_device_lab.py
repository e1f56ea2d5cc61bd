"""The device profile edited in the widget: the matches follow at once, and the reason is the device's limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from tests.widgets.lab import Lab, eventually

pytestmark = pytest.mark.browser

MODELS = Path(__file__).parents[2] / "sample_models"
SHOW = """
import torch
torch.set_num_threads(2)
import lowerscope

session = lowerscope.Session({model!r}, target={target!r})
explorer = lowerscope.explore(session)
explorer
"""
ASK = """
import json
missed = session.near_misses({pattern!r})
print(json.dumps({{
    "applied": int((session.matches({pattern!r})["verdict"] == "applied").sum()),
    "failed": sorted(set(missed["failed"])),
    "profile": dict(session.recipe.profile),
}}))
"""


def opened(lab: Lab, model: str, target: str, pattern: str) -> Page:
    """A notebook with one widget that is drawn; cell 1 prints what the session says of a pattern."""
    page = lab.open_notebook(
        [SHOW.format(model=str(MODELS / f"{model}.pt2"), target=target), ASK.format(pattern=pattern)]
    )
    lab.run_cell(0)
    page.locator('.ls-root[data-ls-ready="true"]').wait_for(timeout=60_000)
    return page


def said(lab: Lab) -> dict:
    lab.run_cell(1)
    return json.loads(lab.output(1))


def applied(page: Page, pattern: str) -> int:
    """How many matches the row of a pattern counts."""
    row = page.locator(f'[data-ls="pattern-row"][data-pattern="{pattern}"]')
    return int(row.get_attribute("data-applied") or 0)


def field(page: Page, name: str) -> Locator:
    """The editor of one field of the profile; opens the editor when it is closed."""
    if page.locator('[data-ls="device"]').count() == 0:
        page.locator('[data-ls="target"]').first.click()
        page.get_by_role("menuitem", name="Device profile").click()
    found = page.locator(f'[data-ls="device-field"][data-field="{name}"]')
    found.wait_for()
    return found


def enter(page: Page, name: str, value: str) -> None:
    found = field(page, name)
    if found.evaluate("(e) => e.tagName") == "SELECT":
        found.select_option(value)
    else:
        found.fill(value)
        found.press("Tab")


def test_a_smaller_texture_takes_vulkans_matches_at_once_and_undo_brings_them_back(lab: Lab) -> None:
    pattern = "conv2d_with_epilogue"
    page = opened(lab, "dsr", "vulkan", pattern)
    before = applied(page, pattern)
    assert before == said(lab)["applied"] >= 83
    enter(page, "max_texture_width", "7")
    assert eventually(lambda: applied(page, pattern) < before, page)
    now = said(lab)
    assert now["profile"] == {"max_texture_width": 7}
    assert now["applied"] == applied(page, pattern)
    assert "input_fits_texture" in now["failed"]
    page.keyboard.press("Escape")
    page.locator('[data-ls="undo"]').click()
    assert eventually(lambda: applied(page, pattern) == before, page)
    assert lab.page_errors == []


def test_vendor_and_architecture_decide_ort_webgpus_matches_at_once(lab: Lab) -> None:
    pattern = "im2col_conv_activation"
    page = opened(lab, "resnet50_like", "ort-webgpu", pattern)
    assert applied(page, pattern) == said(lab)["applied"] == 17
    enter(page, "vendor", "nvidia")
    assert eventually(lambda: applied(page, pattern) == 0, page)
    enter(page, "vendor", "intel")
    assert eventually(lambda: applied(page, pattern) == 17, page)
    enter(page, "architecture", "xe-3lpg-xs")
    assert eventually(lambda: said(lab)["profile"].get("architecture") == "xe-3lpg-xs", page)
    assert applied(page, pattern) == 17
    enter(page, "architecture", "volta")
    assert eventually(lambda: applied(page, pattern) == 0, page)
    now = said(lab)
    assert (now["applied"], now["failed"]) == (0, ["adapter"])
    assert lab.page_errors == []
