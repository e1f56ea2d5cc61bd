"""Convolutions and dtypes that property tests draw."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor, nn

DTYPES: SearchStrategy[torch.dtype] = st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.float64])

_EITHER, _SMALL = st.booleans(), st.integers(0, 1)
_KINDS: dict[tuple[int, bool], Any] = {
    (1, False): nn.Conv1d,
    (1, True): nn.ConvTranspose1d,
    (2, False): nn.Conv2d,
    (2, True): nn.ConvTranspose2d,
    (3, False): nn.Conv3d,
    (3, True): nn.ConvTranspose3d,
}


@st.composite
def convolutions(
    draw: DrawFn,
    ranks: tuple[int, ...] = (3, 4, 4, 5),
    transposed: SearchStrategy[bool] = _EITHER,
    padding: SearchStrategy[int] = _SMALL,
) -> tuple[Any, Tensor]:
    """A float32 convolution and its input, of one of these ranks: kernel, stride, padding, dilation and, transposed, output
    padding differ by axis; one group, several, or one for each channel; with a bias or without; a batch of 1 or more.
    """
    dims = draw(st.sampled_from(ranks)) - 2
    turned = draw(transposed)

    def by_axis(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=dims, max_size=dims))

    stride, dilation = by_axis(1, 3), by_axis(1, 2)
    groups = draw(st.sampled_from([1, 2, 3]))
    ins, outs = (groups * draw(st.sampled_from([1, 1, 2])) for _ in range(2))
    options: dict[str, Any] = {"bias": draw(st.booleans()), "groups": groups, "stride": stride, "dilation": dilation}
    if turned:
        options["output_padding"] = [draw(st.integers(0, s - 1)) for s in stride]
    conv = _KINDS[dims, turned](ins, outs, by_axis(1, 3), padding=[draw(padding) for _ in range(dims)], **options)
    return conv, torch.randn(draw(st.sampled_from([1, 1, 1, 3])), ins, *by_axis(6, 8))
