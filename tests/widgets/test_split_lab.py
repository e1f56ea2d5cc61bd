"""Split through decompositions and fusions: one node that became several, and several that became one."""

from __future__ import annotations

import pytest

from tests.widgets.test_items_graph import inside, lineage, select_in_split
from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser

CELLS = [
    """
import torch
from torch import nn
import lowerscope
from lowerscope_widgets import Explorer
torch.set_num_threads(2)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1)
    def forward(self, x):
        return torch.pixel_shuffle(self.up(torch.relu(self.norm(self.first(x)))), 2)

program = lowerscope.capture(Net().eval(), (torch.rand(1, 3, 8, 8),), name="net")
explorer = Explorer(lowerscope.Session(program, target="xnnpack"), height=600)
explorer
"""
]

LAST = "scene.lastStep"


@pytest.fixture(autouse=True)
def still(widget: Widget) -> None:
    widget.page.emulate_media(reduced_motion="reduce")
    widget.every = 40


@pytest.mark.parametrize(
    ("origin", "pattern", "count"),
    [("pixel_shuffle", "core_aten", 5), ("conv_transpose2d", "polyphase_conv_transpose", 4)],
)
def test_a_node_that_became_several_brings_them_into_view_and_each_of_them_brings_it(
    widget: Widget, origin: str, pattern: str, count: int
) -> None:
    widget.view("split")
    made = lineage(widget, origin, LAST)
    assert len(made) == count
    makers = "scene.patterns[scene.nodes.pattern[scene.nodeRow(%r)]].name"
    assert {widget.scene(makers % node) for node in made} == {pattern}
    assert all(lineage(widget, node, "0") == [origin] for node in made)
    select_in_split(widget, 0, origin, made)
    for node in (made[0], made[-1]):
        select_in_split(widget, 1, node, [origin])


def test_several_nodes_that_became_one_bring_it_into_view_and_it_brings_them(widget: Widget) -> None:
    widget.view("split")
    [made] = lineage(widget, "relu", LAST)
    origins = lineage(widget, made, "0")
    assert set(origins) == {"conv2d", "batch_norm", "relu"}
    for origin in origins:
        assert lineage(widget, origin, LAST) == [made]
        select_in_split(widget, 0, origin, [made])
    select_in_split(widget, 1, made, origins)


def test_the_panes_stay_in_step_while_the_keys_walk_from_node_to_node(widget: Widget) -> None:
    widget.view("split")
    widget.travel("conv2d")
    for node in ("batch_norm", "relu", "conv_transpose2d", "pixel_shuffle"):
        widget.keys("ArrowDown")
        widget.until(lambda node=node: widget.state("selected") == [node])
        made = lineage(widget, node, LAST)
        widget.until(lambda made=made: all(inside(widget, 1, one) for one in made))
