"""Columns: tables of numbers as typed arrays in one buffer, strings as indices into one list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Tables = Mapping[str, Mapping[str, np.ndarray]]

_TYPES = {np.dtype(np.uint8): "u8", np.dtype(np.int32): "i32", np.dtype(np.float32): "f32"}
ALIGNMENT = 8


class Strings:
    """Each string once; its index stays what it is as others are added."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._index: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The index of `text`."""
        index = self._index.get(text)
        if index is None:
            index = self._index[text] = len(self.all)
            self.all.append(text)
        return index


def pack(tables: Tables) -> tuple[dict[str, dict[str, dict[str, Any]]], bytes]:
    """The description of every column (type, byte offset, length) by table, and the buffer that holds them.

    Columns are uint8, int32 or float32 and start at multiples of 8 bytes, so that a browser can view them in place.
    """
    described: dict[str, dict[str, dict[str, Any]]] = {}
    parts: list[bytes] = []
    offset = 0
    for table, columns in tables.items():
        described[table] = {}
        for name, values in columns.items():
            data = np.ascontiguousarray(values).tobytes()
            described[table][name] = {"type": _TYPES[values.dtype], "offset": offset, "length": len(values)}
            padding = -len(data) % ALIGNMENT
            parts += [data, bytes(padding)]
            offset += len(data) + padding
    return described, b"".join(parts)


def unpack(described: Mapping[str, Mapping[str, Mapping[str, Any]]], buffer: bytes) -> dict[str, dict[str, np.ndarray]]:
    """The tables that `pack` packed."""
    types = {name: dtype for dtype, name in _TYPES.items()}
    return {
        table: {
            name: np.frombuffer(buffer, types[c["type"]], count=c["length"], offset=c["offset"])
            for name, c in columns.items()
        }
        for table, columns in described.items()
    }


def ints(values: Sequence[int] | np.ndarray) -> np.ndarray:
    """An int32 column."""
    return np.asarray(values, np.int32)


def small(values: Sequence[int] | np.ndarray) -> np.ndarray:
    """A uint8 column."""
    return np.asarray(values, np.uint8)


def floats(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """A float32 column; NaN where there is nothing."""
    return np.asarray(values, np.float32)
