"""ResNet-50's shape at a sixteenth of its width, in float16.

The story: of its 53 convolutions 17 have a kernel larger than 1x1 and qualify for im2col, and 3 are strided 1x1, which
no matrix product takes as they are: 20 for the generic kernel, unless the device is one for which im2col is chosen.
"""

from __future__ import annotations

import torch
from torch import nn

from .batch_norms import settle

WIDTH = 4
STAGES = (3, 4, 6, 3)
EXPANSION = 4


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1, each with a batch norm, added to the input or to its projection."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.reduce = _conv_norm(inputs, width, 1)
        self.spatial = _conv_norm(width, width, 3, stride)
        self.expand = _conv_norm(width, outputs, 1)
        self.project = None if inputs == outputs else _conv_norm(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.reduce(x))
        y = torch.relu(self.spatial(y))
        kept = x if self.project is None else self.project(x)
        return torch.relu(self.expand(y) + kept)


class ResNet50Like(nn.Module):
    """[N, 3, H, W] -> [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv_norm(3, WIDTH, 7, 2)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks, inputs = [], WIDTH
        for stage, depth in enumerate(STAGES):
            width = WIDTH * 2**stage
            for index in range(depth):
                blocks.append(Bottleneck(inputs, width, stride=2 if stage and not index else 1))
                inputs = width * EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.pool(torch.relu(self.stem(image))))
        return self.head(x.mean(dim=(2, 3)))


def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The network and one image [1, 3, 64, 64], both in float16."""
    torch.manual_seed(0)
    model = settle(ResNet50Like(), (torch.rand(8, 3, 64, 64),))
    return model.half(), (torch.rand(1, 3, 64, 64).half(),)
