"""The project's own source, read and not imported: its files, classes, and public names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import lowerscope

PACKAGES = (Path(lowerscope.__file__).parent, Path(lowerscope.__file__).parents[2] / "widgets" / "lowerscope_widgets")
TREES = {path: ast.parse(path.read_text()) for package in PACKAGES for path in sorted(package.rglob("*.py"))}
CLASSES = {node.name: node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}

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


def decorators(node: Definition) -> set[str]:
    """The decorators' names."""
    return {ast.unparse(d).rpartition(".")[2] for d in node.decorator_list}


def inherits_docstring(node: Definition, owner: ast.ClassDef | None) -> bool:
    """Whether a base class of ours says what the method is; a protocol's members are what has them."""
    if owner is None:
        return False
    bases = [ast.unparse(b).partition("[")[0].rpartition(".")[2] for b in owner.bases]
    if "Protocol" in bases or decorators(node) & {"overload", "setter"}:
        return True
    of_ours = [CLASSES[b] for b in bases if b in CLASSES]
    methods = [m for base in of_ours for m in base.body if isinstance(m, Definition) and m.name == node.name]
    return any(map(ast.get_docstring, methods)) or any(inherits_docstring(node, base) for base in of_ours)


def _where(path: Path, node: Definition, owner: ast.ClassDef | None) -> str:
    return f"{path.parent.name}/{path.name} {owner.name + '.' if owner else ''}{node.name}"


#: (where, node, class of a method, file) of each public class, function and method
PUBLIC = [(_where(path, *m), *m, path) for path, tree in TREES.items() for m in _members(tree.body)]
