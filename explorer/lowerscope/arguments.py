"""Reading a node: arguments by name as the op's schema has them, shapes, dtypes, and what a convolution is told to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

aten = torch.ops.aten

#: Ops that give a tensor's values along its axes in another order.
MOVES_AXES = frozenset({aten.permute.default, aten.t.default, aten.transpose.int})


class _Signature:
    """The names of an op's arguments in order, and their defaults by name."""

    __slots__ = ("defaults", "names", "target")

    def __init__(self, target: OpOverload) -> None:
        self.target = target  # kept alive, as it is known by its address
        self.names = tuple(a.name for a in target._schema.arguments)
        self.defaults = {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}


#: By the op's address: an OpOverload is hashed in Python, which takes longer than all the rest of `arguments`.
_signatures: dict[int, _Signature] = {}


def arguments(node: Node) -> dict[str, Any]:
    """The node's arguments by name, positional, keyword and defaulted alike. Without a schema: its keyword arguments."""
    target = node.target
    signature = _signatures.get(id(target))
    if signature is None:
        if not isinstance(target, OpOverload):
            return dict(node.kwargs)
        signature = _signatures[id(target)] = _Signature(target)
    names, given, named = signature.names, node.args, node.kwargs
    out = dict(zip(names, given, strict=False))
    if len(given) < len(names):
        defaults = signature.defaults
        for name in names[len(given) :]:
            if name in named:
                out[name] = named[name]
            elif name in defaults:
                out[name] = defaults[name]
    return out


def in_order(users: Mapping[Node, None]) -> Iterable[Node]:
    """A node's users in the order of the graph: theirs tells who was edited last."""
    return users if len(users) < 2 else sorted(users)


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


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype as it is said in a sentence: float16."""
    return str(dtype).removeprefix("torch.")


def op_of(target: Any) -> str:
    """The torch name of a target, "aten::add.Tensor"; "" for what is no operator."""
    return target.name() if isinstance(target, OpOverload) else ""


def same_number(a: Any, b: Any) -> bool:
    """Whether two literals are the same number: 2 equals 2.0, NaN equals NaN, and -0.0 does not equal 0.0."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return bool(a == b)
    if a != a or b != b:
        return a != a and b != b
    return a == b and (a != 0 or str(float(a)) == str(float(b)))


class ConvSpec:
    """What an `aten.convolution` is told to do, read as it is asked for: most patterns need little of it to say no.

    Sizes: `dims` spatial axes; weight [out, in/groups, *kernel], transposed [in, out/groups, *kernel]. The lists have one
    entry per spatial axis, also where the node gives a single one for all.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        given = node.args
        if len(given) < 3:
            named = self._given
            given = named["input"], named["weight"], named["bias"]
        self.input: Node = given[0]  # pyright: ignore[reportAttributeAccessIssue]
        self.weight: Node = given[1]  # pyright: ignore[reportAttributeAccessIssue]
        self.bias: Node | None = given[2]  # pyright: ignore[reportAttributeAccessIssue]
        weight = value_of(self.weight)
        assert weight is not None, "a convolution's weight is a tensor"
        self.dims: int = weight.dim() - 2

    @cached_property
    def _given(self) -> dict[str, Any]:
        return arguments(self.node)

    @cached_property
    def _shape(self) -> tuple[Any, ...]:
        return tuple(value_of(self.weight).shape)

    @classmethod
    def of(cls, node: Node) -> ConvSpec:
        """Read an `aten.convolution.default` node."""
        return cls(node)

    @cached_property
    def stride(self) -> tuple[Any, ...]:
        """One entry per spatial axis, as of the next three."""
        return _each(self._given["stride"], self.dims)

    @cached_property
    def padding(self) -> tuple[Any, ...]:
        """Zeros on either side."""
        return _each(self._given["padding"], self.dims)

    @cached_property
    def dilation(self) -> tuple[Any, ...]:
        """Distance between the kernel's taps."""
        return _each(self._given["dilation"], self.dims)

    @cached_property
    def output_padding(self) -> tuple[Any, ...]:
        """Of a transposed convolution: what its output has more on one side."""
        return _each(self._given["output_padding"], self.dims)

    @cached_property
    def transposed(self) -> bool:
        """Whether it is a transposed convolution."""
        return bool(self._given["transposed"])

    @cached_property
    def groups(self) -> int:
        """How many groups its channels are in."""
        return int(self._given["groups"])

    @property
    def kernel(self) -> tuple[int, ...]:
        """The kernel's spatial shape."""
        return self._shape[2:]

    @property
    def in_channels(self) -> int:
        """Channels of the input."""
        return self._shape[0] if self.transposed else self._shape[1] * self.groups

    @property
    def out_channels(self) -> int:
        """Channels of the result."""
        return self._shape[1] * self.groups if self.transposed else self._shape[0]

    @cached_property
    def output_shape(self) -> tuple[Any, ...]:
        """Shape of the result, [N, C, *spatial] (an unbatched convolution has no N)."""
        return shape_of(self.node) or ()

    @cached_property
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
