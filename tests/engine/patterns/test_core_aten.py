"""core_aten: op for op what torch's own run_decompositions gives, as steps that can be seen and skipped."""

from __future__ import annotations

import operator
from collections import Counter

import pytest
import torch
from torch import nn
from torch.fx import GraphModule
from torch.nn import functional as F

from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.pattern import Kind
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.verdict import Outcome
from sample_models import conv_bn, upsampler
from tests.cases import CASES, INFO
from tests.engine.nets import Of, mixed
from tests.engine.patterns.condition_cases import case, run_case

PATTERN = "core_aten"
aten = torch.ops.aten


def swish():
    return Of(lambda s, x: F.hardswish(x)), (torch.randn(4),)


def keeping(recipe: Recipe) -> Recipe:
    return Recipe(recipe.target, keep=frozenset({"aten.hardswish"}))


def swish_and_relu6():
    return Of(lambda s, x: F.relu6(F.hardswish(x))), (torch.randn(4),)


CONDITION_CASES = [
    case("not_kept", passes=swish_and_relu6, fails=swish, fault="hardswish", recipe=keeping),
    case(
        "has_decomposition",
        passes=swish,
        fails=lambda: (Of(lambda s, x: x.tensor_split(torch.tensor([1, 2]))), (torch.randn(4),)),
        fault="sym_storage_offset_default",
    ),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "vulkan")


# ---------------------------------------------------------------------- torch's own decomposition
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
        self.table = nn.Embedding(11, 8)
        self.lstm_free = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Softmax(-1))

    def forward(self, tokens):
        return self.lstm_free(self.layer(self.table(tokens)))


class Many(nn.Module):
    """Activations, pools, reductions and shapes that decompose in many ways."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        y = F.silu(self.norm(x)) + F.elu(x, inplace=False)
        y = F.pixel_shuffle(F.avg_pool2d(F.mish(y), 2), 2) * F.softplus(x)
        a, b = y.chunk(2, dim=1)
        values, indices = torch.var_mean(a, dim=(2, 3))
        z = F.interpolate(b, scale_factor=2, mode="bilinear") + F.interpolate(b, scale_factor=2)
        return F.log_softmax(z, 1), values, indices, torch.einsum("nchw,ncwk->nhk", a, b), F.hardsigmoid(x).std()


def norm_free():
    return capture(Attention().eval(), (torch.randint(0, 11, (2, 5)),))


PROGRAMS = {
    "mixed": mixed,
    "attention": norm_free,
    "many": lambda: capture(Many().eval(), (torch.randn(1, 4, 6, 6),)),
    "conv_bn": lambda: capture(*conv_bn.build()),
    "upsampler": lambda: capture(*upsampler.build()),
    "in place": lambda: capture(
        nn.Sequential(nn.Linear(3, 3), nn.ReLU(True), nn.SiLU(True)).eval(), (torch.ones(2, 3),)
    ),
    "train": lambda: capture(nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)).train(), (torch.randn(2, 2, 3, 3),)),
}


def ops_of(program: Program) -> Counter:
    """The ops of all graphs, without getitems, what nobody reads, and the regions that torch dissolves."""
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, GraphModule)]
    nodes = [n for g in graphs for n in g.nodes if n.op == "call_function" and n.users]
    names = Counter(str(n.target) for n in nodes if n.target is not operator.getitem)
    del names["wrap_with_set_grad_enabled"]
    return names


def only_core_aten(program: Program) -> Program:
    recipe = Recipe("qnn")
    rest = [p.name for p in lower(program, recipe).patterns if p.name != PATTERN]
    return lower(program, recipe.disable(*rest)).program


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_gives_the_ops_that_torch_gives(name):
    program = PROGRAMS[name]()
    ours = only_core_aten(program)
    theirs = Program(program.exported_program.run_decompositions())
    assert ops_of(ours) == ops_of(theirs)
    ours.exported_program.validate()
    assert parity(program, ours, oracle=False).agrees


SHAPED = [
    n for n, i in INFO.items() if i["cls"] in "ab" and i["export"] == "ok" and n not in ("b_false_match_dropout",)
]


@pytest.mark.parametrize("name", SHAPED)
def test_it_gives_the_ops_that_torch_gives_on_reported_cases(name):
    module, args, kwargs, shapes = CASES[name][0]()
    program = capture(module, args, kwargs, shapes)
    theirs = Program(program.exported_program.run_decompositions())
    assert ops_of(only_core_aten(program)) == ops_of(theirs)


# ---------------------------------------------------------------------- as steps
def test_each_decomposition_is_a_step_with_names_and_a_sentence():
    lowering = lower(capture(*swish()), "qnn")
    (step,) = lowering.steps
    assert (step.pattern, step.anchor, step.taken) == (PATTERN, "hardswish", ("hardswish",))
    assert step.sentence.startswith("aten.hardswish becomes aten.add.Tensor, aten.clamp")
    assert lowering.patterns[0].kind is Kind.DECOMPOSITION


def test_a_kept_op_stays_whole_and_what_reads_it_still_decomposes():
    lowering = lower(capture(*swish_and_relu6()), Recipe("qnn", keep=frozenset({"aten.hardswish"})))
    assert [str(n.target) for n in lowering.program.graph.nodes if n.op == "call_function"] == [
        "aten.hardswish.default",
        "aten.hardtanh.default",
    ]


def test_an_op_with_several_outputs_is_taken_with_its_getitems():
    program = capture(Of(lambda s, x: torch.var_mean(F.layer_norm(x, (4,)), 1)), (torch.randn(3, 4),))
    lowering = lower(program, "qnn")
    assert not [v for v in lowering.verdicts_of(PATTERN) if v.outcome is Outcome.ERROR]
    assert parity(program, lowering.program, oracle=False).agrees


def test_in_place_becomes_functional_as_a_step_and_what_was_written_is_what_is_read():
    def function(s, x):
        y = x + 1
        z = y * 2
        y.relu_()
        return y + z

    program = capture(Of(function), (torch.randn(5),))
    lowering = lower(program, "qnn")
    assert [s.sentence for s in lowering.steps] == ["aten.relu_ becomes aten.relu, which writes nothing."]
    assert parity(program, lowering.program, oracle=False).agrees


def test_in_place_on_a_view_that_the_decomposition_has_made_is_functional_too():
    program = capture(nn.Sequential(nn.Linear(3, 3), nn.ReLU(True), nn.SiLU(True)).eval(), (torch.randn(3),))
    lowering = lower(program, "qnn")
    assert not [n for n in lowering.program.graph.nodes if str(n.target).endswith("_.default")]
    assert not lowering.notes
    assert parity(program, lowering.program, oracle=False).agrees


def test_in_place_on_a_view_that_others_read_is_seen_by_them():
    def function(s, x):
        y = x + 1
        y.view(6).relu_()
        return y

    program = capture(Of(function), (torch.randn(2, 3),))
    lowering = lower(program, "qnn")
    assert parity(program, lowering.program, oracle=False).agrees
    assert "aten.relu.default" in ops_of(lowering.program)


def test_a_factory_without_a_tensor_among_its_arguments_is_decomposed():
    program = capture(Of(lambda s, x: x + torch.zeros(4)), (torch.randn(4),))
    assert ops_of(only_core_aten(program)) == ops_of(Program(program.exported_program.run_decompositions()))


def test_the_sign_of_a_zero_among_the_literals_is_kept():
    program = capture(Of(lambda s, x: (F.threshold(x, 0.0, 0.0), F.threshold(x, 0.0, -0.0))), (torch.tensor([-1.0]),))
    one, other = lower(program, "qnn").program.exported_program.module()(torch.tensor([-1.0]))
    assert (str(one.item()), str(other.item())) == ("0.0", "-0.0")


def test_skipped_for_one_node_it_leaves_that_one():
    both = capture(Of(lambda s, x: F.hardswish(x) + F.hardswish(x * 2)), (torch.randn(5),))
    lowering = lower(both, Recipe("qnn").skip(Skip(pattern=PATTERN, node="hardswish")))
    left = [n.name for n in lowering.program.graph.nodes if "hardswish" in str(n.target)]
    assert left == ["hardswish"]
    assert parity(both, lowering.program, oracle=False).agrees


def test_numbers_that_are_known_only_when_it_runs_stay_apart():
    def function(s, x, left, right):
        return F.pad(x, [left.item(), right.item()])

    args = (torch.randn(2, 5), torch.tensor(1), torch.tensor(3))
    program = capture(Of(function), args)
    lowering = lower(program, "qnn")
    assert lowering.verdicts[PATTERN, "item"].outcome is Outcome.APPLIED
    (padded,) = lowering.program.graph.find_nodes(op="call_function", target=aten.constant_pad_nd.default)
    symbols = [str(node.meta["val"]) for node in padded.args[1]]
    assert len(set(symbols)) == 2
    assert symbols == [str(n.meta["val"]) for n in program.graph.nodes if n.target is aten.item.default]
    lowering.program.exported_program.validate()
    assert parity(program, lowering.program, oracle=False).agrees
    assert lowering.program.exported_program.module()(*args).shape == (2, 9)


def test_what_is_written_in_place_keeps_its_dtype():
    def function(s, x, y):
        z = x * 2
        z.add_(y)
        return z

    program = capture(Of(function), (torch.randn(2, 3).half(), torch.randn(2, 3)))
    lowering = lower(program, "qnn")
    (result,) = lowering.program.graph.output_node().all_input_nodes
    assert result.meta["val"].dtype is torch.float16
    assert "aten.add_.Tensor" not in ops_of(lowering.program)
    assert parity(program, lowering.program).verdict == "equal"
