"""Nodes with very many neighbours: laid out in rows, and what is given to the engine stays in proportion to the graph."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import lowerscope
from lowerscope import layout
from lowerscope.layout import LayoutGraph, lay_out
from lowerscope.layout_rows import CROWDED, busiest, ranks
from lowerscope.scene import make_scene
from tests.cases import fresh

Sent = list[dict[str, list[dict[str, int]]]]
BOX = (100.0, 24.0)


def items(count: int, edges: list[tuple[int, int]]) -> LayoutGraph:
    return LayoutGraph([BOX] * count, [-1] * count, edges)


def between(count: int, length: int = 1) -> LayoutGraph:
    """Item 0 feeds the first of `count` chains of `length` items, item 1 reads the last of each."""
    edges = []
    for chain in range(count):
        line = [2 + chain * length + place for place in range(length)]
        edges += list(zip([0, *line], [*line, 1], strict=True))
    return items(2 + count * length, edges)


WIDE: dict[str, Callable[[], LayoutGraph]] = {
    "one_reader_of_600": lambda: items(601, [(item, 600) for item in range(600)]),
    "600_readers_of_one": lambda: items(601, [(600, item) for item in range(600)]),
    "600_between_two": lambda: between(600),
    "200_chains_between_two": lambda: between(200, 3),
    "2000_between_two": lambda: between(2000),
    "each_of_40_feeds_each_of_40": lambda: items(80, [(a, 40 + b) for a in range(40) for b in range(40)]),
    "each_of_60_feeds_all_later": lambda: items(60, [(a, b) for a in range(60) for b in range(a + 1, 60)]),
}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """The graphs that the engine is given."""
    seen: Sent = []
    engine = layout._in_process

    def spy(request: str) -> str:
        seen.append(json.loads(request)["graph"])
        return engine(request)

    monkeypatch.setattr(layout, "_in_process", spy)
    return seen


@pytest.mark.parametrize("name", WIDE)
def test_a_wide_graph_is_compact_and_every_edge_has_a_route(name: str, sent: Sent) -> None:
    graph = WIDE[name]()
    laid = lay_out(graph)
    [given] = sent
    edges = [(edge["source"], edge["target"]) for edge in given["edges"]]
    assert 0 < busiest(ranks(len(graph.sizes), edges), edges) <= CROWDED, "lanes between two ranks are what costs"
    assert max(Counter(end for edge in edges for end in edge).values()) <= 2 * 41
    assert 0 < laid.size[0] <= 13_000
    assert len(laid.routes) == len(graph.edges)
    assert all(len(route) >= 2 for route in laid.routes)
    assert len({tuple(box) for box in laid.boxes.tolist()}) == len(graph.sizes), "no two items at one place"


def test_600_nodes_between_two_lie_in_rows_of_24_in_the_order_of_the_program() -> None:
    graph = between(600)
    laid = lay_out(graph)
    tops = laid.boxes[:, 1]
    inner = tops[2:].reshape(25, 24)
    assert (inner == inner[:, :1]).all()
    assert (np.diff(inner[:, 0]) > 0).all()
    assert tops[0] < tops[2:].min()
    assert tops[1] > tops[2:].max()
    whole = [edge for place, edge in enumerate(graph.edges) if place not in laid.cut]
    assert {target for source, target in whole if source == 0} == set(range(2, 26)), "the first row's"
    assert {source for source, target in whole if target == 1} == set(range(578, 602)), "the last row's"
    for place in laid.cut:
        source, target = graph.edges[place]
        route = laid.routes[place]
        assert route[0][1] == tops[source] + BOX[1]
        assert route[-1][1] == tops[target]


def test_40_neighbours_are_drawn_as_ever_and_41_in_rows() -> None:
    assert lay_out(between(40)).cut == frozenset()
    assert len(lay_out(between(41)).cut) == 2 * (41 - 24)


def test_rows_stay_in_their_group() -> None:
    count = 100  # item 0 feeds two groups, 1 and 2, of 50 each
    parents = [-1, -1, -1] + [1] * (count // 2) + [2] * (count // 2)
    graph = LayoutGraph([BOX] * (3 + count), parents, [(0, 3 + item) for item in range(count)])
    boxes = lay_out(graph).boxes
    for item in range(3, 3 + count):
        x, y, w, h = boxes[parents[item]]
        assert x <= boxes[item][0]
        assert boxes[item][0] + boxes[item][2] <= x + w
        assert y <= boxes[item][1]
        assert boxes[item][1] + boxes[item][3] <= y + h
    assert boxes[1][2] < 40 * 124
    assert boxes[2][2] < 40 * 124


def test_a_wide_graph_has_the_same_layout_twice() -> None:
    assert np.array_equal(lay_out(between(100, 2)).boxes, lay_out(between(100, 2)).boxes)


def test_ranks_are_longest_paths_and_a_cycle_ends() -> None:
    assert ranks(4, [(0, 1), (1, 2), (0, 2), (2, 3)]) == [0, 1, 2, 3]
    assert ranks(3, [(0, 1), (1, 2), (2, 1)]) == [0, 1, 0]


def test_edges_between_two_ranks_are_counted_with_those_that_pass() -> None:
    assert busiest([], []) == 0
    edges = [(0, 1), (1, 2), (0, 2), (0, 2)]
    assert busiest([0, 1, 2], edges) == 3
    assert busiest([0, 1, 2], [(2, 0)]) == 1


@pytest.mark.parametrize(("name", "rows"), [("e_wide_cat", 24), ("e_two_thousand_layers", 1)])
def test_the_scene_of_such_a_case_has_every_node_and_edge_at_a_place(name: str, rows: int) -> None:
    module, args, kwargs, shapes = fresh(name)
    scene = make_scene(lowerscope.Session(lowerscope.capture(module, args, kwargs, shapes, name=name)).lowering)
    nodes, routes = scene.tables["nodes"], scene.tables["routes"]
    boxes = np.stack([nodes[axis] for axis in "xywh"], 1)
    assert not np.isnan(boxes).any()
    assert len(np.unique(boxes[:, :2], axis=0)) == len(boxes) > 600
    assert len(routes["src"]) == len(scene.tables["edges"]["src"])
    in_a_row = Counter(boxes[:, 1].tolist())
    assert max(in_a_row.values()) == rows
    _, buffer = scene.message()
    assert len(buffer) < 1_000 * len(boxes)
