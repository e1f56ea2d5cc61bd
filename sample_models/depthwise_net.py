"""A network of depthwise and 1x1 convolutions, in float16: none qualifies for im2col.

The story: a kernel that is faster for dense 3x3 convolutions is of no use where there are none, whatever the device. Each
convolution names the kernel that takes it instead.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from .batch_norms import settle

WIDTHS = (8, 12, 16, 24)


class SqueezeExcite(nn.Module):
    """Scales each channel by what its mean suggests."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        squeezed = x.mean(dim=(2, 3), keepdim=True)
        return x * nn.functional.hardsigmoid(self.expand(torch.relu(self.reduce(squeezed))))


class InvertedBottleneck(nn.Module):
    """1x1 to twice the width, depthwise, squeeze and excite, 1x1 to the new width."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        hidden = 2 * inputs
        self.expand = nn.Sequential(nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden))
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, kernel, stride=stride, padding=kernel // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
        )
        self.excite = SqueezeExcite(hidden)
        self.reduce = nn.Sequential(nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.hardswish(self.expand(x))
        y = nn.functional.hardswish(self.depthwise(y))
        y = self.reduce(self.excite(y))
        return x + y if self.adds else y


class DepthwiseNet(nn.Module):
    """[N, 3, H, W] -> [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        # Patches of 2x2 pixels become channels, so that the stem is a 1x1 convolution as well.
        self.patches = nn.PixelUnshuffle(2)
        self.stem = nn.Sequential(nn.Conv2d(12, WIDTHS[0], 1, bias=False), nn.BatchNorm2d(WIDTHS[0]))
        blocks = []
        for index, (inputs, outputs) in enumerate(pairwise(WIDTHS)):
            kernel = 3 if index % 2 == 0 else 5
            blocks += [InvertedBottleneck(inputs, inputs, kernel, 1), InvertedBottleneck(inputs, outputs, kernel, 2)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Conv2d(WIDTHS[-1], 10, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = nn.functional.hardswish(self.stem(self.patches(image)))
        return self.head(self.blocks(x).mean(dim=(2, 3), keepdim=True)).flatten(1)


def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The network and one image [1, 3, 32, 32], both in float16."""
    torch.manual_seed(0)
    model = settle(DepthwiseNet(), (torch.rand(8, 3, 32, 32),))
    return model.half(), (torch.rand(1, 3, 32, 32).half(),)
