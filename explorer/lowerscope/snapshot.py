"""A snapshot: the editor's graph as an exported program of its own that is valid, saves and runs."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, TensorArgument
from torch.fx import Graph, GraphModule, Node

from lowerscope.editor import Editor
from lowerscope.graph_copy import copy_node
from lowerscope.measure.counts import attribute
from lowerscope.program import Program


def take_snapshot(editor: Editor, name: str) -> Program:
    """The program that the editor's graph is now. Weights are shared with the user's program; graphs are copies."""
    source = editor.program.exported_program
    unread = _constants_gone(editor)
    module = _module_of(editor, "", source.graph_module, unread)
    signature = _signature(editor, module.graph)
    state, constants = _tensors(editor, signature)
    calls = copy.copy(source.module_call_graph)
    exported = ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=state,
        range_constraints=dict(source.range_constraints),
        module_call_graph=calls,
        example_inputs=source.example_inputs,
        constants=constants,
        verifiers=list(source.verifiers),
    )
    return Program(
        exported, name=name, example_inputs=editor.program.example_inputs, stand_ins=editor.program.stand_ins
    )


def _constants_gone(editor: Editor) -> set[str]:
    """Constants that the lowering has left without a reader. Those that nobody read at the start stay."""
    read_before = {edge for record in editor.ledger.records.values() if record.born == 0 for edge in record.inputs}
    read_before |= {edge.source for edge in editor.ledger.ended_edges}
    mutated = editor.program.mutated
    gone = set()
    for id, node in editor.nodes.items():
        if node.op != "placeholder" or node.users or "/" in id or id in mutated:
            continue
        added = id in editor.new_constants
        if added or (id in editor.program.constants and id in read_before):
            gone.add(id)
    return gone


def _module_of(editor: Editor, prefix: str, source: Any, unread: set[str]) -> GraphModule:
    graph, root = Graph(), torch.nn.Module()
    copies: dict[Node, Node] = {}
    for node in editor.graphs[prefix].nodes:
        if not prefix and node.op == "placeholder" and node.name in unread:
            continue
        if node.op == "get_attr":
            inner = f"{prefix}{node.target}/"
            held = attribute(source, str(node.target))
            if inner in editor.graphs:
                held = _module_of(editor, inner, held, unread)
            _set_attribute(root, str(node.target), held)
        copies[node] = copy_node(graph, node, copies.__getitem__)
    module = GraphModule(root, graph)
    module.meta.update(getattr(source, "meta", {}))
    return module


def _set_attribute(root: torch.nn.Module, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        if not hasattr(root, part):
            root.add_module(part, torch.nn.Module())
        root = getattr(root, part)
    setattr(root, last, value)


def _signature(editor: Editor, graph: Graph) -> ExportGraphSignature:
    old = editor.program.exported_program.graph_signature
    inputs: list[InputSpec] = []
    for node in graph.nodes:
        if node.op != "placeholder":
            continue
        added = editor.new_constants.get(node.name)
        if added is None:
            inputs.append(editor.program.specs[node.name])
            continue
        like = editor.root_constant(node.name)
        spec = None if like is None else editor.program.specs[like]
        kind, persistent = (spec.kind, spec.persistent) if spec is not None else (InputKind.CONSTANT_TENSOR, None)
        inputs.append(InputSpec(kind, TensorArgument(name=node.name), added.key, persistent=persistent))
    returned = list(graph.output_node().args[0])  # type: ignore[arg-type]
    outputs = []
    for spec, value in zip(old.output_specs, returned, strict=True):
        spec = copy.deepcopy(spec)
        if isinstance(value, Node) and hasattr(spec.arg, "name"):
            spec.arg.name = value.name
        outputs.append(spec)
    return ExportGraphSignature(input_specs=inputs, output_specs=outputs)


def _tensors(editor: Editor, signature: ExportGraphSignature) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state dict and the lifted constants. A tied name goes only with its last reader, tensors nobody lifted stay."""
    source = editor.program.exported_program
    wanted = {s.target for s in signature.input_specs if s.target is not None}
    lifted = {s.target for s in editor.program.specs.values() if s.target is not None}
    state = {k: v for k, v in source.state_dict.items() if k in wanted or k not in lifted}
    constants = {k: v for k, v in source.constants.items() if k in wanted or k not in lifted}
    for added in editor.new_constants.values():
        if added.key not in wanted:
            continue
        spec = next(s for s in signature.input_specs if s.target == added.key)
        in_state = spec.kind is InputKind.PARAMETER or (spec.kind is InputKind.BUFFER and spec.persistent)
        (state if in_state else constants)[added.key] = added.tensor
    return state, constants
