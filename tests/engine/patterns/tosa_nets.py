"""Small integer networks for the patterns of Ethos-U: operators between quantize nodes, and DyT sites of TOSA operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators of quantized graphs
from torch import nn

from lowerscope.lowering import Lowering
from lowerscope.measure.parity import parity
from lowerscope.ops import tosa
from lowerscope.program import Program
from lowerscope.recipe import Recipe
from lowerscope.tosa.rescaling import Rescaling

q = torch.ops.quantized_decomposed
INT8 = torch.int8
CHANNELS = 4


class Net(nn.Module):
    """`f(x, net)` or `f(x, y, net)`, with tensors of the net's own as buffers."""

    def __init__(self, f: Callable[..., Any], **tensors: torch.Tensor) -> None:
        super().__init__()
        self.f = f
        for name, value in tensors.items():
            self.register_buffer(name, value)

    def forward(self, x, y=None):
        return self.f(x, self) if y is None else self.f(x, y, self)


def net(f: Callable[..., Any], x: torch.Tensor | None = None, y: torch.Tensor | None = None, **tensors: torch.Tensor):
    """A factory of (Net, args); x is [2, 4, 3, 3] where none is given."""

    def make():
        args = (torch.randn(2, CHANNELS, 3, 3) if x is None else x,)
        return Net(f, **tensors), (args if y is None else (*args, y))

    return make


def quantized(x, scale=0.03, zero_point=5, low=-128, high=127, dtype=INT8):
    """Codes."""
    return q.quantize_per_tensor(x, scale, zero_point, low, high, dtype)


def real(x, scale=0.03, zero_point=5, low=-128, high=127, dtype=INT8):
    """A real value by way of codes."""
    return q.dequantize_per_tensor(
        quantized(x, scale, zero_point, low, high, dtype), scale, zero_point, low, high, dtype
    )


def tensors_of_conv(*shape: int, seed: int = 1, axis: int = 0) -> dict[str, torch.Tensor]:
    """codes, scales, zeros and bias of a convolution's weight; scales lie along `axis`."""
    generator = torch.Generator().manual_seed(seed)
    outputs = shape[axis]
    return {
        "codes": torch.randint(-127, 128, shape, generator=generator, dtype=INT8),
        "scales": torch.rand(outputs, generator=generator) * 0.01 + 0.002,
        "zeros": torch.zeros(outputs, dtype=torch.int64),
        "bias": torch.randn(outputs, generator=generator) * 0.2,
    }


def weight(s, axis=0):
    """A net's weight, dequantized channel by channel."""
    return q.dequantize_per_channel(s.codes, s.scales, s.zeros, axis, -127, 127, INT8)


# ---------------------------------------------------------------------- integer graphs
def rescale(x, scale: float | list[float] = 1.0, input_zp=0, output_zp=0, dtype=torch.int32, axis=0):
    """A RESCALE by one factor or several."""
    r = Rescaling.by(scale)
    return tosa.rescale(x, list(r.multiplier), list(r.shift), input_zp, output_zp, axis, dtype)


def as_int8(x, scale: float | list[float] = 1.0, output_zp=0, axis=0):
    """A RESCALE of int32 to int8 codes."""
    return rescale(x, scale, 0, output_zp, INT8, axis)


def codes(*shape: int, seed: int = 2) -> torch.Tensor:
    """int8 codes of any value; every code is among them where there are enough elements."""
    generator = torch.Generator().manual_seed(seed)
    count = int(torch.tensor(shape).prod())
    drawn = torch.arange(count, dtype=torch.int64)[torch.randperm(count, generator=generator)] % 256 - 128
    return drawn.to(INT8).reshape(shape)


TANH = torch.round(127 * torch.tanh(torch.arange(-128, 128) / 40)).to(INT8)
#: gamma and beta as codes; with a factor of 1/64 behind the MUL, 64 stands for 1
ONE = torch.full((CHANNELS, 1, 1), 64, dtype=INT8)
SOME = torch.tensor([64, 0, 64, 0], dtype=INT8).reshape(CHANNELS, 1, 1)
NONE = torch.zeros(CHANNELS, 1, 1, dtype=INT8)
KERNEL = torch.randint(-100, 100, (6, CHANNELS, 1, 1), generator=torch.Generator().manual_seed(3)).to(INT8)
BIAS = torch.arange(6, dtype=torch.int32) * 100


def dyt(
    x, s, *, gamma=None, beta=None, table_zp=0, middle_zp=0, out_zp=0, unit: float | list[float] = 1 / 64, up=2.0**16
):
    """TABLE, gamma's MUL and beta's ADD between RESCALEs: int8 codes of x's shape."""
    t = tosa.table(x, s.table)
    gamma, beta = s.gamma if gamma is None else gamma, s.beta if beta is None else beta
    m = as_int8(tosa.mul(rescale(t, 1.0, table_zp), rescale(gamma), 0), unit, middle_zp)
    return as_int8(tosa.add(rescale(m, up, middle_zp), rescale(beta, up)), 1 / up, out_zp)


def conv(x, s, *, padding=0, groups=1, input_zp=0, bias=True, kernel=None):
    """CONV2D of a net's weight and bias."""
    return tosa.conv2d(
        x, s.weight if kernel is None else kernel, s.bias if bias else None, [1, 1], [padding] * 2, [1, 1], groups,
        input_zp,
    )  # fmt: skip


def site(f=None, x=None, y=None, **tensors: torch.Tensor):
    """A factory of a net with a DyT site's tensors; f is the plain site and its convolution where none is given."""
    held = {"table": TANH, "gamma": ONE, "beta": NONE, "weight": KERNEL, "bias": BIAS, **tensors}
    return net(f or (lambda x, s: conv(dyt(x, s), s)), codes(2, CHANNELS, 8, 8) if x is None else x, y, **held)


def folds(recipe: Recipe) -> Recipe:
    """Both folds on. fold_constants is off: it would take the RESCALEs of constants, which lower_to_tosa makes after it."""
    return recipe.enable("fold_dyt_alpha", "fold_dyt_affine").disable("fold_constants")


def assert_same_bytes(program: Program, lowering: Lowering) -> None:
    """The lowered program is valid and gives the very bytes of `program`, on its inputs and on drawn ones."""
    lowering.program.exported_program.validate()
    report = parity(program, lowering.program, oracle=False)
    assert report.verdict == "equal", str(report)
