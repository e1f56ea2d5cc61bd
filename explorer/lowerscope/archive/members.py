"""The members of a ``.pt2`` archive, and the tensors in them."""

from __future__ import annotations

import io
import json
import math
import pickle
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch._export.serde.serialize import (
    deserialize_device,
    deserialize_scalar_type,
    deserialize_size,
    deserialize_storage_offset,
    deserialize_stride,
)
from torch.export.pt2_archive.constants import (
    AOTINDUCTOR_DIR,
    ARCHIVE_VERSION_PATH,
    ARCHIVE_VERSION_VALUE,
    CONSTANTS_CONFIG_FILENAME_FORMAT,
    CONSTANTS_DIR,
    CUSTOM_OBJ_FILENAME_PREFIX,
    MODELS_DIR,
    MODELS_FILENAME_FORMAT,
    OPAQUE_OBJ_FILENAME_PREFIX,
    SAMPLE_INPUTS_FILENAME_FORMAT,
    WEIGHTS_CONFIG_FILENAME_FORMAT,
    WEIGHTS_DIR,
)

from lowerscope.archive.decode import decode
from lowerscope.archive.kinds import check_zip_kind, truncated
from lowerscope.errors import LoadError, UntrustedFileError, first_line

# torch stores its members uncompressed; those that are compressed may in sum swell to this many times the file's size, or
# to so many bytes, which any machine has.
_LARGEST_SWELLING = 100
_SMALL = 64 << 20

# The layout of torch 2.7 and older: a zip with these members at its top.
_OLD_PROGRAM = "serialized_exported_program.json"
_OLD_WEIGHTS = "serialized_state_dict"
_OLD_CONSTANTS = "serialized_constants"
_OLD_INPUTS = "serialized_example_inputs.pt"


class Archive:
    """An open ``.pt2`` file.

    Every member is read once, through one reader: what is checked is what is used.

    Args:
        path: a file that `check_kind` has passed.
        trusted: whether pickles may be read that can run code.

    Raises:
        LoadError: the archive is damaged, of another kind, or of a version that this torch does not read.
        UntrustedFileError: it is built to harm the one who opens it.
    """

    def __init__(self, path: Path, *, trusted: bool) -> None:
        self.path = path
        self.trusted = trusted
        old = self._check_zip()
        try:
            self._reader = None if old else torch._C.PyTorchFileReader(str(path))
        except RuntimeError as error:
            raise self.damaged(error) from error
        self._old = zipfile.ZipFile(path) if self._reader is None else None
        # A set, for a large model has thousands of members, and each is looked up.
        self.names: frozenset[str] = frozenset(
            self._old.namelist() if self._old is not None else self._reader.get_all_records()  # type: ignore[union-attr]
        )
        if self._reader is not None:
            self._check_version()
        if not trusted and any(name.startswith(AOTINDUCTOR_DIR) for name in self.names):
            raise UntrustedFileError(
                f"{str(path)!r} holds compiled code in {AOTINDUCTOR_DIR!r}, which is not loaded: "
                f"save the exported program alone, or call load(path, trusted=True) to ignore that part"
            )
        self.model = self._model_name()

    def close(self) -> None:
        """Close the file."""
        if self._old is not None:
            self._old.close()
        self._reader = None

    def damaged(self, error: BaseException) -> LoadError:
        """The error for an archive whose content contradicts itself."""
        first = first_line(error)
        if isinstance(error, (KeyError, IndexError, AttributeError)):
            first = f"{type(error).__name__} {first}"
        return LoadError(f"{str(self.path)!r} is damaged ({first}): copy or export it again")

    def refuse(self, member: str, why: str) -> UntrustedFileError:
        """The error for a member that cannot be read without running what the file says."""
        return UntrustedFileError(
            f"{str(self.path)!r} is not opened, because its member {member!r} {why}: "
            "if you trust where the file comes from, call load(path, trusted=True)"
        )

    def read(self, name: str) -> bytes:
        """The bytes of a member. LoadError: the file is damaged."""
        self._require(name)
        try:
            return self._old.read(name) if self._old is not None else self._reader.get_record(name)  # type: ignore[union-attr]
        except (RuntimeError, zipfile.BadZipFile) as error:
            raise self.damaged(error) from error

    @property
    def program_member(self) -> str:
        """The name of the member that holds the program."""
        return _OLD_PROGRAM if self._old is not None else MODELS_FILENAME_FORMAT.format(self.model)

    def program_json(self) -> dict[str, Any]:
        """The serialized program as plain JSON. LoadError: the file is damaged, or of another kind."""
        name = self.program_member
        try:
            data = json.loads(self.read(name))
        except (ValueError, RecursionError) as error:
            raise self.damaged(error) from error
        if not isinstance(data, dict) or "graph_module" not in data:
            raise LoadError(f"{str(self.path)!r} is damaged ({name!r} holds no program): copy or export it again")
        return data

    def weights(self) -> dict[str, torch.Tensor]:
        """Name -> parameter or persistent buffer. LoadError, UntrustedFileError: they cannot be read, or only by running code."""
        if self._old is not None:
            return self._unpickled_dict(self._old_member(_OLD_WEIGHTS))
        legacy = f"{WEIGHTS_DIR}{self.model}.pt"
        if legacy in self.names:
            return self._unpickled_dict(legacy)
        return self._payloads(WEIGHTS_CONFIG_FILENAME_FORMAT.format(self.model), WEIGHTS_DIR)

    def constants(self) -> dict[str, Any]:
        """Name -> lifted constant or non-persistent buffer; in a trusted file also custom objects. Errors as of `weights`:
        LoadError, UntrustedFileError.
        """
        if self._old is not None:
            return self._unpickled_dict(self._old_member(_OLD_CONSTANTS))
        legacy = f"{CONSTANTS_DIR}{self.model}.pt"
        if legacy in self.names:
            return self._unpickled_dict(legacy)
        return self._payloads(CONSTANTS_CONFIG_FILENAME_FORMAT.format(self.model), CONSTANTS_DIR)

    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """``(args, kwargs)``, or None where the file has none. LoadError: they cannot be read."""
        name = _OLD_INPUTS if self._old is not None else SAMPLE_INPUTS_FILENAME_FORMAT.format(self.model)
        data = self.read(name) if name in self.names else b""
        if not data:
            return None
        inputs = self._unpickle(name, data)
        if not inputs:
            return None
        if not (isinstance(inputs, tuple) and len(inputs) == 2):
            raise LoadError(f"{str(self.path)!r} is damaged ({name!r} holds no inputs): copy or export it again")
        return inputs

    def _require(self, name: str) -> None:
        if name not in self.names:
            raise LoadError(f"{str(self.path)!r} is damaged (its member {name!r} is missing): copy or export it again")

    def _check_zip(self) -> bool:
        """Refuse zips that two readers see differently or that swell; True for the layout of torch 2.7 and older."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise self.damaged(error) from error
        # A member that is a zip itself ends like one: cut off behind it, the file shows the member's table of contents.
        if members and min(member.header_offset for member in members) > 0:
            raise truncated(self.path)
        twice = [name for name, count in Counter(member.filename for member in members).items() if count > 1]
        if twice:
            raise UntrustedFileError(
                f"{str(self.path)!r} holds {twice[0]!r} twice, so that two readers can see two models: export it again"
            )
        size = self.path.stat().st_size
        if sum(member.file_size for member in members) > max(_SMALL, _LARGEST_SWELLING * size):
            raise UntrustedFileError(
                f"{str(self.path)!r} would unpack to over {_LARGEST_SWELLING} times its {size} bytes: export it again"
            )
        names = [member.filename for member in members]
        if not names:
            raise LoadError(f"{str(self.path)!r} is an empty zip: write it again with torch.export.save")
        if _OLD_PROGRAM in names:
            return True
        folders = {name.split("/", 1)[0] for name in names}
        check_zip_kind(self.path, [name.split("/", 1)[-1] for name in names] if len(folders) == 1 else names)
        return False

    def _check_version(self) -> None:
        version = (
            self.read(ARCHIVE_VERSION_PATH).decode(errors="replace") if ARCHIVE_VERSION_PATH in self.names else "0"
        )
        if version != ARCHIVE_VERSION_VALUE:
            raise LoadError(
                f"{str(self.path)!r} has archive version {version} and torch {torch.__version__} reads "
                f"{ARCHIVE_VERSION_VALUE}: install the torch that wrote it, or export the model again"
            )

    def _model_name(self) -> str:
        prefix, suffix = MODELS_FILENAME_FORMAT.split("{}")
        models = [
            n[len(prefix) : -len(suffix)] for n in sorted(self.names) if n.startswith(MODELS_DIR) and n.endswith(suffix)
        ]
        if not models or "model" in models:
            return "model"
        if len(models) > 1:
            raise LoadError(f"{str(self.path)!r} holds {len(models)} models ({', '.join(models)}): save one to a file")
        return models[0]

    def _old_member(self, stem: str) -> str:
        # Very old files call the pickle .json.
        return next((name for name in (f"{stem}.pt", f"{stem}.json") if name in self.names), f"{stem}.pt")

    def _unpickled_dict(self, member: str) -> dict[str, Any]:
        data = self.read(member)
        value = self._unpickle(member, data) if data else {}
        if not isinstance(value, dict):
            raise LoadError(f"{str(self.path)!r} is damaged ({member!r} holds no tensors): copy or export it again")
        return value

    def _unpickle(self, member: str, data: bytes) -> Any:
        try:
            return torch.load(io.BytesIO(data), weights_only=not self.trusted)
        except pickle.UnpicklingError as error:
            if self.trusted:
                raise self.damaged(error) from error
            raise self.refuse(member, "needs unpickling, which can run the file's code") from error
        except (RuntimeError, ValueError, TypeError, EOFError, AttributeError, KeyError, ImportError) as error:
            raise self.damaged(error) from error

    def _payloads(self, config_name: str, folder: str) -> dict[str, Any]:
        from torch._export.serde import schema

        try:
            config = decode(schema.PayloadConfig, json.loads(self.read(config_name)))
        except (ValueError, RecursionError, TypeError) as error:
            raise self.damaged(error) from error
        flat: dict[str, torch.Tensor] = {}
        values: dict[str, Any] = {}
        for name, payload in config.config.items():
            member = f"{folder}{payload.path_name}"
            if payload.path_name.startswith((CUSTOM_OBJ_FILENAME_PREFIX, OPAQUE_OBJ_FILENAME_PREFIX)):
                values[name] = self._custom_object(member, payload.path_name)
            elif payload.use_pickle:
                values[name] = self._unpickle(member, self.read(member))
            else:
                values[name] = self._tensor(member, payload, flat)
        return values

    def _custom_object(self, member: str, path_name: str) -> Any:
        if not self.trusted:
            raise self.refuse(member, "is a pickled object, and unpickling can run the file's code")
        data = self.read(member)
        return (
            torch._C._pickle_load_obj(data) if path_name.startswith(CUSTOM_OBJ_FILENAME_PREFIX) else pickle.loads(data)
        )

    def _tensor(self, member: str, payload: Any, flat: dict[str, torch.Tensor]) -> torch.Tensor:
        """The tensor of a payload: a view of the member's bytes, which several payloads may share (tied weights)."""
        meta = payload.tensor_meta
        if meta is None:
            raise LoadError(f"{str(self.path)!r} is damaged ({member!r} has no shape): copy or export it again")
        try:
            size = deserialize_size(meta.sizes)
            if member not in flat:
                flat[member] = self._storage(member, meta, size)
            strides, offset = deserialize_stride(meta.strides), deserialize_storage_offset(meta.storage_offset)
            value = torch.as_strided(flat[member], size, strides, offset)
        except (RuntimeError, ValueError, TypeError, KeyError, AssertionError) as error:
            raise self.damaged(error) from error
        return torch.nn.Parameter(value, requires_grad=meta.requires_grad) if payload.is_param else value

    def _storage(self, member: str, meta: Any, size: tuple[int, ...]) -> torch.Tensor:
        dtype, device = deserialize_scalar_type(meta.dtype), deserialize_device(meta.device)
        self._require(member)
        assert self._reader is not None
        nbytes = self._reader.get_record_size(member)
        if not nbytes:
            if math.prod(size):
                raise LoadError(f"{str(self.path)!r} is damaged ({member!r} is empty): copy or export it again")
            value = torch.zeros(size, dtype=dtype, device=device)
        else:
            count, rest = divmod(nbytes, dtype.itemsize)
            if rest:
                raise LoadError(f"{str(self.path)!r} is damaged ({member!r} is cut short): copy or export it again")
            record = self._reader.get_storage_from_record(member, count, dtype)
            # The reader's tensor has no dispatch keys of its own: give its storage to a proper one.
            value = torch.empty(0, dtype=dtype).set_(record.untyped_storage(), 0, (count,), (1,))
            value = value if device.type == "cpu" else value.to(device)
        return value.requires_grad_() if meta.requires_grad else value
