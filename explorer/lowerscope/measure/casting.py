"""Runs a graph in another floating dtype than it was exported in: float64 as an oracle, float16 as on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from lowerscope.errors import MeasureError

_REAL = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
_COMPLEX = {torch.float64: torch.complex128, torch.float32: torch.complex64, torch.float16: torch.complex32}
# These read a tensor's bits or its exact dtype: another dtype would change what they mean.
_BITS = frozenset({torch.ops.aten.view.dtype})
_DTYPE_CHECKS = frozenset({torch.ops.aten._assert_tensor_metadata.default})


class Casting:
    """Which dtypes a run replaces, and how an operator is called then.

    Formats of 8 bits and fewer and all integers are left alone: they are quantisation, not precision.

    Args:
        dtype: the floating dtype to compute in.
        only: the dtypes that it replaces; all of float64, float32, float16 and bfloat16 by default.

    Raises:
        MeasureError: `dtype` is none of those four.
    """

    def __init__(self, dtype: torch.dtype, only: frozenset[torch.dtype] = _REAL) -> None:
        if dtype not in _REAL:
            raise MeasureError(f"cannot compute in {dtype}: choose torch.float64, float32, float16 or bfloat16")
        self.dtype = dtype
        self._map = dict.fromkeys(only, dtype)
        complex_dtype = _COMPLEX.get(dtype)
        if complex_dtype is not None and torch.float32 in only:
            self._map |= {torch.complex64: complex_dtype, torch.complex128: complex_dtype}
        self._widens = dtype is torch.float64

    @classmethod
    def oracle(cls) -> Casting:
        """Every float a float64: what the program means, rather than what its dtype makes of it."""
        return cls(torch.float64)

    @classmethod
    def reference(cls) -> Casting:
        """Half floats as float32, wider ones as they are: what a run in float16 or bfloat16 is measured against."""
        return cls(torch.float32, only=frozenset({torch.float16, torch.bfloat16}))

    def dtype_of(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype that a value of `dtype` has in this run."""
        return self._map.get(dtype, dtype)

    def tensor(self, value: torch.Tensor) -> torch.Tensor:
        """`value`, of any shape, in the dtype it has in this run; the very same tensor when that is its own."""
        wanted = self.dtype_of(value.dtype)
        return value if wanted == value.dtype else value.to(wanted)

    def call(self, node: torch.fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool]:
        """Run a node; (value, whether it had to be computed in its own dtype for want of a kernel)."""
        target: Any = node.target
        if target in _DTYPE_CHECKS:
            return None, False
        schema = getattr(target, "_schema", None)
        if schema is None:
            return target(*args, **kwargs), False
        if target in _BITS:
            return self._cast_out(self._in_own_dtype(node, target, args, kwargs)), True
        cast_args, cast_kwargs = self._arguments(node, schema, args, kwargs)
        try:
            return self._cast_out(target(*cast_args, **cast_kwargs)), False
        except (RuntimeError, NotImplementedError, AssertionError, TypeError, ValueError):
            # If the node cannot run at all, its own dtype raises as well, and that error is the one to show.
            return self._cast_out(self._in_own_dtype(node, target, args, kwargs)), True

    def _arguments(
        self, node: torch.fx.Node, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = pytree.tree_map(self._literal, (args, kwargs))
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor) or fake.dtype not in self._map:
            return args, kwargs
        tensors = [leaf for leaf in _leaves(args, kwargs) if isinstance(leaf, torch.Tensor)]
        if not any(tensor.dtype.is_floating_point or tensor.dtype.is_complex for tensor in tensors):
            accepts = {a.name: i for i, a in enumerate(schema.arguments)}
            if "dtype" in accepts and accepts["dtype"] >= len(args):
                # `arange(n)`, `full(shape, 0.5)`: the default dtype is not this run's.
                kwargs = {**kwargs, "dtype": self.dtype_of(fake.dtype)}
            elif self._widens and torch.Tag.pointwise in getattr(node.target, "tags", ()):
                # Integers divided: in their own dtype the quotient would be rounded to float32 first.
                args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: t.to(self.dtype), (args, kwargs))
        return args, kwargs

    def _literal(self, value: Any) -> Any:
        return self.dtype_of(value) if isinstance(value, torch.dtype) else value

    def _in_own_dtype(self, node: torch.fx.Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call with the tensors in the dtypes they were exported with; what is written in place is written back."""
        used = [leaf for leaf in _leaves(node.args, node.kwargs) if isinstance(leaf, torch.fx.Node)]
        fakes = _leaves([leaf.meta.get("val") for leaf in used])
        dtypes = iter(
            [getattr(fake, "dtype", None) for fake in fakes if fake is None or isinstance(fake, torch.Tensor)]
        )
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []

        def own(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            copy = value.to(next(dtypes, None) or value.dtype)
            if copy is not value:
                copies.append((value, copy))
            return copy

        own_args, own_kwargs = pytree.tree_map(own, (args, kwargs))
        result = target(*own_args, **own_kwargs)
        if target._schema.is_mutable:
            for value, copy in copies:
                value.copy_(copy)
        return result

    def _cast_out(self, value: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, self.tensor, value)


def _leaves(*values: Any) -> list[Any]:
    return pytree.tree_leaves(values)
