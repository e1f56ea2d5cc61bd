"""Names of thousands of characters inside sentences and tables: cut, so that what stands around them can still be read."""

from __future__ import annotations

import re

#: No name that somebody wrote is as long, nor is a shape, a dtype or a number.
LONGEST = 160

# A little longer is left as it is, so that a name that is cut already may have quotes and a comma around it.
_LONG = re.compile(rf"\S{{{LONGEST + 20},}}")


def legible(text: str) -> str:
    """`text` with every word of much more than LONGEST characters cut in the middle to that many."""
    return text if len(text) <= LONGEST else _LONG.sub(_cut, text)


def _cut(word: re.Match[str]) -> str:
    tail = LONGEST // 3
    return f"{word[0][: LONGEST - 1 - tail]}…{word[0][-tail:]}"
