"""What a program costs on paper, from its shapes: arithmetic, memory traffic, weights and dispatches, without a runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch.utils import _pytree as pytree

from lowerscope.arguments import arguments
from lowerscope.frame import Table
from lowerscope.measure.batches import flatten
from lowerscope.measure.counts import effective_target, node_op_name, operators
from lowerscope.measure.sizes import resolve, symbols_of
from lowerscope.ops import category

if TYPE_CHECKING:
    from lowerscope.program import Program

FIGURES = ("dispatches", "flops", "bytes_read", "bytes_written", "weight_bytes")

# Operators that read the rows which an index names, and not the whole table.
_LOOKUPS = frozenset({"embedding", "index_select", "gather", "index", "select_scatter", "take"})
# The first factor of a product, by the names that schemas give it, in this order of preference.
_FACTORS = ("mat1", "batch1", "mat", "input", "self")
_NO_PRODUCTS = frozenset({"outer", "einsum", "tensordot"})


@dataclass(frozen=True)
class NodeCost:
    """What one operator costs.

    Attributes:
        op: its name. node: its id.
        flops: floating-point or integer operations of a convolution or matrix product, a multiply-add being two; 0 for
            everything else, as in `torch.utils.flop_counter`.
        bytes_read, bytes_written: of activations. weight_bytes: of the constants it reads.
        dispatches: 1, or 0 for an operator that only looks at the same memory in another way (view, permute, slice).
    """

    op: str
    node: str
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    weight_bytes: int = 0
    dispatches: int = 1


@dataclass
class CostReport:
    """The cost of a program: each operator's, and the totals.

    Attributes:
        nodes: in graph order. Sub-graphs are in it once each: both branches of a cond, one turn of a loop.
        weight_bytes: of all constants that any operator reads, each memory counted once.
        unsized: ids of nodes whose sizes depend on the data; they are counted as costing nothing.
        uncounted: names of matrix products for which there is no formula; their flops are missing.
    """

    nodes: list[NodeCost]
    weight_bytes: int
    unsized: list[str] = field(default_factory=list)
    uncounted: list[str] = field(default_factory=list)

    def total(self, figure: str) -> int:
        """The sum over all operators of one of `FIGURES`."""
        return self.weight_bytes if figure == "weight_bytes" else sum(getattr(node, figure) for node in self.nodes)

    def frame(self) -> pd.DataFrame:
        """Index ``op``, a column for each of `FIGURES`; the last row is "total".

        A constant that several operators read is in the weight_bytes of each, and once in the total.
        """
        rows: dict[str, dict[str, int]] = {}
        for node in self.nodes:
            row = rows.setdefault(node.op, dict.fromkeys(FIGURES, 0))
            for figure in FIGURES:
                row[figure] += getattr(node, figure)
        names = sorted(rows)
        totals = {figure: self.total(figure) for figure in FIGURES}
        index = pd.Index([*names, "total"], name="op")
        return pd.DataFrame(
            [*(rows[name] for name in names), totals], index=index, columns=list(FIGURES), dtype="int64"
        )


def cost(program: Program, sizes: Mapping[str, int] | None = None) -> CostReport:
    """The cost of one run of a program, from the fake values in its graph; nothing is run.

    Args:
        sizes: of dynamic dimensions, as `Program.inputs` takes them; by default those of the example inputs.
    """
    args, kwargs = program.inputs(sizes=sizes) if sizes else program.inputs()
    symbols = symbols_of(program, flatten(program, args, kwargs))
    report = CostReport([], 0)
    read: dict[int, int] = {}
    for node_id, node in operators(program.exported_program.graph_module):
        try:
            counted = _Counted(program, node, symbols)
            report.nodes.append(counted.cost(node_id, report))
        except _Unsized:
            report.unsized.append(node_id)
            report.nodes.append(NodeCost(node_op_name(node), node_id))
            continue
        read.update(counted.constants)
    report.weight_bytes = sum(read.values())
    return report


def cost_table(before: Program, after: Program, sizes: Mapping[str, int] | None = None) -> pd.DataFrame:
    """Both programs' cost: index ``op``, columns ``flops_before``, ``flops_after`` ... ; the last row is "total"."""
    old, new = cost(before, sizes).frame(), cost(after, sizes).frame()
    names = sorted({*old.index, *new.index} - {"total"})
    index = pd.Index([*names, "total"], name="op")
    columns = {}
    for figure in FIGURES:
        for label, frame in (("before", old), ("after", new)):
            columns[f"{figure}_{label}"] = frame[figure].reindex(index, fill_value=0)
    return Table(columns, index=index).astype("int64")


class _Unsized(Exception):
    """A size depends on the data."""


class _Counted:
    """One node with its arguments by name and all sizes as numbers."""

    def __init__(self, program: Program, node: torch.fx.Node, symbols: Mapping[Any, int]) -> None:
        self._node, self._symbols = node, symbols
        self._target = effective_target(node)
        schema = getattr(self._target, "_schema", None)
        self._arguments = arguments(node)
        self._returns = schema.returns if schema is not None else ()
        self._name = schema.name.partition("::")[2] if schema is not None else ""
        self._category = category(self._target)
        self.constants: dict[int, int] = {}
        self._activations: list[int] = []
        for used in node.all_input_nodes:
            constant = program.constants.get(used.name) if used.op == "placeholder" else None
            if constant is not None:
                self.constants[_memory(constant)] = self._bytes(used)
            elif used.op != "get_attr":
                self._activations.append(self._bytes(used))

    def cost(self, node_id: str, report: CostReport) -> NodeCost:
        op = node_op_name(self._node)
        if self._is_view():
            return NodeCost(op, node_id, dispatches=0)
        written = self._bytes(self._node)
        flops = self._flops()
        if flops is None:
            flops = 0
            if op not in report.uncounted:
                report.uncounted.append(op)
        weights = sum(self.constants.values())
        read = sum(self._activations)
        if self._name in _LOOKUPS:
            weights, read = min(weights, written), min(read, written + read)
        return NodeCost(op, node_id, flops, read, written, weights)

    def _is_view(self) -> bool:
        aliases = [r.alias_info for r in self._returns]
        return bool(aliases) and all(a is not None and not a.is_write for a in aliases)

    def _flops(self) -> int | None:
        if self._category == "conv":
            return self._convolution()
        if self._category == "matmul":
            return self._product()
        return 0

    def _convolution(self) -> int | None:
        weight, source = self._shape_of("weight"), self._shape_of("input") or self._shape_of("self")
        result = self._shapes(self._node)
        if weight is None or source is None or not result:
            return None
        transposed = self._arguments.get("transposed", "transpose" in self._name)
        # Every weight meets every position once: of the input where it is spread out, else of the output.
        positions = (source if transposed else result[0])[-(len(weight) - 2) :]
        batch = source[0] if len(source) == len(weight) else 1
        return 2 * batch * math.prod(positions) * math.prod(weight)

    def _product(self) -> int | None:
        result = self._shapes(self._node)
        if not result or self._name in _NO_PRODUCTS:
            return None
        if "attention" in self._name:
            query, key, value = (self._shape_of(name) for name in ("query", "key", "value"))
            if query is None or key is None or value is None:
                return None
            return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
        for name in _FACTORS:
            shape = self._shape_of(name)
            if shape:
                return 2 * math.prod(result[0]) * shape[-1]
        return None

    def _shape_of(self, argument: str) -> tuple[int, ...] | None:
        node = self._arguments.get(argument)
        shapes = self._shapes(node) if isinstance(node, torch.fx.Node) else []
        return shapes[0] if shapes else None

    def _shapes(self, node: torch.fx.Node) -> list[tuple[int, ...]]:
        tensors = [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]
        return [tuple(self._size(size) for size in tensor.shape) for tensor in tensors]

    def _bytes(self, node: torch.fx.Node) -> int:
        tensors = [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]
        return sum(
            math.prod(shape) * tensor.element_size() for tensor, shape in zip(tensors, self._shapes(node), strict=True)
        )

    def _size(self, size: Any) -> int:
        value = resolve(size, self._symbols)
        if value is None:
            raise _Unsized
        return int(value)


def _memory(constant: torch.Tensor) -> int:
    if constant.layout is torch.strided and constant.numel():
        return constant.data_ptr()
    return id(constant)
