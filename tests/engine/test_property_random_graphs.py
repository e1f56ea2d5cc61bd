"""Random networks by random recipes for every target: numbers stay, programs stay valid, and every step can be taken back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lowerscope.loading import load
from lowerscope.lowering import Lowerer, Lowering
from lowerscope.measure.parity import parity
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe
from lowerscope.target import TARGETS, pipeline
from lowerscope.verdict import Outcome
from tests.engine.nets import state_of
from tests.engine.random_nets import draws, nets, recipes

DRAWS = 12  #: for each target
OURS = ("vulkan", "webgpu", "xnnpack", "qnn", "ort-webgpu", "ethos-u")
#: target -> dtypes to draw from, where its patterns ask for another than float32
DTYPES = {"ort-webgpu": (torch.float16, torch.float16, torch.float32)}
#: target -> a pattern that is its alone, which some of the draws must reach
ALONE = {
    "vulkan": "conv2d_with_epilogue",
    "webgpu": "conv_with_clamp",
    "xnnpack": "fuse_activation",
    "qnn": "channels_last",
    "ort-webgpu": "im2col_conv_activation",
    "ethos-u": "fold_batch_norm",
}


@pytest.mark.parametrize("target", OURS)
def test_random_networks_by_random_recipes(target: str, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()

    @draws(DRAWS)
    @given(st.data())
    def one(data: st.DataObject) -> None:
        module, args = data.draw(nets(target))
        dtype = data.draw(st.sampled_from(DTYPES.get(target, (torch.float32,))))
        program = capture(module.to(dtype), tuple(a.to(dtype) for a in args))
        recipe = data.draw(recipes(program, target))

        lowerer = Lowerer(program)
        lowering = undone_and_done_again(lowerer, Recipe(target), recipe)
        errors = [v for v in lowering.verdicts.values() if v.outcome is Outcome.ERROR]
        assert not errors, errors[0].reason
        lowering.program.exported_program.validate()
        report = parity(program, lowering.program)
        assert report.agrees, f"{report}\n{recipe.to_json()}"
        saved_and_loaded(lowering.program, tmp_path / "lowered.pt2")

        patterns = {step.pattern for step in lowering.steps} - {"core_aten"}
        tally.update(["draws", *(["rewritten"] if patterns else []), *patterns])

    one()
    assert tally["rewritten"] >= 0.3 * tally["draws"], tally
    assert tally[ALONE[target]], tally


def test_no_target_is_left_out() -> None:
    assert set(OURS) <= set(TARGETS)
    assert set(ALONE) == set(OURS) == {name for name in TARGETS if pipeline(name)}


def undone_and_done_again(lowerer: Lowerer, first: Recipe, second: Recipe) -> Lowering:
    """Go from one recipe to another, back, and forth again: every state comes out as it was. The last lowering."""
    one = lowerer.lower(first)
    before = state_of(lowerer.editor_after(first))
    two = lowerer.lower(second)
    after = state_of(lowerer.editor_after(second))
    lowerer.forget()
    again = lowerer.lower(first)
    assert state_of(lowerer.editor_after(first)) == before
    assert (again.steps, dict(again.verdicts)) == (one.steps, dict(one.verdicts))
    lowerer.forget()
    last = lowerer.lower(second)
    assert state_of(lowerer.editor_after(second)) == after
    assert (last.steps, dict(last.verdicts)) == (two.steps, dict(two.verdicts))
    return last


def saved_and_loaded(program: Program, path: Path) -> None:
    """A lowered program that was saved and loaded gives bit for bit what it gave."""
    program.save(path)
    again = load(path)
    args, kwargs = program.inputs()
    with torch.no_grad():
        expected = program.exported_program.module()(*args, **kwargs)
        actual = again.exported_program.module()(*args, **kwargs)
    assert len(expected) == len(actual)
    assert all(torch.equal(e, a) for e, a in zip(expected, actual, strict=True))
