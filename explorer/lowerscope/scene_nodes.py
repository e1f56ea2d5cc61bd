"""The node and edge tables of a scene: every node and edge that ever lived, with what is written on and beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lowerscope import labels
from lowerscope.columns import Strings
from lowerscope.ledger import NodeRecord
from lowerscope.lowering import Lowering
from lowerscope.measure.counts import is_operator, node_op_name
from lowerscope.ops import CATEGORIES, category, is_own
from lowerscope.partition_graph import has_effect
from lowerscope.partitions import partitions
from lowerscope.scene_edges import Edges

SKIPPED, OWN, DELEGATED_BEFORE, DELEGATED_AFTER = 1, 2, 4, 8
_CHAR = 7.0  # px of a character of a box's text
_BOX_MIN, _BOX_MAX, _BOX_ROOM = 44.0, 260.0, 26.0


class Written(NamedTuple):
    """What is derived from one record; texts by index."""

    id: int
    op: int
    label: int
    detail: int
    shape: int
    source: int
    category: int
    kind: int
    own: int
    operator: int
    effect: int
    side: int
    width: float
    arguments: tuple[int, ...]


_NUMBERS = Written._fields.index("width")
_DERIVED = _NUMBERS + 1  # with the width
_ALL = _DERIVED + 2  # and a life
_UNWRITTEN = Written(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, ())


class Writer:
    """Derives what is written on nodes, once for each: a node's texts depend on what it runs, not on its life."""

    def __init__(self, strings: Strings) -> None:
        self.strings = strings
        # by what is read, too: as recipes come and go, so do a node's inputs
        self._known: dict[tuple[str, tuple[str, ...]], tuple[NodeRecord, Written]] = {}

    def __call__(self, record: NodeRecord, records: Mapping[str, NodeRecord], constants: Mapping[str, Any]) -> Written:
        """What is written on the node of `record`. `constants`: the program's, by placeholder."""
        key = (record.id, record.inputs)
        known = self._known.get(key)
        if known is None or not _runs_the_same(known[0], record):
            written = self._derive(record, records, constants)
        elif known[0].val is record.val and known[0].trace is record.trace:
            return known[1]
        else:  # lowered again: the same op on nodes of the same names, whose shapes and source lines may be others
            text = self.strings
            shape, source = text(labels.value_text(record.val)), text(labels.source_text(record.trace))
            written = known[1]._replace(shape=shape, source=source)
        self._known[key] = (record, written)
        return written

    def changed(self, written: Written, former: NodeRecord, records: Mapping[str, NodeRecord]) -> Written:
        """What is written on a node that was given other literals, both before and after: it is one box at every step."""
        before = labels.detail(former, labels.arguments_of(former), records)
        now = self.strings.all[written.detail]
        if before == now:
            return written
        detail = f"{before or 'default'} → {now or 'default'}"
        characters = len(self.strings.all[written.label]) + len(detail) + 1
        return written._replace(detail=self.strings(detail), width=_width(characters))

    def forget(self) -> None:
        """Drop what was derived for recipes gone by."""
        self._known.clear()

    @property
    def size(self) -> int:
        """How many texts are kept."""
        return len(self._known)

    def _derive(self, record: NodeRecord, records: Mapping[str, NodeRecord], constants: Mapping[str, Any]) -> Written:
        text = self.strings
        kind = kind_of(record, constants)
        op = node_op_name(record) if record.op == "call_function" else record.op
        given = labels.arguments_of(record)
        label, detail = labels.short_name(record, kind), labels.detail(record, given, records)
        kinds = (
            category(record.target)
            if record.op == "call_function"
            else "constant"
            if kind == labels.CONSTANT
            else "other"
        )
        characters = len(label) + (len(detail) + 1 if detail else 0)
        return Written(
            text(record.id),
            text(op),
            text(labels.shortened(label, 80)),
            text(detail),
            text(labels.value_text(record.val)),
            text(labels.source_text(record.trace)),
            CATEGORIES.index(kinds),
            kind,
            OWN if record.op == "call_function" and is_own(record.target) else 0,
            int(kind == labels.OPERATOR),
            int(record.op == "placeholder" or has_effect(record)),
            int(kind == labels.CONSTANT or record.op == "get_attr"),
            _width(characters),
            tuple(text(name) for name in labels.argument_names(record, given)),
        )


def _width(characters: int) -> float:
    return min(_BOX_MAX, max(_BOX_MIN, _CHAR * characters + _BOX_ROOM))


def _runs_the_same(known: NodeRecord, record: NodeRecord) -> bool:
    """Whether two records of one name run the same op on the same arguments."""
    if (
        known.target is not record.target
        or known.op != record.op
        or known.born * record.born == 0 < known.born + record.born
    ):
        return False
    return known.args is record.args or (
        known.inputs == record.inputs and known.stack == record.stack and _equal(known, record)
    )


def _equal(known: NodeRecord, record: NodeRecord) -> bool:
    # sizes that are symbols must not be compared: that would add a guard to the program
    return repr(known.args) == repr(record.args) and repr(known.kwargs) == repr(record.kwargs)


def kind_of(record: NodeRecord, constants: Mapping[str, Any]) -> int:
    """OPERATOR, CONSTANT, INPUT, OUTPUT or OTHER. A placeholder that a rewrite added is a constant."""
    if record.op == "placeholder":
        constant = not record.prefix and (record.born > 0 or record.id in constants)
        return labels.CONSTANT if constant else labels.INPUT
    if record.op == "output":
        return labels.OUTPUT
    return labels.OPERATOR if is_operator(record) else labels.OTHER


@dataclass
class NodeTable:
    """Nodes and edges as columns. rows: id -> row. Lives are [born, died), died -1: alive at the end.

    kept: how many rows, from the first on, stand for the nodes that they stood for in the table before.
    """

    rows: dict[str, int]
    records: list[NodeRecord]
    written: list[Written]
    columns: dict[str, np.ndarray]
    edges: dict[str, np.ndarray]
    last: int
    kept: int
    _plain: list[Written] = field(repr=False)  #: as `written`, without what tells of other literals
    _numbers: np.ndarray = field(repr=False)
    _edges: Edges = field(repr=False)

    def alive(self, step: int, table: Mapping[str, np.ndarray]) -> np.ndarray:
        """Which rows of `columns` or `edges` are part of the graph after `step`."""
        return (table["born"] <= step) & ((table["died"] < 0) | (table["died"] > step))

    def computing(self, step: int) -> np.ndarray:
        """The operators of the graph after `step` on which an output or an effect depends."""
        alive = self.alive(step, self.columns)
        edges = self.alive(step, self.edges)
        source, target = self.edges["src"][edges], self.edges["dst"][edges]
        needed = self.columns["effect"].astype(bool) & alive
        live = alive
        while True:  # each turn takes away what nobody reads any more
            users = np.bincount(source[live[target]], minlength=len(alive)) > 0
            rest = live & (users | needed)
            if rest.sum() == live.sum():
                return live & self.columns["operator"].astype(bool)
            live = rest


def node_table(lowering: Lowering, writer: Writer, before: NodeTable | None = None) -> NodeTable:
    """The tables of a lowering. Columns of `columns`: those of the protocol, without module and box, and those of `Written`.

    before: the table of another lowering of the program, from which what is the same is taken.
    """
    ledger = lowering.ledger
    records = list(ledger.records.values())
    rows = {record.id: row for row, record in enumerate(records)}
    kept, same = _kept(before, records)
    plain = before._plain[:kept] if before is not None else []
    constants = lowering.source.constants
    changed = [*np.flatnonzero(~same).tolist(), *range(kept, len(records))]
    plain += [plain[0]] * (len(records) - kept) if plain else [_UNWRITTEN] * len(records)
    for row in changed:
        plain[row] = writer(records[row], ledger.records, constants)
    written = list(plain)
    for former in reversed(ledger.former):  # the oldest is written last, and stays
        row = rows[former.node]
        written[row] = writer.changed(plain[row], former.of(records[row]), ledger.records)
    numbers = np.zeros((len(records), _ALL), np.float64)  # texts by index, steps and widths are all exact in it
    if before is not None:
        numbers[:kept] = before._numbers[:kept]
    if changed:
        numbers[changed] = [
            (*written[row][:_DERIVED], records[row].born, -1 if (died := records[row].died) is None else died)
            for row in changed
        ]
    whole = np.ascontiguousarray(numbers.T.astype(np.int32))
    columns: dict[str, np.ndarray] = {name: whole[place] for place, name in enumerate(Written._fields[:_NUMBERS])}
    columns["width"] = numbers[:, _NUMBERS].astype(np.float32)
    columns["born"], columns["died"] = whole[_DERIVED], whole[_DERIVED + 1]
    made_by = _rows_of_patterns(lowering)
    columns["pattern"] = made_by[columns["born"]]
    edges = Edges(ledger, rows, records, [w.arguments for w in plain], before and before._edges, same)
    last = len(lowering.steps)
    columns["users"] = _users(columns, edges.columns, last)
    return NodeTable(rows, records, written, columns, edges.columns, last, kept, plain, numbers, edges)


def _kept(before: NodeTable | None, records: list[NodeRecord]) -> tuple[int, np.ndarray]:
    """How many rows stand for the same nodes as before, and which of them have the same record."""
    if before is None:
        return 0, np.zeros(0, bool)
    same: list[bool] = []
    for old, new in zip(before.records, records, strict=False):
        if old is not new and old.id != new.id:
            break
        same.append(old is new)
    return len(same), np.array(same, bool)


def flags(table: NodeTable, lowering: Lowering, covered: Callable[[NodeRecord], bool] | None) -> np.ndarray:
    """The flags of every node. `covered`: whether a skip of the recipe covers a node; None when there is no such skip."""
    out = table.columns["own"].copy()
    if covered is not None:
        out |= np.array([SKIPPED if covered(record) else 0 for record in table.records], np.int32)
    before, after = partitions(lowering, "before"), partitions(lowering, "after")
    if before is not None and after is not None:
        # before the patterns is after core_aten: what a delegated node comes from is delegated with it
        origins = (id for node in before.delegated for id in lowering.ledger.origin(node))
        out[[table.rows[id] for id in before.delegated.union(origins)]] |= DELEGATED_BEFORE
        out[[table.rows[id] for id in after.delegated]] |= DELEGATED_AFTER
    return out


def _rows_of_patterns(lowering: Lowering) -> np.ndarray:
    """By step, the row of the pattern that made it; -1 for step 0."""
    row = {stage.pattern: place for place, stage in enumerate(lowering.stages)}
    return np.array([-1, *(row[step.pattern] for step in lowering.steps)], np.int32)


def _users(columns: Mapping[str, np.ndarray], edges: Mapping[str, np.ndarray], last: int) -> np.ndarray:
    """How many edges each node feeds, in the last graph that has it."""
    final = np.where(columns["died"] < 0, last, columns["died"] - 1)[edges["src"]]
    counted = (edges["born"] <= final) & ((edges["died"] < 0) | (edges["died"] > final))
    return np.bincount(edges["src"][counted], minlength=len(columns["born"])).astype(np.int32)
