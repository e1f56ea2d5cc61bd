"""The sheet of ExecuTorch's own partitioner in a real JupyterLab: run, read, stopped, and from a row to its node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.widgets.lab import Lab
from tests.widgets.test_graph import ready, state

pytestmark = [pytest.mark.browser, pytest.mark.executorch]

MODEL = Path(__file__).parents[2] / "sample_models" / "conv_bn.pt2"
SHOW = f"""
import torch
torch.set_num_threads(2)
from lowerscope_widgets import Explorer

explorer = Explorer({str(MODEL)!r}, target="xnnpack")
explorer
"""


def test_the_real_partitioners_regions_and_reasons_stand_beside_ours(lab: Lab) -> None:
    page = lab.open_notebook([SHOW])
    lab.run_cell(0)
    ready(page)
    page.locator(".ls-root").evaluate("(root) => root.focus({ preventScroll: true })")
    page.keyboard.press("m")
    page.locator('[data-ls="metrics-tab"][data-sheet="partitioner"]').click()
    tables = page.locator('[data-ls="metrics-tables"]')
    run = tables.locator('[data-ls="measure-partitioner"]')
    run.click()
    tables.locator('[data-ls="progress-stop"]').click()
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.state().partitioner.state === 'cancelled'")
    assert "cancelled" in tables.locator('[data-ls="not-measured"]').inner_text()

    run.click()
    mean = tables.locator('[data-ls="table-row"][data-key="before mean"]')
    mean.wait_for(timeout=120_000)
    assert "makes 2 regions before and 2 after, we 2 and 2" in tables.inner_text()
    cells = {name: mean.locator(f'[data-column="{name}"]').inner_text() for name in ("op", "ours", "executorch")}
    assert cells["op"] == "aten.mean.dim"
    assert cells["ours"].startswith("XNNPACK has the mean of a 4-D tensor")
    assert cells["executorch"] == "mean.dim only supports keepdim=True"
    conv = tables.locator('[data-ls="table-row"][data-key="before conv2d"]')
    assert conv.locator('[data-column="ours"]').inner_text() == "region 1"
    assert conv.locator('[data-column="executorch"]').inner_text() == "region 1"
    hint = tables.locator('[data-key="after to_nhwc"] [data-column="executorch"] span').get_attribute("title")
    assert hint == "Only dim-order preserving clones are supported.", "a reason that is cut can be read whole"
    for width in (1400, 600):
        lab.size(width, 900)
        lab.screenshot(f"partitioner_sheet_{width}")
        assert page.locator(".ls-root").evaluate("(root) => root.scrollWidth <= root.clientWidth")
    lab.size(1400, 900)

    mean.locator('[data-ls="node-link"]').click()
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.state().selected[0] === 'mean'")
    assert state(page, "metricsOpen") is True
    assert lab.page_errors == []
