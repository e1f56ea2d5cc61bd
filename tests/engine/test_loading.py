"""Opening a .pt2 file as torch's own reader does, and quicker."""

from __future__ import annotations

import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._export.serde import schema, serialize
from torch.utils import _pytree as pytree

from lowerscope.archive.decode import decode
from lowerscope.loading import load
from lowerscope.program import capture
from tests.engine.archives import exported


@pytest.fixture(scope="module", params=["tied", "loop", "shapes", "decomposed"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / f"{request.param}.pt2"
    torch.export.save(exported(request.param), path)
    return path


def plain_and_ours(path: Path) -> tuple[torch.export.ExportedProgram, torch.export.ExportedProgram]:
    return torch.export.load(path), load(path).exported_program


def test_the_program_is_the_one_that_torch_opens(saved: Path) -> None:
    plain, ours = plain_and_ours(saved)
    assert ours.graph_module.print_readable(print_output=False) == plain.graph_module.print_readable(print_output=False)
    assert str(ours.graph_signature) == str(plain.graph_signature)
    assert ours.range_constraints == plain.range_constraints
    assert ours._guards_code == plain._guards_code
    assert ours.call_spec == plain.call_spec
    assert ours.dialect == plain.dialect
    for mine, theirs in zip(ours.graph.nodes, plain.graph.nodes, strict=True):
        assert str(mine.meta) == str(theirs.meta)
    ours.validate()


def test_the_tensors_are_those_that_torch_opens(saved: Path) -> None:
    plain, ours = plain_and_ours(saved)
    for mine, theirs in ((ours.state_dict, plain.state_dict), (ours.constants, plain.constants)):
        assert list(mine) == list(theirs)
        for name, tensor in theirs.items():
            opened = mine[name]
            assert isinstance(tensor, torch.Tensor)
            assert isinstance(opened, torch.Tensor)
            assert type(opened) is type(tensor)
            assert opened.requires_grad == tensor.requires_grad
            assert opened.stride() == tensor.stride()
            assert torch.equal(opened, tensor)
    mine, theirs = pytree.tree_leaves(ours.example_inputs), pytree.tree_leaves(plain.example_inputs)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_infinity_and_nan_are_numbers(tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            masked = x.masked_fill(x > 0, -torch.inf).clamp(-torch.inf, torch.inf)
            return masked, torch.nan_to_num(masked.masked_fill(x < -1, torch.nan), torch.inf)

    x = torch.tensor([-2.0, -0.5, 1.0])
    path = capture(Net(), (x,)).save(tmp_path / "net.pt2")
    loaded = load(path).exported_program.module()(x)
    torch.testing.assert_close(loaded, Net()(x), equal_nan=True)
    assert str(loaded[0].tolist()) == "[-2.0, -0.5, -inf]"


def test_tied_weights_stay_one_tensor(tmp_path: Path) -> None:
    torch.export.save(exported("tied"), tmp_path / "m.pt2")
    state = load(tmp_path / "m.pt2").exported_program.state_dict
    assert state["embedding.weight"].data_ptr() == state["head.weight"].data_ptr()


def test_the_decoder_reads_what_torch_reads(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        data = archive.read(next(name for name in archive.namelist() if name.endswith("models/model.json")))
    plain = serialize._bytes_to_dataclass(schema.ExportedProgram, data)
    ours = decode(schema.ExportedProgram, json.loads(data))
    assert ours == plain
    assert serialize._to_json_bytes(ours) == serialize._to_json_bytes(plain)


def test_a_loaded_program_runs_saves_and_opens_again(saved: Path, tmp_path: Path) -> None:
    program = load(saved)
    assert program.path == str(saved)
    assert program.name == saved.stem
    again = load(program.save(tmp_path / "again.pt2"))
    assert again.fingerprint() == program.fingerprint()
    args, kwargs = again.inputs()
    torch.testing.assert_close(
        again.exported_program.module()(*args, **kwargs), program.exported_program.module()(*args, **kwargs)
    )


def test_several_threads_open_files_at_once(saved: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        prints = {program.fingerprint() for program in pool.map(load, [saved] * 4)}
    assert len(prints) == 1


def test_a_file_without_example_inputs_opens(tmp_path: Path) -> None:
    program = exported("tied")
    program.example_inputs = None
    torch.export.save(program, tmp_path / "m.pt2")
    opened = load(tmp_path / "m.pt2")
    assert opened.example_inputs is None
    args, kwargs = opened.inputs()
    assert set(opened.exported_program.module()(*args, **kwargs)) == {"logits", "n"}


def test_an_old_file_opens(tmp_path: Path) -> None:
    program = exported("tied")
    made = serialize.serialize(program)
    with zipfile.ZipFile(tmp_path / "old.pt2", "w") as archive:
        archive.writestr("version", "8.8")
        archive.writestr("serialized_exported_program.json", made.exported_program)
        archive.writestr("serialized_state_dict.pt", made.state_dict)
        archive.writestr("serialized_constants.pt", made.constants)
        archive.writestr("serialized_example_inputs.pt", made.example_inputs)
    opened = load(tmp_path / "old.pt2")
    assert str(opened.graph) == str(program.graph)
    args, kwargs = opened.inputs()
    torch.testing.assert_close(opened.exported_program.module()(*args, **kwargs), program.module()(*args, **kwargs))


def test_names_that_are_no_identifiers_open(tmp_path: Path) -> None:
    model = nn.Sequential()
    model.register_module("a & b 'p' <i>", nn.Linear(3, 2))
    program = capture(model, (torch.randn(1, 3),))
    opened = load(program.save(tmp_path / "m.pt2"))
    assert sorted(spec.target for spec in opened.specs.values() if spec.target) == [
        "a & b 'p' <i>.bias",
        "a & b 'p' <i>.weight",
    ]
