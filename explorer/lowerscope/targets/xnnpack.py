"""ExecuTorch's XNNPACK backend: NHWC kernels on the CPU."""

from __future__ import annotations

from lowerscope.target import Target, add_target

XNNPACK = add_target(
    Target(
        "xnnpack",
        "ExecuTorch's XNNPACK delegate: NHWC kernels on the CPU.",
        keeps=frozenset({"aten.upsample_nearest2d.vec"}),  # upsample_nearest_x2 wants it whole
    )
)
