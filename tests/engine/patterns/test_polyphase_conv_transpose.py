"""polyphase_conv_transpose: its conditions, the numbers over thousands of parameter sets, and the constants it makes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.nn import functional as F
from torch.nn.utils import parametrizations, weight_norm

from lowerscope.loading import load
from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.pattern import REGISTRY
from lowerscope.polyphase import Axis, phase_weight
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.target import pipeline
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import case, program_of, run_case
from tests.engine.patterns.vulkan_nets import assert_agrees, calls_of, net, ops_of, verdict_of
from tests.engine.patterns.xnnpack_nets import (
    WITHOUT_LAYOUT,
    applied,
    counts_of,
    lowered_exactly,
    many,
    transposed_left,
)

PATTERN = "polyphase_conv_transpose"
SAMPLES = Path(__file__).parents[3] / "sample_models"
DENSE_2D = lambda: nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1)  # noqa: E731
DEPTHWISE_2D = lambda: nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1, groups=4)  # noqa: E731
DEPTHWISE_1D = lambda: nn.ConvTranspose1d(4, 4, 4, stride=2, padding=1, groups=4)  # noqa: E731
DEPTH_TO_SPACE = "xnnpack.depth_to_space_2d"


def up(conv, *others, x=None, then=lambda y, s: y, shapes=None):
    return net(then, *others, x=torch.randn(2, 4, 5, 3) if x is None else x, conv=conv, shapes=shapes)


def computed(bias: bool):
    class Computed(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 3, 4, 4))

        def forward(self, x, w, b):
            return F.conv_transpose2d(x, self.w if bias else w, b if bias else None, stride=2)

    return lambda: (Computed(), (torch.randn(1, 4, 3, 3), torch.randn(4, 3, 4, 4), torch.randn(3)))


SYMBOLIC = ({0: Dim("n", min=1, max=8), 2: Dim("length", min=2, max=64)},)
CONDITION_CASES = [
    case("transposed", passes=up(DENSE_2D), fails=up(lambda: nn.Conv2d(4, 4, 3)), fault="convolution"),
    case(
        "one_or_two_dimensional",
        passes=up(DENSE_2D),
        fails=up(lambda: nn.ConvTranspose3d(4, 4, 2, stride=2), x=torch.randn(1, 4, 3, 3, 3)),
        fault="convolution",
    ),
    case("strided", passes=up(DENSE_2D), fails=up(lambda: nn.ConvTranspose2d(4, 3, 4)), fault="convolution"),
    case(
        "dilation_1",
        passes=up(DENSE_2D),
        fails=up(lambda: nn.ConvTranspose2d(4, 3, 4, stride=2, dilation=2)),
        fault="convolution",
    ),
    case(
        "dense_or_depthwise",
        passes=up(DEPTHWISE_2D),
        fails=up(lambda: nn.ConvTranspose2d(4, 4, 4, stride=2, groups=2)),
        fault="convolution",
    ),
    case("constant_weight", passes=up(DENSE_2D), fails=computed(bias=False), fault="w"),
    case("constant_bias", passes=up(DENSE_2D), fails=computed(bias=True), fault="b"),
    case(
        "sizes_known",
        passes=up(lambda: nn.ConvTranspose1d(4, 3, 4, stride=2), x=torch.randn(2, 4, 5)),
        fails=up(lambda: nn.ConvTranspose1d(4, 3, 4, stride=2), x=torch.randn(2, 4, 5), shapes=SYMBOLIC),
        fault="x",
    ),
    case(
        "kernel_multiple_of_stride",
        passes=up(DENSE_2D),
        fails=up(lambda: nn.ConvTranspose2d(4, 3, (4, 3), stride=2)),
        fault="convolution",
    ),
    case(
        "every_phase_has_taps",
        passes=up(DEPTHWISE_2D),
        fails=up(lambda: nn.ConvTranspose2d(4, 4, 2, stride=3, groups=4)),
        fault="convolution",
    ),
    case(
        "no_negative_pad",
        passes=up(DEPTHWISE_2D),
        fails=up(lambda: nn.ConvTranspose2d(4, 4, 3, stride=2, padding=2, groups=4)),
        fault="convolution",
    ),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "xnnpack")


# ------------------------------------------------------------------ the numbers, over parameters
def axis_of(stride, kernel, padding, output_padding, length):
    """The parameters of an axis, held to what gives at least one output."""
    output_padding = min(output_padding, stride - 1)
    most = ((length - 1) * stride + kernel + output_padding - 1) // 2
    return kernel, stride, min(padding, most), output_padding, length


SMALL = (st.integers(0, 5), st.integers(0, 3), st.integers(1, 4))
AXIS = st.builds(axis_of, st.integers(1, 4), st.integers(1, 8), *SMALL)
#: What a dense convolution is taken for: a kernel of whole strides, each padding, even p > K - s.
WHOLE_AXIS = st.builds(lambda s, t, *rest: axis_of(s, s * t, *rest), st.integers(1, 4), st.integers(1, 3), *SMALL)


def valid(axis):
    kernel, stride, padding, output_padding, length = axis
    return output_padding < stride and (length - 1) * stride - 2 * padding + kernel + output_padding > 0


def build(axes, groups, channels, bias):
    kernel, stride, padding, output_padding, lengths = (list(v) for v in zip(*axes, strict=True))
    cls: Any = nn.ConvTranspose1d if len(axes) == 1 else nn.ConvTranspose2d
    conv = cls(*channels, kernel, stride, padding, output_padding, groups=groups, bias=bias)
    return conv, torch.randn(2, channels[0], *lengths)


def phases_of(axis):
    """(taps, left pad) of each phase, worked out from the definition: which inputs an output reads."""
    kernel, stride, padding, _, _ = axis
    found = []
    for phase in range(stride):
        taps = [k for k in range(kernel) if (phase + padding - k) % stride == 0]
        # output s q + phase reads input q + (phase + padding - k) / s: the first tap reads furthest ahead
        left = -((phase + padding - max(taps)) // stride) if taps else 0
        found.append((len(taps), left))
    return found


def taken(axes, depthwise):
    """Whether the pattern takes a convolution of these axes, by the rules alone."""
    if all(stride == 1 for _, stride, *_ in axes):
        return False
    if depthwise:
        return all(taps > 0 and left >= 0 for axis in axes for taps, left in phases_of(axis))
    return all(kernel % stride == 0 for kernel, stride, *_ in axes)


def sweep(drawn, depthwise):
    torch.manual_seed(0)
    pairs, expected = [], 0
    for axes, bias in drawn:
        groups, channels = (3, (3, 3)) if depthwise else (1, (3, 2))
        pairs.append(build(axes, groups, channels, bias))
        expected += taken(axes, depthwise)
    program = many(*zip(*pairs, strict=True))
    lowering = lowered_exactly(program, Recipe("xnnpack").disable("depthwise_conv_transpose_as_mul"))
    assert applied(lowering, PATTERN) == expected
    assert transposed_left(lowering) == len(drawn) - expected


def sets(dims):
    """Parameter sets for one program, of both kinds of axes."""
    one = st.tuples(st.tuples(*[AXIS | WHOLE_AXIS] * dims), st.booleans())
    return st.lists(one, min_size=30, max_size=30)


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
@settings(max_examples=10)
@given(sets(1))
def test_numbers_1d(depthwise, drawn):
    sweep(drawn, depthwise)


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
@settings(max_examples=8)
@given(sets(2))
def test_numbers_2d(depthwise, drawn):
    sweep(drawn, depthwise)


def test_the_rules_by_their_formulas():
    for kernel in range(1, 9):
        for stride in range(1, 5):
            for padding in range(6):
                axis = Axis.of(kernel, stride, padding, 0)
                worked_out = [(p.taps, p.left) for p in axis.phases if p.taps > 0]
                assert worked_out == [pair for pair in phases_of((kernel, stride, padding, 0, 4)) if pair[0]]
                assert any(p.taps <= 0 for p in axis.phases) == (kernel < stride)
                every = all(p.taps > 0 and p.left >= 0 for p in axis.phases)
                assert every == (padding <= kernel - stride)
                assert all(p.right >= 0 for p in axis.phases) or not every
                for p in axis.phases:
                    assert (p.taps > 0 and p.left < 0) == (p.taps > 0 and p.phase + padding >= kernel)


def by_phases(x, weight, axes):
    """The depthwise form written out: each phase's correlation lands at its own outputs; None where a phase has none."""
    found = [Axis.of(*axis[:4]) for axis in axes]
    if any(p.taps <= 0 or p.left < 0 for axis in found for p in axis.phases):
        return None
    lengths = [(x.shape[2 + i] - 1) * s - 2 * p + k + op for i, (k, s, p, op, _) in enumerate(axes)]
    result = torch.zeros(*x.shape[:2], *lengths, dtype=x.dtype)
    for phases in itertools.product(*(axis.phases for axis in found)):
        kernel = phase_weight(weight, phases).reshape(-1, 1, *(p.taps for p in phases))
        padded = F.pad(x, [n for p in reversed(phases) for n in (p.left, p.right)])
        conv = F.conv1d if len(axes) == 1 else F.conv2d
        part = conv(padded, kernel, groups=x.shape[1])
        places = tuple(slice(p.phase, None, p.stride) for p in phases)
        target = result[(..., *places)]
        target.copy_(part[(..., *(slice(n) for n in target.shape[2:]))])
    return result


def test_the_arithmetic_over_every_small_axis_and_pairs_of_them():
    every = [a for a in itertools.product(range(1, 9), range(1, 5), range(6), range(4), (1, 2, 4)) if valid(a)]
    pairs = list(zip(every, reversed(every), strict=True))[::6]
    checked = 0
    for axes in [*((axis,) for axis in every), *pairs]:
        x, weight = (
            torch.randn(1, 2, *sizes, dtype=torch.float64) for sizes in ([a[4] for a in axes], [a[0] for a in axes])
        )
        weight = weight.transpose(0, 1).contiguous()
        found = by_phases(x, weight, axes)
        assert (found is not None) == all(t > 0 and left >= 0 for a in axes for t, left in phases_of(a))
        if found is not None:
            transpose = F.conv_transpose1d if len(axes) == 1 else F.conv_transpose2d
            _, stride, padding, out, _ = zip(*axes, strict=True)
            assert (found - transpose(x, weight, None, stride, padding, out, 2)).abs().max() < 1e-12
            checked += 1
    assert len(every) > 1000
    assert checked > 500


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("conv", [DENSE_2D, DEPTHWISE_2D, DEPTHWISE_1D])
def test_other_dtypes(conv, dtype):
    made = conv()
    x = torch.randn(1, 4, 5) if isinstance(made, nn.ConvTranspose1d) else torch.randn(1, 4, 5, 3)
    program = program_of((made.to(dtype), (x.to(dtype),)))
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 1
    assert parity(program, lowering.program).agrees
    assert next(iter(lowering.program.constants.values())).dtype == dtype


# ------------------------------------------------------------------ what it becomes
def test_dense_is_one_convolution_of_all_phases():
    program = program_of(up(DENSE_2D)())
    lowering = lower(program, WITHOUT_LAYOUT)
    assert counts_of(lowering) == {"aten.convolution": 1, DEPTH_TO_SPACE: 1, "aten.slice.Tensor": 2}
    (call,) = calls_of(lowering, "aten.convolution")
    assert tuple(call["weight"].meta["val"].shape) == (4 * 3, 4, 2, 2)
    assert (call["stride"], call["padding"], call["transposed"]) == ([1, 1], [1, 1], False)


def test_depthwise_is_one_depthwise_convolution_per_phase():
    program = program_of(up(DEPTHWISE_2D)())
    lowering = lower(program, "xnnpack")
    calls = calls_of(lowering, "aten.convolution")
    assert [tuple(c["weight"].meta["val"].shape) for c in calls] == [(4, 1, 2, 2)] * 4
    assert [c["groups"] for c in calls] == [4] * 4
    assert all(c["bias"].name == "p_conv_bias" for c in calls)


def test_equal_pads_are_the_convolutions_own_and_unequal_ones_are_shared():
    equal = program_of(up(lambda: nn.ConvTranspose1d(4, 4, 9, stride=3, padding=3, groups=4), x=torch.randn(1, 4, 7))())
    ops = counts_of(lower(equal, "xnnpack"))
    assert ops["aten.convolution"] == 3
    paddings = [tuple(c["padding"]) for c in calls_of(lower(equal, "xnnpack"), "aten.convolution")]
    assert paddings == [(0, 1)] * 3
    assert "aten.constant_pad_nd" not in ops
    unequal = program_of(up(DEPTHWISE_2D)())
    assert counts_of(lower(unequal, "xnnpack"))["aten.constant_pad_nd"] == 4


def test_sixteen_phases_in_1d_take_at_most_27_nodes():
    conv = nn.ConvTranspose1d(8, 8, 32, stride=16, padding=8, groups=8)
    program = program_of((conv, (torch.randn(1, 8, 6),)))
    lowering = lower(program, WITHOUT_LAYOUT)
    ops = counts_of(lowering)
    assert ops["aten.convolution"] == 16
    assert (ops["aten.unsqueeze"], ops["aten.squeeze.dims"], ops["aten.cat"]) == (1, 1, 1)
    assert sum(ops.values()) <= 27
    assert_agrees(program, lowering)


def test_the_interleave_is_block_major_and_not_pixel_shuffle():
    program = program_of(up(DENSE_2D)())
    lowered_program = lower(program, "xnnpack").program.exported_program
    graph = lowered_program.graph_module
    assert_close = torch.testing.assert_close
    args, _ = program.inputs()
    right = program.exported_program.module()(*args)

    class Shuffled(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target is torch.ops.lowerscope_xnnpack.depth_to_space_2d.default:
                return F.pixel_shuffle(*args)
            return super().call_function(target, args, kwargs)

    inputs = [*lowered_program.state_dict.values(), *args]
    assert_close(torch.fx.Interpreter(graph).run(*inputs)[0], right)
    assert (Shuffled(graph).run(*inputs)[0] - right).abs().max() > 0.1


@pytest.mark.parametrize("stride", [(2, 3), (1, 2), (3, 1)])
def test_strides_that_differ_per_axis_are_interleaved_by_views(stride):
    conv = nn.ConvTranspose2d(4, 3, tuple(2 * s for s in stride), stride=stride)
    program = program_of(up(lambda: conv)())
    lowering = lower(program, "xnnpack")
    assert DEPTH_TO_SPACE not in ops_of(lowering)
    assert applied(lowering, PATTERN) == 1
    assert_agrees(program, lowering)


def test_output_padding_beyond_the_padding_keeps_the_bias():
    conv = nn.ConvTranspose2d(4, 3, 3, stride=3, output_padding=2)
    nn.init.constant_(conv.get_parameter("bias"), 7.0)
    program = program_of(up(lambda: conv)())
    lowering = lower(program, "xnnpack")
    args, _ = program.inputs()
    result = lowering.program.exported_program.module()(*args)
    assert torch.allclose(result[..., -2:], torch.full_like(result[..., -2:], 7.0))
    assert_agrees(program, lowering)


@pytest.mark.parametrize(
    ("conv", "x", "dims"),
    [
        (DENSE_2D, torch.randn(2, 4, 5, 3), {0: "n", 2: "h", 3: "w"}),
        (DEPTHWISE_2D, torch.randn(2, 4, 5, 3), {0: "n", 2: "h", 3: "w"}),
        (DEPTHWISE_1D, torch.randn(2, 4, 5), {2: "l"}),
        (lambda: nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1), torch.randn(2, 4, 5), {0: "n"}),
    ],
)
def test_symbolic_sizes(conv, x, dims):
    shapes = ({axis: Dim(name, min=2, max=40) for axis, name in dims.items()},)
    program = capture(conv().eval(), (x,), None, shapes)
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 1
    lowering.program.exported_program.validate()
    for size in (3, 8):
        other = torch.randn([size if axis in dims else n for axis, n in enumerate(x.shape)])
        assert parity(program, lowering.program, inputs=(other,), oracle=False).agrees


# ------------------------------------------------------------------ constants
class SharedWeight(nn.Module):
    """Three depthwise transposed convolutions of one weight: of two strides, and two alike."""

    def __init__(self, groups: int, shared_bias: bool = False):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.randn(4, 4 // groups, 4, 4))
        self.bias = nn.Parameter(torch.randn(4)) if shared_bias else None

    def forward(self, x):
        a = F.conv_transpose2d(x, self.weight, self.bias, 2, 1, 0, self.groups)
        b = F.conv_transpose2d(x, self.weight, self.bias, 4, 0, 0, self.groups)
        c = F.conv_transpose2d(x, self.weight, self.bias, 2, 0, 0, self.groups)
        d = F.conv_transpose2d(x.relu(), self.weight, self.bias, 2, 1, 0, self.groups)
        return a, b, c, d


@pytest.mark.parametrize("groups", [1, 4])
def test_a_shared_weight_with_other_strides_and_paddings_has_its_own_phases_each(groups):
    program = program_of((SharedWeight(groups), (torch.randn(1, 4, 4, 4),)))
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 4
    assert_agrees(program, lowering)
    weights = [c["weight"].name for c in calls_of(lowering, "aten.convolution")]
    count = 4 if groups == 4 else 1
    wide = 16 if groups == 4 else 1
    a, b, c, d = (
        weights[:count], weights[count : count + wide], weights[count + wide : -count], weights[-count:],
    )  # fmt: skip
    assert a == d
    assert not set(a) & set(b)
    assert len(set(weights)) == len(lowering.program.constants)
    if groups == 1:  # one kernel for all phases: padding only moves where the result is cut
        assert a == c


def test_a_bias_is_repeated_for_the_dense_form_and_other_readers_keep_it():
    class Tail(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = DENSE_2D()

        def forward(self, x):
            return self.up(x) - self.up.get_parameter("bias").reshape(1, -1, 1, 1)

    program = program_of((Tail(), (torch.randn(1, 4, 3, 3),)))
    lowering = lower(program, Recipe("xnnpack").disable("fold_constants"))
    parameters = set(lowering.program.exported_program.graph_signature.parameters)
    assert parameters == {"up.weight_phases", "up.bias_phases", "up.bias"}
    assert_agrees(program, lowering)


class Kinds(nn.Module):
    def __init__(self, kind: str, depthwise: bool):
        super().__init__()
        weight = torch.randn(4, 1 if depthwise else 3, 4, 4)
        self.groups = 4 if depthwise else 1
        if kind == "parameter":
            self.weight = nn.Parameter(weight)
        elif kind == "buffer":
            self.register_buffer("weight", weight)
        else:
            self.weight = weight

    def forward(self, x):
        return F.conv_transpose2d(x, self.weight, None, 2, 1, groups=self.groups)


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("kind", ["parameter", "buffer", "constant"])
def test_phase_constants_keep_the_kind_of_the_weight(kind, depthwise):
    program = program_of((Kinds(kind, depthwise), (torch.randn(1, 4, 3, 3),)))
    lowered_program = lower(program, "xnnpack").program
    names = list(lowered_program.constants)
    assert len(names) == (4 if depthwise else 1)
    assert {lowered_program.constant_kind(n) for n in names} == {kind}
    prefix = {"parameter": "p_", "buffer": "b_", "constant": "c_"}[kind]
    assert all(n.startswith(prefix) and "phase" in n for n in names)
    assert_agrees(program, lower(program, "xnnpack"))


@pytest.mark.parametrize("conv", [DENSE_2D, DEPTHWISE_2D])
def test_tags_of_the_weight_are_kept(conv):
    program = program_of(up(conv)())
    placeholder = next(n for n in program.graph.nodes if n.name == "p_conv_weight")
    placeholder.meta["delegate_constant_tag"] = "external"
    placeholder.meta["custom"] = {"mine": 3}
    lowered_program = lower(program, "xnnpack").program
    made = [n for n in lowered_program.graph.nodes if n.op == "placeholder" and "weight_phase" in n.name]
    assert made
    assert all(n.meta["delegate_constant_tag"] == "external" for n in made)
    assert all(n.meta["custom"] == {"mine": 3} for n in made)


class Readers(nn.Module):
    def __init__(self, how: str):
        super().__init__()
        self.how = how
        self.up = nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1, groups=4, bias=False)
        if how == "tied":
            self.other = nn.Conv2d(1, 4, 4)
            self.other.weight = self.up.weight

    def forward(self, x):
        y = self.up(x)
        if self.how == "returned":
            return y, self.up.weight
        if self.how == "read":
            return y + self.up.weight.amax(dim=(1, 2, 3)).reshape(1, -1, 1, 1) * x.mean()
        if self.how == "tied":
            return y, self.other(x[:, :1])
        return y


@pytest.mark.parametrize("how", ["alone", "returned", "read", "tied"])
def test_the_old_weight_goes_only_when_nothing_else_reads_it(how):
    program = program_of((Readers(how), (torch.randn(1, 4, 5, 5),)))
    lowering = lower(program, Recipe("xnnpack").disable("fold_constants"))
    assert applied(lowering, PATTERN) == 1
    values = list(lowering.program.constants.values())
    old = program.exported_program.state_dict["up.weight"]
    assert any(v.data_ptr() == old.data_ptr() for v in values) == (how != "alone")
    assert_agrees(program, lowering)
    assert "up.weight" in program.exported_program.state_dict


def test_a_sub_graph_gets_its_phase_constants_too():
    class Region(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = DEPTHWISE_2D()

        def forward(self, x):
            with torch.no_grad():
                y = self.up(x)
            return y * 2

    program = program_of((Region(), (torch.randn(1, 4, 3, 3),)))
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 1
    assert_agrees(program, lowering)


# ------------------------------------------------------------------ around it
def test_transposed_convolutions_that_feed_each_other_all_go():
    net = nn.Sequential(
        nn.ConvTranspose2d(3, 3, 4, 2, 1, groups=3), nn.ConvTranspose2d(3, 3, 4, 2, 1, groups=3),
        nn.ConvTranspose2d(3, 2, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(2, 3, 2, 2), nn.ReLU(),
    )  # fmt: skip
    program = program_of((net, (torch.randn(1, 3, 2, 3),)))
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 4
    assert transposed_left(lowering) == 0
    assert_agrees(program, lowering)


def test_a_skipped_one_stays_and_the_others_go():
    net = nn.Sequential(DEPTHWISE_2D(), DEPTHWISE_2D())
    program = program_of((net, (torch.randn(1, 4, 3, 3),)))
    lowering = lower(program, Recipe("xnnpack").skip(Skip(module="0")))
    assert applied(lowering, PATTERN) == 1
    assert transposed_left(lowering) == 1
    assert_agrees(program, lowering)


def test_its_place():
    names = [p.name for p in pipeline("xnnpack")]
    assert names.index("fold_batch_norm") < names.index("depthwise_conv_transpose_as_mul") < names.index(PATTERN)
    assert names.index(PATTERN) < names.index("fuse_activation")
    assert REGISTRY.get(PATTERN).targets == ("xnnpack",)


def weight_normed(how):
    conv = nn.ConvTranspose1d(6, 4, 8, stride=4, padding=2)
    norm = weight_norm if how == "hook" else parametrizations.weight_norm
    return norm(conv)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("how", ["hook", "parametrization"])
def test_a_weight_normed_weight_is_folded_first(how):
    program = program_of((weight_normed(how), (torch.randn(1, 6, 5),)))
    lowering = lower(program, "xnnpack")
    assert [s.pattern for s in lowering.steps if s.pattern != "core_aten"] == ["fold_constants", PATTERN]
    assert_agrees(program, lowering)
    blocked = lower(program, Recipe("xnnpack").disable("fold_constants"))
    assert verdict_of(blocked, PATTERN).failed == "constant_weight"


def test_sample_models():
    upsampler = load(SAMPLES / "upsampler.pt2")
    lowering = lower(upsampler, "xnnpack")
    assert (applied(lowering, PATTERN), transposed_left(lowering)) == (5, 0)
    assert_agrees(upsampler, lowering)
    codec: Program = load(SAMPLES / "codec.pt2")
    streaming = lower(codec, "xnnpack")
    assert applied(streaming, "depthwise_conv_transpose_as_mul") == 1
    assert (applied(streaming, PATTERN), transposed_left(streaming)) == (3, 0)
    assert [v.outcome for v in streaming.verdicts_of(PATTERN)].count(Outcome.SHADOWED) == 1
    assert_agrees(codec, streaming)
