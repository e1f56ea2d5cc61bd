"""Elementwise operators in integers: MUL and ADD between RESCALEs, everything of one operand as a TABLE of 256 codes."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import aten
from lowerscope.editor import Editor
from lowerscope.ops import tosa
from lowerscope.quantized import Quantization
from lowerscope.tosa.rescaling import Rescaling
from lowerscope.tosa.sites import Activation, Tail, codes_int8

TABLES = (
    aten.tanh.default,
    aten.sigmoid.default,
    aten.relu.default,
    aten.hardtanh.default,
    aten.clamp.default,
    aten.leaky_relu.default,
    aten.elu.default,
    aten.gelu.default,
    aten.exp.default,
    aten.log.default,
    aten.sqrt.default,
    aten.rsqrt.default,
    aten.reciprocal.default,
    aten.abs.default,
    aten.neg.default,
)
"""Operators of one operand whose value at a place depends on nothing else: 256 codes tell all of it."""

MOVES = (
    aten.view.default,
    aten.permute.default,
    aten.unsqueeze.default,
    aten.squeeze.dims,
    aten.clone.default,
    aten.slice.Tensor,
    aten.expand.default,
)
"""Operators that move codes and compute nothing."""

_HEADROOM = 20
"""Bits by which the operands of an ADD are scaled up, so that their common scale costs no precision. Two centred codes of 9
bits, halved and scaled so, stay below 2**28: the sum cannot leave int32."""


def product(a: Activation, b: Activation, result: Quantization) -> tuple[list[Rescaling], Rescaling, tuple[int, int]]:
    """MUL: the operands centred, the product to the result's codes, and the range of the product."""
    operands = [Rescaling.by(1.0, input_zp=x.zero_point) for x in (a, b)]
    ends = [p * q for p in a.centred for q in b.centred]
    scale = a.scale * b.scale / float(result.scale)
    return operands, _to_result(scale, result), (min(ends), max(ends))


def summation(a: Activation, b: Activation, result: Quantization) -> tuple[list[Rescaling], Rescaling, tuple[int, int]]:
    """ADD: the operands in a common scale, twice the larger one's; the sum to the result's codes, and the sum's range."""
    common = 2 * max(a.scale, b.scale)
    operands = [Rescaling.by(x.scale / common * 2**_HEADROOM, input_zp=x.zero_point) for x in (a, b)]
    ends = [[int(v) for v in r.run(codes_int8())[[0, -1]]] for r in operands]
    return operands, _to_result(common / (float(result.scale) * 2**_HEADROOM), result), (
        ends[0][0] + ends[1][0], ends[0][1] + ends[1][1],
    )  # fmt: skip


def between_codes(source: Activation, result: Quantization) -> Rescaling | None:
    """From one int8 form to another; None where they are the same."""
    if (source.scale, source.zero_point) == (float(result.scale), int(result.zero_point or 0)):
        return None
    return Rescaling.by(
        source.scale / float(result.scale), input_zp=source.zero_point, output_zp=int(result.zero_point or 0),
        dtype=torch.int8,
    )  # fmt: skip


def _to_result(scale: float, result: Quantization) -> Rescaling:
    return Rescaling.by(scale, output_zp=int(result.zero_point or 0), dtype=torch.int8)


def table(node: Node, source: Quantization, tail: Tail) -> torch.Tensor | int:
    """The int8 table [256] that dequantize, operator, tail and quantize compute; the code at which it is no number."""
    codes = codes_int8()
    operand = node.all_input_nodes[0]
    value = _called(source.node, source.operand, codes)
    value = _called(node, operand, value)
    for after in tail.nodes:
        value = _called(after, after.all_input_nodes[0], value)
    nan = torch.isnan(value).nonzero()
    if len(nan):
        return int(codes[nan[0, 0]])
    assert tail.quantize is not None
    return _called(tail.quantize.node, tail.quantize.operand, value)


def _called(node: Node, operand: Node, value: torch.Tensor) -> torch.Tensor:
    """The node's op on `value` in its operand's place; every other argument is a literal."""
    args: list[Any] = [value if a is operand else a for a in node.args]
    kwargs: dict[str, Any] = {k: value if v is operand else v for k, v in node.kwargs.items()}
    return node.target(*args, **kwargs)  # type: ignore[operator]


def build_binary(edit: Editor, op: Any, operands: list[tuple[Node, Rescaling]], like: Node) -> Node:
    """Two RESCALEs and the MUL or ADD of what they give, in int32."""
    a, b = (rescale.put(edit, codes, like) for codes, rescale in operands)
    return edit.call(op, a, b, 0, like=like) if op is tosa.mul else edit.call(op, a, b, like=like)
