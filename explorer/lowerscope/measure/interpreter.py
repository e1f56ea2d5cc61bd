"""Runs the lifted graph of an exported program node by node, and never changes the program.

`ExportedProgram.module()` is not used: it takes seconds to build for a large graph, fails on some module names, and
shares its buffers with the program, so that running it changes what it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx.node import map_aggregate, map_arg
from torch.utils import _pytree as pytree

from lowerscope.errors import MeasureError, first_line
from lowerscope.measure.casting import Casting
from lowerscope.measure.counts import attribute, node_op_name
from lowerscope.measure.sizes import bind, resolve
from lowerscope.measure.written import written_placeholders

if TYPE_CHECKING:
    from lowerscope.program import Program

Hook = Callable[[str, torch.fx.Node, Any], None]
"""Called with (node id, node, value) right after a node of a sub-graph has run."""

# How torch's allocators, on the CPU of each platform and on accelerators, say it.
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


class Cancelled(MeasureError):
    """The measurement was cancelled, by whoever asked for it."""

    def __init__(self) -> None:
        super().__init__("the measurement was cancelled: ask for it again when the program has settled")


@dataclass
class Run:
    """What one run of a program gave.

    Attributes:
        outputs: path of each user output (``out[0]``, ``out['a'][1]``) -> value.
        state: name of each buffer, parameter or input that the program writes to -> its value after the run.
        aliases: path of an output -> name of the input whose memory it shares.
        fallbacks: ids of the nodes that have no kernel in the cast dtype and were computed in their own.
        entered: the path of each sub-graph (``true_graph_0/``) that was run, in order, as often as it was.
        nonfinite: (id, operator) of the first node whose output is not finite though its inputs are, if watched.
    """

    outputs: dict[str, Any]
    state: dict[str, Any]
    aliases: dict[str, str] = field(default_factory=dict)
    fallbacks: list[str] = field(default_factory=list)
    entered: list[str] = field(default_factory=list)
    nonfinite: tuple[str, str] | None = None


class Interpreter:
    """Runs a program's graph as it stands: parameters, buffers and constants are arguments of the graph.

    Args:
        program: a Program; it is bit-identical afterwards, what it writes to is copied first.
        casting: computes in another floating dtype (see `Casting`); None keeps every dtype.
        hook: sees each value inside sub-graphs as it is made; `walk` gives those of the top graph.
        cancelled: polled before each node; when it returns True, `Cancelled` is raised.
        watch_nonfinite: look for the first node that makes an inf or a NaN out of finite numbers.
    """

    def __init__(
        self,
        program: Program,
        *,
        casting: Casting | None = None,
        hook: Hook | None = None,
        cancelled: Callable[[], bool] | None = None,
        watch_nonfinite: bool = False,
    ) -> None:
        self._exported = program.exported_program
        self._name = program.name
        self._casting = casting
        self._hook = hook
        self._cancelled = cancelled or (lambda: False)
        self._watch = watch_nonfinite
        self._last_uses: dict[torch.fx.Graph, dict[torch.fx.Node, list[torch.fx.Node]]] = {}
        self._sizes: dict[Any, int] = {}
        self._run = Run({}, {})

    def run(self, flat_inputs: Sequence[Any]) -> Run:
        """Run on the user inputs in the order of the placeholders (see `batches.flatten`).

        Raises:
            MeasureError: a node raises; the message names the node, its operator and the cause.
            Cancelled: `cancelled` said so.
        """
        return _result(self.walk(flat_inputs))

    def walk(self, flat_inputs: Sequence[Any]) -> Generator[tuple[str, torch.fx.Node, Any], None, Run]:
        """Like `run`, one node of the top graph at a time: yields (node id, node, value), returns the Run.

        A value is freed as soon as the walk goes on after its last use; sub-graphs are seen by the hook only. MeasureError
        and Cancelled are raised as by `run`.
        """
        self._run, self._sizes = Run({}, {}), {}
        module, signature = self._exported.graph_module, self._exported.graph_signature
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        written = written_placeholders(module)
        values: list[Any] = []
        inputs = iter(flat_inputs)
        for node, spec in zip(placeholders, signature.input_specs, strict=True):
            value = next(inputs, None) if spec.kind is InputKind.USER_INPUT else self._constant(spec)
            if isinstance(value, torch.Tensor):
                value = value.detach()
                cast = self._casting.tensor(value) if self._casting else value
                value = cast.clone() if cast is value and node in written else cast
            bind(node, value, self._sizes)
            values.append(value)
        results = yield from self._walk(module, values, "")
        self._collect(results, placeholders, values, written)
        return self._run

    def evaluate(
        self,
        node: torch.fx.Node,
        environment: dict[torch.fx.Node, Any],
        module: torch.fx.GraphModule | None = None,
        path: str = "",
    ) -> Any:
        """The value of one node, on values of its inputs that need not come from a run.

        module, path: the sub-graph that holds the node, and its path (``true_graph_0/``); the top graph by default.
        MeasureError: the node raises.
        """
        if node.op == "get_attr":
            return self._attribute(module or self._exported.graph_module, str(node.target), path)
        return self._call(node, environment, path)

    def _collect(
        self, results: Any, placeholders: list[torch.fx.Node], values: list[Any], written: set[torch.fx.Node]
    ) -> None:
        signature = self._exported.graph_signature
        names = [
            spec.arg.name if spec.kind is InputKind.USER_INPUT else str(spec.target) for spec in signature.input_specs
        ]
        for node, value, name in zip(placeholders, values, names, strict=True):
            if node in written:
                self._run.state[name] = value
        users = []
        for spec, value in zip(signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                users.append(spec.arg.value if isinstance(spec.arg, ConstantArgument) else value)
            elif spec.target is not None:
                self._run.state[spec.target] = value
        self._run.outputs = dict(zip(output_paths(self._exported), users, strict=True))
        memory = {_storage(value): name for value, name in zip(values, names, strict=True) if _storage(value)}
        for path, value in self._run.outputs.items():
            if _storage(value) in memory:
                self._run.aliases[path] = memory[_storage(value)]

    def _constant(self, spec: Any) -> Any:
        if spec.kind is InputKind.TOKEN:
            return torch.ops.prims._make_token()
        for table in (self._exported.state_dict, self._exported.constants):
            if spec.target in table:
                return table[spec.target]
        raise MeasureError(
            f"{self._name} has no value for its {spec.kind.name.lower()} {spec.target!r}: export it again"
        )

    def _walk(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], path: str
    ) -> Generator[tuple[str, torch.fx.Node, Any], None, Any]:
        graph = module.graph
        if path:
            self._run.entered.append(path)
        last_uses = self._last_uses.get(graph)
        if last_uses is None:
            last_uses = self._last_uses[graph] = _last_uses(graph)
        environment: dict[torch.fx.Node, Any] = {}
        feed = iter(inputs)
        for node in graph.nodes:
            if node.op == "output":
                return map_arg(node.args[0], environment.__getitem__)
            if self._cancelled():
                raise Cancelled
            if node.op == "placeholder":
                environment[node] = next(feed)
            elif node.op == "get_attr":
                environment[node] = self._attribute(module, str(node.target), path)
            else:
                environment[node] = self._call(node, environment, path)
            if self._hook is not None and path and node.op != "get_attr":
                self._hook(path + node.name, node, environment[node])
            if not path:
                yield node.name, node, environment[node]
            for used in last_uses.get(node, ()):
                del environment[used]
        raise MeasureError(f"the graph {path or 'of ' + self._name!r} has no output: it cannot be run")

    def _attribute(self, module: torch.fx.GraphModule, target: str, path: str) -> Any:
        value = attribute(module, target)
        if isinstance(value, torch.fx.GraphModule):
            # A higher-order operator calls its sub-graphs itself: what it calls is this interpreter.
            return lambda *args: _result(self._walk(value, args, f"{path}{target}/"))
        if isinstance(value, FakeTensor):  # torch.export does not lift what a hints_wrapper's function closes over
            raise MeasureError(
                f"'{path}{target}' of {self._name} is a weight without values, left so by torch.export: hand it to the "
                "function of that sub-graph as an input"
            )
        if isinstance(value, torch.Tensor) and self._casting:
            return self._casting.tensor(value)
        return value

    def _call(self, node: torch.fx.Node, environment: dict[torch.fx.Node, Any], path: str) -> Any:
        def argument(value: Any) -> Any:
            if isinstance(value, torch.fx.Node):
                return environment[value]
            return self._size(value) if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) else value

        args: Any = map_aggregate(node.args, argument)
        kwargs: Any = map_aggregate(dict(node.kwargs), argument)
        try:
            # Around each call, not around the walk: a suspended walk must leave its caller's mode alone.
            with torch.no_grad():
                if self._casting is None:
                    value = node.target(*args, **kwargs)  # pyright: ignore[reportCallIssue]
                else:
                    value, fell_back = self._casting.call(node, args, kwargs)
                    if fell_back:
                        self._run.fallbacks.append(path + node.name)
        except MeasureError:
            raise
        except MemoryError as error:
            raise _out_of_memory(path + node.name, node) from error
        except Exception as error:
            if any(phrase in str(error) for phrase in _OUT_OF_MEMORY):
                raise _out_of_memory(path + node.name, node) from error
            where = f"{node_op_name(node)} at node {path + node.name}"
            raise MeasureError(f"{where} raises: {first_line(error)}") from error
        if self._watch and self._run.nonfinite is None and not _finite(value) and _finite((args, kwargs)):
            self._run.nonfinite = (path + node.name, node_op_name(node))
        return value

    def _size(self, value: Any) -> Any:
        """A size that a graph carries as an expression of the inputs' sizes, instead of as a node."""
        result = resolve(value, self._sizes)
        if result is None:
            raise MeasureError(f"the size {value} does not follow from the inputs' sizes: export the program again")
        return result


def output_paths(exported: torch.export.ExportedProgram) -> list[str]:
    """The path of each user output in what the module returned: ``out``, ``out[1]``, ``out['logits'][0]``."""
    spec = exported.call_spec.out_spec
    count = sum(s.kind is OutputKind.USER_OUTPUT for s in exported.graph_signature.output_specs)
    if spec is None or spec.num_leaves != count:
        return [f"out[{index}]" for index in range(count)]
    leaves, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(count)), spec))
    return ["out" + pytree.keystr(path) for path, _ in leaves]


def _result(walk: Generator[Any, None, Any]) -> Any:
    """What a walk returns at its end."""
    while True:
        try:
            next(walk)
        except StopIteration as end:
            return end.value


def _last_uses(graph: torch.fx.Graph) -> dict[torch.fx.Node, list[torch.fx.Node]]:
    """Node -> the nodes whose values nothing reads after it has run."""
    seen: set[torch.fx.Node] = set()
    last: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for node in reversed(graph.nodes):
        freed = [used for used in node.all_input_nodes if used not in seen]
        if not node.users and node.op != "output":
            freed.append(node)
        seen.update(freed)
        if freed:
            last[node] = freed
    return last


def _finite(value: Any) -> bool:
    return all(
        bool(torch.isfinite(leaf).all())
        for leaf in pytree.tree_leaves(value)
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    )


def _storage(value: Any) -> int | None:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.numel() == 0:
        return None
    return value.untyped_storage().data_ptr()


def _out_of_memory(node_id: str, node: torch.fx.Node) -> MeasureError:
    return MeasureError(
        f"out of memory at node {node_id} ({node_op_name(node)}): measure on smaller inputs, or on fewer at a time"
    )
