"""ExecuTorch's own partitioner beside our partitions: regions, reasons in its words, and what stops it."""

from __future__ import annotations

import importlib.util
from collections import Counter

import pytest
import torch
from torch import nn

from lowerscope.errors import MeasureError
from lowerscope.loading import load
from lowerscope.lowering import Lowering, lower
from lowerscope.measure.interpreter import Cancelled
from lowerscope.measure.partitioner import PartitionerReport, partitioner
from lowerscope.program import capture
from lowerscope.session import Session
from sample_models.build import FOLDER
from tests.engine.test_oracle_xnnpack import theirs

pytestmark = pytest.mark.executorch

Measured = tuple[Lowering, PartitionerReport, list[tuple[str, int, int]]]


@pytest.fixture(scope="module")
def measured() -> Measured:
    lowering = lower(load(FOLDER / "conv_bn.pt2"), "xnnpack")
    seen: list[tuple[str, int, int]] = []
    return lowering, partitioner(lowering, progress=lambda *status: seen.append(status)), seen


def test_its_regions_are_those_that_it_delegates(measured: Measured):
    lowering, report, _ = measured
    regions, outside, _ = theirs(lowering.source.exported_program)
    before = [row for row in report.rows if row.when == "before"]
    sizes = Counter(row.executorch for row in before if row.executorch.startswith("region "))
    assert sorted(sizes.values()) == sorted(sum(r.values()) for r in regions) == [1, 27]
    left = [row for row in before if row.executorch not in sizes]
    assert [row.op for row in left] == list(outside.elements()) == ["aten.mean.dim"]
    assert report.regions[0] == len(regions)
    assert all(row.agree for row in before)
    assert all(row.ours == row.executorch for row in before if row not in left), "the same regions, the same numbers"


def test_what_is_outside_has_its_reason_in_its_words_and_ours(measured: Measured):
    rows = measured[1].frame().to_dict("records")
    row = next(row for row in rows if (row["when"], row["node"]) == ("before", "mean"))
    assert row["executorch"] == "mean.dim only supports keepdim=True"
    assert row["ours"].startswith("XNNPACK has the mean of a 4-D tensor")


def test_where_the_two_differ_comes_first_and_is_counted(measured: Measured):
    _, report, _ = measured
    first = report.rows[:2]
    assert [(row.when, row.op, row.agree) for row in first] == [
        ("after", "xnnpack.to_nhwc", False),
        ("after", "xnnpack.to_nchw", False),
    ]
    assert all(row.ours == "region 1" for row in first)
    assert {row.executorch for row in first} == {"Only dim-order preserving clones are supported."}
    assert all(row.agree for row in report.rows[2:])
    assert report.sentence.endswith(
        f"makes 2 regions before and 2 after, we 2 and 2; 2 of {len(report.rows)} operators differ."
    )


def test_every_operator_of_both_graphs_has_a_row(measured: Measured):
    lowering, report, _ = measured
    for when, program in (("before", lowering.before), ("after", lowering.program)):
        nodes = {row.node for row in report.rows if row.when == when}
        assert nodes == {n.name for n in program.graph.nodes if n.op == "call_function"} - {
            n.name for n in program.graph.nodes if "getitem" in n.name
        }


def test_it_tells_how_far_it_is_and_leaves_the_program_as_it_was(measured: Measured):
    lowering, _, seen = measured
    assert [phase for phase, _, _ in seen] == ["partitioning before", "partitioning after"]
    for program in (lowering.before, lowering.program):
        assert not any("lowerscope" in (n.meta.get("custom") or {}) for n in program.graph.nodes)


def test_a_quantized_convolution_is_in_a_region_of_both():
    report = partitioner(lower(load(FOLDER / "dyt_conv_nhwc.pt2"), "xnnpack"))
    convolutions = [row for row in report.rows if row.op == "aten.conv2d" and row.when == "before"]
    assert len(convolutions) == 3
    assert all(row.ours.startswith("region ") and row.executorch.startswith("region ") for row in convolutions)


class Branching(nn.Module):
    def forward(self, x):
        """An operator in a sub-graph, one without a config, and one that XNNPACK takes."""
        return torch.cond(x.sum() > 0, lambda x: (x.relu(),), lambda x: (x.sigmoid(),), (x,))[0] + 1


def test_sub_graphs_and_operators_without_a_config_are_said_to_be_so():
    frame = Session(capture(Branching(), (torch.rand(2, 3),)), "xnnpack").partitioner()
    said = {(row["when"], row["op"]): row["executorch"] for row in frame.to_dict("records")}
    assert said["before", "aten.relu"] == "it does not look into sub-graphs"
    assert said["before", "aten.gt.Scalar"].startswith("it has no config for aten.gt.")


def test_another_target_is_an_error_that_says_which_to_set():
    session = Session(capture(nn.ReLU(), (torch.rand(2),)), "vulkan")
    with pytest.raises(MeasureError, match=r"the target is vulkan: session.set_target\('xnnpack'\) first"):
        session.partitioner()


def test_without_the_extra_it_says_how_to_get_it(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "executorch" else find(name, *rest)
    )
    session = Session(capture(nn.ReLU(), (torch.rand(2),)), "xnnpack")
    with pytest.raises(MeasureError, match=r"not installed: pip install 'lowerscope\[executorch\]'"):
        session.partitioner()


def test_it_can_be_cancelled():
    lowering = lower(capture(nn.ReLU(), (torch.rand(2),)), "xnnpack")
    with pytest.raises(Cancelled):
        partitioner(lowering, cancelled=lambda: True)
