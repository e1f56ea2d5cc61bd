"""Questions asked in the widget, by real clicks: who claims the same nodes, what a group of misses is about, what would match."""

from __future__ import annotations

import pytest

from tests.widgets.lab import at_rest
from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser

EPILOGUE = "conv2d_with_epilogue"
CLAMP = "conv_with_clamp"

#: Two convolutions that one add could follow, one that a clamp follows, and fourteen that miss by their batch.
CELLS = [
    """
import time
import torch
from torch import nn
import lowerscope
from lowerscope_widgets import Explorer, answers
torch.set_num_threads(2)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(3, 4, 1) for _ in range(3))
        self.batched = nn.Sequential(*[m for _ in range(14) for m in (nn.Conv2d(4, 4, 1), nn.ReLU())])
    def forward(self, x, y):
        return torch.relu(self.first(x) + self.second(x)), torch.relu(self.third(x)), self.batched(y)

program = lowerscope.capture(Net().eval(), (torch.rand(1, 3, 6, 6), torch.rand(8, 4, 6, 6)), name="net")
session = lowerscope.Session(program, target="vulkan")
explorer = Explorer(session, height=700)
explorer
""",
    f"""
import json
print(json.dumps({{
    "conflicts": session.conflicts().drop(columns="shared").to_dict("records"),
    "reason": session.reasons().iloc[0].to_dict(),
    "second": session.why_not("{EPILOGUE}", "conv2d_1").verdict,
    "third": session.why_not("{CLAMP}", "conv2d_2").verdict,
    "after": int(session.op_counts().loc["total", "after"]),
}}))
""",
    """
search, polls = answers.what_if, []

def slow(lowering, pattern, node, polled):
    def slowly():
        polls.append(time.monotonic())
        time.sleep(0.3)
        polled()
    return search(lowering, pattern, node, slowly)

answers.what_if = slow
""",
    """
answers.what_if = search
asked = len(polls)
ended = explorer._jobs.wait(20)
time.sleep(1)
print(ended, asked > 0, len(polls) == asked)
""",
    """
@lowerscope.pattern("vulkan", after=["core_aten"], before=["conv2d_with_epilogue"])
class Sums(lowerscope.Pattern):
    '''a + b = b + a.'''
    name, kind, anchors, conditions = "sums", lowerscope.Kind.FUSION, (torch.ops.aten.add.Tensor,), ()
    def match(self, anchor, check):
        return lowerscope.Match(anchor, (anchor,), anchor)
    def rewrite(self, match, edit):
        return edit.call(match.anchor.target, *reversed(match.anchor.args))
print(session.matches("sums").verdict.tolist())
""",
    """
class Sums(Sums):
    def rewrite(self, match, edit):
        return edit.call(torch.ops.aten.sigmoid.default, match.anchor)
lowerscope.pattern("vulkan", before=["no_such"])(Sums)
""",
    """
lowerscope.REGISTRY.remove("sums")
""",
]


def applied(widget: Widget, pattern: str) -> int:
    return int(widget.find("pattern-row", pattern=pattern).get_attribute("data-applied") or -1)


def test_the_conflicts_say_who_won_and_at_what_cost_and_the_winner_is_flipped(widget: Widget) -> None:
    said = widget.session()
    widget.keys("m")
    widget.find("metrics-tab", sheet="conflicts").click()
    widget.find("measure-conflicts").click()
    rows = widget.find("table", table="conflicts").locator("tbody tr")
    rows.first.wait_for(timeout=60_000)
    assert rows.count() == len(said["conflicts"]) == 2
    texts = ["".join(text.split()) for text in rows.all_inner_texts()]  # long names are broken into lines
    for text, row in zip(texts, said["conflicts"], strict=True):
        for part in ("winner", "at", "loser", "loser_at", "why", "operators", "operators_flipped", "parity_flipped"):
            assert "".join(str(row[part]).split()) in text
    assert "standsbefore" in texts[0]
    assert "isstage" in texts[1]
    assert (said["second"], said["third"]) == ("shadowed", "shadowed")
    fused, clamped = applied(widget, EPILOGUE), applied(widget, CLAMP)

    rows.nth(1).locator('[data-ls="flip"]').click()
    widget.until(lambda: (applied(widget, EPILOGUE), applied(widget, CLAMP)) == (fused - 1, clamped + 1))
    flipped = widget.session()
    assert flipped["third"] == "applied"
    assert flipped["after"] == said["conflicts"][1]["operators_flipped"]
    widget.find("undo").click()
    widget.until(lambda: (applied(widget, EPILOGUE), applied(widget, CLAMP)) == (fused, clamped))

    widget.find("measure-conflicts").click()
    widget.find("stale").wait_for(state="detached", timeout=60_000)
    rows.nth(0).locator('[data-ls="flip"]').click()
    widget.find("skip-chip", kind="match").wait_for()
    assert widget.session()["second"] == "applied"
    widget.find("undo").click()
    widget.find("skip-chip").wait_for(state="detached")
    widget.find("metrics-close").click()


def test_a_group_of_misses_leads_to_its_nodes_one_by_one(widget: Widget) -> None:
    reason = widget.session()["reason"]
    assert reason["sentence"] == "14 aten.convolution: the batch size is 8, expected 1"
    widget.find("sheet", sheet="misses").click()
    group = widget.find("reason-group", pattern=EPILOGUE, condition="batch_1")
    assert reason["sentence"] in group.inner_text()
    group.click()
    # one lands on the node, with the reason of its own miss beside it
    failed = widget.find("condition", condition="batch_1", status="failed")
    failed.wait_for()
    anchors = [landed(widget)]
    assert "the batch size is 8" in failed.inner_text()
    widget.find("why-action", action="similar").click()
    widget.until(lambda: widget.state("selected") != anchors)
    anchors.append(landed(widget))
    widget.find("sheet", sheet="misses").click()
    assert "2 of 14" in group.inner_text()
    group.click()
    failed.wait_for()
    anchors.append(landed(widget))
    assert anchors == reason["anchors"][:3]


def landed(widget: Widget) -> str:
    """The one node that is selected, once it is drawn and at rest."""
    (node,) = widget.state("selected")
    assert at_rest(lambda: widget.box(node), widget.page) is not None, f"{node} is not in view"
    return node


def test_a_search_for_what_would_match_is_stopped(widget: Widget) -> None:
    widget.view("before")
    widget.travel("conv2d_5")
    widget.lab.run_cell(2)
    widget.find("ladder-row", pattern=EPILOGUE).wait_for()
    if widget.find("unfolded", pattern=EPILOGUE).count() == 0:
        widget.find("ladder-row", pattern=EPILOGUE).click()
    begin = widget.find("what-if")
    begin.click()
    widget.find("what-if-stop").click()
    begin.wait_for()
    assert widget.find("suggestion").count() == 0
    widget.lab.run_cell(3)
    assert widget.lab.output(3).split() == ["True", "True", "True"], "the search has begun, ended and polls no more"
    begin.click()
    found = widget.find("suggestion", matches="true")
    found.first.wait_for(timeout=60_000)
    assert "the batch size were 1" in found.first.inner_text()


def test_a_pattern_of_a_cell_is_there_once_the_cell_has_run(widget: Widget) -> None:
    row = widget.find("pattern-row", pattern="sums")
    assert row.count() == 0
    widget.lab.run_cell(4)
    row.wait_for()
    assert widget.lab.output(4).strip() == "['applied']"
    assert applied(widget, "sums") == 1
    widget.lab.run_cell(5)  # one that cannot be put in order is said in the widget, and the others go on
    told = widget.page.get_by_text("pattern 'sums' is to run before 'no_such'", exact=False)
    told.first.wait_for()
    assert applied(widget, "sums") == 0
    assert applied(widget, "conv2d_with_epilogue") > 0
    widget.lab.run_cell(6)
    row.wait_for(state="detached")
    told.first.wait_for(state="detached")
