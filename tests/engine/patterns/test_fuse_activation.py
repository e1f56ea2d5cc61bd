"""fuse_activation: its conditions, every operator and activation it joins, and ranges that compose exactly."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.lowering import lower
from lowerscope.recipe import Recipe, Skip
from lowerscope.verdict import Outcome
from tests.cases import CASES
from tests.engine.patterns.condition_cases import case, lowered, program_of, run_case
from tests.engine.patterns.vulkan_nets import assert_agrees, calls_of, image, net, ops_of, relu, verdict_of
from tests.engine.patterns.xnnpack_nets import WITHOUT_LAYOUT

PATTERN = "fuse_activation"
INF = math.inf
CLAMPS = {"aten.relu", "aten.clamp", "aten.hardtanh"}


class Function(nn.Module):
    """`compute(x, others..., net)` with the members as parameters."""

    def __init__(self, compute, **members):
        super().__init__()
        self.compute = compute
        for name, value in members.items():
            setattr(self, name, nn.Parameter(value) if isinstance(value, torch.Tensor) else value)

    def forward(self, *args):
        return self.compute(*args, self)


def of(compute, *args, **members):
    """A factory of (module, args) around a function."""

    def make():
        torch.manual_seed(3)
        return Function(compute, **members), args or (image(),)

    return make


def product_read_twice(x, s):
    product = torch.mm(x, s.w)
    return product.view(-1).relu(), product


sequence = torch.randn(2, 3, 4)
WEIGHT = torch.randn(4, 5)

CONDITION_CASES = [
    case(
        "dimensions",
        passes=relu,
        fails=net(lambda y, s: y.relu(), x=torch.randn(1, 4, 3, 3, 3), conv=lambda: nn.Conv3d(4, 4, 2)),
        fault="convolution",
    ),
    case(
        "view_one_user",
        passes=of(lambda x, s: s.linear(x).relu(), sequence, linear=nn.Linear(4, 5, bias=False)),
        fails=of(product_read_twice, torch.randn(2, 4), w=WEIGHT),
        fault="output",
    ),
    case("activation_follows", passes=relu, fails=net(lambda y, s: y.sigmoid()), fault="sigmoid"),
    case("one_user", passes=relu, fails=net(lambda y, s: (y.relu(), y)), fault="output"),
    case(
        "alpha_1",
        passes=of(lambda x, y, s: torch.add(x, y, alpha=1).relu(), image(), image()),
        fails=of(lambda x, y, s: torch.sub(input=x, other=y, alpha=3).relu(), image(), image()),
        fault="sub",
    ),
    case(
        "floating_point",
        passes=of(lambda x, s: (x + x).relu()),
        fails=of(lambda x, s: (x + x).relu(), torch.arange(4)),
        fault="add",
    ),
    case(
        "constant_weights",
        passes=relu,
        fails=net(lambda y, w, s: F.conv2d(y, w).relu(), torch.randn(4, 4, 1, 1)),
        fault="others_0",
        anchor="convolution_1",
    ),
    case(
        "bounds_literal",
        passes=relu,
        fails=net(lambda y, t, s: y.clamp(max=t.shape[0]), torch.ones(3), shapes=({}, ({0: Dim("t", min=2, max=9)},))),
        fault="sym_size_int_1",
    ),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "xnnpack")


def test_a_bound_that_is_no_number_is_refused():
    program = program_of(net(lambda y, s: y.clamp(min=math.nan))())
    lowering = lower(program, "xnnpack")
    assert verdict_of(lowering, PATTERN).failed == "bounds_literal"
    assert_agrees(program, lowering)


@pytest.mark.parametrize(
    ("then", "low", "high"),
    [
        (lambda y, s: y.relu(), 0.0, INF),
        (lambda y, s: F.relu(y, inplace=True), 0.0, INF),
        (lambda y, s: F.relu6(y), 0.0, 6.0),
        (lambda y, s: nn.ReLU6()(y), 0.0, 6.0),
        (lambda y, s: torch.ops.aten.hardtanh(y), -1.0, 1.0),
        (lambda y, s: F.hardtanh(y, min_val=-0.25, max_val=0.5), -0.25, 0.5),
        (lambda y, s: y.clamp(min=0.25), 0.25, INF),
        (lambda y, s: y.clamp(None, 0), -INF, 0.0),
        (lambda y, s: y.clamp(0.5, -0.5), 0.5, -0.5),
    ],
)
def test_spellings_of_an_activation(then, low, high):
    program = program_of(net(then)())
    lowering = lower(program, "xnnpack")
    (call,) = calls_of(lowering, "xnnpack.conv_with_range")
    assert (call["output_min"], call["output_max"]) == (low, high)
    assert ops_of(lowering).count("xnnpack.conv_with_range") == 1
    assert not CLAMPS & set(ops_of(lowering))
    assert_agrees(program, lowering)


OPERATORS = {
    "conv": of(lambda x, s: s.f(x).relu(), f=nn.Conv2d(4, 3, 3)),
    "conv without bias": of(lambda x, s: s.f(x).relu(), f=nn.Conv2d(4, 3, 3, bias=False)),
    "conv1d": of(lambda x, s: s.f(x).relu(), torch.randn(2, 4, 9), f=nn.Conv1d(4, 3, 3, padding="same")),
    "transposed": of(lambda x, s: s.f(x).relu(), f=nn.ConvTranspose2d(4, 4, 3, stride=2, groups=2)),
    "linear": of(lambda x, s: s.f(x).relu(), torch.randn(3, 4), f=nn.Linear(4, 5)),
    "linear without bias": of(lambda x, s: s.f(x).relu(), torch.randn(3, 4), f=nn.Linear(4, 5, bias=False)),
    "linear on a sequence": of(lambda x, s: s.f(x).relu(), sequence, f=nn.Linear(4, 5, bias=False)),
    "linear with bias on a sequence": of(lambda x, s: s.f(x).relu(), sequence, f=nn.Linear(4, 5)),
    "addmm": of(lambda x, s: torch.addmm(s.b, x, s.w).relu(), torch.randn(3, 4), w=WEIGHT, b=WEIGHT[0]),
    "add": of(lambda x, y, s: (x + y).relu(), image(), image()),
    "add in place": of(lambda x, y, s: (x.neg().add_(y)).relu(), image(), image()),
    "add a number": of(lambda x, s: (x + 0.5).relu()),
    "add.Scalar": of(lambda x, s: torch.ops.aten.add.Scalar(x, 0.5).relu()),
    "sub": of(lambda x, y, s: (x - y).relu(), image(), image()),
    "sub a number": of(lambda x, s: (x - 0.5).relu()),
    "mul": of(lambda x, y, s: (x * y).relu(), image(), torch.randn(6, 5)),
    "mul by a number": of(lambda x, s: (x * 1.4142).relu()),
    "mul.Scalar": of(lambda x, s: torch.ops.aten.mul.Scalar(x, -2).relu()),
}  # fmt: skip


@pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS)
def test_operators(make, tmp_path):
    program = program_of(make())
    lowering = lower(program, "xnnpack")
    assert [s.pattern for s in lowering.steps].count(PATTERN) == 1
    assert not CLAMPS & set(ops_of(lowering))
    assert_agrees(program, lowering)
    torch.export.save(lowering.program.exported_program, tmp_path / "lowered.pt2")
    again = torch.export.load(tmp_path / "lowered.pt2")
    inputs = make()[1]
    assert torch.equal(again.module()(*inputs), lowering.program.exported_program.module()(*inputs))


SCALED = {
    "add": (of(lambda x, y, s: torch.add(x, y, alpha=0.5).relu(), image(), image()), 0.5),
    "add.Scalar": (of(lambda x, s: torch.ops.aten.add.Scalar(x, 0.5, 2).relu()), 2),
    "sub in place": (of(lambda x, y, s: x.neg().sub_(y, alpha=-1).relu(), image(), image()), -1),
    "addmm": (of(lambda x, s: torch.addmm(s.b, x, s.w, beta=0.5).relu(), torch.randn(3, 4), w=WEIGHT, b=WEIGHT[0]), (1, 0.5)),
}  # fmt: skip


@pytest.mark.parametrize(("make", "factors"), SCALED.values(), ids=SCALED)
def test_a_scaled_sum_stays(make, factors):
    program = program_of(make())
    lowering = lower(program, "xnnpack")
    (refused,) = [v for v in lowering.verdicts_of(PATTERN) if v.failed == "alpha_1"]
    failure = refused.record.failure()
    assert failure is not None
    assert failure.actual == factors
    assert "aten.relu" in ops_of(lowering)
    assert_agrees(program, lowering)


def test_a_linear_that_is_kept_whole_is_taken_too():
    program = program_of(OPERATORS["linear"]())
    lowering = lower(program, Recipe("xnnpack", keep=frozenset({"aten.linear"})))
    assert ops_of(lowering) == ["xnnpack.linear_with_range"]
    assert_agrees(program, lowering)


def test_conv_relu_hardtanh_is_exact():
    """The range of the second activation does not overwrite that of the first: the difference would be 1.0."""
    program = program_of(net(lambda y, s: F.hardtanh(F.relu(y), -1, 1))())
    lowering = lower(program, WITHOUT_LAYOUT)
    (call,) = calls_of(lowering, "xnnpack.conv_with_range")
    assert (call["output_min"], call["output_max"]) == (0.0, 1.0)
    steps = [s for s in lowering.steps if s.pattern == PATTERN]
    assert [s.anchor for s in steps] == ["convolution", "conv_with_range"]
    assert steps[1].sentence == "A second activation narrows the range of xnnpack.conv_with_range to [0, 1]."
    x = image()
    got = lowering.program.exported_program.module()(x)
    assert torch.equal(got, program.exported_program.module()(x))
    overwritten = torch.ops.lowerscope_xnnpack.conv_with_range.default(
        x, *program.exported_program.state_dict.values(), [1, 1], [1, 1], [1, 1], False, [0, 0], 1, -1.0, 1.0
    )
    assert (overwritten - got).abs().max() > 0.5


def test_stacked_on_a_shared_first_activation_stays():
    program = program_of(net(lambda y, s: (lambda r: (F.hardtanh(r), r))(F.relu(y)))())
    lowering = lower(program, WITHOUT_LAYOUT)
    assert ops_of(lowering) == ["xnnpack.conv_with_range", "aten.hardtanh"]
    assert verdict_of(lowering, PATTERN, "conv_with_range").failed == "one_user"
    assert_agrees(program, lowering)


@pytest.mark.parametrize("name", ["a_clamp_none_bounds", "a_relu_open_bound_inf"])
def test_cases(name):
    module, args, _, _ = CASES[name][0]()
    program = program_of((module, args))
    lowering = lower(program, WITHOUT_LAYOUT)
    assert not CLAMPS & set(ops_of(lowering))
    assert torch.equal(lowering.program.exported_program.module()(*args), module(*args))


@pytest.mark.parametrize(
    "then",
    [lambda y, s: F.leaky_relu(y), lambda y, s: y.clamp(torch.zeros(1), None), lambda y, s: y.sigmoid().relu()],
    ids=["leaky_relu", "a tensor's bounds", "not next to it"],
)
def test_what_is_no_range_stays(then):
    program = program_of(net(then)())
    lowering = lower(program, "xnnpack")
    assert not calls_of(lowering, "xnnpack.conv_with_range")
    assert_agrees(program, lowering)


def test_it_comes_after_the_decompositions():
    program = program_of(of(lambda x, s: s.f(x).relu(), f=nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1))())
    lowering = lower(program, "xnnpack")
    applied = [s.pattern for s in lowering.steps]
    assert applied.index("polyphase_conv_transpose") == 1
    # the interleave now stands between the convolution and the relu
    assert PATTERN not in applied
    assert "aten.relu" in ops_of(lowering)
    kept = lowered(lambda: program, "xnnpack", lambda r: r.disable("polyphase_conv_transpose"))
    assert "xnnpack.conv_with_range" in ops_of(kept)
    assert "aten.relu" not in ops_of(kept)


def test_skipping_the_activation_says_so():
    lowering = lowered(relu, "xnnpack", lambda r: r.skip(Skip(node="relu")))
    verdict = verdict_of(lowering, PATTERN)
    assert (verdict.outcome, verdict.reason) == (Outcome.SKIPPED, "skipped by node relu")
    assert "aten.relu" in ops_of(lowering)


bound = st.one_of(st.none(), st.sampled_from([-0.5, -0.1, 0.0, 0.1, 0.5]))
RANGE = st.tuples(bound, bound).filter(lambda pair: pair != (None, None))


@settings(max_examples=40)
@given(ranges=st.lists(RANGE, min_size=1, max_size=3), dtype=st.sampled_from([torch.float32, torch.float16]))
def test_ranges_compose_exactly(ranges, dtype):
    def clamped(x, s):
        y = x * 1.0
        for low, high in ranges:
            y = y.clamp(low, high)
        return y

    x = torch.randn(64, dtype=dtype)
    program = program_of(of(clamped, x)())
    lowering = lower(program, "xnnpack")
    assert [s.pattern for s in lowering.steps].count(PATTERN) == len(ranges)
    assert ops_of(lowering) == ["xnnpack.mul_scalar_with_range"]
    assert torch.equal(lowering.program.exported_program.module()(x), clamped(x, None))
