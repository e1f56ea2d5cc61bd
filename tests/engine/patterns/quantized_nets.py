"""Linears between quantize and dequantize nodes, written out by hand: one of each form, with every part open to change."""

from __future__ import annotations

from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
from torch import nn

q = torch.ops.quantized_decomposed
INT8 = torch.int8


class QuantizedLinear(nn.Module):
    """y = act(x) · dq(w)^T + b, w [N, K].

    activation: "float", "static", "dynamic", or "outside" (codes come in). bits and group: of the weight (group None: a
    scale for each output). parameters of the static form may differ between quantize and dequantize.
    """

    def __init__(
        self,
        n: int = 8,
        k: int = 32,
        *,
        bits: int = 8,
        group: int | None = None,
        activation: str = "static",
        bias: bool = True,
        zero_point: int = 0,
        quantize: tuple[Any, ...] = (0.05, 3, -128, 127),
        dequantize: tuple[Any, ...] | None = None,
        rows: bool = True,
        scaled: float = 1.0,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(n * 100 + k)
        top = 2 ** (bits - 1)
        shape = (n, k) if rows else (k, n)
        codes = torch.randint(-top + 1, top, shape, generator=generator, dtype=INT8)
        self.register_buffer("codes", codes)
        groups = (n, k // group) if group else (shape[0],)
        self.register_buffer("scales", torch.rand(groups, generator=generator) * 0.05 + 0.01)
        self.register_buffer("zero_points", torch.full(groups, zero_point, dtype=torch.int64))
        self.bias = nn.Parameter(torch.randn(n, generator=generator)) if bias else None
        self.bits, self.group, self.activation, self.rows = bits, group, activation, rows
        self.quantize, self.dequantize, self.scaled = quantize, dequantize or quantize, scaled

    def weight(self) -> torch.Tensor:
        low, high = -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1
        if self.group:
            return q.dequantize_per_channel_group(
                self.codes, self.scales, self.zero_points, low, high, INT8, self.group, torch.float32
            )
        return q.dequantize_per_channel(self.codes, self.scales, self.zero_points, 0, low, high, INT8)

    def input(self, x: torch.Tensor) -> torch.Tensor:
        if self.activation == "static":
            return q.dequantize_per_tensor(q.quantize_per_tensor(x, *self.quantize, INT8), *self.dequantize, INT8)
        if self.activation == "dynamic":
            scale, zero_point = q.choose_qparams_per_token_asymmetric(x, INT8)
            codes = q.quantize_per_token(x, scale, zero_point, -128, 127, INT8)
            return q.dequantize_per_token(codes, scale, zero_point, -128, 127, INT8, torch.float32)
        if self.activation == "outside":
            return q.dequantize_per_tensor(x, *self.dequantize, INT8)
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, weight = self.input(x), self.weight()
        if not self.rows:
            return torch.addmm(self.bias, x, weight) if self.bias is not None else torch.mm(x, weight)
        if self.scaled != 1.0 and self.bias is not None:
            return torch.addmm(self.bias, x, weight.t(), alpha=self.scaled)
        return nn.functional.linear(x, weight, self.bias)


def linear(*shape: int, **options: Any):
    """A maker of (QuantizedLinear, (x,)), as a test's case takes it; `shape` is x's, [4, K] by default."""

    def make():
        k = options.get("k", 32)
        x = torch.randn(shape or (4, k))
        if options.get("activation") == "outside":
            x = torch.randint(-128, 128, x.shape, dtype=INT8)
        return QuantizedLinear(**options), (x,)

    return make
