"""ExecuTorch's own XnnpackPartitioner beside our partitions: what either takes of each operator, or why it does not."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from lowerscope.errors import MeasureError
from lowerscope.frame import Table
from lowerscope.graph_copy import copy_node
from lowerscope.ledger import NodeRecord
from lowerscope.lowering import Lowering
from lowerscope.measure.counts import is_operator, node_op_name
from lowerscope.measure.latency import portable, require_executorch
from lowerscope.measure.partitioner_worker import LABELS, TAG
from lowerscope.measure.process import read_json, run_worker
from lowerscope.partitions import Partitions, When, partitions
from lowerscope.program import Program

_COLUMNS = ["when", "node", "op", "ours", "executorch", "agree"]


@dataclass(frozen=True, slots=True)
class PartitionerRow:
    """An operator of the original program ("before") or of the lowered one ("after").

    ours, executorch: the region that takes it, such as "region 1", or the reason why it is outside. Ours are counted in the
    order of `session.partitions()`; one of ExecuTorch's has the number of that of ours with which it shares most operators.
    agree: both take it, or neither.
    """

    when: When
    node: str
    op: str
    ours: str
    executorch: str
    agree: bool


@dataclass(frozen=True)
class PartitionerReport:
    """The rows, where the two differ first; regions: how many ExecuTorch makes, before and after, and we."""

    rows: tuple[PartitionerRow, ...]
    regions: tuple[int, int]
    ours: tuple[int, int]

    @property
    def sentence(self) -> str:
        """How many regions either makes, and of how many operators they think differently."""
        differ = sum(not row.agree for row in self.rows)
        taken = f"ExecuTorch {version('executorch')} makes {self.regions[0]} regions before and {self.regions[1]} after"
        return f"{taken}, we {self.ours[0]} and {self.ours[1]}; {differ} of {len(self.rows)} operators differ."

    def frame(self) -> pd.DataFrame:
        """A row per operator; the columns are the fields of `PartitionerRow`."""
        return Table([{c: getattr(row, c) for c in _COLUMNS} for row in self.rows], columns=pd.Index(_COLUMNS))


def partitioner(
    lowering: Lowering,
    *,
    cancelled: Callable[[], bool] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> PartitionerReport:
    """Let ExecuTorch's XnnpackPartitioner judge the original and the lowered program, in a process of its own.

    The project's own operators are decomposed to ATen before, as for `latency`: what ExecuTorch says of one is what it says
    of its parts. It looks at the top graph only.

    Args:
        cancelled: polled while the other process works. progress: called with (phase, done, total) as it goes on.

    Raises:
        MeasureError: the target is not xnnpack; ExecuTorch is not installed, cannot partition a program, or its process
            ended; the message says in which phase.
        Cancelled: `cancelled` returned True; the process is gone.
    """
    target = lowering.recipe.target
    if target != "xnnpack":
        raise MeasureError(
            f"XnnpackPartitioner judges programs for XNNPACK, and the target is {target}: session.set_target('xnnpack') first"
        )
    require_executorch("the partitioner is that of the real ExecuTorch")
    with tempfile.TemporaryDirectory(prefix="lowerscope-") as name:
        folder = Path(name)
        for label, program in zip(LABELS, (lowering.before, lowering.program), strict=True):
            torch.export.save(portable(_tagged(program)), folder / f"{label}.pt2")
        run_worker(
            "lowerscope.measure.partitioner_worker",
            folder,
            cancelled or (lambda: False),
            progress or (lambda *_: None),
        )
        found = read_json(folder / "result.json")
    if found is None:
        raise MeasureError("the ExecuTorch process ended without a result: run the partitioner again")
    return _report(lowering, found)


def _tagged(program: Program) -> Program:
    """A copy in which every call of the top graph carries its name to whatever is made of it; weights are shared."""
    source = program.exported_program
    graph, copies = Graph(), dict[Node, Node]()
    for node in source.graph.nodes:
        copies[node] = copy = copy_node(graph, node, copies.__getitem__)
        if node.op == "call_function":
            copy.meta["custom"] = {**(node.meta.get("custom") or {}), TAG: node.name}
    graph._codegen = source.graph._codegen
    module = GraphModule(source.graph_module, graph)
    module.meta.update(source.graph_module.meta)
    made = ExportedProgram(
        root=module,
        graph=graph,
        graph_signature=source.graph_signature,
        state_dict=source.state_dict,
        range_constraints=source.range_constraints,
        module_call_graph=source.module_call_graph,
        example_inputs=source.example_inputs,
        constants=source.constants,
        verifiers=list(source.verifiers),
    )
    return Program(made, name=program.name, example_inputs=program.example_inputs, stand_ins=program.stand_ins)


def _report(lowering: Lowering, found: Mapping[str, list[dict[str, Any]]]) -> PartitionerReport:
    rows: list[PartitionerRow] = []
    counts: dict[str, tuple[int, int]] = {}
    for when in ("before", "after"):
        ours = partitions(lowering, when)
        assert ours is not None, "target xnnpack has a support table"
        number = {id: place for place, made in enumerate(ours.regions, 1) for id in made.nodes}
        region = {id: f"region {place}" for id, place in number.items()}
        theirs = _Theirs(found[when], number)
        counts[when] = (theirs.regions, len(ours.regions))
        for record in _operators(lowering, when):
            said, taken = _ours(lowering, record, ours, region) if when == "before" else _said(record.id, ours, region)
            their_words, they_take = theirs.of(record)
            rows.append(PartitionerRow(when, record.id, node_op_name(record), said, their_words, taken == they_take))
    rows.sort(key=lambda row: (row.agree, row.ours.startswith("region ")))
    (a, b), (c, d) = counts["before"], counts["after"]
    return PartitionerReport(tuple(rows), (a, c), (b, d))


def _operators(lowering: Lowering, when: When) -> Iterable[NodeRecord]:
    step = 0 if when == "before" else len(lowering.steps)
    return (r for r in lowering.ledger.alive_at(step) if is_operator(r))


def _said(id: str, ours: Partitions, region: Mapping[str, str]) -> tuple[str, bool]:
    return (region[id], True) if id in region else (ours.outside.get(id, "nothing reads it"), False)


def _ours(lowering: Lowering, record: NodeRecord, ours: Partitions, region: Mapping[str, str]) -> tuple[str, bool]:
    """Of a node of the original program: of what core_aten has made of it."""
    line = (record.id, *lowering.ledger.descendants(record.id))
    made = [id for id in line if id in lowering.core and (id in region or id in ours.outside)]
    if not made:
        return "core_aten leaves nothing of it", False
    said = [_said(id, ours, region) for id in made]
    return "; ".join(dict.fromkeys(words for words, _ in said)), all(taken for _, taken in said)


class _Theirs:
    """What the partitioner has made of each node: its parts, with region or reason. number: of our region, by node."""

    def __init__(self, rows: list[dict[str, Any]], number: Mapping[str, int]) -> None:
        numbers = _numbered(rows, number)
        self._parts: dict[str, dict[str, bool]] = {}
        for row in rows:
            tag = row["region"]
            if tag is None and row["op"] == "getitem":  # it goes with what it takes an item out of
                continue
            words = row["reason"] if tag is None else f"region {numbers[tag]}"
            self._parts.setdefault(row["node"], {})[words] = tag is not None
        self.regions = len(numbers)

    def of(self, record: NodeRecord) -> tuple[str, bool]:
        """The region or the reasons in words, and whether it takes all of the node."""
        parts = self._parts.get(record.id)
        if parts is not None:
            return "; ".join(parts), all(parts.values())
        inside = bool(record.prefix)
        return "it does not look into sub-graphs" if inside else "its graph has no such node any more", False


def _numbered(rows: list[dict[str, Any]], number: Mapping[str, int]) -> dict[str, int]:
    """A number for each of their regions: that of ours with which it shares most, as long as it is free."""
    tags = dict.fromkeys(row["region"] for row in rows if row["region"] is not None)
    shared = Counter((row["region"], number[row["node"]]) for row in rows if row["region"] and row["node"] in number)
    numbers: dict[str, int] = {}
    for (tag, place), _ in shared.most_common():
        if tag not in numbers and place not in numbers.values():
            numbers[tag] = place
    free = (place for place in count(1) if place not in numbers.values())
    for tag in tags:
        if tag not in numbers:
            numbers[tag] = next(free)
    return numbers
