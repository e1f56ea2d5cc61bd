"""The operators that a serialized program calls and this process does not know."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from lowerscope.archive.operators import Status, operator_name, status
from lowerscope.errors import MissingOperatorError

_PLACES_SHOWN = 3

# Operators of quantized programs, which load as they are: torch defines the first in a module that it does not import by
# itself; the second are those of the package that quantizes (extra `quantize`), where it is installed.
_QUANTIZED = {"quantized_decomposed": "torch.ao.quantization.fx._decomposed", "torchao": "torchao"}
# Packages whose operators' namespace says who defines them, to name what to import.
_PACKAGES = {
    "torchao": "torchao",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "fbgemm": "fbgemm_gpu",
    "xformers": "xformers",
    "et_vk": "executorch.backends.vulkan.custom_ops_lib",
    "tosa": "executorch.backends.arm",
}

_TORCHS_OWN = frozenset({"aten", "prims", "prim", "higher_order", "_c10d_functional", "quantized", "mkldnn"})


def missing_operators(program: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Target of each unregistered operator -> the serialized nodes that call it, in order."""
    found = _missing(program)
    modules = {_QUANTIZED[name] for target in found if (name := _namespace(target)) in _QUANTIZED}
    installed = [module for module in sorted(modules) if importlib.util.find_spec(module) is not None]
    for module in installed:
        importlib.import_module(module)
    return _missing(program) if installed else found


def _missing(program: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
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


def imports_for(targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """(modules to import for operators that torch does not register by itself, namespaces that no known one registers)."""
    spaces = {target.split("::")[0] for target in targets} - _TORCHS_OWN
    modules = {**_PACKAGES, **_QUANTIZED}
    return sorted(modules[s] for s in spaces if s in modules), sorted(s for s in spaces if s not in modules)


def missing_error(path: str, found: dict[str, list[dict[str, Any]]], written_by: str) -> MissingOperatorError:
    """The error that names the operators, where each is used, and what to import or install."""
    names = tuple(operator_name(target) for target in found)
    count = _PLACES_SHOWN if len(found) == 1 else 1
    uses = [f"{name} ({_places(nodes, count)})" for name, nodes in zip(names, found.values(), strict=True)]
    builtin = [name for name in names if name.split("::")[0] in ("aten", "prims")]
    if len(builtin) == len(names):
        remedy = f"install the torch that wrote the file ({written_by}), since this one is {torch.__version__}"
    else:
        packages = sorted({_PACKAGES[name] for target in found if (name := _namespace(target)) in _PACKAGES})
        named = f" ({', '.join(packages)})" if packages else ""
        remedy = (
            f"import the package that registers it{named} before load, "
            'or call load(path, unknown_ops="stand-in") to look at the graph without it'
        )
    kind = "an operator that is" if len(names) == 1 else f"{len(names)} operators that are"
    return MissingOperatorError(f"{path!r} calls {kind} not registered here, {', '.join(uses)}: {remedy}", names)


def _namespace(target: str) -> str:
    return operator_name(target).split("::")[0]


def _places(nodes: list[dict[str, Any]], count: int) -> str:
    shown = [_place(node) for node in nodes[:count]]
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
