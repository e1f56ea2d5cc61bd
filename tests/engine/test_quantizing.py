"""lowerscope.quantize: each mode gives the program it names, what has no kernel is refused, the module stays as it was."""

from __future__ import annotations

import builtins
import copy

import pytest
import torch
from torch import nn

import lowerscope
from lowerscope.errors import CaptureError, MeasureError, QuantizeError, UnknownNameError
from lowerscope.quantizing import KERNELS, MODES
from lowerscope.target import TARGETS
from lowerscope.verdict import Outcome
from tests.engine.patterns.vulkan_nets import ops_of

pytestmark = pytest.mark.quantize


class Mlp(nn.Module):
    def __init__(self, inputs=64, outputs=8):
        super().__init__()
        self.first, self.second = nn.Linear(inputs, 32), nn.Linear(32, outputs)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 6, 3, padding=1)

    def forward(self, x):
        return torch.tanh(self.conv(x)).permute(0, 2, 3, 1)


def mlp():
    return Mlp().eval(), (torch.randn(2, 64),)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_a_quantized_program_and_leaves_the_module(mode):
    module, args = mlp()
    state, before = copy.deepcopy(module.state_dict()), module(*args)
    program = lowerscope.quantize(module, args, mode=mode, force=True)
    assert list(module.state_dict()) == list(state)
    assert all(torch.equal(v, state[k]) for k, v in module.state_dict().items())
    assert type(module.first) is nn.Linear
    assert torch.equal(module(*args), before)
    names = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    assert any("dequantize" in name for name in names)
    after = program.exported_program.module()(*args)
    error = float((after - before).norm() / before.norm())
    assert 0 < error < (0.3 if "4w" in mode else 0.05)


@pytest.mark.parametrize(
    ("mode", "op", "count"),
    [
        ("static8", "et_vk.linear_q8ta_q8csw", 2),
        ("4w", "et_vk.linear_q4gsw", 2),
        ("8da4w", "et_vk.linear_dq8ca_q4gsw", 2),
    ],
)
def test_vulkans_kernels_take_what_was_quantized_for_it(mode, op, count):
    module, args = mlp()
    lowering = lowerscope.lower(lowerscope.quantize(module, args, "vulkan", mode), "vulkan")
    assert ops_of(lowering).count(op) == count


def test_a_static_network_becomes_integers_on_ethos_u():
    torch.manual_seed(1)
    module, args = Conv().eval(), (torch.randn(1, 4, 5, 5),)
    program = lowerscope.quantize(module, args, target="ethos-u", mode="static8")
    found = list(lowerscope.lower(program, "ethos-u").verdicts_of("lower_to_tosa"))
    assert found
    assert {v.outcome for v in found} == {Outcome.APPLIED}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", MODES)
def test_a_mode_without_a_kernel_is_refused_and_those_that_have_one_are_listed(target, mode):
    kernels = KERNELS.get(target, ())
    if mode in kernels:
        assert lowerscope.quantize(*mlp(), target=target, mode=mode).name == f"Mlp, {mode}"
        return
    with pytest.raises(QuantizeError, match=f"target {target} has no kernel for {mode} .*force=True") as caught:
        lowerscope.quantize(*mlp(), target=target, mode=mode)
    assert (", ".join(kernels) or "no mode") in str(caught.value)


def test_the_tables_of_the_kernels_name_targets_and_modes():
    assert set(KERNELS) <= set(TARGETS)
    assert {mode for modes in KERNELS.values() for mode in modes} <= set(MODES)


def test_forced_one_sees_what_is_left_and_why():
    program = lowerscope.quantize(*mlp(), target="vulkan", mode="8w", force=True)
    lowering = lowerscope.lower(program, "vulkan")
    verdicts = list(lowering.verdicts_of("quantized_linear"))
    assert {v.failed for v in verdicts} == {"kernel"}
    assert len(verdicts) == 2


def test_what_cannot_be_quantized_is_told():
    module, args = mlp()
    with pytest.raises(UnknownNameError, match="'8dq'"):
        lowerscope.quantize(module, args, mode="8dq")
    with pytest.raises(UnknownNameError, match="'metal'"):
        lowerscope.quantize(module, args, target="metal")
    with pytest.raises(QuantizeError, match="'first' has 40 inputs, no multiple of 32"):
        lowerscope.quantize(Mlp(40), (torch.randn(2, 40),))
    assert lowerscope.quantize(Mlp(40).eval(), (torch.randn(2, 40),), group_size=8).name == "Mlp, 8da4w"
    with pytest.raises(QuantizeError, match=r"Conv has no nn\.Linear.*static8"):
        lowerscope.quantize(Conv(), (torch.randn(1, 4, 5, 5),), mode="4w")
    with pytest.raises(CaptureError):
        lowerscope.quantize(module, [args[0]], mode="static8")  # pyright: ignore[reportArgumentType]


def test_without_torchao_the_way_to_get_it_is_told(monkeypatch):
    real_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("torchao"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(QuantizeError, match=r"lowerscope\[quantize\]"):
        lowerscope.quantize(*mlp())


@pytest.mark.parametrize("mode", MODES)
def test_the_quantization_error_of_each_layer(mode):
    module, args = mlp()
    program, quantized = lowerscope.capture(module, args), lowerscope.quantize(module, args, mode=mode, force=True)
    table = lowerscope.Session(quantized, "vulkan").quantization_error(program, args)
    assert list(table["layer"]) == ["linear", "relu", "linear_1", "out"]
    assert list(table["module"]) == ["first", "", "second", ""]
    with torch.no_grad():
        error = quantized.exported_program.module()(*args) - module(*args)
        expected = 10 * torch.log10((module(*args) ** 2).sum() / (error**2).sum())
    assert table["sqnr_db"].iloc[-1] == pytest.approx(float(expected), rel=1e-3)
    assert all(8 < db < 80 for db in table["sqnr_db"])


def test_a_float_program_has_no_quantization_error_against_itself_and_another_program_is_refused():
    module, args = mlp()
    program = lowerscope.capture(module, args)
    session = lowerscope.Session(program, "vulkan")
    assert set(session.quantization_error(program)["sqnr_db"]) == {float("inf")}

    class Other(nn.Module):
        def forward(self, x):
            return x.sigmoid()

    with pytest.raises(MeasureError, match="no operator in common with Other"):
        session.quantization_error(lowerscope.capture(Other(), args))
