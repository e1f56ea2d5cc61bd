"""The error of each rewrite, told apart: what it does on the reference's inputs, and what has come together by then.

Both programs are walked once, in step with each other. Of the original's values only those are held that a rewrite
still to come is compared with or fed with, so that memory stays bounded by how far the two graphs' orders drift apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from lowerscope.errors import MeasureError
from lowerscope.measure.batches import batches
from lowerscope.measure.casting import Casting
from lowerscope.measure.compare import INCOMPARABLE, Comparison
from lowerscope.measure.inside import is_inside, measure_inside
from lowerscope.measure.interpreter import Cancelled, Interpreter
from lowerscope.measure.node_values import compare_values, rmse_ratio
from lowerscope.measure.randomness import is_random, is_uninitialised, undetermined
from lowerscope.measure.region import Alignment, Region
from lowerscope.measure.step_error import Lowered, Rewrite, StepError
from lowerscope.measure.time_left import Halves
from lowerscope.measure.written import writes_in_place

if TYPE_CHECKING:
    from lowerscope.program import Program


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
        progress: called with (rewrites measured, in all), about a hundred times; a rewrite is measured in two walks, in the
            run and alone, and counts as half after the first.

    Raises:
        MeasureError, Cancelled: as `parity`.
    """
    options: dict[str, Any] = {"seed": seed, "tolerance": tolerance, "cancelled": cancelled}
    flat = first_batch(lowering.before, inputs, seed)
    pairs = step_pairs(lowering.steps)
    errors: list[StepError] = []
    stages = [stage for stage in lowering.stages if stage.last > stage.first]
    told = Halves(2 * sum(stage.last - stage.first for stage in stages), progress)
    for stage in stages:
        met, left = lowering.program_at(stage.first), lowering.program_at(stage.last)
        upto = step_pairs(lowering.steps[: stage.last])[stage.first :]
        together = step_errors(lowering.before, left, upto, flat, oracle=oracle, measured=told.one, **options)
        told.at_least(stage.last + stage.first)
        alone = step_errors(
            met, left, step_pairs(lowering.steps[stage.first : stage.last]), flat,
            oracle=False, measured=told.one, **options,
        )  # fmt: skip
        told.at_least(2 * stage.last)
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
    measured: Callable[[], None] = lambda: None,
) -> list[StepError]:
    """Isolated and propagated error of each rewrite, in the order of `mapping`; the first batch of `inputs` is run.

    The isolated error runs the nodes of the lowered program that lie between a rewrite's output and the nearest values
    which the original has as well: nodes of the same name, and outputs of other rewrites. Rewrites that build on one
    another without such a value between them show as one, at the last one's output. Inside a sub-graph both errors are
    those of its first run: see `lowerscope.measure.inside`.

    Args:
        mapping: (step, node of `before`, node of `after`) for each output that a rewrite replaced. A node that a later
            rewrite took away again gets a row that says so.
        measured: called after each rewrite, those inside sub-graphs left out.

    Raises:
        MeasureError, Cancelled: as `parity`.
    """
    pairs = [StepError(*entry) for entry in mapping]
    flat = inputs if isinstance(inputs, Flat) else first_batch(before, inputs, seed)
    return _Walk(before, after, pairs, tolerance, cancelled).measure(flat, oracle, measured)


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
        self._align = Alignment(
            before.graph,
            after.graph,
            ((pair.before, pair.after) for pair in pairs),
            changed=set(before.constants) | set(after.constants),
            given=set(after.constants),
        )
        self._regions: dict[int, Region] = {}
        self._needs: Counter[str] = Counter()

    def measure(self, flat: tuple[Any, ...], oracle: bool, measured: Callable[[], None]) -> list[StepError]:
        at = self._plan()
        random = undetermined(self._before.graph)
        copies = writes_in_place(self._before.graph_module)
        walk = Interpreter(self._before, cancelled=self._cancelled).walk(flat)
        reference = _Held(walk, self._needs, copies=copies)
        gold = None
        if oracle:
            casting = Casting.oracle()
            outputs = Counter(pair.before for pairs in at.values() for pair in pairs)
            walk = Interpreter(self._before, casting=casting, cancelled=self._cancelled).walk(flat)
            gold = _Held(walk, outputs, copies=copies)
        runner = Interpreter(self._after, cancelled=self._cancelled)
        for name, _, value in runner.walk(flat) if at else ():
            for pair in at.get(name, ()):
                old = reference.take(pair.before)
                drawn = self._align.old[pair.before] in random
                pair.propagated = compare_values(old, value, self._tolerance, random=drawn)
                if gold is not None and pair.propagated.different == 0:
                    gold.skip(pair.before)
                    pair.oracle_ratio = 1.0
                elif gold is not None:
                    gold = self._against(gold, pair, old, value)
                self._isolate(pair, old, reference)
                measured()
        inside = [pair for pair in self._pairs if is_inside(pair)]
        if inside:
            measure_inside(
                self._before, self._after, inside, flat,
                oracle=oracle, tolerance=self._tolerance, cancelled=self._cancelled,
            )  # fmt: skip
        for shared in self._together().values():
            for pair in shared if len(shared) > 1 else ():
                others = ", ".join(str(other.step) for other in shared if other is not pair)
                pair.why = "; ".join(filter(None, [pair.why, f"measured together with step {others}, at one output"]))
        return self._pairs

    def _together(self) -> dict[tuple[str, str], list[StepError]]:
        """The pairs that have a figure, by where they end."""
        shared: defaultdict[tuple[str, str], list[StepError]] = defaultdict(list)
        for pair in self._pairs:
            if pair.isolated is not None or pair.propagated is not None:
                shared[pair.before, pair.after].append(pair)
        return shared

    def _plan(self) -> dict[str, list[StepError]]:
        """Node of the lowered program -> the pairs that end there; counts how often each original value is needed."""
        at: dict[str, list[StepError]] = {}
        old, new = self._align.old, self._align.new
        for pair in self._pairs:
            if is_inside(pair):
                continue
            missing = [n for n, nodes in ((pair.before, old), (pair.after, new)) if n not in nodes]
            if missing:
                pair.why = f"{missing[0]} is not in both programs' graphs: another rewrite built on it or took it away"
                continue
            at.setdefault(pair.after, []).append(pair)
            self._needs[pair.before] += 1
            region = self._align.region(pair.after)
            if isinstance(region, str):
                pair.why = region
                continue
            self._regions[id(pair)] = region
            self._needs.update(self._align.same[node.name] for node in region.edge)
        return at

    def _isolate(self, pair: StepError, old: Any, reference: _Held) -> None:
        region = self._regions.get(id(pair))
        if region is None:
            return
        order, edge = region
        environment: dict[torch.fx.Node, Any] = {node: reference.take(self._align.same[node.name]) for node in edge}
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
        pair.isolated = compare_values(old, environment[order[-1]], self._tolerance, random=drawn)

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
        pair.oracle_ratio = rmse_ratio(exact, old, new)
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
