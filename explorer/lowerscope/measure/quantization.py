"""The quantization error: how far a quantized program's layers are from those of the float program that it was made from."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch.fx import Node

from lowerscope.errors import MeasureError
from lowerscope.ledger import module_stack
from lowerscope.measure.batches import Batch, batches
from lowerscope.measure.compare import Comparison, compare
from lowerscope.measure.counts import node_op_name
from lowerscope.measure.interpreter import Interpreter, Run

if TYPE_CHECKING:
    from lowerscope.program import Program

_COLUMNS = ("layer", "quantized layer", "operator", "module", "sqnr_db", "max_abs", "norm_l2")

#: (operator, module path, how many of that operator the module has called before)
_Key = tuple[str, str, int]


def quantization_error(reference: Program, quantized: Program, inputs: Any = None) -> pd.DataFrame:
    """SQNR of each layer of `quantized` against `reference`, both run on the same inputs; the error as it has come together.

    Layers are paired by operator, module and order of call. Where the programs are on one path a row compares real values:
    what a layer gives before its result is quantized. Rows stand in the order of the graph, the outputs last.

    Args:
        reference: the float program. quantized: a program with the same inputs, made from the same module.
        inputs: see `lowerscope.measure.batches.batches`; the first batch is taken, the example's sizes by default.

    Returns:
        layer (node id in `reference`), quantized layer (node id), operator, module, sqnr_db (dB, inf when exact), max_abs,
        norm_l2 (norm of the error over norm of the float value).

    Raises:
        MeasureError: a program cannot be run on the inputs, or no operator of one is in the other.
    """
    batch = next(iter(batches(reference, inputs)))
    layers, outputs = _run(reference, batch)
    others, results = _run(quantized, batch)
    rows = [_row(node, *others[key], value) for key, (node, value) in layers.items() if key in others]
    if not rows:
        raise MeasureError(
            f"{quantized.name} has no operator in common with {reference.name}: give the program of the module that was "
            "quantized"
        )
    for path, value in outputs.outputs.items():
        if path in results.outputs:
            rows.append((path, path, "output", "", *_numbers(compare(value, results.outputs[path]))))
    return pd.DataFrame(rows, columns=pd.Index(_COLUMNS))


def _run(program: Program, batch: Batch) -> tuple[dict[_Key, tuple[Node, torch.Tensor]], Run]:
    layers: dict[_Key, tuple[Node, torch.Tensor]] = {}
    seen: Counter[tuple[str, str]] = Counter()
    walk = Interpreter(program).walk(batch.flat)
    while True:
        try:
            _, node, value = next(walk)
        except StopIteration as end:
            return layers, end.value
        if node.op != "call_function" or not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        place = (node_op_name(node), _module(node))
        layers[(*place, seen[place])] = (node, value)
        seen[place] += 1


def _row(node: Node, other: Node, other_value: torch.Tensor, value: torch.Tensor) -> tuple[Any, ...]:
    return node.name, other.name, node_op_name(node), _module(node), *_numbers(compare(value, other_value))


def _numbers(comparison: Comparison) -> tuple[float, float, float]:
    return comparison.sqnr_db, comparison.max_abs, comparison.norm_l2


def _module(node: Node) -> str:
    """The path of the module that called the operator."""
    stack = module_stack(node)
    return stack[-1][0] if stack else ""
