"""Opening a program that calls operators which are not registered here, or only once their package is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lowerscope.errors import LoadError, MeasureError, MissingOperatorError
from lowerscope.loading import load
from tests.engine.archives import edited, in_program, one_sentence

CUSTOM = """
import sys, torch
lib = torch.library.Library("their_ext", "DEF")
lib.define("scaled_add(Tensor x, Tensor[] others, *, float scale, int[] dims, Tensor? bias=None) -> (Tensor, Tensor)")
run = lambda x, others, *, scale, dims, bias=None: (x + scale * others[0], x * 2)
lib.impl("scaled_add", run, "CompositeExplicitAutograd")
class Block(torch.nn.Module):
    def forward(self, x):
        a, b = torch.ops.their_ext.scaled_add(x, [x, x], scale=0.5, dims=[0, 1])
        return torch.relu(a) + b
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
    def forward(self, x):
        return self.block(x) * 2
torch.export.save(torch.export.export(Model(), (torch.randn(3),)), sys.argv[1])
"""


@pytest.fixture(scope="module")
def custom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a process that had registered an operator which this one has not."""
    path = tmp_path_factory.mktemp("custom") / "custom.pt2"
    subprocess.run([sys.executable, "-W", "ignore", "-c", CUSTOM, str(path)], check=True, timeout=120)
    return path


def test_a_missing_operator_is_named_with_its_place(custom: Path) -> None:
    with pytest.raises(
        MissingOperatorError, match=r"their_ext::scaled_add\.default \(used at node '\w+' in '.*block'\)"
    ) as caught:
        load(custom)
    assert caught.value.operators == ("their_ext::scaled_add.default",)
    assert "import the package that registers it" in str(caught.value)
    one_sentence(caught.value, custom)


def test_a_known_package_is_named(good: Path, tmp_path: Path) -> None:
    def change(program: dict) -> None:
        program["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.fbgemm.gone.default"

    with pytest.raises(MissingOperatorError, match=r"import the package that registers it \(fbgemm_gpu\) before load"):
        load(edited(good, tmp_path / "m.pt2", in_program(change)))


QUANTIZED = """
import sys, torch, torch.ao.quantization.fx._decomposed
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.5, 0, -128, 127, torch.int8)
torch.export.save(torch.export.export(Model(), (torch.randn(3),)), sys.argv[1])
"""
OPENS = """
import sys, lowerscope.loading
assert "torch.ao.quantization.fx._decomposed" not in sys.modules
print(lowerscope.loading.load(sys.argv[1]).graph)
"""


def test_the_operators_that_torch_defines_aside_are_found(tmp_path: Path) -> None:
    path = str(tmp_path / "q.pt2")
    for code in (QUANTIZED, OPENS):
        run = [sys.executable, "-W", "ignore", "-c", code, path]
        printed = subprocess.run(run, check=True, timeout=120, capture_output=True, text=True).stdout
    assert "quantized_decomposed.quantize_per_tensor.default" in printed


TORCHAO = """
import importlib.util, sys
import lowerscope
from lowerscope.errors import MissingOperatorError
assert "torchao" not in sys.modules
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torchao" else find(name, *rest)
try:
    lowerscope.load(sys.argv[1])
except MissingOperatorError as error:
    print(error)
importlib.util.find_spec = find
print(lowerscope.load(sys.argv[1]).graph)
"""


@pytest.mark.quantize
def test_a_program_quantized_by_torchao_loads_as_it_is_where_torchao_is_installed() -> None:
    path = str(Path(__file__).parents[2] / "sample_models" / "quantized_mlp_8da4w.pt2")
    run = [sys.executable, "-W", "ignore", "-c", TORCHAO, path]
    printed = subprocess.run(run, check=True, timeout=120, capture_output=True, text=True).stdout
    assert "import the package that registers it (torchao) before load" in printed
    assert "torch.ops.torchao.dequantize_affine.default" in printed


def test_a_missing_operator_of_torch_asks_for_the_newer_torch(good: Path, tmp_path: Path) -> None:
    def change(program: dict) -> None:
        program["torch_version"] = "9.9.0"
        program["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.aten.hyper_embedding.default"

    with pytest.raises(MissingOperatorError, match=r"aten::hyper_embedding\.default.*install the torch.*9\.9\.0"):
        load(edited(good, tmp_path / "m.pt2", in_program(change)))


def test_a_stand_in_makes_it_viewable(custom: Path) -> None:
    program = load(custom, unknown_ops="stand-in")
    (name,) = program.stand_ins
    assert program.stand_ins[name] == "their_ext::scaled_add.default"
    (node,) = [node for node in program.graph.nodes if str(node.target) == name]
    assert node.kwargs == {"scale": 0.5, "dims": [0, 1]}
    assert [tuple(value.shape) for value in node.meta["val"]] == [(3,), (3,)]
    assert "their_ext::scaled_add.default" in repr(program)
    program.exported_program.validate()

    with pytest.raises(MeasureError, match=r"cannot run their_ext::scaled_add\.default"):
        torch.fx.Interpreter(program.graph_module).run(*program.inputs()[0])


def test_a_stand_in_takes_no_name_from_the_real_operator(custom: Path) -> None:
    first = load(custom, unknown_ops="stand-in")
    assert load(custom, unknown_ops="stand-in").stand_ins == first.stand_ins
    with torch.library._scoped_library("their_ext", "DEF") as library:
        library.define(
            "scaled_add(Tensor x, Tensor[] others, *, float scale, int[] dims, Tensor? bias=None) -> (Tensor, Tensor)"
        )
        program = load(custom)
        assert not program.stand_ins
        assert any(str(node.target) == "their_ext.scaled_add.default" for node in program.graph.nodes)


def test_another_word_for_unknown_ops_is_an_error(good: Path) -> None:
    with pytest.raises(LoadError, match="stand-in"):
        load(good, unknown_ops="ignore")  # type: ignore[arg-type]
