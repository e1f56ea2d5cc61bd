"""ExecuTorch 1.5.1's own passes and ours on the same edge programs: the same nodes are matched, but for the tables.

`FuseBatchNormPass` and `FuseActivationPass` are XNNPACK's (Vulkan runs the first, too), `FuseClampPass` is Vulkan's. Both
sides meet one program, opened here as it is, so that nodes are told apart by their names in it.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from lowerscope.loading import load
from lowerscope.lowering import Lowering, lower
from lowerscope.ops import display_name
from lowerscope.program import Program, capture
from lowerscope.session import Session
from sample_models.build import FOLDER

pytestmark = pytest.mark.executorch

SAMPLES = ("dsr", "conv_bn", "upsampler", "migan", "codec", "resnet50_like", "depthwise_net")
_NAME = "name before the pass"
_CLAMP = "1.5.1 knows relu and hardtanh only; a clamp is a range here, too"
_REPLACED = (
    "pytorch/executorch#25041: polyphase_conv_transpose has taken the convolution apart before; 1.5.1 has no such pass"
)
_EPILOGUE = "pytorch/executorch#24823: conv2d_with_epilogue takes it first; 1.5.1 has no such pattern"
#: how many activations 1.5.1 fuses, so that agreeing on none is seen for what it is
FUSED = {
    "FuseActivationPass": {"dsr": 99, "conv_bn": 5, "upsampler": 6, "resnet50_like": 49, "depthwise_net": 6},
    "FuseClampPass": {"dsr": 16, "conv_bn": 5, "upsampler": 6, "resnet50_like": 33, "depthwise_net": 6},
}

#: (pass, target, model) -> (who alone matches, op, activation) -> (how often, the reason)
DIFFERENCES: dict[tuple[str, str, str], dict[tuple[str, str, str], tuple[int, str]]] = {
    ("FuseActivationPass", "xnnpack", "upsampler"): {("1.5.1", "aten.convolution", "aten.relu"): (2, _REPLACED)},
    ("FuseActivationPass", "xnnpack", "migan"): {("here", "aten.mul.Tensor", "aten.clamp"): (12, _CLAMP)},
    ("FuseActivationPass", "xnnpack", "depthwise_net"): {("here", "aten.add.Tensor", "aten.clamp"): (38, _CLAMP)},
    ("FuseClampPass", "vulkan", "dsr"): {("1.5.1", "aten.convolution", "aten.relu"): (16, _EPILOGUE)},
    ("FuseClampPass", "vulkan", "conv_bn"): {("1.5.1", "aten.convolution", "aten.hardtanh"): (5, _EPILOGUE)},
    ("FuseClampPass", "vulkan", "upsampler"): {("1.5.1", "aten.convolution", "aten.relu"): (6, _EPILOGUE)},
    ("FuseClampPass", "vulkan", "resnet50_like"): {("1.5.1", "aten.convolution", "aten.relu"): (33, _EPILOGUE)},
    ("FuseClampPass", "vulkan", "depthwise_net"): {("1.5.1", "aten.convolution", "aten.relu"): (6, _EPILOGUE)},
}


@cache
def edge(model: str) -> ExportedProgram:
    """A sample in the edge dialect. Every node keeps its name through the passes."""
    return edge_of(load(FOLDER / f"{model}.pt2").exported_program)


def edge_of(program: ExportedProgram) -> ExportedProgram:
    from executorch import exir

    config = exir.EdgeCompileConfig(_check_ir_validity=False)
    made = exir.to_edge(program, compile_config=config).exported_program()
    for node in made.graph.nodes:
        node.meta[_NAME] = node.name
    return made


@cache
def ours(model: str, target: str) -> Lowering:
    return lower(Program(edge(model)), target)


def passed(program: ExportedProgram, name: str) -> ExportedProgram:
    """A copy of a program, after one of ExecuTorch's passes."""
    import executorch.backends.vulkan  # noqa: F401  (its passes cannot be imported before it)
    from executorch.backends.transforms.fuse_conv_with_clamp import FuseClampPass
    from executorch.backends.xnnpack._passes import XNNPACKPassManager
    from executorch.backends.xnnpack._passes.fuse_activation_pass import FuseActivationPass
    from executorch.backends.xnnpack._passes.fuse_batch_norm import FuseBatchNormPass
    from executorch.exir.program._program import _transform

    program = copy.deepcopy(program)
    if name == "FuseClampPass":
        return _transform(program, FuseClampPass())
    passes = {"FuseBatchNormPass": FuseBatchNormPass, "FuseActivationPass": FuseActivationPass}
    return XNNPACKPassManager(program, passes=[passes[name]]).transform()


@cache
def folded(model: str) -> ExportedProgram:
    return passed(edge(model), "FuseBatchNormPass")


def names(nodes: Iterable[Any]) -> set[str]:
    return {n.meta[_NAME] for n in nodes if n.op == "call_function" and _NAME in n.meta}


def gone(before: ExportedProgram, after: ExportedProgram) -> dict[str, str]:
    """What a pass has taken out -> the operator that it read."""
    left = names(after.graph.nodes)
    calls = {n.meta[_NAME]: n for n in before.graph.nodes if n.op == "call_function" and _NAME in n.meta}
    return {name: n.args[0].meta[_NAME] for name, n in calls.items() if name not in left}


def theirs(model: str, pass_name: str) -> set[tuple[str, str]]:
    """(operator that takes in, activation taken in) of a fusing pass, after the batch norms are folded."""
    if pass_name == "FuseClampPass":
        fused = passed(folded(model), pass_name)
        # the pass makes new nodes, without the names of the old: what it took is told by what is gone
        calls = {n.meta[_NAME]: n for n in folded(model).graph.nodes if n.op == "call_function" and _NAME in n.meta}
        left = names(fused.graph.nodes)
        activations = [n for name, n in calls.items() if name not in left and "convolution" not in name]
        return {(n.args[0].meta[_NAME], n.meta[_NAME]) for n in activations}
    return {(source, name) for name, source in gone(folded(model), passed(folded(model), pass_name)).items()}


def matched(lowering: Lowering, pattern: str) -> set[tuple[str, str]]:
    """The same of ours: operators by the name that they came with."""
    records = lowering.ledger.records
    pairs = set()
    for step in lowering.steps:
        if step.pattern == pattern:
            (activation,) = [id for id in step.taken if _is_activation(records[id].target)]
            sources = [id for id in lowering.origin(step.anchor) if "batch_norm" not in id and "getitem" not in id]
            (source,) = [id for id in sources if not _is_activation(records[id].target)] or [step.anchor]
            pairs.add((source, activation))
    return pairs


def _is_activation(target: Any) -> bool:
    return display_name(target).partition(".")[2].partition(".")[0] in ("relu", "hardtanh", "clamp")


def differing(model: str, target: str, pattern: str, pass_name: str) -> dict[tuple[str, str, str], int]:
    a, b = theirs(model, pass_name), matched(ours(model, target), pattern)
    assert len(a) == FUSED[pass_name].get(model, 0)
    records = ours(model, target).ledger.records
    rows = [("1.5.1", *pair) for pair in a - b] + [("here", *pair) for pair in b - a]
    op = lambda id: display_name(records[id].target)  # noqa: E731
    return dict(Counter((who, op(source), op(activation)) for who, source, activation in rows))


@pytest.mark.parametrize("model", SAMPLES)
def test_batch_norms_are_folded_into_the_same_convolutions(model):
    taken = gone(edge(model), folded(model))
    theirs = {(source, name) for name, source in taken.items() if "batch_norm" in name}
    steps = [s for s in ours(model, "xnnpack").steps if s.pattern == "fold_batch_norm"]
    mine = {
        (next(id for id in s.taken if "convolution" in id), next(id for id in s.taken if "batch_norm" in id))
        for s in steps
    }
    assert mine == theirs
    assert len(mine) == {"conv_bn": 9, "resnet50_like": 53, "depthwise_net": 19}.get(model, 0)


@pytest.mark.parametrize(
    ("pass_name", "target", "pattern"),
    [
        ("FuseActivationPass", "xnnpack", "fuse_activation"),
        ("FuseClampPass", "webgpu", "conv_with_clamp"),
        ("FuseClampPass", "vulkan", "conv_with_clamp"),
    ],
)
@pytest.mark.parametrize("model", SAMPLES)
def test_activations_are_fused_with_the_same_operators_but_for_the_table(model, pass_name, target, pattern):
    wanted = DIFFERENCES.get((pass_name, target, model), {})
    assert differing(model, target, pattern, pass_name) == {key: count for key, (count, _) in wanted.items()}


# ---------------------------------------------------------------------- what no sample shows
class Stacked(nn.Sequential):
    """Convolution, ReLU, Hardtanh(-1, 1)."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Hardtanh(-1, 1))


def upsampled(groups: int) -> ExportedProgram:
    torch.manual_seed(0)
    module = nn.Sequential(nn.ConvTranspose2d(4, 4, 3, groups=groups), nn.BatchNorm2d(4)).eval()
    return edge_of(capture(module, (torch.randn(1, 4, 5, 5),)).exported_program)


def test_it_overwrites_stacked_activations_which_here_compose():
    """pytorch/executorch#25041."""
    program = edge_of(capture(Stacked().eval(), (torch.randn(1, 4, 6, 6),)).exported_program)
    (conv,) = [n for n in passed(program, "FuseActivationPass").graph.nodes if "XNN_FUSED_ACTIVATION" in n.meta]
    held = conv.meta["XNN_FUSED_ACTIVATION"]
    assert (held.output_min, held.output_max) == (-1, 1)
    lowering = lower(Program(program), "xnnpack")
    (ranged,) = [n for n in lowering.program.graph.nodes if "conv_with_range" in str(n.target)]
    assert ranged.args[-2:] == (0.0, 1.0)


def test_it_crashes_on_a_grouped_transposed_convolution_with_batch_norm_which_here_is_folded():
    """pytorch/executorch#22994."""
    with pytest.raises(Exception, match="running the 'FuseBatchNormPass' pass") as crash:
        passed(upsampled(groups=2), "FuseBatchNormPass")
    assert "must match the size of tensor" in str(crash.value.__cause__)
    assert len(gone(upsampled(groups=1), passed(upsampled(groups=1), "FuseBatchNormPass"))) > 0
    for groups in (1, 2):
        steps = lower(Program(upsampled(groups)), "vulkan").steps
        assert next(s.pattern for s in steps if s.pattern != "core_aten") == "fold_batch_norm"


def test_it_claims_dequantize_affine_which_no_target_of_ours_does():
    """pytorch/executorch#24823."""
    import executorch.backends.vulkan  # noqa: F401
    from executorch.backends.vulkan.op_registry import vulkan_supported_ops

    from lowerscope.support.vulkan import VULKAN, WEBGPU

    assert any("dequantize_affine" in str(op) for op in vulkan_supported_ops)
    assert not any("dequantize_affine" in op for table in (VULKAN, WEBGPU) for op in table.entries)


@pytest.mark.parametrize("word", ["epilogue", "polyphase", "depth_to_space"])
def test_it_has_no_epilogue_polyphase_or_nearest_upsample(word):
    import executorch.backends.vulkan  # noqa: F401
    from executorch.backends.vulkan.op_registry import vulkan_supported_ops
    from executorch.backends.xnnpack._passes import XNNPACKPassManager
    from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS

    passes = [p.__name__ for p in XNNPACKPassManager(edge("codec")).passes]
    known = [*map(str, vulkan_supported_ops), *passes, *(c.__name__ for c in ALL_PARTITIONER_CONFIGS)]
    assert len(known) > 100
    assert not any(word in name.lower() for name in known)


def test_the_partitioner_takes_the_compile_options_of_a_session():
    from executorch.backends.vulkan import VulkanPartitioner

    session = Session(load(FOLDER / "upsampler.pt2"), "vulkan")
    session.disable("conv2d_with_epilogue")
    partitioner = VulkanPartitioner(compile_options=session.compile_options())
    assert partitioner.options == {"skip_fusion_patterns": {"conv2d_with_epilogue"}}
    found = partitioner.partition(edge("upsampler"))
    assert found.partition_tags
