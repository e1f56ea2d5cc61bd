"""The journal of an editor: every change of the graph is taken back exactly, and done again as exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from lowerscope.ledger import Ledger
from lowerscope.pattern import Pattern


@dataclass(frozen=True, slots=True)
class NewConstant:
    """A constant that a rewrite added: its placeholder, the one whose kind it has (None: a lifted constant), where it is
    kept, and its tensor."""

    name: str
    like: str | None
    key: str
    tensor: torch.Tensor


@dataclass(slots=True)
class Undone:
    """A stretch of the journal that was taken back, with what each change of it had made of the graph."""

    changes: list[tuple[Any, ...]]
    again: list[Any]
    step: int  #: the last one
    marks: dict[int, int]
    made_by: dict[int, Pattern]


class Journal:
    """What changes of a graph change, the list of these changes, and the way back and forth along it."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.ledger = Ledger()
        self.step = 0
        self.new_constants: dict[str, NewConstant] = {}
        self.made_by: dict[int, Pattern] = {}  #: step -> the pattern that it is of
        self._operands: dict[str, Node] = {}  # sub-graph placeholder id -> the node outside that it stands for
        self._inner_constants: dict[tuple[str, str], str] = {}  # (sub-graph, new constant) -> its placeholder there
        self._constants_by_key: dict[Any, str] = {}
        self._kept_keys: set[Any] = set()  # names that tensors are kept under
        self.computed: dict[Any, Any] = {}  #: what rewrites have computed once for all lowerings, by key
        self._last_constants: dict[str, torch.Tensor] = {}  # what each name of a new constant stood for last
        self.torn = False  #: a way back or forth was broken off: the graph is at no place
        self._journal: list[tuple[Any, ...]] = []
        self._marks: dict[int, int] = {0: 0}  # step -> length of the journal just after it

    def _keep_constant(self, added: NewConstant) -> None:
        """Write a new constant down. What was computed from another one of its name is let go."""
        last = self._last_constants.get(added.name)
        if last is not None and last is not added.tensor and not _equal(last, added.tensor):
            self.computed.clear()
        self._last_constants[added.name] = added.tensor
        self.new_constants[added.name] = added

    def mark(self) -> tuple[int, int]:
        """A point to come back to with `undo_to`."""
        return len(self._journal), self.step

    def mark_after(self, step: int) -> tuple[int, int]:
        """The point just after a step that has been closed."""
        return self._marks[step], step

    def undo_to(self, mark: tuple[int, int]) -> None:
        """Take back every change since `mark`, exactly."""
        length, step = mark
        torn, self.torn = self.torn, True
        while len(self._journal) > length:
            self._undo(self._journal.pop())
        self.step = step
        self.torn = torn

    def take_back(self, mark: tuple[int, int]) -> Undone:
        """`undo_to`, and what is needed to do it all again, once the graph is as it is at `mark`."""
        length, step = mark
        numbers = range(step + 1, self.step + 1)
        undone = Undone(
            self._journal[length:],
            [],
            self.step,
            {n: self._marks[n] for n in numbers if n in self._marks},
            {n: self.made_by[n] for n in numbers if n in self.made_by},
        )
        torn, self.torn = self.torn, True
        undone.again = [self._undo(change) for change in reversed(undone.changes)]
        undone.again.reverse()
        del self._journal[length:]
        self.step = step
        self.torn = torn
        return undone

    def put_back(self, undone: Undone) -> None:
        """Do again what `take_back` has taken back, node for node, on the graph as it left it."""
        torn, self.torn = self.torn, True
        for change, more in zip(undone.changes, undone.again, strict=True):
            self._redo(change, more)
        self._journal += undone.changes
        self._marks.update(undone.marks)
        self.made_by.update(undone.made_by)
        self.step = undone.step
        self.torn = torn

    def _undo(self, change: tuple[Any, ...]) -> Any:
        """Take back one change; what `_redo` needs beside it."""
        kind, ledger = change[0], self.ledger
        records = ledger.records
        if kind in ("kin", "edge"):
            _, relation, id, before = change
            after = relation[id]
            if before is None:
                del relation[id]
            else:
                relation[id] = before
            return after
        if kind == "args":
            _, id, args, kwargs, record, ended, former = change
            node = self.nodes[id]
            after = (node._args, node._kwargs, records[id], ledger.ended_edges[ended:], ledger.former[former:])
            node._update_args_kwargs(args, kwargs)
            records[id] = record
            del ledger.ended_edges[ended:], ledger.former[former:]
            return after
        if kind == "new":
            id = change[1]
            node = self.nodes.pop(id)
            after = (node, node.next, node._args, node._kwargs, records.pop(id, None))  # no record: the op refused it
            _forget_name(node)
            unlink(node)
            return after
        if kind == "erase":
            _, id, node, following, args, kwargs, record = change
            after = records[id]
            _link(node, following, args, kwargs)
            self.nodes[id] = node
            records[id] = record
            return after
        if kind == "val":
            _, id, value, record = change
            after = (self.nodes[id].meta.get("val"), records[id])
            self.nodes[id].meta["val"] = value
            records[id] = record
            return after
        if kind == "constant":
            added = self.new_constants.pop(change[1])
            self._kept_keys.discard(added.key)
            return added
        if kind == "inner":
            del self._inner_constants[change[1]]
            return self._operands.pop(change[2])
        return self._constants_by_key.pop(change[1])

    def _redo(self, change: tuple[Any, ...], after: Any) -> None:
        kind, ledger = change[0], self.ledger
        if kind in ("kin", "edge"):
            change[1][change[2]] = after
        elif kind == "args":
            node = self.nodes[change[1]]
            args, kwargs, ledger.records[change[1]], ended, former = after
            node._update_args_kwargs(args, kwargs)
            ledger.ended_edges += ended
            ledger.former += former
        elif kind == "new":
            node, following, args, kwargs, record = after
            _remember_name(node)
            _link(node, following, args, kwargs)
            self.nodes[change[1]] = node
            if record is not None:
                ledger.records[change[1]] = record
        elif kind == "erase":
            del self.nodes[change[1]]
            ledger.records[change[1]] = after
            unlink(change[2])
        elif kind == "val":
            self.nodes[change[1]].meta["val"], ledger.records[change[1]] = after
        elif kind == "constant":
            self._keep_constant(after)
            self._kept_keys.add(after.key)
        elif kind == "inner":
            self._inner_constants[change[1]] = change[2]
            self._operands[change[2]] = after
        else:
            self._constants_by_key[change[1]] = after


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    alike = one.dtype == other.dtype and one.shape == other.shape
    return alike and (one.data_ptr() == other.data_ptr() or torch.equal(one, other))


def _forget_name(node: Node) -> None:
    """Free the name, so that doing the same again gives the same id."""
    space = node.graph._graph_namespace
    space._used_names.discard(node.name)
    space._obj_to_name.pop(node, None)


def _remember_name(node: Node) -> None:
    space = node.graph._graph_namespace
    space._used_names.add(node.name)
    space._obj_to_name[node] = node.name


def unlink(node: Node) -> None:
    """Take a node that nothing reads out of its graph: as fx does it, but that it can be put back."""
    graph = node.graph
    graph._find_nodes_lookup_table.remove(node)
    node._remove_from_list()
    node._erased = True
    graph._len -= 1
    node._update_args_kwargs((), {})


def _link(node: Node, following: Node, args: Any, kwargs: Any) -> None:
    """Put a node back before `following` (the graph's root: at its end). fx passes over one that is marked as erased."""
    graph = node.graph
    node._erased = False
    following._prepend(node)
    graph._find_nodes_lookup_table.insert(node)
    graph._len += 1
    node._update_args_kwargs(args, kwargs)
