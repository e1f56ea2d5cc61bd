"""Every outcome in every form: printed, as HTML, as a frame and as what the panel is given; names are escaped in HTML."""

from __future__ import annotations

import html

import pytest
import torch

from lowerscope.check import Condition
from lowerscope.explain import Explanation
from lowerscope.pattern import REGISTRY, Declined, Kind, Match, Pattern, pattern
from lowerscope.program import capture
from lowerscope.session import Session
from lowerscope.verdict import Outcome
from lowerscope_widgets import answers
from tests.engine.nets import Of

aten = torch.ops.aten
#: A name that HTML would take for a tag.
NAME = "<i>&mine"


@pytest.fixture(scope="module")
def told() -> dict[str, Explanation]:
    """An explanation of the pattern `NAME` per outcome, on sin(x) + cos(x); each is got by really having it happen."""

    def by_outcome(outcome: str) -> Explanation:
        @pattern("*", after=["core_aten"])
        class Mine(Pattern):
            """sin(x) = sin(x)."""

            name, kind, anchors = NAME, Kind.FUSION, (aten.sin.default,)
            conditions = (Condition("small", "its <b>size</b> is small"),)

            def match(self, anchor, check):
                if outcome == Outcome.ERROR:
                    raise ValueError("<script>")
                if outcome == Outcome.NOTHING_TO_FUSE:
                    return None
                check.eq("small", 2 if outcome == Outcome.NEAR_MISS else 1, 1, at=anchor)
                return Match(anchor, (anchor,), anchor)

            def rewrite(self, match, edit):
                if outcome == Outcome.DECLINED:
                    return Declined("<u>not now</u>")
                return edit.call(aten.sin.default, *match.anchor.args)

        if outcome == Outcome.SHADOWED:

            @pattern("*", after=["core_aten"], before=[NAME])
            class First(Pattern):
                """sin(x) = -sin(-x)."""

                name, kind, anchors, conditions = "<first>", Kind.FUSION, (aten.sin.default,), ()

                def match(self, anchor, check):
                    return Match(anchor, (anchor,), anchor)

                def rewrite(self, match, edit):
                    return edit.call(aten.neg.default, *match.anchor.args)

        try:
            if outcome == Outcome.NO_ANCHOR:
                return Session(capture(Of(lambda s, x: x.cos()), (torch.randn(3),)), "vulkan").why_not(NAME, "cos")
            found = Session(capture(Of(lambda s, x: x.sin() + x.cos()), (torch.randn(3),)), "vulkan")
            if outcome == Outcome.DISABLED:
                found.disable(NAME)
            if outcome == Outcome.SKIPPED:
                found.skip(node="sin")
            return found.why_not(NAME, "sin")
        finally:
            for name in {p.name for p in REGISTRY if p.yours}:
                REGISTRY.remove(name)

    return {outcome: by_outcome(outcome) for outcome in Outcome}


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_form_says_what_became_of_it(told, outcome):
    found = told[outcome]
    assert found.verdict == outcome
    assert found.headline in str(found).splitlines()[0]
    assert NAME in str(found)
    shown = found._repr_html_()
    assert html.escape(found.headline) in shown
    for raw in ("<i>", "<script>", "<u>", "<first>", "its <b>size"):
        assert raw not in shown
    panel = answers.explanation(found)
    assert (panel["verdict"], panel["reason"], panel["pattern"]) == (outcome, found.reason, NAME)
    frame = found.to_frame()
    assert list(frame.index) == [c["name"] for c in panel["conditions"]] == [c.name for c in found.conditions]
    assert list(frame["status"]) == [c["status"] for c in panel["conditions"]]
    assert all(c.says in str(found) and html.escape(c.says) in shown for c in found.conditions if c.part is None)
    assert "<i>" not in (frame._repr_html_() or "")


def test_reasons_name_what_happened(told):
    assert "not now" in told[Outcome.DECLINED].reason
    assert "ValueError" in told[Outcome.ERROR].reason
    assert told[Outcome.SHADOWED].by is not None
    assert told[Outcome.SHADOWED].by[0] == "<first>"
    assert told[Outcome.SKIPPED].reason == "skipped by node sin"
    assert told[Outcome.NEAR_MISS].failed is not None
    assert told[Outcome.NEAR_MISS].failed.node == "sin"
