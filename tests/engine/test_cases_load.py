"""The public reports about loading, exporting and showing: each case is captured, saved, opened again and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from lowerscope.errors import CaptureError, LoadError, LowerscopeError, MissingOperatorError
from lowerscope.loading import load
from lowerscope.program import Program, capture
from tests.cases import CASES, FILES, INFO, call, differ, fresh

OF_CLASS_C = [name for name in CASES if INFO[name]["cls"] == "c" and INFO[name]["export"] == "ok"]
NOT_EXPORTED = [name for name in CASES if INFO[name]["export"] == "fails"]

# What a .pt2 file cannot hold, and what `save` says of it.
NOT_SAVED = {
    "c_none_and_int_outputs": "namedtuple class .*Pair",
    "c_float4_packed_weight": r"buffer 'w' is of dtype torch\.float4_e2m1fn_x2",
}


def captured(name: str) -> tuple[Program, Any, tuple[Any, ...], dict[str, Any]]:
    module, args, kwargs, shapes = fresh(name)
    return capture(module, args, kwargs, shapes, name=name), module, args, kwargs


def run(program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return call(program.exported_program.module(), args, kwargs)


def nodes(program: Program) -> list[tuple[str, str, str]]:
    """What a file keeps of each node; a tuple among the arguments of a loop comes back as a list."""
    return [(node.op, node.name, str(node.target)) for node in program.graph.nodes]


@pytest.mark.parametrize("name", OF_CLASS_C)
def test_captured_it_computes_what_the_module_does(name: str) -> None:
    program, module, args, kwargs = captured(name)
    expected = call(module, args, kwargs)
    assert pytree.tree_structure(program.inputs()) == pytree.tree_structure((args, kwargs))
    verdict, _ = differ(expected, run(program, args, kwargs))
    assert verdict in ("equal", "close")
    assert repr(program).startswith(f"<Program {name!r}")


@pytest.mark.parametrize("name", OF_CLASS_C)
def test_saved_and_opened_it_is_the_same(name: str, tmp_path: Path) -> None:
    program, _, args, kwargs = captured(name)
    if name in NOT_SAVED:
        with pytest.raises(LowerscopeError, match=NOT_SAVED[name]):
            program.save(tmp_path / "case.pt2")
        assert not list(tmp_path.iterdir())
        return
    opened = load(program.save(tmp_path / "case.pt2"))
    assert nodes(opened) == nodes(program)
    assert opened.user_inputs == program.user_inputs
    assert opened.mutated == program.mutated
    assert {key: opened.constant_kind(key) for key in opened.constants} == {
        key: program.constant_kind(key) for key in program.constants
    }
    # A run may write to the buffers, which the program shares: each is run once.
    verdict, _ = differ(run(program, args, kwargs), run(opened, *opened.inputs()))
    assert verdict == "equal"


@pytest.mark.parametrize("name", [name for name in OF_CLASS_C if name not in NOT_SAVED])
def test_without_example_inputs_lively_ones_run(name: str, tmp_path: Path) -> None:
    program, module, _, _ = captured(name)
    opened = load(program.save(tmp_path / "case.pt2"))
    opened.exported_program.example_inputs = None
    assert opened.example_inputs is None
    args, kwargs = opened.inputs(seed=1)
    verdict, _ = differ(call(module, args, kwargs), run(opened, args, kwargs))
    assert verdict in ("equal", "close")


@pytest.mark.parametrize("name", NOT_EXPORTED)
def test_what_cannot_be_exported_says_why(name: str) -> None:
    module, args, kwargs, shapes = fresh(name)
    with pytest.raises(CaptureError) as caught:
        capture(module, args, kwargs, shapes)
    message = str(caught.value)
    assert message.startswith(f"{type(module).__name__} cannot be exported: ")
    assert "; " in message
    assert "\n" not in message
    if name == "c_dataclass_output":
        assert "Out" in message
        assert "register_dataclass" in message


def test_the_mutated_buffers_of_a_training_batch_norm_are_named() -> None:
    program, *_ = captured("c_bn_train_extra_outputs")
    decomposed = Program(program.exported_program.run_decompositions())
    written = {decomposed.specs[name].target for name in decomposed.mutated}
    assert written == {"bn.running_mean", "bn.running_var", "bn.num_batches_tracked"}


def test_a_tied_parameter_is_one_tensor(tmp_path: Path) -> None:
    program, *_ = captured("c_tied_embedding")
    for each in (program, load(program.save(tmp_path / "tied.pt2"))):
        weights = [each.constants[name] for name in each.constants if each.constant_kind(name) == "parameter"]
        assert len({weight.data_ptr() for weight in weights}) == 1


@pytest.fixture
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"{request.param}.pt2"
    FILES[request.param][0](str(path))
    return path


@pytest.mark.parametrize(
    ("file", "error", "said"),
    [
        (
            "custom_op_missing",
            MissingOperatorError,
            r"hbugs_ext::thrice\.default.*import the package that registers it",
        ),
        ("schema_from_the_future", LoadError, rf"schema 10\d\.\d+, newer than.*torch {torch.__version__[:4]}"),
        ("torch_save_not_export", LoadError, "is a torch.save file.*not an exported program"),
    ],
    indirect=["file"],
)
def test_a_file_that_cannot_be_opened_says_why(file: Path, error: type[LoadError], said: str) -> None:
    with pytest.raises(error, match=said):
        load(file)


@pytest.mark.parametrize("file", ["no_example_inputs", "good_dynamic"], indirect=True)
def test_a_good_file_opens(file: Path) -> None:
    program = load(file)
    assert (program.example_inputs is None) == (file.stem == "no_example_inputs")
    args, kwargs = program.inputs()
    assert all(value.isfinite().all() for value in pytree.tree_leaves(run(program, args, kwargs)))
    assert bool(program.dynamic_sizes) == (file.stem == "good_dynamic")


def test_every_file_case_is_tested() -> None:
    refused = {"custom_op_missing", "schema_from_the_future", "torch_save_not_export"}
    assert set(FILES) == refused | {"no_example_inputs", "good_dynamic"}
