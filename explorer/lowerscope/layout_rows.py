"""Rows for a node's many neighbours: what one node feeds, or what feeds it, lies in a block instead of in one long line.

Hundreds of readers of one node would share one rank: a picture of 70,000 px that nobody reads, with one lane for each edge,
which takes the engine minutes (its time grows with the fourth power of the lanes between two ranks). Instead the
readers follow one another in rows, held in columns by guides, which are edges that are laid out but not drawn; only the
edges of the row next to the node are drawn whole, the others are cut to stubs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

MANY = ((40, 24), (20, 12), (10, 6))  #: edges at one end of a node, and how many make a row where there are more
CROWDED = 120  #: edges between two ranks; where more are left, the next of `MANY` is tried

Edge = tuple[int, int]


def ranks(count: int, edges: Iterable[Edge]) -> list[int]:
    """The rank of each of `count` items: the longest path to it from a source. What lies on a cycle keeps what it has got
    when the walk ends."""
    readers: list[list[int]] = [[] for _ in range(count)]
    left = [0] * count
    for source, target in edges:
        readers[source].append(target)
        left[target] += 1
    rank = [0] * count
    ready = [item for item in range(count) if left[item] == 0]
    for item in ready:  # grows while it is walked
        for target in readers[item]:
            rank[target] = max(rank[target], rank[item] + 1)
            left[target] -= 1
            if left[target] == 0:
                ready.append(target)
    return rank


def rows(
    parents: Sequence[int], edges: Sequence[Edge], rank: Sequence[int], cut: Collection[int], many: int, row: int
) -> tuple[set[int], dict[Edge, None]]:
    """Which edges to cut besides those of `cut` (places in `edges`), and the guides that hold rows above one another:
    rows of `row` for each node with more than `many` edges at one end.

    A guide joins two items of one group and one rank, from the lower number to the higher, so that no cycle comes of it.
    """
    leaving: dict[int, list[int]] = {}
    coming: dict[int, list[int]] = {}
    for place, (source, target) in enumerate(edges):
        if place not in cut and source != target:
            leaving.setdefault(source, []).append(place)
            coming.setdefault(target, []).append(place)
    more: set[int] = set()
    guides: dict[Edge, None] = {}
    for places_of, end in ((leaving, 1), (coming, 0)):
        for places in places_of.values():
            if len(places) <= many:
                continue
            places.sort(key=lambda place: (rank[edges[place][end]], edges[place][end]))
            # the nearest are drawn whole: of readers the first, of inputs the last
            more.update(places[row:] if end else places[:-row])
            lines: dict[tuple[int, int], list[int]] = {}
            for item in dict.fromkeys(edges[place][end] for place in places):
                lines.setdefault((parents[item], rank[item]), []).append(item)
            for line in lines.values():
                guides |= dict.fromkeys(zip(line, line[row:], strict=False))
    return more, guides


def busiest(rank: Sequence[int], edges: Iterable[Edge]) -> int:
    """The most edges that lie between two ranks next to one another."""
    change = [0] * (max(rank, default=0) + 2)
    for source, target in edges:
        low, high = sorted((rank[source], rank[target]))
        change[low] += 1
        change[high] -= 1
    most = now = 0
    for step in change:
        now += step
        most = max(most, now)
    return most
