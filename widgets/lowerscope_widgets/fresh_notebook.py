"""A fresh notebook with a model loaded, for `lowerscope lab MODEL.pt2`."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from lowerscope.errors import LowerscopeError


def write_notebook(model: Path, target: str, folder: Path) -> Path:
    """Write a notebook that explores `model` into `folder`, under a name that no file has yet, and return its path.

    LowerscopeError: the folder cannot be written to.
    """
    path = folder / f"explore_{model.stem}.ipynb"
    count = 1
    while path.exists():
        count += 1
        path = folder / f"explore_{model.stem}_{count}.ipynb"
    cells = [
        new_markdown_cell(f"# {model.name} for {target}\n\nRun the next cell: it shows the widget."),
        new_code_cell(
            f"import lowerscope\n\nsession = lowerscope.Session({str(model.resolve())!r}, target={target!r})\nsession"
        ),
        new_code_cell("session.patterns()"),
        new_code_cell("session.near_misses()"),
    ]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    try:
        path.write_text(nbformat.writes(notebook))
    except OSError as error:
        raise LowerscopeError(
            f"cannot write {str(path)!r} ({error.strerror}): run this in a folder of your own"
        ) from error
    return path
