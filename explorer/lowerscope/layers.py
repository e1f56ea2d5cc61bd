"""The layers of a nested graph, and the edges that are too long to draw, before anything has a place.

Each group is laid out as a block, so that what follows it comes below all that is in it. Beside a chain of edges it is
this that makes an edge long.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowerscope.errors import LowerscopeError

# What a node, and at least a group, adds to the way past it, in fifths of a layer: an edge passes two nodes, or a node
# and a group, but neither three nodes nor two groups.
_NODE, _GROUP, _PASSED = 5, 6, 11
_FARTHEST = 20 * _NODE


class LayoutError(LowerscopeError):
    """A graph that cannot be laid out."""


def far_edges(closed: Sequence[bool], parents: Sequence[int], edges: Sequence[tuple[int, int]]) -> frozenset[int]:
    """The places in `edges` of those that go on for more than three layers or pass two groups.

    closed: whether an item stands for a group that is closed. parents: the group that each item is in, -1 for none.
    edges: pairs of items, no groups among them. The nearest reader of an item stays joined to it, up to 20 layers: what
    one of several nodes was fused into reads and is read across the layers of them all.
    LayoutError: groups lie in one another.
    """
    top, height = _layers(closed, parents, edges)
    way = [top[t] - top[s] - height[s] for s, t in edges]
    nearest: dict[int, int] = {}
    for (source, _), passed in zip(edges, way, strict=True):
        nearest[source] = min(nearest.get(source, passed), passed)
    return frozenset(
        place
        for place, (source, _) in enumerate(edges)
        if way[place] > _PASSED and (way[place] > nearest[source] or way[place] > _FARTHEST)
    )


def _layers(
    closed: Sequence[bool], parents: Sequence[int], edges: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int]]:
    """Where each item begins, and how much it takes, in fifths of a layer."""
    members: dict[int, list[int]] = {}
    for item, parent in enumerate(parents):
        members.setdefault(parent, []).append(item)
    order = list(members.get(-1, ()))
    depth = [0] * len(parents)
    for group in order:  # grows while it is walked
        for item in members.get(group, ()):
            depth[item] = depth[group] + 1
            order.append(item)
    if len(order) < len(parents):
        raise LayoutError("groups lie in one another: give each the group that it is in")

    links: dict[int, dict[tuple[int, int], None]] = {}
    for a, b in edges:
        while depth[a] > depth[b]:
            a = parents[a]
        while depth[b] > depth[a]:
            b = parents[b]
        while parents[a] != parents[b]:
            a, b = parents[a], parents[b]
        if a != b:
            links.setdefault(parents[a], {})[a, b] = None

    top = [0] * len(parents)
    height = [_GROUP if one else _NODE for one in closed]
    for group in (*reversed(order), -1):
        if group in members:
            end = _stack(members[group], list(links.get(group, ())), top, height)
            if group >= 0:
                height[group] = max(_GROUP, end)
    for item in order:
        if parents[item] >= 0:
            top[item] += top[parents[item]]
    return top, height


def _stack(members: list[int], links: list[tuple[int, int]], top: list[int], height: list[int]) -> int:
    """Put the members of a group below one another as their links ask; where the last one ends.

    By the longest path from a source; what nothing but its one reader waits for comes right above that.
    """
    readers: dict[int, list[int]] = {item: [] for item in members}
    inputs: dict[int, list[int]] = {item: [] for item in members}
    for a, b in links:
        readers[a].append(b)
        inputs[b].append(a)
    left = {item: len(found) for item, found in inputs.items()}
    ready = [item for item in members if not left[item]]
    loose: set[int] = set()
    for item in ready:  # grows while it is walked; what lies on a cycle keeps the place it has got so far
        if all(a in loose and len(readers[a]) == 1 for a in inputs[item]):
            loose.add(item)
        for b in readers[item]:
            top[b] = max(top[b], top[item] + height[item])
            left[b] -= 1
            if not left[b]:
                ready.append(b)
    for item in reversed(ready):
        if item in loose and readers[item]:
            top[item] = min(top[b] for b in readers[item]) - height[item]
    return max(top[item] + height[item] for item in members)
