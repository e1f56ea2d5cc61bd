"""What a measurement runs on: the user's inputs in any usual form, or made-up ones of several seeds and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from lowerscope.errors import MeasureError

if TYPE_CHECKING:
    from lowerscope.program import Program


@dataclass(frozen=True)
class Batch:
    """One set of inputs: the values in the order of the program's placeholders, and what to call it."""

    flat: tuple[Any, ...]
    label: str


def batches(
    program: Program,
    inputs: Any = None,
    *,
    seeds: Sequence[int] = (0,),
    sizes: Iterable[Mapping[str, int]] | None = None,
) -> Iterator[Batch]:
    """The batches to run, one at a time, so that a DataLoader is never held in memory.

    Args:
        inputs: a tensor; a tuple of positional arguments; ``(args, kwargs)``; a dict of keyword arguments; a list,
            DataLoader or other iterable of such batches. A batch with more entries than the program takes (the
            labels of a data set) gives its first ones. None makes inputs up.
        seeds: of made-up inputs, one batch each.
        sizes: of dynamic dimensions, as `Program.inputs` takes them, one batch each and seed; by default the sizes of
            the example and, where there are dynamic dimensions, one other admissible size of each.

    Raises:
        MeasureError: a batch does not fit the program; the message names the input.
    """
    if inputs is not None:
        yield from _given(program, inputs)
        return
    chosen = [dict(size) for size in sizes] if sizes is not None else [{}, *_other_sizes(program)]
    spelled = _spelled(program)
    for size in chosen:
        for seed in seeds:
            args, kwargs = program.inputs(seed, sizes=size) if size else program.inputs(seed)
            label = f"seed {seed}" + "".join(f", {spelled.get(name, name)} = {value}" for name, value in size.items())
            yield Batch(flatten(program, args, kwargs), label)


def flatten(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
    """Positional and keyword arguments as the flat tuple that the program's placeholders take, checked.

    Raises:
        MeasureError: the structure, a shape or a dtype is not the one that the program was exported with.
    """
    spec = program.exported_program.call_spec.in_spec
    kwargs = dict(kwargs or {})
    if spec is not None:
        wanted = list(spec.child(1).context) if spec.num_children == 2 else []
        if set(wanted) != set(kwargs):
            raise MeasureError(f"{program.name} takes the keyword arguments {wanted or 'none'}, not {sorted(kwargs)}")
        kwargs = {name: kwargs[name] for name in wanted}
        leaves, got = pytree.tree_flatten((tuple(args), kwargs))
        if got != spec and len(leaves) != spec.num_leaves:
            raise MeasureError(
                f"{program.name} takes {spec.num_leaves} inputs ({', '.join(_names(program))}) and was given "
                f"{len(leaves)}: pass a tuple of positional arguments, or (args, kwargs)"
            )
    else:
        leaves = pytree.tree_leaves((tuple(args), kwargs))
    for node, value in zip(_placeholders(program), leaves, strict=False):
        _check(program, node, value)
    return tuple(leaves)


def _given(program: Program, inputs: Any) -> Iterator[Batch]:
    if isinstance(inputs, (torch.Tensor, tuple, Mapping)):
        yield Batch(flatten(program, *_arguments(program, inputs)), "input 0")
        return
    if not isinstance(inputs, Iterable):
        kind = type(inputs).__name__
        raise MeasureError(f"inputs cannot be of type {kind}: give a tensor, a tuple, a dict or an iterable of batches")
    empty = True
    for index, batch in enumerate(inputs):
        empty = False
        yield Batch(flatten(program, *_arguments(program, batch)), f"input {index}")
    if empty:
        raise MeasureError("inputs holds no batch: give at least one, or None to have inputs made up")


def _arguments(program: Program, batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """One batch, in whichever form, as (args, kwargs)."""
    positional, keywords = _parameters(program)
    if isinstance(batch, Mapping):
        if positional == 0 or set(batch) == set(keywords):
            extra = set(batch) - set(keywords)
            return (), {name: value for name, value in batch.items() if name not in extra}
        names = _names(program)
        if positional == len(names) and set(names) <= set(batch):
            return tuple(batch[name] for name in names), {}
        return (dict(batch),), {}
    if isinstance(batch, (tuple, list)):
        if len(batch) == 2 and isinstance(batch[0], tuple) and isinstance(batch[1], Mapping):
            return tuple(batch[0]), dict(batch[1])
        return tuple(batch)[:positional], {}
    return (batch,), {}


def _parameters(program: Program) -> tuple[int, list[str]]:
    """(number of positional arguments, names of the keyword ones) that the program was exported with."""
    spec = program.exported_program.call_spec.in_spec
    if spec is None or spec.num_children != 2:
        return len(_names(program)), []
    return spec.child(0).num_children, list(spec.child(1).context)


def _check(program: Program, node: torch.fx.Node, value: Any) -> None:
    fake = node.meta.get("val")
    if not isinstance(fake, torch.Tensor):
        return
    if not isinstance(value, torch.Tensor):
        raise MeasureError(f"input {node.name} of {program.name} is a tensor, not {type(value).__name__}")
    wrong = value.dim() != fake.dim() or any(
        isinstance(wanted, int) and wanted != actual for wanted, actual in zip(fake.shape, value.shape, strict=True)
    )
    if wrong:
        raise MeasureError(
            f"input {node.name} of {program.name} has shape {list(value.shape)} and the program takes "
            f"{[wanted if isinstance(wanted, int) else str(wanted) for wanted in fake.shape]}: export it with "
            "dynamic_shapes to measure on other sizes"
        )
    if value.dtype != fake.dtype:
        raise MeasureError(f"input {node.name} of {program.name} has dtype {value.dtype} and not {fake.dtype}: cast it")


def _placeholders(program: Program) -> list[torch.fx.Node]:
    exported = program.exported_program
    nodes = (node for node in exported.graph.nodes if node.op == "placeholder")
    pairs = zip(nodes, exported.graph_signature.input_specs, strict=True)
    return [node for node, spec in pairs if spec.kind is InputKind.USER_INPUT]


def _names(program: Program) -> list[str]:
    return [node.name for node in _placeholders(program)]


def _spelled(program: Program) -> dict[str, str]:
    """Symbol of a dynamic size -> the first place where an input has it, ``x[0]``: torch keeps no name of it, but ``s77``."""
    found: dict[str, str] = {}
    for node in _placeholders(program):
        fake = node.meta.get("val")
        for dimension, size in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ()):
            if not isinstance(size, int):
                found.setdefault(str(size), f"{node.name}[{dimension}]")
    return found


def _other_sizes(program: Program) -> list[dict[str, int]]:
    """One admissible size of every dynamic dimension that is not the example's, if there is one."""
    ranges = program.dynamic_sizes
    if not ranges:
        return []
    sizes = {}
    for index, (name, (smallest, largest)) in enumerate(ranges.items()):
        # Odd, coprime offsets: two dimensions that happen to be equal, or even, hide a size that was baked in.
        size = max(smallest, 1) + 2 * index + 3
        sizes[name] = size if largest is None else min(size, largest)
    return [sizes]
