"""The kernel's side of the widget: every request of the protocol is answered, errors are sentences, Python hears of all."""

from __future__ import annotations

import gc
import json
import re
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from IPython.core.events import EventManager, available_events
from torch import nn

import lowerscope
from lowerscope.by_example import pattern_from
from lowerscope.columns import unpack
from lowerscope.measure.compare import Comparison
from lowerscope.measure.report import ParityReport, ParityRow
from lowerscope.pattern import REGISTRY
from lowerscope_widgets import BundleError, Explorer, background, requests, scenes
from lowerscope_widgets.bundle import read_bundle
from lowerscope_widgets.jobs import Jobs
from lowerscope_widgets.measuring import parity_body
from tests.engine.nets import mixed

PROTOCOL = Path(__file__).parents[2] / "widgets" / "front-end" / "src" / "protocol.ts"


class Browser:
    """What a browser would hear: messages as they are sent, with the decoded columns of scenes."""

    def __init__(self, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.explorer = explorer
        self.heard: list[dict[str, Any]] = []
        self.columns: dict[str, dict[str, np.ndarray]] = {}
        self.buffer = b""  # the last scene's columns
        self._parts: list[bytes] = []
        self._next = 0
        monkeypatch.setattr(explorer, "send", self._hear)

    def _hear(self, message: dict[str, Any], buffers: Any = None) -> None:
        json.dumps(message, allow_nan=False)
        if message.get("type") == "part":
            self._parts = [*self._parts[: message["part"]], buffers[0]]
        if message.get("type") == "scene":
            self.buffer = b"".join([*self._parts, buffers[0]])
            self._parts = []
            self.columns = unpack(message["header"]["tables"], self.buffer)
        self.heard.append(message)

    def ask(self, type: str, **fields: Any) -> Any:
        """The reply's data. AssertionError with the sentence when it is an error."""
        reply = self.reply(type, **fields)
        assert reply["ok"], reply.get("error")
        return reply["data"]

    def fails(self, type: str, **fields: Any) -> str:
        """The sentence of a reply that is an error."""
        reply = self.reply(type, **fields)
        assert not reply["ok"]
        assert "Traceback" not in reply["error"]
        assert "\n" not in reply["error"]
        return reply["error"]

    def reply(self, type: str, **fields: Any) -> dict[str, Any]:
        self._next += 1
        self.explorer._on_message(None, {"type": type, "id": self._next, **fields}, [])
        for _ in range(400):
            found = next((m for m in self.heard if m.get("id") == self._next), None)
            if found is not None:
                return found
            threading.Event().wait(0.05)
        raise AssertionError(f"no reply to {type}")

    @property
    def header(self) -> dict[str, Any]:
        return [m for m in self.heard if m.get("type") == "scene"][-1]["header"]

    def events(self, type: str) -> list[dict[str, Any]]:
        return [m for m in self.heard if m.get("type") == type]

    def row(self, node: str) -> int:
        return [self.header["strings"][i] for i in self.columns["nodes"]["id"]].index(node)

    def pattern(self, name: str) -> dict[str, Any]:
        return next(p for p in self.header["patterns"] if p["name"] == name)


@pytest.fixture(scope="module")
def program() -> lowerscope.Program:
    return mixed()


@pytest.fixture
def explorer(program: lowerscope.Program) -> Iterator[Explorer]:
    explorer = Explorer(lowerscope.Session(program))
    yield explorer
    explorer.close()
    explorer._jobs.wait()


@pytest.fixture
def browser(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> Browser:
    return Browser(explorer, monkeypatch)


def total(browser: Browser) -> int:
    return browser.header["operators"][-1]["after"]


# ---------------------------------------------------------------------- requests
def test_every_request_of_the_protocol_has_a_handler() -> None:
    text = PROTOCOL.read_text(encoding="utf-8")
    body = text[text.index("export type Request") : text.index("export type Reply")]
    assert set(re.findall(r'type: "(\w+)"', body)) == set(requests._HANDLERS)


def test_ready_sends_the_scene_and_measures_parity(browser: Browser) -> None:
    assert browser.ask("ready") is None
    assert browser.header["program"]["target"] == "vulkan"
    assert browser.explorer._jobs.wait()
    states = [e["state"] for e in browser.events("parity")]
    assert states == ["measuring", "fresh"]
    assert browser.events("parity")[-1]["parity"]["verdict"] in ("equal", "close")
    assert browser.events("progress")[-1]["done"] == browser.events("progress")[-1]["total"]


def test_a_second_view_gets_the_last_scene_and_measurement_without_new_work(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser.ask("ready")
    assert browser.explorer._jobs.wait()
    monkeypatch.setattr(background, "measure", lambda *_: pytest.fail("it was measured again"))
    browser.heard.clear()
    browser.ask("ready")
    assert len(browser.events("scene")) == 1
    assert [e["state"] for e in browser.events("parity")] == ["fresh"]


def test_toggle_undo_redo_and_the_scene_comes_before_the_reply(browser: Browser) -> None:
    browser.ask("ready")
    before = total(browser)
    browser.heard.clear()
    browser.ask("toggle", pattern="conv2d_with_epilogue", enabled=False)
    kinds = [m.get("type", "reply") for m in browser.heard if m.get("type") in ("scene", None)]
    assert kinds == ["scene", "reply"]
    assert total(browser) > before
    assert browser.pattern("conv2d_with_epilogue")["would"] > 0
    assert browser.header["can_undo"]
    browser.ask("undo")
    assert total(browser) == before
    browser.ask("redo")
    assert total(browser) > before
    assert "nothing to redo" in browser.fails("redo")


def test_only_all_move_target_and_profile(browser: Browser) -> None:
    browser.ask("only", pattern="fold_batch_norm")
    assert {p["name"] for p in browser.header["patterns"] if p["enabled"]} == {"core_aten", "fold_batch_norm"}
    browser.ask("all", enabled=False)
    assert {p["name"] for p in browser.header["patterns"] if p["enabled"]} == {"core_aten"}
    browser.ask("all", enabled=True)
    assert all(p["enabled"] for p in browser.header["patterns"])
    assert "must run before" in browser.fails("move", pattern="core_aten", before=None)
    browser.ask("profile", name="max_texture_width", value=3)
    assert next(f for f in browser.header["profile"] if f["name"] == "max_texture_width")["value"] == 3
    browser.ask("target", target="webgpu")
    assert browser.header["program"]["target"] == "webgpu"
    assert browser.pattern("conv2d_with_epilogue")["locked"]
    assert "its runtime does not implement" in browser.fails("toggle", pattern="conv2d_with_epilogue", enabled=True)
    browser.ask("all", enabled=True)
    assert not browser.pattern("conv2d_with_epilogue")["enabled"]


def test_one_match_is_skipped_and_put_back_by_its_chip(browser: Browser) -> None:
    browser.ask("ready")
    before, applied = total(browser), browser.pattern("conv2d_with_epilogue")["applied"]
    lowering = browser.explorer.session.lowering
    anchor = next(v.anchor for v in lowering.verdicts_of("conv2d_with_epilogue") if v.outcome == "applied")
    browser.ask("skip", match={"pattern": "conv2d_with_epilogue", "anchor": anchor})
    assert browser.pattern("conv2d_with_epilogue")["applied"] == applied - 1
    (chip,) = browser.header["skips"]
    assert (chip["kind"], chip["active"]) == ("match", True)
    browser.ask("unskip", key=chip["key"])
    assert total(browser) == before
    assert browser.header["skips"] == []
    assert "not on the list any more" in browser.fails("unskip", key=chip["key"])


def test_what_is_typed_into_the_skip_list_is_recognised(browser: Browser) -> None:
    for text, kind in (("stem.*", "module"), ("mul", "node"), ("aten.relu", "op"), ("conv_with_clamp", "pattern")):
        browser.ask("skip_text", text=text)
        assert browser.header["skips"][-1]["kind"] == kind
    assert "the closest being" in browser.fails("skip_text", text="stam.*")


def test_a_node_that_a_rewrite_made_is_skipped_by_what_it_comes_from(browser: Browser) -> None:
    browser.ask("skip", node="convolution_1")
    assert browser.header["skips"][-1]["value"] == "conv2d_1"
    browser.ask("undo")
    fused = next(id for id in browser.explorer.session.lowering.ledger.records if id.startswith("conv2d_with_epilogue"))
    browser.ask("skip", node=fused)
    assert browser.header["skips"][-1]["kind"] == "match"


def test_modules_open_close_reveal_merge(browser: Browser) -> None:
    browser.ask("ready")
    paths = [browser.header["strings"][i] for i in browser.columns["modules"]["path"]]
    stem = paths.index("stem")
    browser.ask("open", modules=[stem], open=False)
    assert not browser.columns["modules"]["open"][stem]
    assert np.isnan(browser.columns["nodes"]["x"][browser.row("conv2d")])
    browser.ask("reveal", node="conv2d")
    assert not np.isnan(browser.columns["nodes"]["x"][browser.row("conv2d")])
    browser.ask("open_depth", depth=1)
    assert browser.columns["modules"]["open"].sum() == 1
    browser.ask("merge", module=stem, merged=False)
    assert "there is no node named 'nothing'" in browser.fails("reveal", node="nothing")


def test_inspection_has_the_fields_of_the_protocol(browser: Browser) -> None:
    found = browser.ask("inspect", node="convolution_1")
    text = PROTOCOL.read_text(encoding="utf-8")
    body = text[text.index("export interface Inspection {") : text.index("export type Status")]
    assert set(found) == set(re.findall(r"^  (\w+):", body, re.MULTILINE))
    assert found["op"] == "aten.convolution"
    assert found["output"] == "f32[1,4,6,5]"
    assert found["strides"] == "[120, 30, 5, 1]"
    assert found["origin"] == ["conv2d_1"]
    assert found["born"]["pattern"] == "core_aten"
    assert found["died"]["pattern"] == "conv2d_with_epilogue"
    assert found["users"] == ["add"]
    assert {a["name"]: a["text"] for a in found["arguments"]}["padding"] == "[1, 1]"
    assert [c["name"] for c in found["constants"]] == ["skip.weight", "skip.bias"]
    assert found["source"]["file"].endswith("nets.py")
    assert "self.skip(x)" in found["source"]["text"]
    assert [m["path"] for m in found["module"]] == ["", "skip"]


def test_why_not_explains_every_pattern_in_order_with_the_condition_at_fault(browser: Browser) -> None:
    browser.ask("toggle", pattern="conv2d_with_epilogue", enabled=True)
    browser.ask("ready")
    found = browser.ask("why_not", node="conv2d_2")
    assert [e["pattern"] for e in found["explanations"]] == [p["name"] for p in browser.header["patterns"]]
    one = browser.ask("why_not", node="conv2d_2", pattern="fold_batch_norm")["explanations"]
    assert [e["pattern"] for e in one] == ["fold_batch_norm"]
    for explained in found["explanations"]:
        # of an optional part that was not tried no condition counts, as in the graph's pills and in Python
        tried = {None, *(c["part"] for c in explained["conditions"] if c["status"] != "not reached")}
        assert explained["total"] == sum(c["part"] in tried for c in explained["conditions"])
        assert explained["passed"] == sum(c["status"] == "passed" for c in explained["conditions"])
    assert "there is no pattern" in browser.fails("why_not", node="conv2d_2", pattern="fold_batch")


def test_a_suggestion_is_tried_on_a_copy_and_can_be_applied_and_taken_back(browser: Browser) -> None:
    browser.ask("toggle", pattern="fold_batch_norm", enabled=False)
    recipe = browser.explorer.session.recipe
    (explained,) = browser.ask("why_not", node="conv2d", pattern="fold_batch_norm")["explanations"]
    assert explained["suggestions_possible"]
    found = browser.ask("what_if", pattern="fold_batch_norm", node="conv2d")["suggestions"]
    assert browser.explorer.session.recipe == recipe
    on = next(s for s in found if "fold_batch_norm" in s["says"] and s["apply"] is not None)
    assert on["matches"]
    browser.ask("apply", recipe=on["apply"])
    assert browser.pattern("fold_batch_norm")["enabled"]
    browser.ask("undo")
    assert browser.explorer.session.recipe == recipe
    assert "a recipe has 'target'" in browser.fails("apply", recipe={"patterns": []})


def test_a_search_for_suggestions_is_stopped_and_answered_with_nothing(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def endless(lowering: Any, pattern: str, node: str, polled: Any) -> None:
        begun.set()
        while True:
            polled()
            threading.Event().wait(0.01)

    monkeypatch.setattr("lowerscope_widgets.answers.what_if", endless)
    first = browser.explorer.what_if("fold_batch_norm", "conv2d")
    assert begun.wait(10)
    waiting = browser.explorer.what_if("fold_batch_norm", "conv2d_1")  # a newer one stops the one before
    assert first.result(10) is None
    browser.ask("cancel", what="what_if")
    assert waiting.result(10) is None
    begun.clear()
    third = browser.explorer.what_if("fold_batch_norm", "conv2d")
    assert begun.wait(10)
    browser.ask("toggle", pattern="fold_batch_norm", enabled=False)  # so does another recipe
    assert third.result(10) is None
    assert browser.explorer._jobs.wait(10)


def test_conflicts_are_tried_in_the_background_and_flipped(browser: Browser) -> None:
    browser.ask("measure", what="conflicts")
    assert browser.explorer._jobs.wait()
    event = browser.events("conflicts")[-1]
    assert event["state"] == "fresh", event["sentence"]
    assert event["sentence"] == f"{len(event['rows'])} matches lost their nodes."
    text = PROTOCOL.read_text(encoding="utf-8")
    body = re.findall(r"export interface Conflict \{(.*?)\}", text)[0]
    row = next(r for r in event["rows"] if r["loser"] == "conv_with_clamp")
    assert set(row) == set(re.findall(r"(\w+):", body))
    assert row["winner"] == "conv2d_with_epilogue"
    assert row["parity"] in ("equal", "close")
    assert isinstance(row["flipped"], int)
    assert "stage" in row["why"]
    session = browser.explorer.session
    browser.ask("apply", recipe=row["apply"])
    assert session.why_not("conv_with_clamp", row["loser_at"]).verdict == "applied"
    browser.ask("undo")
    before = session.recipe
    browser.ask("flip", pattern="conv_with_clamp")
    assert session.recipe != before
    assert session.patterns().loc["conv_with_clamp", "applied"] >= 1
    assert "no other match has any of them" in browser.fails("flip", pattern="fold_batch_norm")
    assert "no pattern of target vulkan" in browser.fails("flip", pattern="folds")


def test_an_open_widget_follows_the_patterns_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(events=EventManager(cast(Any, None), available_events))
    monkeypatch.setattr("lowerscope_widgets.cells.get_ipython", lambda: shell)
    browser = Browser(Explorer(lowerscope.Session(mixed())), monkeypatch)
    told: list[str] = []
    browser.explorer.session.on_change(told.append)
    image = torch.randn(1, 4, 6, 5)
    try:
        pattern_from(lambda x, y: torch.relu(x + y), torch.add, [image, image], name="mine")
        assert "mine" in browser.explorer.session.patterns().index  # who asks in the same cell does not make it miss
        assert told == []
        shell.events.trigger("post_run_cell", None)
        shell.events.trigger("post_run_cell", None)
        assert told == ["the patterns have changed"]
        assert browser.pattern("mine")["yours"] is True
        REGISTRY.get("mine").__class__.before = ("fold_batch_norms",)
        REGISTRY.version += 1
        shell.events.trigger("post_run_cell", None)
        assert browser.pattern("mine")["locked"].startswith("pattern 'mine' is to run before 'fold_batch_norms'")
        browser.ask("all", enabled=True)  # switches on what can be
        assert browser.pattern("mine")["enabled"] is False
        assert browser.pattern("conv_with_clamp")["enabled"] is True
    finally:
        REGISTRY.remove("mine")
    shell.events.trigger("post_run_cell", None)
    assert told.count("the patterns have changed") == 3
    browser.explorer.close()
    shell.events.trigger("post_run_cell", None)
    assert shell.events.callbacks["post_run_cell"] == []


def test_a_users_pattern_is_live_and_its_exception_a_verdict(browser: Browser) -> None:
    def where_it_breaks(bound: Any) -> bool:
        raise ValueError("such a thing")

    image = torch.randn(1, 4, 6, 5)
    try:
        pattern_from(lambda x, y: torch.relu(x + y), torch.add, [image, image], where=[where_it_breaks], name="mine")
        browser.explorer.session.refresh()
        row = browser.pattern("mine")
        assert (row["yours"], row["summary"]) == (True, "1 failed")
        assert browser.pattern("fold_batch_norm")["applied"] == 1
        found = browser.explorer.session.matches("mine")
        anchor = found[found.verdict == "error"].anchor.item()
        (told,) = browser.ask("why_not", node=anchor, pattern="mine")["explanations"]
        assert told["verdict"] == "error"
        line = where_it_breaks.__code__.co_firstlineno + 1
        assert f"ValueError: such a thing at line {line} of test_explorer_requests.py" in told["reason"]
        pattern_from(
            lambda x, y: torch.relu(x + y), lambda x, y: torch.add(x, y).clamp(min=0), [image, image], name="mine"
        )
        browser.explorer.session.refresh()
        assert browser.pattern("mine")["applied"] == 1
    finally:
        REGISTRY.remove("mine")


def test_statistics_of_a_constant(browser: Browser) -> None:
    found = browser.ask("statistics", node="p_scale")
    tensor = browser.explorer.session.program.constants["p_scale"].detach()
    assert found["shape"] == "f32[1,4,1,1]"
    assert found["mean"] == pytest.approx(float(tensor.mean()))
    assert sum(found["histogram"]) == tensor.numel()
    assert len(found["edges"]) == len(found["histogram"]) + 1
    folded = browser.ask("statistics", node="p_stem_0_weight_folded")
    assert folded["shape"] == "f32[4,3,3,3]"
    assert "is computed when the program runs" in browser.fails("statistics", node="mul")


def test_statistics_of_odd_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("bad", torch.tensor([float("nan"), float("inf"), 1.0, 0.0]))
            self.register_buffer("same", torch.full((4,), 2, dtype=torch.int8))
            self.register_buffer("none", torch.zeros(0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.bad + self.same + self.none.sum()  # type: ignore[operator]

    explorer = Explorer(lowerscope.capture(Odd(), (torch.rand(4),)))
    browser = Browser(explorer, monkeypatch)
    bad = browser.ask("statistics", node="b_bad")
    assert (bad["nan"], bad["zeros"], bad["min"], bad["max"]) == (1, 1, 0.0, 1.0)
    assert browser.ask("statistics", node="b_same")["histogram"] == [4]
    assert browser.ask("statistics", node="b_none")["min"] is None
    explorer.close()


def test_copies_lead_back_to_the_recipe(browser: Browser) -> None:
    browser.ask("toggle", pattern="fold_batch_norm", enabled=False)
    browser.ask("skip", module="stem.*")
    session = lowerscope.Session(browser.explorer.session.program)
    exec(browser.ask("copy", what="python")["text"], {"session": session})
    assert session.recipe == browser.explorer.session.recipe
    assert lowerscope.Recipe.from_json(browser.ask("copy", what="json")["text"]) == session.recipe
    options: dict[str, Any] = {}
    exec(browser.ask("copy", what="compile_options")["text"], options)
    assert options["compile_options"] == {"skip_fusion_patterns": {"fold_batch_norm"}}


def test_exports(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert browser.ask("export", what="svg")["text"].startswith("<svg")
    saved = browser.ask("export", what="pt2")
    assert saved["text"] == ""
    assert "et_vk.conv2d.with_epilogue" in saved["note"]
    again = lowerscope.load(saved["filename"])
    lowered = browser.explorer.session.lowering.program
    assert [str(n.target) for n in again.graph.nodes] == [str(n.target) for n in lowered.graph.nodes]
    assert "use one of" in browser.fails("export", what="gif")


def test_measuring_each_rewrite(browser: Browser) -> None:
    browser.ask("measure", what="by_step")
    assert browser.explorer._jobs.wait()
    event = browser.events("by_step")[-1]
    assert event["state"] == "fresh", event["sentence"]
    assert {row["pattern"] for row in event["rows"]} >= {"conv2d_with_epilogue"}
    guilt = [row["guilt"] for row in event["rows"]]
    assert guilt == sorted(guilt, reverse=True)
    assert "there is no measurement" in browser.fails("measure", what="beauty")


@pytest.mark.executorch
def test_the_real_partitioner_is_asked_in_the_background(browser: Browser) -> None:
    browser.ask("measure", what="partitioner")
    assert browser.explorer._jobs.wait()
    event = browser.events("partitioner")[-1]
    assert (event["state"], event["rows"]) == ("failed", [])
    assert "session.set_target('xnnpack') first" in event["sentence"]
    browser.ask("target", target="xnnpack")
    browser.ask("measure", what="partitioner")
    assert browser.explorer._jobs.wait()
    event = browser.events("partitioner")[-1]
    assert event["state"] == "fresh", event["sentence"]
    assert f"of {len(event['rows'])} operators differ" in event["sentence"]
    body = re.findall(r"export interface PartitionerRow \{(.*?)\}", PROTOCOL.read_text(encoding="utf-8"))[0]
    assert all(set(row) == set(re.findall(r"(\w+):", body)) for row in event["rows"])
    assert {row["when"] for row in event["rows"]} == {"before", "after"}
    assert any(row["executorch"] == row["ours"] == "region 1" for row in event["rows"])
    told = [e["sentence"] for e in browser.events("progress") if e["what"] == "partitioner"]
    assert any(sentence.startswith("ExecuTorch, partitioning after") for sentence in told)


def test_a_toggle_cancels_what_was_being_measured(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def slow(what: str, lowering: Any, revision: int, tell: Any, cancelled: Any) -> None:
        begun.set()
        while not cancelled():
            threading.Event().wait(0.01)
        tell({"type": what, "revision": revision, "state": "cancelled", "parity": None, "sentence": ""})

    monkeypatch.setattr(background, "measure", slow)
    browser.explorer.measure("parity")
    assert begun.wait(10)
    browser.ask("toggle", pattern="fold_batch_norm", enabled=False)
    browser.ask("cancel", what="parity")
    assert browser.explorer._jobs.wait(10)
    assert all(e["revision"] != 0 for e in browser.events("parity")), "an older recipe's measurement is not told"


def test_a_measurement_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = Explorer(lowerscope.capture(nn.ReLU(), (torch.rand(2),)))
    browser = Browser(explorer, monkeypatch)
    monkeypatch.setattr("lowerscope_widgets.measuring.parity", lambda *a, **k: [][0])
    explorer.measure("parity")
    assert explorer._jobs.wait()
    event = browser.events("parity")[-1]
    assert event["state"] == "failed"
    assert re.fullmatch(r"Not measured: IndexError: list index out of range \(.*, line \d+\)", event["sentence"])
    explorer.close()


# ---------------------------------------------------------------------- bad requests
def test_errors_are_one_sentence_and_change_nothing(browser: Browser) -> None:
    recipe = browser.explorer.session.recipe
    assert "there is no pattern" in browser.fails("toggle", pattern="conv2d_with_epilog", enabled=False)
    assert "there is no target named 'vulcan'" in browser.fails("target", target="vulcan")
    assert "does not know the request 'sing'" in browser.fails("sing")
    assert "lacks its field 'pattern'" in browser.fails("toggle", enabled=True)
    assert "there is no node named" in browser.fails("inspect", node="conv2d_999")
    assert browser.explorer.session.recipe == recipe


def test_an_unexpected_error_names_its_class_and_place(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(requests._HANDLERS, "inspect", lambda explorer, request: {}["x"][0] or 1 / 0)
    monkeypatch.setitem(requests._HANDLERS, "why_not", lambda explorer, request: 1 / 0)
    assert re.fullmatch(r"ZeroDivisionError: division by zero \(.*, line \d+\)", browser.fails("why_not", node="x"))


def test_a_scene_too_large_for_a_message_is_sent_in_parts(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    browser.ask("open_depth", depth=1)
    whole, header = browser.buffer, browser.header
    room = len(whole) // 3
    monkeypatch.setattr(scenes, "LARGEST_MESSAGE", len(json.dumps(header)) + room)
    browser.heard.clear()
    browser.ask("open_depth", depth=1)
    assert len(browser.events("part")) >= 2
    assert [message["part"] for message in browser.events("part")] == list(range(browser.events("scene")[-1]["parts"]))
    assert browser.header == header
    assert browser.buffer == whole


def test_names_too_large_for_a_message_are_refused_with_a_reason(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenes, "LARGEST_MESSAGE", 100)
    assert "Jupyter passes on no message above" in browser.fails("open_depth", depth=1)


def test_a_large_scene_is_made_in_a_thread_and_the_reply_waits_for_it(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenes, "_SLOW", 0)
    browser.ask("open_depth", depth=1)
    kinds = [m.get("type", "reply") for m in browser.heard]
    assert kinds.index("scene") < kinds.index("reply")
    assert kinds.index("progress") < kinds.index("scene")


# ---------------------------------------------------------------------- Python's side
def test_changes_of_the_session_reach_the_view_and_the_recipe_trait(browser: Browser) -> None:
    recipes = []
    browser.explorer.observe(lambda change: recipes.append(change.new), "recipe")
    browser.explorer.session.disable("fold_batch_norm")
    assert not browser.pattern("fold_batch_norm")["enabled"]
    assert browser.events("scene")[-1]["reason"] == "fold_batch_norm off"
    assert recipes == [browser.explorer.session.recipe]
    browser.explorer.recipe = lowerscope.Recipe("qnn")
    assert browser.explorer.session.target == "qnn"
    assert browser.header["program"]["target"] == "qnn"


def test_two_explorers_of_a_session_stay_in_step(program: lowerscope.Program, monkeypatch: pytest.MonkeyPatch) -> None:
    session = lowerscope.Session(program)
    first, second = (Browser(Explorer(session), monkeypatch) for _ in range(2))
    first.ask("toggle", pattern="fold_batch_norm", enabled=False)
    assert not second.pattern("fold_batch_norm")["enabled"]
    for browser in (first, second):
        browser.explorer.close()


def test_selection_goes_both_ways(browser: Browser) -> None:
    seen = []
    browser.explorer.observe(lambda change: seen.append(list(change.new)), "selected")
    browser.explorer._on_message(None, {"type": "selected", "id": 5, "nodes": ["convolution_1", "gone"]}, [])
    assert browser.explorer.selected == ["convolution_1"]
    assert browser.heard == [], "told, not asked"
    (node,) = browser.explorer.selected_nodes
    assert str(node.target) == "aten.convolution.default"
    browser.explorer.selected = ["mul"]
    assert browser.events("select")[-1]["nodes"] == ["mul"]
    assert seen == [["convolution_1"], ["mul"]]
    with pytest.raises(lowerscope.LowerscopeError, match="there is no node named 'mull'"):
        browser.explorer.selected = ["mull"]


def test_focus_reveals_and_selects(browser: Browser) -> None:
    browser.ask("open_depth", depth=1)
    browser.explorer.focus("conv2d")
    assert not np.isnan(browser.columns["nodes"]["x"][browser.row("conv2d")])
    assert browser.events("focus")[-1]["node"] == "conv2d"
    assert browser.explorer.selected == ["conv2d"]


def test_closing_frees_the_widget_and_leaves_the_session(program: lowerscope.Program) -> None:
    session = lowerscope.Session(program)
    explorer = Explorer(session)
    gone = weakref.ref(explorer)
    explorer.close()
    session.disable("fold_batch_norm")
    assert session._observers == []
    explorer._jobs.wait()
    del explorer
    gc.collect()
    assert gone() is None


def test_a_session_shows_one_widget_until_it_is_closed(program: lowerscope.Program) -> None:
    session = lowerscope.Session(program)
    first = Explorer.of(session)
    assert Explorer.of(session) is first
    bundle_ = session._repr_mimebundle_()
    data = bundle_[0] if isinstance(bundle_, tuple) else bundle_
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == first.model_id
    first.close()
    second = Explorer.of(session)
    assert second is not first
    second.close()


def test_bad_arguments_are_named(program: lowerscope.Program) -> None:
    with pytest.raises(lowerscope.LowerscopeError, match="there is no panel 'grpah': use some of toolbar"):
        Explorer(program, panels=["grpah"])
    with pytest.raises(lowerscope.LowerscopeError, match="there is no target named 'vulcan'"):
        lowerscope.explore(program, target="vulcan")
    with pytest.raises(lowerscope.LowerscopeError, match=r"use lowerscope\.capture"):
        lowerscope.explore(nn.ReLU())


def test_a_missing_bundle_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="run `make bundle`"):
        read_bundle(tmp_path)


# ---------------------------------------------------------------------- jobs
def test_the_newest_job_of_a_kind_runs_after_the_one_before_has_stopped() -> None:
    jobs = Jobs()
    log: list[str] = []
    started = threading.Event()

    def first(cancelled: Any) -> None:
        started.set()
        while not cancelled():
            threading.Event().wait(0.01)
        log.append("first ends")

    jobs.start("parity", first)
    assert started.wait(10)
    jobs.start("parity", lambda cancelled: log.append("second"))
    jobs.start("latency", lambda cancelled: None)
    assert jobs.wait(10)
    assert log == ["first ends", "second"]


def test_a_job_that_is_cancelled_before_its_delay_is_over_never_runs() -> None:
    jobs = Jobs()
    jobs.start("parity", lambda cancelled: pytest.fail("it ran"), delay=30)
    jobs.cancel()
    assert jobs.wait(10)


def test_a_job_that_never_runs_says_so() -> None:
    jobs, dropped = Jobs(), threading.Event()
    jobs.start("what_if", lambda cancelled: pytest.fail("it ran"), delay=30, dropped=dropped.set)
    jobs.cancel("what_if")
    assert dropped.wait(10)


def test_of_a_program_that_cannot_be_run_no_number_is_shown() -> None:
    row = ParityRow.of("out", Comparison("incomparable", why="relu raises: use .reshape instead."), "seed 0")
    body = parity_body(ParityReport([row], ["seed 0", "seed 1"]))
    assert body["sentence"] == "Broken: relu raises: use .reshape instead, seed 0."
    assert body["detail"] == ""
