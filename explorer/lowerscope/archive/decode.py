"""From JSON to the dataclasses of torch's serialization schema.

torch asks `typing.get_type_hints` anew for every object, which is half of the time that it takes to open a file of ten
thousand nodes; here each class is asked once.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import torch
from torch._export.serde import schema
from torch._export.serde.union import _Union

from lowerscope.errors import LoadError

_Decoder = Callable[[Any], Any]


def decode(kind: type, data: Any) -> Any:
    """`data`, plain JSON, as an instance of `kind`, a class of ``torch._export.serde.schema``.

    Keys that the schema does not have are ignored, as torch does: a newer minor version may have added them.

    Raises:
        LoadError: a union is of a variant that this torch does not know, or is no union at all.
    """
    return _decoder(kind)(data)


@cache
def _decoder(kind: Any) -> _Decoder:
    kind = _resolve(kind)
    origin = typing.get_origin(kind)
    if origin is Annotated:
        return _decoder(kind.__origin__)
    if origin in (typing.Union, types.UnionType):
        return _optional(kind)
    if isinstance(kind, type) and issubclass(kind, _Union):
        return _union(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if origin is list:
        return _list(typing.get_args(kind)[0])
    if origin is dict:
        return _dict(typing.get_args(kind)[1])
    # A float is written as text where JSON has no number for it: "Infinity", "-Infinity", "NaN".
    return float if kind is float else _as_it_is


def _as_it_is(data: Any) -> Any:
    return data


def _resolve(kind: Any) -> Any:
    if isinstance(kind, typing.ForwardRef):
        kind = kind.__forward_arg__
    return getattr(schema, kind) if isinstance(kind, str) else kind


def _late(kind: Any) -> _Decoder:
    """The decoder of `kind`, made at its first use: the schema's classes contain each other."""
    found: list[_Decoder] = []

    def read(data: Any) -> Any:
        if not found:
            found.append(_decoder(kind))
        return found[0](data)

    return _as_it_is if kind in (str, int, bool) else read


def _optional(kind: Any) -> _Decoder:
    inner = _late(next(arg for arg in typing.get_args(kind) if arg is not type(None)))
    return lambda data: None if data is None else inner(data)


def _union(kind: Any) -> _Decoder:
    readers = {variant: _late(hint) for variant, hint in _hints(kind).items()}
    blanks: dict[str, dict[str, Any]] = {}

    def read(data: Any) -> Any:
        if not isinstance(data, dict) or len(data) != 1:
            raise LoadError(f"the file is damaged (a {kind.__name__} is not of one kind): copy or export it again")
        ((variant, value),) = data.items()
        if variant not in readers:
            raise LoadError(
                f"the file uses {kind.__name__}.{variant}, which torch {torch.__version__} does not know: "
                "install the torch that wrote it, or export the model again"
            )
        # `kind.create` goes through all fields twice at every call; what it makes depends on the variant alone.
        if variant not in blanks:
            blanks[variant] = dict(vars(kind.create(**{variant: None})))
        made = kind.__new__(kind)
        made.__dict__.update(blanks[variant])
        made.__dict__[variant] = readers[variant](value)
        return made

    return read


def _dataclass(kind: Any) -> _Decoder:
    hints = _hints(kind)
    readers = [(field.name, _late(hints[field.name])) for field in dataclasses.fields(kind)]

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise LoadError(f"the file is damaged (a {kind.__name__} is not an object): copy or export it again")
        return kind(**{name: reader(data[name]) for name, reader in readers if name in data})

    return read


def _list(inner: Any) -> _Decoder:
    reader = _late(inner)
    return lambda data: [reader(item) for item in data] if isinstance(data, list) else data


def _dict(inner: Any) -> _Decoder:
    reader = _late(inner)
    return lambda data: {key: reader(value) for key, value in data.items()} if isinstance(data, dict) else data


def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, globalns=dict(vars(schema)))
