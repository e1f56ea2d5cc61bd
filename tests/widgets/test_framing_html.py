"""What a step shows is framed whole, beside the minimap and at a size that can be read: in the self-contained page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import lowerscope
from lowerscope_widgets.html_export import to_html
from tests.widgets.test_items_graph_html import Replayed

pytestmark = pytest.mark.browser

MODELS = Path(__file__).parents[2] / "sample_models"

# Boxes on the page of what a step took and made, and of what then feeds and uses it, where a pane draws them; the panes.
AROUND = """
(root) => {
  const { step } = root.lowerscope.state();
  const scene = root.lowerscope.scene();
  const core = [...scene.stepTaken(step), ...scene.stepMade(step)];
  const near = core
    .flatMap((row) => [...scene.edgesInto(row), ...scene.edgesFrom(row)])
    .filter((edge) => scene.edgeAlive(edge, step - 1) || scene.edgeAlive(edge, step))
    .flatMap((edge) => [scene.edges.src[edge], scene.edges.dst[edge]]);
  const boxes = (rows) => rows.map((row) => root.nodeRect(scene.nodes.id(row))?.toJSON()).filter((box) => box);
  const panes = [...root.querySelectorAll('.ls-pane')].map((pane) => pane.getBoundingClientRect().toJSON());
  return { core: boxes(core), near: boxes(near), panes };
}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of blocks that is wider than a pane, recorded."""
    session = lowerscope.Session(str(MODELS / "conv_bn.pt2"), target="vulkan")
    path = tmp_path_factory.mktemp("framing") / "conv_bn.html"
    path.write_text(to_html(session)[0], encoding="utf-8")
    return path


@pytest.fixture(params=[(1000, "light"), (1400, "dark")], ids=["1000-light", "1400-dark"])
def widget(request: pytest.FixtureRequest, file: Path, browser: Browser) -> Iterator[Replayed]:
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 740}, color_scheme=scheme)
    page = context.new_page()
    page.emulate_media(reduced_motion="reduce")
    widget = Replayed(page, file)
    widget.every = 40
    yield widget
    context.close()


def outside(boxes: list[dict[str, float]], pane: dict[str, float]) -> list[dict[str, float]]:
    """The boxes that a pane cuts, or that lie out of it."""
    return [
        box
        for box in boxes
        if box["left"] < pane["left"]
        or box["right"] > pane["right"]
        or box["top"] < pane["top"]
        or box["bottom"] > pane["bottom"]
    ]


def zoom(widget: Replayed) -> int:
    return int(widget.root.locator(".ls-zoomer button").nth(1).inner_text())


def step(widget: Replayed, number: int) -> dict[str, Any]:
    """Go to a step; what is where then, of the panes the first, which both cameras follow."""
    widget.root.evaluate("(root, step) => root.lowerscope.store.setStep(step)", number)
    widget.until(lambda: widget.state("step") == number)
    found = widget.rest(lambda: widget.root.evaluate(AROUND))
    assert found["core"]
    first = found["panes"][0]
    for key in ("core", "near"):  # a box is told of the pane that draws it first: the same place of the first pane
        for box in found[key]:
            beyond = box["left"] - first["left"] if box["left"] < first["right"] else 0
            shift = found["panes"][1]["left"] - first["left"] if len(found["panes"]) > 1 and beyond == 0 else 0
            box["left"] -= shift
            box["right"] -= shift
    return found


def test_teaching_frames_every_step_with_what_is_beside_it(widget: Replayed) -> None:
    widget.root.evaluate("(root) => root.lowerscope.store.setTeaching(true)")
    strip = widget.root.locator(".ls-minimap:visible").bounding_box()
    assert strip is not None
    for number in range(1, widget.scene("scene.lastStep") + 1, 3):
        found = step(widget, number)
        assert outside(found["core"], found["panes"][0]) == [], number
        assert found["panes"][-1]["right"] <= strip["x"], "nothing is drawn under the minimap"
    whole = step(widget, 1)
    assert len(whole["near"]) >= 4, "the input, conv2d, its batch norm"
    assert outside(whole["near"], whole["panes"][0]) == []
    assert zoom(widget) >= 82, "its text is drawn"


def test_split_frames_a_step_as_it_is_walked_to(widget: Replayed) -> None:
    widget.view("split")
    for number in (1, 4, 7, 12):
        found = step(widget, number)
        assert outside(found["core"], found["panes"][0]) == [], number
    assert zoom(widget) >= 60, "its names are drawn, from however far it was looked at"


def test_the_first_look_at_a_wide_graph_cuts_nothing_of_its_beginning(widget: Replayed) -> None:
    pane = widget.root.locator(".ls-pane").evaluate("(pane) => pane.getBoundingClientRect().toJSON()")
    world = widget.scene("scene.modules.w[0]")
    strip = widget.root.locator(".ls-minimap").bounding_box()
    assert strip is not None
    assert pane["right"] <= strip["x"]
    boxes = [
        widget.root.evaluate("(root, id) => root.nodeRect(id).toJSON()", node)
        for node in ("conv2d", "batch_norm", "relu6")
    ]
    assert outside(boxes, pane) == []
    if world * zoom(widget) / 100 > pane["width"]:
        assert zoom(widget) == 86


SEEN = """
(root) => {
  const scene = root.lowerscope.scene();
  const panes = [...root.querySelectorAll('.ls-pane')].map((pane) => pane.getBoundingClientRect());
  const inside = ({ left, right, top, bottom }) =>
    panes.some((p) => right > p.left && left < p.right && bottom > p.top && top < p.bottom);
  const drawn = Array.from(scene.nodes.kind.keys()).filter((row) => scene.nodes.kind[row] === 0);
  return drawn.map((row) => root.nodeRect(scene.nodes.id(row))).filter((box) => box && inside(box)).length;
}
"""


@pytest.mark.parametrize("view", ["after", "split", "diff"])
def test_another_view_shows_operators_wherever_they_lie(widget: Replayed, view: str) -> None:
    widget.root.evaluate("(root) => root.lowerscope.store.camera.zoomTo(1)")
    widget.rest(lambda: widget.root.evaluate("(root) => root.lowerscope.state().view"))
    widget.view(view)
    assert widget.rest(lambda: widget.root.evaluate(SEEN)) > 0
