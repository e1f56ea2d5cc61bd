"""Loops, branches and regions: what is in them is matched, explained and tried like everything else."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F

from lowerscope.by_example import pattern_from
from lowerscope.errors import MeasureError
from lowerscope.pattern import Kind, Match, Pattern, pattern
from lowerscope.program import capture
from lowerscope.session import Session
from tests.engine.nets import Of
from tests.engine.test_why import EPILOGUE, fault

aten = torch.ops.aten
IMAGE = torch.randn(1, 4, 6, 6)
WHERE = ("while_loop", "scan", "map", "nested_cond", "no_grad_in_cond")


class Net(nn.Module):
    """relu(norm(conv(x))) matches twice; the value of `shared` is read twice, by a sigmoid first."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.conv, self.norm, self.shared = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)
        self.norm.running_mean.normal_()  # type: ignore[union-attr]
        self.where = where

    def body(self, x: torch.Tensor) -> torch.Tensor:
        y = self.shared(x)
        return F.relu(self.norm(self.conv(x))) + y.sigmoid() + y.relu()

    def forward(self, x: torch.Tensor):
        if self.where == "while_loop":
            return torch.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, self.body(x)), (torch.tensor(0), x))
        if self.where == "scan":
            return scan(lambda carry, x: (self.body(carry) + x, x * 2), x, torch.stack([x, x.sin()]), dim=0)
        if self.where == "map":
            return map_over(lambda t, *_: self.body(t), torch.stack([x, x.sin()]))
        if self.where == "nested_cond":
            inside = self.cond(self.body)
            return self.cond(inside)(x.abs())
        return self.cond(self.without_grad)(x.abs())

    def without_grad(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = self.body(x)
        return y.sin()

    @staticmethod
    def cond(then):
        return lambda x: torch.cond(x.sum() > 0, then, lambda t: t.cos(), (x,))


def opened(where: str) -> Session:
    torch.manual_seed(0)
    with torch.enable_grad():
        return Session(capture(Net(where).eval(), (IMAGE,)))


@pytest.fixture(scope="module", params=WHERE)
def session(request) -> Session:
    return opened(request.param)


def shared_conv(session: Session) -> tuple[str, str]:
    """(path of the sub-graph, id of the convolution that is read twice there)."""
    row = session.near_misses(EPILOGUE)
    assert len(row) == 1
    path, _, _ = row.anchor.item().rpartition("/")
    return path + "/", row.anchor.item()


def test_folds_and_fusions_apply_and_the_numbers_stay(session):
    session.expect({"fold_batch_norm": 1, EPILOGUE: 1})
    session.lowering.program.exported_program.validate()
    inputs = ((IMAGE.abs(),), {})  # every branch's condition holds
    assert set(session.parity(inputs).verdict) <= {"equal", "close"}


def test_a_miss_names_the_reader_inside(session):
    path, conv = shared_conv(session)
    for asked in (conv, path + "relu_1", path + "sigmoid"):
        told = session.why_not(EPILOGUE, asked)
        assert (told.anchor, fault(told).name, fault(told).node) == (conv, "one_user", path + "sigmoid")
    assert f"2 users ({path}sigmoid, {path}relu_1), expected 1 user" in fault(told).sentence


def test_a_weight_outside_is_answered_inside(session):
    _, conv = shared_conv(session)
    told = session.why_not(EPILOGUE, "p_shared_weight")
    assert (told.node, told.anchor) == ("p_shared_weight", conv)
    assert "does not take it" in session.why_not(EPILOGUE, "p_conv_weight").headline


def test_what_was_done_to_a_node_inside_is_told(session):
    path, _ = shared_conv(session)
    told = session.why_not(EPILOGUE, path + "batch_norm")
    assert told.verdict == "applied"
    assert f"'{path}batch_norm' (aten.batch_norm) was decomposed in core_aten" in told.history[0]
    assert "was taken by fold_batch_norm" in told.history[1]


def test_a_change_inside_is_proposed_as_it_was_tried(session):
    path, conv = shared_conv(session)
    (found,) = session.what_if(EPILOGUE, conv)
    assert found.says == f"'{path}relu_1' were the only reader of '{conv}', the others reading a copy"
    assert found.same is True


def test_who_took_what_inside_can_be_flipped(session):
    row = session.conflicts().iloc[0]
    path, _ = shared_conv(session)
    assert row["at"].startswith(path)
    assert row.flip == f"session.skip(pattern={EPILOGUE!r}, match={row['at']!r})"
    assert row.parity_flipped in ("equal", "close")


def test_a_miss_inside_is_cut_out_of_it(session):
    _, conv = shared_conv(session)
    found = session.reproduce(EPILOGUE, conv)
    assert (found.verdict, found.failed) == ("near miss", "one_user")
    assert "/" not in found.node


@pytest.mark.parametrize("where", WHERE)
def test_a_pattern_by_example_is_found_and_explained_inside(where, own):
    pattern_from(
        lambda x, y: torch.sigmoid(x) + y, lambda x, y: y + 1 / (1 + torch.exp(-x)), [IMAGE, IMAGE], name="sig"
    )
    found = opened(where)
    before = dict(found.lowering.recipe.as_dict())
    assert found.patterns().loc["sig", "applied"] == 1
    assert set(found.parity(((IMAGE.abs(),), {})).verdict) <= {"equal", "close"}
    pattern_from(lambda x: torch.cos(torch.sigmoid(x)), torch.neg, [IMAGE], name="sig")
    assert found.patterns().loc["sig", "applied"] == 0
    pattern_from(lambda x, y: torch.relu(x) + torch.tanh(y), torch.add, [IMAGE, IMAGE], name="sig")
    missed = found.near_misses("sig")
    path, _ = shared_conv(found)
    assert {"node_tanh"} <= set(missed.failed) <= {"node_tanh", "node_relu"}
    assert all(anchor.startswith(path) for anchor in missed.anchor)
    assert dict(found.lowering.recipe.as_dict()) == before


@pytest.mark.parametrize("where", WHERE)
def test_a_match_inside_that_makes_a_cycle_is_refused_by_name(where, own):
    @pattern("*", after=["core_aten"], before=["conv2d_with_epilogue"])
    class Jump(Pattern):
        """A convolution and the add behind its sigmoid, without the sigmoid."""

        name, kind, anchors, conditions = "jump", Kind.FUSION, (aten.convolution.default,), ()

        def match(self, anchor, check):
            sigmoid = next((u for u in anchor.users if u.target is aten.sigmoid.default), None)
            if sigmoid is None:
                return None
            last = next(iter(next(iter(sigmoid.users)).users))
            return Match(anchor, (anchor, last), last)

    found = opened(where)
    told = found.why_not("jump", found.near_misses("jump").anchor.item())
    assert fault(told).name == "no_cycle"
    assert fault(told).node is not None
    assert fault(told).node.rpartition("/")[0] == told.node.rpartition("/")[0]  # type: ignore[union-attr]


@pytest.mark.parametrize("where", WHERE)
def test_a_match_that_reaches_out_of_its_graph_is_refused_by_name(where, own):
    seen = []

    @pattern("*", after=["core_aten"], before=["conv2d_with_epilogue"])
    class Reaching(Pattern):
        """A relu, and a node of another graph."""

        name, kind, anchors, conditions = (
            "reaching",
            Kind.FUSION,
            (aten.abs.default, aten.sin.default, aten.relu.default),
            (),
        )

        def match(self, anchor, check):
            seen.append(anchor)
            return Match(anchor, (seen[0], anchor), anchor)

        def rewrite(self, match, edit):
            raise AssertionError("it never matches twice")

    found = opened(where)
    path, _ = shared_conv(found)
    told = found.why_not("reaching", path + "relu_1")
    outside = {n.graph for n in seen} != {seen[0].graph}
    assert outside == (told.verdict == "near miss" and fault(told).name == "one_graph")


def within(kind: str, body):
    """A function of (module, x) that computes body(x) in a sub-graph of that kind."""

    def no_grad(s, x):
        with torch.no_grad():
            return body(x)

    return {
        "no_grad": no_grad,
        "hints_wrapper": lambda s, x: hints_wrapper(body, (x,), {}, hints={"level": 1}),
        "cond": lambda s, x: torch.cond(x.sum() > 0, body, lambda t: t.cos(), (x,)),
        "while_loop": lambda s, x: torch.while_loop(
            lambda i, _: i < 2, lambda i, x: (i + 1, body(x)), (torch.tensor(0), x)
        ),
        "scan": lambda s, x: scan(lambda carry, x: (body(carry) + x, x * 2), x, torch.stack([x, x.sin()]), dim=0),
    }[kind]


def test_in_a_hints_wrapper_too_a_match_is_applied_and_a_miss_explained(own):
    pattern_from(lambda x, y: torch.sigmoid(x) + y, lambda x, y: y + 1 / (1 + torch.exp(-x)), [IMAGE] * 2, name="sig")
    found = Session(capture(Of(within("hints_wrapper", lambda x: x.cos().sigmoid() + x.tanh())).eval(), (IMAGE,)))
    assert found.why_not("sig", "hints_wrapper_body_graph_0/sigmoid").verdict == "applied"
    assert set(found.parity().verdict) <= {"equal", "close"}
    pattern_from(lambda x, y: torch.sigmoid(x) + torch.sin(y), torch.add, [IMAGE] * 2, name="sig")
    missed = fault(found.why_not("sig", "hints_wrapper_body_graph_0/sigmoid"))
    assert (missed.name, missed.node) == ("node_sin", "hints_wrapper_body_graph_0/tanh")


@pytest.mark.parametrize("kind", ["no_grad", "hints_wrapper", "cond", "while_loop", "scan"])
def test_a_match_across_a_write_inside_is_refused_by_name(kind, own):
    @pattern("*", before=["core_aten"])
    class Across(Pattern):
        """A relu and the sigmoid that reads it."""

        name, kind, anchors, conditions = "across", Kind.FUSION, (aten.relu.default,), ()

        def match(self, anchor, check):
            sigmoid = next(iter(anchor.users))
            return Match(anchor, (anchor, sigmoid), sigmoid)

    def written(x):
        y = x + 1
        a = y.relu()
        y.mul_(2)
        return a.sigmoid() + y

    with torch.enable_grad():
        found = Session(capture(Of(within(kind, written)).eval(), (IMAGE,)))
    told = found.why_not("across", found.near_misses("across").anchor.item())
    path, _, name = str(fault(told).node).rpartition("/")
    assert (fault(told).name, name) == ("no_mutation_between", "mul_")
    assert path
    assert told.anchor == f"{path}/relu"


def test_a_weight_that_export_has_left_without_values_is_named():
    def hinted(s, x):
        return hints_wrapper(lambda x: F.relu(s.conv(x)), (x,), {}, hints={"level": 1})

    found = Session(capture(Of(hinted, conv=nn.Conv2d(4, 4, 3)).eval(), (IMAGE,)))
    assert found.why_not(EPILOGUE, "hints_wrapper_body_graph_0/conv2d").verdict == "near miss"
    with pytest.raises(MeasureError, match=r"'hints_wrapper_body_graph_0/_param_constant0' of .* without values"):
        found.parity()


def test_what_a_loop_carries_around_is_no_constant():
    def loop(s, x):
        return torch.while_loop(
            lambda i, w, y: i < 2,
            lambda i, w, y: (i + 1, w * 0.5, F.relu(F.conv2d(y, w, padding=1))),
            (torch.tensor(0), s.w.clone(), x),
        )

    found = Session(capture(Of(loop, w=nn.Parameter(torch.randn(4, 4, 3, 3))).eval(), (IMAGE,)))
    told = found.why_not(EPILOGUE, found.near_misses(EPILOGUE).anchor.item())
    assert fault(told).name == "constant_weight"
    assert "is an input at while_loop_body_graph_0/" in fault(told).sentence


def autocast(s, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.relu(s.conv(x))
        with torch.autocast("cpu", enabled=False):
            z = F.relu(s.norm(s.conv(y.float())))
    return y, z


@pytest.mark.parametrize("target", ["vulkan", "xnnpack"])
def test_a_region_under_autocast_computes_in_the_dtypes_that_it_did(target):
    module = Of(autocast, conv=nn.Conv2d(4, 4, 3, padding=1), norm=nn.BatchNorm2d(4)).eval()
    found = Session(capture(module, (IMAGE,)), target)
    assert "runs its region under autocast" in found.lowering.notes[0]
    assert "casts written out" in found.lowering.notes[0]
    fused = {"vulkan": EPILOGUE, "xnnpack": "fuse_activation"}[target]
    assert found.patterns().loc[fused, "applied"] >= 1
    assert found.patterns().loc["fold_batch_norm", "applied"] == 1
    assert set(found.parity().verdict) <= {"equal", "close"}
    y, z = found.lowering.program.exported_program.module()(IMAGE)
    assert (y.dtype, z.dtype) == (torch.bfloat16, torch.float32)
    if target == "vulkan":
        told = found.why_not(EPILOGUE, found.near_misses(EPILOGUE).anchor.item())
        assert (fault(told).name, fault(told).actual) == ("dtype", "bf16")


def test_no_warning_about_torchs_own_innards_is_shown(recwarn):
    module = Of(autocast, conv=nn.Conv2d(4, 4, 3, padding=1), norm=nn.BatchNorm2d(4)).eval()
    found = Session(capture(module, (IMAGE,)))
    assert found.lowering.steps
    assert [str(w.message) for w in recwarn if "LeafSpec" in str(w.message)] == []
