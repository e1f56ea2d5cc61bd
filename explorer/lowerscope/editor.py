"""Editor: the one place where a graph is changed.

It copies the program's graph once, writes every change into a journal (so that any number of steps can be taken back
exactly), keeps the ledger of lives and provenance, names new nodes so that a name never stands for two nodes, and adds
constants as export would. Nothing here recompiles, retraces or validates; that happens when a snapshot is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from lowerscope.errors import RewriteError
from lowerscope.fake_run import FakeRunner
from lowerscope.graph_copy import copy_node, keep_name
from lowerscope.ledger import EdgeRecord, Ledger, NodeRecord, Ref, module_stack, sub_graph_paths
from lowerscope.pattern import Match
from lowerscope.program import Program
from lowerscope.subgraph_constants import outer_operand, with_operand

_INHERITED_META = ("nn_module_stack", "stack_trace", "source_fn_stack", "torch_fn", "custom")
_KIND_PREFIX = {"parameter": "p_", "buffer": "b_", "constant": "c_"}
_TRAILING_NUMBER = re.compile(r"^(.*?)(?:_(\d+))?$")


@dataclass(frozen=True, slots=True)
class NewConstant:
    """A constant that a rewrite added: its placeholder, the one whose kind it has, where it is kept, and its tensor."""

    name: str
    like: str
    key: str
    tensor: torch.Tensor


class Editor:
    """A changeable copy of a program's graph and sub-graphs, with journal, ledger and constants.

    It also answers a `Check`'s questions about the graph (`lowerscope.check.Surroundings`).
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.graphs: dict[str, Graph] = {}
        self.nodes: dict[str, Node] = {}
        self.ledger = Ledger()
        self.step = 0
        self.new_constants: dict[str, NewConstant] = {}
        self.profile: Mapping[str, Any] = {}
        self.skipped: Callable[[str, Node], str | None] = lambda id, node: None
        self.memo: dict[Any, Any] = {}
        self._prefix: dict[Graph, str] = {}
        self._operands: dict[str, Node] = {}  # sub-graph placeholder id -> the node outside that it stands for
        self._inner_constants: dict[tuple[str, str], str] = {}  # (sub-graph, new constant) -> its placeholder there
        self._journal: list[tuple[Any, ...]] = []
        self._marks: dict[int, int] = {0: 0}  # step -> length of the journal just after it
        self._constants_by_key: dict[Any, str] = {}
        self._kept_keys = {spec.target for spec in program.specs.values()}  # names that tensors are kept under
        self._match: Match | None = None
        self._made: list[str] = []
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
        self._prefix[graph] = prefix
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
        return self._prefix[node.graph] + node.name

    def is_skipped(self, node: Node) -> bool:
        """Whether the recipe tells to leave the node alone."""
        return self.skipped(self.id_of(node), node) is not None

    def skipped_by(self, node: Node) -> str:
        """What on the skip list covers the node."""
        return self.skipped(self.id_of(node), node) or ""

    def is_constant(self, node: Node) -> bool:
        """Whether the node is a parameter, buffer or lifted constant that nothing writes to."""
        return self._constant_name(node) is not None

    def constant_value(self, node: Node) -> torch.Tensor:
        """The tensor of a constant. Weights are the program's own: never write to it."""
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

    # ------------------------------------------------------------------ one step
    @contextmanager
    def rewriting(self, match: Match) -> Any:
        """Open a step for `match`. Left by an exception, or without a change, it leaves the graph as it was."""
        mark = self.mark()
        self.step += 1
        self._match, self._made = match, []
        try:
            yield self
        except BaseException:
            self.undo_to(mark)
            raise
        finally:
            self._match = None

    def call(
        self,
        target: Any,
        *args: Any,
        name: str | None = None,
        like: Node | None = None,
        before: Node | None = None,
        **kwargs: Any,
    ) -> Node:
        """Insert a call of `target` before the match's output (or `before`), and return it.

        Its fake value is computed, memoised by op, shapes, dtypes, strides and literals. Module path and source line
        come from `like`, by default from what the match's nodes have in common; nothing that describes rank or axis
        order is inherited. `name` is the stem of its name (default: the op's).
        """
        return self.insert_call(target, args, kwargs, name=name, like=like, before=before)

    def insert_call(
        self,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        name: str | None = None,
        like: Node | None = None,
        before: Node | None = None,
        val: Any = None,
    ) -> Node:
        """As `call`, with the op's arguments in a tuple and a dict. `val`: the fake value, where it is known."""
        if self._match is None:
            raise RewriteError("nodes are only made inside a rewrite")
        origin = like if like is not None else self._match.output
        point = before if before is not None else self._match.output
        stem = name or _stem(target)
        node = self._insert(
            point, "call_function", target, args, kwargs, self._fresh(point.graph, stem, self._match.output)
        )
        node.meta.update({k: origin.meta[k] for k in _INHERITED_META if k in origin.meta})
        if like is None:
            node.meta["nn_module_stack"] = self._common_stack(self._match.nodes)
        node.meta["val"] = self._fake.run(target, args, kwargs) if val is None else self._fake.adopt(val)
        self._write(node, born=self.step)
        self._made.append(self.id_of(node))
        return node

    def constant(
        self, tensor: torch.Tensor | Callable[[], torch.Tensor], like: Node, suffix: str, key: Any = None
    ) -> Node:
        """A new constant of the kind of `like` (a constant's placeholder), and its placeholder.

        `tensor` may be a function, called once for all times that the same `key` is asked for in this session. The same
        key within one lowering gives the same constant. For a match in a sub-graph it is brought in as an operand.
        RewriteError: `like` is no constant.
        """
        anchor = self.constant_origin(like)
        if not self.is_constant(anchor):
            raise RewriteError(f"'{self.id_of(like)}' is no constant to make another one like")
        full_key = (anchor.name, suffix, key)
        known = self._constants_by_key.get(full_key)
        if known is None:
            value = self.remember(full_key, tensor) if callable(tensor) else tensor
            known = self._add_constant(value.detach(), anchor, suffix)
            self._constants_by_key[full_key] = known
            self._journal.append(("key", full_key))
        node = self.nodes[known]
        return node if self._match is None else self._brought_into(self._prefix[self._match.output.graph], node)

    def _brought_into(self, prefix: str, constant: Node) -> Node:
        """The placeholder by which the sub-graph at `prefix` reads a constant of the top graph; a new one where it must."""
        if not prefix:
            return constant
        known = self._inner_constants.get((prefix, constant.name))
        if known is not None:
            return self.nodes[known]
        path, outer = prefix[:-1], prefix[:-1].rpartition("/")[0]
        outer = f"{outer}/" if outer else ""
        operand = self._brought_into(outer, constant)
        target = path[len(outer) :]
        holders = [n for n in self.graphs[outer].find_nodes(op="get_attr") if str(n.target) == target]
        calls = dict.fromkeys(u for holder in holders for u in holder.users)
        for call in calls:
            held = [n for n in call.all_input_nodes if n.op == "get_attr" and f"{outer}{n.target}/" in self.graphs]
            for holder in held:  # every branch of a cond takes the same operands
                self._add_placeholder(f"{outer}{holder.target}/", constant, operand)
            self.set_args(call, with_operand(call, operand), call.kwargs)
        return self.nodes[self._inner_constants[prefix, constant.name]]

    def _add_placeholder(self, prefix: str, constant: Node, operand: Node) -> None:
        if (prefix, constant.name) in self._inner_constants:
            return
        graph = self.graphs[prefix]
        last = [n for n in graph.nodes if n.op == "placeholder"][-1:]
        name = self._fresh_name(graph, constant.name)
        with graph.inserting_after(last[0]) if last else graph.inserting_before(next(iter(graph.nodes))):
            node = graph.create_node("placeholder", name, (), {}, name=name)
        id = self.id_of(node)
        self.nodes[id] = node
        self._journal.append(("new", id))
        node.meta["val"] = constant.meta["val"]
        self._write(node, born=self.step)
        self._operands[id] = operand
        self._inner_constants[prefix, constant.name] = id
        self._journal.append(("inner", (prefix, constant.name), id))

    def remember(self, key: Any, compute: Callable[[], Any]) -> Any:
        """`compute()`, once per key for as long as this editor lives (toggling back and forth costs nothing)."""
        if key not in self.memo:
            self.memo[key] = compute()
        return self.memo[key]

    def replace(self, old: Node, new: Node, *, readers: Iterable[Node] | None = None) -> None:
        """Let every reader of `old` (or just `readers`) read `new` instead."""
        for user in list(old.users) if readers is None else list(readers):
            if user is not new:
                self.set_input(user, old, new)

    def set_input(self, user: Node, old: Node, new: Node) -> None:
        """Let `user` read `new` where it read `old`."""
        self.set_args(
            user,
            map_arg(user.args, lambda n: new if n is old else n),
            map_arg(user.kwargs, lambda n: new if n is old else n),
        )

    def set_args(self, user: Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Give `user` other arguments."""
        id = self.id_of(user)
        record = self.ledger.records[id]
        self._journal.append(("args", id, record, len(self.ledger.ended_edges)))
        user.args, user.kwargs = tuple(args), dict(kwargs)
        inputs = tuple(dict.fromkeys(self.id_of(n) for n in user.all_input_nodes))
        for gone in record.inputs:
            if gone not in inputs:
                born = self.ledger.edge_born.get((gone, id), record.born)
                if born < self.step:
                    self.ledger.ended_edges.append(EdgeRecord(gone, id, born, self.step))
        for added in inputs:
            if added not in record.inputs:
                self._journal.append(("edge", (added, id), self.ledger.edge_born.get((added, id))))
                self.ledger.edge_born[(added, id)] = self.step
        self.ledger.records[id] = replace(
            record, args=self._refs(user.args), kwargs=self._refs(user.kwargs), inputs=inputs
        )

    def refresh(self, node: Node) -> None:
        """Compute a node's fake value again, after its arguments have changed."""
        self.set_value(node, self._fake.run(node.target, node.args, node.kwargs))

    def set_value(self, node: Node, value: Any) -> None:
        """Give a node another fake value."""
        id = self.id_of(node)
        self._journal.append(("val", id, node.meta.get("val"), self.ledger.records[id]))
        node.meta["val"] = value
        self.ledger.records[id] = replace(self.ledger.records[id], val=value)

    def finish(self, result: Node | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Close the step: the replacement takes over, what is dead goes, provenance is written.

        Returns the ids taken away and the ids made. Call it inside `rewriting`.
        """
        match = self._match
        if match is None:
            raise RewriteError("there is no rewrite to finish")
        taken = [self.id_of(n) for n in match.nodes]
        if result is not None and result is not match.output:
            self.replace(match.output, result)
        gone = self._erase_dead(match.nodes)
        if result is not None and not self._made and not gone:
            raise RewriteError("the rewrite changed nothing")
        made = [id for id in self._made if id in self.nodes]
        for id in self._made:
            if id not in self.nodes:
                continue
            self._relate(id, taken)
        if not made and result is not None:
            self._adopt(self.id_of(result), [t for t in taken if t in gone])
        self._marks[self.step] = len(self._journal)
        return tuple(gone), tuple(made)

    # ------------------------------------------------------------------ taking back
    def mark(self) -> tuple[int, int]:
        """A point to come back to with `undo_to`."""
        return len(self._journal), self.step

    def mark_after(self, step: int) -> tuple[int, int]:
        """The point just after a step that has been closed."""
        return self._marks[step], step

    def undo_to(self, mark: tuple[int, int]) -> None:
        """Take back every change since `mark`, exactly."""
        length, step = mark
        while len(self._journal) > length:
            self._undo(self._journal.pop())
        self.step = step

    def _undo(self, change: tuple[Any, ...]) -> None:
        kind = change[0]
        records, ledger = self.ledger.records, self.ledger
        if kind == "new":
            id = change[1]
            node = self.nodes.pop(id)
            _forget_name(node)
            node.graph.erase_node(node)
            records.pop(id, None)  # none yet, when the op itself refused its arguments
        elif kind == "erase":
            _, record, following, meta = change
            self._recreate(record, following, meta)
        elif kind == "args":
            _, id, record, ended = change
            node = self.nodes[id]
            node.args, node.kwargs = self._nodes_of(record.args), self._nodes_of(record.kwargs)
            records[id] = record
            del ledger.ended_edges[ended:]
        elif kind == "edge":
            _, pair, born = change
            if born is None:
                ledger.edge_born.pop(pair, None)
            else:
                ledger.edge_born[pair] = born
        elif kind == "val":
            _, id, value, record = change
            self.nodes[id].meta["val"] = value
            records[id] = record
        elif kind == "kin":
            _, relation, id, before = change
            if before is None:
                relation.pop(id, None)
            else:
                relation[id] = before
        elif kind == "constant":
            self._kept_keys.discard(self.new_constants.pop(change[1]).key)
        elif kind == "inner":
            del self._inner_constants[change[1]], self._operands[change[2]]
        elif kind == "key":
            del self._constants_by_key[change[1]]

    # ------------------------------------------------------------------ inside
    def _insert(self, point: Node, op: str, target: Any, args: Any, kwargs: Any, name: str) -> Node:
        graph = point.graph
        with graph.inserting_before(point):
            node = _create(graph, op, target, tuple(args), dict(kwargs), name)
        id = self._prefix[graph] + node.name
        self.nodes[id] = node
        self._journal.append(("new", id))
        return node

    def _write(self, node: Node, born: int) -> None:
        id = self.id_of(node)
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

    def _nodes_of(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return self.nodes[value]
        if isinstance(value, tuple):
            return tuple(self._nodes_of(v) for v in value)
        if isinstance(value, list):
            return [self._nodes_of(v) for v in value]
        if isinstance(value, dict):
            return {k: self._nodes_of(v) for k, v in value.items()}
        if isinstance(value, slice):
            return slice(self._nodes_of(value.start), self._nodes_of(value.stop), self._nodes_of(value.step))
        return value

    def _fresh(self, graph: Graph, stem: str, output: Node) -> str:
        """A name that no node of this lowering has or had, the same for the same place whatever was done elsewhere."""
        found = _TRAILING_NUMBER.match(output.name)
        number = found.group(2) if found else None
        return self._fresh_name(graph, stem if number is None else f"{stem}_{number}")

    def _fresh_name(self, graph: Graph, base: str) -> str:
        prefix, name, count = self._prefix[graph], base, 0
        while prefix + name in self.ledger.records or name in graph._graph_namespace._used_names:
            count += 1
            name = f"{base}_{count}"
        return name

    def _common_stack(self, nodes: Sequence[Node]) -> dict[str, Any]:
        stacks = [list((n.meta.get("nn_module_stack") or {}).items()) for n in nodes]
        common: list[tuple[str, Any]] = []
        for level in zip(*stacks, strict=False):
            if any(item[1] != level[0][1] for item in level):
                break
            common.append(level[0])
        return dict(common)

    def _erase_dead(self, nodes: Sequence[Node]) -> list[str]:
        """Erase the nodes that nothing reads any more, and whatever only they read. Constants stay where they are."""
        gone: list[str] = []
        todo, taken = list(nodes), set(nodes)
        while todo:
            node = todo.pop()
            if node._erased or node.users or node.op != "call_function":
                continue
            # what a match has taken goes whatever torch thinks of it (dropout, an in-place op); what only fed it does not
            if node not in taken and node.is_impure():
                continue
            id = self.id_of(node)
            feeding = node.all_input_nodes
            self._erase(node)
            gone.append(id)
            todo.extend(n for n in feeding if not n.users)
            todo.extend(n for n in nodes if not n._erased and not n.users)
        return gone

    def _erase(self, node: Node) -> None:
        id = self.id_of(node)
        following = node.next
        record = self.ledger.records[id]
        next_id = None if following.op == "root" else self.id_of(following)
        self._journal.append(("erase", record, next_id, node.meta))
        self.ledger.records[id] = replace(record, died=self.step)
        del self.nodes[id]
        node.graph.erase_node(node)

    def _recreate(self, record: NodeRecord, following: str | None, meta: dict[str, Any]) -> None:
        # fx loses a node that is erased and put back, so an equal one is made; ids, not nodes, tell who is who
        graph = self.graphs[record.prefix]
        name = record.id.rpartition("/")[2]
        graph._graph_namespace._used_names.discard(name)
        point = self.nodes[following] if following is not None else graph._root
        with graph.inserting_before(point):
            args, kwargs = self._nodes_of(record.args), self._nodes_of(record.kwargs)
            node = _create(graph, record.op, record.target, args, kwargs, name)
        keep_name(node, name)
        node.meta = meta
        self.nodes[record.id] = node
        self.ledger.records[record.id] = record

    def _relate(self, made: str, taken: Sequence[str]) -> None:
        self._set_kin(self.ledger.parents, made, tuple(taken))
        for id in taken:
            self._set_kin(self.ledger.made, id, (*self.ledger.made.get(id, ()), made))

    def _adopt(self, survivor: str, gone: Sequence[str]) -> None:
        """A rewrite that made nothing: a node that was there already stands for those that went."""
        for id in gone:
            self._set_kin(self.ledger.made, id, (survivor,))

    def _set_kin(self, relation: dict[str, tuple[str, ...]], id: str, value: tuple[str, ...]) -> None:
        self._journal.append(("kin", relation, id, relation.get(id)))
        relation[id] = value

    def _add_constant(self, tensor: torch.Tensor, like: Node, suffix: str) -> str:
        root = self._root_constant(like.name)
        kind = self.program.constant_kind(root)
        base = self.new_constants[like.name].key if like.name in self.new_constants else self.program.specs[root].target
        key = self._fresh_key(f"{base}_{suffix}")
        name = self._fresh_name(self.graphs[""], _KIND_PREFIX[kind] + re.sub(r"\W", "_", key))
        value = torch.nn.Parameter(tensor, requires_grad=False) if kind == "parameter" else tensor
        with like.graph.inserting_after(like):
            node = like.graph.create_node("placeholder", name, (), {}, name=name)
        self.nodes[name] = node
        self._journal.append(("new", name))
        node.meta.update({k: v for k, v in like.meta.items() if k in ("custom", "delegate_constant_tag")})
        node.meta["val"] = self._fake.from_tensor(value)
        self._write(node, born=self.step)
        self.new_constants[name] = NewConstant(name, like.name, key, value)
        self._journal.append(("constant", name))
        self._relate_constant(name, like.name)
        return name

    def _relate_constant(self, made: str, source: str) -> None:
        self._set_kin(self.ledger.parents, made, (source,))
        self._set_kin(self.ledger.made, source, (*self.ledger.made.get(source, ()), made))

    def _root_constant(self, name: str) -> str:
        while name in self.new_constants:
            name = self.new_constants[name].like
        return name

    def _fresh_key(self, base: str) -> str:
        """A name under which neither the program nor a rewrite keeps a tensor yet."""
        key, count = base, 0
        while key in self._kept_keys:
            count += 1
            key = f"{base}_{count}"
        self._kept_keys.add(key)
        return key


def _create(graph: Graph, op: str, target: Any, args: Any, kwargs: Any, name: str) -> Node:
    # given at once, fx searches the arguments for symbols leaf by leaf, which costs more than all the rest
    node = graph.create_node(op, target, (), {}, name=name)
    if args:
        node.args = args
    if kwargs:
        node.kwargs = kwargs
    return node


def _stem(target: Any) -> str:
    """The op's plain name: "convolution" of aten.convolution.default."""
    schema = getattr(target, "_schema", None)
    name = schema.name.rpartition("::")[2] if schema is not None else getattr(target, "__name__", "call")
    return re.sub(r"\W", "_", name).strip("_") or "call"


def _forget_name(node: Node) -> None:
    """Free the name, so that doing the same again gives the same id."""
    space = node.graph._graph_namespace
    space._used_names.discard(node.name)
    space._obj_to_name.pop(node, None)
