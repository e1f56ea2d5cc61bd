"""A scene made from the one before it is the scene that a new view would make."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowerscope import scene_nodes
from lowerscope.folding import Folding
from lowerscope.loading import load
from lowerscope.lowering import Lowerer, Lowering
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe
from lowerscope.scene import Scene, SceneMaker
from lowerscope.target import pipeline
from tests.engine.nets import mixed
from tests.engine.random_nets import draws, nets, recipes
from tests.engine.scenes import same_scene

SAMPLES = Path(__file__).parents[2] / "sample_models"
TARGETS = ("vulkan", "xnnpack", "qnn", "ort-webgpu", "ethos-u")
DRAWS = 10  #: for each target


def follow(program: Program, way: list[Recipe], data: st.DataObject | None = None) -> SceneMaker:
    """Draw one recipe after the other in one view, and each in a new one; what is open changes on the way."""
    lowerer, maker = Lowerer(program), SceneMaker()
    for recipe in way:
        lowering = lowerer.lower(recipe)
        scene = maker.scene(lowering)
        if data is not None and data.draw(st.booleans()):
            _, tree, folding = maker.prepare(lowering)
            row = data.draw(st.integers(0, len(tree.modules) - 1))
            folding.set_open(tree, [row], data.draw(st.booleans()))
            scene = maker.scene(lowering)
        same_scene(scene, anew(maker, lowering))
    return maker


def anew(maker: SceneMaker, lowering: Lowering) -> Scene:
    """The scene by a maker that has kept nothing but what a reader has opened, and the colours that they know."""
    fresh = SceneMaker()
    assert maker.folding is not None
    fresh.folding = Folding(set(maker.folding.open), set(maker.folding.apart))
    fresh._palette = maker._palette
    return fresh.scene(lowering)


@pytest.mark.parametrize("target", TARGETS)
def test_random_ways_through_random_networks(target: str) -> None:
    @draws(DRAWS)
    @given(st.data())
    def one(data: st.DataObject) -> None:
        module, args = data.draw(nets(target))
        program = capture(module, args)
        some = [Recipe(target), *(data.draw(recipes(program, target)) for _ in range(3))]
        follow(program, data.draw(st.lists(st.sampled_from(some), min_size=3, max_size=7)), data)

    one()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["conv_bn", "upsampler", "dsr"])
def test_every_pattern_off_and_on_again(name: str, target: str) -> None:
    program = load(SAMPLES / f"{name}.pt2")
    start = Recipe(target)
    way = [start]
    for pattern in pipeline(target):
        way += [start.disable(pattern.name), start]
    follow(program, way)


def test_another_target_and_back() -> None:
    follow(mixed(), [Recipe(target) for target in (*TARGETS, *reversed(TARGETS))])


def test_a_pattern_put_in_that_takes_nothing_moves_the_rows_of_those_behind_it() -> None:
    plain = Recipe("vulkan")
    put_in = plain.insert("upsample_nearest_x2", before="conv_with_clamp")
    follow(mixed(), [plain, put_in, plain])


def test_what_stays_is_not_derived_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switching the last pattern off, which takes nothing here, writes no text of a node; the first one only those that change."""
    program = load(SAMPLES / "dsr.pt2")
    lowerer, maker = Lowerer(program), SceneMaker()
    whole = lowerer.lower(Recipe("vulkan"))
    maker.scene(whole)
    looked_at: list[str] = []
    inner = scene_nodes.Writer.__call__

    def counting(self: scene_nodes.Writer, record: scene_nodes.NodeRecord, *more: object) -> scene_nodes.Written:
        looked_at.append(record.id)
        return inner(self, record, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(scene_nodes.Writer, "__call__", counting)
    idle = lowerer.lower(Recipe("vulkan").disable("conv_with_clamp"))
    assert idle.ledger is whole.ledger
    maker.scene(idle)
    assert looked_at == []
    fewer = lowerer.lower(Recipe("vulkan").disable("conv2d_with_epilogue"))
    maker.scene(fewer)
    records, before = fewer.ledger.records, whole.ledger.records
    assert set(looked_at) == {id for id, record in records.items() if before.get(id) is not record}
    assert 0 < len(looked_at) < len(records)


def test_a_node_of_a_known_name_that_another_line_makes() -> None:
    """What a decomposition names anew may stand where another node of that name and that op stood, from another line."""
    start = Recipe("xnnpack")
    follow(load(SAMPLES / "migan.pt2"), [start, start.disable("polyphase_conv_transpose"), start])
