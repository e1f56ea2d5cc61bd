"""Programs that draw random numbers: which operators do, and how to have two programs draw the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from lowerscope.arguments import arguments
from lowerscope.measure.counts import node_op_name, operators

if TYPE_CHECKING:
    from lowerscope.program import Program


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Random numbers on the CPU start from `seed` inside, and go on outside as if nothing had been drawn.

    With None nothing is touched: torch has one generator for all threads, so it is borrowed only when it must be.
    """
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def random_sources(program: Program) -> str:
    """The program's operators that draw random numbers, named with their nodes; empty if there are none."""
    found = [
        f"{node_op_name(node)} at node {node_id}"
        for node_id, node in operators(program.exported_program.graph_module)
        if is_random(node)
    ]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def is_random(node: torch.fx.Node) -> bool:
    """Whether two runs of a node on the same inputs may differ by the random numbers it draws."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and not _is_idle_dropout(node)


def is_uninitialised(node: torch.fx.Node) -> bool:
    """Whether a node's value is whatever its memory held before (empty, empty_like, empty_permuted, new_empty ...)."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and "empty" in schema.name.partition("::")[2].split("_")


def undetermined(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes whose values depend on random numbers or on uninitialised memory."""
    found: set[torch.fx.Node] = set()
    for node in graph.nodes:
        if is_random(node) or is_uninitialised(node) or any(used in found for used in node.all_input_nodes):
            found.add(node)
    return found


def _is_idle_dropout(node: torch.fx.Node) -> bool:
    return arguments(node).get("train") is False
