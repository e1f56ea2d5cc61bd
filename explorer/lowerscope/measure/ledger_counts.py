"""Operators of a lowering counted from its ledger: no snapshot is made, so that a toggle stays quick."""

from __future__ import annotations

from collections import Counter

from torch._ops import OpOverload

from lowerscope.ledger import Ledger, NodeRecord
from lowerscope.measure.counts import is_operator, node_op_name
from lowerscope.partition_graph import has_effect


def count_alive(ledger: Ledger) -> dict[str, int]:
    """Name of each operator -> how many are alive at the end, by name; the same as `count_ops` of a snapshot.

    Dead nodes do not count: those that no output and no effect depends on.
    """
    names: dict[object, str | None] = {}
    counts: Counter[str] = Counter()
    for record in live_records(ledger):
        if record.op != "call_function":
            continue
        if not isinstance(record.target, OpOverload):
            name = node_op_name(record) if is_operator(record) else None
        elif record.target in names:
            name = names[record.target]
        else:
            name = names[record.target] = node_op_name(record) if is_operator(record) else None
        if name is not None:
            counts[name] += 1
    return dict(sorted(counts.items()))


def live_records(ledger: Ledger) -> list[NodeRecord]:
    """The records that are alive at the end and that an output or an effect depends on, in order of birth."""
    alive = {id: record for id, record in ledger.records.items() if record.died is None}
    todo = [id for id, record in alive.items() if has_effect(record)]
    wanted = set(todo)
    while todo:
        for source in alive[todo.pop()].inputs:
            if source not in wanted and source in alive:
                wanted.add(source)
                todo.append(source)
    return [record for id, record in alive.items() if id in wanted]
