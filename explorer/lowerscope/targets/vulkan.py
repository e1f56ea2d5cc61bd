"""ExecuTorch's Vulkan backend, and WebGPU, which runs the same pipeline on another runtime."""

from __future__ import annotations

from lowerscope.support import vulkan
from lowerscope.target import ProfileField, Target, add_target

_PROFILE = (
    ProfileField("max_texture_width", 16384, "largest extent of a 3-D texture along W, in texels"),
    ProfileField("max_texture_height", 16384, "largest extent of a 3-D texture along H, in texels"),
    ProfileField("max_texture_depth", 2048, "largest extent of a 3-D texture along ceil(C/4) * N, in texels"),
)

VULKAN = add_target(
    Target("vulkan", "ExecuTorch's Vulkan delegate: fused operators on 3-D textures.", _PROFILE, takes=vulkan.VULKAN)
)

WEBGPU = add_target(
    Target(
        "webgpu",
        "The Vulkan pipeline on the WebGPU runtime, which lacks the convolution with an epilogue.",
        _PROFILE,
        refused={"conv2d_with_epilogue": "its runtime does not implement conv2d.with_epilogue"},
        takes=vulkan.WEBGPU,
    )
)
