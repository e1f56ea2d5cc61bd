"""Every public name says what it is, and names the errors that it raises."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lowerscope
from lowerscope import errors
from lowerscope.session import Session

ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type)} | {"AssertionError", "KeyError"}
#: What an error is made by, where it is not by its class: `raise unknown("pattern", ...)`.
MADE_BY = {"unknown": "UnknownNameError"}
#: Checks that stand for the error which they raise.
RAISED_BY_CALL = {
    "known_patterns": "UnknownNameError",
    "as_program": "LoadError",
    "require_executorch": "MeasureError",
}


def _public() -> Iterator[tuple[str, Any]]:
    for name in lowerscope.__all__:
        value = getattr(lowerscope, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            yield name, value


def _methods() -> Iterator[tuple[str, Any]]:
    for owner, cls in _public():
        if inspect.isclass(cls):
            for name, member in inspect.getmembers(cls):
                function = member.fget if isinstance(member, property) else member
                public = not name.startswith("_") and (inspect.isfunction(function) or inspect.ismethod(function))
                if public and str(function.__module__).startswith("lowerscope"):
                    yield f"{owner}.{name}", function


EVERY = dict([*_public(), *_methods()])


@pytest.mark.parametrize("name", EVERY)
def test_it_has_a_docstring_of_its_own(name):
    said = inspect.getdoc(EVERY[name]) or ""
    assert len(said.split()) >= 2, f"{name} has no docstring"
    # a dataclass without one is given its signature by Python
    assert not said.startswith(f"{name}("), f"{name} has a signature for a docstring"


def _raised(function: Callable[..., Any]) -> set[str]:
    """The errors of ours that the function's own text raises, but for those in functions within it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            found.add(MADE_BY.get(node.exc.func.id, node.exc.func.id))
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            found.add(RAISED_BY_CALL.get(called, ""))
    return found & ERRORS


@pytest.mark.parametrize("name", [n for n, f in EVERY.items() if not inspect.isclass(f)])
def test_what_raises_says_so(name):
    function = EVERY[name]
    said = inspect.getdoc(function) or ""
    missing = {error for error in _raised(inspect.unwrap(function)) if error not in said}
    assert not missing, f"{name} raises {', '.join(sorted(missing))}: its docstring does not say so"


def test_the_questions_and_measurements_are_among_what_is_checked():
    names = {n.partition(".")[2] for n in EVERY if n.startswith("Session.")}
    assert {"why_not", "what_if", "near_misses", "parity", "blame", "latency", "skip", "expect"} <= names
    assert "UnknownNameError" in _raised(Session.disable)
    assert "AssertionError" in _raised(Session.expect)
