"""Which 4-D values of a graph a backend with NHWC kernels keeps in NHWC, and where it must transpose.

Kernels such as convolutions want NHWC, operators such as reshapes read their input in NCHW order, and elementwise ones
follow their operands. One walk in the order of the graph decides; a value is transposed once at most, however many read
it, and one that is back in NCHW for one reader is read in NHWC by the others, so that no two transposes cancel.

Kernels are 2-D: a 1-D convolution runs as a 2-D one of height 1. What stands around it, which puts that axis in and takes
it away again, reads NCHW, so that each costs a transpose before and one behind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import torch

from lowerscope.arguments import op_of
from lowerscope.ops import xnnpack
from lowerscope.support.table import ops, own

N = TypeVar("N", bound=Hashable)
NodeOf = TypeVar("NodeOf", bound=Hashable, contravariant=True)

WANT_NHWC = frozenset(
    {
        *ops("convolution upsample_bilinear2d.vec mean.dim max_pool2d max_pool2d_with_indices avg_pool2d prelu max.dim amax"),
        *ops("upsample_nearest2d.vec pixel_shuffle pixel_unshuffle grid_sampler_2d"),
        *ops("_native_batch_norm_legit_no_training native_group_norm _adaptive_avg_pool2d adaptive_max_pool2d"),
        *own(xnnpack.conv_with_range, xnnpack.depth_to_space_2d),
    }
)  # fmt: skip
FOLLOW = frozenset(
    {
        *ops("add.Tensor add.Scalar sub.Tensor sub.Scalar mul.Tensor mul.Scalar div.Tensor div.Scalar maximum minimum"),
        *ops("relu hardtanh clamp sigmoid tanh leaky_relu hardswish hardsigmoid elu gelu abs neg exp log sqrt rsqrt"),
        *ops("sin cos floor ceil round sign pow.Tensor_Scalar pow.Tensor_Tensor clone cat slice.Tensor constant_pad_nd"),
        *ops("eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor where.self"),
        *ops("quantize_per_tensor dequantize_per_tensor", "quantized_decomposed"),
        *own(xnnpack.add_with_range, xnnpack.sub_with_range, xnnpack.mul_with_range),
        *own(xnnpack.add_scalar_with_range, xnnpack.sub_scalar_with_range, xnnpack.mul_scalar_with_range),
    }
)  # fmt: skip
_CONVOLUTIONS = frozenset({*ops("convolution"), *own(xnnpack.conv_with_range)})
_TRANSPOSES = frozenset(own(xnnpack.to_nhwc, xnnpack.to_nchw))
_DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor"
_TWO_OPERANDS = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "add_scalar_with_range",
        "sub_scalar_with_range",
        "mul_scalar_with_range",
    ]
)
#: what ExecuTorch 1.5.1 holds to NCHW order; everything else follows its operands there
_ORDERED_IN_1_5_1 = frozenset(ops("squeeze.dim unsqueeze linear view"))


class Values(Protocol[NodeOf]):
    """A graph as the walk reads it."""

    def op(self, node: NodeOf) -> str:
        """The torch name of a node's op, "" for what is none."""
        ...

    def value(self, reference: NodeOf) -> Any:
        """A node's fake value."""
        ...

    def is_constant(self, reference: NodeOf) -> bool:
        """Whether a node is a constant of the program."""
        ...

    def has_number(self, node: NodeOf) -> bool:
        """Whether a node's op was given a number where another tensor could be."""
        ...

    def reads(self, node: NodeOf) -> Sequence[Any]:
        """The nodes that a node reads."""
        ...

    def readers_of(self, node: NodeOf) -> Sequence[Any]:
        """The nodes that read a node."""
        ...


@dataclass
class Plan(Generic[N]):
    """Where a graph is in NHWC.

    nhwc: the nodes whose value is. to_nhwc, to_nchw: a value to transpose -> the readers that take it transposed.
    one_dimensional: convolutions that the backend runs as 2-D ones. reshaped: a reader -> operands of lower rank that
    follow it, with ones put before. dragged: a node that stays in NCHW though an operand is in NHWC -> the operand that
    drags it back, and why.
    """

    nhwc: set[N] = field(default_factory=set)
    to_nhwc: dict[N, list[N]] = field(default_factory=dict)
    to_nchw: dict[N, list[N]] = field(default_factory=dict)
    one_dimensional: set[N] = field(default_factory=set)
    reshaped: dict[N, list[N]] = field(default_factory=dict)
    dragged: dict[N, tuple[N, str]] = field(default_factory=dict)

    @property
    def transposes(self) -> int:
        """How many transposes it takes: one for each value and direction, two for each 1-D convolution."""
        return len(self.to_nhwc) + len(self.to_nchw) + 2 * len(self.one_dimensional)


def is_transpose(op: str) -> bool:
    """Whether an op (by torch name) is a transpose that a layout pass put in."""
    return op in _TRANSPOSES


def plan(
    order: Iterable[N],
    inside: Iterable[N],
    graph: Values[N],
    *,
    as_in_1_5_1: bool = False,
    constants_are_inputs: bool = False,
) -> Plan[N]:
    """Decide the layouts of the nodes `inside`, of all in topological `order`; a border is crossed in NCHW.

    `as_in_1_5_1`: by the rules of ExecuTorch 1.5.1, in which a number or an operand of lower rank drags its whole
    operator back to NCHW. `constants_are_inputs`: a constant that an elementwise operator reads is an input of the
    delegate, as in XNNPACK's of 1.5.1, and transposed at every run; else it is packed ahead of time.
    """
    return _Walk(graph, set(inside), as_in_1_5_1, constants_are_inputs).run(order)


class _Walk(Generic[N]):
    def __init__(self, graph: Values[N], inside: set[N], as_in_1_5_1: bool, constants_are_inputs: bool) -> None:
        self.graph, self.inside, self.naive = graph, inside, as_in_1_5_1
        self.packed = not constants_are_inputs
        self.plan: Plan[N] = Plan()

    def run(self, order: Iterable[N]) -> Plan[N]:
        for node in order:
            if node in self.inside:
                self._visit(node)
            elif not self.graph.reads(node):
                if stored_nhwc(self.graph.value(node)):
                    self.plan.nhwc.add(node)
            elif self.plan.nhwc:
                self._leave(node)
        return self.plan

    def _visit(self, node: N) -> None:
        op, reads = self.graph.op(node), self.graph.reads(node)
        if op == "lowerscope_xnnpack::to_nhwc":
            self.plan.nhwc.add(node)
        elif op == "lowerscope_xnnpack::to_nchw":
            return
        elif op in WANT_NHWC:
            first = reads[0]
            if rank_of(self.graph.value(first)) == 4 == rank_of(self.graph.value(node)):
                self._need_nhwc(first, node)
                self.plan.nhwc.add(node)
            else:
                self._need_nchw(reads, node)
                if op in _CONVOLUTIONS and rank_of(self.graph.value(node)) == 3:
                    self.plan.one_dimensional.add(node)
        elif self._follows(op):
            self._follow(node, reads)
        else:
            self._need_nchw(reads, node)

    def _follows(self, op: str) -> bool:
        return op not in _ORDERED_IN_1_5_1 if self.naive else op in FOLLOW or not op

    def _follow(self, node: N, reads: Sequence[N]) -> None:
        in_nhwc = [r for r in reads if r in self.plan.nhwc]
        if not in_nhwc:
            return
        if not self.naive and len(reads) > 1 and all(is_single(self.graph.value(r)) for r in in_nhwc):
            self.plan.dragged[node] = in_nhwc[0], "it has one element, and so takes no part in the decision"
            return
        drag = self._drag_naively(reads, node) if self.naive else self._drag(reads, node)
        if drag is not None:
            self.plan.dragged[node] = drag
            self._need_nchw(reads, node)
            return
        self.plan.nhwc.add(node)
        for operand in reads:
            rank = rank_of(self.graph.value(operand))
            if is_single(self.graph.value(operand)) and not self.naive:
                continue
            if self.packed and self.graph.is_constant(operand):  # packed ahead of time, in whichever layout it is read
                if rank < 4:
                    self.plan.reshaped.setdefault(node, []).append(operand)
            elif rank == 4:
                self._need_nhwc(operand, node)
            else:
                self.plan.reshaped.setdefault(node, []).append(operand)

    def _drag(self, reads: Sequence[N], node: N) -> tuple[N, str] | None:
        if rank_of(self.graph.value(node)) != 4:
            return node, f"its result is {rank_of(self.graph.value(node))}-D"
        for operand in reads:
            value = self.graph.value(operand)
            rank = rank_of(value)
            if is_single(value) or rank == 4:
                continue
            if rank > 4 or rank < 0:
                return operand, "it has no layout"
            if self.graph.op(operand).startswith("quantized_decomposed::dequantize"):
                return (
                    operand,
                    f"it is dequantized and {rank}-D: a view behind it would lose its quantization parameters",
                )
        return None

    def _drag_naively(self, reads: Sequence[N], node: N) -> tuple[N, str] | None:
        for operand in reads:
            rank = rank_of(self.graph.value(operand))
            if rank != 4:
                return operand, f"it is {rank}-D, and has no NHWC form"
        if self.graph.has_number(node):
            return node, "the number that it is given is lifted to a tensor without dimensions"
        return None

    def _need_nhwc(self, value: N, reader: N) -> None:
        if value in self.plan.nhwc:
            return
        alone = list(self.graph.readers_of(value)) == [reader]
        if self.graph.op(value) == _DEQUANTIZE and value in self.inside and alone and not self.naive:
            # codes are transposed, not real values: the operator finds the dequantize that it wants right before it
            self.plan.nhwc.add(value)
            self._need_nhwc(self.graph.reads(value)[0], value)
            return
        readers = self.plan.to_nhwc.setdefault(value, [])
        if reader not in readers:
            readers.append(reader)

    def _need_nchw(self, reads: Iterable[N], reader: N) -> None:
        for value in dict.fromkeys(reads):
            # what the program itself keeps in NHWC is read as such, by views that would not fit another order
            own = not self.naive and stored_nhwc(self.graph.value(value))
            if value in self.plan.nhwc and not own:
                self.plan.to_nchw.setdefault(value, []).append(reader)

    def _leave(self, reader: N) -> None:
        # whoever is outside finds its values as the program has them, which for some may be in NHWC
        mine = (v for v in self.graph.reads(reader) if v in self.inside)
        self._need_nchw([v for v in mine if not stored_nhwc(self.graph.value(v))], reader)


def rank_of(value: Any) -> int:
    """The rank of a tensor (of the first of several); -1 for no tensor."""
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    return value.dim() if isinstance(value, torch.Tensor) else -1


def stored_nhwc(value: Any) -> bool:
    """Whether a 4-D tensor lies in memory as NHWC, and could not be taken for NCHW as well."""
    if rank_of(value) != 4 or not isinstance(value, torch.Tensor):
        return False
    if any(not isinstance(s, int) for s in (*value.shape, *value.stride())):
        return False
    return value.is_contiguous(memory_format=torch.channels_last) and not value.is_contiguous()


def gives_number(call: Any) -> bool:
    """Whether a call of an op of two operands (`call`: fx node or ledger record) has a number for the second."""
    if op_of(call.target).rpartition("::")[2].partition(".")[0] not in _TWO_OPERANDS:
        return False
    second = call.args[1] if len(call.args) > 1 else call.kwargs.get("other")
    return isinstance(second, (int, float))


def is_single(value: Any) -> bool:
    """Whether a tensor has one element."""
    return isinstance(value, torch.Tensor) and all(isinstance(s, int) and s == 1 for s in value.shape)
