"""The operators that a serialized program calls and this process does not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from lowerscope.archive.operators import Status, operator_name, status
from lowerscope.errors import MissingOperatorError

_PLACES_SHOWN = 3


def missing_operators(program: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Target of each unregistered operator -> the serialized nodes that call it, in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    known: dict[str, bool] = {}
    for node in serialized_nodes(program["graph_module"]["graph"]):
        target = node["target"]
        if target not in known:
            known[target] = status(target) is not Status.MISSING
        if not known[target]:
            found.setdefault(target, []).append(node)
    return found


def serialized_nodes(graph: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes of a serialized graph and of the sub-graphs that its higher-order operators take."""
    for node in graph["nodes"]:
        yield node
        for argument in node["inputs"]:
            if "as_graph" in argument["arg"]:
                yield from serialized_nodes(argument["arg"]["as_graph"]["graph"])


def missing_error(path: str, found: dict[str, list[dict[str, Any]]], written_by: str) -> MissingOperatorError:
    """The error that names the operators, where each is used, and what to import or install."""
    names = tuple(operator_name(target) for target in found)
    uses = [f"{name} ({_places(nodes)})" for name, nodes in zip(names, found.values(), strict=True)]
    builtin = [name for name in names if name.split("::")[0] in ("aten", "prims")]
    if len(builtin) == len(names):
        remedy = f"install the torch that wrote the file ({written_by}), since this one is {torch.__version__}"
    else:
        remedy = (
            "import the package that registers it (a torch.library definition) before load, "
            'or call load(path, unknown_ops="stand-in") to look at the graph without it'
        )
    kind = "an operator that is" if len(names) == 1 else f"{len(names)} operators that are"
    return MissingOperatorError(f"{path!r} calls {kind} not registered here, {', '.join(uses)}: {remedy}", names)


def _places(nodes: list[dict[str, Any]]) -> str:
    shown = [_place(node) for node in nodes[:_PLACES_SHOWN]]
    more = len(nodes) - len(shown)
    return "used at " + ", ".join(shown) + (f" and {more} more" if more else "")


def _place(node: dict[str, Any]) -> str:
    name = node.get("name") or _output_name(node)
    stack = (node.get("metadata") or {}).get("nn_module_stack", "")
    path = stack.split(";")[-1].split(",")[1] if stack.count(",") >= 2 else ""
    return f"node {name!r}" + (f" in {path!r}" if path else "")


def _output_name(node: dict[str, Any]) -> str:
    for output in node["outputs"]:
        for value in output.values():
            if isinstance(value, dict):
                return value.get("name") or value.get("as_name") or ""
    return ""
