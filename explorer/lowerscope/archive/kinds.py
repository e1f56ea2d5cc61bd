"""What kind of file this is, told from its first bytes and, for a zip, from its members' names."""

from __future__ import annotations

import zipfile
from pathlib import Path

from lowerscope.errors import LoadError

_HEAD = 4096

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (4, b"ET", "an ExecuTorch program (.pte), which is already lowered"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (0, b"\x80\x02", "a pickle"),
    (0, b"\x80\x03", "a pickle"),
    (0, b"\x80\x04", "a pickle"),
    (0, b"\x80\x05", "a pickle"),
    (0, b"\x89HDF", "an HDF5 file"),
    (0, b"GGUF", "a GGUF file"),
    (0, b"\x1f\x8b", "a gzip file"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"\x89PNG", "a picture"),
    (0, b"\x7fELF", "a compiled library"),
    (0, b"%PDF", "a PDF document"),
    (257, b"ustar", "a tar archive"),
)
_REMEDY = "export the model with torch.export.export and write it with torch.export.save"


def check_kind(path: Path) -> None:
    """Pass a zip archive that may hold an exported program.

    Raises:
        LoadError: the file is missing, a directory, empty, truncated, or of another kind, which the message names.
    """
    if not path.exists():
        beside = sorted(item.name for item in path.parent.glob("*.pt2")) if path.parent.is_dir() else []
        hint = f"; the .pt2 files beside it are {', '.join(beside[:5])}" if beside else ""
        raise LoadError(f"there is no file {str(path)!r}: check the path{hint}")
    if path.is_dir():
        raise LoadError(f"{str(path)!r} is a directory: give the path of a .pt2 file")
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise LoadError(f"cannot read {str(path)!r} ({error.strerror}): check its permissions") from error
    if not head:
        raise LoadError(f"{str(path)!r} is empty: write it again with torch.export.save")
    if not head.startswith(b"PK"):
        raise LoadError(f"{str(path)!r} is {_describe(path, head)}, not an exported program: {_REMEDY}")
    if not zipfile.is_zipfile(path):
        raise truncated(path)


def check_zip_kind(path: Path, names: list[str]) -> None:
    """Pass the members of an archive that torch.export.save wrote; `names` are without the archive's own folder.

    Raises:
        LoadError: the zip is something else, which the message names.
    """
    if any(name.startswith("models/") for name in names) or "serialized_exported_program.json" in names:
        return
    if any(name.startswith("data/aotinductor/") for name in names):
        kind = "an AOTInductor package, compiled code without a graph"
    elif any(name.startswith("code/") for name in names) and "constants.pkl" in names:
        kind = "a TorchScript archive"
    elif "data.pkl" in names:
        kind = "a torch.save file (pickled weights or a pickled module)"
    elif any(name.endswith(".npy") for name in names):
        kind = "a NumPy .npz archive"
    elif "config.json" in names and any(name.endswith(".h5") for name in names):
        kind = "a Keras model"
    else:
        kind = "a zip archive without a model in it"
    raise LoadError(f"{str(path)!r} is {kind}, not an exported program: {_REMEDY}")


def truncated(path: Path) -> LoadError:
    """The error for a zip whose table of contents, at its end, is missing."""
    return LoadError(f"{str(path)!r} is a truncated zip, its end is missing: copy or download it again")


def _describe(path: Path, head: bytes) -> str:
    for offset, magic, kind in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return kind
    if head[8:9] == b"{" and head[5:8] == b"\0\0\0":
        return "a safetensors file, which holds weights without a program"
    # An ONNX model is a protobuf whose first field is the version, and it soon names its producer or graph.
    if path.suffix == ".onnx" or (head[0] == 0x08 and head[2:3] in (b"\x12", b"\x1a", b"\x3a")):
        return "an ONNX model"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character cut in two by the end of what was read does not make a text binary.
        if error.start < len(head) - 4:
            return "a binary file of an unknown kind"
    return "a text file" if b"\0" not in head else "a binary file of an unknown kind"
