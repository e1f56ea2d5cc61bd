"""Opening a model beside the user: named stages, a stop, errors with a way out, and what needs an operator that is not here."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lowerscope
from lowerscope.errors import LoadError, MissingOperatorError
from lowerscope_widgets import Explorer
from lowerscope_widgets import opening as opening_module
from lowerscope_widgets.opening import Stopped
from tests.engine.nets import mixed
from tests.widgets.test_explorer_requests import Browser

WITH_ITS_OWN_OPERATOR = """
import sys, torch
library = torch.library.Library("far_away", "DEF")
library.define("thrice(Tensor x) -> Tensor")
library.impl("thrice", lambda x: x * 3, "CompositeExplicitAutograd")
library.impl("thrice", torch.empty_like, "Meta")

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.ops.far_away.thrice(x))

torch.export.save(torch.export.export(Net(), (torch.randn(3),)), sys.argv[1])
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed().save(tmp_path_factory.mktemp("opening") / "mixed.pt2")


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with an operator that this Python does not know."""
    path = tmp_path_factory.mktemp("opening") / "far.pt2"
    subprocess.run([sys.executable, "-W", "ignore", "-c", WITH_ITS_OWN_OPERATOR, str(path)], check=True)
    return path


@pytest.fixture
def explorers() -> Iterator[list[Explorer]]:
    made: list[Explorer] = []
    yield made
    for explorer in made:
        explorer.close()
        explorer._jobs.wait()


def opened(path: Path, explorers: list[Explorer], monkeypatch: pytest.MonkeyPatch) -> Browser:
    explorers.append(Explorer(path))
    return Browser(explorers[-1], monkeypatch)


def held(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Reading a file says that it has begun, and waits to be let go."""
    begun, go = threading.Event(), threading.Event()
    load = opening_module.load

    def slow(path: Any, **options: Any) -> Any:
        begun.set()
        assert go.wait(30)
        return load(path, **options)

    monkeypatch.setattr(opening_module, "load", slow)
    return begun, go


def test_a_model_is_opened_in_named_stages_and_shown(
    saved: Path, explorers: list[Explorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = held(monkeypatch)
    browser = opened(saved, explorers, monkeypatch)
    assert begun.wait(30)
    assert repr(explorers[0]) == "<Explorer, opening 'mixed.pt2'>", "asking what it is does not wait"
    threading.Timer(0.1, go.set).start()
    assert browser.ask("ready") is None
    stages = {e["what"]: e["sentence"] for e in browser.events("progress")}
    assert list(stages)[:3] == ["read", "decompose", "match"]
    assert stages["read"].startswith("Read mixed.pt2 (0.")
    assert stages["match"].startswith("Match ")
    last = {e["what"]: e for e in browser.events("progress")}
    assert all(last[what]["done"] == last[what]["total"] for what in ("read", "decompose", "match")), "each is over"
    assert browser.header["program"]["name"] == "mixed"
    assert explorers[0].recipe == explorers[0].session.recipe


def test_loading_is_stopped_at_once_and_begun_again(
    saved: Path, explorers: list[Explorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = held(monkeypatch)
    browser = opened(saved, explorers, monkeypatch)
    assert begun.wait(30)
    browser.explorer._on_message(None, {"type": "ready", "id": 1000}, [])
    assert browser.ask("cancel", what="load") is None
    (answer,) = [m for m in browser.heard if m.get("id") == 1000]
    assert answer["error"] == "loading mixed.pt2 was stopped: load it again when you want it"
    with pytest.raises(Stopped):
        _ = explorers[0].session
    go.set()
    assert browser.ask("load", without=False) is None
    assert browser.header["program"]["name"] == "mixed"


def test_what_was_stopped_does_not_come_back(
    saved: Path, explorers: list[Explorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = held(monkeypatch)
    explorers.append(Explorer(saved))
    assert begun.wait(30)
    thread = next(t for t in threading.enumerate() if t.name == "lowerscope-open")
    explorers[0].cancel("load")
    go.set()
    thread.join(30)
    assert not thread.is_alive()
    with pytest.raises(Stopped):
        _ = explorers[0].session


def test_a_file_that_cannot_be_opened_is_said_in_the_widget_and_opened_once_it_is_there(
    saved: Path, tmp_path: Path, explorers: list[Explorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "later.pt2"
    browser = opened(path, explorers, monkeypatch)
    assert "there is no file" in browser.fails("ready")
    event = browser.events("error")[-1]
    assert event["where"] == "graph"
    assert event["otherwise"] is None
    with pytest.raises(LoadError, match="there is no file"):
        _ = explorers[0].session
    path.write_bytes(saved.read_bytes())
    assert browser.ask("load", without=False) is None
    assert browser.header["program"]["name"] == "later"


def test_a_model_with_an_unknown_operator_is_opened_without_it_and_parity_is_off(
    unknown: Path, explorers: list[Explorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = opened(unknown, explorers, monkeypatch)
    assert "far_away::thrice" in browser.fails("ready")
    assert browser.events("error")[-1]["otherwise"] == "Open without it"
    with pytest.raises(MissingOperatorError):
        _ = explorers[0].session
    assert browser.ask("load", without=True) is None
    assert browser.header["notice"].startswith(
        "far_away::thrice.default is not registered here: such nodes stay opaque, and parity is off, since they cannot run."
    )
    assert browser.explorer._jobs.wait()
    parity = browser.events("parity")[-1]
    assert parity["state"] == "failed"
    assert "far_away::thrice" in parity["sentence"]


def test_an_interrupted_request_is_answered_and_changes_nothing(
    explorers: list[Explorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    explorers.append(Explorer(lowerscope.Session(mixed())))
    browser = Browser(explorers[0], monkeypatch)
    recipe = explorers[0].session.recipe
    matches = len(explorers[0].session.lowering.steps)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lowerscope.stage.Stage.run", interrupted)
        assert "interrupted" in browser.fails("toggle", pattern="fold_batch_norm", enabled=False)
    assert explorers[0].session.recipe == recipe
    browser.ask("toggle", pattern="fold_batch_norm", enabled=False)
    browser.ask("undo")
    assert len(explorers[0].session.lowering.steps) == matches
