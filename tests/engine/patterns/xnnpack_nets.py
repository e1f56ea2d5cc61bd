"""Many convolutions in one program, so that a wide sweep of parameters costs few exports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import nn

from lowerscope.lowering import Lowering, lower
from lowerscope.measure.parity import parity
from lowerscope.ops import display_name
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe

#: the patterns without the transposes that a layout puts around what they make
WITHOUT_LAYOUT = Recipe("xnnpack").disable("channels_last")


class Many(nn.Module):
    """Each module on an input of its own."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.each = nn.ModuleList(modules)

    def forward(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [module(x) for module, x in zip(self.each, inputs, strict=True)]


def many(modules: Sequence[nn.Module], inputs: Sequence[torch.Tensor]) -> Program:
    """A program of modules and their inputs, all in float64."""
    return capture(Many(modules).double().eval(), ([x.double() for x in inputs],))


def applied(lowering: Lowering, pattern: str) -> int:
    """How often a pattern was applied."""
    return sum(step.pattern == pattern for step in lowering.steps)


def lowered_exactly(program: Program, recipe: Recipe | str) -> Lowering:
    """Lower a float64 program: valid, and every output within 1e-12 of eager's scale."""
    lowering = lower(program, recipe)
    lowering.program.exported_program.validate()
    report = parity(program, lowering.program, oracle=False, tolerance=1e-12)
    assert report.agrees, str(report)
    return lowering


def counts_of(lowering: Lowering) -> Counter[str]:
    """How often each op is called in the top graph of the lowered program."""
    return Counter(display_name(n.target) for n in lowering.program.graph.nodes if n.op == "call_function")


def transposed_left(lowering: Lowering) -> int:
    """How many transposed convolutions the lowered program still has."""
    found = lowering.program.graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default)
    return sum(bool(n.args[6]) for n in found)
