"""What a node is called and what is said beside it: short name, one detail, shape, source line, argument names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import torch
from torch._ops import OpOverload

from lowerscope.arguments import dtype_name
from lowerscope.ledger import NodeRecord, Ref
from lowerscope.ops import display_name

OPERATOR, CONSTANT, INPUT, OUTPUT, OTHER = range(5)
"""Kinds of nodes: what computes; parameter, buffer or lifted constant; input; output; getitem, sym_size, get_attr."""

KINDS = ("operator", "constant", "input", "output", "other")

_DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}
_SHORT = {"convolution": "conv", "native_batch_norm": "batch_norm", "native_layer_norm": "layer_norm"}
_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+)')
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]torch[/\\]nn[/\\]")
_TEXT_LIMIT = 400  # a literal of ten thousand characters must not travel with every scene


def dtype_text(dtype: torch.dtype) -> str:
    """A dtype as it is shown: f32, i8, bool."""
    return _DTYPES.get(dtype, dtype_name(dtype))


def value_text(val: Any) -> str:
    """A fake value: ``f32[1,64,8,8]`` (sizes may be symbols), ``SymInt s0``, ``(…, …)`` for several, "" for none."""
    if isinstance(val, torch.Tensor):
        return f"{dtype_text(val.dtype)}[{','.join(map(str, val.shape))}]"
    if isinstance(val, (list, tuple)):
        return shortened(f"({', '.join(value_text(v) for v in val)})")
    if isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return f"{type(val).__name__} {val}"
    return "" if val is None else shortened(repr(val))


def short_name(record: NodeRecord, kind: int) -> str:
    """The name on the box: the op without namespace and overload, or the node's own name for what is no op."""
    if kind != OPERATOR and record.op != "call_function":
        return constant_name(record) if kind == CONSTANT else record.id
    name = display_name(record.target)
    parts = name.split(".")
    if isinstance(record.target, OpOverload):
        name = (
            record.target._schema.name.partition("::")[2] if name.startswith("aten.") else ".".join(parts[1:]) or name
        )
    return _SHORT.get(name, name)


def constant_name(record: NodeRecord) -> str:
    """A constant's name without its path: ``weight``, ``running_mean``."""
    target = str(record.target)
    for prefix in ("p_", "b_", "c_"):
        target = target.removeprefix(prefix)
    for last in ("running_mean", "running_var", "num_batches_tracked"):
        if target.endswith(last):
            return last
    return target.rsplit("_", 1)[-1] if "_" in target else target


def detail(record: NodeRecord, given: Mapping[str, Any], records: Mapping[str, NodeRecord]) -> str:
    """One fact beside the name: a convolution's kernel and channels, an addition's alpha, a clamp's bounds.

    `given`: the record's `arguments_of`.
    """
    if record.op != "call_function" or not isinstance(record.target, OpOverload):
        return ""
    name = record.target._schema.name.partition("::")[2]
    if "conv" in name:
        return _convolution(given, records)
    if "alpha" in given and given["alpha"] != 1:
        return f"α = {literal(given['alpha'])}"
    if name in ("clamp", "hardtanh", "clamp_min", "clamp_max"):
        bounds = [given.get(key) for key in ("min", "max", "min_val", "max_val") if key in given]
        return " … ".join(literal(bound) if bound is not None else "" for bound in bounds).strip()
    shown = [
        literal(value)
        for key, value in given.items()
        if key != "self"
        and not _holds_nodes(value)
        and value is not None
        and not _is_default(record.target, key, value)
    ]
    return shortened(", ".join(shown[:2]), 24)


def source(trace: str) -> tuple[str, int, str] | None:
    """(file, line, text) of the innermost traced line that is not a library's; None when nothing was traced."""
    return _source(trace) if trace else None


def source_text(trace: str) -> str:
    """``dsr.py:36``, or "" when nothing was traced."""
    found = source(trace)
    return f"{PurePath(found[0]).name}:{found[1]}" if found else ""


def arguments_of(record: NodeRecord) -> dict[str, Any]:
    """The arguments that were given, by the schema's names (``arg0``, ... for a target without a schema)."""
    if not isinstance(record.target, OpOverload):
        return {**{f"arg{place}": value for place, value in enumerate(record.args)}, **record.kwargs}
    names = _names(record.target)
    given = {names[place] if place < len(names) else f"arg{place}": value for place, value in enumerate(record.args)}
    return {**given, **record.kwargs}


def argument_names(record: NodeRecord, given: Mapping[str, Any]) -> tuple[str, ...]:
    """For each of `record.inputs` the argument that it is, the first one where it is several: ``input``, ``tensors[1]``."""
    found: dict[str, str] = {}
    if record.op == "output":
        for place, id in enumerate(_refs(record.args)):
            found.setdefault(id, f"output {place}")
    else:
        for name, value in given.items():
            if isinstance(value, Ref):
                found.setdefault(value, name)
            elif isinstance(value, (list, tuple, dict, slice)):
                for place, id in enumerate(_refs(value)):
                    found.setdefault(id, f"{name}[{place}]")
    return tuple(found.get(id, "") for id in record.inputs)


def argument_text(value: Any) -> tuple[str, list[str]]:
    """An argument as text, and the ids of the nodes that the text mentions."""
    nodes = list(dict.fromkeys(_refs(value)))
    return shortened(literal(value)), nodes


def literal(value: Any) -> str:
    """A literal as a reader wants it: 0.5, [1, 1], f32, a node by its id."""
    if isinstance(value, Ref):
        return str(value)
    if isinstance(value, torch.dtype):
        return dtype_text(value)
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(v) for v in value)}]"
    return str(value)


def shortened(text: str, limit: int = _TEXT_LIMIT) -> str:
    """`text`, cut in the middle to `limit` characters."""
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def _convolution(given: Mapping[str, Any], records: Mapping[str, NodeRecord]) -> str:
    weight = records.get(given.get("weight", ""))
    shape = getattr(weight.val, "shape", None) if weight is not None else None
    if shape is None or len(shape) < 3:
        return ""
    groups, transposed = given.get("groups", 1), given.get("transposed", False)
    out = shape[1] * groups if transposed else shape[0]
    facts = ["×".join(map(str, shape[2:])), str(out)]
    stride = given.get("stride") or []
    if any(s != 1 for s in stride):
        facts.append(f"/{'×'.join(map(str, dict.fromkeys(stride)))}")
    return ", ".join(facts) + (" dw" if groups == out and out != 1 else f" g{groups}" if groups != 1 else "")


@lru_cache(maxsize=4096)
def _names(target: OpOverload) -> tuple[str, ...]:
    return tuple(a.name for a in target._schema.arguments)


@lru_cache(maxsize=4096)
def _defaults(target: OpOverload) -> dict[str, Any]:
    return {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}


def _is_default(target: OpOverload, name: str, value: Any) -> bool:
    defaults = _defaults(target)
    return name in defaults and type(defaults[name]) is type(value) and defaults[name] == value


@lru_cache(maxsize=65536)
def _source(trace: str) -> tuple[str, int, str] | None:
    frames = list(_FRAME.finditer(trace))
    if not frames:
        return None
    own = [f for f in frames if not _LIBRARY.search(f["file"])]
    frame = (own or frames)[-1]
    lines = trace[frame.end() :].splitlines()
    text = next((line.strip() for line in lines[1:2] if not line.strip().startswith("File ")), "")
    return frame["file"], int(frame["line"]), shortened(text)


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _refs(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _refs(item)
    elif isinstance(value, slice):
        yield from _refs((value.start, value.stop, value.step))


def _holds_nodes(value: Any) -> bool:
    return next(_refs(value), None) is not None
