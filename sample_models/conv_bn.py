"""Depthwise convolutions whose batch norms multiply by about 100.

The story: a depthwise convolution that hovers around a large mean leaves a small deviation to its batch norm, which takes
the mean off and multiplies the rest, rounding error included, by about 100. In float16 that error is most of what is left.
Folded into the convolution, the multiply happens before the one rounding.
"""

from __future__ import annotations

import torch
from torch import nn

from .batch_norms import settle

CHANNELS = 16
DEPTH = 4


class Block(nn.Module):
    """Depthwise 3x3, batch norm of scale ~100, relu6; pointwise, batch norm; and the input added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.depthwise_norm = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.pointwise_norm = nn.BatchNorm2d(channels)
        nn.init.normal_(self.depthwise.weight, std=0.004)
        assert self.depthwise.bias is not None
        nn.init.uniform_(self.depthwise.bias, -2.0, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.relu6(self.depthwise_norm(self.depthwise(x)))
        return x + self.pointwise_norm(self.pointwise(y))


class ConvBn(nn.Module):
    """[N, 3, H, W] -> [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, CHANNELS, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(CHANNELS))
        self.blocks = nn.Sequential(*(Block(CHANNELS) for _ in range(DEPTH)))
        self.head = nn.Linear(CHANNELS, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.blocks(nn.functional.relu6(self.stem(image)))
        return self.head(x.mean(dim=(2, 3)))


def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The network and one image [1, 3, 32, 32]. Cast both to float16 to see the error."""
    torch.manual_seed(0)
    model = settle(ConvBn(), (torch.rand(8, 3, 32, 32),))
    return model, (torch.rand(1, 3, 32, 32),)
