"""lowerscope: an explorer for the lowering of exported PyTorch models.

import lowerscope

session = lowerscope.Session("model.pt2", target="vulkan")
session.patterns()
session.why_not("conv2d_with_epilogue", "conv2d_3")
"""

from __future__ import annotations

from typing import Any

from lowerscope.by_example import pattern_from
from lowerscope.check import Check, Condition, Either, Optional
from lowerscope.comparing import compare
from lowerscope.errors import LowerscopeError
from lowerscope.loading import load
from lowerscope.lowering import Lowering, lower
from lowerscope.pattern import ANY, REGISTRY, Declined, Kind, Match, Part, Pattern, pattern
from lowerscope.program import Program, capture
from lowerscope.quantizing import quantize
from lowerscope.recipe import Recipe, Skip
from lowerscope.session import Session
from lowerscope.target import TARGETS, ProfileField, Target, add_target

__version__ = "0.1.0"

__all__ = [
    "ANY",
    "REGISTRY",
    "TARGETS",
    "Check",
    "Condition",
    "Declined",
    "Either",
    "Kind",
    "Lowering",
    "LowerscopeError",
    "Match",
    "Optional",
    "Part",
    "Pattern",
    "ProfileField",
    "Program",
    "Recipe",
    "Session",
    "Skip",
    "Target",
    "add_target",
    "capture",
    "compare",
    "explore",
    "load",
    "lower",
    "pattern",
    "pattern_from",
    "quantize",
]


def explore(model: Any = None, target: str = "vulkan", **options: Any) -> Any:
    """The widget on a Session, a Program, an exported program or the path of a `.pt2`; without one, it asks for a path.

    `options` go to `lowerscope_widgets.Explorer`. A path that cannot be opened is said in the widget, with a way out.
    UnknownNameError: the target is not known. LowerscopeError: `model` is no program; of a module: how to capture it.
    """
    from lowerscope_widgets import Explorer  # lazy: the engine never needs a notebook

    return Explorer(model, target=None if isinstance(model, Session) else target, **options)


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext lowerscope` gives `%explore MODEL.pt2 --target T`."""
    from lowerscope_widgets.magics import load_ipython_extension as load_magics

    load_magics(ipython)
