"""An inpainting decoder: three depthwise transposed convolutions, and dense ones after them.

The story: a 4x4 transposed convolution of stride 2 writes each output pixel four times. Split by output phase it is
ordinary convolutions whose results are interleaved, which a CPU kernel computes several times faster. The depthwise form and
the dense form are split in two different ways.
"""

from __future__ import annotations

import torch
from torch import nn

CHANNELS = 12
DEPTHWISE = 3
DENSE = ((CHANNELS, 8), (8, 6))


class DepthwiseUp(nn.Module):
    """[N, C, H, W] -> [N, C, 2H, 2W]: a depthwise transposed convolution, then a pointwise one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, channels, 4, stride=2, padding=1, groups=channels)
        self.mix = nn.Conv2d(channels, channels, 1)
        # A transposed convolution's fan-in is a quarter of its kernel: the default start would fade the signal out.
        nn.init.normal_(self.up.weight, std=0.5)
        nn.init.kaiming_normal_(self.mix.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.mix(self.up(x)))


class DenseUp(nn.Module):
    """[N, A, H, W] -> [N, B, 2H, 2W]: a dense transposed convolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1)
        nn.init.kaiming_normal_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.up(x))


class Upsampler(nn.Module):
    """Features [N, 12, H, W] and a mask [N, 1, H, W] -> an image [N, 3, 32H, 32W]."""

    def __init__(self) -> None:
        super().__init__()
        self.join = nn.Conv2d(CHANNELS + 1, CHANNELS, 3, padding=1)
        self.depthwise = nn.Sequential(*(DepthwiseUp(CHANNELS) for _ in range(DEPTHWISE)))
        self.dense = nn.Sequential(*(DenseUp(*sizes) for sizes in DENSE))
        self.to_image = nn.Conv2d(DENSE[-1][1], 3, 3, padding=1)

    def forward(self, features: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.join(torch.cat([features, mask], dim=1)))
        return torch.tanh(self.to_image(self.dense(self.depthwise(x))))


def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The decoder, with features [1, 12, 3, 3] and a mask [1, 1, 3, 3]."""
    torch.manual_seed(0)
    return Upsampler().eval(), (torch.randn(1, CHANNELS, 3, 3), torch.ones(1, 1, 3, 3).triu())
