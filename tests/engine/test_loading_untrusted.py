"""A stranger's file runs nothing when it is opened: one archive for each way in, each of which would create a file."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lowerscope.errors import LoadError, UntrustedFileError
from lowerscope.loading import load
from lowerscope.program import capture
from tests.engine.hostile_files import Creates, torch_opens, write

Edit = Callable[[dict[str, bytes]], None]


def pickled(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def config_of(folder: str, path_name: str) -> bytes:
    entry = {"path_name": path_name, "is_param": False, "use_pickle": True, "tensor_meta": None}
    name = "linear.weight" if folder == "weights" else "shift"
    return json.dumps({"config": {name: entry}}).encode()


def pickled_weight(files: dict[str, bytes], bomb: Creates) -> str:
    files["data/weights/model_weights_config.json"] = config_of("weights", "weight_0")
    files["data/weights/weight_0"] = pickled(bomb)
    return "data/weights/weight_0"


def pickled_constant(files: dict[str, bytes], bomb: Creates) -> str:
    files["data/constants/model_constants_config.json"] = config_of("constants", "tensor_0")
    files["data/constants/tensor_0"] = pickled(bomb)
    return "data/constants/tensor_0"


def opaque_object(files: dict[str, bytes], bomb: Creates) -> str:
    files["data/constants/model_constants_config.json"] = config_of("constants", "opaque_obj_0")
    files["data/constants/opaque_obj_0"] = pickle.dumps(bomb)
    return "data/constants/opaque_obj_0"


def legacy_weights(files: dict[str, bytes], bomb: Creates) -> str:
    files["data/weights/model.pt"] = pickled({"linear.weight": bomb})
    return "data/weights/model.pt"


def legacy_constants(files: dict[str, bytes], bomb: Creates) -> str:
    files["data/constants/model.pt"] = pickled({"shift": bomb})
    return "data/constants/model.pt"


def example_inputs(files: dict[str, bytes], bomb: Creates) -> str:
    files["data/sample_inputs/model.pt"] = pickled(((bomb,), {}))
    return "data/sample_inputs/model.pt"


PICKLES = [pickled_weight, pickled_constant, opaque_object, legacy_weights, legacy_constants, example_inputs]


@pytest.mark.parametrize("plant", PICKLES)
def test_a_pickle_is_refused_by_name(
    plant: Callable[[dict[str, bytes], Creates], str], members: dict[str, bytes], marker: Path, tmp_path: Path
) -> None:
    files = dict(members)
    member = plant(files, Creates(marker))
    path = write(tmp_path / "m.pt2", files)

    with pytest.raises(UntrustedFileError, match=r"load\(path, trusted=True\)") as caught:
        load(path)

    assert repr(member) in str(caught.value)
    assert not marker.exists()
    # The bomb is live: torch's own reader sets it off, and so does the user's word.
    torch_opens(path)
    assert marker.exists()
    marker.unlink()
    with contextlib.suppress(LoadError):  # the bomb leaves no tensor behind
        load(path, trusted=True)
    assert marker.exists()


@dataclass
class Point:
    x: torch.Tensor
    y: torch.Tensor


def test_trusted_example_inputs_of_the_users_own_class(tmp_path: Path) -> None:
    class Adds(nn.Module):
        def forward(self, point: Point) -> torch.Tensor:
            return point.x + point.y

    torch.export.register_dataclass(Point, serialized_type_name="tests.Point")
    path = capture(Adds(), (Point(torch.ones(2), torch.ones(2)),)).save(tmp_path / "m.pt2")
    with pytest.raises(UntrustedFileError, match=r"'data/sample_inputs/model\.pt'"):
        load(path)
    (point,), _ = load(path, trusted=True).inputs()
    assert isinstance(point, Point)
    assert load(path, trusted=True).exported_program.module()(point).tolist() == [2, 2]


def test_a_script_object_is_refused(members: dict[str, bytes], tmp_path: Path) -> None:
    files = dict(members)
    files["data/constants/model_constants_config.json"] = config_of("constants", "custom_obj_0")
    files["data/constants/custom_obj_0"] = b"anything"
    with pytest.raises(UntrustedFileError, match=r"custom_obj_0.*trusted=True"):
        load(write(tmp_path / "m.pt2", files))


def test_the_pickles_of_the_old_layout_are_refused(marker: Path, tmp_path: Path) -> None:
    from torch._export.serde.serialize import serialize

    made = serialize(torch.export.export(nn.Linear(3, 2), (torch.randn(1, 3),)))
    parts = {
        "version": b"8.8",
        "serialized_exported_program.json": made.exported_program,
        "serialized_state_dict.pt": made.state_dict,
        "serialized_constants.pt": made.constants,
        "serialized_example_inputs.pt": made.example_inputs,
    }

    def written(name: str) -> Path:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, data in parts.items():
                assert isinstance(data, bytes)
                archive.writestr(member, data)
        return tmp_path / name

    assert len(load(written("good.pt2")).constants) == 2
    good = dict(parts)
    for member in ("serialized_state_dict.pt", "serialized_constants.pt", "serialized_example_inputs.pt"):
        parts.update(good)
        parts[member] = pickled({"a": Creates(marker)})
        with pytest.raises(UntrustedFileError, match=member):
            load(written("bad.pt2"))
        assert not marker.exists()


def test_compiled_code_is_not_loaded(members: dict[str, bytes], tmp_path: Path) -> None:
    files = {**members, "data/aotinductor/model/model.so": b"\x7fELF"}
    with pytest.raises(UntrustedFileError, match="compiled code"):
        load(write(tmp_path / "m.pt2", files))


def test_a_zip_that_two_readers_see_differently_is_refused(members: dict[str, bytes], tmp_path: Path) -> None:
    path = write(tmp_path / "m.pt2", members)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("archive/models/model.json", b"{}")
    with pytest.raises(UntrustedFileError, match="twice"):
        load(path)


def test_a_zip_bomb_is_refused(members: dict[str, bytes], tmp_path: Path) -> None:
    path = write(tmp_path / "m.pt2", members)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/extra/zeros", bytes(80 << 20))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(UntrustedFileError, match="100 times"):
        load(path)


def test_an_empty_member_does_not_make_a_huge_tensor(members: dict[str, bytes], tmp_path: Path) -> None:
    files = dict(members)
    config = json.loads(files["data/weights/model_weights_config.json"])
    payload = config["config"]["linear.weight"]
    payload["tensor_meta"]["sizes"] = [{"as_int": 1 << 40}, {"as_int": 1}]
    files["data/weights/model_weights_config.json"] = json.dumps(config).encode()
    files[f"data/weights/{payload['path_name']}"] = b""
    with pytest.raises(LoadError, match="is empty"):
        load(write(tmp_path / "m.pt2", files))


def test_a_view_beyond_its_member_is_refused(members: dict[str, bytes], tmp_path: Path) -> None:
    files = dict(members)
    config = json.loads(files["data/weights/model_weights_config.json"])
    config["config"]["linear.weight"]["tensor_meta"]["sizes"] = [{"as_int": 1 << 20}, {"as_int": 3}]
    files["data/weights/model_weights_config.json"] = json.dumps(config).encode()
    with pytest.raises(LoadError, match="damaged"):
        load(write(tmp_path / "m.pt2", files))


@pytest.mark.parametrize("depth", [500, 100_000])
def test_json_nested_without_end_is_an_error(depth: int, members: dict[str, bytes], tmp_path: Path) -> None:
    files = {**members, "models/model.json": b'{"graph_module":' + b"[" * depth + b"]" * depth + b"}"}
    with pytest.raises(LoadError):
        load(write(tmp_path / "m.pt2", files))
