"""In-place operators and autocast regions: what can stay where it stands, and the fallback for the rest.

Export keeps the training form, in which `relu_` and `add_` write into their argument. Patterns are written for the
functional form. Where nobody else can see the write, the op is replaced by its functional twin as a step of core_aten;
where somebody can (a slice that is written to, a buffer), torch's own functionalisation of the whole program is needed. So it is for a
region under autocast: which dtype an op computes in there depends on its name (conv2d is cast, convolution is not), so
nothing could be rewritten before the casts are written out.
"""

from __future__ import annotations

import copy
import dataclasses
import keyword
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from lowerscope.ops import display_name
from lowerscope.program import Program


def functional_program(program: Program) -> tuple[Program, tuple[str, ...]]:
    """A program without autocast in which every in-place op is a simple one, and what a reader should know about it.

    It is the given program itself when that is so already.
    """
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    hard = next((n for g in graphs for n in g.nodes if is_autocast(n) or (writes(n) and not is_simple(n))), None)
    if hard is None:
        return program, ()
    functional = decomposed(program.exported_program, {})
    does = "runs its region under autocast" if is_autocast(hard) else "writes into memory that others read"
    note = (
        f"'{hard.name}' ({display_name(hard.target)}) {does}, so the program is shown in torch's functional form"
        f"{', its casts written out' if is_autocast(hard) else ''}; names may differ from the exported ones."
    )
    made = Program(
        functional,
        name=program.name,
        path=program.path,
        example_inputs=program.example_inputs,
        stand_ins=program.stand_ins,
    )
    return made, (note,)


def decomposed(exported: ExportedProgram, table: Mapping[Any, Callable[..., Any]]) -> ExportedProgram:
    """`exported.run_decompositions(table)`, without the warning that torch 2.13 has for itself as it copies a program."""
    spelled = _spellings([*exported.state_dict, *exported.constants])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
        made = _renamed(exported, spelled).run_decompositions(dict(table))
    return _renamed(made, {new: old for old, new in spelled.items()})


def _spellings(names: list[str]) -> dict[str, str]:
    """For each name with a Python keyword in it (a ModuleDict's key may be "class") one that torch can write as code.

    torch names placeholders after them with "_" for ".", and so alike.
    """
    spelled: dict[str, str] = {}
    for name in names:
        first, *rest = name.split(".")
        new = first + "".join(f"_{part}" if keyword.iskeyword(part) else f".{part}" for part in rest)
        if keyword.iskeyword(first):
            new = new.replace(".", "_", 1)
        while new != name and (new in names or new in spelled.values() or keyword.iskeyword(new)):
            new += "_"
        if new != name:
            spelled[name] = new
    return spelled


def _renamed(exported: ExportedProgram, names: Mapping[str, str]) -> ExportedProgram:
    """The program with other names of its parameters, buffers and constants, in a copy that shares all else."""
    if not names:
        return exported
    made, signature = copy.copy(exported), exported.graph_signature
    made._graph_signature = dataclasses.replace(
        signature,
        input_specs=[dataclasses.replace(s, target=names.get(s.target or "", s.target)) for s in signature.input_specs],
        output_specs=[
            dataclasses.replace(s, target=names.get(s.target or "", s.target)) for s in signature.output_specs
        ],
    )
    made._state_dict = {names.get(name, name): tensor for name, tensor in exported.state_dict.items()}
    made._constants = {names.get(name, name): value for name, value in exported.constants.items()}
    return made


def taken_apart(given: Program, functional: Program) -> dict[str, tuple[str, ...]]:
    """Of what functionalisation has renamed: the given program's node names -> the functional one's, in its order.

    torch notes in `from_node` which node each one was traced from.
    """
    found: dict[str, list[str]] = {}
    known = {n.name for n in functional.graph.nodes}
    for node in functional.graph.nodes:
        sources = node.meta.get("from_node") or ()
        if node.op == "call_function" and sources and sources[0].name not in known:
            found.setdefault(sources[0].name, []).append(node.name)
    own = {n.name for n in given.graph.nodes}
    return {name: tuple(made) for name, made in found.items() if name in own}


def is_autocast(node: Node) -> bool:
    """Whether a node is a call of a region that runs under autocast."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "wrap_with_autocast"


def writes(node: Node) -> bool:
    """Whether a node is a call of an op that writes into one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and bool(schema.is_mutable)


def functional_twin(target: Any) -> Any | None:
    """`aten.relu.default` of `aten.relu_.default`: same overload and arguments, without the write. None: there is none."""
    name = target._schema.name
    if not name.startswith("aten::") or not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(torch.ops.aten, name.removeprefix("aten::")[:-1], None)
    twin = getattr(packet, target._overloadname, None) if packet is not None else None
    if twin is None or [a.name for a in twin._schema.arguments] != [a.name for a in target._schema.arguments]:
        return None
    return twin


def is_simple(node: Node) -> bool:
    """Whether nobody but the readers of its first argument, from here on, can see what the in-place op writes.

    So it is when the argument is a value that an op has made, or a view of one that nobody else reads afterwards, and no
    reader of it makes a view.
    """
    written = node.args[0] if node.args else None
    if functional_twin(node.target) is None or not isinstance(written, Node):
        return False
    if any(aliases(user) and not writes(user) for user in written.users):
        return False
    through, value = node, written
    while value.op == "call_function":
        if value is not written and any(u is not through and (aliases(u) or node < u) for u in value.users):
            return False
        if writes(value):
            return is_simple(value)
        if not aliases(value):
            return True
        source = value.args[0] if value.args else None
        if not isinstance(source, Node) or value.target is operator.getitem:
            return False
        through, value = value, source
    return False


def aliases(node: Node) -> bool:
    """Whether a node's value may share memory with one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function":
        return node.op == "get_attr"
    if node.target is operator.getitem and isinstance(node.args[0], Node):
        return aliases(node.args[0])
    if schema is None:
        return True  # a higher-order op hands on what it was given
    return any(r.alias_info is not None for r in schema.returns)


def later_readers(node: Node, of: Node) -> list[Node]:
    """The readers of `of` that stand after `node`, and so read what it has written."""
    return [user for user in of.users if user is not node and node < user]
