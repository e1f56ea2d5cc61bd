"""Toggles: whatever was lowered before, a lowering is in everything the one that a fresh lowerer gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowerscope.errors import LowerscopeError
from lowerscope.journal import Journal
from lowerscope.lowering import Lowerer, Lowering
from lowerscope.measure.ledger_counts import count_alive
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe
from lowerscope.stage import Stage
from lowerscope.stage_memory import StageMemory
from lowerscope.target import pipeline
from lowerscope.verdict import Outcome, Verdict
from sample_models import conv_bn, depthwise_net, upsampler
from tests.engine.nets import mixed, state_of
from tests.engine.random_nets import nets, recipes

SAMPLES: dict[str, Callable[[], Program]] = {
    "mixed": mixed,
    "conv_bn": lambda: capture(*conv_bn.build()),
    "depthwise_net": lambda: capture(*depthwise_net.build()),
    "upsampler": lambda: capture(*upsampler.build()),
}
TARGETS = ("vulkan", "xnnpack", "qnn", "ethos-u")


@cache
def sample(name: str) -> Program:
    return SAMPLES[name]()


def told(verdict: Verdict) -> tuple[Any, ...]:
    return (
        verdict.outcome, verdict.reason, verdict.nodes, verdict.origins, verdict.met_at, verdict.step, verdict.by,
        verdict.passed, verdict.total, repr(verdict.record), verdict.rule,
    )  # fmt: skip


def everything(lowering: Lowering) -> dict[str, Any]:
    """All that a lowering tells, as values that can be compared; what has an order, in order."""
    ledger = lowering.ledger
    return {
        "verdicts": {key: told(v) for key, v in lowering.verdicts.items()},
        "anchors": list(lowering.verdicts),
        "steps": lowering.steps,
        "stages": lowering.stages,
        "records": [
            (r.id, r.op, str(r.target), str(r.args), str(r.kwargs), r.inputs, r.stack, r.trace, r.born, r.died)
            for r in ledger.records.values()
        ],
        "ended": ledger.ended_edges,
        "former": [(f.node, f.step, str(f.args), str(f.kwargs)) for f in ledger.former],
        "edges": ledger.edge_born,
        "kin": (ledger.parents, ledger.made),
        "counts": count_alive(ledger),
        "core": list(lowering.core),
    }


def graph_of(program: Program) -> list[tuple[Any, ...]]:
    return [
        (n.op, n.name, str(n.target), str(n.args), str(n.kwargs), sorted(n.meta), str(n.meta.get("nn_module_stack")))
        for m in program.graph_module.modules()
        if isinstance(m, torch.fx.GraphModule)
        for n in m.graph.nodes
    ]


def numbers_of(program: Program) -> list[Any]:
    args, kwargs = program.inputs()
    with torch.no_grad():
        found = torch.fx.Interpreter(program.graph_module).run(*_lifted(program, args, kwargs))
    return [value for value in found if isinstance(value, torch.Tensor)]


def _lifted(program: Program, args: Any, kwargs: Any) -> list[Any]:
    return list(program.exported_program._graph_module_flat_inputs(args, kwargs))


def assert_as_fresh(lowerer: Lowerer, lowering: Lowering) -> Lowerer:
    """A lowering by a lowerer with a past is the one by a lowerer without; the fresh one."""
    fresh = Lowerer(lowerer.program)
    wanted = fresh.lower(lowering.recipe)
    found, expected = everything(lowering), everything(wanted)
    for part, value in expected.items():
        assert found[part] == value, part
    assert state_of(lowerer.editor_after(lowering.recipe)) == state_of(fresh.editor)
    return fresh


def assert_same_program(lowering: Lowering, fresh: Lowerer) -> None:
    program, other = lowering.program, fresh.lower(lowering.recipe).program
    assert graph_of(program) == graph_of(other)
    for one, two in zip(numbers_of(program), numbers_of(other), strict=True):
        assert torch.equal(one.nan_to_num(), two.nan_to_num())


def changed(data: st.DataObject, lowerer: Lowerer, recipe: Recipe) -> Recipe:
    """The recipe after one more click: a pattern off or on, or what the random recipes have."""
    names = [p.name for p in pipeline(recipe.target, recipe.insertions)]
    name = data.draw(st.sampled_from(names))
    how = data.draw(st.sampled_from(["toggle"] * 4 + ["anything", "default", "forget"]))
    if how == "toggle":
        return recipe.enable(name) if name in recipe.disabled else recipe.disable(name)
    if how == "anything":
        return data.draw(recipes(lowerer.base, recipe.target))
    if how == "forget":
        lowerer.forget()
    return Recipe(recipe.target)


def clicks(data: st.DataObject, program: Program, target: str, tally: Counter[str]) -> None:
    lowerer = Lowerer(program)
    recipe = Recipe(target)
    lowerings = [lowerer.lower(recipe)]
    for _ in range(data.draw(st.integers(2, 5))):
        recipe = changed(data, lowerer, recipe)
        try:
            lowerings.append(lowerer.lower(recipe))
        except LowerscopeError:  # a target refuses it; what the lowerer knows must stay right all the same
            recipe = Recipe(target)
            continue
        if data.draw(st.booleans()):
            assert_as_fresh(lowerer, lowerings[-1])
    fresh = assert_as_fresh(lowerer, lowerings[-1])
    assert_same_program(lowerings[-1], fresh)
    early = data.draw(st.sampled_from(lowerings))
    assert_as_fresh(lowerer, early)  # a value that stays
    tally.update(s.pattern for lowering in lowerings for s in lowering.steps)


_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.parametrize("name", SAMPLES)
def test_clicks_on_a_sample_give_what_a_fresh_lowering_gives(name: str) -> None:
    tally: Counter[str] = Counter()

    @settings(max_examples=6, suppress_health_check=_QUIET, deadline=None)
    @given(st.data())
    def one(data: st.DataObject) -> None:
        clicks(data, sample(name), data.draw(st.sampled_from(TARGETS)), tally)

    one()
    assert len(tally) >= 2, tally


@pytest.mark.parametrize("target", TARGETS)
def test_clicks_on_a_random_network_give_what_a_fresh_lowering_gives(target: str) -> None:
    tally: Counter[str] = Counter()

    @settings(max_examples=8, suppress_health_check=_QUIET, deadline=None)
    @given(st.data())
    def one(data: st.DataObject) -> None:
        module, args = data.draw(nets(target))
        clicks(data, capture(module, args), target, tally)

    one()
    assert tally, tally


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("target", TARGETS)
def test_every_pattern_off_and_on_again(name: str, target: str) -> None:
    lowerer, default = Lowerer(sample(name)), Recipe(target)
    lowerer.lower(default)
    for pattern in pipeline(target):
        lowerer.forget()
        assert_as_fresh(lowerer, lowerer.lower(default.disable(pattern.name)))
        lowerer._known.clear()  # on again by what the stages are known to do
        lowerer.lower(default)
    fresh = assert_as_fresh(lowerer, lowerer.lower(default))
    assert_same_program(lowerer.lower(default), fresh)


def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The patterns whose stages are run from here on."""
    names: list[str] = []
    run = Stage.run

    def counted(stage: Stage, *args: Any) -> Any:
        names.append(stage.pattern.name)
        return run(stage, *args)

    monkeypatch.setattr(Stage, "run", counted)
    return names


def test_a_pattern_that_finds_nothing_is_switched_without_running_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    lowerer, default = Lowerer(sample("conv_bn")), Recipe("vulkan")
    first = lowerer.lower(default)
    (idle,) = {"quantized_linear"} - {s.pattern for s in first.steps}
    names = ran(monkeypatch)
    off = lowerer.lower(default.disable(idle))
    assert names == []
    assert off.ledger is first.ledger
    assert [s.off for s in off.stages if s.pattern == idle] == ["disabled"]


def test_a_match_that_is_switched_off_is_found_again_and_what_is_behind_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lowerer, default = Lowerer(sample("mixed")), Recipe("vulkan")
    first = lowerer.lower(default)
    assert [s for s in first.steps if s.pattern == "conv2d_with_epilogue"]
    names = ran(monkeypatch)
    off = lowerer.lower(default.disable("conv2d_with_epilogue"))
    assert names[0] == "conv2d_with_epilogue"
    assert {v.outcome for v in off.verdicts_of("conv2d_with_epilogue") if v.matched} == {Outcome.DISABLED}
    del names[:]
    lowerer._known.clear()
    assert everything(lowerer.lower(default)) == everything(first)
    assert names == []


def undo_that_forgets(kind: str) -> Callable[..., None]:
    whole = Journal._redo

    def redo(self: Journal, change: tuple[Any, ...], after: Any) -> None:
        if change[0] != kind:
            whole(self, change, after)

    return redo


@pytest.mark.parametrize("kind", ["kin", "edge", "args"])
def test_a_change_that_is_not_done_again_is_seen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "_redo", undo_that_forgets(kind))
    with pytest.raises((AssertionError, RuntimeError, KeyError)):
        test_every_pattern_off_and_on_again("mixed", "vulkan")


@pytest.mark.parametrize("ignored", ["off", "later", "place"])
def test_a_result_that_is_taken_for_another_is_seen(ignored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = StageMemory.get

    def careless(self: StageMemory, place: Any, key: Any) -> Any:
        for (met, known), ran in self._kept.items():
            same = getattr(known, "found", known) == key.found
            same &= ignored == "off" or getattr(known, "off", key.off) == key.off
            same &= ignored == "later" or getattr(known, "later", key.later) == key.later
            if same and (met is place or ignored == "place"):
                return ran
        return whole(self, place, key)

    monkeypatch.setattr(StageMemory, "get", careless)
    lowerer, default = Lowerer(sample("mixed")), Recipe("vulkan")
    lowerer.lower(default)

    def lowered_one_after_the_other() -> None:
        for recipe in (
            default.disable("conv2d_with_epilogue"),
            default.insert("fuse_activation", after="conv2d_with_epilogue"),
            default.disable("core_aten"),
            default,
        ):
            assert_as_fresh(lowerer, lowerer.lower(recipe))

    with pytest.raises((AssertionError, RuntimeError, KeyError)):
        lowered_one_after_the_other()
