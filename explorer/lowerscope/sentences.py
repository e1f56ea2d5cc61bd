"""Conditions in words: values as a reader wants them, and a failed condition as a short sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from lowerscope.arguments import dtype_name
from lowerscope.check import Entry

_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64"}
_COUNTS = {"1 user": "one user", "1 reader": "one reader"}


def failure_sentence(says: str, entry: Entry) -> str:
    """What is, what was expected and why: "the batch size is 8 at conv2d, expected 1".

    says: what the condition says to a reader, "the batch size is 1". Where that cannot be restated with what was found,
    it is quoted: "an activation follows: aten.sigmoid at sigmoid, expected relu or clamp".
    """
    actual = plain(entry.actual, " and ")
    # "aten.view" names no node, whatever nodes are called
    named = entry.node is not None and re.search(rf"(?<![\w/.]){re.escape(entry.node)}(?![\w/]|\.\w)", actual)
    where = f" at {entry.node}" if entry.node and not named else ""
    because = f" ({entry.because})" if entry.because else ""
    return f"{difference(says, actual, entry.expected, where)}{because}"


def difference(says: str, actual: str, expected: Any, where: str = "") -> str:
    """A condition that does not hold, with what was found (in words, "" when there is nothing to add) and expected."""
    wanted = plain(expected)
    after = f", expected {wanted}" if wanted and actual else ""
    restated = _restated(says, wanted, actual) if actual else None
    if restated is not None:
        return f"{restated[0]}{where}{after}{restated[1]}"
    return f"{says}: {actual or 'not so'}{where}{after}"


def _restated(says: str, wanted: str, actual: str) -> tuple[str, str] | None:
    """ "the batch size is 1" with 8 in the place of 1, and the unit ("-D"); None: it does not end in what was expected."""
    if not wanted or actual == wanted:
        return None
    spelling = "|".join(re.escape(s) for s in (wanted, _COUNTS.get(wanted, wanted)))
    found = re.search(rf"\b(is|are|has) (?:exactly )?(?:{spelling})(-D)?(?=$|,)", says)
    if found is None:
        return None
    unit = found[2] or ""
    return f"{says[: found.start()]}{found[1]} {actual}{unit}", unit


def plain(value: Any, joint: str = " or ") -> str:
    """A value as a reader wants it: shapes as 1×64×8×8, dtypes as f32, symbolic sizes with their ranges.

    Several values are joined by `joint`; None gives "".
    """
    if value is None:
        return ""
    symbols = ", ".join(dict.fromkeys(_ranges(value)))
    return _plain(value, joint) + (f" ({symbols})" if symbols else "")


def _plain(value: Any, joint: str) -> str:
    if isinstance(value, torch.dtype):
        return _DTYPES.get(value, dtype_name(value))
    if isinstance(value, torch.Size) or (isinstance(value, tuple) and value and all(_is_size(v) for v in value)):
        return "×".join(str(v) for v in value) or "scalar"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return joint.join(_plain(v, " or ") if v is not None else "None" for v in value) if value else "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _ranges(value: Any) -> Iterator[str]:
    """ "s0 in 4..128", "s0 up to 128", "s0 from 4" or "s0 of any size" of every symbol in a value.

    A lower bound of 2 or less is not told: torch sets it itself, as it exports, for a size that may be declared from 1.
    """
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _ranges(item)
    elif isinstance(value, torch.SymInt) and value.node.shape_env is not None:
        for symbol in sorted(value.node.expr.free_symbols, key=str):
            found = value.node.shape_env.var_to_range.get(symbol)
            if found is not None:
                bounded, from_any = found.upper.is_Integer and found.upper < 2**62, found.lower <= 2
                if bounded:
                    yield f"{symbol} up to {found.upper}" if from_any else f"{symbol} in {found.lower}..{found.upper}"
                else:
                    yield f"{symbol} of any size" if from_any else f"{symbol} from {found.lower}"


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool)
