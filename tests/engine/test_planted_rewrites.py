"""A pattern with a mistake planted in it: parity sees every one, each rewrite's own error points at it, and blame names it."""

from __future__ import annotations

import pytest

from lowerscope import measurements
from lowerscope.measure.time_left import TimeLeft
from lowerscope.pattern import REGISTRY
from lowerscope.session import Session
from tests.engine.planted import PLANTS, Plant, program


@pytest.fixture
def planted(request, monkeypatch):
    """A plant, put in; what it registers is taken out again."""
    plant: Plant = request.param
    if not plant.new:
        sound = Session(program(plant), target=plant.target)
        assert plant.pattern in {step.pattern for step in sound.lowering.steps}
        assert sound.parity_report().agrees, "without the plant the numbers agree"
    plant.put_in(monkeypatch)
    yield plant
    if plant.new:
        REGISTRY.remove(plant.pattern)


def test_there_are_more_than_twelve_of_them_in_patterns_of_every_kind():
    assert len(PLANTS) == 22
    assert len({plant.pattern for plant in PLANTS.values()}) == 11


@pytest.mark.parametrize("planted", PLANTS.values(), ids=PLANTS, indirect=True)
def test_it_is_seen_and_named(planted: Plant):
    session = Session(program(planted), target=planted.target)
    rewrites = [step for step in session.lowering.steps if step.pattern != "core_aten"]
    assert len(rewrites) > 2, "there is something to choose from"
    assert session.parity_report().verdict == "different"

    found = session.blame()
    assert list(found["pattern"]) == [planted.pattern]
    assert str(found["module"].iloc[0]).startswith(planted.module)

    guiltiest = session.parity_by_step().iloc[0]
    assert guiltiest["verdict"] == "different"
    assert guiltiest["step"] == found["step"].iloc[0]


@pytest.mark.parametrize("planted", [next(iter(PLANTS.values()))], indirect=True)
def test_blame_tells_how_far_it_is_and_how_long_it_takes(planted: Plant, monkeypatch):
    seconds = iter(range(0, 3000, 3))
    monkeypatch.setattr(measurements, "TimeLeft", lambda: TimeLeft(clock=lambda: next(seconds)))
    seen: list[tuple[int, int, str]] = []
    Session(program(planted), target=planted.target).blame(progress=lambda *told: seen.append(told))
    done, total, sentence = seen[2]
    assert done == 3 < total
    told = f"lowering without some, measurement 3 of about {total} · about {3 * (total - 3)} s left"
    assert sentence == told, "each has taken three seconds"
