"""The models that a widget without one offers to open: saved programs at hand, found and not read."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

FOLDER = "sample_models"
_MOST = 24


def sample_models(here: Path | None = None, package: Path = Path(__file__)) -> list[dict[str, str]]:
    """Name and path of each `.pt2` in `here` (the working directory), then of those in the nearest folder `sample_models`.

    That is in `here` or above it, else above `package`, as in a checkout. At most 24; none where there is none.
    """
    here = Path.cwd() if here is None else here
    above = [*(folder / FOLDER for folder in (here, *here.parents)), *(p / FOLDER for p in package.parents)]
    found = [path for folder in (here, next(filter(_holds, above), None)) if folder for path in _saved(folder)]
    return [{"name": path.stem, "path": str(path)} for path in islice(dict.fromkeys(found), _MOST)]


def _holds(folder: Path) -> bool:
    return bool(_saved(folder))


def _saved(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.glob("*.pt2") if path.is_file())
    except OSError:  # a folder that may not be read has nothing to offer
        return []
