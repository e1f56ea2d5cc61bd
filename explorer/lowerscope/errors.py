"""The errors a user can meet: each message is one sentence that names the thing and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from lowerscope.long_names import legible

_NAMES_SHOWN = 5


class LowerscopeError(Exception):
    """Base of every error this package raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook's cell shows: the sentence, and no traceback through code that is not the reader's."""
        return [legible(f"{type(self).__name__}: {self}")]


class LoadError(LowerscopeError):
    """A file that cannot be opened as an exported program."""


class UntrustedFileError(LoadError):
    """A file with a part that only unpickling, importing or evaluating could read, which may run the file's code."""


class MissingOperatorError(LoadError):
    """A file whose program calls operators that are not registered in this process.

    Attributes:
        operators: the operators' names, for example ``("my_ext::scaled_add.default",)``.
    """

    def __init__(self, message: str, operators: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.operators = operators


class CaptureError(LowerscopeError):
    """A module that torch.export cannot turn into an exported program."""


class QuantizeError(LowerscopeError):
    """A module that is not quantized: no kernel for the mode, nothing to quantize, or torchao is missing."""


class UnknownNameError(LowerscopeError, KeyError):
    """A target, pattern, node or operator of a name that does not exist."""

    # KeyError prints the repr of its argument, which would put the sentence in quotes.
    __str__ = Exception.__str__


class RecipeError(LowerscopeError, ValueError):
    """A recipe that contradicts itself or names what a target does not have."""


class RewriteError(LowerscopeError):
    """A rewrite that would leave the program invalid."""


class MeasureError(LowerscopeError):
    """A measurement that cannot be taken."""


def closest(name: str, known: Iterable[str], count: int = _NAMES_SHOWN) -> list[str]:
    """The ``count`` names most like ``name``, the likest first; names that contain it, or that it contains, lead."""
    lowered = name.lower()

    def unlikeness(candidate: str) -> tuple[bool, float, str]:
        other = candidate.lower()
        contains = (len(lowered) > 1 and lowered in other) or (len(other) > 3 and other in lowered)
        return not contains, -difflib.SequenceMatcher(None, lowered, other).ratio(), candidate

    return sorted(dict.fromkeys(known), key=unlikeness)[:count]


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a ``kind`` ("target", "pattern", "node", ...) called ``name`` that is not among ``known``."""
    names = list(dict.fromkeys(known))
    missing = legible(f"there is no {kind} named {name!r}")
    if not names:
        return UnknownNameError(f"{missing}: there is none at all to choose from")
    nearest = [legible(repr(known)) for known in closest(name, names)]
    if len(names) == 1:
        return UnknownNameError(f"{missing}: use {nearest[0]}, the only one there is")
    lead = "use one of" if len(names) <= len(nearest) else f"use one of the {len(names)} there are, the closest being"
    return UnknownNameError(f"{missing}: {lead} {', '.join(nearest)}")


def first_line(error: BaseException) -> str:
    """The first line of an error's message that says something, without its final full stop; else the error's kind."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line.rstrip(".") for line in lines if line), type(error).__name__)
