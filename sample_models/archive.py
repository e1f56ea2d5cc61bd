"""Writes an exported program so that the same program gives the same bytes on every machine."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
_FRAME = re.compile(r'File "([^"]+)"')
_PACKAGES = "site-packages/"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def to_bytes(program: torch.export.ExportedProgram) -> bytes:
    """The program as a compressed ``.pt2``, its stack traces relative to the project or to the packages they lie in.

    The metadata of `program` itself is rewritten.
    """
    _forget_the_machine(program)
    # Into a buffer: into a file, torch would name the records after the path.
    written = io.BytesIO()
    torch.export.save(program, written)
    packed = io.BytesIO()
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(packed, "w") as target:
        # The reader ignores the comment; it tells with which torch the bytes can be had again.
        target.comment = f"torch {torch.__version__}".encode()
        for name in source.namelist():
            record = zipfile.ZipInfo(name, _EPOCH)
            record.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(record, source.read(name), compresslevel=9)
    return packed.getvalue()


def torch_version(path: Path) -> str:
    """The torch that `to_bytes` wrote the file with."""
    with zipfile.ZipFile(path) as archive:
        return archive.comment.decode().removeprefix("torch ")


def _forget_the_machine(program: torch.export.ExportedProgram) -> None:
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            # It names graphs by their addresses in memory.
            node.meta.pop("from_node", None)
            if node.meta.get("stack_trace"):
                node.meta["stack_trace"] = _FRAME.sub(_relative, node.meta["stack_trace"])


def _relative(frame: re.Match[str]) -> str:
    path = Path(frame[1])
    if _PACKAGES in frame[1]:
        shown = frame[1].rpartition(_PACKAGES)[2]
    elif path.is_relative_to(ROOT):
        shown = path.relative_to(ROOT).as_posix()
    else:
        shown = path.name
    return f'File "{shown}"'
