"""Convolutions and dtypes that property tests draw, and the test that some of what was drawn is rewritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor, nn

_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
DTYPES: SearchStrategy[torch.dtype] = st.sampled_from(_DTYPES)


def mostly(usual: Any, *others: Any) -> SearchStrategy[Any]:
    """`usual` in most draws, else one of the others: of several axes that each refuse, a few draws must pass them all.

    The others stand in the middle, since hypothesis draws the ends of a list more often than the rest of it.
    """
    side = [usual] * (6 * len(others))
    return st.sampled_from([*side, *others, *side])


def drawn(examples: int = 25, **axes: SearchStrategy[Any]) -> Callable[[Callable[..., str | None]], Callable[[], None]]:
    """A property test of a function that returns the condition which refused what was drawn, None where it was rewritten.

    It fails when fewer than 30 % of the draws were rewritten, so that it cannot pass on refusals alone.
    """

    def decorate(body: Callable[..., str | None]) -> Callable[[], None]:
        def test() -> None:
            outcomes: Counter[str | None] = Counter()

            @settings(max_examples=examples)
            @given(**axes)
            def once(**values: Any) -> None:
                outcomes[body(**values)] += 1

            once()
            assert outcomes[None] >= 0.3 * outcomes.total(), outcomes

        test.__name__ = body.__name__
        return test

    return decorate


_EITHER, _SMALL, _ONE_OR_TWO = st.booleans(), st.integers(0, 1), st.integers(1, 2)
_ONE_TO_FOUR, _ONE_TO_THREE, _GROUPS = st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)
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
    ranks: tuple[int, ...] = (3, 4, 5, 4, 4),
    transposed: SearchStrategy[bool] = _EITHER,
    kernel: SearchStrategy[int] = _ONE_TO_FOUR,
    stride: SearchStrategy[int] = _ONE_TO_THREE,
    padding: SearchStrategy[int] = _SMALL,
    dilation: SearchStrategy[int] = _ONE_OR_TWO,
    groups: SearchStrategy[int] = _GROUPS,
    ratio: SearchStrategy[int] = _ONE_OR_TWO,
) -> tuple[Any, Tensor]:
    """A float32 convolution and its input, of one of these ranks: kernel, stride, padding, dilation and, transposed, output
    padding differ by axis; `ratio` channels in and out for each group; with a bias or without; a batch of 1 or more.
    """
    dims = draw(st.sampled_from(ranks)) - 2
    turned = draw(transposed)

    def by_axis(one: SearchStrategy[int]) -> list[int]:
        return draw(st.lists(one, min_size=dims, max_size=dims))

    steps, count = by_axis(stride), draw(groups)
    options: dict[str, Any] = {
        "bias": draw(st.booleans()),
        "groups": count,
        "stride": steps,
        "dilation": by_axis(dilation),
    }
    if turned:
        options["output_padding"] = [draw(st.integers(0, s - 1)) for s in steps]
    ins, outs = count * draw(ratio), count * draw(ratio)
    conv = _KINDS[dims, turned](ins, outs, by_axis(kernel), padding=by_axis(padding), **options)
    return conv, torch.randn(draw(st.sampled_from([1, 1, 1, 3, 1, 1, 1])), ins, *by_axis(st.integers(7, 8)))
