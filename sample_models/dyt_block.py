"""Dynamic Tanh instead of a norm: ``gamma * tanh(alpha * x) + beta``, quantized to int8.

The story: alpha folds into the table that computes tanh, always and to the byte. gamma and beta fold into the convolution
behind them only where the integer path from code to code is an integer-affine map; with gamma = 1 it is, with a realistic
gamma it is not, and the first channel and code at which it breaks can be named. In front of a padded convolution beta stays.
"""

from __future__ import annotations

import torch
from torch import nn

CHANNELS = 8
LAYOUTS = ("nchw", "nhwc")


class DyT(nn.Module):
    """``gamma * tanh(alpha * x) + beta`` over the channels, which are axis 1 ("nchw") or the last one ("nhwc")."""

    def __init__(self, channels: int, layout: str, realistic: bool) -> None:
        super().__init__()
        shape = (channels, 1, 1) if layout == "nchw" else (channels,)
        self.alpha = nn.Parameter(torch.tensor([0.7]))
        self.gamma = nn.Parameter(1 + 0.3 * torch.randn(shape) if realistic else torch.ones(shape))
        self.beta = nn.Parameter(0.2 * torch.randn(shape) if realistic else torch.zeros(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gamma * torch.tanh(self.alpha * x) + self.beta


class DyTConv(nn.Module):
    """Two residual blocks of DyT, convolution and relu: [N, C, H, W] -> [N, C, H, W].

    In the layout "nhwc" DyT sees [N, H, W, C], with a permute before it and one after it.
    """

    def __init__(self, layout: str, realistic: bool, padded: bool) -> None:
        super().__init__()
        self.layout = layout
        kernel = 3 if padded else 1
        self.stem = nn.Conv2d(CHANNELS, CHANNELS, 1)
        self.norms = nn.ModuleList(DyT(CHANNELS, layout, realistic) for _ in range(2))
        self.convs = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, kernel, padding=kernel // 2) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            y = norm(x) if self.layout == "nchw" else norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            x = x + torch.relu(conv(y))
        return x


class DyTTransformer(nn.Module):
    """A gated token-mixing block and a feed-forward block, each behind a DyT: [N, T, C] -> [N, T, C]."""

    def __init__(self, realistic: bool, tokens: int = 6) -> None:
        super().__init__()
        self.norms = nn.ModuleList(DyT(CHANNELS, "nhwc", realistic) for _ in range(2))
        self.value, self.gate = nn.Linear(CHANNELS, CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.mix = nn.Linear(tokens, tokens)
        self.up, self.down = nn.Linear(CHANNELS, 2 * CHANNELS), nn.Linear(2 * CHANNELS, CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](x)
        mixed = self.mix(self.value(y).permute(0, 2, 1)).permute(0, 2, 1)
        x = x + mixed * torch.tanh(self.gate(y))
        return x + self.down(torch.relu(self.up(self.norms[1](x))))


def float_model(
    kind: str = "conv", layout: str = "nchw", realistic: bool = False, padded: bool = False
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The network before quantization, and its input: [1, 8, 6, 6] for "conv", [1, 6, 8] for "transformer".

    Raises:
        ValueError: the kind or the layout is unknown.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"there is no layout {layout!r} of dyt_block: use one of {', '.join(LAYOUTS)}")
    torch.manual_seed(0)
    if kind == "conv":
        return DyTConv(layout, realistic, padded).eval(), (torch.randn(1, CHANNELS, 6, 6),)
    if kind == "transformer":
        return DyTTransformer(realistic).eval(), (torch.randn(1, 6, CHANNELS),)
    raise ValueError(f"there is no kind {kind!r} of dyt_block: use 'conv' or 'transformer'")


def build(
    kind: str = "conv", layout: str = "nchw", realistic: bool = False, padded: bool = False
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The quantized network and its input; see `float_model`. Needs the extra ``quantize``."""
    from lowerscope.static_int8 import quantize

    model, args = float_model(kind, layout, realistic, padded)
    return quantize(model, args), args
