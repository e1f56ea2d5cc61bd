"""Programs that draw random numbers: which operators do, and how to have two programs draw the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

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
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and not _is_idle_dropout(node)
    ]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _is_idle_dropout(node: torch.fx.Node) -> bool:
    schema = node.target._schema  # pyright: ignore[reportFunctionMemberAccess, reportAttributeAccessIssue]
    names = [argument.name for argument in schema.arguments]
    arguments = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    return "train" in names and arguments.get("train") is False
