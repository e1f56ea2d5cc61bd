"""Latency before and after, measured: both programs run on ExecuTorch's XNNPACK runtime, in turn, in another process."""

from __future__ import annotations

import importlib.util
import math
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from lowerscope.errors import MeasureError
from lowerscope.functional import decomposed
from lowerscope.measure.batches import flatten
from lowerscope.measure.compare import Comparison, compare
from lowerscope.measure.latency_worker import LABELS, LOADS
from lowerscope.measure.process import read_json, run_worker, write_json
from lowerscope.measure.report import severity
from lowerscope.ops import decomposition, is_own

if TYPE_CHECKING:
    from lowerscope.program import Program

# Below this a difference says nothing about the programs, however many runs agree on it.
_LEAST_NOISE = 0.02
_CONFIDENCE = 0.95


@dataclass
class LatencyReport:
    """Times of two programs on one runtime, run in turn.

    Attributes:
        before_ms, after_ms: milliseconds of each run, in the order in which they were taken; run i of both belong
            together. A run of a quick program is the mean of several calls in a row.
        threads: of the runtime. runtime: what it is and on what.
        partitions: delegated partitions, before and after. undelegated: operators outside them, by name.
        program_bytes: size of the .pte, before and after.
        profile: index ``op``, the runtime's own operator names; columns ms_before, ms_after (a run), calls_before,
            calls_after; the slowest first. Empty if it was not asked for.
        numbers: how the runtime's results before and after compare; the worst output's.
    """

    before_ms: list[float]
    after_ms: list[float]
    threads: int
    runtime: str
    partitions: tuple[int, int] = (0, 0)
    undelegated: tuple[dict[str, int], dict[str, int]] = field(default_factory=lambda: ({}, {}))
    program_bytes: tuple[int, int] = (0, 0)
    profile: pd.DataFrame = field(default_factory=pd.DataFrame)
    numbers: Comparison | None = None

    @property
    def ratio(self) -> float:
        """Median before / median after: 2.0 is twice as fast."""
        return median(self.before_ms) / median(self.after_ms)

    @property
    def ratio_interval(self) -> tuple[float, float]:
        """Where the ratio of two runs' times lies in the middle, with 95% confidence; (0, inf) for too few runs.

        The order statistics of the pairs' ratios: no distribution is assumed, and pairing takes out slow drifts.
        """
        pairs = sorted(old / new for old, new in zip(self.before_ms, self.after_ms, strict=True))
        rank = _rank_below_median(len(pairs))
        return (pairs[rank - 1], pairs[-rank]) if rank else (0.0, math.inf)

    @property
    def noise(self) -> float:
        """How far two loads of one and the same program are apart, relative; 2% at least."""
        apart = [_LEAST_NOISE]
        for times in (self.before_ms, self.after_ms):
            loads = [median(times[load::LOADS]) for load in range(LOADS) if times[load::LOADS]]
            apart.append(max(loads) / min(loads) - 1)
        return max(apart)

    @property
    def verdict(self) -> str:
        """ "faster", "slower" or "within noise": the interval must lie outside what two loads of one program differ by."""
        low, high = self.ratio_interval
        if low > 1 + self.noise:
            return "faster"
        return "slower" if high < 1 / (1 + self.noise) else "within noise"

    @property
    def sentence(self) -> str:
        """The verdict in words, with the figures and where they were taken."""
        old, new = median(self.before_ms), median(self.after_ms)
        figures = f"{old:.3g} ms before, {new:.3g} ms after"
        where = (
            f"{self.runtime}, {self.threads} thread{'s' if self.threads > 1 else ''}, {len(self.before_ms)} runs each"
        )
        if self.verdict == "within noise":
            return f"Within noise: {figures} ({where})."
        factor = self.ratio if self.verdict == "faster" else 1 / self.ratio
        return f"{factor:.2f}x {self.verdict}: {figures} ({where})."

    def frame(self) -> pd.DataFrame:
        """Index ``program`` (before, after); median_ms, p25_ms, p75_ms, min_ms, runs, partitions, undelegated, bytes."""
        rows = []
        for index, times in enumerate((self.before_ms, self.after_ms)):
            series = pd.Series(times)
            rows.append(
                {
                    "median_ms": float(series.median()),
                    "p25_ms": float(series.quantile(0.25)),
                    "p75_ms": float(series.quantile(0.75)),
                    "min_ms": float(series.min()),
                    "runs": len(times),
                    "partitions": self.partitions[index],
                    "undelegated": sum(self.undelegated[index].values()),
                    "bytes": self.program_bytes[index],
                }
            )
        return pd.DataFrame(rows, index=pd.Index(["before", "after"], name="program"))

    def __str__(self) -> str:
        return self.sentence

    __repr__ = __str__


def latency(
    before: Program,
    after: Program,
    inputs: Any = None,
    *,
    runs: int = 20,
    threads: int = 1,
    profile: bool = True,
    cancelled: Callable[[], bool] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> LatencyReport:
    """Lower both programs to XNNPACK through ExecuTorch and time them, one run of each in turn.

    The project's own operators are decomposed to ATen before: the runtime has no kernels for them. What a fused
    operator saves shows only where the runtime fuses the same operators again; the change of structure shows in full.

    Args:
        inputs: ``(args, kwargs)`` to run on; by default the program's example inputs.
        runs: of each program, after three that are not counted. profile: also take the time of each operator.
        cancelled: polled while the other process works. progress: called with (phase, done, total) as it goes on.

    Raises:
        MeasureError: ExecuTorch is not installed, cannot lower or run a program, or its process ended; the message
            says in which phase.
        Cancelled: `cancelled` returned True; the process is gone.
    """
    require_executorch("latency is measured on the real ExecuTorch runtime")
    if runs < 1 or threads < 1:
        raise MeasureError(f"runs and threads must be 1 or more, not {runs} and {threads}")
    args, kwargs = inputs if inputs is not None else before.inputs()
    flat = flatten(before, args, kwargs)
    with tempfile.TemporaryDirectory(prefix="lowerscope-") as name:
        folder = Path(name)
        for label, program in zip(LABELS, (before, after), strict=True):
            torch.export.save(portable(program), folder / f"{label}.pt2")
        torch.save(flat, folder / "inputs.pt")
        write_json(folder / "job.json", {"runs": runs, "threads": threads, "profile": profile})
        run_worker(
            "lowerscope.measure.latency_worker", folder, cancelled or (lambda: False), progress or (lambda *_: None)
        )
        return _report(folder, threads)


def require_executorch(what: str) -> None:
    """Raise MeasureError, with how to get it, unless ExecuTorch is installed. what: the sentence that it ends."""
    if importlib.util.find_spec("executorch") is None:
        raise MeasureError(f"{what}, which is not installed: pip install 'lowerscope[executorch]'")


def portable(program: Program) -> torch.export.ExportedProgram:
    """The exported program with the project's own operators decomposed to ATen; the same one where it has none.

    Raises:
        MeasureError: torch cannot decompose it.
    """
    exported = program.exported_program
    table: dict[Any, Callable[..., Any]] = {}
    for module in exported.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if node.op == "call_function" and is_own(node.target):
                function = decomposition(node.target)
                assert function is not None, f"{node.target} is registered without a decomposition"
                table[node.target] = function
    if not table:
        return exported
    try:
        return decomposed(exported, table)
    except (RuntimeError, TypeError, AssertionError, ValueError) as error:
        names = ", ".join(sorted(str(target) for target in table))
        raise MeasureError(f"{names} cannot be decomposed to ATen for the runtime: {error}") from error


def _report(folder: Path, threads: int) -> LatencyReport:
    result = read_json(folder / "result.json")
    if result is None:
        raise MeasureError("the ExecuTorch process ended without a result: measure again")
    old, new = result["before"], result["after"]
    outputs = torch.load(folder / "outputs.pt", weights_only=True)
    found = [compare(a, b) for a, b in zip(outputs["before"], outputs["after"], strict=False)]
    return LatencyReport(
        old["ms"],
        new["ms"],
        threads,
        f"ExecuTorch {version('executorch')}, XNNPACK, {platform.machine()}",
        (old["partitions"], new["partitions"]),
        (old["undelegated"], new["undelegated"]),
        (old["bytes"], new["bytes"]),
        _profile(old.get("profile", []), new.get("profile", [])),
        max(found, key=lambda c: severity(c.verdict), default=None),
    )


def _profile(old: list[tuple[str, float, int]], new: list[tuple[str, float, int]]) -> pd.DataFrame:
    columns: dict[str, dict[str, float]] = {}
    for label, rows in (("before", old), ("after", new)):
        columns[f"ms_{label}"] = {name: ms for name, ms, _ in rows}
        columns[f"calls_{label}"] = {name: calls for name, _, calls in rows}
    frame = pd.DataFrame(columns).fillna(0).astype({f"calls_{label}": "int64" for label in ("before", "after")})
    frame.index.name = "op"
    slowest = frame[["ms_before", "ms_after"]].max(axis=1).sort_values(ascending=False)
    return frame.loc[slowest.index, ["ms_before", "ms_after", "calls_before", "calls_after"]]


def _rank_below_median(count: int) -> int:
    """k such that the k-th smallest and k-th largest of `count` values enclose the median with 95% confidence, or 0."""
    tail, rank = 0.0, 0
    for smaller in range(count // 2):
        tail += math.comb(count, smaller) / 2**count
        if 2 * tail > 1 - _CONFIDENCE:
            break
        rank = smaller + 1
    return rank
