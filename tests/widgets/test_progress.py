"""What the widget is told while something is measured or opened: how far it is, and how much longer it takes."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import torch
from torch import nn

from lowerscope.lowering import lower
from lowerscope.measure.time_left import TimeLeft
from lowerscope.program import capture
from lowerscope_widgets import measuring, opening


class Slow:
    """A clock on which three seconds pass each time that it is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
        monkeypatch.setattr(module, "TimeLeft", lambda *args, **kwargs: TimeLeft(*args, **kwargs, clock=self))
        self._seconds = count(0, 3)

    def __call__(self) -> float:
        return float(next(self._seconds))


def _program():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU())
    return capture(net.eval(), (torch.randn(1, 3, 8, 8),))


@pytest.mark.parametrize("what", ["parity", "by_step"])
def test_a_measurement_says_how_much_longer_it_takes(what, monkeypatch):
    Slow(monkeypatch, measuring)
    told: list[dict[str, Any]] = []
    measuring.measure(what, lower(_program(), "vulkan"), 1, told.append, lambda: False)
    progress = [e for e in told if e["type"] == "progress" and e["total"] > e["done"] > 0]
    assert progress
    for number, event in enumerate(progress, start=1):
        seconds = round(3 * number / event["done"] * (event["total"] - event["done"]))
        assert event["sentence"].endswith(f" · about {seconds} s left")


def test_opening_a_model_says_how_much_longer_its_stages_take(monkeypatch):
    Slow(monkeypatch, opening)
    told: list[dict[str, Any]] = []
    opened = opening.Opening(_program(), "vulkan", told.append, lambda session: None)
    opened.start()
    opened.future.result(60)
    matching = [e["sentence"] for e in told if e["what"] == "match" and e["done"] < e["total"]]
    assert "left" not in matching[0], "nothing is done yet"
    assert all(" s left" in sentence for sentence in matching[1:])
    assert len(matching) > 2
