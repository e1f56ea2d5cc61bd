"""An integer fold that fails closed, in a real JupyterLab: the channel's map of the codes, seen and read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.widgets.lab import Lab

pytestmark = [pytest.mark.browser, pytest.mark.quantize]

MODEL = Path(__file__).parents[2] / "sample_models" / "dyt_conv_realistic.pt2"
FOLD = "fold_dyt_affine"
SHOW = f"""
import torch
torch.set_num_threads(2)
import lowerscope
import torchao

session = lowerscope.Session({str(MODEL)!r}, target="ethos-u")
session.enable("fold_dyt_alpha", "{FOLD}")
explorer = lowerscope.explore(session)
explorer
"""
ASK = f"""
import json
misses = session.near_misses("{FOLD}")
anchor = misses[misses["failed"] == "integer_affine"].iloc[0]["anchor"]
found = session.why_not("{FOLD}", anchor)
shown = found.failed.code_map
print(json.dumps({{
    "anchor": anchor, "channel": shown.channel, "code": shown.code, "value": shown.values[shown.code + 128],
    "nearest": shown.nearest[shown.code + 128], "says": shown.says,
}}))
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_map_that_breaks_is_plotted_beside_the_nearest_affine_one(lab: Lab, theme: str) -> None:
    page = lab.open_notebook([SHOW, ASK, "explorer.focus(found.anchor)", "found"])
    lab.theme(theme)  # type: ignore[arg-type]
    lab.run_cell(0)
    page.locator('.ls-root[data-ls-ready="true"]').wait_for(timeout=60_000)
    lab.run_cell(1)
    said = json.loads(lab.output(1))
    lab.run_cell(2)
    row = page.locator(f'[data-ls="ladder-row"][data-pattern="{FOLD}"]')
    row.wait_for()
    assert row.get_attribute("data-verdict") == "near miss"
    if row.get_attribute("aria-expanded") == "false":
        row.click()
    plot = page.locator('[data-condition="integer_affine"] [data-ls="code-map"]')
    plot.wait_for()
    picture = plot.get_by_role("img", name=said["says"])
    assert f"Channel {said['channel']}:" in said["says"]
    assert f"code {said['code']}, which gives {said['value']} and not {said['nearest']}" in said["says"]
    nearest, values = (
        [tuple(map(int, point.split(","))) for point in line.get_attribute("points").split()]  # type: ignore[union-attr]
        for line in picture.locator("polyline").all()
    )
    at = said["code"] + 128
    assert len(values) == len(nearest) == 256
    assert (values[at], nearest[at]) == ((at, 127 - said["value"]), (at, 127 - said["nearest"]))
    assert "code in, -128 to 127" in plot.inner_text()
    assert "code out, -128 to 127" in plot.inner_text()
    assert f"line: channel {said['channel']}" in plot.inner_text()
    plot.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert box is not None
    assert 150 < box["width"] <= 300
    strokes = picture.locator("polyline").evaluate_all("(lines) => lines.map((line) => getComputedStyle(line).stroke)")
    assert len(set(strokes)) == 2
    assert "none" not in strokes
    lab.screenshot(f"code_map_{theme}")
    # with room for all its conditions
    page.locator('[data-ls="why-focus-open"]').click()
    wide = page.locator('[data-ls="why-focus"] [data-ls="code-map"]')
    wide.wait_for()
    wide.scroll_into_view_if_needed()
    lab.screenshot(f"code_map_wide_{theme}")
    # and as the output of a cell
    lab.run_cell(3)
    printed = page.locator(".jp-RenderedHTML svg[role=img]").first
    printed.scroll_into_view_if_needed()
    assert printed.get_attribute("aria-label") == said["says"]
    assert printed.locator("polyline").count() == 2
    lab.screenshot(f"code_map_printed_{theme}")
    assert lab.page_errors == []
