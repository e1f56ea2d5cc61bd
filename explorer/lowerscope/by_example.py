"""A pattern by example: a function to search for, and one to put in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx

from lowerscope import decompose
from lowerscope.alignment import Aligner, Alignment
from lowerscope.arguments import value_of
from lowerscope.check import Check, Condition
from lowerscope.editor import Editor
from lowerscope.errors import LowerscopeError, RecipeError
from lowerscope.fake_run import sizes_kept
from lowerscope.lowering import lower
from lowerscope.ops import display_name
from lowerscope.pattern import REGISTRY, Declined, Kind, Match, Pattern
from lowerscope.program import capture
from lowerscope.recipe import Recipe
from lowerscope.splice import splice
from lowerscope.target import TARGETS, pipeline

#: What a condition of the user's is given: the match's inputs by the search function's argument names.
Where = Callable[[dict[str, Any]], bool]


class ExamplePattern(Pattern):
    """A pattern whose match is a traced graph. Made by `pattern_from`."""

    search: Graph
    aligner_options: dict[str, bool]
    constants: dict[Node, torch.Tensor]
    inputs: list[Node]
    where: Sequence[Where]
    replacement: Callable[..., Any]

    def anchors_in(self, editor: Editor) -> Iterable[Node]:
        """Where the output's op is, and where another op follows what should feed it: that is explained, and no match."""
        output = _output(self.search)
        feeding = {n.target for n in output.all_input_nodes if n.op == "call_function"}
        found: list[Node] = []
        for graph in editor.graphs.values():
            here = set(graph.find_nodes(op="call_function", target=output.target, sort=False))
            fed = [n for op in feeding for n in graph.find_nodes(op="call_function", target=op, sort=False)]
            others = {u for n in fed for u in n.users if u.op == "call_function"}
            # a node that the output's op reads is an extra one in between: that is told at the output's op
            found += sorted(here | {n for n in others if here.isdisjoint(n.users)})
        return found

    def match(self, anchor: Node, check: Check) -> Match | None:
        output = _output(self.search)
        aligner = Aligner(self.constants, **self.aligner_options)
        if anchor.target is not output.target:
            self._explain_other_op(anchor, output, aligner, check)
        check.that("ends", True, at=anchor, expected=display_name(output.target), actual=display_name(output.target))
        found = aligner.align(output, anchor, check)
        calls = [n for n in self.search.nodes if n.op == "call_function"]
        best = found if found is not None else aligner.best
        check.touch(*[n for n in best.nodes(calls) if n is not anchor])
        begins = found is not None or len(best.nodes(calls)) > 1 or _close(aligner)
        check.that(
            "begins",
            begins,
            at=anchor,
            expected=_producers(output),
            actual=_fed_by(anchor),
        )
        for call in reversed(calls):  # from the anchor upstream, as it was aligned
            self._state(call, best, aligner, found is not None, check)
        assert found is not None
        self._no_escape(found, calls, output, check)
        bound = {p.name: found.met[p] for p in self.inputs}
        for where in self.where:
            holds = bool(where(bound))
            check.that(_name_of(where), holds, at=anchor, expected="true", actual=str(holds).lower())
        nodes = tuple(sorted(dict.fromkeys(found.nodes(calls))))
        return Match(anchor, nodes, anchor, {"bound": [found.met[p] for p in self.inputs]})

    def _explain_other_op(self, anchor: Node, output: Node, aligner: Aligner, check: Check) -> None:
        """State what of the pattern feeds a node of another op than the pattern's last, and that it ends otherwise."""
        met: dict[Node, Any] = {}
        for call in (n for n in output.all_input_nodes if n.op == "call_function"):
            for given in anchor.all_input_nodes:
                found = aligner.align(call, given, check)
                if found is not None:
                    met.update(found.met)
                    break
        if met:
            check.that("begins", True, at=anchor, expected=_producers(output), actual=_fed_by(anchor))
        for call, node in met.items():
            if call.op == "call_function":
                check.touch(node)
                check.that(
                    f"node_{call.name}", True, at=node, expected=_described(call), actual=display_name(call.target)
                )
        check.fail("ends", at=anchor, expected=display_name(output.target), actual=display_name(anchor.target))

    def _state(self, call: Node, best: Alignment, aligner: Aligner, matched: bool, check: Check) -> None:
        name, difference = f"node_{call.name}", aligner.difference
        reader = difference is not None and difference.pattern_node is call
        placed = call in best.met and not (reader and not matched)
        if matched or (placed and not _fails_at(call, difference)):
            check.that(name, True, at=best.met[call], expected=_described(call), actual=display_name(call.target))
        elif difference is not None and _fails_at(call, difference):
            check.fail(
                name, at=difference.graph_node if difference.graph_node is not None else best.met.get(call), expected=difference.expected,
                actual=difference.actual, because=difference.kind,
            )  # fmt: skip

    def _no_escape(self, found: Alignment, calls: list[Node], output: Node, check: Check) -> None:
        taken = set(found.nodes(calls))
        inner = [n for n in taken if n is not found.met[output]]
        escaping = next(((n, u) for n in sorted(inner) for u in n.users if u not in taken), None)
        check.that(
            "no_escape", escaping is None, at=escaping[1] if escaping else found.met[output], expected="readers inside the match",
            actual=f"'{escaping[0].name}' is read by '{escaping[1].name}' too" if escaping else "readers inside the match",
        )  # fmt: skip

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        bound: list[Any] = match["bound"]
        values = [value_of(b) if isinstance(b, Node) else b for b in bound]
        try:
            with edit.fake_mode, torch.no_grad(), sizes_kept(edit.fake_mode, self.name):
                graph = make_fx(self.replacement, decomposition_table=decompose.table())(*values).graph
        except Exception as error:  # the user's function, on shapes it was not written for: said with its own words
            return Declined(f"the replacement does not run on these inputs: {type(error).__name__}: {error}")
        return splice(graph, bound, match.anchor, edit)

    def sentence(self, match: Match) -> str:
        count = len(match.nodes)
        return f"{count} node{'s' if count != 1 else ''} become what {self.name}'s replacement computes."


def pattern_from(
    search_fn: Callable[..., Any],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[torch.Tensor],
    *,
    where: Sequence[Where] = (),
    name: str | None = None,
    targets: Iterable[str] = ("*",),
    after: Iterable[str] = ("core_aten", "fold_constants"),
    before: Iterable[str] = (),
    any_dtype: bool = False,
    any_rank: bool = False,
) -> ExamplePattern:
    """Make and register a pattern by example: what `search_fn` computes becomes what `replace_fn` computes.

    Both take the same tensors, traced on `example_inputs` into core ATen as the first of `targets` has it: some keep ops
    whole that others decompose. "*" stands for the one that keeps the fewest. An argument of `search_fn` meets any value of
    the example's dtype and rank (`any_dtype`, `any_rank` lift that). Literals are compared, with defaults written out:
    2 equals 2.0, -0.0 does not equal 0.0, NaN equals NaN, and a constant of the program equals the literal that it holds.
    Operands of commutative ops are tried in both orders. A value inside the match that somebody else reads ends it.

    where: functions of {argument name: the fx node or literal it met} -> bool; each is a condition of that function's
    name. name: default, the search function's. Registering a name again replaces the pattern. Returns the pattern.

    RecipeError: the search function cannot be traced, gives more than one tensor, computes nothing, or is a lambda and
    no name is given; or the name is taken.
    """
    title = name or getattr(search_fn, "__name__", "<unnamed>")
    if not name and title.startswith("<"):
        raise RecipeError("a search function that is a lambda has no name to go by: give the pattern one with name=")
    targets = tuple(targets)
    graph, constants = _traced(search_fn, example_inputs, title, targets)
    calls = [n for n in graph.nodes if n.op == "call_function"]
    output = _output(graph)
    if output.op != "call_function":
        raise RecipeError(f"'{title}' computes nothing: its search function gives back an input")
    conditions = [
        Condition("ends", f"its op is {display_name(output.target)}"),
        Condition("begins", f"it is fed by {_producers(output)}, as in {title}"),
    ]
    conditions += [Condition(f"node_{c.name}", _described(c)) for c in reversed(calls)]
    conditions.append(Condition("no_escape", "values inside the match are read only inside it"))
    conditions += [Condition(_name_of(w), (w.__doc__ or _name_of(w)).strip().split("\n")[0]) for w in where]
    attributes = {
        "__doc__": (search_fn.__doc__ or f"{title}(...) = {replace_fn.__name__}(...)"),
        "__module__": search_fn.__module__,
        "name": title,
        "kind": Kind.FUSION,
        "anchors": (output.target,),
        "conditions": tuple(conditions),
        "nothing_to_fuse": ("ends", "begins") if len(calls) > 1 else ("ends",),
        "search": graph,
        "constants": constants,
        "inputs": [n for n in graph.nodes if n.op == "placeholder" and n not in constants],
        "where": tuple(where),
        "replacement": staticmethod(replace_fn),
        "aligner_options": {"any_dtype": any_dtype, "any_rank": any_rank},
        "targets": targets,
        "after": tuple(after),
        "before": tuple(before),
        "yours": True,
    }
    made = type("ExampleOf_" + title, (ExamplePattern,), attributes)()
    REGISTRY.add(made)
    return made


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def _traced(
    function: Callable[..., Any], inputs: Sequence[torch.Tensor], title: str, targets: Sequence[str]
) -> tuple[Graph, dict[Node, torch.Tensor]]:
    if not all(isinstance(i, torch.Tensor) for i in inputs) or isinstance(inputs, torch.Tensor):
        raise RecipeError(
            f"the example inputs of '{title}' are a sequence of tensors, such as [torch.randn(1, 4, 8, 8)]"
        )
    # torch.export takes one tensor given twice for one input, and the pattern would ask for one value in both places
    apart = tuple(t.clone() if any(t is other for other in inputs[:i]) else t for i, t in enumerate(inputs))
    try:
        program = capture(_Function(function).eval(), apart, name=title)
        # core ATen with its constants folded, as the pattern meets a program: what is searched for is else looked for as it is
        recipe = Recipe(_form(targets))
        lowered = lower(program, recipe.disable(*_others(recipe.target))).program
    except LowerscopeError as error:
        raise RecipeError(f"the search function of '{title}' cannot be traced: {error}") from error
    graph = lowered.graph
    _named_as_arguments(graph, function, lowered)
    returned = graph.output_node().args[0]
    if not isinstance(returned, tuple) or len(returned) != 1:
        raise RecipeError(f"the search function of '{title}' gives several values: a pattern gives one tensor")
    return graph, {n: lowered.constants[n.name] for n in graph.nodes if n.name in lowered.constants}


def _form(targets: Sequence[str]) -> str:
    """The target whose core ATen an example is traced into."""
    fewest = min(TARGETS.values(), key=lambda target: len(target.keeps)).name
    return next((name for name in targets if name in TARGETS), fewest)


def _others(target: str) -> list[str]:
    return [p.name for p in pipeline(target) if p.name not in ("core_aten", "fold_constants")]


def _named_as_arguments(graph: Graph, function: Callable[..., Any], program: Any) -> None:
    """Name the placeholders as the search function names its arguments: `where` speaks of them."""
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    inputs = [n for n in graph.nodes if n.op == "placeholder" and n.name in program.user_inputs]
    for node, name in zip(inputs, names, strict=False):
        node.name = name


def _output(graph: Graph) -> Node:
    returned = graph.output_node().args[0]
    assert isinstance(returned, tuple)
    assert isinstance(returned[0], Node)
    return returned[0]


def _fails_at(call: Node, difference: Any) -> bool:
    """Whether a call is where an alignment failed: itself, or an input or literal of it."""
    if difference is None:
        return False
    where = difference.pattern_node
    return where is call or (where.op == "placeholder" and call in where.users)


def _close(aligner: Aligner) -> bool:
    """Whether the alignment failed by little right at the anchor: a literal, a dtype, or one node in between."""
    return aligner.difference is not None and aligner.difference.kind != "op"


def _described(call: Node) -> str:
    # where a tensor is made is not compared
    keywords = [f"{name}={a}" for name, a in call.kwargs.items() if name not in ("device", "pin_memory", "layout")]
    given = [str(a) for a in call.args] + keywords
    return f"{display_name(call.target)}({', '.join(given)})"


def _producers(output: Node) -> str:
    """What feeds the last call of a pattern: "aten.add or aten.full", or "its inputs" where no call does."""
    calls = dict.fromkeys(display_name(n.target) for n in output.all_input_nodes if n.op == "call_function")
    return " or ".join(calls) or "its inputs"


def _fed_by(anchor: Node) -> str:
    """What feeds a node of the program, as `_producers` says it."""
    named = [display_name(n.target) if n.op == "call_function" else n.name for n in anchor.all_input_nodes]
    return " and ".join(dict.fromkeys(named)) or "nothing"


def _name_of(where: Where) -> str:
    name = getattr(where, "__name__", "where")
    return name if name != "<lambda>" else f"where_line_{where.__code__.co_firstlineno}"
