"""Models of `transformers`, thin but of their real structure, with random weights under which every operator counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import transformers
from torch import nn

from lowerscope.lowering import Lowering, lower
from lowerscope.program import Program, capture

TARGETS = ("vulkan", "webgpu", "xnnpack", "qnn", "ort-webgpu", "ethos-u")

Built = tuple[nn.Module, tuple[torch.Tensor, ...]]


def mobilenet_v2() -> Built:
    config = transformers.MobileNetV2Config(depth_multiplier=0.35, depth_divisible_by=4, min_depth=4)
    return _initialised(transformers.MobileNetV2Model(config)), (torch.randn(1, 3, 64, 64),)


def resnet_18() -> Built:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[2, 2, 2, 2], layer_type="basic"
    )
    return _initialised(transformers.ResNetModel(config)), (torch.randn(1, 3, 64, 64),)


def regnet() -> Built:
    config = transformers.RegNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[2, 6, 12, 2], groups_width=4
    )
    return _initialised(transformers.RegNetModel(config)), (torch.randn(1, 3, 64, 64),)


def segformer() -> Built:
    config = transformers.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        num_attention_heads=[1, 2, 3, 4],
        decoder_hidden_size=16,
        num_labels=5,  # pyright: ignore[reportCallIssue]
    )
    return _initialised(transformers.SegformerForSemanticSegmentation(config)), (torch.randn(1, 3, 64, 64),)


def convnext() -> Built:
    config = transformers.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[3, 3, 9, 3])
    return _initialised(transformers.ConvNextModel(config)), (torch.randn(1, 3, 64, 64),)


def dpt() -> Built:
    config = transformers.DPTConfig(
        hidden_size=16,
        num_hidden_layers=12,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=64,
        patch_size=16,
        neck_hidden_sizes=[4, 8, 12, 16],
        fusion_hidden_size=8,
    )
    return _initialised(transformers.DPTForDepthEstimation(config)), (torch.randn(1, 3, 64, 64),)


def dac_decoder(weight_norm: bool = False) -> Built:
    config = transformers.DacConfig(
        encoder_hidden_size=4,
        hidden_size=32,  # pyright: ignore[reportCallIssue]
        decoder_hidden_size=64,
        n_codebooks=2,
        codebook_size=16,
        codebook_dim=4,
    )
    return _initialised(transformers.DacModel(config), weight_norm, gain=0.5).decoder, (torch.randn(1, 32, 3),)


def hifi_gan(weight_norm: bool = False) -> Built:
    config = transformers.SpeechT5HifiGanConfig(model_in_dim=8, upsample_initial_channel=32)
    return _initialised(transformers.SpeechT5HifiGan(config), weight_norm), (torch.randn(1, 5, 8),)


class Decoder(nn.Module):
    """What `MimiModel.decode` runs once the codes are looked up; its output as a tensor, without the cache."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return self.decoder(latents).audio_values


def mimi_decoder() -> Built:
    config = transformers.MimiConfig(
        hidden_size=32,
        upsample_groups=32,
        num_filters=4,
        codebook_size=16,
        codebook_dim=8,
        vector_quantization_hidden_dimension=8,
        num_quantizers=2,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=32,
    )
    return Decoder(_initialised(transformers.MimiModel(config)).decoder), (torch.randn(1, 32, 3),)


BUILDERS: dict[str, Callable[[], Built]] = {
    "mobilenet_v2": mobilenet_v2,
    "resnet_18": resnet_18,
    "regnet": regnet,
    "segformer": segformer,
    "convnext": convnext,
    "dpt": dpt,
    "dac_decoder": dac_decoder,
    "dac_decoder_weight_norm": lambda: dac_decoder(weight_norm=True),
    "hifi_gan": hifi_gan,
    "hifi_gan_weight_norm": lambda: hifi_gan(weight_norm=True),
    "mimi_decoder": mimi_decoder,
}


@cache
def program(model: str) -> Program:
    """The model, captured; once for all targets."""
    torch.manual_seed(0)
    module, args = BUILDERS[model]()
    return capture(module.eval(), args, name=model)


@cache
def lowered(model: str, target: str) -> Lowering:
    """The model, lowered by a target's defaults, with its lowered program made."""
    lowering = lower(program(model), target)
    assert lowering.program is not None
    return lowering


def _initialised(model: Any, weight_norm: bool = False, gain: float = 1.0) -> Any:
    """Let no weight be at a value that hides a wrong rewrite, and no signal die out on its way.

    The models' own initial values do: branches scaled by 1e-6, statistics of 0 and 1, weights of deviation 0.02.
    `gain` is the factor by which a convolution or linear layer changes the deviation; below 1 for a network
    whose tanh would be saturated.
    """
    for module in model.modules():
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.Linear)):
            fed = module.weight[0].numel()
            if isinstance(module, (nn.ConvTranspose1d, nn.ConvTranspose2d)):
                fed = module.in_channels // module.groups * math.prod(module.kernel_size) // math.prod(module.stride)
            nn.init.normal_(module.weight, std=gain / math.sqrt(fed))
            if module.bias is not None:
                nn.init.normal_(module.bias, std=0.1)
        elif isinstance(module, nn.modules.batchnorm._BatchNorm):
            assert module.running_mean is not None
            assert module.running_var is not None
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
        for name, parameter in module.named_parameters(recurse=False):
            if "scale" in name or name == "alpha":
                nn.init.uniform_(parameter, 0.5, 1.0)
    if weight_norm:
        model.apply_weight_norm()
    return model
