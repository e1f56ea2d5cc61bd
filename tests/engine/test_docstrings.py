"""Every public name says what it is, of which shapes and dtypes, and from where; what may be imported names its errors."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lowerscope
from lowerscope import errors
from lowerscope.session import Session
from tests.engine.source import PUBLIC, TREES, Definition, inherits_docstring

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


def test_every_module_class_and_function_has_a_docstring():
    assert len(PUBLIC) > 800
    assert [path.name for path, tree in TREES.items() if not ast.get_docstring(tree)] == []
    assert [
        at for at, node, owner, _ in PUBLIC if not ast.get_docstring(node) and not inherits_docstring(node, owner)
    ] == []


SHAPE = re.compile(r"\[.+\]|\bshape|\b\d-D\b|\belements?\b|\bscalar", re.IGNORECASE)
DTYPE = re.compile(r"\bdtypes?\b|\b(?:u?int|float)(?:8|16|32|64)\b|\bfloating|\bintegers?\b|\bcomplex\b", re.IGNORECASE)


def _has_a_tensor(annotation: ast.expr | None) -> bool:
    return annotation is not None and re.fullmatch(r"(torch\.)?Tensor( \| None)?", ast.unparse(annotation)) is not None


def _takes_or_gives_tensors(function: Definition) -> bool:
    if isinstance(function, ast.ClassDef):
        return False
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return any(_has_a_tensor(a.annotation) for a in given) or _has_a_tensor(function.returns)


def test_what_takes_or_gives_a_tensor_says_of_which_shape_and_dtype():
    ours = [
        (at, ast.get_docstring(node) or "")
        for at, node, owner, _ in PUBLIC
        if _takes_or_gives_tensors(node) and not inherits_docstring(node, owner)
    ]
    assert len(ours) > 40
    assert [at for at, said in ours if not (SHAPE.search(said) and DTYPE.search(said))] == []


@pytest.mark.parametrize("rule", [p for p in lowerscope.REGISTRY if not p.yours], ids=lambda p: p.name)
def test_a_pattern_says_its_mathematics_shapes_dtypes_and_source(rule):
    said = inspect.getdoc(type(rule)) or ""
    assert "=" in said.partition("\n\n")[0]
    assert SHAPE.search(said)
    assert DTYPE.search(said)
    if re.fullmatch(r"[\w-]+/[\w-]+#\d+", rule.source) is None:  # no issue or pull request: a function of torch's
        module, _, name = rule.source.rpartition(".")
        assert hasattr(importlib.import_module(module), name)
