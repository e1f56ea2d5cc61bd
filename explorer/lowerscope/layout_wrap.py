"""Wrapping: what lies beside one another in a line that nobody can read lies in a block of lines below one another.

Hundreds of chains with no node in common, or the leaves of a reduction, would fill one rank with 70,000 px of boxes. Where the
members of a group do so, they are put into layers of bounded width, a chain after the other (Coffman and Graham, "Optimal
scheduling for two-processor systems", 1972, with the width for the processors), and guides, which are edges that are laid
out but not drawn, hold each member below the layer above its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate

from lowerscope.layout_rows import Edge, ranks

WIDEST = 5000.0  #: px of boxes beside one another; where there are more, they are wrapped
WRAPPED = 3000.0  #: px of a layer of what is wrapped
_BESIDE, _AROUND = 24.0, 24.0  # px between two boxes, and around those of a group


def wrap(
    sizes: Sequence[tuple[float, float]], parents: Sequence[int], edges: Sequence[Edge], near: Sequence[Edge]
) -> dict[Edge, None]:
    """Guides that wrap what is too wide. edges: all of them. near: those that are drawn whole, which tell what belongs together.

    A guide goes forward in an order in which every edge does, so that no cycle comes of it.
    """
    inside = _members(parents)
    order = _order(len(sizes), edges, near)
    guides: dict[Edge, None] = {}
    for group, widths in too_wide(sizes, parents, ranks(len(sizes), edges)).items():
        guides |= _layers(group, widths, parents, edges, order, inside)
    return guides


def too_wide(
    sizes: Sequence[tuple[float, float]], parents: Sequence[int], rank: Sequence[int]
) -> dict[int, dict[int, float]]:
    """The groups (-1: the outermost) that have more than `WIDEST` px in a rank, with the width of each member, px."""
    inside = _members(parents)
    spans = [(one, one) for one in rank]
    width = [size[0] for size in sizes]
    found: dict[int, dict[int, float]] = {}
    for group in _inner_first(inside):
        change: dict[int, float] = {}
        for item in inside[group]:
            low, high = spans[item]
            change[low] = change.get(low, 0.0) + width[item] + _BESIDE
            change[high + 1] = change.get(high + 1, 0.0) - width[item] - _BESIDE
        most = max(accumulate(change[step] for step in sorted(change)), default=0.0)
        if most > WIDEST:
            found[group] = {item: width[item] + _BESIDE for item in inside[group]}
            most = WRAPPED
        if group >= 0:
            width[group] = most + _AROUND
            members = [spans[item] for item in inside[group]]
            spans[group] = (min(low for low, _ in members), max(high for _, high in members))
    return found


def _members(parents: Sequence[int]) -> dict[int, list[int]]:
    """The items directly inside each group, -1 for the outermost."""
    inside: dict[int, list[int]] = {-1: []}
    for item, parent in enumerate(parents):
        inside.setdefault(parent, []).append(item)
    return inside


def _inner_first(inside: dict[int, list[int]]) -> list[int]:
    groups = [-1]
    for group in groups:  # grows while it is walked
        groups += [item for item in inside[group] if item in inside]
    return groups[::-1]


def _order(count: int, edges: Sequence[Edge], near: Sequence[Edge]) -> list[int]:
    """The place of each item in an order in which every edge goes forward and what belongs together is together.

    Of two items that could come next it is the one whose first source came first. What lies on a cycle comes last.
    """
    readers: list[list[int]] = [[] for _ in range(count)]
    left = [0] * count
    for source, target in edges:
        readers[source].append(target)
        left[target] += 1
    first = list(range(count))
    follows: list[list[int]] = [[] for _ in range(count)]
    for source, target in near:
        follows[source].append(target)
    ready = [(item, item) for item in range(count) if not left[item]]
    place = [count] * count
    at = 0
    while ready:
        _, item = heappop(ready)
        place[item] = at
        at += 1
        for target in follows[item]:
            first[target] = min(first[target], first[item])
        for target in readers[item]:
            left[target] -= 1
            if not left[target]:
                heappush(ready, (first[target], target))
    return place


def _layers(
    group: int,
    widths: dict[int, float],
    parents: Sequence[int],
    edges: Sequence[Edge],
    order: Sequence[int],
    inside: dict[int, list[int]],
) -> dict[Edge, None]:
    """Guides for the members of one group: each to the first layer below what it reads that has room for it."""
    before: dict[int, set[int]] = {}
    for source, target in edges:
        a, b = _member(source, group, parents), _member(target, group, parents)
        if a >= 0 and b >= 0 and a != b:
            before.setdefault(b, set()).add(a)
    ends = {item: _ends(item, order, inside) for item in widths}
    layer: dict[int, int] = {}
    layers: list[list[int]] = []
    free: list[float] = []
    guides: dict[Edge, None] = {}
    first_free = 0  # no layer above has room for the narrowest
    narrowest = min(widths.values())
    for item in sorted(widths, key=lambda one: order[ends[one][0]]):
        lowest = max((layer[a] for a in before.get(item, ()) if a in layer), default=-1)
        at = max(lowest + 1, first_free)
        while at < len(layers) and free[at] < widths[item]:
            at += 1
        if at == len(layers):
            layers.append([])
            free.append(WRAPPED)
        if at > 0 and at != lowest + 1:
            # in columns: below the one that is as far from the left
            above = layers[at - 1][min(len(layers[at]), len(layers[at - 1]) - 1)]
            source, target = ends[above][1], ends[item][0]
            if order[source] < order[target]:
                guides[source, target] = None
        layer[item] = at
        layers[at].append(item)
        free[at] -= widths[item]
        while first_free < len(layers) and free[first_free] < narrowest:
            first_free += 1
    return guides


def _member(item: int, group: int, parents: Sequence[int]) -> int:
    """Which member of a group an item is, or is in; -1: none."""
    while item >= 0 and parents[item] != group:
        item = parents[item]
    return item


def _ends(item: int, order: Sequence[int], inside: dict[int, list[int]]) -> tuple[int, int]:
    """The first and the last box of an item in the order: itself, when it is no group."""
    boxes = [item]
    for box in boxes:  # grows while it is walked
        boxes += inside.get(box, ())
    leaves = [box for box in boxes if box not in inside]
    return min(leaves, key=order.__getitem__), max(leaves, key=order.__getitem__)
