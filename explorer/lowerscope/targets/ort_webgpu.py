"""ONNX Runtime's WebGPU execution provider."""

from __future__ import annotations

from lowerscope.support import ort_webgpu
from lowerscope.target import ProfileField, Target, add_target

ORT_WEBGPU = add_target(
    Target(
        "ort-webgpu",
        "ONNX Runtime's WebGPU execution provider: convolutions as im2col and matmul where the adapter gains by it.",
        (
            ProfileField(
                "vendor", "intel", "the adapter's vendor, as WebGPU reports it", ("intel", "nvidia", "amd", "apple")
            ),
            ProfileField(
                "architecture",
                "xe-2lpg",
                "the adapter's architecture, as WebGPU reports it",
                ("xe-2lpg", "xe-2hpg", "xe-3lpg", "xe-3lpg-xs", "turing", "volta"),
            ),
            ProfileField("channels_last", True, "whether the target was given the NHWC layout"),
        ),
        keeps=frozenset({"aten.hardsigmoid"}),
        takes=ort_webgpu.TABLE,
    )
)
