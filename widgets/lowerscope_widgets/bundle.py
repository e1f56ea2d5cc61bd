"""The front end's bundle: one ES module and one style sheet, built from widgets/front-end."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from lowerscope.errors import LowerscopeError

STATIC = Path(__file__).parent / "static"
FILES = ("explorer.js", "explorer.css")
LIVE = "LOWERSCOPE_LIVE"  #: environment: the folder that `node build.mjs --watch` builds into


class BundleError(LowerscopeError):
    """The front end was not built."""


def bundle() -> tuple[str, str]:
    """(JavaScript, CSS) of the front end; in a live Lab, what was built last. BundleError: it was not built; says how."""
    live = live_folder()
    return read_bundle(live) if live else _released()


def live_folder() -> Path | None:
    """The folder with the bundle that is built anew on every change of its source; None outside a live Lab."""
    folder = os.environ.get(LIVE)
    return Path(folder) if folder else None


@cache
def _released() -> tuple[str, str]:
    return read_bundle(STATIC)


def read_bundle(folder: Path) -> tuple[str, str]:
    """(JavaScript, CSS) in a folder. BundleError: one of them is not there; says how it is built."""
    texts = []
    for path in (folder / name for name in FILES):
        if not path.is_file():
            raise BundleError(
                f"the widget's front end is missing ({path}): run `make bundle` in the checkout, or reinstall lowerscope"
            )
        texts.append(path.read_text(encoding="utf-8"))
    return texts[0], texts[1]
