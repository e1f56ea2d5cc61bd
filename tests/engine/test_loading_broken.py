"""Opening what is no program, a damaged one, or one of another version: one sentence that says what to do."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from lowerscope.errors import LoadError
from lowerscope.loading import load
from tests.engine.archives import edited, exported, in_program, one_sentence


def write_text(path: Path) -> None:
    path.write_text("import torch\n" * 2000)


def write_pte(path: Path) -> None:
    path.write_bytes(b"\x1c\0\0\0ET12" + bytes(40))


def write_onnx(path: Path) -> None:
    path.write_bytes(b"\x08\x08\x12\x07pytorch\x1a\x032.3" + bytes(range(256)))


def write_pickle(path: Path) -> None:
    torch.save({"a": torch.ones(1)}, path, _use_new_zipfile_serialization=False)


def write_state(path: Path) -> None:
    torch.save(nn.Linear(2, 2).state_dict(), path)


def write_torchscript(path: Path) -> None:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), buffer)
    path.write_bytes(buffer.getvalue())


def write_safetensors(path: Path) -> None:
    path.write_bytes((2).to_bytes(8, "little") + b"{}")


def write_other_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/b.txt", "text")
        archive.writestr("c.txt", "text")


def write_empty_zip(path: Path) -> None:
    zipfile.ZipFile(path, "w").close()


def write_nothing(path: Path) -> None:
    path.touch()


def write_noise(path: Path) -> None:
    path.write_bytes(bytes([255, 254, 0, 1, 2, 3] * 2000))


def write_truncated(path: Path) -> None:
    torch.export.save(exported("loop"), path)
    path.write_bytes(path.read_bytes()[:-400])


def write_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (write_text, "is a text file"),
        (write_pte, "is an ExecuTorch program"),
        (write_onnx, "is an ONNX model"),
        (write_pickle, "is a pickle"),
        (write_state, "is a torch.save file"),
        (write_torchscript, "is a TorchScript archive"),
        (write_safetensors, "is a safetensors file"),
        (write_other_zip, "is a zip archive without a model in it"),
        (write_empty_zip, "is a zip archive without a model in it|is an empty zip|truncated"),
        (write_nothing, "is empty"),
        (write_noise, "is a binary file of an unknown kind"),
        (write_truncated, "is a truncated zip"),
        (write_directory, "is a directory"),
    ],
)
def test_a_file_of_another_kind_is_named(write: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    write(path)
    with pytest.raises(LoadError, match=said) as caught:
        load(path)
    one_sentence(caught.value, path)


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "resnet.pt2").touch()
    with pytest.raises(LoadError, match=r"no file .*resnt\.pt2.*resnet\.pt2"):
        load(tmp_path / "resnt.pt2")


def test_a_newer_schema_says_who_wrote_it_and_who_reads_it(good: Path, tmp_path: Path) -> None:
    def change(program: dict) -> None:
        program["schema_version"]["major"] += 100
        program["torch_version"] = "9.9.0"

    path = edited(good, tmp_path / "new.pt2", in_program(change))
    with pytest.raises(
        LoadError, match=r"written by torch 9\.9\.0 with schema 108\.\d+, newer than the 8\.x"
    ) as caught:
        load(path)
    one_sentence(caught.value, path)


def test_an_older_schema_is_an_error_too(good: Path, tmp_path: Path) -> None:
    path = edited(good, tmp_path / "old.pt2", in_program(lambda p: p["schema_version"].update(major=3)))
    with pytest.raises(LoadError, match="older than"):
        load(path)


def test_a_variant_of_a_newer_schema_is_named(good: Path, tmp_path: Path) -> None:
    def change(program: dict) -> None:
        program["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {"as_quaternion": 1}

    with pytest.raises(LoadError, match=r"Argument\.as_quaternion.*does not know: install"):
        load(edited(good, tmp_path / "new.pt2", in_program(change)))


def test_another_archive_version_is_named(good: Path, tmp_path: Path) -> None:
    path = edited(good, tmp_path / "v.pt2", lambda name, data: b"7" if name == "archive_version" else data)
    with pytest.raises(LoadError, match="archive version 7"):
        load(path)


@pytest.mark.parametrize(
    "member",
    ["data/weights/weight_0", "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"],
)
def test_a_lost_member_is_named(member: str, good: Path, tmp_path: Path) -> None:
    path = edited(good, tmp_path / "lost.pt2", lambda name, data: None if name == member else data)
    with pytest.raises(LoadError, match=member):
        load(path)


def test_a_program_that_contradicts_itself_is_damaged(good: Path, tmp_path: Path) -> None:
    def change(program: dict) -> None:
        program["graph_module"]["graph"]["tensor_values"].pop("linear")

    path = edited(good, tmp_path / "bad.pt2", in_program(change))
    with pytest.raises(LoadError, match=r"damaged \(.*linear") as caught:
        load(path)
    one_sentence(caught.value, path)


def test_a_type_that_is_not_registered_is_named(good: Path, tmp_path: Path) -> None:
    def change(program: dict) -> None:
        signature = program["graph_module"]["module_call_graph"][0]["signature"]
        signature["out_spec"] = signature["out_spec"].replace("builtins.dict", "their.ModelOutput")

    with pytest.raises(LoadError, match=r"the type 'their\.ModelOutput'.*register_dataclass"):
        load(edited(good, tmp_path / "type.pt2", in_program(change)))
