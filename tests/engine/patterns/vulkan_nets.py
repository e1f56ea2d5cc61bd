"""Small networks around one convolution, and what the tests of Vulkan's patterns read off a lowering."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from lowerscope.arguments import arguments
from lowerscope.lowering import Lowering
from lowerscope.measure.parity import parity
from lowerscope.ops import display_name
from lowerscope.program import Program
from lowerscope.verdict import Verdict

SCALE = torch.full((1, 4, 1, 1), 0.5)


class Net(nn.Module):
    """`then(conv(x), others..., net)`: a convolution of 4 channels, and what the test puts behind it."""

    def __init__(self, then, conv=None, **members):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1) if conv is None else conv
        self.then = then
        for name, value in members.items():
            if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, x, *others):
        return self.then(self.conv(x), *others, self)


def image(batch=1, channels=4, height=6, width=5):
    return torch.randn(batch, channels, height, width)


def net(then, *others, x=None, conv=None, dtype=None, shapes=None, **members):
    """A factory of (module, args) for `Net`."""

    def make():
        torch.manual_seed(3)
        module = Net(then, conv() if conv is not None else None, **members)
        args = (image() if x is None else x, *others)
        if dtype is not None:
            module, args = module.to(dtype), tuple(a.to(dtype) for a in args)
        return (module, args) if shapes is None else (module, args, shapes)

    return make


relu = net(lambda y, s: y.relu())


def scaled_by(scale, x=None, then=lambda y, r, s: y + r * s.scale):
    """A factory of a network whose residual is a second input times `scale`, a buffer."""
    return net(then, image() if x is None else x, scale=scale)


def calls_of(lowering: Lowering, op: str) -> list[dict[str, Any]]:
    """The arguments of every call of an op (its display name) in the lowered program, sub-graphs included."""
    graphs = [m.graph for m in lowering.program.graph_module.modules() if isinstance(m, GraphModule)]
    calls = [n for g in graphs for n in g.nodes if n.op == "call_function"]
    return [arguments(n) for n in calls if display_name(n.target) == op]


def ops_of(lowering: Lowering) -> list[str]:
    """The ops of the lowered program's top graph, in order."""
    return [display_name(n.target) for n in lowering.program.graph.nodes if n.op == "call_function"]


def verdict_of(lowering: Lowering, pattern: str, anchor: str = "convolution") -> Verdict:
    """The verdict on a pattern at an anchor."""
    return lowering.verdicts[pattern, anchor]


def assert_agrees(program: Program, lowering: Lowering) -> None:
    """The lowered program is valid, and its numbers are the program's."""
    lowering.program.exported_program.validate()
    report = parity(program, lowering.program, oracle=False)
    assert report.agrees, str(report)
