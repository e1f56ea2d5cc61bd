"""The module tree of a quantized program: PT2E returns a flat graph module, whose export knows no modules."""

from __future__ import annotations

import torch

_STACK = "nn_module_stack"


def keep(converted: torch.fx.GraphModule, program: torch.export.ExportedProgram) -> None:
    """Give each node of `program`, the export of `converted`, the module stack of the node that it was traced from.

    A quantize node belongs where its input comes from, a dequantize node where its output goes.

    Raises:
        RuntimeError: the export changed the order of the calls.
    """
    before = [node for node in converted.graph.nodes if node.op == "call_function"]
    after = [node for node in program.graph.nodes if node.op == "call_function"]
    if [node.target for node in before] != [node.target for node in after]:
        raise RuntimeError("the export of the converted module calls other operators than the module does")
    stacks = {node: node.meta.get(_STACK) for node in before}
    for node in before:
        if stacks[node] is None and node.args[0] in stacks:
            stacks[node] = stacks[node.args[0]]
    for node in reversed(before):
        readers = [stacks[user] for user in node.users if user in stacks]
        if "dequantize" in str(node.target) and readers and readers[0] is not None:
            stacks[node] = readers[0]
    root = next(stack for stack in stacks.values() if stack)
    outermost = dict([next(iter(root.items()))])
    for old, new in zip(before, after, strict=True):
        new.meta[_STACK] = stacks[old] or outermost
