"""One passing and one failing program for each condition of a pattern, and the run that asserts what each records.

A pattern's test module lists its cases as `CONDITION_CASES` and runs each through `run_case`. The build test
`test_conditions_covered` reads the same lists, so that no declared condition is without both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from lowerscope.check import Status
from lowerscope.lowering import Lowering, lower
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe
from lowerscope.verdict import Outcome, Verdict

#: A program, or what `capture` makes one from: (module, args) or (module, args, dynamic_shapes).
Sample = Program | tuple[nn.Module, tuple[Any, ...]] | tuple[nn.Module, tuple[Any, ...], Any]


@dataclass(frozen=True)
class Case:
    """`passes` makes a program in which `condition` holds, `fails` one in which it is the root cause of a miss.

    fault: the id of the node at fault in the failing program, None when no node is. recipe: changes the recipe (of both
    programs) before lowering. anchor: the anchor of the failing verdict, where several could be meant.
    """

    condition: str
    passes: Callable[[], Sample]
    fails: Callable[[], Sample]
    fault: str | None
    recipe: Callable[[Recipe], Recipe] = lambda recipe: recipe
    anchor: str | None = None

    def __str__(self) -> str:
        return self.condition


def case(
    condition: str,
    *,
    passes: Callable[[], Sample],
    fails: Callable[[], Sample],
    fault: str | None,
    recipe: Callable[[Recipe], Recipe] = lambda recipe: recipe,
    anchor: str | None = None,
) -> Case:
    """A `Case`, with its fields by name."""
    return Case(condition, passes, fails, fault, recipe, anchor)


def run_case(case: Case, pattern: str, target: str) -> None:
    """Lower both programs; the one must record the condition as passed, the other as failed, at the node at fault."""
    good = lowered(case.passes, target, case.recipe)
    passed = [v for v in good.verdicts_of(pattern) if _statuses(v, case.condition) == {Status.PASSED}]
    assert passed, f"'{case.condition}' holds at no anchor of the passing program:\n{_listed(good, pattern)}"

    bad = lowered(case.fails, target, case.recipe)
    failed = [v for v in bad.verdicts_of(pattern) if _root_cause(v) == case.condition]
    if case.anchor is not None:
        failed = [v for v in failed if v.anchor == case.anchor]
    assert failed, f"'{case.condition}' is no root cause in the failing program:\n{_listed(bad, pattern)}"
    for verdict in failed:
        # an optional part that failed leaves the rest applied; everything else is a miss that names the condition
        assert verdict.outcome is Outcome.APPLIED or verdict.failed == case.condition
    faults = [failure.node for v in failed if (failure := v.record.failure()) is not None]
    assert case.fault in faults, f"'{case.condition}' fails at {faults}, not at {case.fault}"


def lowered(
    make: Callable[[], Sample], target: str, recipe: Callable[[Recipe], Recipe] = lambda recipe: recipe
) -> Lowering:
    """The sample's program, lowered for `target`."""
    return lower(program_of(make()), recipe(Recipe(target)))


def program_of(sample: Sample) -> Program:
    """The program of a sample."""
    if isinstance(sample, Program):
        return sample
    module, args, *dynamic_shapes = sample
    return capture(module.eval(), args, None, *dynamic_shapes)


def _statuses(verdict: Verdict, condition: str) -> set[Status]:
    return {entry.status for entry in verdict.record.entries if entry.name == condition}


def _root_cause(verdict: Verdict) -> str | None:
    failure = verdict.record.failure()
    return None if failure is None else failure.name


def _listed(lowering: Lowering, pattern: str) -> str:
    rows = [f"{v.anchor}: {v.outcome} {_root_cause(v) or ''} {v.reason}" for v in lowering.verdicts_of(pattern)]
    return "\n".join(rows) or "no anchor"
