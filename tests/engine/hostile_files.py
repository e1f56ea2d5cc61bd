"""Archives that would run code when they are opened by one who trusts them, for the tests that this does not happen."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Creates:
    """Unpickled, it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("shift", torch.ones(2), persistent=False)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * scale + self.shift


def write(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"archive/{name}", data)
    return path


def edited(members: dict[str, bytes], path: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """An archive whose program, as JSON, went through `edit`."""
    changed = dict(members)
    program = json.loads(changed["models/model.json"])
    edit(program)
    changed["models/model.json"] = json.dumps(program).encode()
    return write(path, changed)


def renamed(value: Any, old: str, new: str) -> Any:
    """`value` with every string `old`, key or value, replaced."""
    if isinstance(value, dict):
        return {(new if key == old else key): renamed(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, old, new) for item in value]
    return new if value == old else value


def rename(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    return lambda program: program.update(renamed(program, old, new))


def torch_opens(path: Path) -> None:
    """What torch.export.load and a first use of the program do to one who trusts the file."""
    # Whatever comes of it: the test asks whether the file's code had run by then.
    with contextlib.suppress(Exception):
        exported = torch.export.load(path)
        module = exported.module()
        args, kwargs = exported.example_inputs or ((), {})
        module(*args, **kwargs)
