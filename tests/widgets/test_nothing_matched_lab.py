"""A program that no pattern of the target takes: the widget says so, and at which conditions, with the nodes behind each."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.widgets.test_states_lab import SIZES
from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser

#: Convolutions of a batch of four, which Vulkan's kernels do not take, and one in float64, which they do not take either.
CELLS = [
    """
import torch
from torch import nn
import lowerscope
from lowerscope_widgets import Explorer
torch.set_num_threads(2)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
    def forward(self, x):
        return self.conv(x) + x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.exact = nn.Sequential(*[Block() for _ in range(5)]), Block().double()
    def forward(self, x, y):
        return self.body(x), self.exact(y)

inputs = (torch.rand(4, 4, 4, 4), torch.rand(1, 4, 4, 4, dtype=torch.float64))
session = lowerscope.Session(lowerscope.capture(Net().eval(), inputs), target="vulkan")
explorer = Explorer(session, height=640)
explorer
""",
    """
import json
print(json.dumps(session.reasons()[["pattern", "condition", "count", "sentence", "anchors"]].to_dict("records")))
""",
]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
def test_it_says_at_which_conditions_and_leads_to_the_nodes(
    widget: Widget, width: int, theme: Literal["light", "dark"]
) -> None:
    widget.fit(width, theme)
    reasons: Any = widget.session()  # what the cell printed, as JSON
    assert len(reasons) >= 2
    widget.root.evaluate("(root) => { root.lowerscope.store.select([]); root.lowerscope.store.setSheetOpen(false); }")
    notice = widget.find("notice")
    assert "No pattern of vulkan but core_aten takes anything here" in notice.inner_text()
    assert reasons[0]["sentence"] in notice.inner_text()
    widget.find("notice-reasons").click()
    groups = widget.find("reason-group")
    groups.first.wait_for()
    shown = groups.evaluate_all("(all) => all.map((one) => [one.dataset.pattern, one.dataset.condition])")
    assert shown == [[reason["pattern"], reason["condition"]] for reason in reasons]
    for reason, text in zip(reasons, groups.all_inner_texts(), strict=True):
        assert reason["sentence"] in text
        assert str(reason["count"]) in text
    widget.root.scroll_into_view_if_needed()
    widget.page.mouse.move(1, 1)
    widget.lab.screenshot(f"nothing_matched_{theme}_{width}")
    # a click leads to the first node behind a reason, where the condition that failed is unfolded
    groups.first.click()
    widget.until(lambda: widget.state("selected") == [reasons[0]["anchors"][0]])
    widget.find("condition", condition=reasons[0]["condition"], status="failed").first.wait_for()


def test_the_notice_goes_when_it_is_dismissed(widget: Widget) -> None:
    widget.find("notice-dismiss").click()
    widget.find("notice").wait_for(state="detached")
