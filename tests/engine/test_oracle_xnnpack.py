"""ExecuTorch 1.5.1's own XNNPACK partitioner on the sample models: the same operators in the same regions as ours.

Where the two differ, the difference equals a row of `DIFFERENCES`, which gives the reason. What is compared is the graph
without any pattern ("before"), for 1.5.1 has none of ours. The transposes of each region are those that its own
`ChannelsLastTaggedReshapePass` puts in.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch
from torch._ops import OpOverload

from lowerscope.loading import load
from lowerscope.lowering import lower
from lowerscope.partitions import Partitions, partition_summary, partitions
from lowerscope.program import capture
from sample_models.build import FOLDER
from tests.engine.patterns.test_channels_last import Noisy

pytestmark = pytest.mark.executorch

MODELS = ("dsr", "conv_bn", "upsampler", "migan", "codec", "resnet50_like", "depthwise_net")

_LINEAR = "1.5.1 keeps a linear whole; core_aten has taken it apart into a permute of the weight and an addmm"
_CASTS = (
    "behind a cast 1.5.1 lifts the numbers of an operator to constants, and casts each of them when the program runs; "
    "here they stay numbers"
)
#: model -> (where, operator) -> (how often in 1.5.1, how often here, the reason)
DIFFERENCES: dict[str, dict[tuple[str, str], tuple[int, int, str]]] = {
    "conv_bn": {
        ("delegated", "aten.linear.default"): (1, 0, _LINEAR),
        ("delegated", "aten.permute.default"): (0, 1, _LINEAR),
        ("delegated", "aten.addmm.default"): (0, 1, _LINEAR),
    },
    "resnet50_like": {
        ("delegated", "aten.linear.default"): (1, 0, _LINEAR),
        ("delegated", "aten.permute.default"): (0, 1, _LINEAR),
        ("delegated", "aten.addmm.default"): (0, 1, _LINEAR),
    },
    "depthwise_net": {("outside", "aten._to_copy.default"): (24, 12, _CASTS)},
}
#: how 1.5.1's edge dialect spells an ATen operator, where it is not the name with "_copy" behind it
_SPELLED = {
    "dim_order_ops._to_dim_order_copy.default": "aten._to_copy.default",
    "dim_order_ops._clone_dim_order.default": "aten.clone.default",
}

#: of all regions, by 1.5.1's pass
TRANSPOSES = {
    "dsr": 87,
    "conv_bn": 2,
    "upsampler": 2,
    "migan": 58,
    "codec": 24,
    "resnet50_like": 2,
    "depthwise_net": 26,
}

Regions = list[Counter[str]]


def theirs(program: Any) -> tuple[Regions, Counter[str], list[int]]:
    """The operators of each region that 1.5.1 delegates, those outside, and the transposes of each region."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    lowered = to_edge_transform_and_lower(
        program, partitioner=[XnnpackPartitioner()], compile_config=EdgeCompileConfig(_check_ir_validity=False)
    ).exported_program()
    delegates = [n for n in lowered.graph.nodes if "call_delegate" in str(n.target)]
    modules = [getattr(lowered.graph_module, n.args[0].target) for n in delegates]
    outside = [n for n in lowered.graph.nodes if n not in delegates]
    regions = [_counted(m.original_module.graph.nodes) for m in modules]
    return regions, _counted(outside), [_transposes(m.original_module) for m in modules]


def _transposes(region: Any) -> int:
    """How many transposes 1.5.1's passes put into a region, on a copy of which they run."""
    from executorch.backends.xnnpack._passes import XNNPACKPassManager

    nodes = XNNPACKPassManager(copy.deepcopy(region)).transform().graph.nodes
    return sum("_to_copy" in str(n.target) and "memory_format" in n.kwargs for n in nodes)


def _counted(nodes: Any) -> Counter[str]:
    calls = (n.target for n in nodes if n.op == "call_function" and n.target.__name__ != "getitem")
    return Counter(_spelled(str(t if isinstance(t, OpOverload) else t._op)) for t in calls)


def _spelled(name: str) -> str:
    namespace, op, overload = name.split(".")
    plain = op if op == "_to_copy" else op.removesuffix("_copy")
    return _SPELLED.get(name) or ".".join((namespace, plain, overload))


def ours(program: Any) -> tuple[Regions, Counter[str], list[int]]:
    """The same of our partitions, before any pattern."""
    lowering = lower(program, "xnnpack")
    found = partitions(lowering, "before")
    assert isinstance(found, Partitions)
    records = lowering.ledger.records
    regions = [_counted(records[id] for id in r.nodes) for r in found.regions]
    return regions, _counted(records[id] for id in found.outside), [r.transposes for r in found.regions]


@pytest.fixture(scope="module", params=MODELS)
def both(request):
    program = load(FOLDER / f"{request.param}.pt2")
    return request.param, theirs(program.exported_program), ours(program)


def test_the_same_operators_are_delegated_but_for_the_table(both):
    name, (their_regions, their_outside, _), (our_regions, our_outside, _) = both
    found = {}
    for where, a, b in (
        ("delegated", sum(their_regions, Counter()), sum(our_regions, Counter())),
        ("outside", their_outside, our_outside),
    ):
        found |= {(where, op): (a[op], b[op]) for op in {*a, *b} if a[op] != b[op]}
    assert sum(sum(region.values()) for region in their_regions) > 9
    assert found == {key: (a, b) for key, (a, b, _) in DIFFERENCES.get(name, {}).items()}


def test_the_regions_are_the_same(both):
    name, (their_regions, _, _), (our_regions, _, _) = both
    differing = {op for where, op in DIFFERENCES.get(name, {}) if where == "delegated"}

    def shapes(regions: Regions) -> list[list[tuple[str, int]]]:
        return sorted(sorted((op, n) for op, n in region.items() if op not in differing) for region in regions)

    assert shapes(their_regions) == shapes(our_regions)


def test_the_transposes_of_every_region_are_the_same(both):
    name, (_, _, their_transposes), (_, _, our_transposes) = both
    assert sorted(our_transposes) == sorted(their_transposes)
    assert sum(their_transposes) == TRANSPOSES[name]


@pytest.mark.parametrize(("shape", "count"), [((6, 5), 8), ((1, 1, 6, 5), 3)], ids=str)
def test_the_transposes_around_a_runtime_noise_map(shape, count):
    """An [H, W] operand costs 8 in 1.5.1; as [1, 1, H, W], which is what channels_last makes of it, 3."""
    program = capture(Noisy(4).eval(), (torch.randn(1, 4, 6, 5), torch.randn(shape)))
    _, _, found = theirs(program.exported_program)
    assert found == [count]
    lowering = lower(program, "xnnpack")
    assert partition_summary(lowering) == {
        "before": 1,
        "after": 1,
        "transposes_before": count,
        "transposes_after": 3,
    }


def test_qnn_transposes_the_codec_as_often_with_its_patterns_as_its_own_passes_do():
    """QNN has no 1-D convolution: each becomes a 2-D one between an unsqueeze and a squeeze, which both read NCHW."""
    from executorch import exir
    from executorch.backends.qualcomm._passes.canonicalize_conv import CanonicalizeConv
    from executorch.backends.qualcomm._passes.layout_transform import LayoutTransform

    source = load(FOLDER / "codec.pt2")
    config = exir.EdgeCompileConfig(_check_ir_validity=False, preserve_ops=[torch.ops.aten.elu.default])
    edge = exir.to_edge(source.exported_program, compile_config=config).exported_program()
    canonical = CanonicalizeConv(edge)(edge.graph_module)
    assert canonical is not None
    module = canonical.graph_module
    assert not any("permute" in str(n.target) for n in module.graph.nodes)
    laid_out = LayoutTransform(edge, insert_permute=True)(module)
    assert laid_out is not None
    permutes = sum("permute" in str(n.target) for n in laid_out.graph_module.graph.nodes)
    assert permutes == 24
    assert partition_summary(lower(source, "qnn")) == {
        "before": 1,
        "after": 1,
        "transposes_before": permutes,
        "transposes_after": permutes,
    }
