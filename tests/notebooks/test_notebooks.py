"""Every notebook runs top to bottom on a fresh kernel, without an error."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_runs_top_to_bottom(path: Path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(NOTEBOOKS)}}
    ).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.execution_count for cell in code)
    errors = [o for cell in code for o in cell.outputs if o.output_type == "error"]
    assert not errors


def test_the_first_notebook_shows_the_widget_and_what_a_reader_without_a_kernel_sees():
    notebook = nbformat.read(NOTEBOOKS / "01_explore.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:1]
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(NOTEBOOKS)}}
    ).execute()
    shown = {kind for o in notebook.cells[0].outputs if "data" in o for kind in o["data"]}
    assert {"application/vnd.jupyter.widget-view+json", "text/html"} <= shown


def test_the_first_notebook_is_there():
    assert (NOTEBOOKS / "01_explore.ipynb").exists()
