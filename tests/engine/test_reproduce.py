"""The cut program shows the verdict that it was cut for, by itself and from its script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.by_example import pattern_from
from lowerscope.errors import LowerscopeError
from lowerscope.lowering import lower
from lowerscope.pattern import REGISTRY
from lowerscope.program import capture
from lowerscope.session import Session
from tests.engine.nets import mixed


def of(rows, **wanted):
    """The first row of a frame whose columns have these values."""
    for name, value in wanted.items():
        rows = rows[rows[name] == value]
    return rows.iloc[0]


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(mixed())


def operators(program) -> int:
    return sum(n.op == "call_function" for n in program.graph.nodes)


@pytest.mark.parametrize(
    ("pattern", "verdict", "failed", "most"),
    [
        ("conv2d_with_epilogue", "near miss", "one_user", 3),
        ("conv2d_with_epilogue", "near miss", "two_dimensional", 2),
        ("conv2d_with_epilogue", "shadowed", "", 8),
        ("conv_with_clamp", "shadowed", "", 4),
        ("conv_with_clamp", "nothing to fuse", "clamp_follows", 4),
        ("fold_batch_norm", "applied", "", 3),
    ],
)
def test_a_cut_is_small_and_shows_the_same_verdict(session, pattern, verdict, failed, most):
    row = of(session.matches(pattern), verdict=verdict, failed=failed)
    found = session.reproduce(pattern, row.anchor)
    assert (found.verdict, found.failed or "") == (verdict, failed)
    assert operators(found.program) <= most < operators(session.program)
    again = lower(found.program, session.recipe).verdicts[pattern, found.node]
    assert (str(again.outcome), again.failed or "") == (verdict, failed)
    assert found.script_path is None
    assert f"{verdict}" in repr(found)


def test_it_runs_and_keeps_names_weights_and_the_module_path(session):
    row = of(session.matches("conv2d_with_epilogue"), failed="one_user")
    found = session.reproduce("conv2d_with_epilogue", row.anchor)
    args, kwargs = found.program.inputs()
    outputs = found.program.exported_program.module()(*args, **kwargs)
    weight = found.program.constants["p_up_weight"]
    assert torch.equal(weight, session.program.constants["p_up_weight"])
    conv = next(n for n in found.program.graph.nodes if n.op == "call_function")
    assert conv.name in session.lowering.origin(row.anchor)
    assert "up" in str(conv.meta["nn_module_stack"])
    expected = F.conv_transpose2d(args[0], weight, found.program.constants["p_up_bias"], 2, 1, 0, 4)
    assert any(torch.allclose(o, expected + args[0].new_zeros(())) or o.shape == expected.shape for o in outputs)


def test_the_script_shows_it_in_a_process_of_its_own(session, tmp_path):
    row = of(session.matches("conv2d_with_epilogue"), failed="one_user")
    found = session.reproduce("conv2d_with_epilogue", row.anchor, tmp_path / "report")
    assert found.program_path is not None
    assert found.script_path is not None
    assert found.program_path.parent == found.script_path.parent == tmp_path / "report"
    done = subprocess.run([sys.executable, str(found.script_path)], capture_output=True, text=True, check=True)
    assert "the convolution has 2 users" in done.stdout
    broken = found.script_path.read_text(encoding="utf-8").replace("'near miss'", "'applied'")
    found.script_path.write_text(broken, encoding="utf-8")
    assert subprocess.run([sys.executable, str(found.script_path)], capture_output=True, check=False).returncode == 1


def test_the_script_imports_what_registers_the_operators(tmp_path):
    import torchao.quantization  # noqa: F401

    session = Session("sample_models/quantized_mlp_8da4w.pt2")
    row = session.matches("quantized_linear").iloc[0]
    found = session.reproduce("quantized_linear", row.anchor, tmp_path)
    assert "import lowerscope\nimport torchao\n" in found.script
    done = subprocess.run([sys.executable, str(found.script_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"quantized_linear is {found.verdict}" in done.stdout


def test_the_script_says_where_a_pattern_of_ones_own_belongs(tmp_path):
    pattern_from(lambda x: x.sin().exp(), torch.neg, [torch.randn(2, 3)], name="own")
    try:
        session = Session(capture(Sines(), (torch.randn(2, 3),)))
        found = session.reproduce("own", "exp", tmp_path)
        assert (found.verdict, found.failed) == ("near miss", "no_escape")
        (line,) = [line for line in found.script.splitlines() if line.startswith("#")]
        assert line == "# 'own' is a pattern of your own: define or import it here"
        own = (
            "import torch\nlowerscope.pattern_from(lambda x: x.sin().exp(), torch.neg, [torch.randn(2, 3)], name='own')"
        )
        assert found.script_path is not None
        found.script_path.write_text(found.script.replace(line, own), encoding="utf-8")
        subprocess.run([sys.executable, str(found.script_path)], capture_output=True, check=True)
    finally:
        REGISTRY.remove("own")


class Sines(nn.Module):
    def forward(self, x):
        y = x.sin()
        return y.exp(), y.cos()


def test_a_skip_of_a_module_still_holds_in_the_cut():
    session = Session(mixed())
    session.skip(module="skip")
    row = of(session.matches("conv2d_with_epilogue"), verdict="skipped")
    found = session.reproduce("conv2d_with_epilogue", row.anchor)
    assert (found.verdict, found.failed) == ("skipped", "not_skipped")
    assert operators(found.program) < 6


def test_a_node_of_a_region_is_cut_out_of_it(session):
    found = session.reproduce("conv2d_with_epilogue", "submod_1/convolution_4")
    assert found.verdict == "applied"
    assert operators(found.program) == 2


def test_a_shape_with_a_symbol_keeps_its_range(tmp_path):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2))
    program = capture(net.eval(), (torch.randn(4, 3, 8, 8),), dynamic_shapes=({0: Dim("n", min=2, max=64)},))
    found = Session(program).reproduce("conv2d_with_epilogue", "conv2d", tmp_path)
    assert found.failed == "batch_1"
    assert list(found.program.dynamic_sizes.values()) == [(2, 64)]
    reopened = Session(found.program_path)
    assert "up to 64" in str(reopened.why_not("conv2d_with_epilogue", "conv2d"))


def test_large_weights_are_made_up():
    program = capture(nn.Sequential(nn.Conv2d(128, 128, 3), nn.Sigmoid()).eval(), (torch.randn(2, 128, 5, 5),))
    found = Session(program).reproduce("conv2d_with_epilogue", "conv2d")
    made, own = found.program.constants["p_0_weight"], program.constants["p_0_weight"]
    assert made.shape == own.shape
    assert not torch.equal(made, own)
    assert torch.equal(found.program.constants["p_0_bias"], program.constants["p_0_bias"])


def test_several_outputs_are_cut_with_all_their_readers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            values, places = torch.max(self.conv(x), 1)
            return values.relu(), places

    session = Session(capture(Net().eval(), (torch.randn(1, 3, 6, 6),)))
    row = session.matches("conv_with_clamp").iloc[0]
    found = session.reproduce("conv_with_clamp", row.anchor)
    assert found.failed == row.failed
    assert {"max_1"} <= {n.name for n in found.program.graph.nodes} or operators(found.program) == 1


def test_where_there_is_no_anchor_there_is_nothing_to_reproduce():
    session = Session(capture(nn.Sigmoid(), (torch.randn(2),)))
    with pytest.raises(LowerscopeError, match="nothing to reproduce of conv2d_with_epilogue at 'sigmoid'"):
        session.reproduce("conv2d_with_epilogue", "sigmoid")


def test_a_folder_that_cannot_be_made_is_said(session, tmp_path):
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    with pytest.raises(LowerscopeError, match="choose another folder"):
        session.reproduce("fold_batch_norm", "batch_norm", Path(tmp_path / "taken" / "below"))
