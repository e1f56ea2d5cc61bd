"""What each target makes of each sample model: patterns applied, operators, delegated regions and transposes, pinned."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from lowerscope.loading import load
from lowerscope.program import Program
from lowerscope.session import Session

SAMPLES = Path(__file__).parents[2] / "sample_models"

#: (model, target) -> times each pattern is applied, and before and after: operators, regions, transposes at their borders
FACTS: dict[tuple[str, str], tuple[dict[str, int], tuple[int, int], tuple[int, int], tuple[int, int]]] = {
    ("codec", "vulkan"): ({"conv1d_as_conv2d": 12}, (38, 62), (11, 11), (0, 0)),
    ("codec", "webgpu"): ({"conv1d_as_conv2d": 12}, (38, 62), (11, 11), (0, 0)),
    ("codec", "xnnpack"): ({"depthwise_conv_transpose_as_mul": 1, "polyphase_conv_transpose": 3}, (38, 52), (11, 11), (24, 22)),
    ("codec", "qnn"): ({"channels_last": 12, "conv1d_as_conv2d": 12}, (38, 86), (1, 1), (24, 24)),
    ("codec", "ort-webgpu"): ({}, (38, 38), (1, 1), (0, 0)),
    ("conv_bn", "vulkan"): ({"conv2d_with_epilogue": 9, "fold_batch_norm": 9}, (29, 11), (2, 2), (0, 0)),
    ("conv_bn", "webgpu"): ({"conv_with_clamp": 5, "fold_batch_norm": 9}, (29, 15), (2, 2), (0, 0)),
    ("conv_bn", "xnnpack"): ({"channels_last": 2, "fold_batch_norm": 9, "fuse_activation": 5}, (29, 17), (2, 2), (2, 2)),
    ("conv_bn", "qnn"): ({"channels_last": 2, "fold_batch_norm": 9}, (29, 22), (1, 1), (2, 2)),
    ("conv_bn", "ort-webgpu"): ({"fold_batch_norm": 9}, (29, 20), (1, 1), (0, 0)),
    ("depthwise_net", "vulkan"): ({"conv2d_with_epilogue": 9, "fold_batch_norm": 19}, (94, 178), (1, 1), (0, 0)),
    ("depthwise_net", "webgpu"): ({"conv_with_clamp": 6, "fold_batch_norm": 19}, (94, 181), (1, 1), (0, 0)),
    ("depthwise_net", "xnnpack"): ({"channels_last": 24, "fold_batch_norm": 19, "fuse_activation": 18}, (94, 114), (13, 13), (26, 26)),
    ("depthwise_net", "qnn"): ({"channels_last": 33, "fold_batch_norm": 19}, (94, 227), (1, 1), (66, 40)),
    ("depthwise_net", "ort-webgpu"): ({"fold_batch_norm": 19}, (94, 157), (1, 1), (0, 0)),
    ("dsr", "vulkan"): ({"conv2d_with_epilogue": 99}, (369, 108), (1, 1), (0, 0)),
    ("dsr", "webgpu"): ({"conv_with_clamp": 16}, (369, 357), (1, 1), (0, 0)),
    ("dsr", "xnnpack"): ({"channels_last": 5, "fuse_activation": 99}, (369, 279), (1, 1), (87, 5)),
    ("dsr", "qnn"): ({"channels_last": 5}, (369, 378), (1, 1), (5, 5)),
    ("dsr", "ort-webgpu"): ({}, (369, 373), (1, 1), (0, 0)),
    ("migan", "vulkan"): ({"conv2d_with_epilogue": 25}, (136, 105), (1, 1), (0, 0)),
    ("migan", "webgpu"): ({}, (136, 130), (1, 1), (0, 0)),
    ("migan", "xnnpack"): ({"channels_last": 8, "fuse_activation": 12, "polyphase_conv_transpose": 6, "upsample_nearest_x2": 6}, (136, 180), (7, 1), (58, 2)),
    ("migan", "qnn"): ({"channels_last": 8}, (136, 132), (1, 1), (52, 2)),
    ("migan", "ort-webgpu"): ({}, (136, 130), (1, 1), (0, 0)),
    ("resnet50_like", "vulkan"): ({"conv2d_with_epilogue": 49, "fold_batch_norm": 53}, (174, 56), (2, 2), (0, 0)),
    ("resnet50_like", "webgpu"): ({"conv_with_clamp": 33, "fold_batch_norm": 53}, (174, 88), (2, 2), (0, 0)),
    ("resnet50_like", "xnnpack"): ({"channels_last": 2, "fold_batch_norm": 53, "fuse_activation": 49}, (174, 74), (2, 2), (2, 2)),
    ("resnet50_like", "qnn"): ({"channels_last": 2, "fold_batch_norm": 53}, (174, 123), (1, 1), (2, 2)),
    ("resnet50_like", "ort-webgpu"): ({"fold_batch_norm": 53, "im2col_conv_activation": 17}, (174, 104), (1, 1), (0, 0)),
    ("upsampler", "vulkan"): ({"conv2d_with_epilogue": 6}, (18, 12), (1, 1), (0, 0)),
    ("upsampler", "webgpu"): ({"conv_with_clamp": 6}, (18, 12), (1, 1), (0, 0)),
    ("upsampler", "xnnpack"): ({"channels_last": 2, "fuse_activation": 4, "polyphase_conv_transpose": 5}, (18, 49), (1, 1), (2, 2)),
    ("upsampler", "qnn"): ({"channels_last": 2}, (18, 20), (1, 1), (2, 2)),
    ("upsampler", "ort-webgpu"): ({}, (18, 18), (1, 1), (0, 0)),
}  # fmt: skip
TORCHS_OWN = {"core_aten", "fold_constants"}  # what they do follows torch's table, not a pattern of the target


@cache
def program(model: str) -> Program:
    return load(SAMPLES / f"{model}.pt2")


@pytest.mark.parametrize(("model", "target"), FACTS, ids="-".join)
def test_a_sample_model_on_a_target(model, target):
    applied, operators, regions, transposes = FACTS[model, target]
    session = Session(program(model), target)
    assert Counter(s.pattern for s in session.lowering.steps if s.pattern not in TORCHS_OWN) == applied
    total, found = session.op_counts().loc["total"], session.partitions()
    before, after = found[found.when == "before"], found[found.when == "after"]
    assert (total.before, total.after) == operators
    assert (len(before), len(after)) == regions
    assert (before.transposes.sum(), after.transposes.sum()) == transposes


def test_every_scaled_skip_of_dsr_takes_three_operators_out_of_the_delegate():
    """Upstream a network of this kind went from 469 to 229 operators: product, sum and relu go into the convolution."""
    session = Session(program("dsr"), "vulkan")
    with_it = session.partitions().query("when == 'after'").nodes.map(len).sum()
    session.disable("conv2d_with_epilogue")
    without = session.partitions().query("when == 'after'").nodes.map(len).sum()
    assert (without, with_it) == (357, 108)
    assert without - with_it == 3 * 83
