"""How a reference operator is registered: once with torch's dispatcher, and in a table that the explorer reads.

An operator's eager implementation is a plain Python function over ATen. The same function serves as the kernel on every
backend, as the fake kernel (so that fake shapes, dtypes and strides equal the eager ones by construction) and as the
decomposition which measurements emit in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from lowerscope.errors import LowerscopeError


class OperatorError(LowerscopeError, ValueError):
    """An argument that a reference operator does not accept."""


@dataclass(frozen=True)
class OwnOp:
    """One reference operator.

    Attributes:
        name: the torch name without overload, for example ``"lowerscope_vulkan::conv_with_clamp"``.
        display: the backend's own name, which the user sees.
        category: one of the categories that the views colour by.
        decomposition: the same computation in plain ATen, with the operator's signature.
    """

    name: str
    display: str
    category: str
    decomposition: Callable[..., torch.Tensor]


# A reload runs this module again in the same namespace; the dispatcher's kernels still read this very table.
OWN_OPS: dict[str, OwnOp] = globals().get("OWN_OPS", {})


def register(
    namespace: str, schema: str, *, display: str, category: str
) -> Callable[[Callable[..., torch.Tensor]], torch._ops.OpOverload]:
    """Register the decorated function as ``namespace::schema``; the name then holds the operator, not the function.

    The kernel is ``CompositeExplicitAutograd``, so that tracing keeps the operator whole. Running the module a second
    time replaces the implementation and leaves the dispatcher's entry alone.

    Raises:
        OperatorError: the operator is there already with another schema.
    """
    name = f"{namespace}::{schema.partition('(')[0].strip()}"

    def decorate(function: Callable[..., torch.Tensor]) -> torch._ops.OpOverload:
        OWN_OPS[name] = OwnOp(name, display, category, function)
        existing = _find(name)
        if existing is None:
            _define(name, schema)
            return _require(name)
        if existing._schema != torch._C.parse_schema(f"{namespace}::{schema}"):
            raise OperatorError(f"{name} is registered with another schema: restart Python to load the new one")
        return existing

    return decorate


def _define(name: str, schema: str) -> None:
    def kernel(*args, **kwargs):
        return OWN_OPS[name].decomposition(*args, **kwargs)

    # torch.library.define and impl without a Library keep the registration for the life of the process: a Library of
    # our own would take the operators with it when the module is unloaded, under programs that still call them.
    torch.library.define(name, schema.partition("(")[1] + schema.partition("(")[2], tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(name, "default", kernel)
    torch.library.register_fake(name, kernel)


def _find(name: str) -> torch._ops.OpOverload | None:
    namespace, _, op = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), op, None)
    return None if packet is None else packet.default


def _require(name: str) -> torch._ops.OpOverload:
    op = _find(name)
    if op is None:
        raise OperatorError(f"torch did not keep the registration of {name}: restart Python")
    return op
