"""Mistakes planted into the project's own patterns, as they are really made: one thing of a rewrite lost or mixed up.

A plant is a name, the pattern it is planted into, a target, the part of a network in which it shows, and a function that puts the
mistake into the pattern with pytest's monkeypatch. The network around the part gives the other patterns something right to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from lowerscope import polyphase
from lowerscope.alignment import Aligner
from lowerscope.by_example import pattern_from
from lowerscope.check import Check
from lowerscope.ops import ort_webgpu, vulkan
from lowerscope.pattern import Match, Pattern
from lowerscope.patterns import fold_batch_norm, fuse_activation
from lowerscope.patterns.conv1d_as_conv2d import Conv1dAsConv2d
from lowerscope.patterns.conv2d_with_epilogue import Conv2dWithEpilogue
from lowerscope.patterns.conv_with_clamp import ConvWithClamp
from lowerscope.patterns.depthwise_conv_transpose_as_mul import DepthwiseConvTransposeAsMul
from lowerscope.patterns.im2col_conv_activation import Im2colConvActivation
from lowerscope.patterns.polyphase_conv_transpose import PolyphaseConvTranspose
from lowerscope.patterns.upsample_nearest_x2 import UpsampleNearestX2
from lowerscope.program import Program, capture
from tests.engine.nets import Of

aten = torch.ops.aten
CHANNELS = 8
SMALL = 7  #: channels of a batch norm of tiny variance, in which eps tells


class Plant(NamedTuple):
    """A mistake: where it is planted, on which target, the part of the network that shows it, and how it gets there.

    module: where in the network it shows. new: whether putting it in registers the pattern.
    """

    pattern: str
    target: str
    part: Callable[[], nn.Module]
    put_in: Callable[[Any], None]
    module: str = "part"
    new: bool = False


class Around(nn.Module):
    """[1, 3, 6, 6] -> conv, batch norm, relu -> `part` -> conv, relu, conv: what is right stands before and behind."""

    def __init__(self, part: nn.Module, channels: int) -> None:
        super().__init__()
        self.head, self.norm = nn.Conv2d(3, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS)
        self.part = part
        self.tail, self.end = nn.Conv2d(channels, 4, 3, padding=1), nn.Conv2d(4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.end(F.relu(self.tail(self.part(F.relu(self.norm(self.head(x)))))))


def program(plant: Plant) -> Program:
    """The network around a plant's part, its batch norms as after training, captured on one image."""
    torch.manual_seed(3)
    part = plant.part()
    with torch.no_grad():
        channels = part(torch.zeros(1, CHANNELS, 6, 6)).shape[1]
    module = Around(part, channels).eval()
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.running_mean, -0.5, 0.5)  # type: ignore[arg-type]
            nn.init.uniform_(norm.running_var, *((1e-5, 1e-3) if norm.weight.numel() == SMALL else (0.5, 2.0)))  # type: ignore[arg-type]
            nn.init.uniform_(norm.weight, 0.5, 1.5)
    half = plant.target == "ort-webgpu"
    image = torch.randn(1, 3, 6, 6)
    return capture(module.half() if half else module, (image.half() if half else image,))


# ---------------------------------------------------------------------- ways to get a pattern wrong
Call = Callable[[list[Any], Any], Any]


class Slipping:
    """An editor that makes a call of one op, or a constant, other than it is told to."""

    def __init__(self, edit: Any, of: Any, call: Call, constant: Callable[[torch.Tensor], torch.Tensor] | None) -> None:
        self._edit, self._of, self._call, self._constant = edit, of, call, constant

    def __getattr__(self, name: str) -> Any:
        return getattr(self._edit, name)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if target is self._of:
            target = self._call(given, self._edit) or target
        return self._edit.call(target, *given, **kwargs)

    def constant(self, value: Any, like: Any, suffix: str, key: Any) -> Any:
        if self._constant is not None and key[0] == self._of:
            value = self._constant(self._edit.constant_value(like))
        return self._edit.constant(value, like, suffix, key)


def _slip(
    monkeypatch: Any, pattern: type[Pattern], of: Any, call: Call = lambda args, edit: None,
    constant: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> None:  # fmt: skip
    """Let a pattern's rewrite call `of` with the arguments that `call` changes (it may return another op)."""
    right: Any = pattern.rewrite
    monkeypatch.setattr(
        pattern, "rewrite", lambda self, match, edit: right(self, match, Slipping(edit, of, call, constant))
    )


def _at(place: int, value: Any) -> Call:
    """Puts `value` at one argument; a function is given the old one and the editor."""

    def change(args: list[Any], edit: Any) -> None:
        args[place] = value(args[place], edit) if callable(value) else value

    return change


def _epilogue(place: int, value: Any) -> Callable[[Any], None]:
    return lambda m: _slip(m, Conv2dWithEpilogue, vulkan.conv2d_with_epilogue, _at(place, value))


def _without_operand_order(monkeypatch: Any) -> None:
    that = Check.that

    def waiving(check: Check, name: str, holds: bool, **said: Any) -> None:
        that(check, name, holds or name == "operand_order", **said)

    monkeypatch.setattr(Check, "that", waiving)


def _activation_before_the_sum(monkeypatch: Any) -> None:
    right = Conv2dWithEpilogue.rewrite

    def rewrite(self: Any, match: Match, edit: Any) -> Any:
        residual = match["residual"]
        if residual is None:
            return right(self, match, edit)
        made = right(self, replace(match, data={**match.data, "residual": None}), edit)
        return edit.call(aten.add.Tensor, made, residual["other"])

    monkeypatch.setattr(Conv2dWithEpilogue, "rewrite", rewrite)


def _folded(changed: Callable[[Any, dict[str, Any]], dict[str, Any]]) -> Callable[[Any], None]:
    right = fold_batch_norm._fold
    return lambda m: m.setattr(
        fold_batch_norm, "_fold", lambda spec, norm, edit: right(spec, changed(spec, norm), edit)
    )


def _folded_along_axis_0(monkeypatch: Any) -> None:
    right = fold_batch_norm._fold

    def fold(spec: Any, norm: dict[str, Any], edit: Any) -> tuple[torch.Tensor, torch.Tensor]:
        weight, bias = right(spec, norm, edit)
        if spec.transposed:
            value = {name: edit.constant_value(norm[name]).detach() for name in ("weight", "running_var")}
            scale = value["weight"] * (value["running_var"] + norm["eps"]).rsqrt()
            weight = edit.constant_value(spec.weight).detach() * scale.reshape(-1, 1, 1, 1)
        return weight, bias

    monkeypatch.setattr(fold_batch_norm, "_fold", fold)


def _phases(function: str, changed: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], None]:
    right = getattr(polyphase, function)
    return lambda m: m.setattr(polyphase, function, lambda *given: changed(right(*given)).contiguous())


def _swapped(args: list[Any], edit: Any) -> None:
    args[8] = args[8][::-1]


def _without_dilation(args: list[Any], edit: Any) -> None:
    args[4], args[5] = [0, 1], [1, 1]  # and with the padding that keeps the size


def _without_stride(args: list[Any], edit: Any) -> Any:
    args[3] = [1, 1]
    whole = edit.call(aten.convolution.default, *args)
    args[:] = [whole, 3, 0, (args[0].meta["val"].shape[3] + 1) // 2]  # as many as there should be, from the start
    return aten.slice.Tensor


def _literal_as_a_wildcard(monkeypatch: Any) -> None:
    monkeypatch.setattr(Aligner, "_literal_equals", lambda self, wanted, given: True)
    pattern_from(
        lambda x: torch.sigmoid(x) * 2.0 - 1.0, lambda x: torch.tanh(x * 0.5), [torch.randn(1, 2, 3, 3)],
        name="sigmoid_as_tanh",
    )  # fmt: skip


def _gate_off_by_one(monkeypatch: Any) -> None:
    pattern_from(
        lambda x: x[:, :4] * torch.sigmoid(x[:, 4:]), lambda x: x[:, :4] * torch.sigmoid(x[:, 3:7]),
        [torch.randn(1, 8, 3, 3)], name="gate",
    )  # fmt: skip


def _conv(outputs: int = CHANNELS) -> nn.Conv2d:
    return nn.Conv2d(CHANNELS, outputs, 3, padding=1)


def _behind(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], nn.Module]:
    return lambda: Of(lambda s, x: function(s.conv(x)), conv=_conv())


def _residual(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[], nn.Module]:
    return lambda: Of(lambda s, x: function(s.conv(x), x), conv=_conv())


def _row(conv: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: Of(lambda s, x: s.conv(x.mean(2)).unsqueeze(2), conv=conv())


def _row_of(**options: Any) -> Callable[[], nn.Module]:
    return _row(lambda: nn.Conv1d(CHANNELS, CHANNELS, 3, **options))


def _up(**options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.ConvTranspose2d(CHANNELS, CHANNELS, 4, stride=2, padding=1, **options)


def _scaled() -> nn.Module:
    return Of(lambda s, x: s.conv(x) + x * s.k, conv=_conv(), k=nn.Parameter(torch.rand(CHANNELS, 1, 1) + 1))


def _two_factors() -> nn.Module:
    return nn.Sequential(Of(lambda s, x: torch.sigmoid(x) * 2.0 - 1.0), Of(lambda s, x: torch.sigmoid(x) * 4.0 - 1.0))


PLANTS: dict[str, Plant] = {
    "alpha dropped": Plant(
        "conv2d_with_epilogue", "vulkan", _residual(lambda y, x: torch.add(y, x, alpha=0.25)), _epilogue(12, 1)
    ),
    "operand order lost": Plant(
        "conv2d_with_epilogue", "vulkan", _residual(lambda y, x: x - y), _without_operand_order
    ),
    "scale squared": Plant(
        "conv2d_with_epilogue", "vulkan", _scaled,
        _epilogue(10, lambda k, edit: k and edit.call(aten.mul.Tensor, k, k)),
    ),
    "activation before the sum instead of behind it": Plant(
        "conv2d_with_epilogue", "vulkan", _residual(lambda y, x: F.relu(y + x)), _activation_before_the_sum
    ),
    "lower bound dropped": Plant(
        "conv2d_with_epilogue", "vulkan", _behind(lambda y: F.hardtanh(y, -0.1, 0.4)),
        _epilogue(14, lambda low, edit: low and -math.inf),
    ),
    "slope taken for the default": Plant(
        "conv2d_with_epilogue", "vulkan", _behind(lambda y: F.leaky_relu(y, 0.3)),
        _epilogue(14, lambda slope, edit: slope and 0.01),
    ),
    "upper bound dropped": Plant(
        "conv_with_clamp", "webgpu", _behind(lambda y: F.hardtanh(y, 0.0, 0.2)),
        lambda m: _slip(m, ConvWithClamp, vulkan.conv_with_clamp, _at(10, math.inf)),
    ),
    "batch norm folded along axis 0 of a transposed weight": Plant(
        "fold_batch_norm", "vulkan",
        lambda: nn.Sequential(nn.ConvTranspose2d(CHANNELS, CHANNELS, 3), nn.BatchNorm2d(CHANNELS)), _folded_along_axis_0,
    ),
    "eps dropped": Plant(
        "fold_batch_norm", "vulkan", lambda: nn.Sequential(_conv(SMALL), nn.BatchNorm2d(SMALL)),
        _folded(lambda spec, norm: {**norm, "eps": 0.0}),
    ),
    "mean not subtracted": Plant(
        "fold_batch_norm", "qnn", lambda: nn.Sequential(_conv(5), nn.BatchNorm2d(5)),
        _folded(lambda spec, norm: {**norm, "running_mean": None} if spec.out_channels == 5 else norm),
    ),
    "bias lost": Plant(
        "conv1d_as_conv2d", "qnn", _row_of(padding=1),
        lambda m: _slip(m, Conv1dAsConv2d, aten.convolution.default, _at(2, None)),
    ),
    "dilation ignored": Plant(
        "conv1d_as_conv2d", "qnn", _row_of(padding=2, dilation=2),
        lambda m: _slip(m, Conv1dAsConv2d, aten.convolution.default, _without_dilation),
    ),
    "stride ignored": Plant(
        "conv1d_as_conv2d", "vulkan", _row_of(padding=1, stride=2),
        lambda m: _slip(m, Conv1dAsConv2d, aten.convolution.default, _without_stride),
    ),
    "second range put in the place of the first": Plant(
        "fuse_activation", "xnnpack", _behind(lambda y: F.hardtanh(F.relu(y), -0.2, 0.2)),
        lambda m: m.setattr(fuse_activation, "_composed", lambda anchor, then: then),
    ),
    "taps of a phase not reversed": Plant(
        "polyphase_conv_transpose", "xnnpack", _up(groups=CHANNELS), _phases("phase_weight", lambda w: w.flip(2))
    ),
    "phases off by one": Plant(
        "polyphase_conv_transpose", "xnnpack", _up(), _phases("dense_weight", lambda w: w.roll(CHANNELS, 0))
    ),
    "bias repeated by channel instead of by phase": Plant(
        "polyphase_conv_transpose", "xnnpack", _up(),
        lambda m: _slip(m, PolyphaseConvTranspose, "repeat", constant=lambda bias: bias.repeat_interleave(4)),
    ),
    "channels before phases in the interleave": Plant(
        "upsample_nearest_x2", "xnnpack", lambda: nn.Upsample(scale_factor=2),
        lambda m: _slip(
            m, UpsampleNearestX2, torch.ops.lowerscope_xnnpack.depth_to_space_2d.default,
            lambda args, edit: aten.pixel_shuffle.default,
        ),
    ),
    "taps mirrored": Plant(
        "depthwise_conv_transpose_as_mul", "xnnpack",
        _row(lambda: nn.ConvTranspose1d(CHANNELS, CHANNELS, 3, stride=3, groups=CHANNELS)),
        lambda m: _slip(
            m, DepthwiseConvTransposeAsMul, aten.mul.Tensor, _at(1, lambda w, edit: edit.call(aten.flip.default, w, [2]))
        ),
    ),
    "slots of a clip swapped": Plant(
        "im2col_conv_activation", "ort-webgpu", _behind(lambda y: F.hardtanh(y, -0.1, 0.4)),
        lambda m: _slip(m, Im2colConvActivation, ort_webgpu.im2col_conv_activation, _swapped),
    ),
    "a literal taken as a wildcard": Plant(
        "sigmoid_as_tanh", "qnn", _two_factors, _literal_as_a_wildcard, module="part.1", new=True
    ),
    "gate off by one channel": Plant(
        "gate", "vulkan", lambda: Of(lambda s, x: x[:, :4] * torch.sigmoid(x[:, 4:])), _gate_off_by_one, new=True
    ),
}  # fmt: skip
