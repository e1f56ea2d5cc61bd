"""What if: every proposal was tried, is the smallest, and does what it says when a user makes the change."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from IPython.core.formatters import DisplayFormatter
from torch import nn
from torch.nn import functional as F

from lowerscope.check import Condition
from lowerscope.errors import UnknownNameError
from lowerscope.pattern import Declined, Kind, Match, Pattern, pattern
from lowerscope.program import capture
from lowerscope.session import Session
from tests.cases import CASES
from tests.engine.test_why import EPILOGUE, IMAGE, _shared, conv, session

aten = torch.ops.aten


def proposals(session: Session, pattern: str, node: str) -> dict[str, bool | None]:
    return {s.says: s.same for s in session.what_if(pattern, node)}


def applied(session: Session, pattern: str) -> int:
    return int(session.patterns().loc[pattern, "applied"])


def test_a_second_user_that_reads_a_copy_is_no_second_user():
    found = session(_shared, torch.randn(IMAGE), conv=conv())
    assert proposals(found, EPILOGUE, "conv2d") == {
        "'relu' were the only reader of 'convolution', the others reading a copy": True
    }
    changed = session(lambda s, x: (s.conv(x).relu(), s.conv(x).sigmoid()), torch.randn(IMAGE), conv=conv())
    assert (applied(found, EPILOGUE), applied(changed, EPILOGUE)) == (0, 1)


def test_alpha_of_the_second_operand():
    found = session(lambda s, x: torch.add(x, s.conv(x), alpha=2), torch.randn(1, 4, 6, 6), conv=conv(4))
    assert found.why_not(EPILOGUE, "conv2d").failed.name == "operand_order"  # type: ignore[union-attr]
    assert proposals(found, EPILOGUE, "conv2d") == {
        "weight and bias carried alpha": True,
        "alpha were 1": False,
        "the convolution were the first operand": False,
    }
    assert str(found.what_if(EPILOGUE, "conv2d")[0]) == ("would match if weight and bias carried alpha (same numbers)")
    last = str(found.what_if(EPILOGUE, "conv2d")[-1])
    assert "other numbers: Different numbers in out" in last


def test_batch_1():
    found = session(lambda s, x: s.conv(x).relu(), torch.randn(8, 3, 6, 6), conv=conv())
    assert proposals(found, EPILOGUE, "conv2d") == {"the batch size were 1": None}
    assert applied(session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv()), EPILOGUE) == 1


def test_batch_1_is_not_proposed_where_the_program_has_its_size_written_in():
    found = session(lambda s, x: s.conv(x.view(8, 3, 6, 6)).relu(), torch.randn(8, 108), conv=conv())
    assert proposals(found, EPILOGUE, "conv2d") == {}


def test_float16():
    found = session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv(), target="ort-webgpu")
    assert "the program computed in float16" in proposals(found, "im2col_conv_activation", "conv2d")


@pytest.mark.parametrize(
    ("between", "name", "same"),
    [
        (lambda y: y.clone(), "'clone' (aten.clone)", True),
        (lambda y: y[:, :, 1:], "'slice_1' (aten.slice.Tensor)", False),
        (lambda y: y.permute(0, 1, 3, 2), "'permute' (aten.permute)", False),
        (lambda y: y.to(torch.float64), "'to_copy' (aten._to_copy)", False),
        (lambda y: y.view(1, 4, 36), "'view' (aten.view)", False),
    ],
)
def test_what_stands_in_between(between, name, same):
    found = session(lambda s, x: between(s.conv(x)).relu(), torch.randn(IMAGE), conv=conv())
    assert applied(found, EPILOGUE) == 0
    assert proposals(found, EPILOGUE, "conv2d") == {f"{name} did not stand in between": same}


def test_a_pattern_that_is_off():
    found = session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv())
    found.disable(EPILOGUE)
    (only,) = found.what_if(EPILOGUE, "conv2d")
    assert (only.says, only.same) == (f"{EPILOGUE} is on", True)
    assert only.recipe is not None
    found.recipe = only.recipe
    assert applied(found, EPILOGUE) == 1


def test_a_skip():
    found = session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv())
    found.skip(node="relu")
    assert found.why_not(EPILOGUE, "relu").headline == f"{EPILOGUE} at convolution: skipped by node relu"
    (only,) = found.what_if(EPILOGUE, "relu")
    assert only.says == "the skip of node relu is lifted"
    assert only.recipe is not None
    found.recipe = only.recipe
    assert applied(found, EPILOGUE) == 1


def test_a_pattern_that_took_the_nodes():
    found = session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv())
    says = proposals(found, "conv_with_clamp", "conv2d")
    assert says == {
        f"{EPILOGUE} leaves its match at convolution alone": True,
        f"{EPILOGUE} is off": True,
    }
    for suggestion in found.what_if("conv_with_clamp", "conv2d"):
        other = Session(found.program, recipe=suggestion.recipe)
        assert applied(other, "conv_with_clamp") == 1


def _off() -> Session:
    found = session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv())
    found.disable(EPILOGUE)
    return found


def _late() -> Session:
    """A pattern of one's own that stands behind the one that takes its node."""

    @pattern("*", after=["core_aten"])
    class Early(Pattern):
        """relu(x) = max(x, 0)."""

        name, kind, anchors, conditions = "early", Kind.FUSION, (aten.relu.default,), ()

        def match(self, anchor, check):
            return Match(anchor, (anchor,), anchor)

        def rewrite(self, match, edit):
            return edit.call(aten.clamp.default, match.anchor.args[0], 0)

    found = session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv())
    found.insert("early", after=EPILOGUE)
    return found


def test_a_pattern_that_could_run_first(own):
    found = _late()
    says = proposals(found, "early", "relu")
    assert says[f"early runs before {EPILOGUE}"] is True
    first = next(s for s in found.what_if("early", "relu") if "runs before" in s.says)
    assert first.recipe is not None
    found.recipe = first.recipe
    assert (applied(found, "early"), applied(found, EPILOGUE)) == (1, 1)
    order = list(found.patterns().index)
    assert order.index("early") < order.index(EPILOGUE)


#: every kind of proposal: what it says -> a session, the pattern and the node to ask about
KINDS = {
    "were the only reader of": lambda: (session(_shared, torch.randn(IMAGE), conv=conv()), EPILOGUE, "conv2d"),
    "alpha were 1": lambda: (
        session(lambda s, x: torch.add(x, s.conv(x), alpha=2), torch.randn(1, 4, 6, 6), conv=conv(4)), EPILOGUE, "conv2d",
    ),
    "the batch size were 1": lambda: (
        session(lambda s, x: s.conv(x).relu(), torch.randn(8, 3, 6, 6), conv=conv()), EPILOGUE, "conv2d",
    ),
    "the program computed in float16": lambda: (
        session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv(), target="ort-webgpu"),
        "im2col_conv_activation", "conv2d",
    ),
    "did not stand in between": lambda: (
        session(lambda s, x: s.conv(x).clone().relu(), torch.randn(IMAGE), conv=conv()), EPILOGUE, "conv2d",
    ),
    "is on": lambda: (_off(), EPILOGUE, "conv2d"),
    "runs before": lambda: (_late(), "early", "relu"),
    "is lifted": lambda: (_skipping(), EPILOGUE, "relu"),
    "is off": lambda: (
        session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv()), "conv_with_clamp", "conv2d",
    ),
    "leaves its match": lambda: (
        session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv()), "conv_with_clamp", "conv2d",
    ),
    "the device has": lambda: (
        session(lambda s, x: s.conv(x).relu(), torch.randn(1, 3, 6, 20000), conv=conv()), EPILOGUE, "conv2d",
    ),
}  # fmt: skip


def _skipping() -> Session:
    found = session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv())
    found.skip(node="relu")
    return found


@pytest.mark.parametrize("says", KINDS)
def test_a_proposal_that_was_not_seen_to_match_is_not_shown(says, monkeypatch, own):
    found, name, node = KINDS[says]()
    assert any(says in s.says for s in found.what_if(name, node))
    lowering = found.lowering
    # nothing that is tried changes the verdict: neither lowering by another recipe nor the pattern on a changed graph
    monkeypatch.setattr("lowerscope.what_if.Lowerer.lower", lambda self, recipe, polled: lowering)
    monkeypatch.setattr("lowerscope.what_if._WOULD", ())
    assert found.what_if(name, node) == []


def test_a_device_with_larger_textures_and_no_more_than_it_takes():
    found = session(lambda s, x: s.conv(x).relu(), torch.randn(1, 3, 6, 20000), conv=conv())
    assert proposals(found, EPILOGUE, "conv2d") == {"the device has max_texture_width = 20000": True}


def test_an_assertion_that_reads_the_value():
    module, args, kwargs, shapes = CASES["b_noop_between_conv_and_bn"][0]()
    found = Session(capture(module, args, kwargs, shapes))
    missed = found.near_misses("fold_batch_norm").set_index("failed").loc["one_user"]
    anchor, fault = str(missed["anchor"]), str(missed["fault"])
    assert found.lowering.ledger.records[fault].target is aten._assert_tensor_metadata.default
    says = proposals(found, "fold_batch_norm", anchor)
    first = next(iter(says))
    assert first == f"'{fault}' (aten._assert_tensor_metadata) did not read 'convolution_2'"
    assert says[first] is True


def test_an_op_that_was_decomposed_is_proposed_to_be_kept(own):
    @pattern("*", after=["core_aten"])
    class Hardswish(Pattern):
        """hardswish(x) = x · relu6(x + 3) / 6."""

        name, kind, anchors = "own_hardswish", Kind.FUSION, (aten.hardswish.default,)
        conditions = ()

        def match(self, anchor, check):
            return Match(anchor, (anchor,), anchor)

        def rewrite(self, match, edit):
            return edit.call(aten.silu.default, match.anchor.args[0])

    found = session(lambda s, x: F.hardswish(s.conv(x)), torch.randn(IMAGE), conv=conv())
    told = found.why_not("own_hardswish", "hardswish")
    assert told.headline.startswith("own_hardswish at hardswish: shadowed by core_aten, before which it does not run: ")
    assert "was decomposed in core_aten" in told.history[0]
    (only,) = found.what_if("own_hardswish", "hardswish")
    assert (only.says, only.same) == ("core_aten keeps aten.hardswish whole", False)
    assert only.recipe is not None
    found.recipe = only.recipe
    assert applied(found, "own_hardswish") == 1


def test_a_shared_node_of_ones_own_pattern_is_shown_and_may_be_copied(own):
    @pattern("*", after=["core_aten"])
    class TwoScales(Pattern):
        """(x * a) * b = x * (a b)."""

        name, kind, anchors = "own_scales", Kind.FOLD, (aten.mul.Tensor,)
        conditions = (Condition("product", "it multiplies a product"), Condition("one_user", "nothing else reads it"))
        nothing_to_fuse = ("product",)

        def match(self, anchor: Any, check: Any):
            inner = anchor.args[0]
            check.eq("product", inner.target, aten.mul.Tensor, at=inner)
            check.one_user("one_user", inner, wanted=anchor)
            return Match(anchor, (inner, anchor), anchor)

        def rewrite(self, match: Any, edit: Any):
            inner, outer = match.nodes
            return edit.call(outer.target, inner.args[0], inner.args[1] * outer.args[1])

    def twice_read(s, x):
        y = x * 0.5
        return y * 3.0 + y

    found = session(twice_read, torch.randn(2, 3))
    miss = found.near_misses("own_scales").iloc[0]
    assert (miss.failed, miss.fault) == ("one_user", "add")
    assert "mul" in miss.nodes
    same = {s.says: s.same for s in found.what_if("own_scales", miss.anchor)}
    assert same["'mul_1' were the only reader of 'mul', the others reading a copy"] is True


def test_keeping_is_not_proposed_where_it_would_not_help():
    found = session(lambda s, x: F.hardswish(s.conv(x)), torch.randn(IMAGE), conv=conv())
    assert proposals(found, "conv_with_clamp", "hardswish") == {}


def test_a_match_elsewhere_that_shares_a_node_proves_nothing():
    def two(s, x):
        y = s.conv(x)
        return F.relu(s.other(x) + y), y.sigmoid()

    found = session(two, torch.randn(IMAGE), conv=conv(), other=conv())
    for suggestion in found.what_if(EPILOGUE, "conv2d"):
        assert suggestion.recipe is None
        assert "'conv" in suggestion.says or "reader" in suggestion.says


def test_nothing_is_proposed_of_what_is_applied_or_declined_by_its_rewrite(own):
    @pattern("*", after=["core_aten"])
    class Never(Pattern):
        """relu."""

        name, kind, anchors, conditions = "never", Kind.FUSION, (aten.relu.default,), ()

        def match(self, anchor, check):
            return Match(anchor, (anchor,), anchor)

        def rewrite(self, match, edit):
            return Declined("never")

    found = session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv(), target="xnnpack")
    assert found.what_if("fuse_activation", "conv2d") == []
    assert found.why_not("never", "relu").headline == "never at relu: declined; never"
    assert found.what_if("never", "relu") == []


def test_the_session_and_its_lowering_are_as_before():
    found = session(_shared, torch.randn(IMAGE), conv=conv())
    lowering, history = found.lowering, found.can_undo
    graph = str(found.program.graph)
    found.what_if(EPILOGUE, "conv2d")
    assert found.lowering is lowering
    assert found.can_undo == history
    assert str(found.program.graph) == graph


def test_a_search_can_be_ended():
    class Enough(Exception):
        pass

    from lowerscope.what_if import what_if

    calls = []

    def polled():
        calls.append(1)
        if len(calls) > 2:
            raise Enough

    found = session(_shared, torch.randn(IMAGE), conv=conv(), target="vulkan")
    with pytest.raises(Enough):
        what_if(found.lowering, EPILOGUE, "conv2d", polled)
    assert applied(Session(found.program), "conv1d_as_conv2d") == 0


def test_unknown_names():
    found = session(_shared, torch.randn(IMAGE), conv=conv())
    with pytest.raises(UnknownNameError, match="no pattern of target vulkan named"):
        found.what_if("fuse_activation", "conv2d")
    with pytest.raises(UnknownNameError, match="no node named"):
        found.what_if(EPILOGUE, "conv3d_1")


def test_a_linear_network_has_nothing_to_propose():
    found = session(lambda s, x: s.l(x), torch.randn(2, 3), l=nn.Linear(3, 4))
    assert found.what_if(EPILOGUE, "linear") == []


def test_an_empty_answer_says_what_stands_in_the_way():
    found = session(lambda s, x: F.relu(F.conv2d(x, x)), torch.randn(IMAGE))
    none = found.what_if("conv2d_with_epilogue", "relu")
    assert none == []
    assert repr(none).startswith(
        "no small change that was tried makes conv2d_with_epilogue match at convolution: its weight is an input at "
    )
    fused = session(lambda s, x: F.relu(s.conv(x)), torch.randn(IMAGE), conv=conv())
    applied = fused.what_if("conv2d_with_epilogue", "relu")
    assert applied == []
    assert repr(applied) == "conv2d_with_epilogue is applied at convolution: nothing need be changed"
    assert DisplayFormatter().format(none)[0]["text/plain"] == repr(none)


def test_what_torch_refuses_while_it_is_tried_is_not_logged(caplog, monkeypatch):
    found = session(lambda s, x: s.linear(F.gelu(x)), torch.randn(IMAGE), linear=nn.Linear(6, 6))
    monkeypatch.setattr(logging.getLogger("torch"), "propagate", True)
    with caplog.at_level(logging.ERROR, logger="torch"):
        assert found.what_if("quantized_linear", "linear") == []  # a product without the view before it, for one
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
