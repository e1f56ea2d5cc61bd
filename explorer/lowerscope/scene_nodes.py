"""The node and edge tables of a scene: every node and edge that ever lived, with what is written on and beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lowerscope import labels
from lowerscope.columns import Strings
from lowerscope.ledger import Ledger, NodeRecord
from lowerscope.lowering import Lowering
from lowerscope.measure.counts import is_operator, node_op_name
from lowerscope.ops import CATEGORIES, category, is_own
from lowerscope.partition_graph import has_effect
from lowerscope.partitions import partitions

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
        elif known[0].val is record.val:
            return known[1]
        else:  # lowered again: the same op on nodes of the same names, whose shapes may be others
            written = known[1]._replace(shape=self.strings(labels.value_text(record.val)))
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
    """Nodes and edges as columns. rows: id -> row. Lives are [born, died), died -1: alive at the end."""

    rows: dict[str, int]
    records: list[NodeRecord]
    written: list[Written]
    columns: dict[str, np.ndarray]
    edges: dict[str, np.ndarray]
    last: int

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


def node_table(lowering: Lowering, writer: Writer) -> NodeTable:
    """The tables of a lowering. Columns of `columns`: those of the protocol, without module and box, and those of `Written`."""
    ledger = lowering.ledger
    records = list(ledger.records.values())
    constants = lowering.source.constants
    written = [writer(record, ledger.records, constants) for record in records]
    rows = {record.id: row for row, record in enumerate(records)}
    for former in reversed(ledger.former):  # the oldest is written last, and stays
        row = rows[former.node]
        plain = writer(records[row], ledger.records, constants)
        written[row] = writer.changed(plain, former.of(records[row]), ledger.records)
    numbers = np.array([w[:_NUMBERS] for w in written], np.int32).reshape(len(records), _NUMBERS)
    columns: dict[str, np.ndarray] = {
        name: np.ascontiguousarray(numbers[:, place]) for place, name in enumerate(Written._fields[:_NUMBERS])
    }
    columns["width"] = np.array([w.width for w in written], np.float32)
    columns["born"] = np.array([r.born for r in records], np.int32)
    columns["died"] = np.array([-1 if r.died is None else r.died for r in records], np.int32)
    made_by = _rows_of_patterns(lowering)
    columns["pattern"] = made_by[columns["born"]]
    edges = _edges(ledger, rows, records, written)
    last = len(lowering.steps)
    columns["users"] = _users(columns, edges, last)
    return NodeTable(rows, records, written, columns, edges, last)


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


def _edges(
    ledger: Ledger, rows: Mapping[str, int], records: list[NodeRecord], written: list[Written]
) -> dict[str, np.ndarray]:
    source: list[int] = []
    target: list[int] = []
    argument: list[int] = []
    born: list[int] = []
    died: list[int] = []
    later = ledger.edge_born
    for row, record in enumerate(records):
        inputs = record.inputs
        if not inputs:
            continue
        source += [rows[id] for id in inputs]
        target += [row] * len(inputs)
        argument += written[row].arguments
        born += [later.get((id, record.id), record.born) for id in inputs] if later else [record.born] * len(inputs)
        died += [-1 if record.died is None else record.died] * len(inputs)
    named = dict(zip(zip(source, target, strict=True), argument, strict=True))
    for edge in ledger.ended_edges:
        if edge.source not in rows or edge.target not in rows:
            continue
        pair = (rows[edge.source], rows[edge.target])
        source.append(pair[0])
        target.append(pair[1])
        argument.append(named.get(pair, argument[0]))
        born.append(edge.born)
        died.append(-1 if edge.died is None else edge.died)
    lists = {"src": source, "dst": target, "arg": argument, "born": born, "died": died}
    return {name: np.array(values, np.int32) for name, values in lists.items()}


def _users(columns: Mapping[str, np.ndarray], edges: Mapping[str, np.ndarray], last: int) -> np.ndarray:
    """How many edges each node feeds, in the last graph that has it."""
    final = np.where(columns["died"] < 0, last, columns["died"] - 1)[edges["src"]]
    counted = (edges["born"] <= final) & ((edges["died"] < 0) | (edges["died"] > final))
    return np.bincount(edges["src"][counted], minlength=len(columns["born"])).astype(np.int32)
