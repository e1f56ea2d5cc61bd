"""A small regressor with a 512 -> 1 head, quantized in four ways, of which a GPU backend has kernels for three.

The story: 8-bit weights with static 8-bit activations, and 4-bit weights with dynamic ones, have a kernel at any number of
outputs. 4-bit weights alone have one in blocks of 4 outputs, which leaves the head out. 8-bit weights alone have none: every
linear stays outside the delegate, and so do the operators that dequantize for it.
"""

from __future__ import annotations

import torch
from torch import nn

INPUTS, HIDDEN, WIDE = 64, 64, 512
GROUP = 32
MODES = ("static8", "8w", "4w", "8da4w")
"""8-bit static; 8-bit weight-only; 4-bit weight-only; 4-bit weights with 8-bit dynamic activations."""


class Mlp(nn.Module):
    """[N, 64] -> [N, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, HIDDEN)
        self.second = nn.Linear(HIDDEN, WIDE)
        self.head = nn.Linear(WIDE, 1)
        for layer in (self.first, self.second, self.head):
            nn.init.kaiming_normal_(layer.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.second(torch.relu(self.first(x)))))


def float_model() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The network before quantization, and its input [2, 64]."""
    torch.manual_seed(0)
    return Mlp().eval(), (torch.randn(2, INPUTS),)


def build(mode: str = "static8") -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The network quantized in one of `MODES`, and its input [2, 64]. Needs the extra ``quantize``.

    Raises:
        ValueError: the mode is none of them.
    """
    if mode not in MODES:
        raise ValueError(f"there is no mode {mode!r} of quantized_mlp: use one of {', '.join(MODES)}")
    model, args = float_model()
    if mode == "static8":
        from lowerscope.static_int8 import quantize

        return quantize(model, args), args
    return _with_torchao(model, mode), args


def _with_torchao(model: nn.Module, mode: str) -> nn.Module:
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup
    from torchao.utils import unwrap_tensor_subclass

    int4: torch.dtype = torch.int4  # pyright: ignore[reportAttributeAccessIssue]
    configs = {
        "8w": IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)),
        "4w": IntxWeightOnlyConfig(weight_dtype=int4, granularity=PerGroup(GROUP)),
        "8da4w": Int8DynamicActivationIntxWeightConfig(weight_dtype=int4, weight_granularity=PerGroup(GROUP)),
    }
    quantize_(model, configs[mode])
    # Export traces plain tensors: the quantized weights, scales and zero points become parameters of their own.
    return unwrap_tensor_subclass(model)
