"""A float operator between dequantize and quantize nodes: what it reads, what follows it, and the integer code it gives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from lowerscope.arguments import aten, shape_of
from lowerscope.editor import Editor
from lowerscope.quantized import LinearSpec, Quantization, is_dequantize, is_quantize
from lowerscope.tosa.rescaling import Rescaling

INT8 = (-128, 127)


@dataclass(frozen=True, slots=True)
class Activation:
    """An int8 value and the per-tensor parameters that it stands for: scale * (code - zero_point)."""

    codes: Node
    scale: float
    zero_point: int

    @classmethod
    def of(cls, quantization: Quantization) -> Activation:
        """What a dequantize node reads, or a quantize node gives."""
        codes = quantization.operand if is_dequantize(quantization.node) else quantization.node
        return cls(codes, float(quantization.scale), int(quantization.zero_point or 0))

    @property
    def centred(self) -> tuple[int, int]:
        """The range of code - zero_point."""
        return INT8[0] - self.zero_point, INT8[1] - self.zero_point


@dataclass(frozen=True, slots=True)
class Tail:
    """What stands between an operator and the quantize node of its result: at most a view and a relu."""

    nodes: tuple[Node, ...]
    reader: Node  #: what reads the last of them, or the last of them itself where nothing or several read it
    quantize: Quantization | None

    @classmethod
    def of(cls, node: Node) -> Tail:
        """Follow the only readers of `node`."""
        nodes: list[Node] = []
        current = node
        while True:
            users = sorted(current.users)
            others = [u for u in users if not is_quantize(u)]
            if len(users) != 1:
                return cls(tuple(nodes), others[0] if others else current, None)
            user = users[0]
            if is_quantize(user):
                return cls(tuple(nodes), user, Quantization.of(user))
            if not is_tail(user):
                return cls(tuple(nodes), user, None)
            nodes.append(user)
            current = user

    @property
    def has_relu(self) -> bool:
        """Whether the result is held above 0."""
        return any(n.target is aten.relu.default for n in self.nodes)


def is_tail(node: Node) -> bool:
    """Whether a node belongs to the operator before it: a relu of a real result, or the view that ends a linear."""
    source = node.args[0] if node.args else None
    if not isinstance(source, Node) or len(source.users) != 1:
        return False
    if node.target is aten.relu.default:
        return not is_dequantize(source) and source.op == "call_function"
    return node.target is aten.view.default and source.target in LinearSpec.ANCHORS


def is_head(node: Node) -> bool:
    """Whether a node belongs to the linear after it: the view that flattens its input, or its weight's transposition."""
    return any(node in LinearSpec.of(u).nodes for u in node.users if u.target in LinearSpec.ANCHORS and u is not node)


def finish(edit: Editor, value: Node, rescale: Rescaling | None, tail: Tail, result: Quantization, like: Node) -> Node:
    """RESCALE a value to the result's int8 codes (None: it has them), held in the quantize node's range and, by a relu,
    above 0."""
    if rescale is not None:
        value = rescale.put(edit, value, like)
    low, high = result.qmin, result.qmax
    if tail.has_relu:
        low = max(low, int(result.zero_point or 0))
    if (low, high) != INT8:
        value = edit.call(aten.clamp.default, value, low, high, like=like)
    shape = shape_of(tail.quantize.node) if tail.quantize is not None else None
    if shape is not None and shape != shape_of(value):
        value = edit.call(aten.view.default, value, list(shape), like=like)
    return value


def codes_int8() -> torch.Tensor:
    """Every int8 code, ascending: [256]."""
    return torch.arange(-128, 128, dtype=torch.int16).to(torch.int8)
