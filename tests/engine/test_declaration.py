"""A slip in a pattern's class is told where it is made, in a sentence that says what to write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lowerscope
from lowerscope import REGISTRY, Condition, Kind, Match, Pattern, pattern
from lowerscope.errors import RecipeError

aten = torch.ops.aten


def sound(self: Any, anchor: Any, check: Any) -> Match:
    check.that("negative", True, at=anchor)
    return Match(anchor, (anchor,), anchor)


GOOD: dict[str, Any] = {
    "name": "slip",
    "kind": Kind.FOLD,
    "anchors": (aten.neg.default,),
    "conditions": (Condition("negative", "it negates"),),
    "match": sound,
    "__module__": "cell",
}


def define(*targets: Any, missing: str = "", **other: Any) -> None:
    order = {key: other.pop(key) for key in ("after", "before", "off") if key in other}
    body = {key: value for key, value in {**GOOD, **other}.items() if key != missing}
    pattern(*(targets or ("vulkan",)), **order)(type("Slip", (Pattern,), body))


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    if "slip" in REGISTRY:
        REGISTRY.remove("slip")


@pytest.fixture
def session() -> lowerscope.Session:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.softplus(-x.exp())

    return lowerscope.Session(lowerscope.capture(Net(), (torch.rand(4),)), target="vulkan")


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"missing": "anchors"}, "pattern class Slip has no 'anchors': set it as a class attribute"),
        ({"name": ""}, "the name of pattern class Slip is a string that is not empty; got ''"),
        ({"kind": "folds"}, "the kind of pattern 'slip' is one of fold, fusion, decomposition, layout, lowering; got 'folds'"),
        ({"anchors": aten.neg.default}, "are a tuple of ops: write (aten.neg.default,), not the op alone"),
        ({"anchors": (aten.neg,)}, "name aten.neg, which stands for 6 ops: name aten.neg.default or aten.neg.out or"),
        ({"anchors": ("aten.neg.default",)}, "name 'aten.neg.default': name the op itself, not a str"),
        ({"conditions": Condition("a", "it is a")}, "with one alone a comma belongs behind it, (Condition(...),)"),
        ({"conditions": ("negative",)}, "hold 'negative': write Condition(name, what it says)"),
        ({"conditions": (Condition("a", "it"), Condition("a", "is"))}, "have the name 'a' twice: give each its own"),
        ({"conditions": (Condition("not_skipped", "mine"),)}, "have the name 'not_skipped' twice"),
        ({"nothing_to_fuse": ("negativ",)}, "names 'negativ', which is none of its conditions: it is a tuple"),
        ({"nothing_to_fuse": "negative"}, "names 'negative', which is none of its conditions: it is a tuple of their names"),
        ({"missing": "match", "macth": sound}, "has no method match(self, anchor, check): it has 'macth'"),
        ({"match": lambda self, anchor: None}, "the method match of pattern 'slip' takes (self, anchor, check)"),
        ({"rewrite": lambda self, match: None}, "the method rewrite of pattern 'slip' takes (self, match, edit)"),
        ({"sentence": lambda self: ""}, "the method sentence of pattern 'slip' takes (self, match)"),
        ({"is_anchor": lambda self: True}, "the method is_anchor of pattern 'slip' takes (self, node)"),
    ],
)  # fmt: skip
def test_a_slip_in_the_class_is_told_when_it_is_registered(declared: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError) as raised:
        define(**declared)
    assert said in str(raised.value)
    assert "slip" not in REGISTRY


def test_a_pattern_names_its_targets_and_is_a_pattern() -> None:
    with pytest.raises(RecipeError, match=r'write @pattern\("vulkan"\), or @pattern\("\*"\)'):
        pattern(type("Slip", (Pattern,), GOOD))  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="Slip is no pattern: write it as a class of Pattern"):
        pattern("vulkan")(type("Slip", (), dict(GOOD)))  # type: ignore[arg-type]


def test_one_name_may_stand_by_itself(session: lowerscope.Session) -> None:
    define(after="fold_batch_norm", before="conv2d_with_epilogue")
    names = list(session.patterns().index)
    assert names.index("fold_batch_norm") < names.index("slip") < names.index("conv2d_with_epilogue")
    assert session.patterns().declined["slip"] == 1


@pytest.mark.parametrize(
    ("match", "said"),
    [
        (
            lambda self, a, check: Match(a, a, a),
            "TypeError: nodes of a Match are a tuple of nodes, not neg, a Node at line",
        ),
        (lambda self, a, check: Match(a, ("neg",), a), "nodes of the graph, not 'neg', a str at line"),  # type: ignore[arg-type]
        (lambda self, a, check: Match(a, (a,), None), "nodes of the graph, not None, a NoneType at line"),  # type: ignore[arg-type]
    ],
)
def test_a_match_of_anything_but_nodes_is_told_with_its_line(
    session: lowerscope.Session, match: Any, said: str
) -> None:
    define(match=match)
    explanation = session.why_not("slip", "neg")
    assert explanation.verdict == "error"
    assert said in explanation.reason
    assert "test_declaration.py" in explanation.reason


def test_a_match_that_returns_nothing_says_so(session: lowerscope.Session) -> None:
    define(match=lambda self, anchor, check: check.that("negative", True, at=anchor))
    reason = "its match returned nothing though no condition failed: return a Match"
    assert session.matches("slip").reason.tolist() == [reason]
    assert reason in str(session.why_not("slip", "neg"))


def test_a_rewrite_that_returns_and_changes_nothing_is_declined(session: lowerscope.Session) -> None:
    define(rewrite=lambda self, match, edit: None)
    matches = session.matches("slip")
    assert matches.verdict.tolist() == ["declined"]
    assert matches.reason[0] == "the rewrite returned nothing and changed nothing: return the node that gives the value"
    assert session.op_counts().delta["aten.neg"] == 0


def test_an_anchor_that_is_decomposed_first_says_what_it_becomes(session: lowerscope.Session) -> None:
    define(anchors=(aten.softplus.default,), after=["core_aten"])
    reason = session.matches("slip").reason[0]
    assert reason.startswith("shadowed by core_aten, before which it does not run: aten.softplus becomes ")
    assert "aten.exp" in reason
