"""The error of each rewrite, told apart: what it does on the reference's inputs, and what has come together by then.

Both programs are walked once, in step with each other. Of the original's values only those are held that a rewrite
still to come is compared with or fed with, so that memory stays bounded by how far the two graphs' orders drift apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch.utils import _pytree as pytree

from lowerscope.errors import MeasureError
from lowerscope.measure.batches import batches
from lowerscope.measure.casting import Casting
from lowerscope.measure.compare import EQUAL, INCOMPARABLE, Comparison, compare, ratio
from lowerscope.measure.interpreter import Cancelled, Interpreter
from lowerscope.measure.report import severity

if TYPE_CHECKING:
    from lowerscope.program import Program

# A replacement that has to be traced back further than this to values of the original is not one rewrite's work.
_REGION = 256


@dataclass
class StepError:
    """How far the result of one rewrite is from what it replaced.

    Attributes:
        step: number of the rewrite.
        before, after: the node of the original, and the node of the lowered program that stands for it.
        isolated: the error of the replacement alone, run on the original's values; None if it could not be.
        propagated: the error at its output in the whole run; None if the node is not in both programs.
        oracle_ratio: RMSE after / RMSE before at its output against a float64 run of the original; NaN without one.
        why: why a figure is missing.
    """

    step: int
    before: str
    after: str
    isolated: Comparison | None = None
    propagated: Comparison | None = None
    oracle_ratio: float = math.nan
    why: str = ""

    @property
    def guilt(self) -> tuple[int, float]:
        """Sorts the rewrites: the isolated error's verdict and relative size, else the propagated one's."""
        comparison = self.isolated or self.propagated
        if comparison is None:
            return -1, 0.0
        return severity(comparison.verdict), math.inf if math.isnan(comparison.worst) else comparison.worst


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
    batch = next(iter(batches(before, inputs, seeds=(seed,), sizes=[{}])))
    return _Walk(before, after, pairs, tolerance, cancelled).measure(batch.flat, oracle)


def step_frame(errors: Sequence[StepError]) -> pd.DataFrame:
    """A row per rewrite, the guiltiest first: step, before, after, verdict, isolated_* and propagated_* figures."""
    records = [_record(error) for error in sorted(errors, key=lambda error: error.guilt, reverse=True)]
    columns = list(_record(StepError(0, "", "")))
    return pd.DataFrame(records, columns=columns)


def _record(error: StepError) -> dict[str, Any]:
    comparison = error.isolated or error.propagated
    record: dict[str, Any] = {
        "step": error.step,
        "before": error.before,
        "after": error.after,
        "verdict": comparison.verdict if comparison else "not measured",
    }
    for name in ("isolated", "propagated"):
        of: Comparison | None = getattr(error, name)
        for figure in ("max_abs", "where", "sqnr_db"):
            missing = None if figure == "where" else math.nan
            record[f"{name}_{figure}"] = getattr(of, figure) if of is not None else missing
    clauses = [error.why, comparison.why if comparison else ""]
    return record | {"oracle_ratio": error.oracle_ratio, "why": "; ".join(filter(None, clauses))}


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
                pair.propagated = _compare(old, value, self._tolerance)
                if gold is not None:
                    gold = self._against(gold, pair, old, value)
                self._isolate(pair, old, reference)
        return self._pairs

    def _plan(self) -> dict[str, list[StepError]]:
        """Node of the lowered program -> the pairs that end there; counts how often each original value is needed."""
        at: dict[str, list[StepError]] = {}
        for pair in self._pairs:
            missing = [n for n, nodes in ((pair.before, self._old), (pair.after, self._new)) if n not in nodes]
            if missing:
                inside = "it is in a sub-graph" if "/" in missing[0] else "another rewrite built on it or took it away"
                pair.why = f"{missing[0]} is not in both programs' graphs: {inside}"
                continue
            at.setdefault(pair.after, []).append(pair)
            self._needs[pair.before] += 1
            region = self._region(pair)
            if isinstance(region, str):
                pair.why = region
                continue
            self._regions[id(pair)] = region
            self._needs.update(self._same[node.name] for node in region[1])
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
                    environment[used] = self._after.constants[used.name].detach()
        runner = Interpreter(self._after, cancelled=self._cancelled)
        try:
            for node in order:
                environment[node] = runner.evaluate(node, environment)
        except Cancelled:
            raise
        except MeasureError as error:
            pair.isolated = Comparison(INCOMPARABLE, str(error))
            return
        pair.isolated = _compare(old, environment[order[-1]], self._tolerance)

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
