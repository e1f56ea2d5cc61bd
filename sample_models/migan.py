"""MI-GAN: an encoder-decoder for inpainting that a backend cuts into pieces.

The story: every nearest x2 upsample that the backend does not take ends one region and starts another, so that six of them
make seven. The noise maps of shape [H, W] and the gains of 1.4142 drag activations from one memory layout to the other.
All of it works in float16.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

CHANNELS = 6
LEVELS = 6
GAIN = 1.4142


def _blur(channels: int, gain: float) -> torch.Tensor:
    """The [1, 3, 3, 1] filter in both directions, one copy a channel: [C, 1, 4, 4]."""
    taps = torch.tensor([1.0, 3.0, 3.0, 1.0])
    kernel = torch.outer(taps, taps)
    return (gain * kernel / kernel.sum()).expand(channels, 1, 4, 4).clone()


class Separable(nn.Module):
    """A depthwise 3x3 and a pointwise convolution, a leaky relu, a gain, a clamp: [N, A, H, W] -> [N, B, H, W]."""

    def __init__(self, inputs: int, outputs: int, size: int | None = None) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs)
        self.pointwise = nn.Conv2d(inputs, outputs, 1)
        nn.init.kaiming_normal_(self.depthwise.weight)
        nn.init.kaiming_normal_(self.pointwise.weight, nonlinearity="linear")
        self.noise: torch.Tensor | None
        self.register_buffer("noise", None if size is None else torch.randn(size, size))
        self.strength = None if size is None else nn.Parameter(torch.tensor(0.3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.leaky_relu(self.depthwise(x), 0.2) * GAIN
        x = self.pointwise(x)
        if self.noise is not None and self.strength is not None:
            x = x + self.noise * self.strength
        return torch.clamp(F.leaky_relu(x, 0.2) * GAIN, -256.0, 256.0)


class Down(nn.Module):
    """Half the height and width: a depthwise blur of stride 2, then a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("blur", _blur(CHANNELS, 1.0))
        self.conv = Separable(CHANNELS, CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.conv2d(x, self.get_buffer("blur"), stride=2, padding=1, groups=CHANNELS))


class Up(nn.Module):
    """Twice the height and width: features by nearest neighbour, the image by a depthwise upfirdn."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.conv = Separable(CHANNELS, CHANNELS, size)
        self.to_image = nn.Conv2d(CHANNELS, 3, 1)
        self.register_buffer("blur", _blur(3, 4.0))

    def forward(self, x: torch.Tensor, kept: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest") + kept)
        image = F.conv_transpose2d(image, self.get_buffer("blur"), stride=2, padding=1, groups=3)
        return x, image + self.to_image(x)


class MiGan(nn.Module):
    """Image and mask [N, 4, 64, 64] -> [N, 3, 64, 64]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(4, CHANNELS, 1)
        self.down = nn.ModuleList(Down() for _ in range(LEVELS))
        self.up = nn.ModuleList(Up(2**level) for level in range(1, LEVELS + 1))
        self.first_image = nn.Conv2d(CHANNELS, 3, 1)

    def forward(self, masked: torch.Tensor) -> torch.Tensor:
        x = F.leaky_relu(self.stem(masked), 0.2) * GAIN
        kept = []
        for down in self.down:
            kept.append(x)
            x = down(x)
        image = self.first_image(x)
        for up in self.up:
            x, image = up(x, kept.pop(), image)
        return image


def build() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The generator and one masked image [1, 4, 64, 64]."""
    torch.manual_seed(0)
    mask = torch.zeros(1, 1, 64, 64)
    mask[..., 16:40, 20:52] = 1.0
    image = (2 * torch.rand(1, 3, 64, 64) - 1) * (1 - mask)
    return MiGan().eval(), (torch.cat([image, mask - 0.5], dim=1),)
