"""The cost model: arithmetic as torch counts it, memory by hand, and what a fusion saves."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import sample_models
from lowerscope.loading import load
from lowerscope.lowering import lower
from lowerscope.measure.batches import flatten
from lowerscope.measure.cost import FIGURES, cost, cost_table
from lowerscope.measure.counts import operators
from lowerscope.measure.interpreter import Interpreter
from lowerscope.ops import decomposition, is_own, vulkan  # noqa: F401, registers the reference operators
from lowerscope.program import Program, capture
from tests.engine.nets import Of


def _counted_by_torch(module: nn.Module, args: tuple) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*args)
    return counter.get_total_flops()


_IMAGE = (1, 8, 10, 12)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Conv2d(8, 6, 3, padding=1, stride=2), _IMAGE),
        (nn.Conv2d(8, 16, 3, groups=4), (3, *_IMAGE[1:])),
        (nn.Conv1d(8, 6, 5, dilation=2), (2, 8, 20)),
        (nn.Conv3d(8, 4, 2), (1, 8, 4, 5, 6)),
        (nn.ConvTranspose2d(8, 6, 4, stride=2), (2, *_IMAGE[1:])),
        (nn.ConvTranspose1d(8, 6, 4, stride=2), (1, 8, 9)),
        (nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 3)), (4, 7, 8)),
        (Of(lambda s, x: x @ x.transpose(-1, -2)), (2, 3, 5, 7)),
        (Of(lambda s, x: torch.addmm(x, x, x)), (6, 6)),
    ],
    ids=[
        "conv2d",
        "grouped",
        "conv1d",
        "conv3d",
        "transposed2d",
        "transposed1d",
        "linear",
        "matmul",
        "addmm",
    ],
)
def test_flops_are_those_of_torchs_own_counter(module, shape):
    args = (torch.randn(*shape),)
    expected = _counted_by_torch(module.eval(), args)
    program = capture(module, args)
    assert expected > 0
    assert cost(program).total("flops") == expected
    core = Program(program.exported_program.run_decompositions())
    assert cost(core).total("flops") == expected


def test_attention_costs_what_its_two_products_cost():
    spelled_out = Of(lambda s, x: torch.softmax(x @ x.transpose(-1, -2), -1) @ x)
    args = (torch.randn(2, 4, 9, 16),)
    expected = _counted_by_torch(spelled_out, args)
    program = capture(Of(lambda s, x: F.scaled_dot_product_attention(x, x, x)), args)
    assert cost(program).total("flops") == expected == 2 * (2 * 2 * 4 * 9 * 9 * 16)
    assert cost(Program(program.exported_program.run_decompositions())).total("flops") == expected


def test_a_small_network_agrees_with_torchs_counter_as_a_whole():
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=8),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 10),
    ).eval()
    args = (torch.randn(2, 3, 16, 16),)
    report = cost(capture(module, args))
    assert report.total("flops") == _counted_by_torch(module, args)
    assert not report.uncounted
    assert report.weight_bytes == 4 * sum(t.numel() for n, t in module.state_dict().items() if "num_batches" not in n)


def _of_a_run(program: Program, inputs: Program) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        Interpreter(program).run(flatten(inputs, *inputs.inputs()))
    return counter.get_total_flops()


MODELS = sorted(Path(sample_models.__file__).parent.glob("*.pt2"))


@pytest.mark.parametrize(("place", "path"), list(enumerate(MODELS)), ids=[path.stem for path in MODELS])
def test_every_sample_model_agrees_with_torchs_counter_before_and_after_lowering(place, path):
    before = load(path)
    report = cost(before)
    assert report.total("flops") == _of_a_run(before, before) > 0
    assert not report.uncounted
    assert not report.unsized
    after = lower(before, ("vulkan", "xnnpack")[place % 2]).program
    counted = cost(after).total("flops")
    # torch's counter does not see into the project's own operators: what they are in ATen is called in their place.
    for _, node in operators(after.graph_module):
        in_aten = decomposition(node.target) if is_own(node.target) else None
        if in_aten is not None:
            node.target = in_aten
    assert counted == _of_a_run(after, before) > 0


@pytest.mark.parametrize(
    ("module", "shapes", "op", "read", "written", "weights"),
    [
        (nn.Conv2d(3, 4, 3), [(2, 3, 8, 8)], "aten.conv2d", 2 * 3 * 8 * 8, 2 * 4 * 6 * 6, 4 * 3 * 3 * 3 + 4),
        (nn.Linear(8, 5), [(7, 8)], "aten.linear", 7 * 8, 7 * 5, 8 * 5 + 5),
        (Of(lambda s, x, y: torch.cat([x, y])), [(2, 3), (5, 3)], "aten.cat", (2 + 5) * 3, 7 * 3, 0),
    ],
    ids=["conv2d", "linear", "cat"],
)
def test_bytes_of_three_operators_by_hand(module, shapes, op, read, written, weights):
    program = capture(module, tuple(torch.randn(*shape) for shape in shapes))
    row = cost(program).frame().loc[op]
    assert (row["bytes_read"], row["bytes_written"], row["weight_bytes"]) == (4 * read, 4 * written, 4 * weights)


def test_bytes_by_hand():
    program = capture(
        Of(lambda s, x: torch.relu(x + s.w).reshape(6), w=nn.Parameter(torch.randn(2, 3))), (torch.randn(2, 3),)
    )
    frame = cost(program).frame()
    assert frame.loc["aten.add.Tensor"].to_dict() == {
        "dispatches": 1, "flops": 0, "bytes_read": 24, "bytes_written": 24, "weight_bytes": 24,
    }  # fmt: skip
    assert frame.loc["aten.reshape"].to_dict() == dict.fromkeys(FIGURES, 0), "a view moves nothing"
    assert frame.loc["total", "dispatches"] == 2
    assert frame.loc["total", "bytes_read"] == 48


def test_a_weight_that_two_operators_read_is_in_the_total_once():
    program = capture(Of(lambda s, x: (x @ s.w) @ s.w, w=nn.Parameter(torch.randn(4, 4))), (torch.randn(2, 4),))
    frame = cost(program).frame()
    assert frame.loc["aten.matmul", "weight_bytes"] == 2 * 64
    assert frame.loc["total", "weight_bytes"] == 64


def test_an_embedding_reads_its_rows_and_not_its_table():
    program = capture(nn.Embedding(1000, 4), (torch.tensor([1, 2, 3]),))
    frame = cost(program).frame()
    assert frame.loc["aten.embedding", "weight_bytes"] == 3 * 4 * 4
    assert frame.loc["total", "weight_bytes"] == 1000 * 4 * 4


def test_dynamic_sizes_are_those_of_the_example_or_as_asked():
    program = capture(nn.Linear(3, 5), (torch.randn(4, 3),), dynamic_shapes=({0: torch.export.Dim("b", min=2)},))
    symbol = next(iter(program.dynamic_sizes))
    assert cost(program).total("flops") == 2 * 4 * 3 * 5
    assert cost(program, {symbol: 10}).total("flops") == 2 * 10 * 3 * 5


def test_sizes_that_depend_on_the_data_are_named_and_not_guessed():
    program = capture(Of(lambda s, x: x.nonzero().sum()), (torch.tensor([0.0, 1.0]),))
    report = cost(program)
    assert "nonzero" in report.unsized


def test_sub_graphs_are_in_the_cost():
    def branches(s, x):
        return torch.cond(x.sum() > 0, lambda a: a @ a, lambda a: a + 1, (x,))

    assert cost(capture(Of(branches), (torch.randn(3, 3),))).total("flops") == 2 * 27


def test_a_fused_operator_saves_dispatches_and_traffic_and_no_arithmetic():
    def fused(s, x):
        return torch.ops.lowerscope_vulkan.conv_with_clamp(
            x, s.c.weight, s.c.bias, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, 0.0, 6.0
        )

    conv, args = nn.Conv2d(3, 4, 3), (torch.randn(1, 3, 8, 8),)
    before = capture(Of(lambda s, x: F.relu6(s.c(x)), c=conv), args)
    after = capture(Of(fused, c=conv), args)
    table = cost_table(before, after)
    total = table.loc["total"]
    assert total["flops_before"] == total["flops_after"] == 2 * 6 * 6 * 4 * 3 * 9
    assert (total["dispatches_before"], total["dispatches_after"]) == (2, 1)
    saved = total["bytes_read_before"] + total["bytes_written_before"]
    assert saved - total["bytes_read_after"] - total["bytes_written_after"] == 2 * 4 * 6 * 6 * 4
    assert table.loc["et_vk.conv_with_clamp", "flops_after"] == total["flops_after"]
    assert total["weight_bytes_before"] == total["weight_bytes_after"]
