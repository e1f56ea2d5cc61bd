"""The error of each rewrite inside a sub-graph (a branch, a loop's body, a region): taken in the first run of it.

A sub-graph runs as often as its operator calls it, so its values are recorded while the whole programs run: of the
original what a rewrite is compared with or fed with, of the lowered program the rewrites' outputs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from lowerscope.errors import MeasureError
from lowerscope.measure.casting import Casting
from lowerscope.measure.compare import INCOMPARABLE, Comparison
from lowerscope.measure.interpreter import Cancelled, Interpreter
from lowerscope.measure.node_values import compare_values, rmse_ratio
from lowerscope.measure.randomness import is_random, is_uninitialised, random_sources, undetermined
from lowerscope.measure.region import Alignment, Region
from lowerscope.measure.step_error import StepError
from lowerscope.measure.written import writes_in_place

if TYPE_CHECKING:
    from lowerscope.program import Program


def is_inside(pair: StepError) -> bool:
    """Whether a rewrite is in a sub-graph."""
    return "/" in pair.before and "/" in pair.after


def measure_inside(
    before: Program,
    after: Program,
    pairs: Sequence[StepError],
    flat: Sequence[Any],
    *,
    oracle: bool,
    tolerance: float | None,
    cancelled: Callable[[], bool] | None,
) -> None:
    """Fill in isolated and propagated error, oracle ratio and why of `pairs`, all of them inside sub-graphs.

    Each program is run once as a whole, the original a second time in float64 if `oracle` and a number differs. Where
    the original does not run the sub-graph there is nothing to compare with, and the pair says so.

    Raises:
        MeasureError, Cancelled: as `parity`.
    """
    graphs: dict[str, list[StepError]] = defaultdict(list)
    for pair in pairs:
        path = pair.before.rpartition("/")[0] + "/"
        if pair.after.startswith(path) and all(_sub_graph(program, path) is not None for program in (before, after)):
            graphs[path].append(pair)
        else:
            pair.why = f"{path[:-1]} is not a sub-graph of both programs: a rewrite took it away"
    found = [_SubGraph(before, after, path, pairs) for path, pairs in graphs.items()]
    copies = writes_in_place(before.graph_module)
    reference = _Recorded(before, flat, {n for g in found for n in g.needs}, cancelled, copies=copies)
    lowered = _Recorded(after, flat, {pair.after for g in found for pair in g.pairs}, cancelled, copies=copies)
    drawn = bool(random_sources(before))
    for graph in found:
        graph.compare(reference, lowered, tolerance, drawn)
    different = {p.before for p in pairs if p.propagated is not None and p.propagated.different}
    for pair in pairs if oracle else ():
        if pair.propagated is not None and not pair.propagated.different:
            pair.oracle_ratio = 1.0
    if not oracle or not different:
        return
    try:
        gold = _Recorded(before, flat, different, cancelled, copies=copies, casting=Casting.oracle())
    except Cancelled:
        raise
    except MeasureError as error:
        for pair in pairs:
            pair.why = pair.why or f"no float64 oracle: {error}"
        return
    for pair in pairs:
        if pair.before in different and pair.before in gold.values:
            old, new = reference.values[pair.before], lowered.values[pair.after]
            pair.oracle_ratio = rmse_ratio(gold.values[pair.before], old, new)


class _Recorded:
    """One whole run of a program: of the nodes asked for in sub-graphs, the value in the first run and how many there were."""

    def __init__(
        self,
        program: Program,
        flat: Sequence[Any],
        wanted: Iterable[str],
        cancelled: Callable[[], bool] | None,
        *,
        copies: bool,
        casting: Casting | None = None,
    ) -> None:
        self.values: dict[str, Any] = {}
        self.runs: Counter[str] = Counter()
        self._wanted, self._copies = set(wanted), copies
        self.runner = Interpreter(program, casting=casting, hook=self._see, cancelled=cancelled)
        self.runner.run(flat)

    def _see(self, node_id: str, node: torch.fx.Node, value: Any) -> None:
        if node_id not in self._wanted:
            return
        self.runs[node_id] += 1
        if self.runs[node_id] == 1:
            copied = pytree.tree_map_only(torch.Tensor, torch.clone, value) if self._copies else value
            self.values[node_id] = copied


def _sub_graph(program: Program, path: str) -> torch.fx.GraphModule | None:
    module: Any = program.graph_module
    for name in path[:-1].split("/"):
        module = getattr(module, name, None)
    return module if isinstance(module, torch.fx.GraphModule) else None


class _SubGraph:
    """The rewrites of one sub-graph."""

    def __init__(self, before: Program, after: Program, path: str, pairs: Sequence[StepError]) -> None:
        self._path, self._constants = path, after.constants
        modules = [_sub_graph(program, path) for program in (before, after)]
        assert modules[0] is not None
        assert modules[1] is not None
        self._module, old, new = modules[1], modules[0].graph, modules[1].graph
        self._random = undetermined(old)
        local = [(pair.before.removeprefix(path), pair.after.removeprefix(path)) for pair in pairs]
        # A constant that a rewrite makes is handed to the sub-graph under the name that it has outside.
        constants = set(before.constants) | set(after.constants)
        self._align = Alignment(old, new, local, changed=constants, given=set(after.constants))
        self.pairs: list[StepError] = []
        self._regions: dict[int, Region] = {}
        self.needs: set[str] = set()
        for pair, (first, last) in zip(pairs, local, strict=True):
            missing = first if first not in self._align.old else last if last not in self._align.new else None
            if missing is not None:
                pair.why = (
                    f"{path}{missing} is not in both programs' graphs: another rewrite built on it or took it away"
                )
                continue
            self.pairs.append(pair)
            self.needs.add(pair.before)
            region = self._align.region(last)
            if isinstance(region, str):
                pair.why = region
                continue
            self._regions[id(pair)] = region
            self.needs.update(path + self._align.same[node.name] for node in region.edge)

    def compare(self, reference: _Recorded, lowered: _Recorded, tolerance: float | None, drawn: bool) -> None:
        """Fill in each pair, from the values of the two runs."""
        for pair in self.pairs:
            if pair.before not in reference.values:
                pair.why = f"the original does not run {self._path[:-1]} on these inputs: no branch or loop leads there"
                continue
            pair.runs = reference.runs[pair.before]
            old = reference.values[pair.before]
            node = self._align.old[pair.before.removeprefix(self._path)]
            if pair.after in lowered.values:
                random = drawn or node in self._random
                pair.propagated = compare_values(old, lowered.values[pair.after], tolerance, random=random)
            else:
                pair.why = (
                    f"the lowered program does not run {self._path[:-1]} on these inputs: it takes another branch"
                )
            region = self._regions.get(id(pair))
            if region is not None:
                pair.isolated = self._isolated(region, old, reference, lowered.runner, tolerance)

    def _isolated(
        self, region: Region, old: Any, reference: _Recorded, runner: Interpreter, tolerance: float | None
    ) -> Comparison:
        values = {node: reference.values[self._path + self._align.same[node.name]] for node in region.edge}
        for node in (used for each in region.order for used in (each, *each.all_input_nodes)):
            if node.op == "placeholder" and node not in values:
                values[node] = self._constants[node.name].detach()
        try:
            for node in region.order:
                if node.op != "placeholder":  # a fold's result is a constant, which is its own value
                    values[node] = runner.evaluate(node, values, self._module, self._path)
        except Cancelled:
            raise
        except MeasureError as error:
            return Comparison(INCOMPARABLE, str(error))
        drawn = any(is_random(node) or is_uninitialised(node) for node in region.order)
        return compare_values(old, values[region.order[-1]], tolerance, random=drawn)
