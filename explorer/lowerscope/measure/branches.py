"""Whether two runs took the same way through their branches and loops: rounding may decide a predicate.

A difference behind a branch that flipped says nothing of the operators in it: one has to know that it flipped, and where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.export.graph_signature import OutputKind

from lowerscope.measure.counts import node_op_name, sub_modules
from lowerscope.measure.interpreter import output_paths

if TYPE_CHECKING:
    from lowerscope.program import Program


@dataclass(frozen=True)
class Flip:
    """A branch, or a loop, that one run took otherwise than the other.

    Attributes:
        node: id of the node that decides it (``cond``, ``while_loop_body_graph_0/cond``).
        clause: what happened there, in words.
        reaches: the outputs and the state ("state NAME") that depend on it.
    """

    node: str
    clause: str
    reaches: frozenset[str]


def flips(program: Program, reference: Sequence[str], other: Sequence[str], where: tuple[str, str]) -> list[Flip]:
    """Where a run went another way than the reference, the outermost places only, in graph order.

    program: whose nodes are named; the other run may be of another program, with the same branches and loops. What only
    one of the runs has is no flip: a rewrite may have removed a branch that nothing reads.
    reference, other: the sub-graphs that each run entered (`Run.entered`). where: what each is called ("before", "after").
    """
    owners = {
        owner[0]: owner for owner in _owners(program.graph_module, "")
    }  # a sub-graph that two nodes run comes twice
    found: dict[str, Flip] = {}
    within: list[str] = []
    for node_id, node, paths in sorted(owners.values(), key=lambda owner: owner[0].count("/")):
        old, new = ([path for path in run if path in paths] for run in (reference, other))
        if old == new or not old or not new or node_id.startswith(tuple(within)):
            continue
        if node_op_name(node) == "cond":
            clause = _branch(old, new, where)
        else:
            clause = _turns(paths, old, new, where)
        within += paths
        found[node_id] = Flip(node_id, f"at {node_id} {clause}", _reached(program, node_id.partition("/")[0]))
    return [found[node_id] for node_id in owners if node_id in found]


def _owners(module: torch.fx.GraphModule, path: str) -> Iterator[tuple[str, torch.fx.Node, list[str]]]:
    """(node id, node, paths of its sub-graphs) of every node that runs some, those inside a sub-graph behind its own."""
    for node in module.graph.nodes:
        held = list(sub_modules(node, module))
        if not held:
            continue
        yield path + node.name, node, [f"{path}{name}/" for name, _ in held]
        for name, sub in held:
            yield from _owners(sub, f"{path}{name}/")


def _branch(old: list[str], new: list[str], where: tuple[str, str]) -> str:
    turned = [pair for pair in zip(old, new, strict=False) if pair[0] != pair[1]]
    one, two = (_named(path) for path in turned[0])
    often = "" if len(old) == 1 else f" in {len(turned)} of its {len(old)} runs"
    return f"the branch flipped{often}: {one} {where[0]}, {two} {where[1]}"


def _turns(paths: list[str], old: list[str], new: list[str], where: tuple[str, str]) -> str:
    # The last that differs: of a while_loop the body, and not the condition, which runs once more.
    path = next(path for path in reversed(paths) if old.count(path) != new.count(path))
    return f"{_named(path)} ran {_times(old.count(path))} {where[0]}, {_times(new.count(path))} {where[1]}"


def _reached(program: Program, name: str) -> frozenset[str]:
    """Outputs and state that read, directly or not, what the node of the top graph called `name` gives."""
    exported = program.exported_program
    reached: set[str] = set()
    for node in program.graph_module.graph.nodes:
        if node.name == name or any(used.name in reached for used in node.all_input_nodes):
            reached.add(node.name)
    users = iter(output_paths(exported))
    found: set[str] = set()
    for spec in exported.graph_signature.output_specs:
        path = next(users) if spec.kind is OutputKind.USER_OUTPUT else f"state {spec.target}"
        if spec.arg.name in reached:
            found.add(path)
    return frozenset(found)


def _named(path: str) -> str:
    return path.removesuffix("/").rpartition("/")[2]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
