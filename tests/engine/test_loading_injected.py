"""Text in a file that torch would turn into code, by names, sizes, guards, structures and targets, is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lowerscope.errors import UntrustedFileError
from lowerscope.loading import load
from tests.engine.hostile_files import edited, rename, torch_opens


def injected_name(marker: Path) -> str:
    """A node's name that ends the generated function and goes on at the top of its source."""
    return f"linear):\n    pass\nopen({str(marker)!r}, 'w')\ndef g(self"


def placeholder(program: dict[str, Any], marker: Path) -> None:
    """The default of a parameter of the generated function, which is compiled and executed as soon as it is made."""
    rename("unused", f"unused=open({str(marker)!r}, 'w')")(program)


def node_name(program: dict[str, Any], marker: Path) -> None:
    rename("linear", injected_name(marker))(program)


def keyword(program: dict[str, Any], marker: Path) -> None:
    node = program["graph_module"]["graph"]["nodes"][0]
    node["target"] = "torch.ops.higher_order.wrap"
    node["inputs"][0]["name"] = f"a=open({str(marker)!r}, 'w'), b"
    node["inputs"][0]["kind"] = 2


def forward_argument(program: dict[str, Any], marker: Path) -> None:
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    signature["forward_arg_names"] = ["x", "scale", f"unused=open({str(marker)!r}, 'w')"]


def keyword_argument(program: dict[str, Any], marker: Path) -> None:
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    name = json.dumps(json.dumps(["scale", f"unused=open({str(marker)!r}, 'w')"]))
    assert json.dumps('["scale", "unused"]') in signature["in_spec"]
    signature["in_spec"] = signature["in_spec"].replace(json.dumps('["scale", "unused"]'), name)
    signature["forward_arg_names"] = []


def parameter(program: dict[str, Any], marker: Path) -> None:
    rename("linear.weight", f'linear.a"), open({str(marker)!r}, "w"), ("')(program)


def size(program: dict[str, Any], marker: Path) -> None:
    sizes = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
    sizes[0]["as_expr"]["expr_str"] = f"open({str(marker)!r}, 'w') and Symbol('s0')"


def size_by_attributes(program: dict[str, Any], marker: Path) -> None:
    sizes = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
    subclasses = "().__class__.__base__.__subclasses__()"
    opener = f"[c for c in {subclasses} if c.__name__ == 'FileIO'][0]"
    sizes[0]["as_expr"]["expr_str"] = f"Integer({opener}({str(marker)!r}, 'w').fileno())"


def guard(program: dict[str, Any], marker: Path) -> None:
    program["guards_code"] = [f"open({str(marker)!r}, 'w') is None"]


def guard_key(program: dict[str, Any], marker: Path) -> None:
    code = f"') or open({str(marker)!r}, 'w') or ('"
    program["guards_code"] = [f"L[{code!r}].size()[0] == 2"]


def enum_module(program: dict[str, Any], marker: Path) -> None:
    """Python runs the module that the enum is said to be in: here one that lies beside the file."""
    (marker.parent / "planted_enum.py").write_text(
        f"import enum\nopen({str(marker)!r}, 'w')\nE = enum.Enum('E', 'A')\n"
    )
    enum = {"__enum__": True, "fqn": "planted_enum:E", "name": "A"}
    _out_spec(program, "builtins.dict", json.dumps([enum]))


def defaultdict_factory(program: dict[str, Any], marker: Path) -> None:
    module = _planted(marker, "make = list\n")
    context = {"default_factory_module": module, "default_factory_name": "make", "dict_context": ["y"]}
    _out_spec(program, "collections.defaultdict", context)


def _planted(marker: Path, source: str) -> str:
    """The name of a module, another in each test, that creates the marker when it is imported."""
    name = f"planted_{marker.parent.name}"
    (marker.parent / f"{name}.py").write_text(f"open({str(marker)!r}, 'w')\n{source}")
    return name


def _out_spec(program: dict[str, Any], kind: str, context: Any) -> None:
    leaf = {"type": None, "context": None, "children_spec": []}
    tree = {"type": kind, "context": context, "children_spec": [leaf]}
    program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps([1, tree])


def subgraph(program: dict[str, Any], marker: Path) -> None:
    node = program["graph_module"]["graph"]["nodes"][0]
    graph = json.loads(json.dumps(program["graph_module"]["graph"]))
    node["target"] = "torch.ops.higher_order.wrap"
    node["inputs"] = [{"name": "", "kind": 1, "arg": {"as_graph": {"name": injected_name(marker), "graph": graph}}}]


CODE = [
    placeholder,
    node_name,
    keyword,
    forward_argument,
    keyword_argument,
    parameter,
    size,
    size_by_attributes,
    guard,
    guard_key,
    enum_module,
    defaultdict_factory,
    subgraph,
]


@pytest.mark.parametrize("plant", CODE)
def test_text_that_would_become_code_is_refused(
    plant: Callable[[dict[str, Any], Path], None],
    members: dict[str, bytes],
    marker: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = edited(members, tmp_path / "m.pt2", lambda program: plant(program, marker))
    with pytest.raises(UntrustedFileError, match=r"'models/model.json'.*load\(path, trusted=True\)"):
        load(path)
    assert not marker.exists()


@pytest.mark.parametrize("plant", [placeholder, size, guard, enum_module, defaultdict_factory])
def test_the_same_text_runs_in_torchs_own_reader(
    plant: Callable[[dict[str, Any], Path], None],
    members: dict[str, bytes],
    marker: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that the attacks above are attacks: when torch closes one of these ways, its check here may go."""
    monkeypatch.syspath_prepend(str(tmp_path))
    path = edited(members, tmp_path / "m.pt2", lambda program: plant(program, marker))
    torch_opens(path)
    assert marker.exists()


TARGETS = [
    "torch.os.system",
    "torch.ops.load_library",
    "torch.ops.aten.save.default",
    "torch.ops.aten.from_file.default",
    "torch.ops.debugprims.load_tensor.default",
    "torch.ops.prim.rpc_sync.default",
    "torch.ops.higher_order.inductor_compiled_code",
    "torch.ops.higher_order.aoti_call_delegate",
    "torch.ops.aten.__class__.default",
    "torch.export.custom_ops._call_custom_autograd_function_in_pre_dispatch",
    "torch.hub.load",
    "torch.load",
    "_operator.methodcaller",
    "math.os",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("as_argument", [False, True])
def test_a_target_is_an_operator(target: str, as_argument: bool, members: dict[str, bytes], tmp_path: Path) -> None:
    def plant(program: dict[str, Any]) -> None:
        node = program["graph_module"]["graph"]["nodes"][0]
        if as_argument:
            node["target"] = "torch.ops.higher_order.wrap"
            node["inputs"].insert(0, {"name": "", "kind": 1, "arg": {"as_operator": target}})
        else:
            node["target"] = target

    with pytest.raises(UntrustedFileError, match="no operator that a file may call"):
        load(edited(members, tmp_path / "m.pt2", plant))
