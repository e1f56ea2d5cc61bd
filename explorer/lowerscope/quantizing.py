"""A quantized program of a float module in one call: torchao's PT2E flow and its configurations, by the name of a mode."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from lowerscope.errors import QuantizeError, unknown
from lowerscope.program import Program, capture
from lowerscope.target import target_of

MODES = {
    "static8": "int8 weights for each output channel, int8 activations with parameters from a calibration",
    "8w": "int8 weights for each output channel, floating activations",
    "4w": "int4 weights in groups, floating activations",
    "8da4w": "int4 weights in groups, dynamically quantized int8 activations",
    "8da8w": "int8 weights for each output channel, dynamically quantized int8 activations",
}
_GROUPED = ("4w", "8da4w")

#: target -> the modes that it has kernels for
KERNELS = {
    "vulkan": ("static8", "4w", "8da4w"),
    "webgpu": ("static8", "4w", "8da4w"),
    "xnnpack": ("static8", "8da4w", "8da8w"),
    "ethos-u": ("static8",),
    "qnn": ("static8",),
}


def quantize(
    module: nn.Module,
    args: tuple[Any, ...],
    target: str = "vulkan",
    mode: str = "8da4w",
    *,
    group_size: int = 32,
    force: bool = False,
) -> Program:
    """The program of `module` quantized by torchao (extra `quantize`); `module` is not changed.

    Args:
        module: a float module, in the mode in which it is to be exported. "static8" quantizes convolutions, linears and
            the elementwise operators and views between them; every other mode the nn.Linear layers.
        args: example inputs, on which "static8" is calibrated, and on normal ones of the same shapes.
        target: whose kernels the mode has to have.
        mode: "static8", "8w", "4w", "8da4w" or "8da8w"; see `MODES`.
        group_size: how many inputs of a linear share a scale in the 4-bit modes; it divides each linear's inputs.
        force: quantize even where the target has no kernel, to see in the explorer what is left undelegated, and why.

    Raises:
        UnknownNameError: no such target or mode.
        QuantizeError: the target has no kernel for the mode; torchao is not installed; nothing is there to quantize; a
            linear's inputs are no multiple of `group_size`.
        CaptureError: the module cannot be exported.
    """
    target_of(target)
    if mode not in MODES:
        raise unknown("quantization mode", mode, MODES)
    kernels = KERNELS.get(target, ())
    if mode not in kernels and not force:
        has = f"it has them for {', '.join(kernels)}" if kernels else "it has them for no mode"
        raise QuantizeError(
            f"target {target} has no kernel for {mode} ({MODES[mode]}): {has}; force=True quantizes all the same"
        )
    name = f"{type(module).__name__}, {mode}"
    try:
        import torchao.quantization  # noqa: F401
    except ImportError as error:
        raise QuantizeError("quantizing needs torchao: install lowerscope[quantize]") from error
    if mode == "static8":
        from lowerscope.static_int8 import quantize as static

        capture(module, args)  # what cannot be exported is said in its own words
        return capture(static(module, args), args, name=name)
    return capture(_linears(module, mode, group_size), args, name=name)


def _linears(module: nn.Module, mode: str, group_size: int) -> nn.Module:
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup
    from torchao.utils import unwrap_tensor_subclass

    layers = {path: layer for path, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    if not layers:
        raise QuantizeError(
            f"{type(module).__name__} has no nn.Linear, which is what {mode} quantizes: use mode='static8', which takes "
            "convolutions too"
        )
    odd = next((p for p, layer in layers.items() if layer.in_features % group_size), None)
    if mode in _GROUPED and odd is not None:
        raise QuantizeError(
            f"'{odd}' has {layers[odd].in_features} inputs, no multiple of {group_size}: give a group_size that divides it"
        )
    bits: torch.dtype = torch.int4 if mode in _GROUPED else torch.int8  # pyright: ignore[reportAttributeAccessIssue]
    grain = PerGroup(group_size) if mode in _GROUPED else PerAxis(0)
    config = (
        Int8DynamicActivationIntxWeightConfig(weight_dtype=bits, weight_granularity=grain)
        if mode.startswith("8da")
        else IntxWeightOnlyConfig(weight_dtype=bits, granularity=grain)
    )
    changed = copy.deepcopy(module)
    quantize_(changed, config)
    # Export traces plain tensors: the quantized weights, scales and zero points become parameters of their own.
    return unwrap_tensor_subclass(changed)
