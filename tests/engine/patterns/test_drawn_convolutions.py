"""Any convolution of any dtype: the patterns that rewrite one do it right, or refuse it for the reason that holds."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn

from lowerscope.lowering import Lowering, lower
from lowerscope.measure.parity import parity
from lowerscope.recipe import Recipe
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import program_of
from tests.engine.patterns.conv_draws import DTYPES, convolutions, drawn, mostly
from tests.engine.patterns.vulkan_nets import net, ops_of, verdict_of

NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def first(refusals: dict[str, bool]) -> str | None:
    """The first condition that does not hold."""
    return next((name for name, refused in refusals.items() if refused), None)


def checked(
    make: Any, recipe: Recipe, pattern: str, refusals: dict[str, bool], anchor: str = "convolution"
) -> Lowering:
    """Lowered: applied, or refused for the first reason that holds; valid, and the numbers are the program's."""
    program = program_of(make())
    lowering = lower(program, recipe)
    verdict = verdict_of(lowering, pattern, anchor)
    reason = first(refusals)
    assert verdict.failed == reason
    assert (verdict.outcome is Outcome.APPLIED) == (reason is None) == (pattern in {s.pattern for s in lowering.steps})
    lowering.program.exported_program.validate()
    report = parity(program, lowering.program)
    assert report.agrees, str(report)
    return lowering


def is_transposed(conv: Any) -> bool:
    return conv.transposed


def is_depthwise(conv: Any) -> bool:
    return conv.groups == conv.in_channels == conv.out_channels


def phases_without_taps(conv: Any) -> bool:
    """Some output phase reads no input: the definition, out = in * stride - padding + tap."""
    axes = zip(conv.kernel_size, conv.stride, conv.padding, strict=True)
    return any(not any((a + p - k) % s == 0 for k in range(n)) for n, s, p in axes for a in range(s))


def phases_that_crop(conv: Any) -> bool:
    """Some output phase reads nothing at its first step or before it: its left pad would be negative."""
    axes = zip(conv.kernel_size, conv.stride, conv.padding, strict=True)
    return any(
        all((a + p - k) // s > 0 for k in range(n) if (a + p - k) % s == 0) for n, s, p in axes for a in range(s)
    )


@drawn(
    convolution=convolutions(),
    dtype=DTYPES,
    affine=st.booleans(),
    target=st.sampled_from(["vulkan", "xnnpack", "qnn"]),
)
def test_fold_batch_norm(convolution, dtype, affine, target):
    conv, x = convolution
    norm = NORMS[x.dim() - 2](conv.out_channels, affine=affine)
    nn.init.uniform_(norm.running_mean, -1, 1)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    if affine:
        nn.init.uniform_(norm.weight, 0.5, 2)
        nn.init.uniform_(norm.bias, -1, 1)
    make = net(lambda y, s: s.norm(y), x=x, conv=lambda: conv, dtype=dtype, norm=norm)
    refusals = {"not_transposed": target == "qnn" and is_transposed(conv)}
    anchor = "native_batch_norm_legit_no_training"
    lowering = checked(make, Recipe(target), "fold_batch_norm", refusals, anchor)
    assert any("batch_norm" in name for name in ops_of(lowering)) == any(refusals.values())
    return first(refusals)


@drawn(
    40,
    convolution=convolutions(
        (3, 4),
        transposed=st.just(True),
        kernel=st.sampled_from([4, 2, 1, 3, 2, 4]),
        stride=mostly(2, 1, 3),
        dilation=mostly(1, 2),
        groups=mostly(1, 2, 3),
        ratio=mostly(1, 2),
    ),
    dtype=DTYPES,
)
def test_polyphase_conv_transpose(convolution, dtype):
    conv, x = convolution
    dense = conv.groups == 1
    multiple = all(k % s == 0 for k, s in zip(conv.kernel_size, conv.stride, strict=True))
    whole = dense and (multiple or not is_depthwise(conv))
    refusals = {
        "strided": all(s == 1 for s in conv.stride),
        "dilation_1": any(d != 1 for d in conv.dilation),
        "dense_or_depthwise": not dense and not is_depthwise(conv),
        "kernel_multiple_of_stride": whole and not multiple,
        "every_phase_has_taps": not whole and phases_without_taps(conv),
        "no_negative_pad": not whole and phases_that_crop(conv),
    }
    recipe = Recipe("xnnpack").disable("depthwise_conv_transpose_as_mul")
    make = net(lambda y, s: y, x=x, conv=lambda: conv, dtype=dtype)
    lowering = checked(make, recipe, "polyphase_conv_transpose", refusals)
    calls = lowering.program.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)
    assert any(node.args[6] for node in calls) == any(refusals.values())
    return first(refusals)


@drawn(
    40,
    convolution=convolutions(
        (3, 3, 4, 3, 3), transposed=mostly(True, False), padding=mostly(0, 1), dilation=mostly(1, 2), ratio=mostly(1, 2)
    ),
    dtype=DTYPES,
    one_step=mostly(True, False),
)
def test_depthwise_conv_transpose_as_mul(convolution, dtype, one_step):
    conv, x = convolution
    if one_step and is_transposed(conv) and x.dim() == 3 and conv.padding == (0,):
        x = x[..., :1]
    refusals = {
        "transposed": not is_transposed(conv),
        "one_dimensional": x.dim() != 3,
        "depthwise": not is_depthwise(conv),
        "dilation_1": conv.dilation != (1,),
        "no_padding": conv.padding != (0,),
        "no_output_padding": conv.output_padding != (0,),
        "no_overlap": conv.kernel_size != conv.stride and x.shape[-1] != 1,
    }
    recipe = Recipe("xnnpack").disable("polyphase_conv_transpose")
    make = net(lambda y, s: y, x=x, conv=lambda: conv, dtype=dtype)
    lowering = checked(make, recipe, "depthwise_conv_transpose_as_mul", refusals)
    assert ("aten.mul.Tensor" in ops_of(lowering)) == (not any(refusals.values()))
    return first(refusals)


@drawn(
    convolution=convolutions(),
    dtype=DTYPES,
    bounds=st.sampled_from([(0.0, None), (-0.2, 0.3), None, (None, 0.1)]),
)
def test_fuse_activation(convolution, dtype, bounds):
    conv, x = convolution
    then = (lambda y, s: y.sigmoid()) if bounds is None else (lambda y, s: y.clamp(*bounds))
    refusals = {"dimensions": x.dim() == 5, "activation_follows": bounds is None}
    # a transposed convolution may become several, behind which the activation stands
    recipe = Recipe("xnnpack").disable("polyphase_conv_transpose", "depthwise_conv_transpose_as_mul")
    lowering = checked(net(then, x=x, conv=lambda: conv, dtype=dtype), recipe, "fuse_activation", refusals)
    assert ("xnnpack.conv_with_range" in ops_of(lowering)) == (not any(refusals.values()))
    return first(refusals)


@drawn(
    40,
    convolution=convolutions((4, 3, 5, 4, 4), transposed=mostly(False, True), groups=mostly(1, 2)),
    dtype=mostly(torch.float16, torch.float32, torch.bfloat16, torch.float64),
    profile=mostly({}, {"vendor": "nvidia"}, {"channels_last": False}),
)
def test_im2col_conv_activation(convolution, dtype, profile):
    conv, x = convolution
    refusals = {
        "direct": is_transposed(conv),
        "one_or_two_dimensional": x.dim() == 5,
        "adapter": "vendor" in profile,
        "float16": dtype is not torch.float16,
        "channels_last": "channels_last" in profile,
        "groups_1": conv.groups != 1,
        "larger_than_1x1": all(k == 1 for k in conv.kernel_size),
    }
    intel = {"vendor": "intel", "architecture": "xe-2lpg", "channels_last": True}
    recipe = Recipe("ort-webgpu").with_profile(**intel | profile)
    make = net(lambda y, s: y.relu(), x=x, conv=lambda: conv, dtype=dtype)
    lowering = checked(make, recipe, "im2col_conv_activation", refusals)
    assert ("aten.relu" in ops_of(lowering)) == any(refusals.values())
    return first(refusals)


@drawn(
    convolution=convolutions((4, 3, 4, 5, 4)),
    dtype=st.sampled_from([torch.float32, torch.float16]),
    target=st.sampled_from(["xnnpack", "qnn"]),
    then=st.sampled_from([torch.sigmoid, lambda y: y * 1.4142]),
)
def test_channels_last(convolution, dtype, target, then):
    conv, x = convolution
    # what makes other convolutions of this one comes before
    off = {
        "xnnpack": ("polyphase_conv_transpose", "depthwise_conv_transpose_as_mul"),
        "qnn": ("conv1d_as_conv2d",),
    }
    refusals = {"delegated": target == "xnnpack" and x.dim() == 5, "four_dimensions": x.dim() != 4}
    make = net(lambda y, s: then(y), x=x, conv=lambda: conv, dtype=dtype)
    lowering = checked(make, Recipe(target).disable(*off[target]), "channels_last", refusals)
    transposes = [name for name in ops_of(lowering) if name.startswith("xnnpack.to_")]
    assert transposes == ([] if any(refusals.values()) else ["xnnpack.to_nhwc", "xnnpack.to_nchw"])
    return first(refusals)
