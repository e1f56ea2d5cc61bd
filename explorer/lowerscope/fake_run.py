"""Fake values of new nodes: the op is run on fake inputs once per distinct call, and never on the rest of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree


class FakeRunner:
    """Runs single ops in one program's fake mode, memoised by op, shapes, dtypes, strides and literals."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self._memo: dict[Any, Any] = {}

    def run(self, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The fake value of `target(*args, **kwargs)`; nodes stand for their own fake values.

        Whatever the op itself raises on such inputs (a shape that does not fit) comes through.
        """
        values = map_arg((tuple(args), dict(kwargs)), lambda n: n.meta.get("val"))
        key = self._key(target, values)
        if key is not None and key in self._memo:
            return self.fresh(self._memo[key])
        with self.mode, torch.no_grad():
            result = target(*values[0], **values[1])
        if key is not None and not pytree.tree_any(_is_symbolic, result):
            self._memo[key] = result
        return result

    def from_tensor(self, tensor: torch.Tensor) -> FakeTensor:
        """The fake value of a constant."""
        return self.mode.from_tensor(tensor, static_shapes=True)

    def fresh(self, result: Any) -> Any:
        """An equal fake value of its own: nodes that shared one would be tied together as aliases."""

        def fresh(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or _is_symbolic(value):
                return value
            with self.mode:
                return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)

        return pytree.tree_map(fresh, result)

    def _key(self, target: Any, values: Any) -> Any:
        """A hashable description of the call, or None when sizes are symbolic or something in it cannot be described."""
        flat, spec = pytree.tree_flatten(values)
        parts: list[Any] = [target, str(spec)]
        for value in flat:
            if isinstance(value, torch.Tensor):
                if _is_symbolic(value):
                    return None
                parts.append((tuple(value.shape), value.stride(), value.dtype, value.device))
            elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, Node)):
                return None
            else:
                parts.append((type(value), value))
        try:
            hash(tuple(parts))
        except TypeError:
            return None
        return tuple(parts)


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(s, torch.SymInt) for s in (*value.shape, *value.stride()))
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
