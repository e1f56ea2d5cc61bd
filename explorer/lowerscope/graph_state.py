"""The changeable copy of a program's graphs: ids and lives; every change of it is written into the journal.

What an `Editor` builds on. Nothing outside the Editor changes a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from lowerscope.errors import RewriteError
from lowerscope.fake_run import FakeRunner
from lowerscope.graph_copy import copy_node, keep_name, set_arguments
from lowerscope.journal import Journal, unlink
from lowerscope.ledger import EdgeRecord, FormerArguments, NodeRecord, Ref, module_stack, sub_graph_paths
from lowerscope.pattern import Match, Pattern
from lowerscope.program import Program
from lowerscope.subgraph_constants import outer_operand


class GraphState(Journal):
    """Copies of a program's graph and sub-graphs, with journal and ledger.

    It also answers a `Check`'s questions about the graph (`lowerscope.check.Surroundings`).
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self._kept_keys = {spec.target for spec in program.specs.values()}
        self.graphs: dict[str, Graph] = {}
        self.profile: Mapping[str, Any] = {}
        self.skipped: Callable[[str, Node], str | None] | None = None  #: None: nothing is
        self.skipped_matches: frozenset[tuple[str, ...]] = frozenset()  #: of the stage at work, by their original nodes
        self.noted: dict[str, Any] = {}  #: what a pattern's `anchors_in` found out for its matches, by anchor id
        self.memo: dict[Any, Any] = {}
        self.at_work: Pattern | None = None  #: whose stage runs
        self.prefixes: dict[Graph, str] = {}  #: what the ids of a graph's nodes begin with, before their names
        self._mutating: list[str] = []  # ids whose ops write in place, or once did
        self._match: Match | None = None
        self._made: list[str] = []
        self._began = 0  # length of the journal when the step was opened
        self._program_constants = {n: t for n, t in program.constants.items() if n not in program.mutated}
        self._open("", program.exported_program.graph, program.exported_program.graph_module)
        self._fake = FakeRunner(self._find_fake_mode())
        self.fake_mode = self._fake.mode

    # ------------------------------------------------------------------ opening
    def _open(self, prefix: str, source: Graph, owner: Any) -> None:
        if prefix in self.graphs:
            return
        graph = Graph()
        self.graphs[prefix] = graph
        self.prefixes[graph] = prefix
        copies: dict[Node, Node] = {}
        for node in source.nodes:
            copies[node] = copy_node(graph, node, copies.__getitem__)
            self.nodes[prefix + node.name] = copies[node]
        for node in graph.nodes:
            self._write(node, born=0)
        for holder, held in sub_graph_paths(graph, owner):
            inner = f"{prefix}{holder.target}/"
            self._open(inner, held.graph, held)
            for user in holder.users:
                for placeholder, operand in outer_operand(user, holder, self.graphs[inner]):
                    self._operands[inner + placeholder.name] = operand

    def _find_fake_mode(self) -> FakeTensorMode:
        values = [n.meta.get("val") for g in self.graphs.values() for n in g.nodes]
        mode = detect_fake_mode([v for v in values if isinstance(v, FakeTensor)])
        return mode if mode is not None else FakeTensorMode(allow_non_fake_inputs=True)

    # ------------------------------------------------------------------ what a Check asks
    def id_of(self, node: Node) -> str:
        """The node's id: its name, after the path of the sub-graph it lives in."""
        return self.prefixes[node.graph] + node.name

    @property
    def skips(self) -> bool:
        """Whether any node may be skipped at all."""
        return self.skipped is not None

    def is_skipped(self, node: Node) -> bool:
        """Whether the recipe tells to leave the node alone."""
        return self.skipped is not None and self.skipped(self.id_of(node), node) is not None

    def skipped_by(self, node: Node) -> str:
        """What on the skip list covers the node."""
        return (self.skipped and self.skipped(self.id_of(node), node)) or ""

    def mutating(self) -> list[Node]:
        """The nodes whose ops write in place."""
        nodes = (self.nodes.get(id) for id in self._mutating)
        return [n for n in nodes if n is not None and _mutates(n)]

    def is_constant(self, node: Any) -> bool:
        """Whether it is a node: a parameter, buffer or lifted constant that nothing writes to."""
        if not isinstance(node, Node) or node.op != "placeholder":
            return False
        return self.prefixes[node.graph] + node.name in self._program_constants or self._constant_name(node) is not None

    def constant_value(self, node: Node) -> torch.Tensor:
        """A constant, in its own shape and dtype; never write to it. RewriteError: the node is none."""
        name = self._constant_name(node)
        if name is None:
            raise RewriteError(f"'{self.id_of(node)}' is not a constant, so it has no value before the program runs")
        added = self.new_constants.get(name)
        return added.tensor if added is not None else self._program_constants[name]

    def constant_origin(self, node: Node) -> Node:
        """The top graph's placeholder of a constant that is seen from inside a sub-graph."""
        name = self._constant_name(node)
        return self.nodes[name] if name is not None else node

    def module_of(self, node: Node) -> str:
        """The module path that the node was traced in."""
        return self.ledger.records[self.id_of(node)].module

    def noted_of(self, node: Node) -> Any:
        """What the pattern at work has noted about an anchor, None for nothing."""
        return self.noted.get(self.id_of(node))

    def origins(self, ids: Iterable[str]) -> tuple[str, ...]:
        """The ids of the original nodes that nodes come from, sorted: by these a match is known."""
        parents = self.ledger.parents
        found: set[str] = set()
        for id in ids:
            before = parents.get(id)
            if not before:
                found.add(id)
            elif len(before) == 1 and before[0] not in parents:  # mostly one op that was decomposed
                found.add(before[0])
            else:
                found.update(self.ledger.origin(id))
        return tuple(found) if len(found) == 1 else tuple(sorted(found))

    def _constant_name(self, node: Node) -> str | None:
        while node.op == "placeholder":
            id = self.id_of(node)
            if id in self._program_constants or id in self.new_constants:
                return id
            operand = self._operands.get(id)
            if operand is None:
                return None
            node = operand
        return None

    # ------------------------------------------------------------------ arguments and values
    def set_input(self, user: Node, old: Node, new: Node) -> None:
        """Let `user` read `new` where it read `old`."""
        self._rewire(user, lambda: user.replace_input_with(old, new))

    def set_args(self, user: Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Give `user` other arguments."""
        self._rewire(user, lambda: set_arguments(user, tuple(args), dict(kwargs)))

    def _rewire(self, user: Node, change: Callable[[], None]) -> None:
        """Let `change` change what a node reads, and write it down."""
        id = self.id_of(user)
        record = self.ledger.records[id]
        ended, former = len(self.ledger.ended_edges), len(self.ledger.former)
        self._journal.append(("args", id, user._args, user._kwargs, record, ended, former))
        change()
        inputs = tuple(dict.fromkeys(self.id_of(n) for n in user.all_input_nodes))
        for gone in record.inputs:
            if gone not in inputs:
                born = self.ledger.edge_born.get((gone, id), record.born)
                if born < self.step:
                    self.ledger.ended_edges.append(EdgeRecord(gone, id, born, self.step))
        for added in inputs:
            if added not in record.inputs:
                births = self.ledger.edge_born
                self._journal.append(("edge", births, (added, id), births.get((added, id))))
                births[added, id] = self.step
        args, kwargs = self._refs(user.args), self._refs(user.kwargs)
        # as text: sizes that are symbols must not be compared, that would add a guard to the program
        same = record.born < self.step and set(inputs) == set(record.inputs)
        if same and repr((args, kwargs)) != repr((record.args, record.kwargs)):
            self.ledger.former.append(FormerArguments(id, self.step, record.args, record.kwargs))
        self.ledger.records[id] = replace(record, args=args, kwargs=kwargs, inputs=inputs)

    def set_value(self, node: Node, value: Any) -> None:
        """Give a node another fake value."""
        id = self.id_of(node)
        self._journal.append(("val", id, node.meta.get("val"), self.ledger.records[id]))
        node.meta["val"] = value
        self.ledger.records[id] = replace(self.ledger.records[id], val=value)

    # ------------------------------------------------------------------ inside
    def _insert(self, point: Node, op: str, target: Any, args: Any, kwargs: Any, name: str) -> Node:
        graph = point.graph
        with graph.inserting_before(point):
            node = _create(graph, op, target, tuple(args), dict(kwargs), name)
        id = self.prefixes[graph] + node.name
        self.nodes[id] = node
        self._journal.append(("new", id))
        return node

    def _erase(self, node: Node) -> None:
        if node.users:
            raise RewriteError(f"'{self.id_of(node)}' cannot be taken away: it is read")
        id = self.id_of(node)
        record = self.ledger.records[id]
        self._journal.append(("erase", id, node, node.next, node._args, node._kwargs, record))
        self.ledger.records[id] = replace(record, died=self.step)
        del self.nodes[id]
        unlink(node)

    def _write(self, node: Node, born: int) -> None:
        id = self.id_of(node)
        if _mutates(node):
            self._mutating.append(id)
        self.ledger.records[id] = NodeRecord(
            id=id,
            op=node.op,
            target=node.target,
            args=self._refs(node.args),
            kwargs=self._refs(node.kwargs),
            inputs=tuple(self.id_of(n) for n in node.all_input_nodes),
            val=node.meta.get("val"),
            stack=module_stack(node),
            trace=node.meta.get("stack_trace") or "",
            born=born,
            died=None,
        )

    def _refs(self, value: Any) -> Any:
        return map_arg(value, lambda n: Ref(self.id_of(n)))

    def _fresh_name(self, graph: Graph, base: str) -> str:
        prefix, name, count = self.prefixes[graph], base, 0
        while prefix + name in self.ledger.records or name in graph._graph_namespace._used_names:
            count += 1
            name = f"{base}_{count}"
        return name

    def _set_kin(self, relation: dict[str, tuple[str, ...]], id: str, value: tuple[str, ...]) -> None:
        self._journal.append(("kin", relation, id, relation.get(id)))
        relation[id] = value


def _mutates(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _create(graph: Graph, op: str, target: Any, args: Any, kwargs: Any, name: str) -> Node:
    # given at once, fx searches the arguments for symbols leaf by leaf, which costs more than all the rest
    node = graph.create_node(op, target, (), {}, name=name)
    keep_name(node, name)  # fx counts on from names that have been, and would give the same place another one
    set_arguments(node, args, kwargs)
    return node
