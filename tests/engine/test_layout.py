"""The layout: nesting, order, stubs, and what is refused."""

from __future__ import annotations

import time

import numpy as np
import pytest

from lowerscope import layout
from lowerscope.layers import far_edges
from lowerscope.layout import LayoutCancelled, LayoutError, LayoutGraph, lay_out


def chain(count: int, extra: list[tuple[int, int]] | None = None) -> LayoutGraph:
    edges = [(i, i + 1) for i in range(count - 1)] + (extra or [])
    return LayoutGraph([(80.0, 24.0)] * count, [-1] * count, edges)


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3])


def test_rows_of_a_chain_are_40_apart_and_sizes_are_kept() -> None:
    result = lay_out(chain(4))
    assert np.allclose(np.diff(result.boxes[:, 1]), 40)
    assert np.allclose(result.boxes[:, 2:], (80, 24))
    assert result.boxes[:, :2].min() == 0
    assert result.size == pytest.approx((80, 3 * 40 + 24))


def test_a_group_encloses_what_is_in_it_under_its_header_and_nothing_else() -> None:
    sizes = [(80.0, 24.0), (1.0, 1.0), (80.0, 24.0), (1.0, 1.0), (80.0, 24.0), (80.0, 24.0)]
    # 0 -> group 1 (2 -> group 3 (4)) -> 5
    graph = LayoutGraph(sizes, [-1, -1, 1, 1, 3, -1], [(0, 2), (2, 4), (4, 5)])
    boxes = lay_out(graph).boxes
    for inner, outer in ((2, 1), (3, 1), (4, 3)):
        assert boxes[inner][0] >= boxes[outer][0]
        assert boxes[inner][1] >= boxes[outer][1] + layout.HEADER
        assert boxes[inner][0] + boxes[inner][2] <= boxes[outer][0] + boxes[outer][2]
        assert boxes[inner][1] + boxes[inner][3] <= boxes[outer][1] + boxes[outer][3]
    assert not overlap(boxes[0], boxes[1])
    assert not overlap(boxes[5], boxes[1])


def test_routes_join_their_ends_with_right_angles() -> None:
    graph = LayoutGraph([(80.0, 24.0)] * 4, [-1] * 4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    result = lay_out(graph)
    for (source, target), route in zip(graph.edges, result.routes, strict=True):
        start, end = route[0], route[-1]
        assert start[1] == pytest.approx(result.boxes[source][1] + 24, abs=0.5)
        assert end[1] == pytest.approx(result.boxes[target][1], abs=0.5)
        steps = np.abs(np.diff(route, axis=0))
        assert (np.minimum(steps[:, 0], steps[:, 1]) < 0.01).all()


def test_the_same_graph_has_the_same_layout() -> None:
    graph = chain(30, [(0, 5), (3, 9), (2, 20)])
    assert np.array_equal(lay_out(graph).boxes, lay_out(graph).boxes)


def test_a_far_edge_is_cut_to_stubs_that_nothing_lies_on() -> None:
    graph = chain(6, [(0, 3), (0, 4), (1, 5)])
    assert far_edges([False] * 6, graph.parents, graph.edges) == {6, 7}
    result = lay_out(graph)
    assert result.cut == {6, 7}
    for place, source, target in ((6, 0, 4), (7, 1, 5)):
        first, last = result.routes[place][:2], result.routes[place][2:]
        assert first[0][1] == result.boxes[source][1] + 24
        assert last[1][1] == result.boxes[target][1]
        assert all(abs(stub[1] - stub[0]).sum() == layout.STUB for stub in (first, last))
    assert np.allclose(result.boxes[:, 2:], (80, 24))
    # a pill at each end: below 0 and 1, above 4 and 5
    room = layout.STUB_ROOM
    assert np.allclose(np.diff(result.boxes[:, 1]) - 40, (room, room, 0, room, room))
    for route, (source, target) in zip(result.routes[:5], graph.edges, strict=False):
        assert route[0][1] == pytest.approx(result.boxes[source][1] + 24, abs=0.5)
        assert route[-1][1] == pytest.approx(result.boxes[target][1], abs=0.5)


def test_a_mask_that_feeds_every_block_costs_no_more_than_the_blocks() -> None:
    graph = chain(400, [(0, i) for i in range(2, 400)])
    assert len(far_edges([False] * 400, graph.parents, graph.edges)) == 400 - 4
    assert len(lay_out(graph).routes) == len(graph.edges)


def test_a_cycle_is_laid_out() -> None:
    boxes = lay_out(chain(3, [(2, 0)])).boxes
    assert len({tuple(box) for box in boxes.tolist()}) == 3


def test_nothing_to_lay_out() -> None:
    result = lay_out(LayoutGraph([], [], []))
    assert result.boxes.shape == (0, 4)
    assert result.routes == []


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (LayoutGraph([(1, 1)], [3], []), "item 0 is in group 3"),
        (LayoutGraph([(1, 1)], [], []), "1 items have 0 parents"),
        (LayoutGraph([(1, 1)], [-1], [(0, 4)]), "an edge joins 0 and 4"),
        (LayoutGraph([(1, 1)] * 3, [-1, 0, -1], [(0, 2)]), "of which one is a group"),
    ],
)
def test_what_is_not_there_is_named(graph: LayoutGraph, said: str) -> None:
    with pytest.raises(LayoutError, match=said):
        lay_out(graph)


def test_an_option_that_the_engine_does_not_know_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(layout._OPTIONS, "spacing", {"layer_gab": 3.0})
    layout._known_options.cache_clear()
    with pytest.raises(LayoutError, match=r"no option spacing\.layer_gab"):
        lay_out(chain(2))
    monkeypatch.undo()
    layout._known_options.cache_clear()


def test_a_large_graph_is_laid_out_by_a_process_of_its_own_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain(40, [(1, 7)])
    here = lay_out(graph)
    monkeypatch.setattr(layout, "IN_PROCESS", 10)
    monkeypatch.setattr(layout, "_in_process", lambda request: pytest.fail("it was laid out in this process"))
    assert np.array_equal(lay_out(graph).boxes, here.boxes)


def test_a_process_that_lays_out_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "IN_PROCESS", 10)
    monkeypatch.setattr(layout, "_CHILD", "import time; time.sleep(60)")
    with pytest.raises(LayoutCancelled):
        lay_out(chain(40), cancelled=lambda: True)


def test_a_process_that_is_slow_to_start_gets_all_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "IN_PROCESS", 10)
    monkeypatch.setattr(layout, "_CHILD", f"import time; time.sleep(0.5); {layout._CHILD}")
    graph = chain(1500)  # more than a pipe holds
    until = time.monotonic() + 20
    assert len(lay_out(graph, cancelled=lambda: time.monotonic() > until).boxes) == 1500


def test_a_process_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "IN_PROCESS", 10)
    monkeypatch.setattr(layout, "_CHILD", "raise ValueError('too much')")
    with pytest.raises(LayoutError, match=r"cannot be laid out \(ValueError: too much\)"):
        lay_out(chain(40))
