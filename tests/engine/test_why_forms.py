"""Every outcome in every form: the tree of a terminal, HTML, a DataFrame, and what the widget's panel is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
import torch

from lowerscope.check import Condition, Status
from lowerscope.explain import Explanation
from lowerscope.pattern import REGISTRY, Declined, Kind, Match, Pattern, pattern
from lowerscope.session import Session
from lowerscope_widgets.answers import explanation
from tests.engine.test_why import session

aten = torch.ops.aten
NAME = "<u>&mine"  # a name that would be markup, where it is not escaped
SAYS = "it is <i>small</i> & even"


@pytest.fixture(autouse=True)
def own():
    yield
    for p in list(REGISTRY):
        if p.yours:
            REGISTRY.remove(p.name)


def defined(
    match: Callable, rewrite: Callable = lambda match, edit: edit.call(aten.clamp.default, match.anchor.args[0], 0)
):
    @pattern("*", after=["core_aten"])
    class Mine(Pattern):
        """relu(x) = max(x, 0)."""

        name, kind, anchors = NAME, Kind.FUSION, (aten.relu.default,)
        conditions = (Condition("small", SAYS), Condition("last", "it is the <last>"))
        nothing_to_fuse = ("last",)

        def match(self, anchor, check):
            return match(anchor, check)

        def rewrite(self, match, edit):
            return rewrite(match, edit)


def opened() -> Session:
    return session(lambda s, x: (x + 1).relu(), torch.randn(2, 3))


def found(anchor, check):
    check.that("small", True, at=anchor, expected="<small>", actual="<small>")
    check.that("last", True, at=anchor)
    return Match(anchor, (anchor,), anchor)


def _applied() -> Session:
    defined(found)
    return opened()


def _declined() -> Session:
    defined(found, lambda match, edit: Declined("no <room>"))
    return opened()


def _skipped() -> Session:
    defined(found)
    asked = opened()
    asked.skip(pattern=NAME)
    return asked


def _skipped_node() -> Session:
    defined(found)
    asked = opened()
    asked.skip(node="relu")
    return asked


def _disabled() -> Session:
    defined(found)
    asked = opened()
    asked.disable(NAME)
    return asked


def _shadowed() -> Session:
    defined(found)

    @pattern("*", after=["core_aten"], before=[NAME])
    class First(Pattern):
        """relu(x) = max(x, 0)."""

        name, kind, anchors, conditions = "<first>", Kind.FUSION, (aten.relu.default,), ()

        def match(self, anchor, check):
            return Match(anchor, (anchor,), anchor)

        def rewrite(self, match, edit):
            return edit.call(aten.clamp.default, match.anchor.args[0], 0)

    return opened()


def _near_miss() -> Session:
    defined(lambda anchor, check: check.that("small", False, at=anchor, expected="<small>", actual="<large>"))
    return opened()


def _nothing() -> Session:
    def match(anchor, check):
        check.that("small", True, at=anchor, expected="<small>", actual="<small>")
        check.that("last", False, at=anchor, expected="<nobody>", actual="<somebody>")

    defined(match)
    return opened()


def _no_anchor() -> Session:
    defined(found)
    return session(lambda s, x: (x + 1).sigmoid(), torch.randn(2, 3))


def _error() -> Session:
    def match(anchor, check):
        raise ValueError("<oh> & so")

    defined(match)
    return opened()


#: outcome -> the session, the node that is asked about, what the headline holds, the status of each condition
OUTCOMES = {
    "applied": (_applied, "relu", "is applied at relu in step 1", ["passed", "passed"]),
    "declined": (_declined, "relu", "at relu: declined; no <room>", ["passed", "passed"]),
    "skipped": (_skipped, "relu", "at relu: skipped by", ["passed", "passed"]),
    "skipped by a node": (_skipped_node, "relu", "at relu: skipped by node relu", ["not reached", "not reached", "failed"]),
    "disabled": (_disabled, "relu", "at relu: disabled", ["passed", "passed"]),
    "shadowed": (_shadowed, "relu", "at relu: shadowed by <first>", ["passed", "passed"]),
    "near miss": (_near_miss, "relu", "near miss, 0 of 2 conditions; it is <i>small</i> & even", ["failed", "not reached"]),
    "nothing to fuse": (_nothing, "relu", "at relu: nothing to fuse", ["passed", "failed"]),
    "no anchor": (_no_anchor, "sigmoid", f"{NAME}: ", ["not reached", "not reached"]),
    "error": (_error, "relu", "at relu: error; ValueError: <oh> & so at line", ["not reached", "not reached"]),
}  # fmt: skip

TAGS = {
    "div",
    "p",
    "b",
    "table",
    "tr",
    "th",
    "td",
    "code",
    "small",
    "br",
}  #: that an explanation has, and a name has not


class Shown(HTMLParser):
    """What a browser would make of HTML: the tags and the text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_has_its_four_forms(outcome):
    make, node, headline, statuses = OUTCOMES[outcome]
    asked = make()
    told = asked.why_not(NAME, node)
    assert isinstance(told, Explanation)
    assert told.verdict == outcome.removesuffix(" by a node")
    assert headline in told.headline
    assert [str(c.status) for c in told.conditions] == statuses

    tree = str(told)
    assert tree.splitlines()[0] == told.headline
    branches = [line for line in tree.splitlines() if line.startswith(("├─ ", "└─ "))]
    assert len(branches) == len(statuses)
    assert sum("✕" in line for line in branches) == statuses.count("failed")

    shown = Shown(told._repr_html_())
    assert shown.tags <= TAGS
    assert told.headline in shown.text
    for row in told.conditions:
        for part in (row.says, row.expected, row.actual, row.node or "", row.sentence):
            assert part in shown.text

    frame = told.to_frame()
    assert frame.status.tolist() == statuses
    assert list(frame.index) == [c.name for c in told.conditions]

    panel = json.loads(json.dumps(explanation(told), allow_nan=False))
    assert (panel["pattern"], panel["node"], panel["verdict"]) == (NAME, told.node, told.verdict)
    assert panel["reason"] == told.reason
    assert panel["anchor"] == (None if outcome == "no anchor" else "relu")
    assert [c["status"] for c in panel["conditions"]] == statuses
    assert panel["by"] == ({"pattern": "<first>", "anchor": "relu"} if outcome == "shadowed" else None)
    assert (panel["passed"], panel["total"]) == (told.passed, told.total)

    failed = told.failed
    assert (failed is not None) == ("failed" in statuses)
    if failed is not None:
        assert failed.status is Status.FAILED
        assert failed.node == "relu"
        assert failed.sentence in tree

    every = asked.why_not(node=node)
    assert Shown(every._repr_html_()).tags <= TAGS
    assert every.to_frame().loc[NAME, "verdict"] == told.verdict
