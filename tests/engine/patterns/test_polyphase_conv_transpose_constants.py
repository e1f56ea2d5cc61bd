"""polyphase_conv_transpose: the constants that it makes, shares, keeps and leaves to others."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lowerscope.lowering import lower
from lowerscope.recipe import Recipe
from tests.engine.patterns.condition_cases import program_of
from tests.engine.patterns.polyphase_nets import DENSE_2D, DEPTHWISE_2D, PATTERN, up
from tests.engine.patterns.vulkan_nets import assert_agrees, calls_of
from tests.engine.patterns.xnnpack_nets import (
    applied,
)


class SharedWeight(nn.Module):
    """Three depthwise transposed convolutions of one weight: of two strides, and two alike."""

    def __init__(self, groups: int, shared_bias: bool = False):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.randn(4, 4 // groups, 4, 4))
        self.bias = nn.Parameter(torch.randn(4)) if shared_bias else None

    def forward(self, x):
        a = F.conv_transpose2d(x, self.weight, self.bias, 2, 1, 0, self.groups)
        b = F.conv_transpose2d(x, self.weight, self.bias, 4, 0, 0, self.groups)
        c = F.conv_transpose2d(x, self.weight, self.bias, 2, 0, 0, self.groups)
        d = F.conv_transpose2d(x.relu(), self.weight, self.bias, 2, 1, 0, self.groups)
        return a, b, c, d


@pytest.mark.parametrize("groups", [1, 4])
def test_a_shared_weight_with_other_strides_and_paddings_has_its_own_phases_each(groups):
    program = program_of((SharedWeight(groups), (torch.randn(1, 4, 4, 4),)))
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 4
    assert_agrees(program, lowering)
    weights = [c["weight"].name for c in calls_of(lowering, "aten.convolution")]
    count = 4 if groups == 4 else 1
    wide = 16 if groups == 4 else 1
    a, b, c, d = (
        weights[:count], weights[count : count + wide], weights[count + wide : -count], weights[-count:],
    )  # fmt: skip
    assert a == d
    assert not set(a) & set(b)
    assert len(set(weights)) == len(lowering.program.constants)
    if groups == 1:  # one kernel for all phases: padding only moves where the result is cut
        assert a == c


def test_a_bias_is_repeated_for_the_dense_form_and_other_readers_keep_it():
    class Tail(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = DENSE_2D()

        def forward(self, x):
            return self.up(x) - self.up.get_parameter("bias").reshape(1, -1, 1, 1)

    program = program_of((Tail(), (torch.randn(1, 4, 3, 3),)))
    lowering = lower(program, Recipe("xnnpack").disable("fold_constants"))
    parameters = set(lowering.program.exported_program.graph_signature.parameters)
    assert parameters == {"up.weight_phases", "up.bias_phases", "up.bias"}
    assert_agrees(program, lowering)


class Kinds(nn.Module):
    def __init__(self, kind: str, depthwise: bool):
        super().__init__()
        weight = torch.randn(4, 1 if depthwise else 3, 4, 4)
        self.groups = 4 if depthwise else 1
        if kind == "parameter":
            self.weight = nn.Parameter(weight)
        elif kind == "buffer":
            self.register_buffer("weight", weight)
        else:
            self.weight = weight

    def forward(self, x):
        return F.conv_transpose2d(x, self.weight, None, 2, 1, groups=self.groups)


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("kind", ["parameter", "buffer", "constant"])
def test_phase_constants_keep_the_kind_of_the_weight(kind, depthwise):
    program = program_of((Kinds(kind, depthwise), (torch.randn(1, 4, 3, 3),)))
    lowered_program = lower(program, "xnnpack").program
    names = list(lowered_program.constants)
    assert len(names) == (4 if depthwise else 1)
    assert {lowered_program.constant_kind(n) for n in names} == {kind}
    prefix = {"parameter": "p_", "buffer": "b_", "constant": "c_"}[kind]
    assert all(n.startswith(prefix) and "phase" in n for n in names)
    assert_agrees(program, lower(program, "xnnpack"))


@pytest.mark.parametrize("conv", [DENSE_2D, DEPTHWISE_2D])
def test_tags_of_the_weight_are_kept(conv):
    program = program_of(up(conv)())
    placeholder = next(n for n in program.graph.nodes if n.name == "p_conv_weight")
    placeholder.meta["delegate_constant_tag"] = "external"
    placeholder.meta["custom"] = {"mine": 3}
    lowered_program = lower(program, "xnnpack").program
    made = [n for n in lowered_program.graph.nodes if n.op == "placeholder" and "weight_phase" in n.name]
    assert made
    assert all(n.meta["delegate_constant_tag"] == "external" for n in made)
    assert all(n.meta["custom"] == {"mine": 3} for n in made)


class Readers(nn.Module):
    def __init__(self, how: str):
        super().__init__()
        self.how = how
        self.up = nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1, groups=4, bias=False)
        if how == "tied":
            self.other = nn.Conv2d(1, 4, 4)
            self.other.weight = self.up.weight

    def forward(self, x):
        y = self.up(x)
        if self.how == "returned":
            return y, self.up.weight
        if self.how == "read":
            return y + self.up.weight.amax(dim=(1, 2, 3)).reshape(1, -1, 1, 1) * x.mean()
        if self.how == "tied":
            return y, self.other(x[:, :1])
        return y


@pytest.mark.parametrize("how", ["alone", "returned", "read", "tied"])
def test_the_old_weight_goes_only_when_nothing_else_reads_it(how):
    program = program_of((Readers(how), (torch.randn(1, 4, 5, 5),)))
    lowering = lower(program, Recipe("xnnpack").disable("fold_constants"))
    assert applied(lowering, PATTERN) == 1
    values = list(lowering.program.constants.values())
    old = program.exported_program.state_dict["up.weight"]
    assert any(v.data_ptr() == old.data_ptr() for v in values) == (how != "alone")
    assert_agrees(program, lowering)
    assert "up.weight" in program.exported_program.state_dict


def test_a_sub_graph_gets_its_phase_constants_too():
    class Region(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = DEPTHWISE_2D()

        def forward(self, x):
            with torch.no_grad():
                y = self.up(x)
            return y * 2

    program = program_of((Region(), (torch.randn(1, 4, 3, 3),)))
    lowering = lower(program, "xnnpack")
    assert applied(lowering, PATTERN) == 1
    assert_agrees(program, lowering)
