"""A graph of a lowering, read off its ledger, and the regions that a delegate can take whole.

A region must be acyclic: no path may leave it and come back in, or neither side could run first. Every node gets a rank,
the number of times that the longest path from it to an output enters a delegated stretch anew; delegated nodes of one
rank make one region. A path that leaves a region goes on in lower ranks only, so that none comes back, and no other
choice gives fewer regions: the longest alternating path needs them all. One walk from the outputs finds the ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from torch._ops import OpOverload
from torch.fx import Node

from lowerscope.arguments import MOVES_AXES, op_of
from lowerscope.ledger import NodeRecord
from lowerscope.memory_layout import gives_number

N = TypeVar("N", bound=Hashable)


def keeps_constant(target: Any, dequantized: bool) -> bool:
    """Whether a constant is still one behind this op: it only moves axes or, if `dequantized`, tells what codes stand for."""
    return target in MOVES_AXES or (dequantized and op_of(target).partition("::")[2].startswith("dequantize"))


def ranks(order: Sequence[N], readers: Callable[[N], Iterable[N]], delegated: Callable[[N], bool]) -> dict[N, int]:
    """The rank of every node of a topological order; delegated nodes of equal rank may run as one region.

    Linear in nodes and edges.
    """
    rank: dict[N, int] = {}
    taken = {node for node in order if delegated(node)}
    for node in reversed(order):
        inside, highest = node in taken, 0
        for reader in readers(node):
            found = rank[reader] + (not inside and reader in taken)
            if found > highest:
                highest = found
        rank[node] = highest
    return rank


@dataclass
class RecordGraph:
    """A graph, sub-graphs included; nodes by id. It answers a support table's questions.

    order: topological, of what an output or an effect depends on. readers: of each node that has any.
    """

    records: Mapping[str, NodeRecord]
    constants: frozenset[str]
    order: list[str]
    readers: dict[str, list[str]] = field(repr=False)

    @classmethod
    def of(cls, records: Mapping[str, NodeRecord], constants: Iterable[str]) -> RecordGraph:
        """The graph of `records`, all alive at once. constants: the program's, by placeholder."""
        added = (id for id, r in records.items() if r.op == "placeholder" and r.born > 0 and not r.prefix)
        inner = _inner_constants(records, found := {*constants, *added})
        order, readers = _ordered(records)
        return cls(records, frozenset(found | inner), order, readers)

    # ------------------------------------------------------------------ what a table asks
    def value(self, reference: Any) -> Any:
        """The fake value of a node."""
        record = self.records.get(reference) if isinstance(reference, str) else None
        return None if record is None else record.val

    def is_constant(self, reference: Any, dequantized: bool = False) -> bool:
        """Whether a node is a constant of the program, or one merely transposed or, if `dequantized`, dequantized."""
        if not isinstance(reference, str):
            return False
        record = self.records.get(reference)
        while record is not None and keeps_constant(record.target, dequantized) and record.inputs:
            record = self.records.get(record.inputs[0])
        return record is not None and record.id in self.constants

    def target(self, reference: Any) -> Any:
        """The op of a node, None for what computes nothing."""
        record = self.records.get(reference) if isinstance(reference, str) else None
        return record.target if record is not None and record.op == "call_function" else None

    # ------------------------------------------------------------------ what a layout asks
    def op(self, node: str) -> str:
        """The torch name of a node's op, "" for what is none."""
        return op_of(self.records[node].target)

    def reads(self, node: str) -> Sequence[str]:
        """The nodes that a node reads."""
        return self.records[node].inputs

    def readers_of(self, node: str) -> Sequence[str]:
        """The nodes that read a node."""
        return self.readers.get(node, ())

    def has_number(self, node: str) -> bool:
        """Whether a binary op was given a number for its second operand."""
        return gives_number(self.records[node])

    def items_read(self, call: NodeRecord) -> frozenset[int] | None:
        """Which outputs of an op with several are read; None when something reads them as a whole."""
        found = [self.records[id] for id in self.readers.get(call.id, ())]
        if not all(is_getitem(r) for r in found):
            return None
        return frozenset(r.args[1] for r in found)


def is_getitem(record: NodeRecord | Node) -> bool:
    """Whether a node takes one output out of an op with several."""
    return record.op == "call_function" and getattr(record.target, "__name__", "") == "getitem"


def has_effect(record: NodeRecord | Node) -> bool:
    """Whether a node runs though nothing reads it."""
    return record.op == "output" or (isinstance(record.target, OpOverload) and _op_has_effect(record.target))


@cache
def _op_has_effect(op: OpOverload) -> bool:
    schema = op._schema
    return schema.is_mutable or "_assert" in schema.name or "_constrain_range" in schema.name


def _inner_constants(records: Mapping[str, NodeRecord], constants: set[str]) -> set[str]:
    """The placeholders of sub-graphs that stand for constants, by the call that runs the sub-graph."""
    inner: dict[str, list[str]] = {}
    for id, record in records.items():
        if record.op == "placeholder" and record.prefix:
            inner.setdefault(record.prefix, []).append(id)
    found: set[str] = set()
    if not inner:
        return found
    for record in records.values():  # a sub-graph's own nodes come after the call that runs it
        held = [records[i] for i in record.inputs if i in records and records[i].op == "get_attr"]
        for holder in held:
            placeholders = inner.get(f"{record.prefix}{holder.target}/", [])
            operands = [i for i in record.inputs if i in records and records[i].op != "get_attr"]
            # operands stand last; those of a cond follow its predicate
            for placeholder, operand in zip(reversed(placeholders), reversed(operands), strict=False):
                if operand in constants or operand in found:
                    found.add(placeholder)
    return found


def _ordered(records: Mapping[str, NodeRecord]) -> tuple[list[str], dict[str, list[str]]]:
    """Every node after its inputs, dead ones left out; and who reads whom.

    Records come in the order of birth, in which only what reads a later rewrite's nodes has to wait for them.
    """
    order: list[str] = []
    seen: set[str] = set()
    for first, record in records.items():
        if first in seen:
            continue
        todo = [(first, record)]
        while todo:
            id, record = todo[-1]
            waiting = [(i, records[i]) for i in record.inputs if i not in seen]
            if waiting:
                todo += waiting
            else:
                todo.pop()
                if id not in seen:
                    seen.add(id)
                    order.append(id)
    readers: dict[str, list[str]] = {}
    live: list[str] = []
    for id in reversed(order):
        if id in readers or has_effect(records[id]):
            live.append(id)
            for source in records[id].inputs:
                known = readers.get(source)
                if known is None:
                    readers[source] = [id]
                else:
                    known.append(id)
    live.reverse()
    return live, readers
