"""The stages of every target, in order, as the constraints of the patterns give them."""

from __future__ import annotations

from itertools import pairwise

import pytest

import lowerscope.lowering  # noqa: F401  (registers the patterns)
from lowerscope.target import pipeline

VULKAN = (
    "core_aten fold_constants fold_batch_norm quantized_linear conv2d_with_epilogue conv1d_as_conv2d conv_with_clamp"
)
ORDER = {
    "vulkan": VULKAN,
    "webgpu": VULKAN,
    "xnnpack": (
        "core_aten fold_constants fold_batch_norm depthwise_conv_transpose_as_mul polyphase_conv_transpose "
        "upsample_nearest_x2 fuse_activation channels_last"
    ),
    "qnn": "core_aten fold_constants fold_batch_norm conv1d_as_conv2d channels_last",
    "ort-webgpu": "core_aten fold_constants fold_batch_norm im2col_conv_activation",
    "ethos-u": "core_aten fold_constants fold_batch_norm lower_to_tosa fold_dyt_alpha fold_dyt_affine",
}


@pytest.mark.parametrize("target", ORDER)
def test_order(target):
    assert " ".join(p.name for p in pipeline(target) if not p.yours) == ORDER[target]


def test_no_order_hangs_on_the_alphabet():
    """Between any two neighbours a constraint stands: the sort breaks no tie by name."""
    for target in ORDER:
        order = [p for p in pipeline(target) if not p.yours]
        for earlier, later in pairwise(order):
            assert earlier.name in later.after or later.name in earlier.before, (
                f"{target}: {earlier.name}, {later.name}"
            )
