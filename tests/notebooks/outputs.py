"""The notebooks' static outputs: ``python -m tests.notebooks.outputs [NAME ...]`` runs notebooks and keeps what they show.

Kept is what a reader without a kernel needs: what a cell prints, its tables and its pictures. Not kept is what belongs to
one machine or one run: warnings, timings, the widget's live state (in whose place stands its static picture). A cell
whose numbers differ from one machine to the next carries the tag `noisy`; one that measures time, whose very verdict may
differ, the tag `timed`.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
MOST_BYTES = 150_000
NOISY, TIMED = "noisy", "timed"

WIDGET = "application/vnd.jupyter.widget-view+json"
_KEPT = ("text/plain", "text/html", "image/svg+xml", "text/markdown")
_NUMBER = re.compile(r"[-+]?\b\d[\d,.]*(?:e[-+]?\d+)?\b|\binf\b|\bNaN\b")


def read(path: Path) -> NotebookNode:
    """The notebook at `path`, in the newest format."""
    return nbformat.read(path, as_version=4)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Its code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def run(notebook: NotebookNode, seconds: int = 300) -> NotebookNode:
    """Run a notebook in place, top to bottom on a fresh kernel. `CellExecutionError`: a cell failed."""
    folder = {"metadata": {"path": str(NOTEBOOKS)}}
    NotebookClient(notebook, timeout=seconds, kernel_name="python3", resources=folder).execute()
    return notebook


def kept(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """What is committed of a cell's outputs."""
    found: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream":
            if output.name == "stdout":
                found.append(nbformat.v4.new_output("stream", name="stdout", text=output.text))
        elif output.output_type in ("display_data", "execute_result") and WIDGET not in output.data:
            data = {kind: output.data[kind] for kind in _KEPT if kind in output.data}
            count = {"execution_count": output.execution_count} if output.output_type == "execute_result" else {}
            found.append(nbformat.v4.new_output(output.output_type, data=data, **count))
    return found


def texts(cell: NotebookNode, outputs: Iterable[NotebookNode]) -> list[str]:
    """What the outputs say in plain text.

    Of a noisy cell without its numbers and the spaces that align them, of a timed one only that they say something.
    """
    said = [o.text if o.output_type == "stream" else o.data.get("text/plain", "") for o in outputs]
    tags = cell.metadata.get("tags", ())
    if TIMED in tags:
        return ["something" if text.strip() else "" for text in said]
    if NOISY not in tags:
        return said
    return [re.sub(r"[\s│─]+", " ", _NUMBER.sub("#", text)) for text in said]


def of_this_machine(text: str) -> Iterator[str]:
    """What in a text belongs to one machine or one run: its folders, and addresses in memory."""
    for folder in {str(ROOT), str(Path.home()), sys.prefix, tempfile.gettempdir() + "/"}:
        if re.search(rf"{re.escape(folder)}(?!\w)" if not folder.endswith("/") else re.escape(folder), text):
            yield folder
    yield from re.findall(r"\b0x[0-9a-f]{6,}\b", text)


def write(path: Path) -> None:
    """Run the notebook at `path` and keep its outputs in it. RuntimeError: they are too large, or of this machine."""
    notebook = read(path)
    ran = run(read(path))
    for cell, fresh in zip(code_cells(notebook), code_cells(ran), strict=True):
        cell.outputs, cell.execution_count = kept(fresh.outputs), fresh.execution_count
    text = nbformat.writes(notebook)
    if found := sorted(set(of_this_machine(text))):
        raise RuntimeError(f"{path.name} would carry what belongs to this machine: {', '.join(found)}")
    if len(text.encode()) > MOST_BYTES:
        raise RuntimeError(f"{path.name} would have {len(text.encode()):,} bytes, more than {MOST_BYTES:,}: show less")
    path.write_text(text + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(text.encode()):,} bytes")


def main(names: list[str]) -> None:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not names or any(path.stem.startswith(name) for name in names):
            write(path)


if __name__ == "__main__":
    main(sys.argv[1:])
