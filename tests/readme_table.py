"""The README's table of patterns per target, from the registry: `python -m tests.readme_table` writes it."""

from __future__ import annotations

import re
from pathlib import Path

from lowerscope import REGISTRY, TARGETS
from lowerscope.target import pipeline

README = Path(__file__).parents[1] / "README.md"
_PLACE = re.compile(r"(<!-- patterns: [^\n]*-->\n).*?(<!-- /patterns -->)", re.DOTALL)


def table() -> str:
    """A row per pattern of the project's own, with the targets that have it, and their stage in each."""
    stages = {t: [p.name for p in pipeline(t) if not p.yours] for t in sorted(TARGETS)}
    rows = ["| pattern | what it does | stage in its targets |", "|---|---|---|"]
    for pattern in sorted((p for p in REGISTRY if not p.yours), key=lambda p: p.name):
        places = [f"{t} {names.index(pattern.name) + 1}" for t, names in stages.items() if pattern.name in names]
        rows.append(f"| `{pattern.name}` | {pattern.kind} | {', '.join(places)} |")
    return "\n".join(rows)


def with_table(text: str) -> str:
    """The README's text with the table as it is now."""
    return _PLACE.sub(lambda found: f"{found.group(1)}{table()}\n{found.group(2)}", text)


if __name__ == "__main__":
    README.write_text(with_table(README.read_text()))
