"""Every public name says what it is, and names the errors that it raises."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
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


# ---------------------------------------------------------------------- the whole tree, read and not imported
PACKAGES = (Path(lowerscope.__file__).parent, Path(lowerscope.__file__).parents[2] / "widgets" / "lowerscope_widgets")
TREES = {path: ast.parse(path.read_text()) for package in PACKAGES for path in sorted(package.rglob("*.py"))}
CLASSES = {node.name: node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
OURS = {name for name in CLASSES if name.endswith("Error") and name != "AssertionError"}

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _members(
    body: list[ast.stmt], owner: ast.ClassDef | None = None
) -> Iterator[tuple[Definition, ast.ClassDef | None]]:
    """The public classes, functions and methods, with the class of each method."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node, owner
            if isinstance(node, ast.ClassDef):
                yield from _members(node.body, node)


def _decorators(node: Definition) -> set[str]:
    return {ast.unparse(d).rpartition(".")[2] for d in node.decorator_list}


def _inherits_docstring(node: Definition, owner: ast.ClassDef | None) -> bool:
    """Whether a base class of ours says what the method is; a protocol's members are what has them."""
    if owner is None:
        return False
    bases = [ast.unparse(b).partition("[")[0].rpartition(".")[2] for b in owner.bases]
    if "Protocol" in bases or _decorators(node) & {"overload", "setter"}:
        return True
    of_ours = [CLASSES[b] for b in bases if b in CLASSES]
    methods = [m for base in of_ours for m in base.body if isinstance(m, Definition) and m.name == node.name]
    return any(map(ast.get_docstring, methods)) or any(_inherits_docstring(node, base) for base in of_ours)


def _where(path: Path, node: Definition, owner: ast.ClassDef | None) -> str:
    return f"{path.parent.name}/{path.name} {owner.name + '.' if owner else ''}{node.name}"


PUBLIC = [(_where(path, *m), *m) for path, tree in TREES.items() for m in _members(tree.body)]


def test_every_module_class_and_function_has_a_docstring():
    assert len(PUBLIC) > 800
    assert [path.name for path, tree in TREES.items() if not ast.get_docstring(tree)] == []
    assert [
        at for at, node, owner in PUBLIC if not ast.get_docstring(node) and not _inherits_docstring(node, owner)
    ] == []


def _raised_here(function: Definition) -> set[str]:
    """The errors of ours in its `raise` statements; those within a function that it makes are raised by that."""
    found: set[str] = set()
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func).rpartition(".")[2]
            found.add(MADE_BY.get(name, name))
        left.extend(ast.iter_child_nodes(node))
    return found & OURS


def test_every_function_names_the_errors_that_it_raises():
    functions = [(at, node) for at, node, _ in PUBLIC if not isinstance(node, ast.ClassDef)]
    assert sum(bool(_raised_here(node)) for _, node in functions) > 50
    silent = {
        at: sorted(e for e in _raised_here(node) if e not in (ast.get_docstring(node) or "")) for at, node in functions
    }
    assert {at: errors for at, errors in silent.items() if errors} == {}


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
        for at, node, owner in PUBLIC
        if _takes_or_gives_tensors(node) and not _inherits_docstring(node, owner)
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
