"""The graph's items one by one, by real clicks and keys: modules, views, minimap, tracing, stubs, names, detail."""

from __future__ import annotations

import re

import pytest

from tests.widgets.lab import at_rest
from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser

CONV = "conv2d_3"  # in body.1.0, one of eight


@pytest.fixture(autouse=True)
def at_the_start(widget: Widget) -> None:
    start(widget)


def start(widget: Widget) -> None:
    """Before, two levels open, nothing selected, the whole graph in view."""
    widget.root.evaluate(
        """(root) => {
          const { store } = root.lowerscope;
          store.select([]); store.focusPattern(null); store.update({ traced: null, showConstants: false });
          store.setView('before'); store.setStep(0);
        }"""
    )
    widget.keys("f")
    at_rest(widget.root.locator(".ls-mirror [data-module-path]").first.bounding_box, widget.page)


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
    widget.keys("f")
    at_rest(widget.root.locator(".ls-mirror [data-module-path]").first.bounding_box, widget.page)
    at_rest(widget.root.locator('.ls-mirror [data-module-path="body"]').bounding_box, widget.page)
    widget.menu(*widget.first_hit("module", path="body", header=True), "Open all inside")
    widget.until(lambda: "body.3.1" in open_modules(widget))


def test_opening_animates_and_reduced_motion_does_not(widget: Widget) -> None:
    def pictures() -> int:
        """How many different pictures are shown while the module "body" opens or closes, once its layout has come."""
        return widget.root.evaluate(
            """async (root) => {
              const { store, scene } = root.lowerscope, canvas = root.querySelector('.ls-stage canvas'), seen = new Set();
              const before = scene(), row = before.moduleRow('body');
              store.openModules([row], !before.modules.open[row]);
              while (scene() === before) await new Promise(requestAnimationFrame);
              for (const end = performance.now() + 800; performance.now() < end;) {
                await new Promise(requestAnimationFrame);
                seen.add(canvas.toDataURL());
              }
              return seen.size;
            }"""
        )

    assert pictures() > 3
    widget.page.emulate_media(reduced_motion="reduce")
    assert pictures() <= 2
    widget.page.emulate_media(reduced_motion="no-preference")


def test_the_minimap_moves_the_view_and_f_fits_the_graph_then_the_selection(widget: Widget) -> None:
    widget.travel(CONV)
    before = widget.place(CONV)
    minimap = widget.root.locator(".ls-minimap").first.bounding_box()
    assert minimap is not None
    widget.page.mouse.click(minimap["x"] + minimap["width"] / 2, minimap["y"] + minimap["height"] - 8)
    widget.until(lambda: widget.place(CONV) != before)

    percent = widget.root.locator(".ls-zoomer button").nth(1)
    widget.keys("f")
    at_rest(widget.root.locator(".ls-mirror [data-module-path]").first.bounding_box, widget.page)
    whole = int(at_rest(percent.inner_text, widget.page))
    pane = widget.root.locator(".ls-pane").first.bounding_box()
    module = widget.root.locator('.ls-mirror [data-module-path="body"]').bounding_box()
    assert pane is not None
    assert module is not None
    assert pane["y"] <= module["y"] < module["y"] + module["height"] <= pane["y"] + pane["height"]
    widget.keys("f")
    at_rest(widget.root.locator(".ls-mirror [data-module-path]").first.bounding_box, widget.page)
    assert int(at_rest(percent.inner_text, widget.page)) > whole * 1.5
    x, y = widget.place(CONV)
    assert abs(x - pane["x"] - pane["width"] / 2) < 60
    assert abs(y - pane["y"] - pane["height"] / 2) < 60


def test_the_level_of_detail_follows_the_zoom(widget: Widget) -> None:
    zoomer = widget.root.locator(".ls-zoomer")
    seen = set()
    widget.keys("0")
    for _ in range(14):
        seen.add(at_rest(lambda: zoomer.get_attribute("data-detail"), widget.page))
        widget.keys("-", "-")
    assert len(seen) >= 3


def test_two_fingers_and_a_trackpads_pinch_zoom_the_graph_and_not_the_page(widget: Widget) -> None:
    zoomer = widget.root.locator(".ls-zoomer button").nth(1)

    def percent() -> int:
        return int(at_rest(zoomer.inner_text, widget.page))

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
    at_rest(widget.root.locator('.ls-mirror [data-module-path="body"]').bounding_box, widget.page)
    widget.menu(*widget.ground(), "Show constants")
    widget.keys("f")
    at_rest(widget.root.locator(".ls-mirror [data-module-path]").first.bounding_box, widget.page)
    widget.until(lambda: weights.count() > 0)
    widget.menu(*widget.ground(), "Hide constants")
    widget.until(lambda: weights.count() == 0)


def test_a_nodes_name_is_copied(widget: Widget) -> None:
    widget.travel(CONV)
    widget.menu(*widget.place(CONV), "Copy the name")
    widget.until(lambda: widget.clipboard() == CONV)


def test_a_long_edge_is_cut_to_stubs_that_jump_to_the_other_end(widget: Widget) -> None:
    def stub() -> tuple[float, float, list[str]]:
        x, y = at_rest(lambda: widget.first_hit("stub"), widget.page)
        return x, y, widget.root.evaluate("(root, [x, y]) => root.hitTest(x, y).far.map((far) => far.id)", [x, y])

    widget.root.evaluate("(root) => root.lowerscope.store.openDepth(9)")
    widget.until(lambda: "body.3.1" in open_modules(widget))
    widget.travel("conv2d")
    x, y, far = stub()
    assert far == ["add", "mul"]  # the first block's residual, and what scales the body
    plain = widget.picture(1)
    widget.page.mouse.move(x, y)
    assert "Goes on at 2 places" in widget.tip()
    widget.until(lambda: widget.picture(1) != plain)  # both are drawn to their ends
    widget.page.mouse.click(x, y)
    widget.until(lambda: widget.state("selected") == ["add"])
    widget.travel("conv2d")
    widget.menu(*stub()[:2], "Go to mul")
    widget.until(lambda: widget.state("selected") == ["mul"])
    assert widget.box("mul") is not None
    widget.place("mul")
    back = widget.root.evaluate(
        """(root) => {
          const box = root.nodeRect('mul');
          for (let x = box.left; x < box.right + 60; x += 3) {
            const hit = root.hitTest(x, box.top - 6);
            if (hit?.kind === 'stub') return [x, box.top - 6, hit.text];
          }
          return null;
        }"""
    )
    assert back is not None
    assert back[2] == "conv2d"
    widget.page.mouse.click(*back[:2])
    widget.until(lambda: widget.state("selected") == ["conv2d"])
    widget.root.evaluate("(root) => root.lowerscope.store.openDepth(2)")
    widget.until(lambda: "body.3.1" not in open_modules(widget))


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
    mirrors = widget.root.locator('.ls-mirror [data-module-path="body"]')
    left, right = (panes.nth(i).bounding_box() for i in (0, 1))
    assert left is not None
    assert right is not None
    x, y = left["x"] + 20, left["y"] + left["height"] - 40
    widget.page.mouse.move(x, y)
    widget.page.mouse.down()
    widget.page.mouse.move(x + 40, y - 60, steps=4)
    widget.page.mouse.up()
    a, b = (at_rest(mirrors.nth(i).bounding_box, widget.page) for i in (0, 1))
    assert a is not None
    assert b is not None
    assert abs((a["x"] - left["x"]) - (b["x"] - right["x"])) < 2
    assert abs(a["y"] - b["y"]) < 2


def test_in_split_a_selection_on_one_side_brings_what_stands_for_it_into_view_on_the_other(widget: Widget) -> None:
    widget.view("split")
    panes = widget.root.locator(".ls-pane")
    widget.until(lambda: panes.count() == 2)
    [made] = lineage(widget, CONV, "scene.lastStep")
    origins = lineage(widget, made, "0")
    assert CONV in origins
    assert len(origins) > 2

    def inside(side: int, node: str) -> bool:
        """Whether a node is drawn in a pane, and all of it lies within the pane."""
        pane = panes.nth(side).bounding_box()
        item = panes.nth(side).locator(f'.ls-mirror [data-node-id="{node}"]')
        box = item.bounding_box() if item.count() else None
        return (
            pane is not None
            and box is not None
            and pane["y"] <= box["y"]
            and box["y"] + box["height"] <= pane["y"] + pane["height"]
            and pane["x"] <= box["x"]
            and box["x"] + box["width"] <= pane["x"] + pane["width"]
        )

    def middle(side: int, node: str) -> tuple[float, float]:
        box = at_rest(panes.nth(side).locator(f'.ls-mirror [data-node-id="{node}"]').bounding_box, widget.page)
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def select(side: int, node: str, others: list[str]) -> None:
        """Drag the graph until a node is at the edge beyond which one of the others lies, and click the node."""
        widget.keys("0")
        widget.travel(CONV)
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
        widget.until(lambda: not all(inside(1 - side, other) for other in others))
        calm = widget.picture(1, pane=1 - side)
        x, y = middle(side, node)
        widget.page.mouse.click(x, y)
        widget.until(lambda: widget.state("selected") == [node])
        widget.until(lambda: all(inside(1 - side, other) for other in others))
        widget.until(lambda: widget.picture(1, pane=1 - side) != calm)  # they are ringed

    select(0, CONV, [made])
    select(1, made, origins)


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
