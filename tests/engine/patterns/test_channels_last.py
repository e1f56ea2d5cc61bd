"""channels_last: its conditions, where it puts transposes and how many, and that numbers stay."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.arguments import shape_of
from lowerscope.lowering import Lowerer, Lowering, lower
from lowerscope.partitions import partition_summary, partitions
from lowerscope.program import capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.verdict import Outcome
from sample_models import depthwise_net, dsr, migan, resnet50_like
from tests.engine.patterns.condition_cases import case, lowered, program_of, run_case
from tests.engine.patterns.tosa_nets import net as quantized_net
from tests.engine.patterns.tosa_nets import real, tensors_of_conv, weight
from tests.engine.patterns.vulkan_nets import assert_agrees, image, net, ops_of, verdict_of

PATTERN = "channels_last"
TO_NHWC, TO_NCHW = "xnnpack.to_nhwc", "xnnpack.to_nchw"


def codes(*shape):
    return torch.randint(-100, 100, shape, dtype=torch.int8)


def dequantized(q):
    return torch.ops.quantized_decomposed.dequantize_per_tensor.default(q, 0.05, 3, -128, 127, torch.int8)


alone = net(lambda y, s: y)
plane = net(lambda y, n, s: y + n, torch.randn(6, 5))

CONDITION_CASES = [
    case("delegated", passes=alone, fails=net(lambda y, w, s: F.conv2d(y, w), torch.randn(4, 4, 1, 1)), fault="convolution_1"),
    case(
        "four_dimensions",
        passes=alone,
        fails=net(lambda y, s: y, x=torch.randn(1, 4, 9), conv=lambda: nn.Conv1d(4, 4, 3)),
        fault="x",
    ),
    case("nhwc_wanted", passes=net(lambda y, s: y.sigmoid()), fails=net(lambda y, t, s: (y, t.sigmoid()), image()), fault="sigmoid"),
    case(
        "single_element",
        passes=net(lambda y, t, s: y * t, torch.randn(1)),
        fails=net(lambda y, t, s: y * t, image(), x=image(1, 4, 1, 1), conv=lambda: nn.Conv2d(4, 1, 1)),
        fault="convolution",
    ),
    case(
        "lower_rank",
        passes=plane,
        fails=net(lambda y, t, s: y * t.shape[0], torch.ones(3), shapes=({}, ({0: Dim("t", min=2, max=9)},))),
        fault="sym_size_int_1",
    ),
    case(
        "quantization_kept",
        passes=net(lambda y, q, s: y + dequantized(q), codes(1, 4, 6, 5)),
        fails=net(lambda y, q, s: y + dequantized(q), codes(6, 5)),
        fault="dequantize_per_tensor",
    ),
    case("layouts_meet", passes=alone, fails=net(lambda y, s: s.again(y.sigmoid()), again=nn.Conv2d(4, 4, 1)), fault="sigmoid"),
]  # fmt: skip


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "xnnpack")


def transposes(lowering: Lowering) -> tuple[int, int]:
    """How many transposes (to NHWC, to NCHW) the lowered program has; each was made by a step of the pattern."""
    ops = ops_of(lowering)
    made = [lowering.ledger.records[id].target.name() for s in lowering.steps if s.pattern == PATTERN for id in s.made]
    assert made.count("lowerscope_xnnpack::to_nhwc") == ops.count(TO_NHWC)
    assert made.count("lowerscope_xnnpack::to_nchw") == ops.count(TO_NCHW)
    return ops.count(TO_NHWC), ops.count(TO_NCHW)


def counted(lowering: Lowering) -> dict[str, int]:
    """The summary of partitions, whose transposes are those of the graph."""
    found = partition_summary(lowering)
    assert found is not None
    assert found["transposes_after"] == sum(transposes(lowering))
    return found


# ---------------------------------------------------------------------- the two operands that do not decide
class Noisy(nn.Module):
    """`layers` convolutions, noise added behind each."""

    def __init__(self, layers, then=lambda x, n: x + n):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(layers))
        self.then = then

    def forward(self, x, noise):
        for conv in self.convs:
            x = self.then(conv(x), noise)
        return x


@pytest.mark.parametrize(
    ("noise", "before"), [(torch.randn(6, 5), 8), (torch.randn(1, 1, 6, 5), 3)], ids=["[H, W]", "[1, 1, H, W]"]
)
def test_a_runtime_noise_map(noise, before):
    """With four convolutions an [H, W] operand costs 8 transposes in ExecuTorch 1.5.1, and a [1, 1, H, W] one 3."""
    program = capture(Noisy(4).eval(), (image(), noise))
    lowering = lower(program, "xnnpack")
    assert counted(lowering) == {"before": 1, "after": 1, "transposes_before": before, "transposes_after": 3}
    assert transposes(lowering) == (2, 1)
    assert ops_of(lowering).count("aten.view") == (noise.dim() == 2)
    assert_agrees(program, lowering)


def test_a_noise_map_that_is_a_constant_is_reshaped_ahead_of_time():
    program = program_of(net(lambda y, s: y + s.noise, noise=torch.randn(6, 5))())
    lowering = lower(program, "xnnpack")
    assert transposes(lowering) == (1, 1)
    (made,) = [n for n in lowering.program.graph.nodes if n.name.endswith("_4d")]
    assert shape_of(made) == (1, 1, 6, 5)
    assert lowering.program.constant_kind(made.name) == "buffer"
    assert verdict_of(lowering, PATTERN, "add").outcome is Outcome.APPLIED
    assert_agrees(program, lowering)


@pytest.mark.parametrize("operation", [torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (1, 1, 1, 1)], ids=str)
def test_a_single_element_takes_no_part(operation, shape):
    program = program_of(net(lambda y, t, s: operation(y, t), torch.rand(shape) + 0.5)())
    lowering = lower(program, "xnnpack")
    assert transposes(lowering) == (1, 1)
    assert "aten.view" not in ops_of(lowering)
    assert verdict_of(lowering, PATTERN, operation.__name__).failed is None
    assert_agrees(program, lowering)


def test_a_gain_does_not_drag_the_activation_back():
    """`x * 1.4142` is lifted to a tensor without dimensions, which drags its operator to NCHW in ExecuTorch 1.5.1."""
    program = program_of(net(lambda y, s: s.again(y * 1.4142), again=nn.Conv2d(4, 4, 1))())
    assert counted(lower(program, "xnnpack")) == {
        "before": 1,
        "after": 1,
        "transposes_before": 4,
        "transposes_after": 2,
    }


def test_a_size_that_is_not_known_is_put_before_without_a_view():
    shapes = {"x": {2: Dim("h", min=3, max=9)}, "noise": {0: Dim("h", min=3, max=9)}}
    program = capture(Noisy(2).eval(), (image(), torch.randn(6, 5)), dynamic_shapes=shapes)
    lowering = lower(program, "xnnpack")
    assert ops_of(lowering).count("aten.unsqueeze") == 2
    assert transposes(lowering) == (2, 1)
    assert_agrees(program, lowering)


# ---------------------------------------------------------------------- where transposes stand
def test_what_reads_in_nchw_gets_one_transpose_for_all():
    def then(y, s):
        return y.permute(0, 2, 3, 1), y.flatten(1), y.sigmoid()

    program = program_of(net(then)())
    lowering = lower(program, "xnnpack")
    assert transposes(lowering) == (1, 2)
    step = next(s for s in lowering.steps if s.pattern == PATTERN)
    assert step.sentence == (
        "aten.convolution computes in NHWC: x is transposed to NHWC, its result back to NCHW for permute, view."
    )
    assert lowering.ledger.parents["to_nchw"] == ("convolution",)
    assert_agrees(program, lowering)


def test_a_value_is_transposed_once_for_all_that_read_it():
    program = program_of(
        net(lambda y, s: s.b(s.a(y)) + s.c(y), a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(4, 4, 1), c=nn.Conv2d(4, 4, 1))()
    )
    assert transposes(lower(program, "xnnpack")) == (1, 1)
    program = program_of(
        net(lambda y, t, s: (s.a(t), s.b(t), y), image(), a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(4, 4, 1))()
    )
    assert transposes(lower(program, "xnnpack")) == (2, 3)


def test_a_region_is_entered_and_left_in_nchw():
    """elu is not delegated: what it reads, and what it gives, is in NCHW."""
    program = program_of(net(lambda y, s: s.again(F.elu(y)) + y, again=nn.Conv2d(4, 4, 1))())
    lowering = lower(program, "xnnpack")
    counted(lowering)
    assert verdict_of(lowering, PATTERN, "convolution").outcome is Outcome.APPLIED
    assert_agrees(program, lowering)
    found = partitions(lowering, "after")
    assert found is not None
    assert list(found.outside) == ["elu"]
    assert [region.outputs for region in found.regions] == [("to_nchw",), ("to_nchw_1",)]


def test_an_input_that_is_in_nhwc_is_not_transposed():
    x = image().contiguous(memory_format=torch.channels_last)
    program = program_of(net(lambda y, s: y.sigmoid().permute(0, 2, 3, 1).reshape(-1, 4), x=x)())
    lowering = lower(program, "xnnpack")
    assert transposes(lowering) == (0, 0)
    assert_agrees(program, lowering)


def test_codes_are_transposed_and_not_what_they_stand_for():
    program = program_of(
        net(lambda y, q, s: s.again(dequantized(q)) + y, codes(1, 4, 6, 5), again=nn.Conv2d(4, 4, 1))()
    )
    lowering = lower(program, "xnnpack")
    found = [n.meta["val"].dtype for n in lowering.program.graph.nodes if "to_nhwc" in str(n.target)]
    assert sorted(map(str, found)) == ["torch.float32", "torch.int8"]
    assert_agrees(program, lowering)


@pytest.mark.parametrize("shape", [(3,), (3, 3), (4, 3, 3), (1, 1, 3, 3)], ids=str)
def test_a_dequantized_operand_of_lower_rank_keeps_its_rank(shape):
    """A view behind its dequantize node would carry no quantization parameters: the sum stays in NCHW, and says so."""

    def f(x, noise, s):
        y = real(real(torch.conv2d(real(x), weight(s), s.bias)) + real(noise))
        return real(torch.conv2d(y, weight(s), s.bias))

    make = quantized_net(f, torch.randn(1, 4, 3, 3), torch.randn(shape), **tensors_of_conv(4, 4, 1, 1))
    program = program_of(make())
    lowering = lower(program, "xnnpack")
    low = len(shape) < 4
    verdict = verdict_of(lowering, PATTERN, "add")
    assert (verdict.failed, verdict.fault) == (
        ("quantization_kept", "dequantize_per_tensor_2") if low else ("layouts_meet", "add")
    )
    assert "dequantized" in str(verdict.reason) or not low
    assert transposes(lowering) == ((2, 2) if low else (2, 1))
    assert not {"aten.view", "aten.unsqueeze"} & set(ops_of(lowering))
    (held,) = [n for n in lowering.program.graph.nodes if n.name == "dequantize_per_tensor_2"]
    assert shape_of(held) == shape
    assert_agrees(program, lowering)


def test_branches_have_layouts_of_their_own():
    def then(y, s):
        return torch.cond(y.sum() > 0, lambda v: s.a(v).sigmoid() + s.noise, lambda v: v.neg(), (y,))

    program = program_of(net(then, a=nn.Conv2d(4, 4, 1), noise=torch.randn(6, 5))())
    lowering = lower(program, "xnnpack")
    assert any(
        v.anchor.startswith("true_graph_0/") and v.outcome is Outcome.APPLIED for v in lowering.verdicts_of(PATTERN)
    )
    assert_agrees(program, lowering)


# ---------------------------------------------------------------------- skips and switches
@pytest.mark.parametrize("skip", ["node", "match", "op"])
def test_what_is_skipped_stays_in_nchw(skip):
    make = net(lambda y, s: s.again(y.sigmoid().neg()).flatten(1), again=nn.Conv2d(4, 4, 1))
    whole = lower(program_of(make()), "xnnpack")
    anchor = verdict_of(whole, PATTERN, "convolution_1")
    assert transposes(whole) == (1, 1)
    skips = {"node": Skip(node="sigmoid"), "op": Skip(op="aten.sigmoid"), "match": Skip(PATTERN, match=anchor.origins)}
    lowering = lowered(make, "xnnpack", lambda r: r.skip(skips[skip]))
    held = "convolution_1" if skip == "match" else "sigmoid"
    assert verdict_of(lowering, PATTERN, held).outcome is Outcome.SKIPPED
    assert transposes(lowering) == ((1, 1) if skip == "match" else (2, 2))
    assert_agrees(program_of(make()), lowering)


def test_switched_off_it_says_what_it_would_do():
    lowering = lowered(alone, "xnnpack", lambda r: r.disable(PATTERN))
    assert verdict_of(lowering, PATTERN).outcome is Outcome.DISABLED
    assert transposes(lowering) == (0, 0)
    assert (partition_summary(lowering) or {})["transposes_after"] == 2


def test_toggling_gives_the_same_again():
    lowerer = Lowerer(program_of(plane()))
    recipe = Recipe("xnnpack")
    first = lowerer.lower(recipe)
    lowerer.lower(recipe.disable("fuse_activation"))
    lowerer.lower(recipe.disable(PATTERN))
    again = lowerer.lower(recipe)
    assert [s.made for s in again.steps] == [s.made for s in first.steps]
    assert transposes(again) == transposes(first) == (2, 1)


# ---------------------------------------------------------------------- the stories
STORIES = [
    ("xnnpack", migan, {"before": 7, "after": 1, "transposes_before": 58, "transposes_after": 2}),
    ("xnnpack", dsr, {"before": 1, "after": 1, "transposes_before": 87, "transposes_after": 5}),
    ("qnn", migan, {"before": 1, "after": 1, "transposes_before": 52, "transposes_after": 2}),
    ("xnnpack", resnet50_like, {"before": 2, "after": 2, "transposes_before": 2, "transposes_after": 2}),
    ("xnnpack", depthwise_net, {"before": 13, "after": 13, "transposes_before": 26, "transposes_after": 26}),
]


@pytest.mark.parametrize(("target", "model", "summary"), STORIES, ids=[f"{t} {m.__name__}" for t, m, _ in STORIES])
def test_stories(target, model, summary):
    lowering = lower(capture(*model.build()), target)
    assert counted(lowering) == summary
    lowering.program.exported_program.validate()


def test_batch_norm_comes_before_it_on_qnn():
    """Behind a transpose the batch norm would not find its convolution."""
    program = program_of(net(lambda y, s: s.bn(y).sigmoid(), bn=nn.BatchNorm2d(4))())
    lowering = lower(program, "qnn")
    assert [s.pattern for s in lowering.steps if s.pattern != "core_aten"] == ["fold_batch_norm", PATTERN, PATTERN]
    assert ops_of(lowering) == [TO_NHWC, "aten.convolution", "aten.sigmoid", TO_NCHW]
    assert_agrees(program, lowering)


# ---------------------------------------------------------------------- any network
CHAIN = {
    "conv": lambda x, n, s: s.conv(x),
    "sigmoid": lambda x, n, s: x.sigmoid(),
    "gain": lambda x, n, s: x * 1.4142,
    "noise": lambda x, n, s: x + n,
    "relu": lambda x, n, s: x.relu(),
    "elu": lambda x, n, s: F.elu(x),
    "turned": lambda x, n, s: x.transpose(1, 2).reshape(x.shape),
    "pooled": lambda x, n, s: x * x.mean((2, 3), keepdim=True),
    "again": lambda x, n, s: x + x.neg(),
    "cat": lambda x, n, s: torch.cat([x, x + 1], 1)[:, 2:6],
    "padded": lambda x, n, s: F.pad(x, (1, 0, 0, 1))[..., :6, 1:],
    "rows": lambda x, n, s: x.softmax(-1),
    "highest": lambda x, n, s: x - x.amax(3, keepdim=True),
    "linear": lambda x, n, s: s.linear(x),
}


class Chain(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.names = names
        self.conv, self.linear = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(5, 5)

    def forward(self, x, noise):
        kept = x
        for i, name in enumerate(self.names):
            x = CHAIN[name](x, noise, self)
            if i % 3 == 2:
                x, kept = x + kept, x
        return x, kept


@settings(max_examples=30)
@given(
    names=st.lists(st.sampled_from(list(CHAIN)), min_size=1, max_size=7),
    target=st.sampled_from(["xnnpack", "qnn"]),
    shape=st.sampled_from([(6, 5), (1, 6, 5), (4, 6, 5), (1, 4, 6, 5)]),
    dtype=st.sampled_from([torch.float32, torch.float16]),
    nhwc=st.booleans(),
)
def test_any_chain_computes_the_same(names, target, shape, dtype, nhwc):
    torch.manual_seed(1)
    x = image().to(dtype)
    if nhwc:
        x = x.contiguous(memory_format=torch.channels_last)
    program = capture(Chain(["conv", *names]).to(dtype).eval(), (x, torch.randn(shape).to(dtype)))
    lowering = lower(program, target)
    assert not any(v.outcome is Outcome.ERROR for v in lowering.verdicts_of(PATTERN))
    to_nhwc, to_nchw = transposes(lowering)
    assert nhwc or to_nhwc + to_nchw > 0
    off = lower(program, Recipe(target).disable(PATTERN))
    assert (partition_summary(lowering) or {})["after"] == (partition_summary(off) or {})["after"]
    assert_agrees(program, lowering)
