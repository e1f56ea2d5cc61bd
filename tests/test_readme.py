"""What the README says is so: its table, its Python and its commands run as they are written, its pictures and links are there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lowerscope import REGISTRY
from tests.readme_table import README, with_table

ROOT = README.parent
TEXT = README.read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_table_of_patterns_is_the_registry():
    assert with_table(TEXT) == TEXT, "run python -m tests.readme_table"
    assert all(f"`{p.name}`" in TEXT for p in REGISTRY if not p.yours)


def test_the_python_runs_from_top_to_bottom_as_it_is_written(tmp_path: Path):
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    # what each block has come to: the example, a pattern by example, one as a class, its test, a target
    checks = (
        """assert session.patterns().loc["conv2d_with_epilogue", "applied"] > 0
assert lowerscope.load("lowered.pt2").exported_program is not None""",
        """assert "conv_relu" in session.patterns().index""",
        """assert "double_negation" in session.patterns().index""",
        """missed = tested.why_not("double_negation", tested.near_misses("double_negation").anchor.item())
assert "one_user" in str(missed)""",
        """reasons = set(session.outside().reason)
assert {"my-npu has no operator for aten.cat", "it is too wide"} <= reasons""",
    )
    script = tmp_path / "readme.py"
    script.write_text("\n".join(f"{block}\n{check}" for block, check in zip(blocks, checks, strict=True)))
    (tmp_path / "sample_models").symlink_to(ROOT / "sample_models")
    run = _run([sys.executable, str(script)], tmp_path)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("command", re.findall(r"^    (lowerscope .*)$", TEXT, re.MULTILINE))
def test_a_command_runs_as_it_is_written(command: str, tmp_path: Path):
    (tmp_path / "sample_models").symlink_to(ROOT / "sample_models")
    run = _run([sys.executable, "-m", "lowerscope.cli", *shlex.split(command, comments=True)[1:]], tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout


@pytest.mark.parametrize(
    "target", sorted(set(re.findall(r"(?:^    |`)make ([a-z-]+)", TEXT + CONTRIBUTING, re.MULTILINE)) - {"help"})
)
def test_a_make_target_that_is_named_is_one_that_make_help_lists(target: str):
    listed = _run(["make", "help"], ROOT).stdout
    assert re.search(rf"^  make {target}\s", listed, re.MULTILINE)


@pytest.mark.parametrize("text", [TEXT, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_the_files_that_are_named_are_there(text: str):
    named = re.findall(r"`((?:explorer|widgets|notebooks|tests|sample_models)/[\w./-]*)`", text)
    named += re.findall(r"(?:src|srcset)=\"([^\"]+)\"", text)
    named += re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_pictures_are_small():
    pictures = sorted((ROOT / "notebooks" / "pictures").glob("*.png"))
    assert [p.stem for p in pictures] == ["explorer_dark", "explorer_light"]
    assert all(p.read_bytes()[:4] == b"\x89PNG" and p.stat().st_size < 150_000 for p in pictures)


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
