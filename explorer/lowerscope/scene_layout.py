"""The places of a scene: one layout of all nodes that ever lived, so that what did not change does not move.

A node that replaces exactly one other takes its place. What lies in a closed module is drawn as that module's box, and
edges from there start at it. Constants are pills beside their first reader and take no part in the layout.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lowerscope import labels
from lowerscope.folding import CLOSED, OPEN, Folded
from lowerscope.layout import NODE_HEIGHT, LayoutGraph, LayoutResult, lay_out
from lowerscope.module_tree import ModuleTree
from lowerscope.scene_nodes import NodeTable
from lowerscope.verdict import Step

CLOSED_HEIGHT = 32.0
PILL_HEIGHT, PILL_MIN, PILL_MAX, PILL_GAP = 16.0, 18.0, 64.0, 4.0
_FREE = 200.0  # px beside the last box of a row
_CHAR = 7.0
_KEPT = 8  # layouts: opening a module and closing it again costs nothing

Engine = Callable[[LayoutGraph], LayoutResult]


@dataclass
class Places:
    """Boxes of modules and nodes, float32 [rows, 4] (x, y, w, h; NaN where nothing is drawn), and the drawn edges.

    routes: the protocol's columns. points: float32 [n, 2].
    """

    modules: np.ndarray
    nodes: np.ndarray
    routes: dict[str, np.ndarray]
    points: np.ndarray


class Layouts:
    """Layouts by what is laid out; the last few are kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], LayoutResult] = OrderedDict()

    def __call__(self, graph: LayoutGraph, cancelled: Callable[[], bool] | None = None) -> LayoutResult:
        """The layout of `graph`, a kept one where it was laid out before."""
        key = (tuple(graph.sizes), tuple(graph.parents), tuple(graph.edges))
        found = self._kept.pop(key, None)
        self._kept[key] = found = found if found is not None else lay_out(graph, cancelled)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return found


def slots(table: NodeTable, tree: ModuleTree, steps: Iterable[Step]) -> np.ndarray:
    """For each node row the row whose place it takes: its own, or that of the one node which it alone replaces."""
    out = list(range(len(table.records)))
    kind = table.columns["kind"].tolist()
    rows = table.rows
    for step in steps:
        taken = [rows[id] for id in step.taken if id in rows and kind[rows[id]] != labels.CONSTANT]
        made = [rows[id] for id in step.made if id in rows and kind[rows[id]] != labels.CONSTANT]
        if len(taken) == len(made) == 1 and tree.row_of[step.taken[0]] == tree.row_of[table.records[made[0]].id]:
            out[made[0]] = out[taken[0]]
    return np.array(out, np.int32)


def place(
    table: NodeTable,
    tree: ModuleTree,
    module_of: np.ndarray,
    folded: Folded,
    slot: np.ndarray,
    box_texts: Sequence[str],
    engine: Engine,
) -> Places:
    """Lay out what is visible. `module_of`: row of each node's box; `box_texts`: what is written on a module's closed box."""
    shown = np.array(folded.shown, np.int32)
    stands = np.array(folded.stands_for, np.int32)
    side = table.columns["side"].astype(bool)
    visible = (shown[module_of] == OPEN) & ~side

    # items of the layout: the boxes of modules, then the slots of nodes
    module_item = np.full(len(tree.modules), -1, np.int64)
    boxes = [row for row in range(1, len(tree.modules)) if folded.shown[row] in (OPEN, CLOSED)]
    module_item[boxes] = np.arange(len(boxes))
    heads = np.unique(slot[visible])
    slot_item = np.full(len(table.records), -1, np.int64)
    slot_item[heads] = len(boxes) + np.arange(len(heads))
    width = np.zeros(len(table.records), np.float32)
    np.maximum.at(width, slot[visible], table.columns["width"][visible])
    sizes = [(max(80.0, _CHAR * len(box_texts[row]) + 40.0), CLOSED_HEIGHT) for row in boxes]
    sizes += [(float(w), NODE_HEIGHT) for w in width[heads]]
    parents = [int(module_item[tree.modules[row].parent]) for row in boxes]
    parents += module_item[module_of[heads]].tolist()

    # where each node's edges end: at its slot, or at the closed box that it is part of
    end = np.where(visible, slot_item[slot], -1)
    hidden = (shown[module_of] != OPEN) & (stands[module_of] >= 0)
    end[hidden] = module_item[stands[module_of[hidden]]]
    source, target = table.edges["src"], table.edges["dst"]
    drawn = np.flatnonzero((end[source] >= 0) & (end[target] >= 0) & (end[source] != end[target]) & ~side[source])
    pairs = np.stack([end[source[drawn]], end[target[drawn]]], 1)
    unique, which = np.unique(pairs, axis=0, return_inverse=True) if len(drawn) else (pairs, np.zeros(0, np.int64))
    laid = engine(LayoutGraph(sizes, parents, [(int(a), int(b)) for a, b in unique]))

    modules = np.full((len(tree.modules), 4), np.nan, np.float32)
    modules[boxes] = laid.boxes[: len(boxes)]
    modules[0] = (0.0, 0.0, *laid.size)
    nodes = np.full((len(table.records), 4), np.nan, np.float32)
    nodes[visible] = laid.boxes[slot_item[slot[visible]]]
    routes, points = _routes(table, drawn, which.reshape(-1), end, len(boxes), np.array(boxes, np.int32), laid)
    _pills(table, np.flatnonzero(side), visible, nodes, routes, points)
    return Places(modules, nodes, _columns(routes), _stack(points))


_ROUTE = ("src", "src_module", "dst", "dst_module", "born", "died", "point", "points", "stub", "edge")


def _routes(
    table: NodeTable,
    drawn: np.ndarray,
    which: np.ndarray,
    end: np.ndarray,
    first_slot: int,
    boxes: np.ndarray,
    laid: LayoutResult,
) -> tuple[list[tuple[int, ...]], list[np.ndarray]]:
    """A route for each pair of ends and each stretch of steps in which an edge between them lives."""
    starts = np.concatenate([[0], np.cumsum([len(r) for r in laid.routes])]).astype(int).tolist()
    lives: dict[tuple[int, int, int, int], list[tuple[int, int, int, int]]] = {}
    edges = table.edges
    source, target = edges["src"][drawn], edges["dst"][drawn]
    at_source, at_target = end[source], end[target]
    ends = (
        np.where(at_source < first_slot, boxes[np.minimum(at_source, len(boxes) - 1)] if len(boxes) else 0, source),
        at_source < first_slot,
        np.where(at_target < first_slot, boxes[np.minimum(at_target, len(boxes) - 1)] if len(boxes) else 0, target),
        at_target < first_slot,
    )
    keys = zip(*(e.astype(int).tolist() for e in ends), strict=True)
    facts = zip(
        edges["born"][drawn].tolist(), edges["died"][drawn].tolist(), which.tolist(), drawn.tolist(), strict=True
    )
    for key, fact in zip(keys, facts, strict=True):
        lives.setdefault(key, []).append(fact)
    routes: list[tuple[int, ...]] = []
    for key, found in lives.items():
        for born, died, pair, edge in _stretches(found):
            stub = int(pair in laid.cut)
            routes.append((*key, born, died, starts[pair], len(laid.routes[pair]), stub, edge))
    return routes, list(laid.routes)


def _stretches(lives: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Lives of edges between the same two ends, those that overlap or follow one another joined."""
    if len(lives) == 1:
        return lives
    out: list[tuple[int, int, int, int]] = []
    for born, died, pair, edge in sorted(lives, key=lambda life: life[0]):
        if out and (out[-1][1] < 0 or out[-1][1] >= born):
            before = out[-1]
            until = -1 if before[1] < 0 or died < 0 else max(before[1], died)
            out[-1] = (before[0], until, before[2], before[3])
        else:
            out.append((born, died, pair, edge))
    return out


def _pills(
    table: NodeTable,
    side: np.ndarray,
    visible: np.ndarray,
    nodes: np.ndarray,
    routes: list[tuple[int, ...]],
    points: list[np.ndarray],
) -> None:
    """Put each constant beside the first visible node that reads it, on the side with more room, and draw its edges."""
    readers: dict[int, list[int]] = {}
    is_side = np.zeros(len(nodes), bool)
    is_side[side] = True
    wanted = np.flatnonzero(is_side[table.edges["src"]] & visible[table.edges["dst"]])
    for edge in wanted[np.argsort(table.edges["born"][wanted], kind="stable")].tolist():
        readers.setdefault(int(table.edges["src"][edge]), []).append(edge)
    beside: dict[tuple[float, float], list[int]] = {}
    rows = _rows(nodes[visible])
    count = sum(len(p) for p in points)
    for constant, edges in readers.items():
        reader = int(table.edges["dst"][edges[0]])
        x, y, w, h = nodes[reader].tolist()
        room = _room(rows[y], x, w)
        taken = beside.setdefault((x, y), [0, 0])
        at = min((0, 1), key=lambda s: (taken[s] * PILL_MIN * 2 - room[s], s))
        width = min(PILL_MAX, float(table.columns["width"][constant]), max(PILL_MIN, room[at] - 2 * PILL_GAP))
        top = y + h / 2 - PILL_HEIGHT / 2 + taken[at] * (PILL_HEIGHT + 2)
        taken[at] += 1
        left = x + w + PILL_GAP if at else x - PILL_GAP - width
        nodes[constant] = (left, top, width, PILL_HEIGHT)
        for edge in edges:
            target = int(table.edges["dst"][edge])
            near = bool(np.array_equal(nodes[target], nodes[reader]))
            line = _side_line(nodes[constant], nodes[target], near)
            born, died = int(table.edges["born"][edge]), int(table.edges["died"][edge])
            routes.append((constant, 0, target, 0, born, died, count, len(line), int(not near), edge))
            points.append(line)
            count += len(line)


def _rows(boxes: np.ndarray) -> dict[float, list[tuple[float, float]]]:
    """By the upper edge of a row of boxes, where each begins and ends, from left to right."""
    rows: dict[float, list[tuple[float, float]]] = {}
    for x, y, w, _ in dict.fromkeys(map(tuple, boxes.tolist())):
        rows.setdefault(y, []).append((x, x + w))
    for row in rows.values():
        row.sort()
    return rows


def _room(row: list[tuple[float, float]], x: float, w: float) -> tuple[float, float]:
    """How far it is from a box to the next one of its row, to the left and to the right."""
    place = bisect_left(row, (x, x + w))
    left = x - row[place - 1][1] if place > 0 else _FREE
    right = row[place + 1][0] - x - w if place + 1 < len(row) else _FREE
    return left, right


def _side_line(pill: np.ndarray, node: np.ndarray, near: bool) -> np.ndarray:
    """From a pill to the node beside it; to one elsewhere two stubs."""
    middle = pill[1] + pill[3] / 2
    right = pill[0] > node[0]
    start = pill[0] if right else pill[0] + pill[2]
    edge = node[0] + node[2] if right else node[0]
    if near:
        return np.array([(start, middle), (edge, min(max(middle, node[1] + 4), node[1] + node[3] - 4))], np.float32)
    out = -PILL_GAP if right else PILL_GAP
    height = node[1] + node[3] / 2
    return np.array([(start, middle), (start + out, middle), (edge - out, height), (edge, height)], np.float32)


def _columns(routes: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    numbers = np.array(routes, np.int32).reshape(len(routes), len(_ROUTE))
    return {name: np.ascontiguousarray(numbers[:, place]) for place, name in enumerate(_ROUTE)}


def _stack(points: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(points) if points else np.zeros((0, 2), np.float32)
