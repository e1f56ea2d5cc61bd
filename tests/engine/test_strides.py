"""A decomposition that lays its value out otherwise than its op did: what reads it is decomposed by the strides it has."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim
from torch.fx import Node

import lowerscope
from lowerscope.strides import same_strides

TARGETS = ("vulkan", "webgpu", "xnnpack", "qnn", "ethos-u", "ort-webgpu")


class Attention(nn.Module):
    """torch's kernel gives [b, h, t, d] laid out as [b, t, h, d], its decomposition as [t, b, h, d]."""

    def __init__(self, rows: bool = False) -> None:
        super().__init__()
        self.rows = rows
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        joined = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous()
        return self.out(joined.view(b * t, d) if self.rows else joined.view(b, t, d))


def sizes(dynamic: bool) -> dict[str, object]:
    if not dynamic:
        return {}
    return {"dynamic_shapes": ({0: Dim("batch", min=2, max=8), 1: Dim("time", min=2, max=64)},)}


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("target", TARGETS)
def test_attention_joined_by_a_view_runs_on(target: str, dynamic: bool) -> None:
    torch.manual_seed(0)
    program = lowerscope.capture(Attention().eval(), (torch.randn(2, 6, 16),), **sizes(dynamic))  # type: ignore[arg-type]
    session = lowerscope.Session(program, target=target)
    assert session.patterns().applied["core_aten"] >= 3
    assert set(session.parity().verdict) == {"close"}


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
def test_a_view_that_the_new_strides_do_not_allow_reads_a_copy(dynamic: bool) -> None:
    torch.manual_seed(0)
    program = lowerscope.capture(Attention(rows=True).eval(), (torch.randn(2, 6, 16),), **sizes(dynamic))  # type: ignore[arg-type]
    session = lowerscope.Session(program, target="vulkan")
    nodes = {n.name: n for n in session.lowering.program.exported_program.graph.nodes}
    source = nodes["view"].args[0]
    assert isinstance(source, Node)
    assert source.target is torch.ops.aten.clone.default
    assert set(session.parity().verdict) == {"close"}


@pytest.mark.parametrize("target", ["vulkan", "xnnpack"])
def test_strides_in_the_lowered_graph_are_those_of_a_run(target: str) -> None:
    x = torch.randn(2, 6, 16)
    session = lowerscope.Session(lowerscope.capture(Attention().eval(), (x,)), target=target)
    program = session.lowering.program.exported_program
    run = torch.fx.Interpreter(program.graph_module, garbage_collect_values=False)
    held = {**program.state_dict, **program.constants}
    given = [x if s.target is None else held[s.target] for s in program.graph_signature.input_specs]
    run.run(*given, enable_io_processing=False)
    checked = 0
    for node in program.graph.nodes:
        if node.op == "call_function" and isinstance(run.env.get(node), Tensor):
            assert same_strides(node.meta["val"], run.env[node]), node.name
            checked += 1
    assert checked > 30


def test_taking_a_step_back_gives_the_old_strides_back() -> None:
    session = lowerscope.Session(lowerscope.capture(Attention().eval(), (torch.randn(2, 6, 16),)), target="vulkan")

    def strides() -> dict[str, tuple[int, ...]]:
        nodes = session.lowering.program.exported_program.graph.nodes
        return {n.name: n.meta["val"].stride() for n in nodes if isinstance(n.meta.get("val"), Tensor)}

    lowered = strides()
    session.disable("core_aten")
    kept = strides()
    assert kept["view"] == (96, 16, 1)
    session.undo()
    assert strides() == lowered
    assert lowered["view"] != kept["view"]
