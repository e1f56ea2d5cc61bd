"""parity(): wrong rewrites of whole programs are caught, right ones pass, and what cannot be compared is said to be so."""

from __future__ import annotations

import copy
import math
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lowerscope.errors import MeasureError
from lowerscope.lowering import lower
from lowerscope.measure.casting import Casting
from lowerscope.measure.interpreter import Cancelled, Interpreter
from lowerscope.measure.lively import default_statistics, lively
from lowerscope.measure.parity import parity
from lowerscope.program import Program, capture
from tests.engine.nets import Of


def _x(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _program(function, *args, dynamic_shapes: Any = None, train: bool = False, **members: Any) -> Program:
    module = Of(function, **members).train(train)
    return capture(module, args, dynamic_shapes=dynamic_shapes)


def _fingerprint(program: Program) -> dict[str, torch.Tensor]:
    exported = program.exported_program
    tensors = {**exported.state_dict, **exported.constants}
    return {name: value.clone() for name, value in tensors.items() if isinstance(value, torch.Tensor)}


def test_a_program_is_identical_to_itself():
    program = _program(lambda s, x: torch.relu(x) * 2, _x(3, 4))
    report = parity(program, program)
    assert (report.verdict, report.sentence) == ("equal", "Identical numbers.")
    assert report.reference_twice == "identical"
    row = report.frame().loc["out"]
    assert (row["verdict"], row["max_abs"], row["sqnr_db"], row["oracle_ratio"]) == ("equal", 0.0, math.inf, 1.0)


def test_a_reordered_sum_is_close_and_as_exact_as_the_original():
    x, w = _x(4, 257), _x(257, 8)
    before = _program(lambda s, x: x @ s.w, x, w=w)
    after = _program(lambda s, x: (x[:, :128] @ s.w[:128]) + (x[:, 128:] @ s.w[128:]), x, w=w)
    report = parity(before, after)
    assert (report.verdict, report.sentence) == ("close", "Same numbers.")
    row = report.frame().loc["out"]
    assert 0 < row["max_abs"] < 1e-4
    assert row["where"] is not None
    assert 0.2 < row["oracle_ratio"] < 5


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (lambda s, x, r: torch.add(x, r, alpha=0.25), lambda s, x, r: x + r),
        (lambda s, x, r: r - x, lambda s, x, r: x - r),
        (lambda s, x, r: F.hardtanh(x), lambda s, x, r: F.relu(x)),
        (lambda s, x, r: x, lambda s, x, r: 2 * x),
        (lambda s, x, r: (x * r).argmax(-1), lambda s, x, r: (x * r).argmax(-1) + 1),
        (lambda s, x, r: torch.cat([x, r]), lambda s, x, r: torch.cat([r, x])),
        (lambda s, x, r: torch.addmm(x, x, r, beta=0.5, alpha=2), lambda s, x, r: torch.addmm(x, x, r)),
        (lambda s, x, r: F.pad(x, (1, 1), value=0.5), lambda s, x, r: F.pad(x, (1, 1))),
        (lambda s, x, r: x.softmax(0), lambda s, x, r: x.softmax(1)),
        (lambda s, x, r: F.leaky_relu(x, 0.2), lambda s, x, r: F.leaky_relu(x)),
        (lambda s, x, r: x.clamp(-0.5, 0.5).clamp(0.6, 0.8), lambda s, x, r: x.clamp(0.6, 0.5)),
        (lambda s, x, r: x + r.mean(0, keepdim=True), lambda s, x, r: x + r.mean(1, keepdim=True)),
        (lambda s, x, r: F.layer_norm(x, (4,), eps=0.1), lambda s, x, r: F.layer_norm(x, (4,))),
        (lambda s, x, r: F.gelu(x), lambda s, x, r: F.gelu(x, approximate="tanh")),
        (lambda s, x, r: x[:, 1:], lambda s, x, r: x[:, :-1]),
        (lambda s, x, r: (x > 0) & (r > 0), lambda s, x, r: (x > 0) | (r > 0)),
    ],
    ids=[
        "alpha",
        "operands",
        "bound",
        "factor",
        "integers",
        "order",
        "beta",
        "pad value",
        "axis",
        "slope",
        "disjoint clamps",
        "broadcast axis",
        "eps",
        "approximation",
        "slice",
        "booleans",
    ],
)
def test_a_wrong_rewrite_is_different(right, wrong):
    x, r = _x(4, 4), _x(4, 4, seed=1)
    report = parity(_program(right, x, r), _program(wrong, x, r))
    assert report.verdict == "different"
    assert report.sentence.startswith("Different numbers in out: off by")


def test_nan_places_are_broken_whatever_the_tolerance():
    x = torch.tensor([-1.0, 2.0, -3.0, 4.0])
    report = parity(_program(lambda s, x: x.log(), x), _program(lambda s, x: x.abs().log(), x), tolerance=1e9)
    assert report.verdict == "different"
    assert report.sentence.startswith("Broken: NaN places differ in out: 2 of 4 before, 0 after")
    assert math.isnan(report.frame().loc["out", "max_abs"])


def test_shape_and_dtype_changes_are_broken():
    x = _x(2, 3)
    before = _program(lambda s, x: x + 1, x)
    dtype = parity(before, _program(lambda s, x: (x + 1).double(), x))
    assert dtype.verdict == "incomparable"
    assert dtype.sentence == "Broken: out has dtype float64, expected float32."
    shape = parity(before, _program(lambda s, x: (x + 1).reshape(3, 2), x))
    assert shape.sentence == "Broken: out has shape [3, 2], expected [2, 3]."


def test_nested_outputs_have_a_row_per_leaf():
    x = _x(3)
    before = _program(lambda s, x: {"b": x + 1, "a": (x * 2, [x - 1, None, 7])}, x)
    after = _program(lambda s, x: {"b": x + 1, "a": (x * 2, [x + 1, None, 8])}, x)
    frame = parity(before, after).frame()
    assert list(frame.index) == ["out['b']", "out['a'][0]", "out['a'][1][0]", "out['a'][1][1]", "out['a'][1][2]"]
    assert list(frame["verdict"]) == ["equal", "equal", "different", "equal", "different"]
    fewer = parity(before, _program(lambda s, x: {"b": x + 1}, x))
    assert fewer.verdict == "incomparable"
    assert "structure differs" in fewer.sentence


def test_cancellation_near_zero_is_judged_by_the_originals_own_error():
    x = torch.linspace(-1e-3, 1e-3, 101)
    before = _program(lambda s, x: (1000.0 + x) - 1000.0, x)
    report = parity(before, _program(lambda s, x: x * 1.0, x))
    assert report.verdict == "close"
    assert "float64" in report.rows[0].why
    assert report.frame().loc["out", "oracle_ratio"] < 0.01
    assert parity(before, _program(lambda s, x: x * 1.2, x)).verdict == "different"
    assert parity(before, _program(lambda s, x: x * 1.0, x), oracle=False).verdict == "different"


def test_a_random_model_is_said_to_disagree_with_itself():
    x = _x(4, 8)
    state = torch.get_rng_state()
    before = _program(lambda s, x: (F.dropout(x, 0.5, s.training), x + 1), x, train=True)
    report = parity(before, before)
    assert report.verdict == "nondeterministic"
    assert list(report.frame()["verdict"]) == ["nondeterministic", "equal"]
    assert report.reference_twice == "differs"
    assert "dropout" in report.sentence
    assert "draw the same numbers" in report.rows[0].why
    assert torch.equal(torch.get_rng_state(), state), "the user's random numbers are left alone"
    idle = _program(lambda s, x: F.dropout(x, 0.5, s.training), x)
    assert parity(idle, idle).verdict == "equal"


def test_mutated_buffers_are_compared_and_the_program_stays_bit_identical():
    def counting(s, x):
        s.n.add_(1)
        s.history[1:].copy_(x)
        return x * s.n

    def counting_twice(s, x):
        s.n.add_(2)
        s.history[1:].copy_(x)
        return x * (s.n - 1)

    members: dict[str, Any] = {"n": torch.zeros(()), "history": torch.zeros(5)}
    before, after = (_program(f, _x(4), **members) for f in (counting, counting_twice))
    kept = _fingerprint(before)
    report = parity(before, after)
    assert list(report.frame().index) == ["out", "state n", "state history"]
    assert list(report.frame()["verdict"]) == ["equal", "different", "equal"]
    assert report.rows[1].max_abs == 1.0
    for name, value in _fingerprint(before).items():
        assert torch.equal(value, kept[name]), name
    functional = Program(before.exported_program.run_decompositions(), name="functional")
    assert parity(before, functional).verdict == "equal"


def test_a_lost_state_update_is_different():
    def counting(s, x):
        s.n.add_(1)
        return x + 1

    before = _program(counting, _x(4), n=torch.zeros(()))
    report = parity(before, _program(lambda s, x: x + 1, _x(4), n=torch.zeros(())))
    assert report.verdict == "different"
    assert report.frame().loc["state n", "max_abs"] == 1.0


def test_a_written_input_is_copied_and_compared():
    def write(s, x):
        x.mul_(2)
        return x.sum()

    x = _x(4)
    kept = x.clone()
    before = _program(write, x)
    given = kept.clone()
    report = parity(before, Program(before.exported_program.run_decompositions()), given)
    assert report.verdict == "equal"
    assert torch.equal(given, kept)
    assert "state args_0" in report.frame().index


def test_an_alias_that_only_the_lowered_program_makes_is_reported():
    x = _x(4)
    before, after = _program(lambda s, x: x.clone(), x), _program(lambda s, x: x.view(4), x)
    report = parity(before, after)
    assert report.verdict == "equal"
    assert any("shares the memory of args_0" in note for note in report.notes)
    assert not parity(after, before).notes


def test_a_size_that_was_baked_in_shows_at_another_size():
    batch = torch.export.Dim("batch", min=2, max=64)
    before = _program(lambda s, x: x.mean(0) * x.shape[0], _x(4, 3), dynamic_shapes={"args": ({0: batch},)})
    after = _program(lambda s, x: x.mean(0) * 4, _x(4, 3), dynamic_shapes={"args": ({0: batch},)})
    assert parity(before, before).agrees
    report = parity(before, after)
    assert report.batches == ["seed 0", "seed 0, args_0[0] = 5"]
    assert report.verdict == "different"
    assert report.rows[0].batch == report.batches[1]
    assert parity(before, after, _x(4, 3)).verdict == "equal", "the example's own size hides it"


def test_several_seeds_are_several_batches_and_sqnr_is_of_all_together():
    program = _program(lambda s, x: x * 3, _x(4))
    after = _program(lambda s, x: x * 3.0000003, _x(4))
    report = parity(program, after, seeds=(0, 1, 2))
    assert len(report.batches) == 3
    assert report.rows[0].elements == 12


def test_inputs_in_every_usual_form():
    program = _program(lambda s, x, y: x @ y, _x(2, 3), _x(3, 2))
    x, y = _x(2, 3, seed=5), _x(3, 2, seed=6)
    loader = torch.utils.data.DataLoader(cast(Any, [(x[0], y[0], 7)] * 2), batch_size=2)
    assert len(parity(program, program, (x, y)).batches) == 1
    assert len(parity(program, program, ((x, y), {})).batches) == 1
    assert len(parity(program, program, [(x, y), (x, y)]).batches) == 2
    single = _program(lambda s, x: x + 1, _x(2, 3))
    assert len(parity(single, single, loader).batches) == 1, "labels that the program does not take are left out"
    assert len(parity(single, single, x).batches) == 1
    keywords = capture(nn.Linear(3, 2), (), {"input": _x(2, 3)})
    assert parity(keywords, keywords, {"input": x}).agrees


def test_a_dict_as_a_positional_input_and_a_loader_of_dicts():
    class Named(nn.Module):
        def forward(self, batch):
            return batch["x"] @ batch["y"]

    program = capture(Named(), ({"x": _x(2, 3), "y": _x(3, 2)},))
    wrong = capture(Of(lambda s, batch: batch["x"] @ batch["y"] + 1), ({"x": _x(2, 3), "y": _x(3, 2)},))
    given = {"x": _x(2, 3, seed=5), "y": _x(3, 2, seed=6)}
    for inputs in ((given,), ((given,), {}), [(given,)]):
        assert parity(program, program, inputs).agrees
        report = parity(program, wrong, inputs)
        assert report.rows[0].max_abs == pytest.approx(1.0), "the dict's tensors are run"
    rows: Any = [given] * 3
    loader = torch.utils.data.DataLoader(rows, batch_size=None)
    report = parity(program, program, ((batch,) for batch in loader))
    assert len(report.batches) == 3
    assert report.agrees


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (torch.zeros(3, 3), "has shape [3, 3] and the program takes [2, 3]"),
        (torch.zeros(2, 3, dtype=torch.float64), "dtype torch.float64"),
        ("x", "is a tensor, not str"),
        (5, "cannot be of type int"),
        ([], "holds no batch"),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs, message):
    program = _program(lambda s, x: x + 1, _x(2, 3))
    with pytest.raises(MeasureError) as caught:
        parity(program, program, inputs)
    assert message in str(caught.value)


def test_a_lowered_program_that_raises_is_broken_and_names_the_node():
    before = _program(lambda s, x: x.reshape(2, 6), _x(3, 4))
    after = _program(lambda s, x: x.reshape(2, 6), _x(3, 4))
    node = next(n for n in after.graph.nodes if n.op == "call_function")
    node.args = (node.args[0], [5, 6])
    report = parity(before, after)
    assert report.verdict == "incomparable"
    assert f"at node {node.name} raises" in report.sentence
    with pytest.raises(MeasureError, match="raises"):
        parity(after, before)


def test_default_batch_norm_statistics_hide_a_wrong_fold_until_they_are_lively():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)).eval()
    before = capture(module, (0.01 * _x(1, 4, 5, 5),))
    kept = _fingerprint(before)

    def drop_the_norm(program: Program) -> Program:
        """A wrong fold, which takes the batch norm away and leaves its convolution as it was."""
        exported = copy.deepcopy(program.exported_program)
        norm = next(n for n in exported.graph.nodes if "batch_norm" in str(n.target))
        conv = norm.args[0]
        norm.replace_all_uses_with(conv)
        exported.graph.erase_node(norm)
        exported.graph_signature.output_specs[0].arg.name = conv.name
        return Program(exported)

    blind = parity(before, drop_the_norm(before))
    assert blind.verdict == "close"
    assert "parity cannot see a wrong fold" in blind.notes[0]
    report = parity(before, drop_the_norm(before), relower=drop_the_norm)
    assert report.verdict == "different"
    assert "measured with lively ones" in report.notes[0]
    for name, value in _fingerprint(before).items():
        assert torch.equal(value, kept[name]), name
    assert not default_statistics(lively(before))
    assert lively(lively(before)).constants is not before.constants


def test_float16_is_measured_against_float32_before_and_after():
    torch.manual_seed(0)
    weight = torch.randn(8, 8) / 3
    scale = torch.full((8,), 100.0)
    before = _program(lambda s, x: (x @ s.w + 3) * s.k - 300, _x(32, 8), w=weight, k=scale)
    after = _program(lambda s, x: x @ (s.w * s.k), _x(32, 8), w=weight, k=scale)
    assert parity(before, after).agrees
    report = parity(before, after, dtype=torch.float16)
    row = report.frame().loc["out"]
    assert report.sentence == "Same numbers in float16."
    assert row["max_abs"] < row["max_abs_before"]
    assert row["sqnr_db"] > row["sqnr_db_before"] > 20
    assert row["oracle_ratio"] < 1
    assert parity(before, before, dtype=torch.bfloat16).agrees


def test_a_reference_that_overflows_in_float16_is_said_to():
    x = 300 + _x(2, 8).abs()
    before = _program(lambda s, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), x)
    after = _program(lambda s, x: F.rms_norm(x, (8,), eps=1e-6), x)
    report = parity(before, after, dtype=torch.float16)
    note = next(note for note in report.notes if "not finite" in note)
    assert "aten.pow" in note
    assert "node pow_1" in note
    assert report.agrees, "the lowered one keeps the float32 numbers"
    assert parity(after, before, dtype=torch.float16).verdict == "different"
    half = _program(lambda s, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), x.half())
    fixed = _program(lambda s, x: F.rms_norm(x.float(), (8,), eps=1e-6).half(), x.half())
    report = parity(half, fixed)
    assert report.verdict == "different"
    assert any("aten.pow" in note for note in report.notes)
    assert report.frame().loc["out", "oracle_ratio"] < 0.01, "and it is the lowered program that is right"


def test_the_float64_run_keeps_complex_values_complex():
    program = _program(lambda s, x: torch.fft.rfft(x).abs(), x := _x(2, 16))
    (found,) = Interpreter(program, casting=Casting.oracle()).run([x.double()]).outputs.values()
    assert found.dtype is torch.float64
    torch.testing.assert_close(found, torch.fft.rfft(x.double()).abs())


def test_sub_graphs_of_higher_order_operators_run_in_every_dtype():
    def branches(s, x):
        return torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))

    program = _program(branches, torch.ones(4))
    for dtype in (None, torch.float16):
        assert parity(program, program, [torch.ones(4), -torch.ones(4)], dtype=dtype).agrees
    wrong = _program(lambda s, x: torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a + 1, (x,)), torch.ones(4))
    report = parity(program, wrong, [torch.ones(4), -torch.ones(4)])
    assert (report.verdict, report.rows[0].batch) == ("different", "input 1")


def test_a_cancelled_measurement_stops_before_the_next_node():
    program = _program(lambda s, x: x + 1 + 2 + 3, _x(4))
    polled = []

    def cancelled() -> bool:
        polled.append(True)
        return len(polled) == 3

    with pytest.raises(Cancelled):
        parity(program, program, cancelled=cancelled)
    assert len(polled) == 3


def test_progress_counts_runs():
    before, after = _program(lambda s, x: x * 3, _x(4)), _program(lambda s, x: x * 3.000001, _x(4))
    seen = []
    parity(before, after, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][0] <= seen[-1][1]


def test_running_out_of_memory_names_the_node_and_the_way_out():
    before = _program(lambda s, x: x + torch.zeros(1), _x(4))
    after = _program(lambda s, x: x + torch.zeros(1), _x(4))
    zeros = next(n for n in after.graph.nodes if "zeros" in n.name)
    zeros.args = ([1 << 50],)
    report = parity(before, after)
    assert report.verdict == "incomparable"
    assert f"out of memory at node {zeros.name}" in report.sentence
    assert "smaller inputs" in report.sentence


def test_a_right_fold_agrees_on_lively_statistics():
    module = nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU()).eval()
    lowering = lower(capture(module, (_x(1, 4, 8, 8),)), "xnnpack")
    assert "fold_batch_norm" in {step.pattern for step in lowering.steps}
    report = parity(lowering.before, lowering.program, relower=lambda program: lower(program, "xnnpack").program)
    assert report.verdict == "close"
    assert any("measured with lively ones" in note for note in report.notes)


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(3), nn.InstanceNorm1d(3, track_running_stats=True)])
def test_running_statistics_that_no_schema_says_are_written_are_copied_and_compared(norm):
    before = capture(norm.train(), (3 + _x(8, 3, 5),))
    kept = _fingerprint(before)
    report = parity(before, Program(before.exported_program.run_decompositions()))
    assert report.agrees, report.sentence
    assert {"state running_mean", "state running_var"} <= {row.output for row in report.rows}
    for name, value in _fingerprint(before).items():
        assert torch.equal(value, kept[name]), name


def test_a_dtype_that_cannot_be_computed_in_is_an_error_that_names_those_that_can():
    before = _program(lambda s, x: x + 1, _x(2))
    with pytest.raises(MeasureError, match=r"cannot compute in torch\.int8: choose torch\.float64, float32"):
        parity(before, before, dtype=torch.int8)


def test_what_float16_serves_as_badly_before_as_after_is_no_fault_of_the_lowering():
    x = torch.linspace(-1e-3, 1e-3, 101)
    before = _program(lambda s, x: (1000.0 + x) - 1000.0, x)
    report = parity(before, before, dtype=torch.float16)
    assert report.agrees
    assert "so is the original" in report.rows[0].why
    assert report.sentence == "Same numbers in float16 as the original has, which are far from its float32 ones in out."
    assert report.frame().loc["out", "sqnr_db_before"] == 0.0
