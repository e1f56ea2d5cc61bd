"""Spelling must not matter: what people write for one and the same computation matches alike, or the reason is named."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lowerscope.lowering import Lowering, lower
from lowerscope.measure.parity import parity
from lowerscope.recipe import Recipe
from tests.engine.patterns.condition_cases import program_of
from tests.engine.patterns.vulkan_nets import calls_of, image, net, ops_of, verdict_of

aten = torch.ops.aten

#: pattern -> (target, dtype that it takes, the operator that it makes)
FUSIONS = {
    "conv2d_with_epilogue": ("vulkan", torch.float32, "et_vk.conv2d.with_epilogue"),
    "conv_with_clamp": ("webgpu", torch.float32, "et_vk.conv_with_clamp"),
    "fuse_activation": ("xnnpack", torch.float32, "xnnpack.conv_with_range"),
    "im2col_conv_activation": ("ort-webgpu", torch.float16, "ort_webgpu.im2col_conv_activation"),
}

ACTIVATIONS = {
    "relu method": lambda y, s: y.relu(),
    "torch.relu": lambda y, s: torch.relu(input=y),
    "F.relu in place": lambda y, s: F.relu(y, inplace=True),
    "relu_": lambda y, s: y.relu_(),
    "nn.ReLU in place": lambda y, s: nn.ReLU(inplace=True)(y),
    "F.relu6": lambda y, s: F.relu6(y),
    "F.relu6 in place": lambda y, s: F.relu6(y, inplace=True),
    "nn.ReLU6": lambda y, s: nn.ReLU6()(y),
    "nn.ReLU6 in place": lambda y, s: nn.ReLU6(inplace=True)(y),
    "F.hardtanh with ints": lambda y, s: F.hardtanh(y, 0, 6),
    "F.hardtanh by keyword": lambda y, s: F.hardtanh(input=y, max_val=6.0, min_val=0.0),
    "hardtanh_": lambda y, s: aten.hardtanh_(y, 0.0, 6.0),
    "clamp with both": lambda y, s: y.clamp(0, 6),
    "clamp_": lambda y, s: y.clamp_(0.0, 6.0),
    "torch.clip": lambda y, s: torch.clip(y, min=0.0, max=6.0),
    "clamp above only": lambda y, s: y.clamp(max=0.25),
    "clamp below only": lambda y, s: y.clamp(0.25, None),
    "clamp with None first": lambda y, s: torch.clamp(y, None, 0.25),
    "clamp_min": lambda y, s: y.clamp_min(0),
    "clamp_max_": lambda y, s: y.clamp_max_(0.25),
}
CLAMPS = {"aten.relu", "aten.clamp", "aten.hardtanh", "aten.clamp_min", "aten.clamp_max"}

#: the same computation, by operators that no pattern is about
OTHERWISE = {
    "a lifted bound": lambda y, s: torch.clamp(y, torch.tensor(0.0), None),
    "maximum with a lifted constant": lambda y, s: torch.maximum(y, torch.tensor(0.0)),
    "where": lambda y, s: torch.where(y > 0, y, 0.0),
}

CONVOLUTIONS = {
    "module, padding same": lambda x, s: s.same(x),
    "F.conv2d, padding same": lambda x, s: F.conv2d(x, s.weight, s.bias, padding="same"),
    "by keyword": lambda x, s: F.conv2d(weight=s.weight, bias=s.bias, padding=1, input=x),
    "tuples": lambda x, s: F.conv2d(x, s.weight, s.bias, (1, 1), (1, 1), (1, 1), 1),
    "one number": lambda x, s: torch.conv2d(x, s.weight, s.bias, 1, 1, 1, 1),
    "no bias": lambda x, s: F.conv2d(x, s.weight, None, padding=1),
    "torch.convolution": lambda x, s: torch.convolution(x, s.weight, s.bias, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
}

NORMS = {
    "module": lambda y, n: n(y),
    "F.batch_norm": lambda y, n: F.batch_norm(y, n.running_mean, n.running_var, n.weight, n.bias),
    "by keyword": lambda y, n: F.batch_norm(
        eps=1e-3, bias=n.bias, weight=n.weight, running_var=n.running_var, running_mean=n.running_mean, input=y
    ),
    "torch.batch_norm": lambda y, n: torch.batch_norm(
        y, n.weight, n.bias, n.running_mean, n.running_var, False, 0.1, 1e-5, True
    ),
    "torch.native_batch_norm": lambda y, n: torch.native_batch_norm(
        y, n.weight, n.bias, n.running_mean, n.running_var, False, 0.1, 1e-5
    )[0],
    "without scale and shift": lambda y, n: F.batch_norm(y, n.running_mean, n.running_var),
    "scale only": lambda y, n: F.batch_norm(y, n.running_mean, n.running_var, weight=n.weight),
}

SUMS = {
    "+": lambda y, r: y + r,
    "+=": lambda y, r: operator.iadd(y, r),
    "add_": lambda y, r: y.add_(r),
    "torch.add": lambda y, r: torch.add(y, r),
    "by keyword": lambda y, r: torch.add(other=r, input=y, alpha=1),
    "the other way round": lambda y, r: r + y,
}

NUMBERS = {
    "a literal": lambda y: y + 0.5,
    "an int": lambda y: y + 1,
    "add.Scalar": lambda y: aten.add.Scalar(y, 0.5),
    "+= a literal": lambda y: operator.iadd(y, 0.5),
    "a lifted constant": lambda y: y + torch.tensor(0.5),
}


def checked(make, target: str, pattern: str | None = None) -> Lowering:
    """Lowered, valid, and the numbers are the program's; where a pattern is named, it was applied once."""
    program = program_of(make())
    lowering = lower(program, Recipe(target))
    lowering.program.exported_program.validate()
    report = parity(program, lowering.program)
    assert report.agrees, str(report)
    if pattern is not None:
        assert [s.pattern for s in lowering.steps].count(pattern) == 1
    return lowering


class Convolved(nn.Module):
    """`then` of `compute(x)`, a convolution of 4 channels to 4 with a 3x3 kernel, written as the test writes it."""

    def __init__(self, compute, then):
        super().__init__()
        self.same = nn.Conv2d(4, 4, 3, padding="same")
        self.weight, self.bias = self.same.weight, self.same.bias
        self.norm = nn.BatchNorm2d(4)
        self.compute, self.then = compute, then

    def forward(self, x):
        return self.then(self.compute(x, self), self)


@pytest.mark.parametrize("pattern", FUSIONS)
@pytest.mark.parametrize("spelling", ACTIVATIONS)
def test_an_activation(pattern, spelling):
    target, dtype, made = FUSIONS[pattern]
    lowering = checked(net(ACTIVATIONS[spelling], dtype=dtype), target, pattern)
    assert made in ops_of(lowering)
    assert not CLAMPS & set(ops_of(lowering))


#: (pattern, spelling) -> the condition that refuses it, where it is not the one that asks for an activation
REFUSED = {
    ("conv2d_with_epilogue", "a lifted bound"): "activation_literal",
    ("conv2d_with_epilogue", "where"): "one_user",  # the comparison reads the convolution, too
    ("conv_with_clamp", "a lifted bound"): "bounds_literal",
    ("fuse_activation", "a lifted bound"): "bounds_literal",
}
FOLLOWS = {
    "conv2d_with_epilogue": "something_to_fuse",
    "conv_with_clamp": "clamp_follows",
    "fuse_activation": "activation_follows",
}


@pytest.mark.parametrize("pattern", FOLLOWS)
@pytest.mark.parametrize("spelling", OTHERWISE)
def test_what_is_no_activation_of_the_pattern_is_refused_by_name(pattern, spelling):
    target, dtype, made = FUSIONS[pattern]
    lowering = checked(net(OTHERWISE[spelling], dtype=dtype), target)
    assert made not in ops_of(lowering)
    assert verdict_of(lowering, pattern).failed == REFUSED.get((pattern, spelling), FOLLOWS[pattern])


@pytest.mark.parametrize("spelling", OTHERWISE)
def test_im2col_leaves_what_is_no_activation_of_its_own_behind_it(spelling):
    target, dtype, made = FUSIONS["im2col_conv_activation"]
    lowering = checked(net(OTHERWISE[spelling], dtype=dtype), target, "im2col_conv_activation")
    assert [call["activation"] for call in calls_of(lowering, made)] == ["none"]
    failure = verdict_of(lowering, "im2col_conv_activation").record.failure()
    assert (failure and failure.name) == ("activation_literal" if spelling == "a lifted bound" else None)


@pytest.mark.parametrize("pattern", FUSIONS)
@pytest.mark.parametrize("spelling", CONVOLUTIONS)
def test_a_convolution(pattern, spelling):
    target, dtype, made = FUSIONS[pattern]
    module = Convolved(CONVOLUTIONS[spelling], lambda y, s: y.relu()).to(dtype)
    lowering = checked(lambda: (module, (image().to(dtype),)), target, pattern)
    assert made in ops_of(lowering)
    assert "aten.convolution" not in ops_of(lowering)


@pytest.mark.parametrize("target", ["vulkan", "xnnpack", "qnn", "ort-webgpu"])
@pytest.mark.parametrize("spelling", CONVOLUTIONS)
def test_a_convolution_before_a_batch_norm(target, spelling):
    module = Convolved(CONVOLUTIONS[spelling], lambda y, s: s.norm(y))
    lowering = checked(lambda: (module, (image(),)), target, "fold_batch_norm")
    assert not [name for name in ops_of(lowering) if "batch_norm" in name]


@pytest.mark.parametrize("target", ["vulkan", "xnnpack", "qnn", "ort-webgpu"])
@pytest.mark.parametrize("spelling", NORMS)
def test_a_batch_norm(target, spelling):
    module = Convolved(CONVOLUTIONS["by keyword"], lambda y, s: NORMS[spelling](y, s.norm)).eval()
    for tensor in module.norm.state_dict().values():
        if tensor.is_floating_point():  # the count of batches is none
            nn.init.uniform_(tensor, 0.5, 2.0)
    lowering = checked(lambda: (module, (image(),)), target, "fold_batch_norm")
    assert [name for name in ops_of(lowering) if name.startswith("aten.")] == ["aten.convolution"]


@pytest.mark.parametrize("target", ["vulkan", "webgpu", "qnn"])
@pytest.mark.parametrize(
    "compute",
    [
        lambda x, w: F.conv1d(x, w, padding="same"),
        lambda x, w: F.conv1d(input=x, weight=w, padding=1),
        lambda x, w: F.conv1d(x, w, None, (1,), (1,), (1,), 1),
        lambda x, w: torch.convolution(x, w, None, [1], [1], [1], False, [0], 1),
    ],
    ids=["same", "by keyword", "tuples", "torch.convolution"],
)
def test_a_1d_convolution(target, compute):
    make = net(
        lambda y, s: compute(y, s.w), x=torch.randn(1, 4, 9), conv=nn.Identity, w=nn.Parameter(torch.randn(4, 4, 3))
    )
    assert "aten.squeeze.dims" in ops_of(checked(make, target, "conv1d_as_conv2d"))


TRANSPOSED = {
    "module": lambda x, w: nn.functional.conv_transpose1d(x, w, None, 2, 0, 0, w.shape[0]),
    "by keyword": lambda x, w: F.conv_transpose1d(weight=w, input=x, groups=w.shape[0], stride=2),
    "tuples": lambda x, w: F.conv_transpose1d(x, w, None, (2,), (0,), (0,), w.shape[0], (1,)),
    "torch.convolution": lambda x, w: torch.convolution(x, w, None, [2], [0], [1], True, [0], w.shape[0]),
}


@pytest.mark.parametrize(
    ("pattern", "kernel"), [("depthwise_conv_transpose_as_mul", 2), ("polyphase_conv_transpose", 4)]
)
@pytest.mark.parametrize("spelling", TRANSPOSED)
def test_a_transposed_convolution(pattern, kernel, spelling):
    weight = nn.Parameter(torch.randn(4, 1, kernel))
    make = net(lambda y, s: TRANSPOSED[spelling](y, s.w), x=torch.randn(1, 4, 9), conv=nn.Identity, w=weight)
    lowering = checked(make, "xnnpack", pattern)
    found = lowering.program.graph.find_nodes(op="call_function", target=aten.convolution.default)
    assert not any(node.args[6] for node in found)


@pytest.mark.parametrize("spelling", SUMS)
def test_a_sum(spelling):
    make = net(lambda y, r, s: SUMS[spelling](y, r), image())
    assert ops_of(checked(make, "vulkan", "conv2d_with_epilogue")) == ["et_vk.conv2d.with_epilogue"]
    make = net(lambda y, r, s: SUMS[spelling](y.neg(), r).relu(), image())
    assert "xnnpack.add_with_range" in ops_of(checked(make, "xnnpack", "fuse_activation"))


@pytest.mark.parametrize("spelling", NUMBERS)
def test_a_number_is_no_residual_and_says_so_and_has_a_range_all_the_same(spelling):
    lowering = checked(net(lambda y, s: NUMBERS[spelling](y)), "vulkan")
    verdict = verdict_of(lowering, "conv2d_with_epilogue")
    assert "et_vk.conv2d.with_epilogue" not in ops_of(lowering)
    assert verdict.failed == ("something_to_fuse" if spelling == "add.Scalar" else "residual_shape")
    lowering = checked(net(lambda y, s: NUMBERS[spelling](y.neg()).relu()), "xnnpack", "fuse_activation")
    assert not CLAMPS & set(ops_of(lowering))
    assert {"xnnpack.add_with_range", "xnnpack.add_scalar_with_range"} & set(ops_of(lowering))
