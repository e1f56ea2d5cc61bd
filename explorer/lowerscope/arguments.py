"""Reading a node: arguments by name as the op's schema has them, shapes, dtypes, and what a convolution is told to do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

aten = torch.ops.aten

ACTIVATIONS = (
    aten.relu.default,
    aten.hardtanh.default,
    aten.clamp.default,
    aten.leaky_relu.default,
)


@cache
def _parameters(target: OpOverload) -> tuple[tuple[str, bool, Any], ...]:
    """(name, has a default, default) of an op's arguments."""
    return tuple((a.name, a.has_default_value(), a.default_value) for a in target._schema.arguments)


def arguments(node: Node) -> dict[str, Any]:
    """The node's arguments by name, positional, keyword and defaulted alike. Without a schema: its keyword arguments."""
    if not isinstance(node.target, OpOverload):
        return dict(node.kwargs)
    given = node.args
    out: dict[str, Any] = {}
    for place, (name, has_default, default) in enumerate(_parameters(node.target)):
        if place < len(given):
            out[name] = given[place]
        elif name in node.kwargs:
            out[name] = node.kwargs[name]
        elif has_default:
            out[name] = default
    return out


def value_of(node: Any) -> Any:
    """The fake value of a node (a FakeTensor, a SymInt, a tuple of them), or None."""
    return node.meta.get("val") if isinstance(node, Node) else None


def shape_of(node: Any) -> tuple[Any, ...] | None:
    """The shape of a node's tensor (sizes may be symbolic), or None when it has none."""
    value = value_of(node)
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def dtype_of(node: Any) -> torch.dtype | None:
    """The dtype of a node's tensor, or None when it has none."""
    value = value_of(node)
    return value.dtype if isinstance(value, torch.Tensor) else None


def only_user(node: Node) -> Node | None:
    """The one node that reads `node`; None when there are several or none."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def same_number(a: Any, b: Any) -> bool:
    """Whether two literals are the same number: 2 equals 2.0, NaN equals NaN, and -0.0 does not equal 0.0."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return bool(a == b)
    if a != a or b != b:
        return a != a and b != b
    return a == b and (a != 0 or str(float(a)) == str(float(b)))


@dataclass(frozen=True, slots=True)
class ConvSpec:
    """What an `aten.convolution` is told to do.

    Sizes: `dims` spatial axes; weight [out, in/groups, *kernel], transposed [in, out/groups, *kernel]. The lists have one
    entry per spatial axis, also where the node gives a single one for all.
    """

    node: Node
    input: Node
    weight: Node
    bias: Node | None
    stride: tuple[Any, ...]
    padding: tuple[Any, ...]
    dilation: tuple[Any, ...]
    transposed: bool
    output_padding: tuple[Any, ...]
    groups: int
    dims: int
    kernel: tuple[int, ...]
    in_channels: int
    out_channels: int

    @classmethod
    def of(cls, node: Node) -> ConvSpec:
        """Read an `aten.convolution.default` node."""
        a = arguments(node)
        weight = shape_of(a["weight"])
        assert weight is not None, "a convolution's weight is a tensor"
        dims = len(weight) - 2
        groups, transposed = int(a["groups"]), bool(a["transposed"])
        return cls(
            node=node,
            input=a["input"],
            weight=a["weight"],
            bias=a["bias"],
            stride=_each(a["stride"], dims),
            padding=_each(a["padding"], dims),
            dilation=_each(a["dilation"], dims),
            transposed=transposed,
            output_padding=_each(a["output_padding"], dims),
            groups=groups,
            dims=dims,
            kernel=tuple(weight[2:]),
            in_channels=weight[0] if transposed else weight[1] * groups,
            out_channels=weight[1] * groups if transposed else weight[0],
        )

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """Shape of the result, [N, C, *spatial] (an unbatched convolution has no N)."""
        return shape_of(self.node) or ()

    @property
    def input_shape(self) -> tuple[Any, ...]:
        """Shape of the input."""
        return shape_of(self.input) or ()

    @property
    def batched(self) -> bool:
        """Whether the input has a batch axis."""
        return len(self.input_shape) == self.dims + 2

    @property
    def batch(self) -> Any:
        """The batch size (1 for an unbatched convolution)."""
        return self.input_shape[0] if self.batched else 1


def _each(value: Any, dims: int) -> tuple[Any, ...]:
    items = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return items * dims if len(items) == 1 and dims > 1 else items
