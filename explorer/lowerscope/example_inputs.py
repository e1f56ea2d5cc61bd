"""Inputs for a program that came without any: random, but in range, of the placeholders' shapes and dtypes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

from lowerscope.errors import MeasureError, unknown

Inputs = tuple[tuple[Any, ...], dict[str, Any]]

aten = torch.ops.aten

# Integers that index nothing: small, so that as counts, sizes or class numbers they stay plausible.
_INTEGER_BOUND = 8
_SIZE_WITHOUT_HINT = 2

# Operators that look up rows of a table: the argument that holds the indices, and the one that gives the bound.
_LOOKUPS: dict[Any, tuple[int, int]] = {
    aten.embedding.default: (1, 0),
    aten.embedding_bag.default: (1, 0),
    aten._embedding_bag.default: (1, 0),
    aten._embedding_bag_forward_only.default: (1, 0),
    aten.take.default: (1, 0),
}
# Operators that look up along one dimension: (self, dim, index).
_ALONG_DIM = {
    aten.gather.default,
    aten.index_select.default,
    aten.scatter.src,
    aten.scatter.value,
    aten.scatter_add.default,
    aten.index_add.default,
    aten.index_copy.default,
    aten.index_fill.int_Scalar,
}


def lively_inputs(
    exported: torch.export.ExportedProgram, *, seed: int, sizes: Mapping[str, int], examples: Inputs | None = None
) -> Inputs:
    """``(args, kwargs)`` of the structure that the program was exported with; see `Program.inputs`.

    UnknownNameError: `sizes` names no dynamic dimension. MeasureError: a size is out of range, or an input cannot be made up.
    """
    generator = torch.Generator().manual_seed(seed)
    symbols = _values_of_symbols(exported, sizes)
    like = pytree.tree_leaves(examples) if examples is not None else []
    flat = []
    for index, (node, spec) in enumerate(_user_inputs(exported)):
        example = like[index] if index < len(like) else None
        if isinstance(spec.arg, ConstantArgument):
            flat.append(spec.arg.value)
        else:
            flat.append(_value(exported, node, symbols, generator, example))
    in_spec = exported.call_spec.in_spec
    if in_spec is None:
        return tuple(flat), {}
    args, kwargs = pytree.tree_unflatten(flat, in_spec)
    return tuple(args), dict(kwargs)


def dynamic_sizes(exported: torch.export.ExportedProgram) -> dict[str, tuple[int, int | None]]:
    """Symbol of each dynamic dimension of the user's inputs -> (smallest, largest or None)."""
    ranges: dict[str, tuple[int, int | None]] = {}
    for node, _ in _user_inputs(exported):
        for expression in _expressions(node.meta.get("val")):
            for symbol in sorted(expression.free_symbols, key=str):
                ranges.setdefault(str(symbol), _limits(exported, symbol))
    return ranges


def _limits(exported: torch.export.ExportedProgram, symbol: Any) -> tuple[int, int | None]:
    """(smallest, largest or None) of a symbol; torch writes "no limit" as one of several infinities."""
    bounds = exported.range_constraints.get(symbol)
    if bounds is None:
        return 0, None
    lower, upper = bounds.lower, bounds.upper
    return (int(lower) if lower.is_Integer else 0), (int(upper) if upper.is_Integer else None)


def _user_inputs(exported: torch.export.ExportedProgram) -> Iterator[tuple[torch.fx.Node, Any]]:
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, exported.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            yield node, spec


def _expressions(value: Any) -> list[Any]:
    """The symbolic expressions in a fake value: of its sizes, or of itself where it is a number."""
    items = list(value.shape) if isinstance(value, torch.Tensor) else [value]
    return [item.node.expr for item in items if isinstance(item, (torch.SymInt, torch.SymFloat, torch.SymBool))]


def _values_of_symbols(exported: torch.export.ExportedProgram, sizes: Mapping[str, int]) -> dict[Any, int]:
    """Every free symbol of the inputs -> the size asked for, else the one at export, else a small admissible one."""
    ranges = dynamic_sizes(exported)
    values: dict[Any, int] = {}
    spelled: dict[str, Any] = {}
    for node, _ in _user_inputs(exported):
        value = node.meta.get("val")
        for expression in _expressions(value):
            for symbol in expression.free_symbols:
                spelled.setdefault(str(symbol), symbol)
        for dimension, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if not isinstance(size, torch.SymInt):
                continue
            expression = size.node.expr
            if expression.is_Symbol:
                spelled.setdefault(f"{node.name}[{dimension}]", expression)
                hint = _hint(size)
                if hint is not None:
                    values.setdefault(expression, hint)
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
            spelled.setdefault(node.name, value.node.expr)
            hint = _hint(value)
            if hint is not None:
                values.setdefault(value.node.expr, hint)
    for symbol in set(spelled.values()):
        lower, upper = ranges[str(symbol)]
        fallback = max(lower, _SIZE_WITHOUT_HINT)
        values.setdefault(symbol, fallback if upper is None else min(fallback, upper))
    for name, size in sizes.items():
        if name not in spelled:
            raise unknown("dynamic size", name, spelled)
        lower, upper = ranges[str(spelled[name])]
        if size < lower or (upper is not None and size > upper):
            limit = f"from {lower}" if upper is None else f"from {lower} to {upper}"
            raise MeasureError(f"size {name}={size} is not admissible: the program was exported for sizes {limit}")
        values[spelled[name]] = int(size)
    return values


def _hint(size: torch.SymInt) -> int | None:
    return int(size.node.hint) if size.node.has_hint() else None


def _value(
    exported: torch.export.ExportedProgram,
    node: torch.fx.Node,
    symbols: Mapping[Any, int],
    generator: torch.Generator,
    example: Any,
) -> Any:
    fake = node.meta.get("val")
    if isinstance(fake, torch.Tensor):
        shape = tuple(_number(size, symbols) for size in fake.shape)
        like = example if isinstance(example, torch.Tensor) else None
        return _tensor(exported, node, fake, shape, generator, like)
    if isinstance(fake, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return example if example is not None and not symbols else _number(fake, symbols)
    if isinstance(fake, (bool, int, float, str)) or fake is None:
        return fake
    raise MeasureError(
        f"cannot make up a value for the input {node.name!r}, a {type(fake).__name__}: "
        "give Program(..., example_inputs=(args, kwargs))"
    )


def _number(size: Any, symbols: Mapping[Any, int]) -> Any:
    if isinstance(size, torch.SymBool):
        return bool(size.node.expr.subs(symbols))
    if isinstance(size, torch.SymFloat):
        return float(size.node.hint) if size.node.has_hint() else 0.5
    if isinstance(size, torch.SymInt):
        return int(size.node.expr.subs(symbols))
    return size


def _tensor(
    exported: torch.export.ExportedProgram,
    node: torch.fx.Node,
    fake: torch.Tensor,
    shape: tuple[int, ...],
    generator: torch.Generator,
    example: torch.Tensor | None,
) -> torch.Tensor:
    if fake.dtype is torch.bool:
        value = _mask(shape, generator)
    elif fake.dtype.is_complex:
        value = torch.randn(shape, generator=generator, dtype=torch.complex64).to(fake.dtype)
    elif fake.dtype.is_floating_point:
        value = _floats(shape, generator, example).to(fake.dtype)
    elif "mask" in node.name:
        value = _mask(shape, generator).to(fake.dtype)
    else:
        low, high = _integer_range(exported, node, fake.dtype, example)
        value = torch.randint(low, high, shape, generator=generator, dtype=torch.int64).to(fake.dtype)
    value = value.to(fake.device)
    return value.requires_grad_() if fake.requires_grad and value.is_floating_point() else value


def _mask(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Mostly true, and true first along the last dimension: a row masked as a whole turns a softmax into NaN."""
    value = torch.rand(shape, generator=generator) < 0.75
    if value.dim() and value.shape[-1]:
        value[..., 0] = True
    return value


def _floats(shape: tuple[int, ...], generator: torch.Generator, example: torch.Tensor | None) -> torch.Tensor:
    """Normal values, at the scale of the example, and never negative where it never is (a probability, an image)."""
    value = torch.randn(shape, generator=generator)
    if example is None or not example.numel() or not example.is_floating_point():
        return value
    known = example.detach().to("cpu", torch.float32)
    known = known[known.isfinite()]
    if not known.numel():
        return value
    deviation = float(known.std(correction=0))
    if deviation > 0:
        value = value * deviation + float(known.mean())
    if float(known.min()) >= 0:
        value = value.abs()
        if 0 < float(known.max()) <= 1:
            value = value.clamp(max=1.0)
    return value


def _integer_range(
    exported: torch.export.ExportedProgram, node: torch.fx.Node, dtype: torch.dtype, example: torch.Tensor | None
) -> tuple[int, int]:
    """The half-open range of an integer input: that of its example, else what the tables it indexes allow."""
    if example is not None and example.numel():
        return int(example.min()), int(example.max()) + 1
    low, high = 0, _INTEGER_BOUND
    sinks = list(_bounds(exported, node))
    if sinks:
        low = max(low, max(sink[0] for sink in sinks))
        high = min(sink[1] for sink in sinks)
    high = min(high, torch.iinfo(dtype).max)
    return low, max(high, low + 1)


def _bounds(exported: torch.export.ExportedProgram, start: torch.fx.Node) -> Iterator[tuple[int, int]]:
    """(low, high) of every place where the integers of `start`, as they are or computed with, are used as indices."""
    seen: set[torch.fx.Node] = set()
    pending = [start]
    while pending:
        node = pending.pop()
        for user in node.users:
            found = _bound_at(exported, user, node)
            if found is not None:
                yield found
            elif user not in seen and _is_integer(user.meta.get("val")):
                seen.add(user)
                pending.append(user)


def _bound_at(
    exported: torch.export.ExportedProgram, user: torch.fx.Node, index: torch.fx.Node
) -> tuple[int, int] | None:
    target = user.target
    args: tuple[Any, ...] = user.args
    first = args[0] if args else None
    second = args[1] if len(args) > 1 else None
    if target in _LOOKUPS:
        position, table = _LOOKUPS[target]
        if len(args) > position and args[position] is index:
            shape = _shape(args[table])
            return (0, shape[0] if target is not aten.take.default else math.prod(shape))
    elif target in _ALONG_DIM and len(args) > 2 and args[2] is index:
        shape = _shape(first)
        return (0, shape[second]) if isinstance(second, int) else (0, 1)
    elif target in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default):
        indices = second if isinstance(second, (list, tuple)) else ()
        shape = _shape(first)
        sizes = [size for size, item in zip(shape, indices, strict=False) if item is index]
        if sizes:
            return 0, min(sizes)
    elif target in (aten.nll_loss.default, aten.nll_loss_nd.default, aten.cross_entropy_loss.default):
        if second is index:
            shape = _shape(first)
            return 0, shape[1] if len(shape) > 1 else shape[0]
    elif target is aten.one_hot.default and isinstance(second, int) and second > 0:
        return 0, second
    elif isinstance(value := user.meta.get("val"), torch.SymInt):
        return _range_of(exported, value)
    return None


def _range_of(exported: torch.export.ExportedProgram, value: torch.SymInt) -> tuple[int, int] | None:
    """The range that the program asserts of a number it reads out of a tensor (``x.item()``)."""
    if value.node.expr not in exported.range_constraints:
        return None
    low, last = _limits(exported, value.node.expr)
    high = low + _INTEGER_BOUND
    return low, high if last is None else min(high, last + 1)


def _shape(value: Any) -> list[int]:
    """The sizes of a node's fake value, a symbolic one by its smallest plausible size."""
    fake = value.meta.get("val") if isinstance(value, torch.fx.Node) else None
    if not isinstance(fake, torch.Tensor):
        return [1]
    return [size if isinstance(size, int) else _hint(size) or 1 for size in fake.shape] or [1]


def _is_integer(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_floating_point() and value.dtype is not torch.bool
