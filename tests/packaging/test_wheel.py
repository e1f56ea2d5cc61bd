"""Wheel and sdist carry both packages and the bundle, can be imported, and are not built without the bundle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUNDLE = {"lowerscope_widgets/static/explorer.js", "lowerscope_widgets/static/explorer.css"}
NOT_SOURCES = shutil.ignore_patterns(
    ".git", ".venv", "node_modules", "static", "build", "__pycache__", ".*_cache", ".hypothesis", "dist"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the sdist of this checkout."""
    directory = tmp_path_factory.mktemp("dist")
    run = hatchling(ROOT, "-d", str(directory))
    assert run.returncode == 0, run.stderr
    return directory


def hatchling(root: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Build in `root`, without network; `path` replaces the PATH that the build sees."""
    environment = os.environ | ({} if path is None else {"PATH": path})
    command = [sys.executable, "-m", "hatchling", "build", *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


def members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def import_from(directory: Path) -> subprocess.CompletedProcess[str]:
    """Import both packages with `directory` first on the path, from elsewhere than the checkout; prints whence."""
    program = (
        "import pathlib, lowerscope, lowerscope_widgets\n"
        "for package in (lowerscope, lowerscope_widgets): print(pathlib.Path(package.__file__).parent.parent)\n"
        "static = pathlib.Path(lowerscope_widgets.__file__).parent / 'static'\n"
        "print((static / 'explorer.js').stat().st_size)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(directory)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)


def test_the_wheel_holds_both_packages_and_the_bundle(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = members(wheel)
    sources = {path.relative_to(ROOT / "explorer").as_posix() for path in (ROOT / "explorer").rglob("*.py")}
    sources |= {
        path.relative_to(ROOT / "widgets").as_posix() for path in (ROOT / "widgets/lowerscope_widgets").rglob("*.py")
    }
    assert sources | BUNDLE <= names
    top = {name.split("/")[0] for name in names}
    assert top == {"lowerscope", "lowerscope_widgets", "lowerscope-0.1.0.dist-info"}


def test_the_wheel_declares_the_command_and_the_licence(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        entry_points = archive.read("lowerscope-0.1.0.dist-info/entry_points.txt").decode()
        metadata = archive.read("lowerscope-0.1.0.dist-info/METADATA").decode()
    assert "lowerscope = lowerscope.cli:main" in entry_points
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata


def test_an_installed_wheel_is_imported_from_where_it_was_installed(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(tmp_path),
        str(wheel),
    ]
    subprocess.run(pip, check=True)
    run = import_from(tmp_path)
    assert run.returncode == 0, run.stderr
    *places, size = run.stdout.split()
    assert places == [str(tmp_path)] * 2
    assert int(size) > 0


def test_the_sdist_builds_the_same_wheel_without_npm(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    assert {f"widgets/{name}" for name in BUNDLE} <= names
    assert {"widgets/hatch_build.py", "widgets/front-end/package-lock.json", "LICENSE", "README.md"} <= names
    assert not [name for name in names if "node_modules" in name or name.startswith(".venv")]

    (root,) = tmp_path.iterdir()
    run = hatchling(root, "-t", "wheel", "-d", str(tmp_path / "again"), path="")
    assert run.returncode == 0, run.stderr
    (first,), (again,) = built.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    assert members(again) == members(first)


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_a_build_without_bundle_and_npm_fails_with_the_way_out(target: str, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    shutil.copytree(ROOT, root, ignore=NOT_SOURCES)
    run = hatchling(root, "-t", target, "-d", str(tmp_path / "dist"), path="")
    assert run.returncode != 0
    assert "explorer.js is missing and npm is not on the PATH: install Node.js" in run.stderr
    assert not list((tmp_path / "dist").glob("lowerscope*"))
