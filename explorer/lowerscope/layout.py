"""Layout: boxes and edge routes of nested modules and the nodes in them, top to bottom, by graphlay's compound layout.

One function, `lay_out`, so that nothing else knows which engine does it. The engine holds the interpreter lock and
cannot be stopped, so large graphs are laid out by a process of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import graphlay
import numpy as np

from lowerscope.layers import LayoutError, far_edges
from lowerscope.layout_rows import CROWDED, MANY, Edge, busiest, ranks, rows
from lowerscope.layout_wrap import too_wide, wrap

NODE_HEIGHT = 24.0
HEADER = 22.0
GAP = 16.0  # between rows, so that their pitch is 40, and between groups
PADDING = 12.0
STUB = 10.0
STUB_ROOM = 20.0  #: above an item that a cut edge ends at, and below one that it begins at, for the pill with a name
LONGEST_EDGE = 20  #: ranks that an edge may span once rows have set items apart
LONGEST_WRAPPED = 3  #: the same where items are wrapped, and edges lead past many others
IN_PROCESS = 3000  #: items; more are laid out by a process of their own
BUSY = 60  #: edges between two ranks; where there are more, the engine tries fewer orders: seconds instead of minutes

_OPTIONS: dict[str, Any] = {
    "direction": "topbottom",
    "spacing": {
        "layer_gap": GAP,
        "node_gap": 24.0,
        "dummy_gap": 14.0,
        "port_gap": 10.0,
        "port_stroke_clear": 6.0,
        "stub": 6.0,
        "bundle_lane_gap": 6.0,
        "isolated_gap": GAP,
        "compound_padding": PADDING,
        "compound_header": HEADER,
    },
    "routing": {"style": "orthogonal", "lane_gap": 6.0},
}
_FEWER_TRIES: dict[str, Any] = {
    "tuning": {"routing": {"port_relax_rounds": 0}, "order": {"sifting_rounds": 0, "kick_rounds": 0}}
}
_CHILD = "import sys, graphlay; sys.stdout.write(graphlay._native.layout(sys.stdin.read()))"


class LayoutCancelled(Exception):
    """The layout was asked to stop."""


@dataclass(frozen=True)
class LayoutGraph:
    """What is laid out. Items are boxes of a size, or, when others name them as `parents`, groups around those.

    sizes: (width, height) of each item, px; a group's are ignored. parents: the group that each item is in, -1 for none.
    edges: pairs of items, no groups among them.
    """

    sizes: Sequence[tuple[float, float]]
    parents: Sequence[int]
    edges: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class LayoutResult:
    """boxes: float32 [items, 4], x, y (of the top left corner), width, height in px. routes: float32 [points, 2] of each edge,
    source to target. cut: edges that are only two stubs, whose route is two points at the source and two at the target.
    size: width and height of the whole."""

    boxes: np.ndarray
    routes: list[np.ndarray]
    cut: frozenset[int] = field(default_factory=frozenset)
    size: tuple[float, float] = (0.0, 0.0)


def lay_out(graph: LayoutGraph, cancelled: Callable[[], bool] | None = None) -> LayoutResult:
    """Lay out `graph`; the same graph always gets the same layout.

    LayoutError: an item or an edge names what is not there, or the engine refuses. LayoutCancelled: `cancelled` said so
    (only a layout in a process of its own can be stopped once it has begun).
    """
    _check(graph)
    if not graph.sizes:
        return LayoutResult(np.zeros((0, 4), np.float32), [])
    plan = _plan(graph)
    request = _request(graph, plan)
    answer = json.loads(_in_process(request) if len(graph.sizes) <= IN_PROCESS else _in_child(request, cancelled))
    return _result(graph, answer, plan.cut)


def long_edges(edges: Iterable[Edge], rank: Sequence[int], longest: int = LONGEST_EDGE) -> frozenset[int]:
    """The edges (their places) that span more than `longest` ranks."""
    return frozenset(place for place, (source, target) in enumerate(edges) if rank[target] - rank[source] > longest)


@dataclass(frozen=True)
class _Plan:
    """cut: the edges that are only stubs. guides: edges that are laid out and not drawn. most: edges between two ranks."""

    cut: frozenset[int]
    guides: Sequence[Edge]
    most: int


def _plan(graph: LayoutGraph) -> _Plan:
    rank = ranks(len(graph.sizes), graph.edges)
    closed = [height > NODE_HEIGHT for _, height in graph.sizes]
    far = far_edges(closed, graph.parents, graph.edges)
    plan = _in_rows(graph, rank, far, *MANY[0])
    for many, row in MANY[1:]:
        if plan.most <= CROWDED:
            break
        plan = _in_rows(graph, rank, far, many, row)
    return plan


def _in_rows(graph: LayoutGraph, rank: list[int], cut: frozenset[int], many: int, row: int) -> _Plan:
    more, guides = rows(graph.parents, graph.edges, rank, cut, many, row)
    if guides:
        rank = ranks(len(graph.sizes), [*graph.edges, *guides])
    longest = LONGEST_EDGE
    if too_wide(graph.sizes, graph.parents, rank):
        near = [edge for place, edge in enumerate(graph.edges) if place not in cut and place not in more]
        guides = wrap(graph.sizes, graph.parents, graph.edges, near)
        rank = ranks(len(graph.sizes), [*graph.edges, *guides])
        longest = LONGEST_WRAPPED
    if guides:  # rows have ranks of their own: what was short may be long now
        cut |= long_edges(graph.edges, rank, longest)
        far = long_edges(guides, rank)
        guides = [guide for place, guide in enumerate(guides) if place not in far]
    cut |= more
    whole = [edge for place, edge in enumerate(graph.edges) if place not in cut]
    return _Plan(cut, list(guides), busiest(rank, [*whole, *guides]))


def _check(graph: LayoutGraph) -> None:
    count = len(graph.sizes)
    if len(graph.parents) != count:
        raise LayoutError(f"{count} items have {len(graph.parents)} parents: give one for each, -1 for none")
    groups = set(graph.parents) - {-1}
    for place, parent in enumerate(graph.parents):
        if not -1 <= parent < count or parent == place:
            raise LayoutError(
                f"item {place} is in group {parent}, which is none of the {count} items: give one of them"
            )
    for source, target in graph.edges:
        if not (0 <= source < count and 0 <= target < count):
            raise LayoutError(f"an edge joins {source} and {target}, of {count} items: both must be among them")
        if source in groups or target in groups:
            raise LayoutError(f"an edge joins {source} and {target}, of which one is a group: join what is in it")


def _request(graph: LayoutGraph, plan: _Plan) -> str:
    nodes = []
    room = _stub_room(graph, plan.cut).sum(1).tolist()
    for (width, height), parent, more in zip(graph.sizes, graph.parents, room, strict=True):
        node: dict[str, Any] = {"size": {"width": width, "height": height + more}, "shape": "box", "key": ""}
        if parent >= 0:
            node["parent"] = parent
        nodes.append(node)
    whole = [edge for place, edge in enumerate(graph.edges) if place not in plan.cut and edge[0] != edge[1]]
    # guides come last: what the engine says of them is not read
    edges = [{"source": s, "target": t, "weight": 1.0} for s, t in [*whole, *plan.guides]]
    _known_options()
    options = _OPTIONS | _FEWER_TRIES if plan.most > BUSY else _OPTIONS
    return json.dumps({"graph": {"nodes": nodes, "edges": edges}, "preset": "layered", "options": options})


def _stub_room(graph: LayoutGraph, cut: frozenset[int]) -> np.ndarray:
    """float64 [items, 2]: the room for stubs above and below each item, px."""
    room = np.zeros((len(graph.sizes), 2))
    for place in cut:
        source, target = graph.edges[place]
        room[target, 0] = room[source, 1] = STUB_ROOM
    return room


@cache
def _known_options() -> None:
    """LayoutError unless the engine has every option that is set here: it ignores the names that it does not know."""

    def walk(given: Mapping[str, Any], known: Mapping[str, Any], path: str) -> None:
        for name, value in given.items():
            if name not in known:
                raise LayoutError(
                    f"graphlay {graphlay.__version__} has no option {path}{name}: install the pinned version"
                )
            if isinstance(value, Mapping):
                walk(value, known[name], f"{path}{name}.")

    walk(_OPTIONS | _FEWER_TRIES, graphlay.options("layered"), "")


def _in_process(request: str) -> str:
    try:
        return graphlay._native.layout(request)
    except graphlay.GraphlayError as error:
        raise LayoutError(f"this graph cannot be laid out ({error}): collapse some modules") from error


def _in_child(request: str, cancelled: Callable[[], bool] | None) -> str:
    # a file and no pipe: `communicate` drops the rest of its input when it has timed out before all of it was read
    with tempfile.TemporaryFile("w+", encoding="utf-8") as given:
        given.write(request)
        given.seek(0)
        with subprocess.Popen(
            [sys.executable, "-c", _CHILD], stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            while True:
                try:
                    output, errors = child.communicate(timeout=0.1)
                    break
                except subprocess.TimeoutExpired:
                    if cancelled is not None and cancelled():
                        child.kill()
                        raise LayoutCancelled from None
    if child.returncode != 0:
        last = errors.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        raise LayoutError(f"this graph cannot be laid out ({last[0]}): collapse some modules")
    return output


def _result(graph: LayoutGraph, answer: Mapping[str, Any], cut: frozenset[int]) -> LayoutResult:
    corner = answer["bounds"]["min"]
    x0, y0 = corner["x"], corner["y"]
    boxes = np.array(
        [
            (
                n["center"]["x"] - n["size"]["width"] / 2 - x0,
                n["center"]["y"] - n["size"]["height"] / 2 - y0,
                n["size"]["width"],
                n["size"]["height"],
            )
            for n in answer["nodes"]
        ],
        np.float32,
    )
    room = _stub_room(graph, cut)
    boxes[:, 1] += room[:, 0]
    boxes[:, 3] -= room.sum(1)
    laid = iter(answer["edges"])
    routes = []
    for place, (source, target) in enumerate(graph.edges):
        if place in cut or source == target:
            routes.append(_stubs(boxes[source], boxes[target]))
        else:
            route = np.array([(p["x"] - x0, p["y"] - y0) for p in next(laid)["points"]], np.float32)
            if route[0, 0] == route[1, 0]:  # not from a side
                route[0, 1] -= room[source, 1]
            if route[-1, 0] == route[-2, 0]:
                route[-1, 1] += room[target, 0]
            routes.append(route)
    upper = answer["bounds"]["max"]
    return LayoutResult(boxes, routes, cut, (upper["x"] - x0, upper["y"] - y0))


def _stubs(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """A short end below the source and one above the target, off the middle, where the edges that are drawn lie."""
    sx, sy = source[0] + source[2] * 0.8, source[1] + source[3]
    tx, ty = target[0] + target[2] * 0.8, target[1]
    return np.array([(sx, sy), (sx, sy + STUB), (tx, ty - STUB), (tx, ty)], np.float32)
