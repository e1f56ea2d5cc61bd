"""Parity of a lowered program with the original: both are run on the same inputs, and every result is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from lowerscope.arguments import dtype_name
from lowerscope.errors import MeasureError
from lowerscope.measure.batches import Batch, batches
from lowerscope.measure.branches import Flip, flips
from lowerscope.measure.casting import Casting
from lowerscope.measure.compare import (
    CLOSE,
    DIFFERENT,
    EQUAL,
    INCOMPARABLE,
    NONDETERMINISTIC,
    Comparison,
    compare,
)
from lowerscope.measure.interpreter import Cancelled, Interpreter, Run
from lowerscope.measure.judging import judge_by_oracle, judged_in
from lowerscope.measure.lively import default_statistics, lively
from lowerscope.measure.randomness import random_sources, seeded
from lowerscope.measure.report import ParityReport, ParityRow, join
from lowerscope.measure.written import writes_in_place

if TYPE_CHECKING:
    from lowerscope.program import Program

# Any would do: the same one each time makes a measurement of a random model the same each time.
_SEED = 20_130


def parity(
    before: Program,
    after: Program,
    inputs: Any = None,
    *,
    dtype: torch.dtype | None = None,
    seeds: Sequence[int] = (0,),
    sizes: Iterable[Mapping[str, int]] | None = None,
    oracle: bool = True,
    tolerance: float | None = None,
    relower: Callable[[Program], Program] | None = None,
    cancelled: Callable[[], bool] | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> ParityReport:
    """Run both programs and compare outputs and state; neither program is changed.

    Structure, shape, dtype and the places of NaN and inf come first, then each element against the output's scale;
    integers exactly. What differs by no more than the original itself differs from its float64 run is "close".

    Args:
        inputs, seeds, sizes: what to run on, see `batches.batches`.
        dtype: torch.float16 or torch.bfloat16 runs both in it and compares each with a float32 run of the original.
        oracle: also run the original in float64, for `oracle_ratio`; left out where all results are bit-identical.
        tolerance: relative error that is "close"; by default `compare.TOLERANCES` of the output's dtype.
        relower: lowers a program as `after` was lowered from `before`. With it, batch norms at their default
            statistics, in which a wrong fold does not show, are given lively ones for the measurement.
        cancelled: polled before every node. progress: called with (runs done, runs in all or None) after each run.

    Raises:
        MeasureError: the inputs do not fit, `dtype` cannot be computed in, the original itself cannot be run, or memory runs out.
        Cancelled: `cancelled` returned True.
    """
    report = ParityReport(dtype=dtype)
    before, after = _made_lively(before, after, relower, report)
    measure = _Measurement(before, after, report, oracle, tolerance, cancelled, progress)
    if inputs is None:
        groups = [list(batches(before, None, seeds=seeds, sizes=sizes))]
        measure.total = len(groups[0]) * 3 + 1
        feed: Iterable[Batch] = groups[0]
    else:
        feed = batches(before, inputs)
    made_up_sizes = inputs is None and sizes is None
    for batch in feed:
        measure.batch(batch, may_fail=made_up_sizes and bool(report.batches))
    return report


def _made_lively(
    before: Program, after: Program, relower: Callable[[Program], Program] | None, report: ParityReport
) -> tuple[Program, Program]:
    found = default_statistics(before)
    if not found:
        return before, after
    count = sum(role == "running_var" for role in found.values())
    norms = f"{count} batch norm{'s have' if count != 1 else ' has'} default statistics"
    if relower is None:
        report.notes.append(f"{norms}: parity cannot see a wrong fold of {'them' if count != 1 else 'it'}")
        return before, after
    report.notes.append(f"{norms}, which hide a wrong fold: measured with lively ones")
    before = lively(before)
    return before, relower(before)


class _Measurement:
    """The state of one measurement: the programs, the report so far, and which outputs are random."""

    def __init__(
        self,
        before: Program,
        after: Program,
        report: ParityReport,
        oracle: bool,
        tolerance: float | None,
        cancelled: Callable[[], bool] | None,
        progress: Callable[[int, int | None], None] | None,
    ) -> None:
        self.report = report
        self.total: int | None = None
        self._before, self._after = before, after
        self._oracle, self._tolerance = oracle, tolerance
        self._cancelled, self._progress, self._done = cancelled, progress, 0
        self._rows: dict[str, ParityRow] = {}
        self._flips: list[Flip] = []
        self._random: dict[str, str] | None = None
        self._sources = random_sources(before)
        self._in_place = writes_in_place(before.graph_module)

    def batch(self, batch: Batch, *, may_fail: bool = False) -> None:
        """Run and compare one batch. `may_fail`: a size nobody asked for, at which the original may refuse to run."""
        low = self.report.dtype
        self._flips = []
        try:
            reference = self._run(self._before, batch, Casting.reference() if low else None)
        except Cancelled:
            raise
        except MeasureError as error:
            if not may_fail:
                raise
            self._note(f"not measured at {batch.label}: the original itself raises ({error})")
            return
        if self._random is None:
            self._random = self._disagreements(reference, batch)
        self.report.batches.append(batch.label)
        half = low is None and _has_half(reference)
        original = reference
        if low or half:
            original = self._run(self._before, batch, Casting(low) if low else None, watch=True)
            self._say_overflow(original)
        try:
            lowered = self._run(self._after, batch, Casting(low) if low else None)
        except Cancelled:
            raise
        except MeasureError as error:
            self._all(reference, batch, f"the lowered program fails: {error}")
            return
        if list(reference.outputs) != list(lowered.outputs):
            paths = ", ".join(lowered.outputs) or "none"
            self._all(
                reference, batch, f"the structure differs: outputs {paths}, expected {', '.join(reference.outputs)}"
            )
            return
        self._say_aliases(reference, lowered)
        self._see_flips(reference, original, lowered)
        if low:
            self._compare_low(reference, original, lowered, batch, low)
        else:
            self._compare_same(reference, lowered, batch)

    # -- running

    def _run(self, program: Program, batch: Batch, casting: Casting | None, *, watch: bool = False) -> Run:
        runner = Interpreter(program, casting=casting, cancelled=self._cancelled, watch_nonfinite=watch)
        # Alike for both programs: what still differs then is not the random numbers, if they are drawn alike.
        with seeded(_SEED if self._sources else None):
            run = runner.run(batch.flat)
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, None if self.total is None else max(self.total, self._done))
        if casting is not None and run.fallbacks and casting.dtype is self.report.dtype:
            self._note(
                f"{len(run.fallbacks)} nodes of {program.name} have no {dtype_name(casting.dtype)} kernel and were computed "
                f"in their own dtype and rounded, {run.fallbacks[0]} the first"
            )
        return run

    def _disagreements(self, first: Run, batch: Batch) -> dict[str, str]:
        """Path of each output or state in which the original disagrees with a second run of itself -> why."""
        casting = Casting.reference() if self.report.dtype else None
        runner = Interpreter(self._before, casting=casting, cancelled=self._cancelled)
        with seeded(_SEED + 1 if self._sources else None):
            second = runner.run(batch.flat)
        old, new = _results(first), _results(second)
        differing = {name for name in old if compare(old[name], new[name], tolerance=0.0).verdict != EQUAL}
        if not differing:
            return {}
        self.report.reference_twice = "differs"
        why = f"the model is random ({self._sources})" if self._sources else "two runs on the same inputs differ"
        self._note(f"{why}: results that depend on it are not comparable unless both draw the same numbers")
        return dict.fromkeys(differing, why)

    # -- comparing

    def _compare_same(self, reference: Run, lowered: Run, batch: Batch) -> None:
        pairs = self._pairs(reference, lowered, batch, None)
        found = {name: compare(old, new, tolerance=self._tolerance) for name, (old, new) in pairs.items()}
        inexact = any(c.different and c.verdict != INCOMPARABLE for c in found.values())
        gold = self._gold(batch) if self._oracle and inexact else None
        for name, comparison in found.items():
            row = ParityRow.of(name, comparison, batch.label)
            old, new = pairs[name]
            if comparison.different == 0 and comparison.verdict != INCOMPARABLE:
                row.error_before = row.error_after = 0.0
            elif gold is not None and isinstance(gold.get(name), torch.Tensor) and _is_float(old):
                judge_by_oracle(row, gold[name], old, new)
            self._add(row)

    def _compare_low(self, reference: Run, original: Run, lowered: Run, batch: Batch, low: torch.dtype) -> None:
        old = self._pairs(reference, original, batch, low)
        for name, (_, new) in self._pairs(reference, lowered, batch, low).items():
            self._add(judged_in(low, name, batch.label, *old[name], new, self._tolerance))

    def _pairs(self, reference: Run, other: Run, batch: Batch, low: torch.dtype | None) -> dict[str, tuple[Any, Any]]:
        pairs = {path: (value, other.outputs.get(path)) for path, value in reference.outputs.items()}
        originals: Mapping[str, Any] | None = None
        for name in dict.fromkeys([*reference.state, *other.state]):
            old, new = reference.state.get(name), other.state.get(name)
            if name not in reference.state or name not in other.state:
                # Written on one side only: the other side leaves what was there.
                originals = originals or _initial_state(self._before, batch)
                kept = originals.get(name)
                casting = Casting(low) if low else None
                kept = casting.tensor(kept) if casting and isinstance(kept, torch.Tensor) else kept
                old, new = (kept if name not in reference.state else old), (kept if name not in other.state else new)
                if compare(old, new, check_dtype=low is None).verdict == EQUAL:
                    continue
            pairs[f"state {name}"] = (old, new)
        return pairs

    def _gold(self, batch: Batch) -> dict[str, Any] | None:
        try:
            return _results(self._run(self._before, batch, Casting.oracle()))
        except Cancelled:
            raise
        except MeasureError as error:
            self._note(f"no float64 oracle: {error}")
            return None

    def _add(self, row: ParityRow) -> None:
        if row.verdict in (DIFFERENT, INCOMPARABLE):
            row.why = join([row.why, *(flip.clause for flip in self._flips if self._concerns(flip, row.output))])
        why = (self._random or {}).get(row.output)
        if why is not None and row.verdict != INCOMPARABLE:
            drawn = "the same when both draw the same numbers" if row.verdict in (EQUAL, CLOSE) else ""
            row.verdict, row.why = NONDETERMINISTIC, join([why, drawn])
        if row.output in self._rows:
            self._rows[row.output].merge(row)
        else:
            self._rows[row.output] = row
            self.report.rows.append(row)

    def _all(self, reference: Run, batch: Batch, why: str) -> None:
        for name in _results(reference):
            self._add(ParityRow.of(name, Comparison(INCOMPARABLE, why), batch.label))

    # -- saying

    def _note(self, note: str) -> None:
        if note not in self.report.notes:
            self.report.notes.append(note)

    def _see_flips(self, reference: Run, original: Run, lowered: Run) -> None:
        where = ("before", "after")
        if self.report.dtype is not None:
            dtype = dtype_name(self.report.dtype)
            for flip in flips(self._before, reference.entered, original.entered, ("in float32", f"in {dtype}")):
                self._note(f"the original itself takes another way in {dtype}: {flip.clause}")
            where = ("in float32 before", f"in {dtype} after")
        self._flips = flips(self._before, reference.entered, lowered.entered, where)
        self.report.flips += [flip.clause for flip in self._flips if flip.clause not in self.report.flips]

    def _concerns(self, flip: Flip, output: str) -> bool:
        """Whether the output may depend on it: so too if the graph does not say how, as where an operator writes in place."""
        return output in flip.reaches or self._in_place

    def _say_overflow(self, run: Run) -> None:
        if run.nonfinite is not None:
            node, op = run.nonfinite
            dtype = dtype_name(self.report.dtype) if self.report.dtype else "its own dtype"
            self._note(f"in {dtype} the original is not finite inside: first at {op}, node {node}")

    def _say_aliases(self, reference: Run, lowered: Run) -> None:
        for path, name in lowered.aliases.items():
            if path not in reference.aliases:
                self._note(
                    f"{path} shares the memory of {name} after the lowering and not before: writing to one changes both"
                )


def _results(run: Run) -> dict[str, Any]:
    return {**run.outputs, **{f"state {name}": value for name, value in run.state.items()}}


def _initial_state(program: Program, batch: Batch) -> dict[str, Any]:
    exported = program.exported_program
    state = {**exported.state_dict, **exported.constants}
    return state | dict(zip(program.user_inputs, batch.flat, strict=False))


def _has_half(run: Run) -> bool:
    halves = (torch.float16, torch.bfloat16)
    return any(isinstance(v, torch.Tensor) and v.dtype in halves for v in _results(run).values())


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
