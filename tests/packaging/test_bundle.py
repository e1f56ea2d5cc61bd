"""When the bundle is built again: missing, stale, or not at all."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]

# Stands in for npm: writes down how it was called, and on "run build" makes a bundle.
FAKE_NPM = """#!/bin/sh
echo "$*" >> "$CALLS"
if [ -n "${NPM_FAILS:-}" ]; then exit 3; fi
if [ "$1" = run ]; then
  mkdir -p ../lowerscope_widgets/static
  echo js > ../lowerscope_widgets/static/explorer.js
  echo css > ../lowerscope_widgets/static/explorer.css
else
  mkdir -p node_modules && touch node_modules/.package-lock.json
fi
"""


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The build hook's module."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "widgets" / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The front end's sources alone, not built."""
    root = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("node_modules", "build")
    shutil.copytree(ROOT / "widgets" / "front-end", root / "widgets" / "front-end", ignore=ignored)
    return root


@pytest.fixture
def npm_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a stand-in for npm on the PATH; returns the file of its calls."""
    calls, programs = tmp_path / "calls", tmp_path / "programs"
    calls.touch()
    programs.mkdir()
    (programs / "npm").write_text(FAKE_NPM)
    (programs / "npm").chmod(0o755)
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return calls


def calls_of(npm_calls: Path) -> list[str]:
    return [line.split(" --")[0] for line in npm_calls.read_text().splitlines()]


def test_a_missing_bundle_is_built_from_the_locked_packages(hook: ModuleType, checkout: Path, npm_calls: Path) -> None:
    assert hook.ensure_bundle(checkout) is True
    assert calls_of(npm_calls) == ["ci", "run build"]
    assert "--ignore-scripts" in npm_calls.read_text().splitlines()[0]


def test_a_fresh_bundle_is_left_alone(hook: ModuleType, checkout: Path, npm_calls: Path) -> None:
    hook.ensure_bundle(checkout)
    npm_calls.write_text("")
    assert hook.ensure_bundle(checkout) is False
    assert calls_of(npm_calls) == []


@pytest.mark.parametrize("change", ["edited", "added", "removed"])
def test_a_changed_source_makes_the_bundle_stale(
    hook: ModuleType, checkout: Path, npm_calls: Path, change: str
) -> None:
    hook.ensure_bundle(checkout)
    npm_calls.write_text("")
    source = checkout / hook.FRONT_END / "src" / "index.ts"
    if change == "edited":
        # The time stays what it was: after a clone or an unpacked sdist it says nothing.
        times = source.stat()
        source.write_text(source.read_text() + "// one line more\n")
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    elif change == "added":
        (source.parent / "added.ts").touch()
    else:
        source.unlink()
    assert hook.ensure_bundle(checkout) is True
    assert calls_of(npm_calls) == ["run build"], "the packages that are there need no installing"


def test_a_new_lock_file_installs_the_packages_again(hook: ModuleType, checkout: Path, npm_calls: Path) -> None:
    hook.ensure_bundle(checkout)
    npm_calls.write_text("")
    lock = checkout / hook.FRONT_END / "package-lock.json"
    lock.write_text(lock.read_text() + "\n")
    later = (checkout / hook.FRONT_END / "node_modules" / ".package-lock.json").stat().st_mtime + 10
    os.utime(lock, (later, later))
    assert hook.ensure_bundle(checkout) is True
    assert calls_of(npm_calls) == ["ci", "run build"]


def test_without_npm_the_bundle_that_is_there_is_used(
    hook: ModuleType, checkout: Path, npm_calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.ensure_bundle(checkout)
    (checkout / hook.FRONT_END / "src" / "added.ts").touch()
    monkeypatch.setenv("PATH", "")
    assert hook.ensure_bundle(checkout) is False


def test_without_npm_and_bundle_the_error_names_the_way_out(
    hook: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        hook.NpmMissingError, match=r"explorer\.js is missing and npm is not on the PATH: install Node\.js"
    ):
        hook.ensure_bundle(checkout)


def test_a_failing_build_is_not_hidden_by_an_older_bundle(
    hook: ModuleType, checkout: Path, npm_calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.ensure_bundle(checkout)
    (checkout / hook.FRONT_END / "src" / "added.ts").touch()
    monkeypatch.setenv("NPM_FAILS", "1")
    for _ in range(2):
        with pytest.raises(hook.BundleError, match="`npm run build` failed in widgets/front-end with exit code 3"):
            hook.ensure_bundle(checkout)
