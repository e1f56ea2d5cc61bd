"""Programs in ExecuTorch's edge dialect open as they are, and are matched as the ATen programs that they come from."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lowerscope.edge_dialect import NOTE, is_edge
from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.program import Program, capture
from lowerscope.session import Session

pytestmark = pytest.mark.executorch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.up = nn.ConvTranspose2d(4, 4, 4, 2, 1, groups=4)
        self.linear = nn.Linear(4, 5)

    def forward(self, x):
        x = F.interpolate(self.up(F.relu(self.bn(self.conv(x)))), scale_factor=2.0)
        x = torch.cond(x.sum() > 0, lambda v: v.sigmoid().relu(), lambda v: (v * 2).relu(), (x,))
        return self.linear(x.permute(0, 2, 3, 1).reshape(1, -1, 4).half().float()[:, 1:])


@pytest.fixture(scope="module")
def edge():
    from executorch import exir

    torch.manual_seed(0)
    module, args = Net().eval(), (torch.randn(1, 3, 6, 6),)
    program = capture(module, args)
    manager = exir.to_edge(
        torch.export.export(module, args), compile_config=exir.EdgeCompileConfig(_check_ir_validity=False)
    )
    return program, manager


def test_it_opens_in_aten_and_says_so(edge):
    _, manager = edge
    exported = manager.exported_program()
    names = [n.name for n in exported.graph.nodes]
    assert is_edge(exported)
    program = Program(exported)
    assert program.notes == (NOTE,)
    assert not is_edge(program.exported_program)
    assert [n.name for n in program.graph.nodes] == names
    assert is_edge(exported), "the user's program is not changed"
    assert Program(program).notes == (NOTE,)
    program.exported_program.validate()


def test_a_manager_opens_too(edge):
    _, manager = edge
    assert Session(manager, "xnnpack").lowering.notes == (NOTE,)


def test_it_is_matched_as_the_program_that_it_comes_from(edge):
    program, manager = edge
    theirs = lower(Program(manager), "xnnpack")
    assert theirs.notes == (NOTE,)
    ours = lower(program, "xnnpack")
    applied = [
        Counter(s.pattern for s in found.steps if s.pattern not in ("core_aten", "upsample_nearest_x2"))
        for found in (theirs, ours)
    ]
    for name in ("fold_batch_norm", "polyphase_conv_transpose", "fuse_activation"):
        assert applied[0][name] == applied[1][name] > 0
    theirs.program.exported_program.validate()
    (x,), _ = program.inputs()
    assert parity(Program(manager, example_inputs=((x,), {})), theirs.program, oracle=False).agrees
    with torch.no_grad():
        torch.testing.assert_close(
            theirs.program.exported_program.module()(x), program.exported_program.module()(x), rtol=1e-3, atol=1e-3
        )
