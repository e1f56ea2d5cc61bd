"""DSR: a super-resolution network with 83 skips of the form ``conv(x) + x * scale``.

The story: each skip is a convolution, a multiply, an addition and a relu, four operators where a device needs one. A
pattern that takes the residual *with its scale* into the convolution removes 83 multiplies and 83 additions at once. One
layer in which the skip is spelled a little differently is left out, and the question is why.
"""

from __future__ import annotations

import torch
from torch import nn

BODY, DETAIL, TAIL = 60, 16, 7
"""Skips in each part; 83 altogether."""
SKIPS = BODY + DETAIL + TAIL
_STAGE = 4
CHANNELS = 6

VARIANTS = ("scale_1111", "alpha_second", "shared_mul")
"""The spellings that can be planted in ``detail.1``: a scale of shape [1, 1, 1, 1]; an addition with alpha = 2 whose second
operand is the convolution; a product that something else reads too."""


class Skip(nn.Module):
    """``relu(conv(x) + x * scale)``, [1, C, H, W] -> [1, C, H, W]."""

    def __init__(self, channels: int, kernel: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2)
        self.scale = nn.Parameter(0.85 + 0.15 * torch.rand(1, channels, 1, 1))
        # Without a mean, so that the all-positive features do not grow from one of the 83 layers to the next.
        with torch.no_grad():
            self.conv.weight -= self.conv.weight.mean(dim=(1, 2, 3), keepdim=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x) + x * self.scale)


class SkipScale1111(Skip):
    """The scale is one number for all channels, which is no per-channel vector."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.scale = nn.Parameter(torch.full((1, 1, 1, 1), 0.8))


class SkipAlphaSecond(Skip):
    """``x * scale + 2 * conv(x)``: alpha belongs to the second operand, which is the convolution."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.add(x * self.scale, self.conv(x), alpha=2))


class SkipSharedMul(Skip):
    """The product leaves the block a second time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled = x * self.scale
        return torch.relu(self.conv(x) + scaled) - scaled


_PLANTED = {"scale_1111": SkipScale1111, "alpha_second": SkipAlphaSecond, "shared_mul": SkipSharedMul}


class DSR(nn.Module):
    """[1, 3, H, W] -> [1, 3, 2H, 2W]."""

    def __init__(self, channels: int = CHANNELS, variant: str | None = None) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), nn.ReLU())
        self.body = nn.Sequential(*(Skip(channels) for _ in range(BODY)))
        # After each stage of the body its features are mixed and kept.
        self.mix = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in range(BODY // _STAGE))
        self.gather = nn.Conv2d(channels * (BODY // _STAGE), channels, 1)
        self.detail = nn.Sequential(*(Skip(channels, kernel=1) for _ in range(DETAIL)))
        if variant is not None:
            self.detail[1] = _PLANTED[variant](channels)
        self.up = nn.Sequential(nn.Conv2d(channels, 4 * channels, 1), nn.PixelShuffle(2))
        self.tail = nn.Sequential(*(Skip(channels) for _ in range(TAIL)))
        self.to_image = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.head(image)
        kept = []
        for stage, mix in enumerate(self.mix):
            x = self.body[stage * _STAGE : (stage + 1) * _STAGE](x)
            kept.append(torch.relu(mix(x)))
        x = self.detail(self.gather(torch.cat(kept, dim=1)))
        x = self.tail(self.up(x))
        return self.to_image(x)


def build(variant: str | None = None) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The network and one image [1, 3, 16, 16]; with a `variant` of `VARIANTS`, 82 skips are as they should be.

    Raises:
        ValueError: the variant is none of them.
    """
    if variant is not None and variant not in VARIANTS:
        raise ValueError(f"there is no variant {variant!r} of dsr: use one of {', '.join(VARIANTS)}")
    torch.manual_seed(0)
    return DSR(variant=variant).eval(), (torch.rand(1, 3, 16, 16),)
