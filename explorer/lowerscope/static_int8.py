"""Static int8 quantization of a whole network, through torchao's PT2E flow: every operator, so that all of it can be lowered
to integers. Needs the extra ``quantize``.

Activations are int8 per tensor, asymmetric; convolution and linear weights int8 per output channel, symmetric; biases stay
floating. Operators that only move values share their input's parameters.
"""

from __future__ import annotations

import copy

import torch
from torch import nn
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)

aten = torch.ops.aten
_EPS = 2**-12
ACTIVATION = QuantizationSpec(
    dtype=torch.int8,
    observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=_EPS),
    quant_min=-128,
    quant_max=127,
    qscheme=torch.per_tensor_affine,
)
WEIGHT = QuantizationSpec(
    dtype=torch.int8,
    observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=_EPS),
    quant_min=-127,
    quant_max=127,
    qscheme=torch.per_channel_symmetric,
    ch_axis=0,
)
_WEIGHTED = (aten.conv2d.default, aten.conv2d.padding, aten.linear.default)
_ELEMENTWISE = (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.tanh.default, aten.relu.default)
_MOVING = (
    aten.permute.default,
    aten.transpose.int,
    aten.view.default,
    aten.reshape.default,
    aten.flatten.using_ints,
    aten.unsqueeze.default,
)


class EveryOperator(Quantizer):
    """Annotates convolutions, linears, elementwise operators and the views between them."""

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Write onto each node what of it is quantized, and how; returns the model."""
        for node in model.graph.nodes:
            if node.op != "call_function":
                continue
            if node.target in _WEIGHTED:
                fused = _only_relu(node)
                _annotate(node, {node.args[0]: ACTIVATION, node.args[1]: WEIGHT}, None if fused else ACTIVATION)
            elif node.target in _ELEMENTWISE:
                follows = node.target == aten.relu.default and node.args[0].target in _WEIGHTED
                operands = [] if follows else [arg for arg in node.args if isinstance(arg, torch.fx.Node)]
                _annotate(node, dict.fromkeys(operands, ACTIVATION), ACTIVATION)
            elif node.target in _MOVING:
                _annotate(node, {node.args[0]: ACTIVATION}, SharedQuantizationSpec((node.args[0], node)))
        return model

    def validate(self, model: torch.fx.GraphModule) -> None:
        """Every annotation of this class is one that the flow accepts."""


def _only_relu(node: torch.fx.Node) -> bool:
    """A relu that alone follows is quantized with the operator, as one."""
    return len(node.users) == 1 and next(iter(node.users)).target == aten.relu.default


def _annotate(node: torch.fx.Node, inputs: dict, output: QuantizationSpecBase | None) -> None:
    node.meta["quantization_annotation"] = QuantizationAnnotation(
        input_qspec_map=inputs, output_qspec=output, _annotated=True
    )


def quantize(model: nn.Module, args: tuple[torch.Tensor, ...], rounds: int = 4) -> torch.fx.GraphModule:
    """The int8 form of `model`, calibrated on `args` and on normal inputs of the same shapes. `model` stays as it is."""
    exported = torch.export.export(copy.deepcopy(model), args).module(check_guards=False)
    prepared = prepare_pt2e(exported, EveryOperator())
    with torch.no_grad():
        prepared(*args)
        for _ in range(rounds):
            prepared(*(torch.randn_like(arg) for arg in args))
    converted = convert_pt2e(prepared)
    _drop_unread_parameters(converted)
    return converted


def _drop_unread_parameters(model: torch.fx.GraphModule) -> None:
    """The flow leaves the floating weights beside their int8 forms; an export would carry both."""
    read = {node.target for node in model.graph.nodes if node.op == "get_attr"}
    for name, _ in list(model.named_parameters()):
        if name not in read:
            owner, _, attribute = name.rpartition(".")
            delattr(model.get_submodule(owner), attribute)
