"""Reading a quantized graph: what a quantize or dequantize node does, and what a linear is made of.

Two vocabularies are read alike, `quantized_decomposed` (torch's PT2E flow) and `torchao`. Their operators are recognised by
name, since neither need be registered for a graph to be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from lowerscope.arguments import MOVES_AXES, arguments, aten, shape_of

_QUANTIZE = frozenset(
    {
        "quantized_decomposed::quantize_per_tensor",
        "quantized_decomposed::quantize_per_token",
        "torchao::quantize_affine",
    }
)
_DEQUANTIZE = frozenset(
    {
        "quantized_decomposed::dequantize_per_tensor",
        "quantized_decomposed::dequantize_per_channel",
        "quantized_decomposed::dequantize_per_channel_group",
        "quantized_decomposed::dequantize_per_token",
        "torchao::dequantize_affine",
    }
)


def op_name(node: Any) -> str:
    """`namespace::name` of the op that a node calls, without overload; "" for anything else."""
    target = node.target if isinstance(node, Node) else None
    return target._schema.name if isinstance(target, OpOverload) else ""


def is_quantize(node: Any) -> bool:
    """Whether a node turns real values into codes."""
    return op_name(node) in _QUANTIZE


def is_dequantize(node: Any) -> bool:
    """Whether a node turns codes into real values."""
    return op_name(node) in _DEQUANTIZE


@dataclass(frozen=True, slots=True)
class Quantization:
    """What a quantize or dequantize node does: value = scale * (code - zero_point), code in [qmin, qmax].

    operand: what the node reads, codes or values. scale, zero_point: numbers, or the nodes that hold them (zero_point
    None: 0). block: how many elements of each axis share one scale; for a whole tensor its shape.
    """

    node: Node
    operand: Node
    scale: Any
    zero_point: Any
    qmin: int
    qmax: int
    dtype: torch.dtype
    block: tuple[Any, ...]

    @classmethod
    def of(cls, node: Any) -> Quantization | None:
        """Read a quantize or dequantize node; None for any other."""
        if not (is_quantize(node) or is_dequantize(node)):
            return None
        a = arguments(node)
        operand: Node = a["input"]
        shape = shape_of(operand) or ()
        if op_name(node).startswith("torchao::"):
            dtype = a["output_dtype" if is_quantize(node) else "input_dtype"]
            block = tuple(a["block_size"])
        else:
            dtype, block = a["dtype"], shape
            if "axis" in a:
                block = tuple(1 if axis == a["axis"] % len(shape) else size for axis, size in enumerate(shape))
            elif "group_size" in a:
                block = (*(1 for _ in shape[1:]), a["group_size"])
            elif op_name(node).endswith("_per_token"):
                block = (*(1 for _ in shape[1:]), *shape[-1:])
        scale, zero_point = (a.get(k, a.get(f"{k}s")) for k in ("scale", "zero_point"))
        low, high = a.get("quant_min"), a.get("quant_max")
        limits = torch.iinfo(dtype)
        qmin, qmax = (limits.min if low is None else low), (limits.max if high is None else high)
        return cls(node, operand, scale, zero_point, qmin, qmax, dtype, block)

    @property
    def bits(self) -> int:
        """How many bits the codes take: 8 for -127..127 and -128..127, 4 for -8..7."""
        return int(self.qmax - self.qmin).bit_length()

    @property
    def per_tensor(self) -> bool:
        """One scale and zero point for the whole tensor."""
        return self.block == (shape_of(self.operand) or ())

    @property
    def literal(self) -> bool:
        """Scale and zero point are numbers in the graph."""
        return not isinstance(self.scale, Node) and not isinstance(self.zero_point, Node)

    @property
    def axis(self) -> int | None:
        """The one axis along which scales differ, each index of it having its own; None where there is no such axis."""
        shape = shape_of(self.operand) or ()
        ones = [i for i, (b, size) in enumerate(zip(self.block, shape, strict=True)) if b != size]
        return ones[0] if len(ones) == 1 and self.block[ones[0]] == 1 else None

    @property
    def group_size(self) -> int | None:
        """How many elements of a row [N, K] share a scale (K: the whole row); None where scales span rows."""
        shape = shape_of(self.operand) or ()
        if len(shape) != 2 or self.block[0] != 1 or not self.block[1] or shape[1] % self.block[1]:
            return None
        return int(self.block[1])

    @property
    def per_row(self) -> bool:
        """One scale for each vector along the last axis."""
        shape = shape_of(self.operand)
        return bool(shape) and self.block == (*(1 for _ in shape[1:]), shape[-1])

    @property
    def grain(self) -> str:
        """In words, what shares a scale; of a weight [N, K] a row is an output channel."""
        shape = shape_of(self.operand) or ()
        if self.per_tensor and (self.literal or self.group_size is None):
            return "per tensor"
        group = self.group_size
        if group is not None and (group,) != shape[-1:]:
            return f"in groups of {group}"
        if self.axis == 0 or self.per_row:
            return "per output channel"
        return f"in blocks of {'×'.join(map(str, self.block))}"


@dataclass(frozen=True, slots=True)
class LinearSpec:
    """y = x w^T + b, as `linear`, or as `addmm` or `mm` of a transposed weight, which core ATen makes of it.

    input: x, before a view that flattens it to rows. weight: [N, K] where `rows_are_outputs`. nodes: what a match takes
    beside the operands themselves, in the order of the graph.
    """

    node: Node
    input: Node
    weight: Node
    bias: Node | None
    rows_are_outputs: bool
    plain: bool  #: neither sum nor product is scaled
    nodes: tuple[Node, ...]

    ANCHORS = (aten.linear.default, aten.addmm.default, aten.mm.default)

    @classmethod
    def of(cls, node: Node) -> LinearSpec:
        """Read one of `ANCHORS`."""
        a = arguments(node)
        if node.target is aten.linear.default:
            return cls(node, a["input"], a["weight"], a["bias"], True, True, (node,))
        first, second = (a["mat1"], a["mat2"]) if node.target is aten.addmm.default else (a["self"], a["mat2"])
        bias = a["self"] if node.target is aten.addmm.default else None
        taken: list[Node] = [node]
        turned = isinstance(second, Node) and second.target in MOVES_AXES and _swaps(second)
        if turned:
            taken.insert(0, second)
            second = arguments(second)["self"]
        if isinstance(first, Node) and first.target is aten.view.default and _flattens(first):
            taken.insert(0, first)
            first = arguments(first)["self"]
        return cls(node, first, second, bias, turned, a.get("beta", 1) == 1 and a.get("alpha", 1) == 1, tuple(taken))

    @property
    def outputs(self) -> int:
        """N."""
        shape = shape_of(self.node)
        return shape[-1] if shape else 0

    @property
    def inputs(self) -> int:
        """K."""
        shape = shape_of(self.input)
        return shape[-1] if shape else 0


def _swaps(node: Node) -> bool:
    """Whether a node transposes a matrix."""
    if len(shape_of(node) or ()) != 2:
        return False
    a = arguments(node)
    if node.target is aten.permute.default:
        return [d % 2 for d in a["dims"]] == [1, 0]
    return node.target is aten.t.default or a["dim0"] % 2 != a["dim1"] % 2


def _flattens(view: Node) -> bool:
    """Whether a view only makes rows of the leading axes."""
    before, after = shape_of(view.args[0]) or (), shape_of(view) or ()
    return len(before) > 2 and len(after) == 2 and before[-1] == after[-1]
