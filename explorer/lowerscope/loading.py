"""`load`: open a ``.pt2`` file without running anything that it says."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Literal

import torch
from torch._export.serde import schema
from torch._export.serde.schema import SCHEMA_VERSION
from torch._export.serde.serialize import ExportedProgramDeserializer

from lowerscope.archive.decode import decode
from lowerscope.archive.expressions import Refused
from lowerscope.archive.kinds import check_kind
from lowerscope.archive.members import Archive
from lowerscope.archive.missing import missing_error, missing_operators
from lowerscope.archive.untrusted import check_program
from lowerscope.errors import LoadError
from lowerscope.program import Program

# torch's deserializer keeps the one at work in a global and refuses a second.
_DESERIALIZING = threading.Lock()


def load(
    path: str | os.PathLike[str], *, trusted: bool = False, unknown_ops: Literal["error", "stand-in"] = "error"
) -> Program:
    """Open a file that `torch.export.save` wrote (or a torch 2.7 or older one).

    The file is untrusted: pickled weights, constants and example inputs are read with ``weights_only=True``, pickled
    objects and compiled code are refused, and so is any name, size, guard or target that torch would turn into code of
    the file's choice (see `lowerscope.archive.untrusted`).

    Args:
        path: of the file.
        trusted: read what could run the file's code, too. This is your word that you know where the file comes from.
        unknown_ops: "error", or "stand-in" to put an opaque operator in the place of each that is not registered here:
            the graph can be looked at, and running it raises a `MeasureError`; see `Program.stand_ins`.

    Raises:
        LoadError: the file is missing, damaged, of another kind, or of a schema that this torch does not read.
        UntrustedFileError: it could run code when opened; the message names the member.
        MissingOperatorError: it calls operators that are not registered here; the message names them.
    """
    if unknown_ops not in ("error", "stand-in"):
        raise LoadError(f'unknown_ops is "error" or "stand-in", not {unknown_ops!r}')
    path = Path(path)
    check_kind(path)
    archive = Archive(path, trusted=trusted)
    try:
        return _load(archive, unknown_ops)
    finally:
        archive.close()


def _load(archive: Archive, unknown_ops: str) -> Program:
    path = str(archive.path)
    data = archive.program_json()
    _check_schema(path, data)
    if not archive.trusted:
        try:
            check_program(data)
        except Refused as error:
            raise archive.refuse(archive.program_member, str(error)) from error
    stand_ins: dict[str, str] = {}
    try:
        missing = missing_operators(data)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise archive.damaged(error) from error
    if missing and unknown_ops == "error":
        raise missing_error(path, missing, str(data.get("torch_version") or "a newer one"))
    if missing:
        from lowerscope.archive.stand_ins import put_stand_ins

        stand_ins = put_stand_ins(missing)
    weights, constants, inputs = archive.weights(), archive.constants(), archive.example_inputs()
    exported = _deserialize(archive, data, weights, constants, inputs)
    return Program(exported, path=path, stand_ins=stand_ins)


def _deserialize(
    archive: Archive, data: dict[str, Any], weights: dict[str, Any], constants: dict[str, Any], inputs: Any
) -> torch.export.ExportedProgram:
    try:
        serialized = decode(schema.ExportedProgram, data)
        with _DESERIALIZING:
            return ExportedProgramDeserializer().deserialize(serialized, weights, constants, inputs)
    except NotImplementedError as error:
        kind = str(error).removeprefix("Deserializing ").split(" in pytree")[0]
        raise LoadError(
            f"{str(archive.path)!r} has inputs or outputs of the type {kind!r}, which is not registered here: import "
            "the package that defines it, and register it with torch.export.register_dataclass, before load"
        ) from error
    except LoadError as error:
        raise type(error)(f"{str(archive.path)!r}: {error}") from error
    # torch raises whatever it stumbles on in a file that contradicts itself; none of it may reach the user bare.
    except Exception as error:
        raise archive.damaged(_cause(error)) from error


def _cause(error: BaseException) -> BaseException:
    """The first exception of a chain: torch wraps it in the text of the whole node and a traceback."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _check_schema(path: str, data: dict[str, Any]) -> None:
    version = data.get("schema_version")
    major, minor = (version.get("major"), version.get("minor")) if isinstance(version, dict) else (None, None)
    ours, _ = SCHEMA_VERSION
    if not isinstance(major, int):
        raise LoadError(f"{path!r} is damaged (it has no schema version): copy or export it again")
    # 0.0 is what torch's own reader lets pass for files written before versions.
    if major == ours or (major, minor) == (0, 0):
        return
    age = "newer" if major > ours else "older"
    writer = f" by torch {data['torch_version']}" if data.get("torch_version") else ""
    remedy = "install a newer torch" if major > ours else "export the model again with this torch"
    if major > ours and data.get("torch_version"):
        remedy = f"install a torch that reads schema {major}, or export the model again with this one"
    raise LoadError(
        f"{path!r} was written{writer} with schema {major}.{minor}, {age} than the {ours}.x that "
        f"torch {torch.__version__} reads: {remedy}"
    )
