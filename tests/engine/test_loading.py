"""Opening a .pt2 file: as torch's own reader does, quicker, and with one sentence where it cannot be done."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._export.serde import schema, serialize
from torch.utils import _pytree as pytree

from lowerscope.archive.decode import decode
from lowerscope.errors import LoadError, MeasureError, MissingOperatorError
from lowerscope.loading import load
from lowerscope.program import capture


class Tied(nn.Module):
    """Tied weights, a buffer outside the state dict, a buffer that is written, a constant, a dictionary in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.head = nn.Linear(4, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("shift", torch.linspace(0, 1, 4), persistent=False)

    def forward(self, ids: torch.Tensor, options: dict[str, torch.Tensor], *, flag: bool) -> dict[str, torch.Tensor]:
        hidden = self.norm(self.embedding(ids)) * options["scale"] + self.shift + torch.tensor(2.0)
        return {"logits": self.head(hidden), "n": ids.shape[0] * hidden.sum(1)}


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.while_loop(lambda i, _: i > 0, lambda i, y: (i - 1, self.linear(y)), (n, x))


class Shapes(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[object, ...]:
        n = x.shape[0]
        if n % 2 == 0:
            x = x + 1
        return x.reshape(n // 2, -1), torch.sym_sqrt(n), torch.arange(float(n) / 2), x.sum().item()


def exported(name: str) -> torch.export.ExportedProgram:
    n = torch.export.Dim("n", min=2, max=64)
    if name == "tied":
        args = (torch.tensor([1, 2, 3]), {"scale": torch.randn(4)})
        return torch.export.export(
            Tied().train(),
            args,
            {"flag": True},
            dynamic_shapes={"ids": {0: n}, "options": {"scale": None}, "flag": None},
        )
    if name == "loop":
        return torch.export.export(Loop(), (torch.tensor(3), torch.randn(2, 2)))
    if name == "shapes":
        return torch.export.export(Shapes(), (torch.randn(4, 6),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    return torch.export.export(
        Tied().eval(), (torch.tensor([1, 2]), {"scale": torch.randn(4)}), {"flag": False}
    ).run_decompositions()


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


def one_sentence(error: LoadError, path: Path) -> None:
    """It names the file, stays on one line, and says after a colon what to do."""
    text = str(error)
    assert str(path) in text
    assert "\n" not in text
    assert ": " in text.split(str(path), 1)[1]
    assert not text.endswith(".")


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "resnet.pt2").touch()
    with pytest.raises(LoadError, match=r"no file .*resnt\.pt2.*resnet\.pt2"):
        load(tmp_path / "resnt.pt2")


def edited(source: Path, target: Path, edit: Callable[[str, bytes], bytes | None]) -> Path:
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as out:
        for name in archive.namelist():
            data = edit(name.split("/", 1)[1], archive.read(name))
            if data is not None:
                out.writestr(name, data)
    return target


@pytest.fixture
def good(tmp_path: Path) -> Path:
    torch.export.save(exported("tied"), tmp_path / "good.pt2")
    return tmp_path / "good.pt2"


def in_program(change: Callable[[dict], object]) -> Callable[[str, bytes], bytes]:
    def edit(name: str, data: bytes) -> bytes:
        if name != "models/model.json":
            return data
        program = json.loads(data)
        change(program)
        return json.dumps(program).encode()

    return edit


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


def test_names_that_are_no_identifiers_open(tmp_path: Path) -> None:
    model = nn.Sequential()
    model.register_module("a & b 'p' <i>", nn.Linear(3, 2))
    program = capture(model, (torch.randn(1, 3),))
    opened = load(program.save(tmp_path / "m.pt2"))
    assert sorted(spec.target for spec in opened.specs.values() if spec.target) == [
        "a & b 'p' <i>.bias",
        "a & b 'p' <i>.weight",
    ]


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
