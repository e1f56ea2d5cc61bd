"""Partitions: acyclic, as few as can be, the same as torch's own partitioner finds; and for what is outside, a reason."""

from __future__ import annotations

import operator
import time
from typing import Literal

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.fx import Graph, GraphModule
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.nn import functional as F

from lowerscope.errors import RecipeError
from lowerscope.lowering import Lowerer, Lowering, lower
from lowerscope.partition_graph import RecordGraph, ranks
from lowerscope.partitions import Partitions, outside_reason, partition_summary, partitions
from lowerscope.pattern import REGISTRY, Kind, Match, Pattern, pattern
from lowerscope.program import capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.session import Session
from lowerscope.support import ethos_u, ort_webgpu, qnn, vulkan, xnnpack
from lowerscope.target import TARGETS, Target, add_target
from sample_models import codec, migan, resnet50_like

TABLES = {
    "vulkan": vulkan.VULKAN,
    "webgpu": vulkan.WEBGPU,
    "xnnpack": xnnpack.TABLE,
    "qnn": qnn.TABLE,
    "ort-webgpu": ort_webgpu.TABLE,
    "ethos-u": ethos_u.TABLE,
}


class Net(nn.Module):
    def __init__(self, compute, **members):
        super().__init__()
        self.compute = compute
        for name, value in members.items():
            setattr(self, name, value)

    def forward(self, *args):
        return self.compute(*args, self)


def lowered(compute, *args, target="xnnpack", recipe=lambda r: r, **members) -> Lowering:
    return lower(capture(Net(compute, **members).eval(), args), recipe(Recipe(target)))


def parts(lowering: Lowering, when: Literal["before", "after"] = "after") -> Partitions:
    found = partitions(lowering, when)
    assert found is not None
    return found


def summary_of(lowering: Lowering) -> dict[str, int]:
    found = partition_summary(lowering)
    assert found is not None
    return found


def image(batch=1, channels=4, height=6, width=6):
    return torch.randn(batch, channels, height, width)


# ---------------------------------------------------------------------- the algorithm
@st.composite
def graphs(draw):
    """(inputs of each node, which nodes a backend takes): a random graph with several readers and outputs."""
    count = draw(st.integers(1, 14))
    inputs = [draw(st.lists(st.integers(-1, i - 1), min_size=1, max_size=3, unique=True)) for i in range(count)]
    return inputs, draw(st.lists(st.booleans(), min_size=count, max_size=count))


def regions_of(inputs, taken):
    readers = {i: [j for j, found in enumerate(inputs) if i in found] for i in range(len(inputs))}
    rank = ranks(range(len(inputs)), readers.__getitem__, taken.__getitem__)
    groups: dict[int, set[int]] = {}
    for node in range(len(inputs)):
        if taken[node]:
            groups.setdefault(rank[node], set()).add(node)
    return list(groups.values())


def torchs_regions(inputs, taken):
    graph = Graph()
    x = graph.placeholder("x")
    nodes = []
    for found in inputs:
        args = [x if i < 0 else nodes[i] for i in found]
        nodes.append(
            graph.call_function(operator.add, (args[0], args[-1]))
            if len(args) < 3
            else graph.call_function(sum, (args,))
        )
    graph.output(tuple(n for n in nodes if not n.users))
    place = {node: i for i, node in enumerate(nodes)}

    class Takes(OperatorSupportBase):
        def is_node_supported(self, submodules, node):
            return node in place and taken[place[node]]

    found = CapabilityBasedPartitioner(GraphModule({}, graph), Takes(), allows_single_node_partition=True)
    return [{place[n] for n in p.nodes} for p in found.propose_partitions()]


def quotient(inputs, regions):
    owner = {node: f"region {i}" for i, region in enumerate(regions) for node in region}
    graph = nx.DiGraph()
    graph.add_edges_from(
        (owner.get(i, i), owner.get(j, j))
        for j, found in enumerate(inputs)
        for i in found
        if i >= 0 and owner.get(i, i) != owner.get(j, j)
    )
    return graph


@settings(max_examples=150)
@given(graphs())
def test_regions_are_acyclic_and_as_few_as_can_be(case):
    inputs, taken = case
    found = regions_of(inputs, taken)
    assert nx.is_directed_acyclic_graph(quotient(inputs, found))
    assert sorted(n for region in found for n in region) == [i for i, t in enumerate(taken) if t]
    # a path that enters delegated stretches k times needs k regions, and no more are ever needed
    entries = [0] * len(inputs)
    for i, reads in enumerate(inputs):
        before = [(entries[j], taken[j]) for j in reads if j >= 0]
        entries[i] = max((k + (taken[i] and not inside) for k, inside in before), default=int(taken[i]))
    assert len(found) == max(entries)


@settings(max_examples=100)
@given(graphs())
def test_never_more_regions_than_torchs_partitioner(case):
    inputs, taken = case
    assert len(regions_of(inputs, taken)) <= len(torchs_regions(inputs, taken))


@settings(max_examples=60)
@given(st.lists(st.booleans(), min_size=1, max_size=10))
def test_the_regions_of_a_chain_are_torchs(taken):
    inputs = [[i - 1] for i in range(len(taken))]
    key = lambda region: sorted(region)  # noqa: E731
    assert sorted(regions_of(inputs, taken), key=key) == sorted(torchs_regions(inputs, taken), key=key)


def test_a_branch_around_an_outsider_is_not_joined_over_it():
    """a -> outsider -> b and a -> b: one region {a, b} would have to run both before and after the outsider."""
    lowering = lowered(lambda x, s: (lambda a: a + F.elu(a))(x.neg()), image())
    found = parts(lowering)
    assert [region.nodes for region in found.regions] == [("neg",), ("add",)]


# ---------------------------------------------------------------------- what is outside, and why
@pytest.mark.parametrize("name", TABLES)
def test_every_aten_name_in_a_table_is_an_operator(name):
    for op in TABLES[name].entries:
        namespace, _, rest = op.partition("::")
        base, _, overload = rest.partition(".")
        if namespace != "quantized_decomposed":
            assert getattr(getattr(getattr(torch.ops, namespace), base), overload or "default").name() == op
    assert TARGETS[name].takes is TABLES[name]


REASONS = {
    "no operator": (lambda x, s: F.elu(x), (image(),), {}, "XNNPACK has no operator for aten.elu"),
    "dtype": (lambda x, s: x + x, (torch.arange(4),), {}, "an input is int64; XNNPACK has aten.add.Tensor for float16, float32"),
    "several dtypes": (lambda x, s: x + x.half(), (image(),), {}, "its inputs are of several dtypes: float16, float32"),
    "alpha": (lambda x, s: torch.add(x, x, alpha=2), (image(),), {}, "alpha is 2, not 1"),
    "3-D": (lambda x, s: s.c(x), (torch.randn(1, 4, 5, 5, 5),), {"c": nn.Conv3d(4, 4, 2)}, "it is a 3-D convolution; XNNPACK has 1-D and 2-D ones"),
    "weight": (lambda x, w, s: F.conv2d(x, w), (image(), torch.randn(2, 4, 1, 1)), {}, "its weight is computed in the graph, not a constant"),
    "mean": (lambda x, s: x.mean((2, 3)), (image(),), {}, "XNNPACK has the mean of a 4-D tensor over height and width only, both kept"),
    "softmax": (lambda x, s: x.softmax(1), (image(),), {}, "it is over dimension 1; XNNPACK has it over the last one only"),
    "power": (lambda x, s: x**3, (image(),), {}, "the power is 3; XNNPACK has squares only"),
    "step": (lambda x, s: x[..., ::2], (image(),), {}, "its step is 2, not 1"),
    "crop": (lambda x, s: F.pad(x, (-1, 0)), (image(),), {}, "it crops: pads [-1, 0]"),
    "pool": (lambda x, s: F.avg_pool2d(x, 3, padding=1), (image(),), {}, "it counts the padding in"),
    "unsqueeze": (lambda x, s: x.unsqueeze(1), (image(),), {}, "dimension 1 is put in; XNNPACK puts one in behind the last only"),
}  # fmt: skip


@pytest.mark.parametrize(("compute", "args", "members", "reason"), REASONS.values(), ids=REASONS)
def test_reasons(compute, args, members, reason):
    found = parts(lowered(compute, *args, **members))
    assert reason in [said.split("; fuse_activation")[0] for said in found.outside.values()]


def test_texture_limits_come_from_the_device_profile():
    arguments = (lambda x, s: s.c(x), image())
    conv = nn.Conv2d(4, 4, 1)
    assert summary_of(lowered(*arguments, c=conv, target="webgpu"))["after"] == 1
    small = lowered(*arguments, c=conv, target="webgpu", recipe=lambda r: r.with_profile(max_texture_width=4))
    reason = parts(small).outside["convolution"]
    assert reason.startswith("an input needs a texture of 6×6×1; the device has 4×16384×2048")


def test_a_target_without_a_table_says_so():
    add_target(Target("silent", "says nothing"))
    try:
        session = Session(capture(Net(lambda x, s: x + x), (image(),)), "silent")
        assert partition_summary(session.lowering) is None
        with pytest.raises(RecipeError, match="does not say what its backend takes"):
            session.partitions()
    finally:
        del TARGETS["silent"]


# ---------------------------------------------------------------------- matches
def test_what_a_match_makes_is_delegated_with_it():
    """A 1-D depthwise upsampler begins with an unsqueeze that the table would not take by itself."""
    up = nn.ConvTranspose1d(4, 4, 4, stride=2, padding=1, groups=4)
    after = parts(lowered(lambda x, s: s.up(x), torch.randn(1, 4, 9), up=up))
    assert any(id.startswith("unsqueeze") for id in after.delegated)
    assert not after.outside
    alone = parts(lowered(lambda x, s: x.unsqueeze(2), torch.randn(1, 4, 9)))
    assert list(alone.outside) == ["unsqueeze"]


@pytest.mark.parametrize("target", ["vulkan", "webgpu"])
@pytest.mark.parametrize(
    ("conv", "x", "profile", "reason"),
    [
        (nn.Conv2d(4, 4, 3), image(2), {}, "its batch is 2; Vulkan has 2-D convolutions for a batch of 1"),
        (nn.Conv2d(4, 4, 3), image(), {"max_texture_width": 5}, "an input needs a texture of 6×6×1"),
        (nn.Conv2d(4, 4, 3).double(), image().double(), {}, "an input is float64"),
        (nn.Conv1d(4, 4, 3), torch.randn(2, 4, 9), {}, None),
        (nn.Conv2d(4, 4, 3), image(), {}, None),
    ],
    ids=["batch", "texture", "dtype", "1-D of any batch", "taken"],
)
def test_a_backends_own_operator_is_judged_as_the_convolution_that_it_came_of(target, conv, x, profile, reason):
    arguments = (lambda x, s: s.c(x).relu(), x)
    alone = lowered(lambda x, s: s.c(x), x, c=conv, target=target, recipe=lambda r: r.with_profile(**profile))
    fused = lowered(*arguments, c=conv, target=target, recipe=lambda r: r.with_profile(**profile))
    assert any(
        "conv" in id and "with" in id for id in {**parts(fused).outside, **dict.fromkeys(parts(fused).delegated)}
    )
    if reason is None:
        assert not parts(fused).outside
        assert not parts(alone).outside
    else:
        (said,) = parts(fused).outside.values()
        (before,) = parts(alone).outside.values()
        assert said.startswith(reason)
        assert before.startswith(reason)


def test_what_merely_feeds_a_match_is_not_delegated_with_it():
    lowering = lowered(lambda x, s: F.interpolate(F.elu(x), scale_factor=2.0), image())
    after = parts(lowering)
    assert [s.pattern for s in lowering.steps].count("upsample_nearest_x2") == 1
    assert list(after.outside) == ["elu"]
    assert {lowering.ledger.records[id].target.name() for id in after.delegated} == {
        "aten::cat",
        "lowerscope_xnnpack::depth_to_space_2d",
        "lowerscope_xnnpack::to_nhwc",
        "lowerscope_xnnpack::to_nchw",
    }


@pytest.mark.parametrize(
    "switch", [lambda r: r.disable("upsample_nearest_x2"), lambda r: r.skip(Skip("upsample_nearest_x2"))]
)
def test_a_pattern_that_is_off_is_neither_applied_nor_detected(switch):
    lowering = lowered(lambda x, s: F.interpolate(x, scale_factor=2.0), image(), recipe=switch)
    found = parts(lowering)
    assert not found.regions
    assert list(found.outside) == ["upsample_nearest2d"]
    assert (
        "XNNPACK has no operator for aten.upsample_nearest2d.vec; upsample_nearest_x2"
        in found.outside["upsample_nearest2d"]
    )


def test_the_reason_names_the_pattern_that_did_not_match():
    lowering = lowered(lambda x, s: F.interpolate(x, scale_factor=3.0), image())
    reason = outside_reason(lowering, "upsample_nearest2d")
    assert reason is not None
    assert "upsample_nearest_x2 does not take it: " in reason
    session = Session(lowering.source, "xnnpack")
    assert session.why_not(node="upsample_nearest2d").outside == reason
    assert session.why_not(node="args_0").outside is None


def test_what_a_users_own_pattern_makes_is_judged_by_the_table():
    @pattern("xnnpack", after=["core_aten"])
    class NegAsElu(Pattern):
        """neg(x) = elu(x), which is wrong, and which the backend does not take"""

        name, kind, anchors, conditions = "neg_as_elu", Kind.FUSION, (torch.ops.aten.neg.default,), ()

        def match(self, anchor, check):
            return Match(anchor, (anchor,), anchor)

        def rewrite(self, match, edit):
            return edit.call(torch.ops.aten.elu.default, match.anchor.args[0])

    try:
        found = parts(lowered(lambda x, s: x.neg(), image()))
        assert list(found.outside.values()) == ["XNNPACK has no operator for aten.elu"]
    finally:
        REGISTRY.remove("neg_as_elu")


def test_before_is_what_core_aten_leaves_whatever_the_patterns_do_afterwards():
    """The weight of a linear is transposed, and the transpose folded later: before, too, it is a constant."""
    lowering = lowered(lambda x, s: s.f(x), torch.randn(2, 4), f=nn.Linear(4, 3))
    assert parts(lowering, "before").outside == {}
    assert set(parts(lowering, "before").regions[0].nodes) == {"permute", "addmm"}
    assert parts(lowering, "after").regions[0].nodes == ("addmm",)


def test_branches_are_delegated_on_their_own():
    def compute(x, s):
        return torch.cond(x.sum() > 0, lambda y: s.c(y).relu(), lambda y: y.neg(), (x,))

    lowering = lowered(compute, image(channels=4), c=nn.Conv2d(4, 4, 1))
    found = parts(lowering)
    prefixes = {region.nodes[0].rpartition("/")[0] for region in found.regions}
    assert {p for p in prefixes if p} == {"true_graph_0", "false_graph_0"}
    assert any("conv_with_range" in id for id in found.delegated)
    assert any(reason == "XNNPACK has no operator for cond" for reason in found.outside.values())


# ---------------------------------------------------------------------- the stories
def test_migan_is_cut_into_seven_and_put_together_again():
    session = Session(capture(*migan.build()), "xnnpack")
    frame = session.partitions()
    assert frame.when.value_counts().to_dict() == {"before": 7, "after": 1}
    outside = session.outside()
    assert (outside.when == "before").all()
    assert outside.op.value_counts().to_dict() == {"aten.upsample_nearest2d.vec": 6}
    one = frame[frame.when == "after"].iloc[0]
    assert len(one.outputs) == 1
    assert one.inputs == ("masked",)
    assert len(one.nodes) > 60
    assert f"{one.nodes[0]}, {one.nodes[1]}, {one.nodes[2]} and {len(one.nodes) - 3} more" in repr(frame)
    session.disable("upsample_nearest_x2")
    assert session.partitions().when.value_counts().to_dict() == {"before": 7, "after": 7}


def test_codec_is_cut_by_its_elu():
    lowering = lower(capture(*codec.build()), "xnnpack")
    summary = summary_of(lowering)
    assert (summary["before"], summary["after"]) == (11, 11)
    # two for each 1-D convolution, of which one becomes a multiply
    assert (summary["transposes_before"], summary["transposes_after"]) == (24, 22)
    assert set(parts(lowering).outside.values()) == {"XNNPACK has no operator for aten.elu"}


def test_resnet_keeps_its_mean_outside():
    lowering = lower(capture(*resnet50_like.build()), "xnnpack")
    assert summary_of(lowering)["after"] == 2
    assert list(parts(lowering).outside) == ["mean"]


# ---------------------------------------------------------------------- speed
def test_a_toggle_costs_little_at_ten_thousand_nodes():
    def compute(x, s):
        for i in range(2500):
            x = F.elu(x) if i % 50 == 0 else (x + 1.0).relu().sigmoid().mul(0.5)
        return x

    lowerer = Lowerer(capture(Net(compute), (image(1, 1, 2, 2),)))
    recipe = Recipe("xnnpack")
    first = lowerer.lower(recipe)
    assert len(RecordGraph.of(first.core, ()).order) > 9000
    assert summary_of(first)["before"] == 50
    fastest = 1.0
    for i in range(4):
        toggled = lowerer.lower(recipe.disable("fuse_activation") if i % 2 == 0 else recipe)
        start = time.process_time()
        summary_of(toggled)
        fastest = min(fastest, time.process_time() - start)
    assert fastest < 0.25, f"{1000 * fastest:.0f} ms of processor time"
