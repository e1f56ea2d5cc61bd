"""ExecuTorch's XNNPACK backend: NHWC kernels on the CPU."""

from __future__ import annotations

from lowerscope.support import xnnpack
from lowerscope.target import Target, add_target

#: what the delegate has kernels for as a whole, and core ATen would take apart
_WHOLE = ("max_pool2d", "prelu", "hardswish", "upsample_bilinear2d.vec")
#: what upsample_nearest_x2 is anchored at
_WANTED = ("upsample_nearest2d.vec",)

XNNPACK = add_target(
    Target(
        "xnnpack",
        "ExecuTorch's XNNPACK delegate: NHWC kernels on the CPU.",
        keeps=frozenset(f"aten.{op}" for op in (*_WHOLE, *_WANTED)),
        takes=xnnpack.TABLE,
        nhwc=True,
    )
)
