"""Which edges are cut: by layers and groups, nearest readers kept."""

from __future__ import annotations

import itertools
import time

import pytest

from lowerscope.layers import LayoutError, far_edges


def cut(count: int, edges: list[tuple[int, int]], closed: tuple[int, ...] = (), parents: dict[int, int] | None = None):
    """The pairs that are cut of `count` items: `closed` of them closed groups, `parents` by item."""
    inside = [(parents or {}).get(item, -1) for item in range(count)]
    found = far_edges([item in closed for item in range(count)], inside, edges)
    return {edges[place] for place in found}


def path(*items: int) -> list[tuple[int, int]]:
    return list(itertools.pairwise(items))


def test_an_edge_past_two_nodes_is_drawn_and_one_past_three_is_cut() -> None:
    assert cut(5, [*path(0, 1, 2, 3, 4), (0, 3)]) == set()
    assert cut(5, [*path(0, 1, 2, 3, 4), (0, 4)]) == {(0, 4)}


def test_an_edge_past_two_closed_groups_is_cut_and_one_past_a_group_and_a_node_is_drawn() -> None:
    edges = [*path(0, 1, 2, 3), (0, 3)]
    assert cut(4, edges, closed=(1,)) == set()
    assert cut(4, edges, closed=(1, 2)) == {(0, 3)}
    assert cut(4, edges, closed=(0, 3)) == set()  # its ends are not passed
    # open groups 4 and 5, of one node each, count as much as closed ones
    assert cut(6, edges, parents={1: 4, 2: 5}) == {(0, 3)}
    assert cut(6, edges, parents={1: 4, 2: 4}) == set()


def test_two_groups_side_by_side_are_passed_as_one() -> None:
    edges = [*path(0, 1, 3), *path(0, 2, 3), (0, 3)]
    assert cut(4, edges, closed=(1, 2)) == set()


def test_what_is_in_a_group_waits_for_all_that_the_group_waits_for() -> None:
    # 0 feeds the nodes 6 and 7 of group 5 at once, but 7 reads the end of a chain too, above which a group cannot begin
    edges = [*path(0, 1, 2, 3, 4, 7), (0, 6)]
    assert cut(8, edges, parents={6: 5, 7: 5}) == {(0, 6)}
    assert cut(8, edges) == set()


def test_what_has_one_reader_comes_right_above_it_and_is_not_cut_off() -> None:
    chain = path(0, 1, 2, 3, 4, 5, 6)
    assert cut(9, [*chain, (7, 8), (8, 6)]) == set()
    # a mask that every layer reads stays beside the first of them
    assert cut(8, [*chain, *((7, item) for item in range(1, 7))]) == {(7, 4), (7, 5), (7, 6)}


def test_the_nearest_reader_is_drawn_up_to_20_layers() -> None:
    """A node in whose place five others were: what it reads and what reads it is near in the lowered program."""
    around = [*path(*range(7)), (0, 7), (7, 6)]
    assert cut(8, around) == set()
    assert cut(9, [*path(*range(8)), (0, 8), (8, 6), (8, 7)]) == {(8, 7)}
    assert cut(25, [*path(*range(24)), (0, 24), (24, 23)]) == {(24, 23)}


def test_a_cycle_ends() -> None:
    assert cut(3, path(0, 1, 2, 0)) == set()


def test_parents_may_follow_what_is_in_them_and_must_not_lie_in_one_another() -> None:
    assert cut(4, [(0, 1)], parents={0: 3, 1: 2, 2: 3}) == set()
    with pytest.raises(LayoutError, match="lie in one another"):
        cut(3, [], parents={1: 2, 2: 1})


def test_it_takes_time_in_proportion_to_the_edges() -> None:
    """40,000 nodes in groups of ten, all of which read one mask: far below a second for each 10,000."""
    count = 40_000
    groups = count // 10
    edges = [*path(*range(count)), *((count + groups, item) for item in range(count))]
    parents = [count + item // 10 for item in range(count)] + [-1] * (groups + 1)
    began = time.perf_counter()
    found = far_edges([False] * len(parents), parents, edges)
    assert time.perf_counter() - began < 4
    assert len(found) > count - 20
