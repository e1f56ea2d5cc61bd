"""Latency on the real ExecuTorch runtime, what a verdict takes, and what happens when the other process fails."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from lowerscope.errors import MeasureError
from lowerscope.measure import process
from lowerscope.measure.interpreter import Cancelled
from lowerscope.measure.latency import LatencyReport, latency, portable
from lowerscope.ops import is_own, vulkan  # noqa: F401, registers the reference operators
from lowerscope.program import Program, capture

pytestmark = pytest.mark.executorch


class Clamped(nn.Module):
    """conv and relu6, as two operators or as the one that conv_with_clamp makes of them."""

    def __init__(self, fused: bool):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.fused = fused

    def forward(self, x):
        if not self.fused:
            return nn.functional.relu6(self.conv(x))
        return torch.ops.lowerscope_vulkan.conv_with_clamp(
            x, self.conv.weight, self.conv.bias, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, 0.0, 6.0
        )


def _clamped(fused: bool) -> Program:
    return capture(Clamped(fused).eval(), (torch.ones(1, 3, 16, 16),))


def test_both_programs_run_on_the_runtime_and_give_the_same_numbers():
    seen = []
    report = latency(_clamped(False), _clamped(True), runs=8, threads=2, progress=lambda *status: seen.append(status))
    assert len(report.before_ms) == len(report.after_ms) == 8
    assert min(report.before_ms + report.after_ms) > 0
    assert report.partitions == (1, 1)
    assert report.numbers is not None
    assert report.numbers.agrees
    assert report.numbers.elements == 8 * 16 * 16
    assert report.profile.index.str.startswith("Convolution").any()
    assert report.profile["calls_before"].to_numpy().sum() > 0
    assert report.profile["calls_after"].to_numpy().sum() > 0
    assert report.verdict in ("faster", "slower", "within noise")
    assert "XNNPACK" in report.sentence
    assert report.threads == 2
    assert "2 threads, 8 runs each" in report.sentence
    frame = report.frame()
    assert list(frame.index) == ["before", "after"]
    assert frame["bytes"].to_numpy().min() > 0
    phases = [phase for phase, _, _ in seen]
    assert "lowering before" in phases
    assert all(done <= total for _, done, total in seen)


def test_a_program_with_state_keywords_a_nested_input_and_a_dynamic_size_is_timed():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x, *, extra):
            y = self.linear(x)
            self.seen.add_(y.sum(0))  # type: ignore[operator]
            return {"y": y, "rest": (extra["shift"] + 1, None, 3)}

    sizes = {"x": {0: torch.export.Dim("batch", min=1, max=8)}, "extra": {"shift": None}}
    exported = torch.export.export(
        Counts().eval(), (torch.ones(2, 4),), {"extra": {"shift": torch.arange(3)}}, dynamic_shapes=sizes
    )
    report = latency(Program(exported), Program(exported), runs=2, profile=False)
    assert report.numbers is not None
    assert report.numbers.agrees
    assert not exported.state_dict["seen"].any(), "the user's state is as it was"


def test_own_operators_are_decomposed_and_nothing_else_is():
    fused, plain = _clamped(True), _clamped(False)
    assert any(is_own(n.target) for n in fused.graph.nodes if n.op == "call_function")
    exported = portable(fused)
    assert not any(is_own(n.target) for n in exported.graph.nodes if n.op == "call_function")
    args, _ = fused.inputs()
    assert torch.equal(exported.module()(*args), plain.exported_program.module()(*args))
    assert any(is_own(n.target) for n in fused.graph.nodes if n.op == "call_function"), "the program is as it was"
    assert portable(plain) is plain.exported_program


def test_without_the_extra_it_says_how_to_get_it(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "executorch" else find(name, *rest)
    )
    with pytest.raises(MeasureError, match=r"pip install 'lowerscope\[executorch\]'"):
        latency(_clamped(False), _clamped(True))


def test_what_the_runtime_cannot_run_is_an_error_with_its_phase_and_the_operators():
    class Spectrum(nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x)[1]

    program = capture(Spectrum(), (torch.randn(4, 4),))
    with pytest.raises(MeasureError, match=r"while running before once.*linalg_svd"):
        latency(program, program)


HUNGRY = """
from lowerscope.measure.process import tell_status, work

def main(folder):
    tell_status(folder, "running before once", 0, 2)
    bytearray(1 << 62)

work(main)
"""


def test_running_out_of_memory_is_said_with_its_phase_and_the_way_out(tmp_path, monkeypatch):
    (tmp_path / "hungry.py").write_text(HUNGRY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    said = r"out of memory .* while running before once: measure on smaller inputs; nothing else is lost"
    with pytest.raises(MeasureError, match=said):
        process.run_worker("hungry", tmp_path, lambda: False, lambda *_: None)


@pytest.fixture
def started(monkeypatch):
    """The processes that latency starts."""
    processes = []
    start = subprocess.Popen

    def popen(*args, **kwargs):
        processes.append(start(*args, **kwargs))
        return processes[-1]

    monkeypatch.setattr(process.subprocess, "Popen", popen)
    return processes


def test_a_process_that_dies_is_reported_with_its_phase(started):
    with pytest.raises(MeasureError, match="ended by signal 9 while lowering before: memory may have run out"):
        latency(_clamped(False), _clamped(True), progress=lambda *_: started[0].kill())


def test_cancelling_ends_the_process(started):
    seen = []
    with pytest.raises(Cancelled):
        latency(
            _clamped(False), _clamped(True), progress=lambda *status: seen.append(status), cancelled=lambda: bool(seen)
        )
    assert started[0].poll() is not None


@pytest.mark.parametrize(("runs", "threads"), [(0, 1), (5, 0)])
def test_no_runs_or_threads_is_an_error(runs, threads):
    with pytest.raises(MeasureError, match="must be 1 or more"):
        latency(_clamped(False), _clamped(True), runs=runs, threads=threads)


def _report(before: list[float], after: list[float]) -> LatencyReport:
    return LatencyReport(before, after, 1, "a runtime")


def test_a_clear_gain_is_faster_and_a_clear_loss_slower():
    fast, slow = [1.0, 1.01] * 10, [2.0, 2.02] * 10
    assert _report(slow, fast).verdict == "faster"
    assert _report(slow, fast).ratio == pytest.approx(2.0)
    assert _report(fast, slow).verdict == "slower"
    assert _report(slow, fast).sentence.startswith("2.00x faster: 2.01 ms before, 1 ms after")
    assert _report(fast, slow).sentence.startswith("2.00x slower")


def test_one_percent_is_within_noise_however_steady():
    assert _report([1.01] * 20, [1.0] * 20).verdict == "within noise"
    assert _report([1.01] * 20, [1.0] * 20).sentence.startswith("Within noise: 1.01 ms before, 1 ms after")


def test_what_two_loads_of_one_program_differ_by_is_noise():
    report = _report([1.1, 1.3] * 10, [1.0, 1.05] * 10)
    assert report.noise == pytest.approx(1.3 / 1.1 - 1)
    assert report.verdict == "within noise"
    assert _report([1.15] * 20, [1.0] * 20).verdict == "faster", "the same medians, without it"


def test_a_slow_drift_of_the_machine_is_taken_out_by_the_pairs():
    drift = [1 + 0.05 * run for run in range(20)]
    report = _report([1.3 * d for d in drift], drift)
    assert report.verdict == "faster"
    assert report.ratio_interval == pytest.approx((1.3, 1.3))


def test_five_runs_prove_nothing():
    report = _report([2.0] * 5, [1.0] * 5)
    assert report.ratio_interval == (0.0, math.inf)
    assert report.verdict == "within noise"
    assert _report([2.0] * 6, [1.0] * 6).verdict == "faster"
