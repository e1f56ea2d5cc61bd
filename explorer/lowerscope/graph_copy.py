"""Copying fx nodes with their names: fx renames a node that is called like a Python builtin ("input") when it is copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Graph, Node


def copy_node(graph: Graph, node: Node, mapped: Callable[[Node], Any]) -> Node:
    """Append a copy of `node` to `graph`, under the same name and with a metadata dict of its own."""
    made = graph.node_copy(node, mapped)
    made.meta = dict(node.meta)
    keep_name(made, node.name)
    return made


def keep_name(node: Node, name: str) -> None:
    """Give a node exactly this name, whatever fx's namespace thinks of it."""
    if node.name == name:
        return
    space = node.graph._graph_namespace
    space._used_names.discard(node.name)
    space._used_names.add(name)
    space._obj_to_name[node] = name
    node.name = name


def set_arguments(node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Give a node other arguments. fx's assignment looks the node up by its op each time, on which arguments have no bearing."""
    object.__setattr__(node, "args", args)
    if kwargs or node.kwargs:
        object.__setattr__(node, "kwargs", kwargs)
