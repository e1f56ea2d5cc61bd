"""What the README says of the registry is so."""

from __future__ import annotations

from lowerscope import REGISTRY
from tests.readme_table import README, with_table


def test_the_table_of_patterns_is_the_registry():
    text = README.read_text()
    assert with_table(text) == text, "run python -m tests.readme_table"
    assert all(f"`{p.name}`" in text for p in REGISTRY if not p.yours)
