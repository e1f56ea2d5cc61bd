"""Saved programs for the tests of opening them, and changes of their archives."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from lowerscope.errors import LoadError


class Tied(nn.Module):
    """Tied weights, a buffer outside the state dict, a buffer that is written, a constant, a dictionary in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.head = nn.Linear(4, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("shift", torch.linspace(0, 1, 4), persistent=False)

    def forward(self, ids: torch.Tensor, options: dict[str, torch.Tensor], *, flag: bool) -> dict[str, torch.Tensor]:
        hidden = self.norm(self.embedding(ids)) * options["scale"] + self.shift + torch.tensor(2.0)
        return {"logits": self.head(hidden), "n": ids.shape[0] * hidden.sum(1)}


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.while_loop(lambda i, _: i > 0, lambda i, y: (i - 1, self.linear(y)), (n, x))


class Shapes(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[object, ...]:
        n = x.shape[0]
        if n % 2 == 0:
            x = x + 1
        return x.reshape(n // 2, -1), torch.sym_sqrt(n), torch.arange(float(n) / 2), x.sum().item()


def exported(name: str) -> torch.export.ExportedProgram:
    n = torch.export.Dim("n", min=2, max=64)
    if name == "tied":
        args = (torch.tensor([1, 2, 3]), {"scale": torch.randn(4)})
        return torch.export.export(
            Tied().train(),
            args,
            {"flag": True},
            dynamic_shapes={"ids": {0: n}, "options": {"scale": None}, "flag": None},
        )
    if name == "loop":
        return torch.export.export(Loop(), (torch.tensor(3), torch.randn(2, 2)))
    if name == "shapes":
        return torch.export.export(Shapes(), (torch.randn(4, 6),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    return torch.export.export(
        Tied().eval(), (torch.tensor([1, 2]), {"scale": torch.randn(4)}), {"flag": False}
    ).run_decompositions()


def one_sentence(error: LoadError, path: Path) -> None:
    """It names the file, stays on one line, and says after a colon what to do."""
    text = str(error)
    assert str(path) in text
    assert "\n" not in text
    assert ": " in text.split(str(path), 1)[1]
    assert not text.endswith(".")


def edited(source: Path, target: Path, edit: Callable[[str, bytes], bytes | None]) -> Path:
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as out:
        for name in archive.namelist():
            data = edit(name.split("/", 1)[1], archive.read(name))
            if data is not None:
                out.writestr(name, data)
    return target


def in_program(change: Callable[[dict], object]) -> Callable[[str, bytes], bytes]:
    def edit(name: str, data: bytes) -> bytes:
        if name != "models/model.json":
            return data
        program = json.loads(data)
        change(program)
        return json.dumps(program).encode()

    return edit
