"""The front end's bundle: one ES module and one style sheet, built from widgets/front-end."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from lowerscope.errors import LowerscopeError

STATIC = Path(__file__).parent / "static"


class BundleError(LowerscopeError):
    """The front end was not built."""


@cache
def bundle(static: Path = STATIC) -> tuple[str, str]:
    """(JavaScript, CSS) of the front end. BundleError: it was not built; says how."""
    texts = []
    for name in ("explorer.js", "explorer.css"):
        path = static / name
        if not path.is_file():
            raise BundleError(
                f"the widget's front end is missing ({path}): run `make bundle` in the checkout, or reinstall lowerscope"
            )
        texts.append(path.read_text(encoding="utf-8"))
    return texts[0], texts[1]
