"""The edge table of a scene: every edge that ever lived, those of nodes that stayed taken from the table before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lowerscope.ledger import Ledger, NodeRecord

_COLUMNS = ("src", "dst", "arg", "born", "died")


class Edges:
    """Edges as columns, int32: src, dst (rows of nodes), arg (text), born, died (-1: alive at the end).

    columns: first what each node was given last, node by node; then what ended before its reader did.
    """

    def __init__(
        self,
        ledger: Ledger,
        rows: Mapping[str, int],
        records: Sequence[NodeRecord],
        arguments: Sequence[tuple[int, ...]],
        former: Edges | None = None,
        same: np.ndarray | None = None,
    ) -> None:
        """rows: id -> row. arguments: what each node's inputs are called. same: which nodes of the table that `former` is
        of have the record that they had there, among those that stand in the same rows."""
        kept, written = self._kept(former, same, len(records))
        fresh = self._given(ledger, rows, records, arguments, np.flatnonzero(~written).tolist())
        given = [np.concatenate([old, new]) for old, new in zip(kept, fresh, strict=True)]
        order = np.argsort(given[1], kind="stable")
        self._given_last = [column[order] for column in given]
        ended = self._ended(ledger, rows)
        self.columns = {
            name: np.concatenate([column, more])
            for name, column, more in zip(_COLUMNS, self._given_last, ended, strict=True)
        }

    @staticmethod
    def _kept(former: Edges | None, same: np.ndarray | None, count: int) -> tuple[list[np.ndarray], np.ndarray]:
        """The edges that are as they were, and the nodes whose edges those are."""
        written = np.zeros(count, bool)
        if former is None or same is None:
            return [np.zeros(0, np.int32) for _ in _COLUMNS], written
        written[: len(same)] = same
        source, target = former._given_last[:2]
        written[target[(source >= len(same)) & (target < count)]] = False  # what is read may stand in another row now
        stays = (target < len(same)) & written[np.minimum(target, count - 1)]
        return [column[stays] for column in former._given_last], written

    @staticmethod
    def _given(
        ledger: Ledger,
        rows: Mapping[str, int],
        records: Sequence[NodeRecord],
        arguments: Sequence[tuple[int, ...]],
        wanted: list[int],
    ) -> list[np.ndarray]:
        source: list[int] = []
        target: list[int] = []
        argument: list[int] = []
        born: list[int] = []
        died: list[int] = []
        later = ledger.edge_born
        for row in wanted:
            record = records[row]
            inputs = record.inputs
            if not inputs:
                continue
            source += [rows[id] for id in inputs]
            target += [row] * len(inputs)
            argument += arguments[row]
            born += [later.get((id, record.id), record.born) for id in inputs] if later else [record.born] * len(inputs)
            died += [-1 if record.died is None else record.died] * len(inputs)
        return [np.array(values, np.int32) for values in (source, target, argument, born, died)]

    def _ended(self, ledger: Ledger, rows: Mapping[str, int]) -> list[np.ndarray]:
        found = [
            (rows[e.source], rows[e.target], -1, e.born, -1 if e.died is None else e.died)
            for e in ledger.ended_edges
            if e.source in rows and e.target in rows
        ]
        columns = np.array(found, np.int32).reshape(len(found), len(_COLUMNS))
        source, target, argument = self._given_last[:3]
        if len(found) and len(argument):
            columns[:, 2] = _named(columns, source, target, argument, len(rows))
        return [np.ascontiguousarray(columns[:, place]) for place in range(len(_COLUMNS))]


def _named(ended: np.ndarray, source: np.ndarray, target: np.ndarray, argument: np.ndarray, count: int) -> np.ndarray:
    """What an edge that ended was called: as one between the same two nodes is now, else as the first of all."""
    codes = source.astype(np.int64) * count + target
    order = np.argsort(codes, kind="stable")
    wanted = ended[:, 0].astype(np.int64) * count + ended[:, 1]
    place = np.searchsorted(codes[order], wanted, side="right") - 1
    at = order[np.maximum(place, 0)]
    return np.where((place >= 0) & (codes[at] == wanted), argument[at], argument[0])
