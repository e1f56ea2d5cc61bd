"""What the engine's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowerscope.pattern import REGISTRY


@pytest.fixture
def own() -> Iterator[None]:
    """For a test that registers patterns of its own: they are forgotten behind it."""
    yield
    for known in list(REGISTRY):
        if known.yours:
            REGISTRY.remove(known.name)
