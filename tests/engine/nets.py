"""Small networks that the tests of the engine's core lower, and the state of a lowering as plain values to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lowerscope.editor import Editor
from lowerscope.program import Program, capture


class Of(nn.Module):
    """A module whose forward is a function of itself and the inputs; tensors among its members are buffers."""

    def __init__(self, function: Callable[..., Any], **members: Any) -> None:
        super().__init__()
        self._function = function
        for name, value in members.items():
            if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *args: Any) -> Any:
        return self._function(self, *args)


class Named(nn.Module):
    """A convolution and a relu in a module of each name."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names
        for name in names:
            self.add_module(name, nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in self._names:
            x = getattr(self, name)(x)
        return x


class Mixed(nn.Module):
    """What every stage finds something in: batch norms, an in-place relu, 1-D and 2-D convolutions, a scaled skip,
    hardswish, a tied weight, and a region of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.skip = nn.Conv2d(4, 4, 3, padding=1)
        self.scale = nn.Parameter(torch.rand(1, 4, 1, 1) + 0.5)
        self.left, self.right = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
        self.row = nn.Conv1d(4, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1, groups=4)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()  # type: ignore[union-attr]
                module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.stem(x)
        x = F.relu(self.skip(x) + x * self.scale)
        x = F.hardtanh(self.left(x) + self.right(x))
        row = F.relu(self.row(self.row(x.mean(2))))
        with torch.no_grad():
            inner = F.relu6(self.skip(x))
        return F.hardswish(self.up(x + inner)), row


def mixed() -> Program:
    """`Mixed`, captured on one image [1, 3, 6, 5]."""
    torch.manual_seed(1)
    return capture(Mixed().eval(), (torch.randn(1, 3, 6, 5),))


def state_of(editor: Editor) -> dict[str, Any]:
    """Everything that an editor knows, as values that can be compared: graphs in order, ledger, constants."""
    graphs = {
        prefix: [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs), _value(n.meta.get("val"))) for n in g.nodes]
        for prefix, g in editor.graphs.items()
    }
    users = {id: sorted(editor.id_of(u) for u in node.users) for id, node in editor.nodes.items()}
    records = {
        r.id: (r.op, str(r.target), str(r.args), str(r.kwargs), r.inputs, _value(r.val), r.stack, r.born, r.died)
        for r in editor.ledger.records.values()
    }
    edges = sorted((e.source, e.target, e.born, -1 if e.died is None else e.died) for e in editor.ledger.edges())
    constants = {c.name: (c.like, c.key, c.tensor.sum().item()) for c in editor.new_constants.values()}
    kin = (dict(editor.ledger.parents), dict(editor.ledger.made))
    return {
        "graphs": graphs, "users": users, "records": records, "edges": edges, "constants": constants, "kin": kin,
        "step": editor.step,
    }  # fmt: skip


def _value(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.stride(), value.dtype)
    if isinstance(value, (list, tuple)):
        return tuple(_value(v) for v in value)
    return str(value)
