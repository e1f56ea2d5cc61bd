"""The ledger: every node that has ever lived in a lowering, when, made from which others. Ids and plain values only.

The Editor writes it with every change. A frozen copy of it is what verdicts, scenes and explanations read, so that
nothing that outlives a stage holds an fx node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from torch.fx import Graph, Node


class Ref(str):
    """A node id where the fx argument held the node."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"%{self}"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One node's life.

    id: unique over the lowering; in a sub-graph with its path ("submod_1/conv2d"). op: fx's op. target: fx's target.
    args, kwargs: with `Ref` for nodes. val: the fake value. stack: (module path, class name) pairs, root first.
    trace: the traced source lines. born, died: the steps that made and removed it (0: of the program; None: alive).
    """

    id: str
    op: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[str, ...]
    val: Any
    stack: tuple[tuple[str, str], ...]
    trace: str
    born: int
    died: int | None

    @property
    def module(self) -> str:
        """The innermost module path; "" is the root."""
        return self.stack[-1][0] if self.stack else ""

    @property
    def prefix(self) -> str:
        """The path of the sub-graph it lives in, "" for the top graph."""
        head, slash, _ = self.id.rpartition("/")
        return head + slash

    def alive_at(self, step: int) -> bool:
        """Whether it is part of the graph after `step`."""
        return self.born <= step and (self.died is None or self.died > step)


@dataclass(frozen=True, slots=True)
class EdgeRecord:
    """An edge's life: `source` feeds `target` from step `born` until step `died`."""

    source: str
    target: str
    born: int
    died: int | None


@dataclass(frozen=True, slots=True)
class FormerArguments:
    """What `node` was given until `step` changed a literal, or the order of its inputs, which no edge tells."""

    node: str
    step: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def of(self, record: NodeRecord) -> NodeRecord:
        """The node's record as it was."""
        return replace(record, args=self.args, kwargs=self.kwargs)


@dataclass(slots=True)
class Ledger:
    """All node records by id in order of birth, what ended before its reader did, and who came from whom."""

    records: dict[str, NodeRecord] = field(default_factory=dict)
    ended_edges: list[EdgeRecord] = field(default_factory=list)
    former: list[FormerArguments] = field(default_factory=list)
    edge_born: dict[tuple[str, str], int] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)  #: made node -> the nodes it was made from
    made: dict[str, tuple[str, ...]] = field(default_factory=dict)  #: taken node -> the nodes made from it
    memo: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)  #: of a frozen one: what it leads to
    _neighbours: tuple[dict[str, list[EdgeRecord]], dict[str, list[EdgeRecord]]] | None = field(
        default=None, repr=False, compare=False
    )
    _read_by: tuple[dict[str, list[str]], dict[str, list[str]]] | None = field(default=None, repr=False, compare=False)

    def freeze(self) -> Ledger:
        """A copy that later edits do not touch (the records are immutable and shared)."""
        return Ledger(
            dict(self.records),
            list(self.ended_edges),
            list(self.former),
            dict(self.edge_born),
            dict(self.parents),
            dict(self.made),
        )

    def alive_at(self, step: int) -> Iterator[NodeRecord]:
        """The records of the graph after `step`."""
        return (r for r in self.records.values() if r.alive_at(step))

    def edges(self) -> Iterator[EdgeRecord]:
        """Every edge that has ever been."""
        yield from self.ended_edges
        for record in self.records.values():
            for source in record.inputs:
                born = self.edge_born.get((source, record.id), record.born)
                yield EdgeRecord(source, record.id, born, record.died)

    def neighbours(self) -> tuple[dict[str, list[EdgeRecord]], dict[str, list[EdgeRecord]]]:
        """(edges into each node, edges from each node) that have ever been, by id. Of a frozen ledger: it is kept."""
        if self._neighbours is None:
            into: dict[str, list[EdgeRecord]] = {}
            out_of: dict[str, list[EdgeRecord]] = {}
            for edge in self.edges():
                into.setdefault(edge.target, []).append(edge)
                out_of.setdefault(edge.source, []).append(edge)
            self._neighbours = (into, out_of)
        return self._neighbours

    def sources(self, id: str) -> Iterable[str]:
        """The nodes that `id` has ever read."""
        return (*self.records[id].inputs, *self._kin()[0].get(id, ()))

    def readers(self, id: str) -> Iterable[str]:
        """The nodes that have ever read `id`."""
        return self._kin()[1].get(id, ())

    def _kin(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """(what a node read before its inputs were changed, who has ever read it), ids only: `neighbours` costs more."""
        if self._read_by is None:
            former: dict[str, list[str]] = {}
            readers: dict[str, list[str]] = {}
            for edge in self.ended_edges:
                former.setdefault(edge.target, []).append(edge.source)
                readers.setdefault(edge.source, []).append(edge.target)
            for id, record in self.records.items():
                for source in record.inputs:
                    readers.setdefault(source, []).append(id)
            self._read_by = (former, readers)
        return self._read_by

    def origin(self, id: str) -> tuple[str, ...]:
        """The original nodes that `id` comes from (itself, when it is one)."""
        parents = self.parents.get(id, ())
        if not parents or (len(parents) == 1 and parents[0] not in self.parents):
            return parents or (id,)
        return _closure(id, self.parents)

    def became(self, id: str) -> tuple[str, ...]:
        """The nodes that are alive at the end and come from `id` (itself, when it is one)."""
        line = (id, *self.descendants(id))
        return tuple(sorted(i for i in line if i in self.records and self.records[i].died is None))

    def descendants(self, id: str) -> Iterator[str]:
        """Every node that was made from `id`, directly or not."""
        todo, seen = [id], {id}
        while todo:
            for other in self.made.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
                    yield other

    def line(self, id: str) -> tuple[str, ...]:
        """`id` with every node it comes from and every node that comes from it."""
        out: dict[str, None] = {id: None}
        for relation in (self.parents, self.made):
            todo = [id]
            while todo:
                for other in relation.get(todo.pop(), ()):
                    if other not in out:
                        out[other] = None
                        todo.append(other)
        return tuple(out)


def _closure(id: str, relation: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The ends that are reached from `id` by following `relation` as far as it goes."""
    out: dict[str, None] = {}
    todo, seen = [id], {id}
    while todo:
        current = todo.pop()
        following = relation.get(current, ())
        if not following:
            out[current] = None
        for other in following:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return tuple(sorted(out))


def module_stack(node: Node) -> tuple[tuple[str, str], ...]:
    """(module path, class name) pairs of a node, root first. Paths lose torch's `L['self']` spelling."""
    stack = node.meta.get("nn_module_stack") or {}
    out = []
    for path, kind in stack.values():
        name = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
        out.append((_plain_path(path), name.rpartition(".")[2]))
    return tuple(out)


def _plain_path(path: str) -> str:
    """A module path without the calls that torch adds ("block@1" is the second call of block)."""
    return path.removeprefix("L['self'].").removeprefix("L__self__.").replace("L['self']", "").replace("L__self__", "")


def sub_graph_paths(graph: Graph, owner: Any) -> Iterable[tuple[Node, Any]]:
    """The get_attr nodes of `graph` that hold a sub-graph, with the GraphModule of each."""
    for node in graph.find_nodes(op="get_attr"):
        held = owner
        for part in str(node.target).split("."):
            held = getattr(held, part, None)
        if hasattr(held, "graph"):
            yield node, held
