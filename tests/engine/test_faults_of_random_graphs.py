"""What random networks have brought to light, each as the smallest network that shows it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import nn

from lowerscope.errors import RecipeError
from lowerscope.loading import load
from lowerscope.lowering import Lowerer, lower
from lowerscope.pattern import REGISTRY
from lowerscope.program import capture
from lowerscope.recipe import Recipe
from lowerscope.target import TARGETS, pipeline
from lowerscope.verdict import Outcome
from tests.engine.nets import state_of


class Upsampler(nn.Module):
    """A transposed convolution of which xnnpack's polyphase form cuts the ends off, after slices of the program's own."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 4, 3, stride=2, groups=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([x[:, :2], x[:, 2:]], 1)
        return self.up(torch.cat([x[:, 2:], x[:, :2]], 1))


def test_names_like_builtins_come_out_the_same_again() -> None:
    """fx counts on from the `slice_7` that has been, and so gave the same place another name."""
    lowerer = Lowerer(capture(Upsampler().eval(), (torch.randn(2, 4, 6, 6),)))
    recipe = Recipe("xnnpack")
    steps = lowerer.lower(recipe).steps
    made = [name for step in steps for name in step.made]
    assert any(name.startswith("slice_") for name in made)
    before = state_of(lowerer.editor_after(recipe))
    for other in (recipe.disable("polyphase_conv_transpose"), recipe.disable("core_aten"), recipe):
        lowerer.forget()
        lowerer.lower(other)
    assert state_of(lowerer.editor_after(recipe)) == before


@pytest.mark.parametrize("low", [-float("inf"), float("inf"), float("nan")])
def test_numbers_that_json_does_not_have_are_read_back(low: float, tmp_path: Path) -> None:
    class Bounded(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.leaky_relu(x, low)

    capture(Bounded(), (torch.randn(2, 3),)).save(tmp_path / "bounded.pt2")
    (node,) = [n for n in load(tmp_path / "bounded.pt2").graph.nodes if n.op == "call_function"]
    assert repr(node.args[1]) == repr(low)


def inserted(target: str, name: str) -> Recipe:
    """The recipe that puts a pattern in at the first place where the declared order lets it stand."""
    for place in pipeline(target):
        recipe = Recipe(target).insert(name, after=place.name)
        with suppress(RecipeError):
            pipeline(target, recipe.insertions)
            return recipe
    raise AssertionError(f"{name} can stand nowhere in {target}")


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_patterns_put_in_from_other_targets_find_the_device_they_ask_about(name: str) -> None:
    """A pattern reads fields of its own target's device, of which another target knows nothing."""
    net = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(4, 4, 4, 2, 1)).eval()
    program = capture(net, (torch.randn(1, 4, 6, 6),))
    own = {p.name for p in pipeline(name)}
    others = [p.name for p in REGISTRY if not p.yours and p.name not in own]
    assert others
    for other in others:
        lowering = lower(program, inserted(name, other))
        met = [v for v in lowering.verdicts.values() if v.pattern == other]
        assert not [v.reason for v in met if v.outcome is Outcome.ERROR], other
