"""fold_constants: what constants alone compute becomes one, bit for bit; never a random, quantized or huge result."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators of quantized graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, weight_norm

from lowerscope.lowering import Lowerer, lower
from lowerscope.measure.parity import parity
from lowerscope.patterns import fold_constants
from lowerscope.recipe import Recipe, Skip
from lowerscope.target import TARGETS, pipeline
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import case, program_of, run_case
from tests.engine.patterns.vulkan_nets import assert_agrees, ops_of

PATTERN = "fold_constants"
quantized = torch.ops.quantized_decomposed


class Net(nn.Module):
    """`f(x, net)`, with tensors of the net's own: a parameter `w`, a buffer `b`, a plain tensor `c`, and a `state`."""

    def __init__(self, f):
        super().__init__()
        torch.manual_seed(2)
        self.f = f
        self.w = nn.Parameter(torch.randn(4, 3))
        self.register_buffer("b", torch.randn(3))
        self.register_buffer("state", torch.zeros(3))
        self.register_buffer("stored", torch.ones(3, dtype=torch.int8))
        self.c = torch.randn(3)

    def forward(self, x):
        return self.f(x, self)


def net(f):
    return lambda: (Net(f), (torch.randn(2, 3),))


def counting(x, s):
    s.state.add_(1)
    return x * (s.state * 2)


def dequantized(x, s):
    return x + quantized.dequantize_per_tensor(s.stored, 0.5, 0, -128, 127, torch.int8)


def normalising(x, s):
    """A batch norm that trains, and writes into the copies of the statistics that it is given."""
    return torch.ops.aten.native_batch_norm(x, None, None, s.b.clone(), s.b.exp(), True, 0.1, 1e-5)[0]


KEPT = Recipe("vulkan", keep=frozenset({"aten.native_batch_norm"}))
folded = net(lambda x, s: x + s.b * 2)
CONDITION_CASES = [
    case("constant_inputs", passes=folded, fails=net(counting), fault="b_state", anchor="add"),
    case("pure", passes=folded, fails=net(lambda x, s: x + s.b.sigmoid().multinomial(3)), fault="multinomial"),
    case("not_written", passes=folded, fails=net(normalising), fault="native_batch_norm", recipe=lambda r: KEPT),
    case("not_quantized", passes=folded, fails=net(dequantized), fault="dequantize_per_tensor"),
    case("one_tensor", passes=folded, fails=net(lambda x, s: x * s.b.sum().item()), fault="local_scalar_dense"),
    case(
        "not_huge",
        passes=folded,
        fails=net(lambda x, s: x + s.b.repeat(2**23, 1)[:2] * 0),
        fault="repeat",
    ),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "vulkan")


def steps_of(lowering):
    return [s for s in lowering.steps if s.pattern == PATTERN]


@pytest.mark.parametrize(
    ("f", "kind"),
    [
        (lambda x, s: x @ (s.w * 2).t(), "parameter"),
        (lambda x, s: x + s.b.exp().flip(0), "buffer"),
        (lambda x, s: x + s.c.cumsum(0), "constant"),
        (lambda x, s: x + (s.b + s.c).chunk(3)[1], "buffer"),
        (lambda x, s: x + (s.w.sum(0) + s.b), "parameter"),  # the kind of the largest that it is computed from
        (lambda x, s: x * (s.w.amax(1) > 0).any(), "parameter"),
        (lambda x, s: x + s.b.to(torch.float64).to(torch.float32), "buffer"),
    ],
)
def test_a_run_of_constant_calls_is_one_step_of_that_kind_and_exact(f, kind):
    program = program_of(net(f)())
    lowering = lower(program, "vulkan")
    (step,) = steps_of(lowering)
    (made,) = (n for n in lowering.program.constants if n.endswith("_folded"))
    assert lowering.program.constant_kind(made) == kind
    assert made.startswith({"parameter": "p_", "buffer": "b_", "constant": "c_"}[kind])
    assert not set(step.taken) & {n.name for n in lowering.program.graph.nodes}
    lowering.program.exported_program.validate()
    assert parity(program, lowering.program).verdict == "equal"


def test_the_tags_of_the_source_are_kept():
    program = program_of(net(lambda x, s: x @ (s.w * 2).t())())
    placeholder = next(n for n in program.graph.nodes if n.name == "p_w")
    placeholder.meta["delegate_constant_tag"] = "external"
    (made,) = (n for n in lower(program, "vulkan").program.graph.nodes if n.name == "p_w_folded")
    assert made.meta["delegate_constant_tag"] == "external"


def test_a_value_with_two_readers_is_folded_once():
    program = program_of(net(lambda x, s: (lambda k: (x + k, x * k, k))(s.b * 2 + 1))())
    lowering = lower(program, "vulkan")
    assert len(steps_of(lowering)) == 1
    assert ops_of(lowering) == ["aten.add.Tensor", "aten.mul.Tensor"]
    assert_agrees(program, lowering)


def test_an_intermediate_value_that_is_read_as_well_is_kept_as_a_constant_of_its_own():
    program = program_of(net(lambda x, s: (lambda k: (x + k, x * k.exp()))(s.b * 2))())
    lowering = lower(program, "vulkan")
    assert len(steps_of(lowering)) == 2
    assert {n for n in lowering.program.constants if "folded" in n} == {"b_b_folded", "b_b_folded_folded"}
    assert parity(program, lowering.program).verdict == "equal"


def test_the_source_stays_for_its_other_readers_and_goes_otherwise():
    both = lower(program_of(net(lambda x, s: (x + s.b * 2, s.b))()), "vulkan")
    assert {"b", "b_folded"} <= set(both.program.exported_program.graph_signature.buffers)
    alone = lower(program_of(folded()), "vulkan")
    assert "b" not in alone.program.exported_program.graph_signature.buffers


def test_what_stands_before_a_call_that_stays_is_folded_and_the_call_names_its_own_condition():
    for f, failed, stays in (
        (lambda x, s: x + (s.b * 2).sigmoid().multinomial(3), "pure", "aten.multinomial"),
        (lambda x, s: x + (s.b * 2).repeat(2**23, 1)[:2] * 0, "not_huge", "aten.repeat"),
    ):
        lowering = lower(program_of(net(f)()), "vulkan")
        assert len(steps_of(lowering)) == 1
        assert any(name.startswith(stays) for name in ops_of(lowering))
        assert [v.failed for v in lowering.verdicts_of(PATTERN) if v.failed] == [failed]


def test_a_random_call_without_inputs_is_no_constant():
    program = program_of(net(lambda x, s: x + torch.rand(3) * s.b)())
    lowering = lower(program, "vulkan")
    assert not steps_of(lowering)
    assert any(name.startswith("aten.rand") for name in ops_of(lowering))


def test_a_reshaped_large_weight_is_not_huge(monkeypatch):
    monkeypatch.setattr(fold_constants, "_LARGEST", 4)
    assert len(steps_of(lower(program_of(net(lambda x, s: x @ (s.w * 2).t())()), "vulkan"))) == 1
    widened = lower(program_of(net(lambda x, s: x[:, :1] + s.w.sum().expand(5))()), "vulkan")
    assert "not_huge" in [v.failed for v in widened.verdicts_of(PATTERN)]


def test_what_a_program_writes_to_is_no_constant():
    program = program_of(net(counting)())
    lowering = lower(program, "vulkan")
    assert not steps_of(lowering)
    assert_agrees(program, lowering)


def test_a_value_that_is_written_into_later_is_no_constant():
    program = program_of(net(normalising)())
    lowering = lower(program, KEPT)
    assert not steps_of(lowering)
    assert_agrees(program, lowering)


def test_a_sub_graph_is_folded_too():
    def region(x, s):
        with torch.no_grad():
            y = x + s.b * 2
        return y * 3

    program = program_of(net(region)())
    lowering = lower(program, "vulkan")
    assert len(steps_of(lowering)) == 1
    assert_agrees(program, lowering)


def test_disabled_it_says_what_it_would_take_and_a_skip_leaves_it():
    program = program_of(folded())
    disabled = lower(program, Recipe("vulkan").disable(PATTERN))
    (verdict,) = disabled.verdicts_of(PATTERN)
    assert (verdict.outcome, verdict.nodes) == (Outcome.DISABLED, ("mul",))
    skipped = lower(program, Recipe("vulkan").skip(Skip(node="mul")))
    assert not steps_of(skipped)


def test_toggling_computes_a_constant_once(monkeypatch):
    calls = []
    compute = fold_constants._compute
    monkeypatch.setattr(fold_constants, "_compute", lambda *a: calls.append(1) or compute(*a))
    lowerer = Lowerer(program_of(folded()))
    recipe = Recipe("vulkan")
    first = lowerer.lower(recipe).program
    lowerer.lower(recipe.disable(PATTERN))
    again = lowerer.lower(recipe).program
    assert calls == [1]
    assert list(first.constants) == list(again.constants)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("how", ["hook", "parametrization", "removed"])
@pytest.mark.parametrize("conv", [lambda: nn.Conv1d(4, 6, 3), lambda: nn.ConvTranspose1d(4, 6, 4, 2)])
def test_weight_norm(how, conv):
    def made():
        torch.manual_seed(1)
        return (parametrizations.weight_norm if how == "parametrization" else weight_norm)(conv())

    module = made()
    if how == "removed":
        nn.utils.remove_weight_norm(module)
    program = program_of((module, (torch.randn(1, 4, 9),)))
    lowering = lower(program, Recipe("xnnpack").disable("polyphase_conv_transpose"))
    assert len(steps_of(lowering)) == (how != "removed")
    assert ops_of(lowering) == ["aten.convolution"]
    lowering.program.exported_program.validate()
    assert parity(program, lowering.program).agrees


def test_a_statically_quantized_weight_stays_quantized():
    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.randint(-9, 9, (4, 3), dtype=torch.int8))
            self.register_buffer("scales", torch.rand(4) + 0.1)
            self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))

        def forward(self, x):
            weight = quantized.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
            return F.linear(x, weight)

    program = program_of((Linear(), (torch.randn(2, 3),)))
    for target in TARGETS:
        lowering = lower(program, target)
        assert not steps_of(lowering)
        assert any("int8" in str(v.dtype) for v in lowering.program.constants.values())
        outcomes = {str(v.outcome) for v in lowering.verdicts_of(PATTERN)}
        assert outcomes == {"nothing to fuse"}, "a weight that is to stay quantized is no near miss"


def test_its_place():
    for target in TARGETS:
        names = [p.name for p in pipeline(target)]
        assert names[:3] == ["core_aten", PATTERN, "fold_batch_norm"]


UNARY = [torch.exp, torch.neg, torch.sigmoid, lambda t: t.flip(-1), lambda t: t.sum(-1, keepdim=True), torch.clone]


@settings(max_examples=20)
@given(
    chain=st.lists(st.integers(0, len(UNARY) - 1), min_size=1, max_size=5),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.float64]),
    source=st.sampled_from(["w", "b", "c"]),
    shape=st.sampled_from([(2, 3), (4, 3)]),
)
def test_numbers_are_bit_for_bit(chain, dtype, source, shape):
    def f(x, s):
        value = getattr(s, source)
        for place in chain:
            value = UNARY[place](value)
        return x[:1] * value

    module = Net(f).to(dtype)
    module.c = module.c.to(dtype)
    program = program_of((module, (torch.randn(shape).to(dtype),)))
    lowering = lower(program, "vulkan")
    assert len(steps_of(lowering)) == 1
    assert parity(program, lowering.program, oracle=False).verdict == "equal"
