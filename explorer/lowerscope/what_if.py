"""What if: the smallest changes under which a pattern would match, each one verified by running it on a copy.

A change of the recipe (another pattern off, a skip lifted, another device) is lowered by; a change of the program (one
reader fewer, alpha = 1, nothing in between) is made on the graph that the pattern met. What does not match when it is
tried is not proposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lowerscope import edits
from lowerscope.errors import LowerscopeError, MeasureError
from lowerscope.history import decomposed_from
from lowerscope.lowering import Lowerer, Lowering
from lowerscope.measure.compare import DIFFERENT
from lowerscope.measure.parity import parity
from lowerscope.ops import display_name
from lowerscope.program import Program
from lowerscope.recipe import Recipe, Skip
from lowerscope.sentences import failure_sentence
from lowerscope.snapshot import take_snapshot
from lowerscope.stage import Stage
from lowerscope.target import target_of
from lowerscope.verdict import Outcome, Verdict
from lowerscope.why import verdict_of

_WOULD = (Outcome.APPLIED, Outcome.DISABLED)
#: Of many choices the pairs are many more; each is lowered by, so that these are as many as one waits for.
_MOST_DEVICES = 40


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change under which the pattern matches: it was tried.

    says: the change in words. same: whether the numbers stay (None: not measured, and why in `parity`). parity: in
    words. recipe: the recipe to apply, when the change is one of the recipe.
    """

    says: str
    same: bool | None
    parity: str
    recipe: Recipe | None = None

    def __str__(self) -> str:
        numbers = {True: "same numbers", False: "other numbers", None: "numbers not measured"}[self.same]
        told = f": {self.parity}" if self.parity and self.same is not True else ""
        return f"would match if {self.says} ({numbers}{told})"

    __repr__ = __str__


class Suggestions(list[Suggestion]):
    """A list of suggestions that, empty, says so: none that was tried makes the pattern match, or there is no need."""

    def __init__(self, found: Iterable[Suggestion], empty: str) -> None:
        super().__init__(found)
        self._empty = empty

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or self._empty

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # without it IPython shows the brackets of a list


def what_if(lowering: Lowering, pattern: str, node: str, polled: Callable[[], None] = lambda: None) -> Suggestions:
    """The verified changes under which `pattern` would match at `node`, those that keep the numbers first.

    `polled` is called now and then; what it raises ends the search. UnknownNameError: no such pattern or node.
    """
    verdict = verdict_of(lowering, pattern, node)
    if verdict.outcome is Outcome.APPLIED:
        return Suggestions([], f"{pattern} is applied at {verdict.anchor}: nothing need be changed")
    found: list[Suggestion] = []
    for suggestion in _tried(lowering, node, verdict, polled):
        if all(s.says != suggestion.says for s in found):
            found.append(suggestion)
    order = {True: 0, None: 1, False: 2}
    found.sort(key=lambda s: (order[s.same], s.recipe is None))
    failure = verdict.record.failure()
    why = "" if failure is None else f": {failure_sentence(verdict.rule.says(failure.name), failure)}"
    return Suggestions(found, f"no small change that was tried makes {pattern} match at {verdict.anchor}{why}")


def _tried(lowering: Lowering, node: str, verdict: Verdict, polled: Callable[[], None]) -> Iterator[Suggestion]:
    lowerer = Lowerer(lowering.source)
    enough: list[dict[str, Any]] = []  # fields of the device that are enough by themselves: no others beside them
    for says, recipe in _recipes(lowering, node, verdict):
        polled()
        fields = dict(set(recipe.profile) - set(lowering.recipe.profile))
        if any(few.items() <= fields.items() for few in enough):
            continue
        suggestion = _try_recipe(lowerer, lowering, verdict, says, recipe, polled)
        if suggestion is not None:
            if fields:
                enough.append(fields)
            yield suggestion
    if verdict.outcome in (Outcome.NEAR_MISS, Outcome.NOTHING_TO_FUSE):
        editor = lowerer.editor_before(lowering.recipe, verdict.pattern)
        for says, edit in list(edits.for_failure(verdict, editor)):
            polled()
            suggestion = _try_edit(lowerer, lowering, verdict, says, edit, polled)
            if suggestion is not None:
                yield suggestion


# ---------------------------------------------------------------- changes of the recipe
def _recipes(lowering: Lowering, node: str, verdict: Verdict) -> Iterator[tuple[str, Recipe]]:
    recipe, name = lowering.recipe, verdict.pattern
    if verdict.outcome is Outcome.DISABLED:
        yield f"{name} is on", recipe.enable(name)
    for skip in recipe.skips:
        if skip.pattern in (None, name):
            yield f"the skip of {skip} is lifted", recipe.unskip(skip)
    if verdict.by is not None:
        winner, anchor = verdict.by
        if winner != "core_aten":
            won = lowering.verdicts.get(verdict.by)
            if won is not None and won.origins:
                yield f"{winner} leaves its match at {anchor} alone", recipe.skip(Skip(winner, match=won.origins))
            yield f"{winner} is off", recipe.disable(winner)
            if winner != name:
                yield f"{name} runs before {winner}", recipe.insert(name, before=winner)
    for op in _decomposed(lowering, node, verdict):
        yield f"core_aten keeps {op} whole", replace(recipe, keep=recipe.keep | {op})
    failure = verdict.record.failure()
    if failure is not None:
        for says, fields in _profiles(lowering, failure.actual):
            yield says, recipe.with_profile(**fields)


def _decomposed(lowering: Lowering, node: str, verdict: Verdict) -> list[str]:
    """The ops that core_aten took apart, of which the asked node, the one at fault or one beside the match is a part."""
    ledger = lowering.ledger
    around = [verdict.fault, *verdict.nodes, *(r for id in verdict.nodes for r in ledger.readers(id))]
    steps = [source[1] for id in around if id is not None and (source := decomposed_from(lowering, id)) is not None]
    taken = (node, *ledger.origin(node), *([verdict.anchor] if verdict.by is not None else []))
    died = [ledger.records[id].died for id in taken if id in ledger.records]  # at load some ops are gone already
    steps += [lowering.steps[d - 1] for d in died if d]
    anchors = [s.anchor for s in steps if s.pattern == "core_aten"]
    return list(dict.fromkeys(display_name(ledger.records[id].target) for id in anchors))


def _profiles(lowering: Lowering, actual: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Other devices: every choice of a field that has choices, in pairs too, and limits as large as what was found."""
    target = target_of(lowering.recipe.target)
    device = target.device(lowering.recipe)
    needed = [n for n in (actual if isinstance(actual, (list, tuple)) else (actual,)) if isinstance(n, int) and n > 0]
    singles: list[dict[str, Any]] = []
    for field in target.profile:
        now = device[field.name]
        if field.choices:
            singles += [{field.name: c} for c in field.choices if c != now]
        elif isinstance(now, bool):
            singles.append({field.name: not now})
        elif needed and max(needed) > now:
            singles.append({field.name: max(needed)})
    pairs = [{**a, **b} for i, a in enumerate(singles) for b in singles[i + 1 :] if not set(a) & set(b)]
    for fields in [*singles, *pairs][:_MOST_DEVICES]:
        yield "the device has " + ", ".join(f"{k} = {v}" for k, v in fields.items()), fields


def _try_recipe(
    lowerer: Lowerer, lowering: Lowering, verdict: Verdict, says: str, recipe: Recipe, polled: Callable[[], None]
) -> Suggestion | None:
    try:
        tried = lowerer.lower(recipe, polled)
    except LowerscopeError:  # an order that a constraint forbids, or what the target refuses: no way out, no proposal
        return None
    wanted = set(lowering.ledger.origin(verdict.anchor))
    applied = {v.origins for v in lowering.verdicts_of(verdict.pattern) if v.outcome is Outcome.APPLIED}
    for other in tried.verdicts_of(verdict.pattern):
        if other.outcome is Outcome.APPLIED and wanted & set(other.origins) and other.origins not in applied:
            same, words = numbers(lowering.source, tried.program, polled)
            return Suggestion(says, same, words, recipe)
    return None


# ---------------------------------------------------------------- changes of the program
def _try_edit(
    lowerer: Lowerer, lowering: Lowering, verdict: Verdict, says: str, edit: edits.Edit, polled: Callable[[], None]
) -> Suggestion | None:
    """Make the edit on the graph that the pattern met, and run the pattern there."""
    editor = lowerer.editor_before(lowering.recipe, verdict.pattern)
    mark = editor.mark()
    try:
        if verdict.anchor not in editor.nodes or not edit(editor, verdict):
            return None
        result = Stage(editor, verdict.rule).run(polled)
        after = result.verdicts.get((verdict.pattern, verdict.anchor))
        if after is None or after.outcome not in _WOULD:
            return None
        if edits.changes_inputs(edit):
            return Suggestion(says, None, "other inputs")
        same, words = numbers(lowering.source, take_snapshot(editor, says), polled)
        return Suggestion(says, same, words)
    finally:
        editor.undo_to(mark)


def numbers(before: Program, after: Program, polled: Callable[[], None]) -> tuple[bool | None, str]:
    """Whether two programs give the same numbers (None: it could not be measured), and what was found in a sentence."""

    def cancelled() -> bool:
        polled()
        return False

    try:
        report = parity(before, after, oracle=False, cancelled=cancelled)
        if report.verdict == DIFFERENT:
            # in float16 they may differ by what the original itself is off: ask the oracle
            report = parity(before, after, cancelled=cancelled)
    except MeasureError as error:
        return None, str(error)
    return report.agrees, report.sentence
