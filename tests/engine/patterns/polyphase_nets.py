"""Transposed convolutions for the tests of polyphase_conv_transpose."""

from __future__ import annotations

import torch
from torch import nn

from tests.engine.patterns.vulkan_nets import net

PATTERN = "polyphase_conv_transpose"
DENSE_2D = lambda: nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1)  # noqa: E731
DEPTHWISE_2D = lambda: nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1, groups=4)  # noqa: E731
DEPTHWISE_1D = lambda: nn.ConvTranspose1d(4, 4, 4, stride=2, padding=1, groups=4)  # noqa: E731


def up(conv, *others, x=None, then=lambda y, s: y, shapes=None):
    return net(then, *others, x=torch.randn(2, 4, 5, 3) if x is None else x, conv=conv, shapes=shapes)
