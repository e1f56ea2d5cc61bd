"""The quantized linears of Vulkan: packing, padding, and every number of outputs."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from lowerscope.ops import OperatorError
from lowerscope.ops.vulkan_linear import (
    linear_dq8ca_q4gsw,
    linear_q4gsw,
    linear_q8ta_q8csw,
    pack_int4,
    pad_outputs,
    unpack_int4,
)

GROUP = 32


def _weights(n: int, k: int = 64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(codes [N, K], scales [N, K / GROUP], the weight they stand for [N, K])."""
    g = torch.Generator().manual_seed(n)
    codes = torch.randint(-8, 8, (n, k), generator=g, dtype=torch.int8)
    scales = torch.rand(n, k // GROUP, generator=g) + 0.01
    return codes, scales, codes.float() * scales.repeat_interleave(GROUP, dim=1)


def test_packing_round_trip():
    codes = torch.arange(-8, 8, dtype=torch.int8).repeat(3, 1)
    packed = pack_int4(codes)
    assert (packed.dtype, packed.shape) == (torch.uint8, (3, 8))
    # Even columns sit in the low half, each offset by 8.
    assert packed[0, 0].item() == 0x10
    assert torch.equal(unpack_int4(packed), codes)
    with pytest.raises(OperatorError, match="do not pair up"):
        pack_int4(codes[:, :3])
    for code in (-9, 8):
        with pytest.raises(OperatorError, match=r"outside -8\.\.7"):
            pack_int4(torch.full((1, 2), code, dtype=torch.int8))


@pytest.mark.parametrize("n", range(1, 10))
def test_padding_reaches_the_next_multiple_of_4(n):
    padded = pad_outputs(torch.ones(2, n))
    assert padded.shape == (2, (n + 3) // 4 * 4)
    assert padded.sum() == 2 * n


@pytest.mark.parametrize("shape", [(3, 64), (2, 3, 64), (64,)])
@pytest.mark.parametrize("n", range(1, 10))
def test_weight_only_for_every_number_of_outputs(n, shape):
    codes, scales, weight = _weights(n)
    bias = torch.randn(n)
    x = torch.randn(shape)
    # What the padding holds must not reach the result, so it is made loud.
    padded_scales, padded_bias = pad_outputs(scales.t().contiguous()), pad_outputs(bias)
    padded_scales[:, n:], padded_bias[n:] = 1e3, 1e3
    got = linear_q4gsw(x, pack_int4(codes), padded_scales, GROUP, padded_bias)
    assert torch.equal(got, F.linear(x, weight, bias))
    assert torch.equal(linear_q4gsw(x, pack_int4(codes), padded_scales, GROUP, None), F.linear(x, weight))


@pytest.mark.parametrize("n", range(1, 10))
def test_dynamic_activations_for_every_number_of_outputs(n):
    codes, scales, weight = _weights(n)
    x, bias = torch.randn(2, 3, 64), torch.randn(n)
    low, high = x.amin(-1).clamp(max=0), x.amax(-1).clamp(min=0)
    x_scale = (high - low) / 255
    zero = (-128 - torch.round(low / x_scale)).clamp(-128, 127).to(torch.int8)
    q = torch.clamp(torch.round(x * (1.0 / x_scale[..., None])) + zero[..., None], -128, 127)
    dequantized = (q - zero[..., None].float()) * x_scale[..., None]
    arguments = (pack_int4(codes), pad_outputs(scales.t()), GROUP, pad_outputs(bias))
    got = linear_dq8ca_q4gsw(x, x_scale, zero, *arguments)
    assert torch.equal(got, F.linear(dequantized, weight, bias))
    # One value for each row, whatever shape holds it.
    assert torch.equal(linear_dq8ca_q4gsw(x, x_scale[..., None], zero[..., None], *arguments), got)
    assert not torch.equal(got, F.linear(x, weight, bias))


def test_a_512_to_1_head():
    codes, scales, weight = _weights(1, 512)
    x, bias = torch.randn(4, 512), torch.randn(1)
    got = linear_q4gsw(x, pack_int4(codes), pad_outputs(scales.t()), GROUP, pad_outputs(bias))
    assert got.shape == (4, 1)
    assert torch.equal(got, F.linear(x, weight, bias))


def test_static_8_bit():
    g = torch.Generator().manual_seed(0)
    codes = torch.randint(-127, 128, (5, 16), generator=g, dtype=torch.int8)
    scales, bias, x = torch.rand(5, generator=g), torch.randn(5, generator=g), 4 * torch.randn(3, 16, generator=g)
    q = torch.clamp(torch.round(x * (1.0 / 0.03)) - 7, -128, 127)
    assert (q == 127).any()
    expected = F.linear((q + 7) * 0.03, codes.float() * scales[:, None], bias)
    assert torch.equal(linear_q8ta_q8csw(x, 0.03, -7, codes, scales, bias), expected)


def test_a_group_that_does_not_divide():
    codes, scales, _ = _weights(4)
    with pytest.raises(OperatorError, match="64 inputs do not divide into groups of 48"):
        linear_q4gsw(torch.zeros(1, 64), pack_int4(codes), scales.t(), 48, None)
