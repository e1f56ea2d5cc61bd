"""What a pattern's class must declare, checked when it is registered: a slip there is told in the cell that made it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from torch._ops import OpOverloadPacket

from lowerscope.check import ENGINE_CONDITIONS, Condition, Either, Optional
from lowerscope.errors import RecipeError, closest

#: Of a pattern's methods, what each is called with.
_METHODS = {"match": "anchor, check", "rewrite": "match, edit", "sentence": "match", "is_anchor": "node"}


def check_declaration(cls: type[Any], kinds: Iterable[str]) -> None:
    """RecipeError: a class attribute is missing or of another kind than it must be, or a method takes other arguments."""
    for needed in ("name", "kind", "anchors", "conditions"):
        if not hasattr(cls, needed):
            raise RecipeError(f"pattern class {cls.__name__} has no '{needed}': set it as a class attribute")
    if not isinstance(cls.name, str) or not cls.name:
        raise RecipeError(f"the name of pattern class {cls.__name__} is a string that is not empty; got {cls.name!r}")
    if cls.kind not in list(kinds):
        raise RecipeError(f"the kind of pattern '{cls.name}' is one of {', '.join(kinds)}; got {cls.kind!r}")
    _check_anchors(cls)
    _check_conditions(cls)
    _check_methods(cls)


def _check_anchors(cls: type[Any]) -> None:
    if not isinstance(cls.anchors, (tuple, list)):
        raise RecipeError(
            f"the anchors of pattern '{cls.name}' are a tuple of ops: write ({cls.anchors},), not the op alone"
        )
    for op in cls.anchors:
        if isinstance(op, OpOverloadPacket):
            every = [f"{op}.{overload}" for overload in op.overloads()]
            raise RecipeError(
                f"the anchors of pattern '{cls.name}' name {op}, which stands for {len(every)} "
                f"op{'s' if len(every) != 1 else ''}: name {' or '.join(every[:4])}"
            )
        if not callable(op) and cls.anchors != ("any",):
            raise RecipeError(
                f"the anchors of pattern '{cls.name}' name {op!r}: name the op itself, not a {type(op).__name__}"
            )


def _check_conditions(cls: type[Any]) -> None:
    if not isinstance(cls.conditions, (tuple, list)):
        raise RecipeError(
            f"the conditions of pattern '{cls.name}' are a tuple: with one alone a comma belongs behind it, (Condition(...),)"
        )
    names = [condition.name for condition in ENGINE_CONDITIONS]
    for item in cls.conditions:
        if not isinstance(item, (Condition, Optional, Either)):
            raise RecipeError(
                f"the conditions of pattern '{cls.name}' hold {item!r}: write Condition(name, what it says)"
            )
        names += [item.name] if isinstance(item, Condition) else [c.name for c in item.conditions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RecipeError(f"the conditions of pattern '{cls.name}' have the name '{twice}' twice: give each its own")
    if isinstance(cls.nothing_to_fuse, str) or not set(cls.nothing_to_fuse) <= set(names):
        odd = (
            cls.nothing_to_fuse
            if isinstance(cls.nothing_to_fuse, str)
            else (set(cls.nothing_to_fuse) - set(names)).pop()
        )
        raise RecipeError(
            f"nothing_to_fuse of pattern '{cls.name}' names '{odd}', which is none of its conditions: "
            "it is a tuple of their names"
        )


def _check_methods(cls: type[Any]) -> None:
    if not any("match" in base.__dict__ for base in cls.__mro__ if base.__module__ != "lowerscope.pattern"):
        own = [name for name, value in vars(cls).items() if inspect.isfunction(value)]
        like = closest("match", own, 1)
        raise RecipeError(
            f"pattern '{cls.name}' has no method match(self, anchor, check)" + (f": it has '{like[0]}'" if like else "")
        )
    for name, takes in _METHODS.items():
        try:
            inspect.signature(getattr(cls, name)).bind(None, *takes.split(", "))
        except TypeError:
            raise RecipeError(f"the method {name} of pattern '{cls.name}' takes (self, {takes})") from None
