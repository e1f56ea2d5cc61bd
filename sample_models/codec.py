"""A streaming audio decoder: one latent frame in, 64 samples out.

The story: the depthwise upsampler sees a single input step, where a transposed convolution is a mere multiply, and the dense
upsamplers have a kernel of twice their stride, which splits into one convolution for all phases. On several frames at once
the multiply no longer holds, and the depthwise upsampler is split by phase instead: two patterns compete for one node.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

LATENT = 24
STRIDES = (4, 4, 2)
"""Of the dense upsamplers; the depthwise one before them has stride 2."""


class CausalConv(nn.Module):
    """A 1-D convolution that looks back only: [N, A, L] -> [N, B, L]."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation)
        self.back = (kernel - 1) * dilation
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="linear")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.pad(x, (self.back, 0)))


class CausalUp(nn.Module):
    """A transposed convolution with kernel = 2 * stride, its tail cut: [N, A, L] -> [N, B, L * stride]."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, 2 * stride, stride=stride, groups=groups, bias=groups == 1)
        self.stride = stride
        nn.init.normal_(self.conv.weight, std=(2 * inputs // groups) ** -0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)[..., : -self.stride]


class Residual(nn.Module):
    """``x + conv(elu(conv(elu(x))))``."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.first = CausalConv(channels, channels // 2, 3, dilation)
        self.second = CausalConv(channels // 2, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(F.elu(self.first(F.elu(x))))


class Codec(nn.Module):
    """Latent frames [N, 24, T] -> samples [N, 1, 64T]."""

    def __init__(self) -> None:
        super().__init__()
        self.upsample = CausalUp(LATENT, LATENT, 2, groups=LATENT)
        widths = (24, 20, 16, 8)
        self.first = CausalConv(LATENT, widths[0], 3)
        self.up = nn.ModuleList(CausalUp(widths[i], widths[i + 1], stride) for i, stride in enumerate(STRIDES))
        self.residual = nn.ModuleList(Residual(width, 2) for width in widths[1:])
        self.last = CausalConv(widths[-1], 1, 3)

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        x = self.first(self.upsample(latent))
        for up, residual in zip(self.up, self.residual, strict=True):
            x = residual(up(F.elu(x)))
        return torch.tanh(self.last(F.elu(x)))


def build(frames: int = 1) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The decoder and latent frames [1, 24, `frames`]; one frame is how it streams."""
    torch.manual_seed(0)
    return Codec().eval(), (torch.randn(1, LATENT, frames),)
