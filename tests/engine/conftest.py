"""What the engine's tests share."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from lowerscope.pattern import REGISTRY
from tests.engine.archives import exported
from tests.engine.hostile_files import Model


@pytest.fixture
def own() -> Iterator[None]:
    """For a test that registers patterns of its own: they are forgotten behind it."""
    yield
    for known in list(REGISTRY):
        if known.yours:
            REGISTRY.remove(known.name)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """The file that a hostile archive would create."""
    return tmp_path / "marker"


@pytest.fixture(scope="module")
def members() -> dict[str, bytes]:
    """The members of a good archive, with a dynamic size, a guard, weights and a lifted constant."""
    n = torch.export.Dim("n", min=2, max=16)
    program = torch.export.export(
        Model().eval(),
        (torch.randn(4, 3),),
        {"scale": torch.randn(2), "unused": torch.randn(1)},
        dynamic_shapes={"x": {0: n}, "scale": None, "unused": None},
    )
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A saved program that opens."""
    torch.export.save(exported("tied"), tmp_path / "good.pt2")
    return tmp_path / "good.pt2"
