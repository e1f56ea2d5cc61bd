"""Program, capture and the inputs made for a program that has none."""

from __future__ import annotations

import copy
import enum
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lowerscope.errors import (
    CaptureError,
    LoadError,
    LowerscopeError,
    MeasureError,
    RecipeError,
    UnknownNameError,
    unknown,
)
from lowerscope.program import Program, as_program, capture


class Model(nn.Module):
    """A parameter, a buffer that is written, one outside the state dict, a constant; nested inputs, a None, a flag."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("shift", torch.ones(4), persistent=False)

    def forward(
        self, ids: torch.Tensor, given: dict[str, Any], mask: torch.Tensor | None = None, *, flag: bool = False
    ) -> dict[str, torch.Tensor]:
        self.get_buffer("count").add_(1)
        out = self.table(ids) * given["scale"]["a"] + self.shift + torch.tensor(2.0)
        return {"out": out if flag else -out}


def example() -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.tensor([1, 6, 2]), {"scale": {"a": torch.rand(4)}}, None), {"flag": True}


@pytest.fixture
def program() -> Program:
    args, kwargs = example()
    n = torch.export.Dim("n", min=2, max=9)
    shapes = {"ids": {0: n}, "given": {"scale": {"a": None}}, "mask": None, "flag": None}
    return capture(Model(), args, kwargs, shapes)


def without_examples(program: Program) -> Program:
    exported = copy.copy(program.exported_program)
    exported.example_inputs = None
    return Program(exported)


def test_constants_by_placeholder_and_kind(program: Program) -> None:
    assert {name: program.constant_kind(name) for name in program.constants} == {
        "p_table_weight": "parameter",
        "b_count": "buffer",
        "b_shift": "buffer",
        "c_lifted_tensor_0": "constant",
    }
    assert program.constants["p_table_weight"].shape == (7, 4)
    assert float(program.constants["c_lifted_tensor_0"]) == 2.0
    with pytest.raises(UnknownNameError, match=r"no constant named 'p_table'.*'p_table_weight'"):
        program.constant_kind("p_table")


def test_weights_are_shared() -> None:
    module = Model()
    args, kwargs = example()
    program = capture(module, args, kwargs)
    assert program.constants["p_table_weight"].data_ptr() == module.table.weight.data_ptr()
    assert Program(program).exported_program is program.exported_program
    assert Program(program.exported_program).constants["b_count"] is program.constants["b_count"]


def test_making_a_program_leaves_the_graph_alone(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("recompiled or validated")

    monkeypatch.setattr(torch.fx.GraphModule, "recompile", never)
    monkeypatch.setattr(torch.export.ExportedProgram, "validate", never)
    before = str(program.graph)
    made = Program(program.exported_program)
    assert made.constants
    assert made.mutated
    assert made.fingerprint()
    assert str(made.graph) == before


def test_mutated_before_and_after_decompositions(program: Program) -> None:
    assert program.mutated == {"b_count"}
    assert Program(program.exported_program.run_decompositions()).mutated == {"b_count"}


def test_an_input_written_through_a_view_is_mutated() -> None:
    class Writes(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.view(-1)[1:].mul_(2)
            return x + y

    written = capture(Writes(), (torch.randn(2, 2), torch.randn(2, 2)))
    assert written.mutated == {"x"}
    assert Program(written.exported_program.run_decompositions()).mutated == {"x"}


def test_names(program: Program) -> None:
    assert program.name == "Model"
    assert Program(program, name="mine").name == "mine"
    assert Program(program, path="a/b/net.pt2").name == "Model"
    assert Program(program.exported_program, path="a/b/net.pt2").name == "net"
    assert repr(program) == "<Program 'Model': 7 operators, 4 constants, 4 inputs>"


def test_example_inputs_come_first(program: Program) -> None:
    args, kwargs = program.inputs()
    assert args[0].tolist() == [1, 6, 2]
    assert kwargs == {"flag": True}
    given = ((torch.tensor([0, 0]), {"scale": {"a": torch.zeros(4)}}, None), {"flag": True})
    assert Program(program, example_inputs=given).inputs()[0][0].tolist() == [0, 0]
    with pytest.raises(LowerscopeError, match=r"pair \(args, kwargs\)"):
        Program(program, example_inputs=torch.ones(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lively_inputs_have_the_structure_and_the_range(program: Program, seed: int) -> None:
    bare = without_examples(program)
    assert bare.example_inputs is None
    args, kwargs = bare.inputs(seed)
    assert list(args[1]["scale"]) == ["a"]
    assert args[2] is None
    assert kwargs == {"flag": True}
    assert args[0].dtype == torch.int64
    assert args[0].shape == (3,)
    assert 0 <= int(args[0].min()) <= int(args[0].max()) < 7
    out = bare.exported_program.module()(*args, **kwargs)["out"]
    assert out.shape == (3, 4)
    assert out.isfinite().all()
    again, _ = bare.inputs(seed)
    assert torch.equal(again[0], args[0])


def test_another_seed_gives_other_inputs_in_the_range_of_the_examples(program: Program) -> None:
    args, kwargs = program.inputs(seed=3)
    assert kwargs == {"flag": True}
    assert not torch.equal(args[1]["scale"]["a"], program.inputs()[0][1]["scale"]["a"])
    assert float(args[1]["scale"]["a"].min()) >= 0
    assert 1 <= int(args[0].min()) <= int(args[0].max()) <= 6


def test_sizes(program: Program) -> None:
    ((symbol, limits),) = program.dynamic_sizes.items()
    assert limits == (2, 9)
    for key in (symbol, "ids[0]"):
        args, kwargs = program.inputs(sizes={key: 5})
        assert args[0].shape == (5,)
        assert program.exported_program.module()(*args, **kwargs)["out"].shape == (5, 4)
    with pytest.raises(UnknownNameError, match=r"no dynamic size named 'id\[0\]'.*'ids\[0\]'"):
        program.inputs(sizes={"id[0]": 5})
    with pytest.raises(MeasureError, match="from 2 to 9"):
        program.inputs(sizes={symbol: 10})


def test_derived_sizes_follow() -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.reshape(-1, 2).sum(1) + y

    n = torch.export.Dim("n", min=1, max=20)
    program = capture(Halves(), (torch.randn(8), torch.randn(4)), dynamic_shapes=({0: 2 * n}, {0: n}))
    (x, y), _ = program.inputs(sizes={"y[0]": 7})
    assert (x.shape, y.shape) == ((14,), (7,))
    assert program.exported_program.module()(x, y).shape == (7,)


class Indexes(nn.Module):
    """Integers that index in every way, some of them computed with first."""

    def forward(
        self,
        rows: torch.Tensor,
        columns: torch.Tensor,
        chosen: torch.Tensor,
        labels: torch.Tensor,
        attention_mask: torch.Tensor,
        keep: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        table = torch.arange(20.0).reshape(5, 4)
        picked = table[rows.view(-1)].gather(1, columns)
        logits = torch.log_softmax(table, 1)
        masked = torch.softmax(torch.where(attention_mask.bool(), 0.0, -torch.inf), -1)
        kept = torch.softmax(torch.where(keep, 0.0, -torch.inf), -1)
        return (
            picked,
            table.index_select(0, chosen),
            nn.functional.nll_loss(logits, labels),
            masked,
            kept,
        )


@pytest.mark.parametrize("seed", range(5))
def test_integers_stay_in_the_tables_they_index(seed: int) -> None:
    zeros = torch.zeros(2, 3, dtype=torch.int64)
    args = (
        zeros,
        torch.zeros(6, 2, dtype=torch.int32).long(),
        torch.zeros(3, dtype=torch.int64),
        torch.zeros(5, dtype=torch.int64),
        torch.ones(2, 3, dtype=torch.int64),
        torch.ones(2, 3, dtype=torch.bool),
    )
    program = without_examples(capture(Indexes(), args))
    inputs, _ = program.inputs(seed)
    outputs = program.exported_program.module()(*inputs)
    assert all(output.isfinite().all() for output in outputs)
    assert len(torch.unique(inputs[0])) > 1


def test_a_number_that_is_read_out_stays_in_its_asserted_range() -> None:
    class Takes(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            size = n.item()
            torch._check(size >= 2)
            torch._check(size <= 4)
            return x[:size]

    program = without_examples(capture(Takes(), (torch.randn(9), torch.tensor(3))))
    sizes = set()
    for seed in range(8):
        (x, n), _ = program.inputs(seed)
        sizes.add(len(program.exported_program.module()(x, n)))
    assert sizes <= {2, 3, 4}
    assert len(sizes) > 1


def test_lively_inputs_of_every_dtype() -> None:
    dtypes = (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.complex64, torch.bool)

    class Same(nn.Module):
        def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(value.clone() for value in values)

    program = without_examples(capture(Same(), tuple(torch.zeros(3, dtype=dtype) for dtype in dtypes)))
    args, _ = program.inputs(1)
    assert tuple(value.dtype for value in args) == dtypes


def test_fingerprint_tells_weights_and_literals_apart() -> None:
    linear = nn.Linear(3, 2)
    x = (torch.randn(1, 3),)
    first = capture(linear, x)
    assert capture(linear, x).fingerprint() == first.fingerprint()
    assert capture(copy.deepcopy(linear), x).fingerprint() == first.fingerprint()
    other = copy.deepcopy(linear)
    with torch.no_grad():
        other.bias[0] += 1e-6
    assert capture(other, x).fingerprint() != first.fingerprint()
    leaky = [capture(nn.LeakyReLU(slope), x).fingerprint() for slope in (0.1, 0.2)]
    assert leaky[0] != leaky[1]


def test_save_keeps_given_inputs_and_the_users_program(program: Program, tmp_path: Path) -> None:
    bare = without_examples(program)
    given = Program(bare, example_inputs=example())
    path = given.save(tmp_path / "m.pt2")
    assert bare.exported_program.example_inputs is None
    opened = as_program(path)
    assert opened.name == "m"
    assert opened.inputs()[0][0].tolist() == [1, 6, 2]
    assert [item.name for item in tmp_path.iterdir()] == ["m.pt2"]


def test_save_says_what_is_in_the_way(program: Program, tmp_path: Path) -> None:
    with pytest.raises(LowerscopeError, match=r"named '\*\.pt2'"):
        program.save(tmp_path / "m.pth")
    (tmp_path / "m.pt2").write_text("kept")
    packed = nn.Module()
    packed.register_buffer("w", torch.arange(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2))
    packed.forward = lambda x: x + packed.w.view(torch.uint8).float()  # type: ignore[method-assign]
    with pytest.raises(LowerscopeError, match=r"buffer 'w' is of dtype torch\.float4"):
        capture(packed, (torch.randn(4),)).save(tmp_path / "m.pt2")
    assert (tmp_path / "m.pt2").read_text() == "kept"


def doubled(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 2


def test_capture_leaves_the_module_as_it_was() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.drop = nn.Dropout().eval()
            self.last: torch.Tensor | None = None
            self.register_forward_hook(doubled)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            last = self.drop(self.norm(x))
            self.last = last
            return last

    module = Keeps().train()
    module.drop.eval()
    before = copy.deepcopy(module.state_dict())
    identities = {name: id(value) for name, value in module.named_parameters()}
    capture(module, (torch.randn(4, 3),))
    assert module.training
    assert module.norm.training
    assert not module.drop.training
    assert module.last is None
    assert len(module._forward_hooks) == 1
    assert identities == {name: id(value) for name, value in module.named_parameters()}
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such luck\nsecond line")


class Fixed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(4, 3)


X = torch.randn(4, 3)


@pytest.mark.parametrize(
    ("module", "args", "shapes", "said"),
    [
        (Branches(), (X,), None, r"^Branches cannot be exported: Could not guard on data-dependent.*torch\.cond"),
        (Raises(), (X,), None, r"ValueError: no such luck; run the module on these inputs first"),
        (nn.Linear(3, 2), (), None, r"missing a required argument: 'input'; give args as forward takes them"),
        (nn.Linear(7, 2), (X,), None, r"reduction dim, but got \[4, 3\] X \[7, 2\]; run the module"),
        (Fixed(), (X,), ({0: torch.export.Dim("b", min=2)},), r"Constraints violated \(b\).*constant \(4\).*Dim\.AUTO"),
        (nn.Identity(), (enum.Enum,), None, r"Unsupported input type.*register_dataclass"),
        (nn.Linear(3, 2), X, None, r"args is a Tensor: give the example inputs as a tuple"),
        (torch.relu, (X,), None, r"takes a torch\.nn\.Module, and this is a builtin_function_or_method"),
    ],
)
def test_capture_says_why_and_what_to_do(module: Any, args: Any, shapes: Any, said: str) -> None:
    with pytest.raises(CaptureError, match=said) as caught:
        capture(module, args, dynamic_shapes=shapes)
    assert "\n" not in str(caught.value)


def test_as_program(program: Program) -> None:
    assert as_program(program) is program
    assert as_program(program.exported_program).exported_program is program.exported_program
    with pytest.raises(LowerscopeError, match=r"Linear is a module.*lowerscope\.capture\(module, args\)"):
        as_program(nn.Linear(1, 1))
    with pytest.raises(LowerscopeError, match=r"int is not an exported program: give a Program"):
        as_program(3)
    with pytest.raises(LoadError, match=r"no file 'nowhere\.pt2'"):
        as_program("nowhere.pt2")


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ([], "there is no pattern named 'conv': there is none at all to choose from"),
        (["relu"], "there is no pattern named 'conv': use 'relu', the only one there is"),
        (["relu", "conv2d"], "there is no pattern named 'conv': use one of 'conv2d', 'relu'"),
        (
            ["a", "b", "c", "d", "e", "fold_conv", "covn"],
            "there is no pattern named 'conv': use one of the 7 there are, the closest being "
            "'fold_conv', 'covn', 'c', 'a', 'b'",
        ),
    ],
)
def test_unknown_names_the_closest_first(known: list[str], said: str) -> None:
    error = unknown("pattern", "conv", known)
    assert str(error) == said
    assert isinstance(error, KeyError)


def test_errors_are_also_what_python_code_expects() -> None:
    assert issubclass(RecipeError, ValueError)
    assert issubclass(UnknownNameError, (KeyError, LowerscopeError))


def test_what_was_raised_within_dynamo_is_what_the_error_says():
    class Branches(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda y: self.conv(y), lambda y: self.conv(y).sum(), (x,))

    with pytest.raises(CaptureError, match="Branches cannot be exported") as caught:
        capture(Branches(), (torch.randn(1, 3, 8, 8),))
    assert "fake tensor call" not in str(caught.value)
    assert "cond" in str(caught.value)
