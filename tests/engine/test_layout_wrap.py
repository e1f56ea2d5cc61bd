"""Wide graphs without a node in common: laid out in a block of lines, each chain together, as fast as narrow ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowerscope.layout import LayoutGraph, LayoutResult, lay_out
from lowerscope.layout_rows import ranks
from lowerscope.layout_wrap import WIDEST, WRAPPED, too_wide, wrap

BOX = (100.0, 24.0)
ACROSS = int(WRAPPED // (BOX[0] + 24.0))  # boxes in a layer


def items(count: int, edges: list[tuple[int, int]], parents: list[int] | None = None) -> LayoutGraph:
    return LayoutGraph([BOX] * count, parents or [-1] * count, edges)


def chains(count: int, length: int, *, interleaved: bool = False, ends: int = 0) -> LayoutGraph:
    """Chains one after the other, or, `interleaved`, their first items, then their second ones; with `ends`, item 0 feeds
    all of them and item 1 reads them."""

    def item(chain: int, place: int) -> int:
        return ends + (place * count + chain if interleaved else chain * length + place)

    edges = [(item(chain, a), item(chain, b)) for chain in range(count) for a, b in pairwise(range(length))]
    if ends:
        edges += [edge for c in range(count) for edge in ((0, item(c, 0)), (item(c, length - 1), 1))]
    return items(ends + count * length, sorted(edges))


def reduction(leaves: int) -> LayoutGraph:
    """Pairs of pairs: each item but the last feeds one other."""
    edges, now, count = [], list(range(leaves)), leaves
    while len(now) > 1:
        pairs = [now[at : at + 2] for at in range(0, len(now), 2)]
        edges += [(one, count + at) for at, pair in enumerate(pairs) for one in pair]
        now, count = [count + at for at in range(len(pairs))], count + len(pairs)
    return items(count, edges)


def modules(count: int, length: int) -> LayoutGraph:
    """Groups beside one another, a chain in each; an item before all of them, and one behind."""
    parents = [-1] * count + [group for group in range(count) for _ in range(length)] + [-1, -1]
    first, last = len(parents) - 2, len(parents) - 1
    edges = []
    for group in range(count):
        chain = [first, *range(count + group * length, count + (group + 1) * length), last]
        edges += list(pairwise(chain))
    return items(len(parents), sorted(edges), parents)


WIDE: dict[str, Callable[[], LayoutGraph]] = {
    "600_that_read_nothing": lambda: items(600, []),
    "600_chains": lambda: chains(600, 3),
    "600_chains_written_side_by_side": lambda: chains(600, 3, interleaved=True),
    "200_long_chains": lambda: chains(200, 12, interleaved=True),
    "600_chains_between_two": lambda: chains(600, 3, ends=2),
    "600_chains_between_two_written_side_by_side": lambda: chains(600, 3, ends=2, interleaved=True),
    "200_modules_between_two": lambda: modules(200, 3),
}


def overlaps(laid: LayoutResult, graph: LayoutGraph) -> int:
    """How many boxes that are no groups lie on another one."""
    boxes = laid.boxes[[item not in set(graph.parents) for item in range(len(graph.sizes))]]
    boxes = boxes[np.lexsort((boxes[:, 0], boxes[:, 1]))]
    left, right = boxes[:-1], boxes[1:]
    return int(((left[:, 1] == right[:, 1]) & (left[:, 0] + left[:, 2] > right[:, 0])).sum())


@pytest.mark.parametrize("name", WIDE)
def test_a_wide_graph_is_a_block_that_is_laid_out_at_once(name: str) -> None:
    graph = WIDE[name]()
    begin = time.perf_counter()
    laid = lay_out(graph)
    seconds = time.perf_counter() - begin
    assert 1_500 < laid.size[0] < 4_000
    assert overlaps(laid, graph) == 0
    assert seconds < 8, "0.2 s where nothing else runs; one row took 2 to 4 s there"
    tops = laid.boxes[:, 1]
    assert all(tops[source] < tops[target] for source, target in graph.edges)


@pytest.mark.parametrize("interleaved", [False, True])
def test_chains_stay_together_in_lines_of_24(interleaved: bool) -> None:
    graph = chains(600, 3, interleaved=interleaved)
    laid = lay_out(graph)
    assert laid.cut == frozenset()
    boxes = laid.boxes.reshape(3, 600, 4) if interleaved else laid.boxes.reshape(600, 3, 4).swapaxes(0, 1)
    rows, counts = np.unique(boxes[0, :, 1], return_counts=True)
    assert counts.tolist() == [ACROSS] * (600 // ACROSS)
    assert (np.diff(boxes[:, :, 1], axis=0) == 40).all(), "each item is right below the one that it reads"
    assert (np.diff(np.searchsorted(rows, boxes[0, :, 1])) >= 0).all(), "chains are read in the order of the program"
    assert (boxes[:, :, 0] == boxes[:1, :, 0]).mean() > 0.9, "a chain goes straight down"


def test_a_reduction_of_512_is_readable_from_its_leaves_to_its_sum() -> None:
    graph = reduction(512)
    laid = lay_out(graph)
    assert laid.size[0] < 10_000, "in one row it is 63,000 px"
    assert len(laid.cut) < 0.05 * len(graph.edges)
    tops = laid.boxes[:, 1]
    assert all(tops[source] < tops[target] for source, target in graph.edges)


def test_modules_are_wrapped_whole() -> None:
    graph = modules(200, 3)
    boxes = lay_out(graph).boxes
    for item, parent in enumerate(graph.parents):
        if parent >= 0:
            inner, outer = boxes[item], boxes[parent]
            assert (outer[:2] <= inner[:2]).all()
            assert (inner[:2] + inner[2:] <= outer[:2] + outer[2:]).all()
    lines = -(-200 // int(WRAPPED // (BOX[0] + 48.0)))
    assert lines <= len(np.unique(boxes[:200, 1])) < 2 * lines, "some stand a little lower, for the pills of cut edges"


def test_what_fits_is_laid_out_as_ever() -> None:
    narrow = chains(40, 3)
    assert 40 * (BOX[0] + 24.0) < WIDEST
    assert too_wide(narrow.sizes, narrow.parents, ranks(120, narrow.edges)) == {}
    assert len(np.unique(lay_out(narrow).boxes[:, 1])) == 3
    wider = chains(41, 3)
    assert list(too_wide(wider.sizes, wider.parents, ranks(123, wider.edges))) == [-1]


def test_a_wide_group_is_wrapped_and_what_is_around_it_is_not() -> None:
    parents = [-1, -1, -1] + [2] * 100
    graph = items(103, [(0, 1)], parents)
    boxes = lay_out(graph).boxes
    assert len(np.unique(boxes[3:, 1])) == -(-100 // ACROSS)
    assert set(too_wide(graph.sizes, parents, ranks(103, graph.edges))) == {2}


@st.composite
def graphs(draw: st.DrawFn) -> LayoutGraph:
    """Up to 250 items in up to 6 groups, nested or not, with edges that go forward."""
    groups = draw(st.integers(0, 6))
    count = draw(st.integers(60, 250))
    parents = [draw(st.integers(-1, group - 1)) for group in range(groups)]
    parents += draw(st.lists(st.integers(-1, groups - 1), min_size=count, max_size=count))
    empty = set(range(groups)) - set(parents)
    ends = [*sorted(empty), *range(groups, groups + count)]
    pairs = draw(st.lists(st.tuples(st.sampled_from(ends), st.sampled_from(ends)), max_size=count))
    return items(groups + count, sorted({(min(a, b), max(a, b)) for a, b in pairs if a != b}), parents)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_guides_make_no_cycle_and_bound_what_lies_beside_one_another(graph: LayoutGraph) -> None:
    guides = wrap(graph.sizes, graph.parents, graph.edges, graph.edges)
    groups = set(graph.parents)
    assert not groups & {end for guide in guides for end in guide}
    after = ranks(len(graph.sizes), [*graph.edges, *guides])
    assert all(after[source] < after[target] for source, target in [*graph.edges, *guides])
    wide = too_wide(graph.sizes, graph.parents, ranks(len(graph.sizes), graph.edges))
    assert wide or not guides
    if groups == {-1}:  # groups whose members come in turns in the order of the program may have to stay as they are
        assert guides or not wide


def test_what_lies_on_a_cycle_is_laid_out_too() -> None:
    count = 100
    graph = items(count, [(0, 1), (1, 2), (2, 1)])
    assert lay_out(graph).size[0] < 4_000
