"""Every notebook runs top to bottom on a fresh kernel, without an error, and gives the outputs that are committed with it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tests.notebooks.outputs import MOST_BYTES, NOTEBOOKS, WIDGET, code_cells, kept, of_this_machine, read, run, texts

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
HOW = "run python -m tests.notebooks.outputs"

every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


@cache
def ran(path: Path) -> NotebookNode:
    """Run once for all tests."""
    return run(read(path))


@every_notebook
def test_runs_top_to_bottom(path: Path):
    code = code_cells(ran(path))
    assert code
    assert all(cell.execution_count for cell in code)
    assert not [o for cell in code for o in cell.outputs if o.output_type == "error"]


@every_notebook
def test_the_committed_outputs_are_those_of_a_run(path: Path):
    for committed, fresh in zip(code_cells(read(path)), code_cells(ran(path)), strict=True):
        expected = kept(fresh.outputs)
        assert [o.output_type for o in committed.outputs] == [o.output_type for o in expected], f"stale: {HOW}"
        assert texts(committed, committed.outputs) == texts(committed, expected), f"stale: {HOW}"
        assert committed.execution_count == fresh.execution_count, f"stale: {HOW}"


@every_notebook
def test_the_committed_outputs_are_small_and_of_no_machine(path: Path):
    text = path.read_text()
    assert len(text.encode()) < MOST_BYTES
    assert list(of_this_machine(text)) == []
    assert WIDGET not in text
    assert "widgets" not in read(path).metadata


def test_the_stories_are_readable_without_a_kernel():
    for path in PATHS:
        assert any(cell.outputs for cell in code_cells(read(path))), f"{path.stem} shows nothing: {HOW}"
    for name, cell in (("01_explore", 0), ("06_write_a_pattern", -1)):
        shown = code_cells(read(NOTEBOOKS / f"{name}.ipynb"))[cell].outputs[0].data["text/html"]
        assert "data:image/svg+xml;base64," in shown
        assert "<table" in shown


def test_what_belongs_to_a_machine_is_noticed():
    assert list(of_this_machine(f"{NOTEBOOKS.parent}/x.py"))
    assert list(of_this_machine("<object at 0x7f00deadbeef>")) == ["0x7f00deadbeef"]
    assert list(of_this_machine("0x10, max abs 5.96e-08")) == []


def test_a_noisy_cell_is_held_to_its_words():
    plain = nbformat.v4.new_code_cell("x")
    noisy = nbformat.v4.new_code_cell("x", metadata={"tags": ["noisy"]})
    one = [nbformat.v4.new_output("stream", name="stdout", text="took 3.5 ms, off by 1.2e-07")]
    two = [nbformat.v4.new_output("stream", name="stdout", text="took 12 ms,  off by 0.0")]
    other = [nbformat.v4.new_output("stream", name="stdout", text="took 3.5 s, off by 1.2e-07")]
    assert texts(plain, one) != texts(plain, two)
    assert texts(noisy, one) == texts(noisy, two) != texts(noisy, other)


def test_a_timed_cell_is_held_to_having_said_something():
    timed = nbformat.v4.new_code_cell("x", metadata={"tags": ["timed"]})
    one, two, none = (
        [nbformat.v4.new_output("stream", name="stdout", text=t)] for t in ("faster", "within noise", " ")
    )
    assert texts(timed, one) == texts(timed, two) != texts(timed, none)


def test_the_first_notebook_shows_the_widget():
    (first, *_) = code_cells(ran(NOTEBOOKS / "01_explore.ipynb"))
    shown = {kind for o in first.outputs if "data" in o for kind in o["data"]}
    assert {WIDGET, "text/html"} <= shown
