"""The graph's items one by one, by real clicks and keys: modules, views, minimap, tracing, stubs, names, detail.

Each in one widget that is 600, 1000 and 1400 px wide, light and dark. Motion is reduced, but where it is what is tried.
"""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.widgets.lab import at_rest
from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser

CONV = "conv2d_3"  # in body.1.0, one of eight


@pytest.fixture(
    scope="module",
    autouse=True,
    params=product((600, 1000, 1400), ("light", "dark")),
    ids=lambda size: "-".join(map(str, size)),
)
def size(widget: Widget, request: pytest.FixtureRequest) -> None:
    """The widget this wide, in JupyterLab's theme of this name."""
    width, theme = request.param
    widget.page.emulate_media(reduced_motion="reduce")
    widget.every = 40
    widget.lab.theme(theme)
    around = widget.page.evaluate("innerWidth") - widget.root.evaluate("(root) => root.clientWidth")
    widget.lab.size(width + around, 900)
    widget.until(
        lambda: (
            widget.root.evaluate("(root) => [root.clientWidth, root.classList.contains('ls-dark')]")
            == [width, theme == "dark"]
        )
    )


@pytest.fixture(autouse=True)
def at_the_start(widget: Widget, size: None) -> None:
    start(widget)


def start(widget: Widget) -> None:
    """Before, two levels open, nothing selected, the whole graph in view."""
    widget.root.evaluate(
        """(root) => {
          const { store } = root.lowerscope;
          store.select([]); store.focusPattern(null); store.update({ traced: null, showConstants: false });
          store.setView('before'); store.setStep(0); store.setTab('graph');
        }"""
    )
    fit(widget)


def fit(widget: Widget) -> None:
    """The whole graph in view, by a key."""
    widget.keys("f")
    module(widget, "body")


def module(widget: Widget, path: str) -> dict[str, float]:
    """Where a module's box is, once it rests."""
    box = widget.rest(lambda: widget.root.evaluate(MODULE, path))
    assert box is not None, f"{path} is not drawn"
    return box


# By where a node is, since the mirror follows a moment later.
MODULE = """
(root, path) => {
  const scene = root.lowerscope.scene(), { nodes, modules } = scene, row = scene.moduleRow(path);
  const node = [...Array(nodes.length).keys()].find((row) => root.nodeRect(nodes.id(row)) !== null);
  if (node === undefined || !scene.moduleVisible(row)) return null;
  const box = root.nodeRect(nodes.id(node)), zoom = box.width / nodes.w[node];
  const [x, y] = [box.x + (modules.x[row] - nodes.x[node]) * zoom, box.y + (modules.y[row] - nodes.y[node]) * zoom];
  return { x, y, width: modules.w[row] * zoom, height: modules.h[row] * zoom };
}
"""


def open_modules(widget: Widget) -> list[str]:
    return widget.scene(
        "[...Array(scene.modules.length).keys()].filter((row) => scene.modules.open[row] && scene.moduleVisible(row))"
        ".map((row) => scene.modules.path(row)).filter((path) => path !== '')"
    )


def test_modules_open_and_close_all_to_a_depth_and_one_with_all_inside(widget: Widget) -> None:
    widget.menu(*widget.ground(), "Close all modules")
    widget.until(lambda: open_modules(widget) == [])
    widget.menu(*widget.ground(), "Open two levels")
    widget.until(lambda: "body" in open_modules(widget))
    assert not any(path.count(".") > 1 for path in open_modules(widget))
    fit(widget)
    widget.menu(*widget.first_hit("module", path="body", header=True), "Open all inside")
    widget.until(lambda: "body.3.1" in open_modules(widget))
    widget.menu(*widget.ground(), "Open two levels")
    widget.until(lambda: "body.3.1" not in open_modules(widget))


def test_one_module_closes_by_a_click_opens_by_a_key_and_stays_where_it_was(widget: Widget) -> None:
    before = module(widget, "body")
    widget.page.mouse.click(before["x"] + 6, before["y"] + 6)  # its triangle
    widget.until(lambda: "body" not in open_modules(widget))
    closed = module(widget, "body")
    widget.keys("Enter")
    widget.until(lambda: "body" in open_modules(widget))
    opened = module(widget, "body")
    assert closed["height"] < opened["height"] == before["height"]
    for now in (closed, opened):
        assert abs(now["x"] - before["x"]) < 2
        assert abs(now["y"] - before["y"]) < 2
    widget.keys("Backspace")
    widget.until(lambda: "body" not in open_modules(widget))
    widget.keys("Enter")
    widget.until(lambda: "body" in open_modules(widget))


def test_opening_animates_and_reduced_motion_does_not(widget: Widget) -> None:
    def pictures(key: str) -> int:
        """How many different pictures are shown after the key, once the new layout has come."""
        widget.root.evaluate(
            """(root) => {
              const { scene } = root.lowerscope, before = scene(), seen = new Set();
              const canvas = root.querySelector('.ls-stage canvas');
              window.seen = new Promise((done) => {
                let end = Infinity;
                const look = () => {
                  if (scene() !== before) {
                    end = Math.min(end, performance.now() + 400);
                    seen.add(canvas.toDataURL());
                  }
                  if (performance.now() < end) requestAnimationFrame(look);
                  else done(seen.size);
                };
                look();
              });
            }"""
        )
        widget.keys(key)
        return widget.page.evaluate("window.seen")

    at = module(widget, "body")
    widget.page.mouse.click(at["x"] + at["width"] * 0.3, at["y"] + 2)  # its header, beside the edge into it
    widget.until(lambda: widget.state("currentModule") == "body")
    widget.page.emulate_media(reduced_motion="no-preference")
    assert pictures("Backspace") > 3
    widget.page.emulate_media(reduced_motion="reduce")
    assert pictures("Enter") <= 2


def test_the_minimap_moves_the_view_by_click_and_drag(widget: Widget) -> None:
    widget.travel(CONV)
    widget.travel("conv2d")
    widget.keys("0", "Escape")  # in a narrow widget what is selected lies over the strip
    before = widget.place(CONV)
    strip = widget.root.locator(".ls-minimap").first.bounding_box()
    assert strip is not None
    x = strip["x"] + strip["width"] / 2
    widget.page.mouse.click(x, strip["y"] + strip["height"] - 8)
    widget.until(lambda: widget.place(CONV)[1] < before[1] - 200)
    low = widget.place(CONV)
    frame = widget.root.locator(".ls-minimap-frame").first
    framed = frame.bounding_box()
    assert framed is not None
    widget.page.mouse.move(x, strip["y"] + strip["height"] - 8)
    widget.page.mouse.down()
    tops = []
    for share in (0.7, 0.4, 0.1):
        widget.page.mouse.move(x, strip["y"] + strip["height"] * share, steps=3)
        tops.append(widget.place(CONV)[1])
    widget.page.mouse.up()
    assert low[1] < tops[0] < tops[1] < tops[2]
    now = frame.bounding_box()
    assert now is not None
    assert now["y"] < framed["y"]
    widget.page.mouse.move(x, strip["y"] + strip["height"] - 8)
    assert widget.place(CONV)[1] == tops[2], "it is let go"


def test_f_fits_the_graph_then_the_selection(widget: Widget) -> None:
    widget.travel(CONV)
    widget.keys("0")
    fit(widget)
    percent = widget.root.locator(".ls-zoomer button").nth(1)
    whole = int(percent.inner_text())
    pane = widget.root.locator(".ls-pane").first.bounding_box()
    body = module(widget, "body")
    assert pane is not None
    assert pane["y"] <= body["y"] < body["y"] + body["height"] <= pane["y"] + pane["height"]
    strip = widget.root.locator(".ls-minimap").first.bounding_box()
    assert strip is not None
    assert pane["x"] <= body["x"] < body["x"] + body["width"] <= strip["x"], "nothing lies under the minimap"
    widget.keys("f")
    widget.until(lambda: int(percent.inner_text()) > whole * 1.5)
    x, y = widget.place(CONV)
    assert abs(x - pane["x"] - pane["width"] / 2) < 60
    sheet = widget.root.locator(".ls-right").bounding_box()
    assert sheet is not None
    # Where the inspector is a sheet, what is above it.
    bottom = sheet["y"] if sheet["x"] <= pane["x"] else pane["y"] + pane["height"]
    assert abs(y - (pane["y"] + bottom) / 2) < 60


def test_the_level_of_detail_follows_the_zoom(widget: Widget) -> None:
    zoomer = widget.root.locator(".ls-zoomer")
    percent = zoomer.locator("button").nth(1)
    widget.keys("0", "+", "+")
    widget.until(lambda: percent.inner_text() == "156")
    seen = {}
    for _ in range(10):
        zoom = int(percent.inner_text())
        seen[zoom] = int(zoomer.get_attribute("data-detail") or -1)
        widget.keys("-")
        widget.until(lambda before=zoom: int(percent.inner_text()) < before)
    # blocks, boxes from 25% on, labels from 60%, everything from 130%
    assert seen == {zoom: sum(zoom >= start for start in (25, 60, 130)) for zoom in seen}
    assert set(seen.values()) == {0, 1, 2, 3}


def test_two_fingers_and_a_trackpads_pinch_zoom_the_graph_and_not_the_page(widget: Widget) -> None:
    zoomer = widget.root.locator(".ls-zoomer button").nth(1)

    def percent() -> int:
        return int(widget.rest(zoomer.inner_text))

    pane = widget.root.locator(".ls-pane").first.bounding_box()
    assert pane is not None
    x, y = pane["x"] + pane["width"] / 2, pane["y"] + pane["height"] / 2
    whole, page = percent(), widget.page.evaluate("visualViewport.scale")
    touch = widget.page.context.new_cdp_session(widget.page)
    for kind, apart in (("touchStart", 40), ("touchMove", 60), ("touchMove", 100), ("touchEnd", None)):
        points = [] if apart is None else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    touch.detach()
    near = percent()
    assert near > whole * 2  # the fingers are 2.5 times as far apart
    widget.page.mouse.move(x, y)
    widget.page.keyboard.down("Control")
    widget.page.mouse.wheel(0, 60)
    widget.page.keyboard.up("Control")
    widget.until(lambda: percent() < near)
    assert widget.page.evaluate("visualViewport.scale") == page


def test_the_shape_on_an_edge_shows_when_it_is_pointed_at(widget: Widget) -> None:
    widget.travel(CONV)
    widget.page.mouse.move(*widget.first_hit("edge"))
    said = widget.tip()
    assert "→" in said
    assert re.search(r"f32\[1,\d,8,8\]", said)


def test_inputs_and_outputs_are_traced_and_the_trace_ends(widget: Widget) -> None:
    widget.travel(CONV)
    traced = "(root) => [...root.lowerscope.state().traced ?? []]"
    widget.menu(*widget.place(CONV), "Trace inputs")
    widget.until(lambda: "conv2d" in widget.root.evaluate(traced))
    assert "conv2d_8" not in widget.root.evaluate(traced)
    plain = widget.picture()
    widget.menu(*widget.place(CONV), "Trace outputs")
    widget.until(lambda: "conv2d_8" in widget.root.evaluate(traced))
    assert "conv2d" not in widget.root.evaluate(traced)
    assert widget.picture() != plain
    widget.menu(*widget.place(CONV), "Stop tracing")
    widget.until(lambda: widget.state("traced") is None)


def test_constants_are_hidden_until_asked_for(widget: Widget) -> None:
    weights = widget.root.locator('.ls-mirror [data-node-id$="_weight"]')
    widget.until(lambda: weights.count() == 0)
    widget.menu(*widget.ground(), "Show constants")
    fit(widget)
    widget.until(lambda: weights.count() > 0)
    widget.menu(*widget.ground(), "Hide constants")
    widget.until(lambda: weights.count() == 0)


def test_a_nodes_name_is_copied(widget: Widget) -> None:
    widget.travel(CONV)
    widget.menu(*widget.place(CONV), "Copy the name")
    widget.until(lambda: widget.clipboard() == CONV)


@pytest.mark.parametrize("narrower", [0, 90])
def test_the_search_field_has_room_for_its_hint(widget: Widget, narrower: int, request: pytest.FixtureRequest) -> None:
    page = widget.page.viewport_size
    assert page is not None
    request.addfinalizer(lambda: widget.page.set_viewport_size(page))
    widget.page.set_viewport_size({"width": page["width"] - narrower, "height": page["height"]})
    room = widget.root.locator('input[data-ls="search"]').evaluate(
        """(input) => {
          const context = document.createElement('canvas').getContext('2d');
          context.font = getComputedStyle(input).font;
          return input.clientWidth - context.measureText(input.placeholder).width;
        }"""
    )
    assert room >= 0


def test_a_long_edge_is_cut_to_stubs_that_jump_to_the_other_end(widget: Widget) -> None:
    def pill(node: str, side: str) -> tuple[float, float, list[str]]:
        """The left end of the pill at the "top" or "bottom" of a node's box, and the nodes at the far ends."""
        widget.travel(node)
        found = widget.rest(lambda: widget.root.evaluate(PILL, [node, side]))
        assert found is not None, f"there is no pill at the {side} of {node}"
        return found[0], found[1], found[2]

    widget.menu(*widget.ground(), "Open two levels")
    widget.until(lambda: "body.3.1" not in open_modules(widget))
    fit(widget)
    widget.menu(*widget.first_hit("module", path="body", header=True), "Open all inside")
    widget.until(lambda: "body.3.1" in open_modules(widget))
    x, y, far = pill("conv2d", "bottom")
    assert x > widget.place("conv2d")[0], "the pill leaves the middle of the box to the edge that is drawn whole"
    assert far == ["add", "mul"]  # the first block's residual, and what scales the body
    plain = widget.picture(1)
    widget.page.mouse.move(x, y)
    assert "Goes on at 2 places" in widget.tip()
    widget.until(lambda: widget.picture(1) != plain)  # both are drawn to their ends
    widget.page.mouse.click(x, y)
    widget.until(lambda: widget.state("selected") == ["add"])
    widget.menu(*pill("conv2d", "bottom")[:2], "Go to mul")
    widget.until(lambda: widget.state("selected") == ["mul"])
    x, y, far = pill("mul", "top")
    assert far == ["conv2d"]
    widget.page.mouse.click(x, y)
    widget.until(lambda: widget.state("selected") == ["conv2d"])
    widget.menu(*widget.ground(), "Open two levels")
    widget.until(lambda: "body.3.1" not in open_modules(widget))


PILL = """
(root, [node, side]) => {
  const box = root.nodeRect(node), y = box[side] + (side === 'top' ? -6 : 6);
  for (let x = box.left - 60; x < box.right + 60; x += 3) {
    const hit = root.hitTest(x, y);
    if (hit?.kind === 'stub') return [x + 3, y, hit.far.map((far) => far.id)];
  }
  return null;
}
"""


def test_what_did_not_change_does_not_move_between_the_views(widget: Widget) -> None:
    widget.travel("sigmoid")
    places = []
    for view in ("before", "after", "diff"):
        widget.view(view)
        places.append(widget.place("sigmoid"))
    assert all(abs(x - places[0][0]) < 1 and abs(y - places[0][1]) < 1 for x, y in places)


def fused(widget: Widget) -> str:
    """A node that a fusion made of several."""
    found = widget.scene(
        "[...Array(scene.nodes.length).keys()].filter((row) => scene.nodes.op(row).includes('with_epilogue')"
        " && scene.nodeAlive(row, scene.lastStep)).map((row) => scene.nodes.id(row))"
    )
    assert found, "conv2d.with_epilogue is made"
    return found[-1]


def test_diff_marks_what_was_removed_added_changed_and_left(widget: Widget) -> None:
    widget.view("diff")

    def mark(node: str) -> str:
        widget.travel(node)
        item = widget.root.locator(f'.ls-mirror [data-node-id="{node}"]')
        item.wait_for(state="attached")
        found = re.search(r", (removed|added|arguments changed)", item.get_attribute("aria-label") or "")
        return "left" if found is None else found[1]

    assert mark(fused(widget)) == "added"
    assert mark(CONV) == "removed"
    assert mark("sigmoid") == "arguments changed"  # it reads what the fusion made
    assert mark("x") == "left"
    legend = widget.root.locator(".ls-pane-title")
    assert legend.inner_text().split() == ["−", "removed", "+", "added", "~", "changed", "unchanged"]
    widget.view("after")
    assert not legend.is_visible()


def test_hovering_a_fused_node_says_which_nodes_it_came_from(widget: Widget) -> None:
    widget.view("after")
    node = fused(widget)
    widget.travel(node)
    calm = widget.picture(1)
    widget.page.mouse.move(*widget.place(node))
    said = widget.tip()
    assert re.search(r"\d nodes became this: .*conv2d", said)
    assert "made at step" in said
    assert widget.picture(1) != calm


def test_split_panes_share_the_selection_through_provenance_and_pan_together(widget: Widget) -> None:
    widget.view("split")
    panes = widget.root.locator(".ls-pane")
    widget.until(lambda: panes.count() == 2)
    widget.travel(CONV)
    marked = widget.picture(1, pane=1)
    widget.keys("Escape")
    widget.until(lambda: widget.picture(1, pane=1) != marked)  # the fused node of the other pane was ringed
    left, right = (at_rest(panes.nth(i).locator('[data-module-path="body"]').bounding_box, widget.page) for i in (0, 1))
    x, y = widget.ground()
    widget.page.mouse.move(x, y)
    widget.page.mouse.down()
    widget.page.mouse.move(x + 40, y - 60, steps=4)
    widget.page.mouse.up()
    for before, pane in ((left, panes.nth(0)), (right, panes.nth(1))):
        after = at_rest(pane.locator('[data-module-path="body"]').bounding_box, widget.page)
        assert before is not None
        assert after is not None
        assert abs(after["x"] - before["x"] - 40) < 2
        assert abs(after["y"] - before["y"] + 60) < 2


def test_in_split_a_selection_on_one_side_brings_what_stands_for_it_into_view_on_the_other(widget: Widget) -> None:
    widget.view("split")
    [made] = lineage(widget, CONV, "scene.lastStep")
    origins = lineage(widget, made, "0")
    assert CONV in origins
    assert len(origins) > 2
    select_in_split(widget, 0, CONV, [made])
    select_in_split(widget, 1, made, origins)


def lineage(widget: Widget, node: str, step: str) -> list[str]:
    """What is drawn at a step of what a node became or came from, by the steps that took and made it."""
    return widget.root.evaluate(
        """(root, [node, step]) => {
          const scene = root.lowerscope.scene(), last = step === '0' ? 0 : scene.lastStep, seen = new Set([scene.nodeRow(node)]);
          for (const row of seen)
            for (let i = 1; i <= scene.lastStep; i++) {
              const [from, to] = last ? [scene.stepTaken(i), scene.stepMade(i)] : [scene.stepMade(i), scene.stepTaken(i)];
              if ([...from].includes(row)) for (const other of to) seen.add(other);
            }
          return [...seen].filter((row) => scene.nodeAlive(row, last) && scene.nodeVisible(row) && scene.nodes.kind[row] === 0)
            .map((row) => scene.nodes.id(row));
        }""",
        [node, step],
    )


def inside(widget: Widget, side: int, node: str) -> bool:
    """Whether a node is drawn in a pane of Split, and all of it lies within the pane."""
    return (
        widget.root.locator(".ls-pane")
        .nth(side)
        .evaluate(
            """(pane, node) => {
          const box = pane.querySelector(`.ls-mirror [data-node-id="${node}"]`)?.getBoundingClientRect();
          const outer = pane.getBoundingClientRect();
          return box !== undefined && outer.top <= box.top && box.bottom <= outer.bottom
            && outer.left <= box.left && box.right <= outer.right;
        }""",
            node,
        )
    )


def select_in_split(widget: Widget, side: int, node: str, others: list[str]) -> None:
    """Drag the graph until a node is at the edge beyond which one of the others lies on the other side, and click the node.

    AssertionError unless that selects it and brings all others into view, with a ring around each.
    """
    panes = widget.root.locator(".ls-pane")
    widget.until(lambda: panes.count() == 2)

    def middle(side: int, node: str) -> tuple[float, float]:
        box = widget.rest(panes.nth(side).locator(f'.ls-mirror [data-node-id="{node}"]').bounding_box)
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    widget.keys("0")
    widget.travel(node)
    widget.keys("Escape")
    pane, other_pane = panes.nth(side).bounding_box(), panes.nth(1 - side).bounding_box()
    assert pane is not None
    assert other_pane is not None
    here = middle(side, node)
    ways = [
        (x - other_pane["x"] + pane["x"] - here[0], y - here[1])
        for x, y in (middle(1 - side, other) for other in others)
    ]
    dx, dy = max(ways, key=lambda way: max(map(abs, way)))
    x, y = here
    if abs(dx) > abs(dy):
        x = pane["x"] + pane["width"] - 48 if dx > 0 else pane["x"] + 48
    else:
        y = pane["y"] + pane["height"] - 48 if dy > 0 else pane["y"] + 60
    ground = widget.ground()
    widget.page.mouse.move(*ground)
    widget.page.mouse.down()
    widget.page.mouse.move(ground[0] + x - here[0], ground[1] + y - here[1], steps=5)
    widget.page.mouse.up()
    widget.until(lambda: not all(inside(widget, 1 - side, other) for other in others))
    calm = widget.picture(1, pane=1 - side)
    widget.page.mouse.click(*middle(side, node))
    widget.until(lambda: widget.state("selected") == [node])
    widget.until(lambda: all(inside(widget, 1 - side, other) for other in others))
    widget.until(lambda: widget.picture(1, pane=1 - side) != calm)  # they are ringed
