"""The fused operators against the plain composition they stand for, and what each encoding means."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from lowerscope.ops import OperatorError, ort_webgpu, vulkan, xnnpack

INF = math.inf
DIRECT = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)


@pytest.fixture
def conv() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    x, w, b = torch.randn(1, 4, 6, 6), torch.randn(4, 4, 3, 3), torch.randn(4)
    return {"x": x, "w": w, "b": b, "y": F.conv2d(x, w, b, padding=1), "r": torch.randn(1, 4, 6, 6)}


def _epilogue(conv, residual=None, scale=None, residual_op="none", alpha=1, activation="none", a=0.0, b=0.0):
    return vulkan.conv2d_with_epilogue(
        conv["x"], conv["w"], conv["b"], *DIRECT, residual, scale, residual_op, alpha, activation, a, b
    )


@pytest.mark.parametrize("scaled", [None, (1, 4, 1, 1), (4, 1, 1)])
@pytest.mark.parametrize(
    ("residual_op", "alpha", "plain"),
    [
        ("add", 1, lambda y, r: y + r),
        ("add", 2.5, lambda y, r: y + 2.5 * r),
        ("sub", 1, lambda y, r: y - r),
        ("sub", 3, lambda y, r: y - 3 * r),
        ("mul", 1, lambda y, r: y * r),
    ],
)
def test_residual(conv, residual_op, alpha, plain, scaled):
    scale = None if scaled is None else torch.randn(scaled)
    got = _epilogue(conv, conv["r"], scale, residual_op, alpha)
    residual = conv["r"] if scale is None else conv["r"] * scale
    torch.testing.assert_close(got, plain(conv["y"], residual))


@pytest.mark.parametrize(
    ("activation", "a", "b", "plain"),
    [
        ("none", 0.0, 0.0, lambda v: v),
        ("relu", 0.0, 0.0, F.relu),
        ("clamp", -0.5, 0.75, lambda v: F.hardtanh(v, -0.5, 0.75)),
        ("clamp", -INF, 0.25, lambda v: v.clamp(max=0.25)),
        ("clamp", 0.25, INF, lambda v: v.clamp(min=0.25)),
        ("clamp", -INF, INF, lambda v: v),
        ("clamp", 1.0, -1.0, lambda v: torch.full_like(v, -1.0)),
        ("leaky_relu", 0.2, 0.0, lambda v: F.leaky_relu(v, 0.2)),
    ],
)
def test_activation_encodings(conv, activation, a, b, plain):
    assert torch.equal(_epilogue(conv, activation=activation, a=a, b=b), plain(conv["y"]))
    with_residual = _epilogue(conv, conv["r"], None, "add", 1, activation, a, b)
    assert torch.equal(with_residual, plain(conv["y"] + conv["r"]))


def test_grouped_and_transposed():
    torch.manual_seed(0)
    x, w = torch.randn(1, 4, 5, 5), torch.randn(4, 1, 4, 4)
    r = torch.randn(1, 4, 10, 10)
    args = ([2, 2], [1, 1], [1, 1], True, [0, 0], 4)
    got = vulkan.conv2d_with_epilogue(x, w, None, *args, r, None, "sub", 1, "relu", 0.0, 0.0)
    assert torch.equal(got, F.relu(F.conv_transpose2d(x, w, None, 2, 1, groups=4) - r))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"residual_op": "div", "residual": True}, "'div' is unknown: use one of none, add, sub, mul"),
        ({"residual_op": "add"}, "'add' needs a residual"),
        ({"residual": True}, "'none' takes no residual"),
        ({"scale": True}, "residual scale was given without a residual"),
        ({"activation": "gelu"}, "'gelu' has no epilogue: use one of none, relu, clamp, leaky_relu"),
    ],
)
def test_contradictory_encodings(conv, kwargs, message):
    given = {key: conv["r"] if value is True else value for key, value in kwargs.items()}
    with pytest.raises(OperatorError, match=message):
        _epilogue(conv, **given)


@pytest.mark.parametrize("op", [vulkan.conv_with_clamp, xnnpack.conv_with_range])
@pytest.mark.parametrize(("low", "high"), [(0.0, INF), (-0.5, 0.5), (-INF, 0.1), (-INF, INF)])
def test_conv_held_to_a_range(op, low, high):
    torch.manual_seed(0)
    x2, w2, x1, w1 = torch.randn(2, 4, 6, 6), torch.randn(3, 4, 3, 3), torch.randn(2, 4, 9), torch.randn(3, 4, 3)
    assert torch.equal(op(x2, w2, None, *DIRECT, low, high), F.conv2d(x2, w2, padding=1).clamp(low, high))
    one_d = ([2], [1], [1], False, [0], 1)
    assert torch.equal(op(x1, w1, None, *one_d, low, high), F.conv1d(x1, w1, None, 2, 1).clamp(low, high))


def test_an_open_side_in_half_precision():
    """At the largest double, which upstream writes for an open side, a float32 clamp raises and a float16 one too."""
    for dtype in (torch.float16, torch.float32):
        x, w = torch.randn(1, 1, 3, 3, dtype=dtype), torch.randn(1, 1, 3, 3, dtype=dtype)
        got = vulkan.conv_with_clamp(x, w, None, *DIRECT, 0.0, INF)
        assert torch.equal(got, F.relu(F.conv2d(x, w, padding=1)))
        with pytest.raises(RuntimeError):
            vulkan.conv_with_clamp(x, w, None, *DIRECT, 0.0, 1.7976931348623157e308)


@pytest.mark.parametrize(
    ("first", "second"), [((0.0, INF), (-1.0, 1.0)), ((2.0, 3.0), (-1.0, 1.0)), ((-3.0, -2.0), (-1.0, 1.0))]
)
def test_composed_ranges(first, second):
    """[a, b] then [c, d] is [clamp(a, c, d), clamp(b, c, d)], for disjoint ranges as well."""
    (a, b), (c, d) = first, second
    x, y = torch.randn(64) * 4, torch.randn(64)
    composed = (min(max(a, c), d), min(max(b, c), d))
    assert torch.equal(xnnpack.add_with_range(x, y, 1, *composed), (x + y).clamp(a, b).clamp(c, d))


def test_arithmetic_with_a_range():
    torch.manual_seed(0)
    x, y, row = torch.randn(3, 4, 8), torch.randn(8), torch.randn(2, 3, 8)
    w, b, m = torch.randn(5, 8), torch.randn(5), torch.randn(3, 8)
    for got, plain in (
        (xnnpack.add_with_range(x, y, 3, -0.5, 0.5), x + 3 * y),
        (xnnpack.sub_with_range(x, y, 0.5, -0.5, 0.5), x - 0.5 * y),
        (xnnpack.mul_with_range(x, y, -0.5, 0.5), x * y),
        (xnnpack.linear_with_range(row, w, b, -0.5, 0.5), F.linear(row, w, b)),
        (xnnpack.linear_with_range(row, w, None, -0.5, 0.5), F.linear(row, w)),
        (xnnpack.mm_with_range(m, w.t(), -0.5, 0.5), m @ w.t()),
        (xnnpack.addmm_with_range(b, m, w.t(), 2, 0.5, -0.5, 0.5), 2 * b + 0.5 * (m @ w.t())),
    ):
        torch.testing.assert_close(got, plain.clamp(-0.5, 0.5))


def test_an_integer_tensor_keeps_its_dtype():
    x = torch.arange(-4, 4)
    got = xnnpack.add_with_range(x, x, 1, 0.0, INF)
    assert got.dtype == torch.int64
    assert torch.equal(got, F.relu(x + x))
    with pytest.raises(OperatorError, match=r"0\.5 cannot hold an integer"):
        xnnpack.add_with_range(x, x, 1, 0.5, INF)


@pytest.mark.parametrize("block", [1, 2, 3])
def test_depth_to_space_is_block_major(block):
    c, h, w = 5, 3, 4
    x = torch.randn(2, block * block * c, h, w)
    got = xnnpack.depth_to_space_2d(x, block)
    assert got.shape == (2, c, h * block, w * block)
    for ay in range(block):
        for ax in range(block):
            first = (ay * block + ax) * c
            assert torch.equal(got[:, :, ay::block, ax::block], x[:, first : first + c])


def test_depth_to_space_is_not_pixel_shuffle():
    x = torch.randn(1, 8, 3, 3)
    assert not torch.equal(xnnpack.depth_to_space_2d(x, 2), F.pixel_shuffle(x, 2))
    # The two agree once the channels are reordered from block-major to channel-major.
    reordered = x.reshape(1, 4, 2, 3, 3).transpose(1, 2).reshape(1, 8, 3, 3)
    assert torch.equal(xnnpack.depth_to_space_2d(x, 2), F.pixel_shuffle(reordered, 2))


def test_nearest_upsampling_through_depth_to_space():
    x = torch.randn(1, 3, 4, 5)
    repeated = torch.cat([x] * 4, dim=1)
    expected = F.interpolate(x, scale_factor=2.0, mode="nearest")
    assert torch.equal(xnnpack.depth_to_space_2d(repeated, 2), expected)
    assert not torch.equal(F.pixel_shuffle(repeated, 2), expected)


def test_depth_to_space_refuses():
    with pytest.raises(OperatorError, match="6 channels do not divide into 4 blocks"):
        xnnpack.depth_to_space_2d(torch.zeros(1, 6, 2, 2), 2)
    with pytest.raises(OperatorError, match="this one is 3-D"):
        xnnpack.depth_to_space_2d(torch.zeros(4, 2, 2), 2)


def test_layout_changes_keep_values_and_shape():
    x = torch.randn(2, 3, 4, 5)
    nhwc = xnnpack.to_nhwc(x)
    assert nhwc.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(nhwc, x)
    back = xnnpack.to_nchw(nhwc)
    assert back.is_contiguous()
    assert torch.equal(back, x)
    # A copy even where the layout is there already: an operator's result is a tensor of its own.
    assert xnnpack.to_nchw(x).data_ptr() != x.data_ptr()
    assert xnnpack.to_nhwc(nhwc).data_ptr() != nhwc.data_ptr()
    for op in (xnnpack.to_nhwc, xnnpack.to_nchw):
        with pytest.raises(OperatorError, match="3-D: only 4-D values"):
            op(torch.zeros(2, 3, 4))


IM2COL = {
    "none": ([], lambda v: v),
    "Relu": ([], F.relu),
    "Sigmoid": ([], torch.sigmoid),
    "Tanh": ([], torch.tanh),
    "LeakyRelu": ([0.3], lambda v: torch.where(v > 0, v, 0.3 * v)),
    "HardSigmoid": ([0.25, 0.4], lambda v: (0.25 * v + 0.4).clamp(0, 1)),
    "Clip": ([0.25, 0.4], lambda v: v.clamp(0.25, 0.4)),
}


@pytest.mark.parametrize("activation", IM2COL)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_im2col_activations(activation, dtype):
    torch.manual_seed(0)
    x, w, b = (torch.randn(*s, dtype=dtype) for s in ((2, 3, 7, 7), (4, 3, 3, 3), (4,)))
    params, plain = IM2COL[activation]
    got = ort_webgpu.im2col_conv_activation(x, w, b, [2, 2], [1, 1], [1, 1], 1, activation, params)
    torch.testing.assert_close(got, plain(F.conv2d(x, w, b, 2, 1)))


def test_im2col_is_the_matrix_product_it_stands_for():
    x, w, b = (torch.randn(*s, dtype=torch.float64) for s in ((2, 3, 7, 7), (4, 3, 3, 3), (4,)))
    got = ort_webgpu.im2col_conv_activation(x, w, b, [1, 1], [1, 1], [1, 1], 1, "Relu", [])
    columns = F.unfold(x, 3, padding=1)
    torch.testing.assert_close(got, F.relu(w.reshape(4, -1) @ columns + b[:, None]).reshape(2, 4, 7, 7))


def test_hardsigmoid_has_the_slots_one_sixth_and_one_half():
    x, w = torch.randn(1, 1, 4, 4), torch.full((1, 1, 1, 1), 4.0)
    got = ort_webgpu.im2col_conv_activation(x, w, None, [1, 1], [0, 0], [1, 1], 1, "HardSigmoid", [1 / 6, 0.5])
    torch.testing.assert_close(got, F.hardsigmoid(4 * x))


def test_im2col_slots_are_checked():
    x, w = torch.zeros(1, 1, 3, 3), torch.zeros(1, 1, 3, 3)
    geometry = ([1, 1], [1, 1], [1, 1], 1)
    with pytest.raises(OperatorError, match=r"Clip takes 2 parameters \(min, max\), got 1"):
        ort_webgpu.im2col_conv_activation(x, w, None, *geometry, "Clip", [0.0])
    with pytest.raises(OperatorError, match="Relu takes 0 parameters"):
        ort_webgpu.im2col_conv_activation(x, w, None, *geometry, "Relu", [0.0])
    with pytest.raises(OperatorError, match="'Gelu' has no epilogue"):
        ort_webgpu.im2col_conv_activation(x, w, None, *geometry, "Gelu", [])
