"""Programs in ExecuTorch's edge dialect, as `to_edge` makes them, opened as the ATen programs that they stand for.

Edge operators wrap ATen ones; views are copies there, and memory formats are dimension orders. Patterns are written for
ATen, so each call is put back; names, values and weights stay. ExecuTorch itself is not needed for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from lowerscope.errors import LowerscopeError

aten = torch.ops.aten

NOTE = (
    "The program came in ExecuTorch's edge dialect, and is shown in the ATen operators that it wraps: copying views as "
    "views, dimension orders as memory formats."
)
_FORMATS = {
    (0, 1, 2, 3): torch.contiguous_format,
    (0, 2, 3, 1): torch.channels_last,
    (0, 2, 3, 4, 1): torch.channels_last_3d,
}
#: of the namespace dim_order_ops -> the op that takes a memory format
_DIM_ORDER = {
    "_clone_dim_order": aten.clone.default,
    "_to_dim_order_copy": aten._to_copy.default,
    "_empty_dim_order": aten.empty.memory_format,
}


def exported_program_of(source: Any) -> Any:
    """The exported program of an `EdgeProgramManager`; anything else as it is."""
    ours = type(source).__name__ in ("EdgeProgramManager", "ExecutorchProgramManager")
    return source.exported_program() if ours and callable(source.exported_program) else source


def is_edge(program: ExportedProgram) -> bool:
    """Whether a program calls operators of the edge dialect."""
    if program.dialect in ("ATEN", "CORE_ATEN", "TRAINING"):  # an edge operator would not have passed its verifier
        return False
    modules = [m for m in program.graph_module.modules() if isinstance(m, GraphModule)]
    return any(_wrapped(n.target) is not None for m in modules for n in m.graph.nodes)


def aten_program(program: ExportedProgram) -> ExportedProgram:
    """An edge program in ATen operators; state, constants and example inputs are shared, the program is not changed.

    LowerscopeError: it calls an edge operator that no ATen one stands for.
    """
    made = _converted(program.graph_module)
    return ExportedProgram(
        root=made,
        graph=made.graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
    )


def _converted(module: GraphModule) -> GraphModule:
    graph, copies = Graph(), {}
    for node in module.graph.nodes:
        copies[node] = copy = graph.node_copy(node, copies.__getitem__)
        op = _wrapped(node.target)
        if op is not None:
            copy.target, kwargs = _aten_call(op, copy)
            copy.kwargs = dict(kwargs)
    graph._codegen = module.graph._codegen
    made = GraphModule(module, graph)
    made.meta.update(module.meta)
    for name, held in module.named_children():
        if isinstance(held, GraphModule) and hasattr(made, name):
            setattr(made, name, _converted(held))
    return made


def _wrapped(target: Any) -> OpOverload | None:
    """The operator that an edge operator wraps; None for what is no edge operator."""
    op = getattr(target, "_op", None)
    return op if type(target).__name__ == "EdgeOpOverload" and isinstance(op, OpOverload) else None


def _aten_call(op: OpOverload, node: Node) -> tuple[OpOverload, Mapping[str, Any]]:
    """The ATen operator for an edge call, and the keyword arguments that it takes."""
    name = op._schema.name.rpartition("::")[2]
    if op.namespace == "dim_order_ops":
        if name not in _DIM_ORDER:
            raise LowerscopeError(
                f"no ATen operator stands for edge operator {op.name()} at '{node.name}'; lower the program before to_edge"
            )
        kwargs = {k: v for k, v in node.kwargs.items() if k != "dim_order"}
        order = node.kwargs.get("dim_order")
        if order is not None:
            plain = list(order) == list(range(len(order)))  # type: ignore[arg-type]
            kwargs["memory_format"] = torch.contiguous_format if plain else _FORMATS.get(tuple(order))  # type: ignore[arg-type]
        return _DIM_ORDER[name], kwargs
    packet = (
        getattr(aten, name.removesuffix("_copy"), None) if op.namespace == "aten" and name.endswith("_copy") else None
    )
    if packet is not None and op._overloadname in packet.overloads() and name != "_to_copy":
        return getattr(packet, op._overloadname), node.kwargs
    return op, node.kwargs
