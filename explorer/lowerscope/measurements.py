"""What one measures of a session: operators, numbers, the rewrite to blame, time, cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from lowerscope.errors import MeasureError
from lowerscope.frame import Table
from lowerscope.lowering import Lowerer, Lowering, lower
from lowerscope.measure.blame import culprits
from lowerscope.measure.by_step import lowering_errors
from lowerscope.measure.cost import cost_table
from lowerscope.measure.counts import count_ops, op_counts
from lowerscope.measure.interpreter import Cancelled
from lowerscope.measure.latency import LatencyReport, latency
from lowerscope.measure.ledger_counts import count_alive
from lowerscope.measure.parity import ParityReport, parity
from lowerscope.measure.partitioner import partitioner
from lowerscope.measure.quantization import quantization_error
from lowerscope.measure.step_error import StepError, step_frame
from lowerscope.measure.time_left import TimeLeft
from lowerscope.program import Program
from lowerscope.recipe import Skip
from lowerscope.verdict import Step


class Measurements:
    """What a session measures of its lowering as it is, on snapshots: nothing here changes the session."""

    program: Program
    _before: dict[str, int] | None = None

    @property
    def lowering(self) -> Lowering:
        """The lowering that is measured."""
        raise NotImplementedError

    def op_counts(self) -> pd.DataFrame:
        """Operators by kind: before, after, delta; the last row is "total"."""
        if self._before is None:
            self._before = count_ops(self.lowering.before)
        return op_counts(self._before, count_alive(self.lowering.ledger))

    def parity(self, inputs: Any = None, **options: Any) -> pd.DataFrame:
        """How far the numbers moved, a row per output: verdict, agreement of shape, dtype and NaN places, max_abs and where.

        `inputs`, `options`: see `lowerscope.measure.parity.parity`. MeasureError: the program cannot be run.
        """
        return self.parity_report(inputs, **options).frame()

    def parity_report(self, inputs: Any = None, **options: Any) -> ParityReport:
        """As `parity`, with verdict, sentence and notes beside the table."""
        lowering = self.lowering
        recipe = lowering.recipe
        options.setdefault("relower", lambda program: lower(program, recipe).program)
        return parity(lowering.before, lowering.program, inputs, **options)

    def quantization_error(self, float_program: Program, inputs: Any = None) -> pd.DataFrame:
        """What quantizing itself has cost, next to which parity is what the lowering costs: SQNR of each layer in dB.

        float_program: the program of the module before it was quantized. The table, a row for each operator of it that the
        session's program has too, and for each output: see `lowerscope.measure.quantization.quantization_error`.
        MeasureError: the programs have no operator in common, or one cannot be run.
        """
        return quantization_error(float_program, self.program, inputs)

    def parity_by_step(self, inputs: Any = None, **options: Any) -> pd.DataFrame:
        """The error of each rewrite, the guiltiest first: alone on the original's values, and as it has come together.

        `options`: see `lowerscope.measure.by_step.lowering_errors`. MeasureError: the program cannot be run.
        """
        steps = {s.number: s for s in self.lowering.steps}
        frame = step_frame(lowering_errors(self.lowering, inputs, **options))
        frame.insert(1, "pattern", [steps[int(n)].pattern for n in frame["step"]])
        return frame

    def blame(
        self,
        tolerance: float | None = None,
        *,
        inputs: Any = None,
        cancelled: Callable[[], bool] | None = None,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> pd.DataFrame:
        """The rewrites responsible for wrong numbers, found by lowering without them: step, pattern, anchor, sentence.

        Empty when the numbers agree. Where either of two would do, the one whose own error is larger is named. Where the
        lowered program takes another branch than the original, each sentence says at which node, and if the rewrite's own
        error is within the tolerance, that rounding has decided.
        tolerance: relative error that counts as agreeing; default by dtype.
        progress: called with (measurements done, about how many in all, a sentence with the time that is left).
        MeasureError: the numbers differ even without any rewrite.
        """
        lowering = self.lowering
        lowerer = Lowerer(self.program)
        keys = {self._skip_of_step(step): step for step in lowering.steps if step.pattern != "core_aten"}

        flipped: list[str] = []
        own: dict[int, StepError] = {}

        def agrees_without(left_out: frozenset[Skip]) -> bool:
            recipe = lowering.recipe.skip(*sorted(left_out, key=str))
            program = lowerer.lower(recipe).program
            report = parity(
                lowering.before, program, inputs, oracle=False, tolerance=tolerance, cancelled=cancelled,
                relower=lambda p: lower(p, recipe).program,
            )  # fmt: skip
            if not left_out:
                flipped.extend(report.flips)
            return report.agrees

        def suspects() -> Iterator[Skip]:
            try:
                errors = lowering_errors(lowering, inputs, oracle=False, tolerance=tolerance, cancelled=cancelled)
            except Cancelled:
                raise
            except MeasureError:  # the lowered program does not even run: any rewrite may be why
                errors = []
            own.update((e.step, e) for e in errors)
            number = {step.number: key for key, step in keys.items()}
            yield from (number[e.step] for e in sorted(errors, key=lambda e: e.guilt, reverse=True) if e.step in number)
            yield from keys

        left = TimeLeft()

        def told(done: int, total: int) -> None:
            if progress is not None:
                progress(
                    done, total, left.said(f"lowering without some, measurement {done} of about {total}", done, total)
                )

        blamed = culprits(suspects(), agrees_without, cancelled=cancelled, progress=told)
        found: list[Step] = [keys[key] for key in blamed]
        sentences = [step.sentence + _decided(own.get(step.number), flipped) for step in found]
        rows = [(s.number, s.pattern, s.anchor, s.module, said) for s, said in zip(found, sentences, strict=True)]
        return Table(rows, columns=pd.Index(["step", "pattern", "anchor", "module", "sentence"]))

    def _skip_of_step(self, step: Step) -> Skip:
        return Skip(step.pattern, match=self.lowering.verdicts[step.pattern, step.anchor].origins)

    def latency(self, inputs: Any = None, **options: Any) -> LatencyReport:
        """Time before and after on ExecuTorch's XNNPACK runtime, in a process of its own.

        `options`: runs, threads, profile; see `lowerscope.measure.latency.latency`. MeasureError: ExecuTorch is not
        installed (the message says how to get it), or cannot lower or run the program.
        """
        return latency(self.lowering.before, self.lowering.program, inputs, **options)

    def partitioner(self, **options: Any) -> pd.DataFrame:
        """What ExecuTorch's own XnnpackPartitioner takes, beside ours: when, node, op, ours, executorch, agree.

        The original program ("before") and the lowered one ("after"), each operator with its region, or the reason why it is
        outside; where the two differ first. `options`: see `lowerscope.measure.partitioner.partitioner`. MeasureError: the
        target is not xnnpack, or ExecuTorch is not installed (the message says how to get it).
        """
        return partitioner(self.lowering, **options).frame()

    def cost(self) -> pd.DataFrame:
        """FLOPs, bytes read and written, weights and dispatches per operator and in total, before and after."""
        return cost_table(self.lowering.before, self.lowering.program)


def _decided(error: StepError | None, flipped: list[str]) -> str:
    """What a sentence on a blamed rewrite adds where a branch flipped."""
    if not flipped:
        return ""
    said = f" A{'; '.join(flipped).removeprefix('a')}."  # a clause begins with "at"
    if error is not None and error.isolated is not None and error.isolated.agrees:
        return f"{said} Its own error is no more than {error.isolated.max_abs:.3g}: rounding has decided."
    return said
