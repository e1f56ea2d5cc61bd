"""The errors that docstrings name are those that the code raises: none is left out, and none is made up."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.engine.source import CLASSES, PUBLIC, TREES, Definition

#: Functions that make an error, and the error: `raise unknown("pattern", ...)`.
MADE_BY = {
    "unknown": "UnknownNameError",
    "unknown_pattern": "UnknownNameError",
    "damaged": "LoadError",
    "truncated": "LoadError",
    "refuse": "UntrustedFileError",
    "missing_error": "MissingOperatorError",
    "_out_of_memory": "MeasureError",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef
_MAKING = ("__init__", "__post_init__", "__new__", "__call__", "__enter__", "__getitem__", "__iter__", "__next__")
_OF_CONTAINERS = frozenset(name for kind in (dict, set, list, str) for name in dir(kind))


def _with_bases(name: str) -> set[str]:
    """A class of ours with the classes that it derives from."""
    bases = CLASSES[name].bases if name in CLASSES else []
    return {name}.union(*(_with_bases(ast.unparse(base).rpartition(".")[2]) for base in bases))


OURS = {name for name in CLASSES if "LowerscopeError" in _with_bases(name)}


def _body(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function but for those of functions within it, which run when those are called."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        if not isinstance(node, (Function, ast.Lambda, ast.ClassDef)):
            yield node
            left.extend(ast.iter_child_nodes(node))


def _raised(nodes: Iterable[ast.AST]) -> set[str]:
    """The errors of ours that `raise` statements name."""
    found = [node.exc for node in nodes if isinstance(node, ast.Raise) and node.exc is not None]
    names = [ast.unparse(e.func if isinstance(e, ast.Call) else e).rpartition(".")[2] for e in found]
    return {MADE_BY.get(name, name) for name in names} & OURS


def _said(node: Definition) -> set[str]:
    return OURS & set(re.findall(r"\w+", ast.get_docstring(node) or ""))


def _by_its_helpers(function: Function, owner: ast.ClassDef | None, module: ast.Module) -> set[str]:
    """What a function raises itself, and by the private functions of its module and class that it calls."""
    functions = {f.name: f for f in module.body if isinstance(f, Function)}
    methods = {f"self.{m.name}": m for m in owner.body if isinstance(m, Function)} if owner is not None else {}
    seen: list[Function] = []
    todo: list[Function] = [function]
    found: set[str] = set()
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.append(current)
        nodes = list(_body(current))
        found |= _raised(nodes)
        called = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
        private = [name for name in called if name.rpartition(".")[2].startswith("_")]
        todo += [{**functions, **methods}[name] for name in private if name in functions or name in methods]
    return found


def test_what_a_function_raises_itself_or_by_its_helpers_is_said():
    functions = [(at, node, owner, path) for at, node, owner, path in PUBLIC if isinstance(node, Function)]
    raised = {at: _by_its_helpers(node, owner, TREES[path]) for at, node, owner, path in functions}
    assert sum(map(bool, raised.values())) > 60
    silent = {at: sorted(e for e in raised[at] if not _with_bases(e) & _said(node)) for at, node, *_ in functions}
    assert {at: errors for at, errors in silent.items() if errors} == {}


def _bodies() -> dict[str, list[ast.AST]]:
    """By name the code that using it may run: a function's, and how a class is made; methods and properties as ".name"."""
    bodies: dict[str, list[ast.AST]] = defaultdict(list)
    for tree in TREES.values():
        methods = {m for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for m in node.body}
        for node in ast.walk(tree):
            if isinstance(node, Function):
                bodies[f".{node.name}" if node in methods else node.name] += _run(node)
            elif isinstance(node, ast.ClassDef):
                made = [m for m in node.body if isinstance(m, Function) and m.name in _MAKING]
                bodies[node.name] += [n for method in made for n in _run(method)]
    return bodies


def _run(function: Function) -> list[ast.AST]:
    """The nodes of a function, those of functions within it among them, but for annotations and docstrings."""
    inner = [n for n in ast.walk(function) if isinstance(n, (ast.arg, ast.AnnAssign, Function))]
    annotations = [getattr(n, "annotation", None) or getattr(n, "returns", None) for n in inner]
    left_out = {id(n) for annotation in annotations if annotation is not None for n in ast.walk(annotation)}
    return [n for n in ast.walk(function) if id(n) not in left_out]


def _reachable() -> dict[str, set[str]]:
    """The errors that may come out of whatever bears a name, calls followed by name: more than do, and none fewer."""
    bodies = _bodies()
    made = {name: _raised(nodes) | (_mentioned(nodes) & OURS) for name, nodes in bodies.items()}
    uses = {name: _mentioned(nodes) & made.keys() for name, nodes in bodies.items()}
    grows = True
    while grows:
        before = sum(map(len, made.values()))
        made = {name: errors.union(*(made[used] for used in uses[name])) for name, errors in made.items()}
        grows = sum(map(len, made.values())) > before
    return made


def _mentioned(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that code calls or hands on, its own variables and the classes that it catches left out.

    Of an attribute it is not known whether it is a method of ours: what is called counts, and what `self` and constants
    have; what Python's own containers have does not.
    """
    nodes = list(nodes)
    caught = {id(name) for n in nodes if isinstance(n, ast.ExceptHandler) and n.type for name in ast.walk(n.type)}
    named = [n for n in nodes if id(n) not in caught]
    own = {n.id for n in named if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {n.arg for n in named if isinstance(n, ast.arg)}
    names = {n.id for n in named if isinstance(n, ast.Name)} - own
    read = [n for n in named if isinstance(n, ast.Attribute)]
    called = {id(n.func) for n in named if isinstance(n, ast.Call)}
    of_modules = {n.attr for n in read if isinstance(n.value, ast.Name)}
    methods = {f".{n.attr}" for n in read if _is_ours(n, called)}
    return names | of_modules | methods


def _is_ours(read: ast.Attribute, called: set[int]) -> bool:
    receiver = ast.unparse(read.value)
    if receiver == "self" or receiver.startswith("self.") or receiver.isupper():
        return True
    return id(read) in called and read.attr not in _OF_CONTAINERS


#: What another thread has raised comes out of a future.
FROM_A_FUTURE = ("lowerscope_widgets/opening.py Opening.future", "lowerscope_widgets/explorer.py Explorer.session")


def test_what_is_said_to_be_raised_can_be():
    reachable = _reachable()
    made_up = {}
    for at, node, owner, _ in PUBLIC:
        names = [node.name if owner is None else f".{node.name}"]
        if isinstance(node, ast.ClassDef):  # what it says may be of its methods too
            names += [f".{m.name}" for m in node.body if isinstance(m, Function)]
        possible = set().union(*(_with_bases(error) for name in names for error in reachable[name]))
        wrong = _said(node) - possible - {node.name}
        if wrong and at not in FROM_A_FUTURE:
            made_up[at] = sorted(wrong)
    assert sum(bool(_said(node)) for _, node, *_ in PUBLIC) > 100
    assert made_up == {}
