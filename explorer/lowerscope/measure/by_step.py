"""The error of each rewrite, told apart: what it does on the reference's inputs, and what has come together by then.

Both programs are walked once, in step with each other. Of the original's values only those are held that a rewrite
still to come is compared with or fed with, so that memory stays bounded by how far the two graphs' orders drift apart.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from lowerscope.errors import MeasureError
from lowerscope.measure.batches import batches
from lowerscope.measure.casting import Casting
from lowerscope.measure.compare import EQUAL, INCOMPARABLE, NONDETERMINISTIC, Comparison, compare, ratio
from lowerscope.measure.interpreter import Cancelled, Interpreter
from lowerscope.measure.randomness import is_random, is_uninitialised, undetermined
from lowerscope.measure.report import severity
from lowerscope.measure.step_error import Lowered, Rewrite, StepError

if TYPE_CHECKING:
    from lowerscope.program import Program

# A replacement that has to be traced back further than this to values of the original is not one rewrite's work.
_REGION = 256


def step_pairs(steps: Sequence[Rewrite]) -> list[tuple[int, str, str]]:
    """The `mapping` of `step_errors` for a lowering's steps: (step, node of the original, node of the lowered program).

    A rewrite whose output an earlier one made is traced back to the node that this one replaced, and forward to the
    node that gives the value at the end. Where there is none the step's own node is named, which one program lacks.
    """
    origin: dict[str, str] = {}
    for step in steps:
        origin[step.result] = origin.get(step.output, step.output)
    final: dict[str, str] = {}
    for step in reversed(steps):
        final[step.output] = final.get(step.result, step.result)
    return [(s.number, origin.get(s.output, s.output), final.get(s.result, s.result)) for s in steps]


def lowering_errors(
    lowering: Lowered,
    inputs: Any = None,
    *,
    seed: int = 0,
    oracle: bool = True,
    tolerance: float | None = None,
    cancelled: Callable[[], bool] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[StepError]:
    """Isolated and propagated error of each step of a lowering, in the order of its steps.

    A step's isolated error is taken between the graphs before and after its stage, so that rewrites of different stages
    which build on one another are told apart; its propagated error between the original and the graph after its stage:
    that of all steps up to there. A step whose result another one of its own stage took in is measured as part of it.

    Args:
        inputs, seed, oracle, tolerance, cancelled: as `step_errors` takes them.
        progress: called with (stages done, stages in all).

    Raises:
        MeasureError, Cancelled: as `parity`.
    """
    options: dict[str, Any] = {"seed": seed, "tolerance": tolerance, "cancelled": cancelled}
    flat = first_batch(lowering.before, inputs, seed)
    pairs = step_pairs(lowering.steps)
    errors: list[StepError] = []
    stages = [stage for stage in lowering.stages if stage.last > stage.first]
    for done, stage in enumerate(stages):
        if progress is not None:
            progress(done, len(stages))
        met, left = lowering.program_at(stage.first), lowering.program_at(stage.last)
        upto = step_pairs(lowering.steps[: stage.last])[stage.first :]
        together = step_errors(lowering.before, left, upto, flat, oracle=oracle, **options)
        alone = step_errors(
            met, left, step_pairs(lowering.steps[stage.first : stage.last]), flat, oracle=False, **options
        )
        for error, found, (_, before, after) in zip(together, alone, pairs[stage.first : stage.last], strict=True):
            why = found.why if found.isolated is None else "" if error.propagated is not None else error.why
            errors.append(replace(error, isolated=found.isolated, before=before, after=after, why=why))
    return errors


def step_errors(
    before: Program,
    after: Program,
    mapping: Iterable[tuple[int, str, str]],
    inputs: Any = None,
    *,
    seed: int = 0,
    oracle: bool = True,
    tolerance: float | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> list[StepError]:
    """Isolated and propagated error of each rewrite, in the order of `mapping`; the first batch of `inputs` is run.

    The isolated error runs the nodes of the lowered program that lie between a rewrite's output and the nearest values
    which the original has as well: nodes of the same name, and outputs of other rewrites. Rewrites that build on one
    another without such a value between them show as one, at the last one's output.

    Args:
        mapping: (step, node of `before`, node of `after`) for each output that a rewrite replaced. A node that a later
            rewrite took away again gets a row that says so.

    Raises:
        MeasureError, Cancelled: as `parity`.
    """
    pairs = [StepError(*entry) for entry in mapping]
    flat = inputs if isinstance(inputs, Flat) else first_batch(before, inputs, seed)
    return _Walk(before, after, pairs, tolerance, cancelled).measure(flat, oracle)


class Flat(tuple):
    """Inputs in the order of the placeholders, checked already."""

    __slots__ = ()


def first_batch(program: Program, inputs: Any, seed: int) -> Flat:
    """The first batch of `inputs`, or a made-up one, as the placeholders of `program` take it."""
    return Flat(next(iter(batches(program, inputs, seeds=(seed,), sizes=[{}]))).flat)


class _Walk:
    """Two programs walked in step, with what the rewrites still need of the original's values."""

    def __init__(
        self,
        before: Program,
        after: Program,
        pairs: list[StepError],
        tolerance: float | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        self._before, self._after, self._pairs = before, after, pairs
        self._tolerance, self._cancelled = tolerance, cancelled
        self._old = {node.name: node for node in before.graph.nodes}
        self._new = {node.name: node for node in after.graph.nodes}
        constants = set(before.constants) | set(after.constants)
        # What stands in the lowered program for which value of the original.
        self._same = {
            name: name
            for name, node in self._new.items()
            if name in self._old and name not in constants and _is_same(self._old[name], node)
        }
        self._same |= {
            pair.after: pair.before for pair in pairs if pair.after in self._new and pair.before in self._old
        }
        self._regions: dict[int, tuple[list[torch.fx.Node], list[torch.fx.Node]]] = {}
        self._needs: Counter[str] = Counter()

    def measure(self, flat: tuple[Any, ...], oracle: bool) -> list[StepError]:
        at = self._plan()
        random = undetermined(self._before.graph)
        copies = any(_writes(node) for node in self._before.graph.nodes)
        walk = Interpreter(self._before, cancelled=self._cancelled).walk(flat)
        reference = _Held(walk, self._needs, copies=copies)
        gold = None
        if oracle:
            casting = Casting.oracle()
            outputs = Counter(pair.before for pairs in at.values() for pair in pairs)
            walk = Interpreter(self._before, casting=casting, cancelled=self._cancelled).walk(flat)
            gold = _Held(walk, outputs, copies=copies)
        runner = Interpreter(self._after, cancelled=self._cancelled)
        for name, _, value in runner.walk(flat):
            for pair in at.get(name, ()):
                old = reference.take(pair.before)
                pair.propagated = self._verdict(_compare(old, value, self._tolerance), self._old[pair.before] in random)
                if gold is not None and pair.propagated.different == 0:
                    gold.skip(pair.before)
                    pair.oracle_ratio = 1.0
                elif gold is not None:
                    gold = self._against(gold, pair, old, value)
                self._isolate(pair, old, reference)
        return self._pairs

    def _plan(self) -> dict[str, list[StepError]]:
        """Node of the lowered program -> the pairs that end there; counts how often each original value is needed."""
        at: dict[str, list[StepError]] = {}
        together: defaultdict[tuple[str, str], list[StepError]] = defaultdict(list)
        for pair in self._pairs:
            missing = [n for n, nodes in ((pair.before, self._old), (pair.after, self._new)) if n not in nodes]
            if missing:
                inside = "it is in a sub-graph" if "/" in missing[0] else "another rewrite built on it or took it away"
                pair.why = f"{missing[0]} is not in both programs' graphs: {inside}"
                continue
            at.setdefault(pair.after, []).append(pair)
            together[pair.before, pair.after].append(pair)
            self._needs[pair.before] += 1
            region = self._region(pair)
            if isinstance(region, str):
                pair.why = region
                continue
            self._regions[id(pair)] = region
            self._needs.update(self._same[node.name] for node in region[1])
        for shared in together.values():
            for pair in shared if len(shared) > 1 else ():
                others = ", ".join(str(other.step) for other in shared if other is not pair)
                pair.why = "; ".join(filter(None, [pair.why, f"measured together with step {others}, at one output"]))
        return at

    def _region(self, pair: StepError) -> tuple[list[torch.fx.Node], list[torch.fx.Node]] | str:
        """(nodes to run in order, nodes whose values the original gives), or why the replacement cannot stand alone."""
        end = self._new[pair.after]
        inside, edge, stack = {end}, set(), [end]
        while stack:
            for used in stack.pop().all_input_nodes:
                if used in inside or used in edge:
                    continue
                if used.name in self._same:
                    edge.add(used)
                elif used.op == "placeholder":
                    if used.name not in self._after.constants:
                        return f"the original has no value for {used.name}"
                    edge.add(used)
                else:
                    inside.add(used)
                    stack.append(used)
            if len(inside) > _REGION:
                return f"over {_REGION} nodes lie between {pair.after} and values that the original has too"
        if any(_writes(node) for node in inside):
            return "it writes in place"
        order = [node for node in self._after.graph.nodes if node in inside]
        return order, [node for node in edge if node.name in self._same]

    def _isolate(self, pair: StepError, old: Any, reference: _Held) -> None:
        region = self._regions.get(id(pair))
        if region is None:
            return
        order, edge = region
        environment: dict[torch.fx.Node, Any] = {node: reference.take(self._same[node.name]) for node in edge}
        for node in order:
            for used in node.all_input_nodes:
                if used.op == "placeholder" and used not in environment:
                    environment[used] = self._constant(used)
        runner = Interpreter(self._after, cancelled=self._cancelled)
        try:
            for node in order:
                # A fold's result is a constant: a placeholder, which is its own value.
                constant = node.op == "placeholder"
                environment[node] = self._constant(node) if constant else runner.evaluate(node, environment)
        except Cancelled:
            raise
        except MeasureError as error:
            pair.isolated = Comparison(INCOMPARABLE, str(error))
            return
        drawn = any(is_random(node) or is_uninitialised(node) for node in order)
        pair.isolated = self._verdict(_compare(old, environment[order[-1]], self._tolerance), drawn)

    @staticmethod
    def _verdict(comparison: Comparison, random: bool) -> Comparison:
        if not random or comparison.verdict in (EQUAL, INCOMPARABLE):
            return comparison
        return replace(comparison, verdict=NONDETERMINISTIC, why="it depends on random numbers or unset memory")

    def _constant(self, node: torch.fx.Node) -> torch.Tensor:
        return self._after.constants[node.name].detach()

    def _against(self, gold: _Held, pair: StepError, old: Any, new: Any) -> _Held | None:
        try:
            exact = gold.take(pair.before)
        except Cancelled:
            raise
        except MeasureError as error:
            pair.why = f"no float64 oracle: {error}"
            return None
        noises = []
        for value in (old, new):
            leaves = [(a, b) for a, b in _leaves(exact, value) if isinstance(a, torch.Tensor) and a.is_floating_point()]
            found = [compare(a, b, check_dtype=False) for a, b in leaves]
            noises.append(sum(c.noise for c in found) if found else math.nan)
        before, after = noises
        if not (math.isnan(before) or math.isnan(after)):
            pair.oracle_ratio = 1.0 if before == after else ratio(math.sqrt(after), math.sqrt(before))
        return gold


class _Held:
    """A walk that goes on only as far as asked, and holds each value for as often as it is still needed."""

    def __init__(
        self, walk: Generator[tuple[str, torch.fx.Node, Any], None, Any], needs: Counter[str], *, copies: bool
    ) -> None:
        # A program that writes in place would change a held value when the walk goes on.
        self._walk, self._needs, self._copies = walk, Counter(needs), copies
        self._values: dict[str, Any] = {}

    def take(self, name: str) -> Any:
        while name not in self._values:
            produced, _, value = next(self._walk)
            if self._needs[produced]:
                copied = pytree.tree_map_only(torch.Tensor, torch.clone, value) if self._copies else value
                self._values[produced] = copied
        value = self._values[name]
        self._needs[name] -= 1
        if not self._needs[name]:
            del self._values[name]
        return value

    def skip(self, name: str) -> None:
        """Say that a value is not needed as often as was thought; the walk does not go on for it."""
        self._needs[name] -= 1
        if not self._needs[name]:
            self._values.pop(name, None)


def _writes(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _is_same(old: torch.fx.Node, new: torch.fx.Node) -> bool:
    """Whether two nodes of one name compute the same thing: a rewrite may change a node's arguments in place."""
    if old.op != new.op or (old.op == "call_function" and old.target != new.target):
        return False
    return old.op in ("placeholder", "call_function") and _shape(old) == _shape(new)


def _shape(node: torch.fx.Node) -> list[Any]:
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return [(str(tuple(v.shape)), v.dtype) if isinstance(v, torch.Tensor) else type(v).__name__ for v in leaves]


def _leaves(reference: Any, value: Any) -> list[tuple[Any, Any]]:
    old, new = pytree.tree_leaves(reference), pytree.tree_leaves(value)
    return list(zip(old, new, strict=False))


def _compare(reference: Any, value: Any, tolerance: float | None) -> Comparison:
    """The worst comparison among the leaves of a node's value."""
    found = [compare(old, new, tolerance=tolerance) for old, new in _leaves(reference, value)]
    if len(pytree.tree_leaves(reference)) != len(pytree.tree_leaves(value)):
        return Comparison(INCOMPARABLE, "it returns another number of values")
    return max(found, key=lambda c: (severity(c.verdict), c.worst), default=Comparison(EQUAL))
