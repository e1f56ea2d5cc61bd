"""Partitions: the regions that a target's backend would take, before and after a lowering, and why the rest is outside.

"Before" is the core ATen graph, as core_aten alone leaves it: what the backend would get without the patterns. "After" is
the lowered graph. What a target takes stands in its support table; what a pattern has made is taken with its match, also
where the table would not take an ATen node by itself; the backend's own operators are in the table, and judged by it.
Folds only change constants: what they make is judged by the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from weakref import WeakKeyDictionary

import pandas as pd

from lowerscope.arguments import op_of
from lowerscope.delegated import delegates, judged_by_table
from lowerscope.errors import RecipeError
from lowerscope.frame import Table
from lowerscope.ledger import NodeRecord
from lowerscope.lowering import Lowering
from lowerscope.measure.counts import is_operator, node_op_name
from lowerscope.memory import no_garbage_collection
from lowerscope.memory_layout import is_transpose, plan
from lowerscope.partition_graph import RecordGraph, is_getitem, ranks
from lowerscope.program import Program
from lowerscope.support.table import Site
from lowerscope.verdict import Outcome

When = Literal["before", "after"]

_WOULD_HAVE = {
    Outcome.DISABLED: "{0} would take it, but is off",
    Outcome.SKIPPED: "{0} leaves it alone: {1}",
    Outcome.DECLINED: "{0} declined it: {1}",
    Outcome.NEAR_MISS: "{0} does not take it: {1}",
}


@dataclass(frozen=True, slots=True)
class Region:
    """One delegated region, nodes by id in the order of the graph.

    inputs: values that it reads, constants left out. outputs: values of it that are read outside. operators: how many
    of its nodes compute. transposes: how many the backend's layout of it takes, those at its border included.
    """

    nodes: tuple[str, ...]
    operators: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    transposes: int


@dataclass(frozen=True)
class Partitions:
    """The delegated regions of one graph, and for each operator outside of them the reason."""

    regions: tuple[Region, ...]
    outside: Mapping[str, str]

    @cached_property
    def delegated(self) -> frozenset[str]:
        """Every node that is in a region."""
        return frozenset(id for region in self.regions for id in region.nodes)

    @property
    def transposes(self) -> int:
        """The transposes of all regions."""
        return sum(region.transposes for region in self.regions)


#: what a target takes of a program's nodes; a record is judged once for as long as it and its neighbours stay
_judged: WeakKeyDictionary[Program, dict[Any, dict[str, tuple[Any, ...]]]] = WeakKeyDictionary()
#: the partitions before the patterns, which no toggle of them changes
_before: WeakKeyDictionary[Program, dict[Any, tuple[Any, Partitions]]] = WeakKeyDictionary()


def partitions(lowering: Lowering, when: When = "after") -> Partitions | None:
    """The partitions of a lowering, before its patterns or after; None for a target that says of no node that it takes it.

    Linear in nodes and edges.
    """
    if lowering.target.takes is None:
        return None
    if when == "after":
        return lowering.remember("partitions after", lambda: _partition(lowering, "after"))
    return lowering.remember("partitions before", lambda: _known_before(lowering))


def partition_summary(lowering: Lowering) -> dict[str, int] | None:
    """before, after (how many regions), transposes_before, transposes_after; None as in `partitions`."""
    before, after = partitions(lowering, "before"), partitions(lowering, "after")
    if before is None or after is None:
        return None
    return {
        "before": len(before.regions),
        "after": len(after.regions),
        "transposes_before": before.transposes,
        "transposes_after": after.transposes,
    }


def outside_reason(lowering: Lowering, node: str) -> str | None:
    """Why a node of the lowered graph, or what became of it, is outside every region; None when none of it is."""
    found = partitions(lowering, "after")
    if found is None:
        return None
    for id in (node, *lowering.ledger.became(node)):
        if id in found.outside:
            return found.outside[id]
    return None


def _known_before(lowering: Lowering) -> Partitions:
    """No toggle of a pattern changes what core_aten left: as long as that is the same, so are its partitions."""
    key = _device_key(lowering)
    known = _before.setdefault(lowering.source, {})
    found = known.get(key)
    if found is None or found[0] is not lowering.core:
        found = known[key] = (lowering.core, _partition(lowering, "before"))
    return found[1]


def _partition(lowering: Lowering, when: When) -> Partitions:
    with no_garbage_collection():
        return _partitioned(lowering, when)


def _partitioned(lowering: Lowering, when: When) -> Partitions:
    if when == "before":
        found = _cut(lowering, lowering.core, set(), layout_on=False)
        return Partitions(found.regions, found.outside)
    layout_on = any(s.pattern == "channels_last" and not s.off for s in lowering.stages)
    key = ("partitions", *_device_key(lowering), layout_on)
    memo = lowering.ledger.memo  # which a toggle that rewrites nothing leaves as it is
    if key not in memo:
        alive = {id: r for id, r in lowering.ledger.records.items() if r.died is None}
        made_whole = {s.number for s in lowering.steps if delegates(lowering.rule(s.pattern))}
        memo[key] = _cut(lowering, alive, made_whole, layout_on)
    found = memo[key]
    return Partitions(found.regions, {id: _with_pattern(lowering, id, reason) for id, reason in found.outside.items()})


def _cut(lowering: Lowering, records: Mapping[str, NodeRecord], made_whole: set[int], layout_on: bool) -> Partitions:
    """The regions of one graph; outside of them, what the table says."""
    graph = RecordGraph.of(records, lowering.source.constants)
    reasons = _judge(lowering, graph, made_whole)

    def delegated(id: str) -> bool:
        return reasons.get(id, "") is None

    rank = ranks(graph.order, graph.readers_of, delegated)
    groups: dict[tuple[str, int], list[str]] = {}
    for id in graph.order:
        if delegated(id):
            record = graph.records[id]
            # a value that leaves its region is transposed back there
            leaves = op_of(record.target) == "lowerscope_xnnpack::to_nchw" and delegated(record.inputs[0])
            groups.setdefault((record.prefix, rank[record.inputs[0] if leaves else id]), []).append(id)
    regions = [_region(lowering, graph, groups[key], layout_on) for key in sorted(groups, key=lambda k: (k[0], -k[1]))]
    outside = {id: r for id, r in reasons.items() if r is not None and is_operator(graph.records[id])}
    return Partitions(tuple(regions), outside)


def _device_key(lowering: Lowering) -> tuple[Any, ...]:
    return lowering.recipe.target, tuple(sorted(lowering.target.device(lowering.recipe).items()))


def _judge(lowering: Lowering, graph: RecordGraph, made_whole: set[int]) -> dict[str, str | None]:
    """None, or the reason why not, for every call of the graph."""
    takes, profile = lowering.target.takes, lowering.target.device(lowering.recipe)
    assert takes is not None
    known = _judged.setdefault(lowering.source, {}).setdefault(_device_key(lowering), {})
    reasons: dict[str, str | None] = {}
    for id in graph.order:
        record = graph.records[id]
        if record.op != "call_function":
            continue
        if record.born in made_whole and not judged_by_table(record.target):
            reasons[id] = None
            continue
        if is_getitem(record):
            reasons[id] = reasons.get(record.inputs[0], "it takes an item out of what no operator made")
            continue
        readers = graph.readers.get(id)
        found = known.get(id)
        if found is None or found[0] is not record or found[1] != readers:
            found = known[id] = (record, readers, _reason(record, graph, takes, profile))
        reasons[id] = found[2]
    return reasons


def _reason(record: NodeRecord, graph: RecordGraph, takes: Any, profile: Mapping[str, Any]) -> str | None:
    if not is_operator(record):
        return "it computes no tensor"
    return takes(Site(record, graph, profile, record.inputs, record.val))


def _region(lowering: Lowering, graph: RecordGraph, nodes: list[str], layout_on: bool) -> Region:
    inside = set(nodes)
    read = dict.fromkeys(i for id in nodes for i in graph.records[id].inputs if i not in inside)
    inputs = tuple(i for i in read if not graph.is_constant(i) and graph.records[i].op != "get_attr")
    outputs = tuple(id for id in nodes if any(r not in inside for r in graph.readers_of(id)))
    operators = sum(is_operator(graph.records[id]) for id in nodes)
    transposes = 0
    if lowering.target.nhwc:
        readers = dict.fromkeys(r for id in outputs for r in graph.readers_of(id) if r not in inside)
        needed = plan(
            [*read, *nodes, *readers],
            inside,
            graph,
            as_in_1_5_1=not layout_on,
            constants_are_inputs=not layout_on and lowering.recipe.target == "xnnpack",
        )
        transposes = needed.transposes + sum(is_transpose(op_of(graph.records[id].target)) for id in nodes)
    return Region(tuple(nodes), operators, inputs, outputs, transposes)


def _with_pattern(lowering: Lowering, id: str, reason: str) -> str:
    """The reason, and what the pattern that could have helped says."""
    for stage in lowering.stages:
        verdict = lowering.verdicts.get((stage.pattern, id))
        if verdict is not None and verdict.outcome in _WOULD_HAVE and delegates(stage.rule):
            return f"{reason}; {_WOULD_HAVE[verdict.outcome].format(stage.pattern, verdict.reason)}"
    return reason


def partitions_frame(lowering: Lowering) -> pd.DataFrame:
    """A row per region: when ("before" or "after"), nodes, operators, inputs, outputs (ids), transposes.

    RecipeError: the target does not say what its backend takes.
    """
    rows = [
        {
            "when": when,
            "nodes": region.nodes,
            "operators": region.operators,
            "inputs": region.inputs,
            "outputs": region.outputs,
            "transposes": region.transposes,
        }
        for when, found in _both(lowering)
        for region in found.regions
    ]
    return Table(rows, columns=pd.Index(["when", "nodes", "operators", "inputs", "outputs", "transposes"]))


def outside_frame(lowering: Lowering) -> pd.DataFrame:
    """A row per operator outside every region: when ("before" or "after"), node, op, module, reason.

    RecipeError: the target does not say what its backend takes.
    """
    records = lowering.ledger.records
    rows = [
        {
            "when": when,
            "node": id,
            "op": node_op_name(records[id]),
            "module": records[id].module,
            "reason": reason,
        }
        for when, found in _both(lowering)
        for id, reason in found.outside.items()
    ]
    return Table(rows, columns=pd.Index(["when", "node", "op", "module", "reason"]))


def _both(lowering: Lowering) -> Iterator[tuple[When, Partitions]]:
    for when in ("before", "after"):
        found = partitions(lowering, when)
        if found is None:
            raise RecipeError(
                f"target {lowering.recipe.target} does not say what its backend takes: give its Target a table as takes="
            )
        yield when, found
