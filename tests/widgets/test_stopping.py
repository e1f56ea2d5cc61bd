"""What is stopped stops, and whoever waits for it hears so; an interrupted kernel leaves the widget sane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import lowerscope
from lowerscope.layout import LayoutCancelled
from lowerscope_widgets import Explorer, scenes
from lowerscope_widgets.measuring import WHAT
from tests.engine.nets import mixed
from tests.widgets.lab import Lab
from tests.widgets.test_explorer_lab import travel
from tests.widgets.test_explorer_requests import Browser
from tests.widgets.test_graph import ready, state
from tests.widgets.test_questions_lab import CELLS
from tests.widgets.test_states_lab import do, toggle

MISS = "conv2d_5"  # of the network, a convolution that misses by its batch
#: Scenes are made in a thread, and take a second; parity takes two more than it would.
SLOWLY = """
import threading, time
from lowerscope_widgets import measuring, scenes

scenes._SLOW = 0
make, parity = explorer._scenes.maker.scene, measuring.parity

def slow_scene(*args, **options):
    time.sleep(1)
    return make(*args, **options)

def slow_parity(*args, **options):
    time.sleep(2)
    return parity(*args, **options)

explorer._scenes.maker.scene, measuring.parity = slow_scene, slow_parity
"""
#: An explanation, a lowering, and the search for what would match take a second more than they would.
LATER = """
from lowerscope_widgets import answers

def slowly(work):
    def slow(*args, **options):
        time.sleep(1)
        return work(*args, **options)
    return slow

answers.why_not, answers.what_if = slowly(answers.why_not), slowly(answers.what_if)
explorer.session._lowerer.lower = slowly(explorer.session._lowerer.lower)
"""
THREADS = """
explorer._jobs.wait()
print([thread.name for thread in threading.enumerate() if thread.name.startswith("lowerscope")])
"""


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    explorer = Explorer(lowerscope.Session(mixed()))
    yield Browser(explorer, monkeypatch)
    explorer.close()
    assert explorer._jobs.wait()


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.executorch] if what == "partitioner" else []) for what in WHAT]
)
def test_a_measurement_that_is_stopped_at_its_first_progress_ends_without_a_result(
    kernel: Browser, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if what == "partitioner":
        kernel.explorer.session.set_target("xnnpack")
    hear, stopped_at = kernel._hear, []

    def stop(message: dict[str, Any], buffers: Any = None) -> None:
        hear(message, buffers)
        if message.get("type") == "progress" and message["what"] == what and message["done"] < message["total"]:
            stopped_at.append(message["done"])
            kernel.explorer.cancel(what)

    monkeypatch.setattr(kernel.explorer, "send", stop)
    kernel.explorer.measure(what)
    assert kernel.explorer._jobs.wait(60)
    assert [event["state"] for event in kernel.events(what)] == ["measuring", "cancelled"]
    assert len(stopped_at) == 1, "it goes no further than the progress at which it was stopped"


def slow_scenes(kernel: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes are made in a thread; the first is never done, so that only a stop ends it."""
    scene, made = kernel.explorer._scenes.maker.scene, []

    def slow(lowering: Any, cancelled: Any, **facts: Any) -> Any:
        made.append(facts["revision"])
        while len(made) == 1 and not cancelled():
            pass
        if cancelled():
            raise LayoutCancelled
        return scene(lowering, cancelled=cancelled, **facts)

    monkeypatch.setattr(scenes, "_SLOW", 0)
    monkeypatch.setattr(kernel.explorer._scenes.maker, "scene", slow)


def test_scenes_that_newer_ones_overtake_are_answered_once_the_newest_is_shown(
    kernel: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_scenes(kernel, monkeypatch)
    for id, enabled in enumerate((False, True, False), start=1000):
        request = {"type": "toggle", "id": id, "pattern": "fold_batch_norm", "enabled": enabled}
        kernel.explorer._on_message(None, request, [])
    assert kernel.explorer._jobs.wait(20)
    replies = {m["id"]: m["ok"] for m in kernel.heard if m.get("id", 0) >= 1000}
    assert replies == {1000: True, 1001: True, 1002: True}
    assert kernel.header["revision"] == kernel.explorer.session.revision == 3


def test_a_layout_that_is_stopped_says_so_and_the_next_one_is_shown(
    kernel: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_scenes(kernel, monkeypatch)
    request = {"type": "open_depth", "id": 1000, "depth": 1}
    kernel.explorer._on_message(None, request, [])
    kernel.ask("cancel", what="layout")
    assert kernel.explorer._jobs.wait(20)
    (answer,) = [m for m in kernel.heard if m.get("id") == 1000]
    assert answer["error"] == "the layout was cancelled: open fewer modules"
    layouts = [e for e in kernel.events("progress") if e["what"] == "layout"]
    assert layouts[-1]["done"] == layouts[-1]["total"], "its progress is over"
    assert kernel.ask("open_depth", depth=2) is None


@pytest.mark.browser
def test_interrupts_during_layout_parity_latency_and_explaining_leave_the_widget_sane(lab: Lab) -> None:
    page = lab.open_notebook([CELLS[0], SLOWLY, LATER, THREADS])
    lab.run_cell(0)
    ready(page)
    lab.run_cell(1)
    toggle(page)
    page.locator('[data-ls="progress"]', has_text="laying out").wait_for()
    do(page, "interrupt")
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.scene().revision === 1")
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.state().parity.state === 'measuring'")
    do(page, "interrupt")
    page.locator('[data-ls="parity-pill"][data-state="fresh"]').wait_for(timeout=60_000)
    page.locator('[data-ls="measure-latency"]').first.click()
    stop = page.locator('[data-ls="latency"] [data-ls="progress-stop"]')
    stop.wait_for()
    do(page, "interrupt")
    page.wait_for_timeout(300)
    assert state(page, "latency")["state"] == "measuring", "an interrupt is for the cell, Stop is for the measurement"
    stop.click()
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.state().latency.state === 'cancelled'")

    # an explanation, what would match, and a lowering in the midst of a toggle
    lab.run_cell(2)
    travel(page, MISS)
    page.wait_for_timeout(300)
    do(page, "interrupt")
    page.locator(f'[data-ls="why-not"][data-node="{MISS}"][data-ready="true"]').wait_for()
    page.locator('[data-ls="what-if"]').click()
    page.locator('[data-ls="what-if-stop"]').wait_for()
    do(page, "interrupt")
    page.locator('[data-ls="suggestion"]').first.wait_for(timeout=60_000)
    toggle(page)
    page.wait_for_timeout(300)
    do(page, "interrupt")
    page.wait_for_function("document.querySelector('.ls-root').lowerscope.scene().revision === 2")
    row = page.locator('[data-ls="pattern-row"][data-pattern="fold_batch_norm"]')
    assert row.get_attribute("data-enabled") == "true"
    assert state(page, "errors") == {}
    lab.run_cell(3)
    assert lab.output(3).strip() == "[]"
    assert lab.page_errors == []
