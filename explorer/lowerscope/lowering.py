"""Lowering: a program and a recipe give steps, verdicts and a lowered program. The user's program is never changed.

`Lowerer` keeps one editor and what its stages did, so that a toggle costs that stage and those after it which meet
another graph than before, and what it has lowered lately costs nothing. What it returns, a `Lowering`, is a value: it
stays as it is, whatever is asked of the lowerer afterwards.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch.fx import Node

from lowerscope import patterns as _patterns  # noqa: F401  (registers the project's own patterns)
from lowerscope import targets as _targets  # noqa: F401  (and targets)
from lowerscope.editor import Editor
from lowerscope.errors import RecipeError, unknown
from lowerscope.functional import functional_program, taken_apart
from lowerscope.ledger import Ledger, NodeRecord
from lowerscope.memory import no_garbage_collection
from lowerscope.ops import display_name
from lowerscope.pattern import Pattern
from lowerscope.program import Program, as_program
from lowerscope.recipe import Recipe, Skip
from lowerscope.snapshot import take_snapshot
from lowerscope.stage import Stage, StageResult
from lowerscope.stage_memory import Place, Ran, StageKey, StageMemory
from lowerscope.target import Target, borrowed_fields, faults, pipeline, target_of, unknown_pattern
from lowerscope.verdict import Outcome, Step, Verdict

#: Told as a stage begins: its pattern, its place from 0, and how many stages there are.
Entering = Callable[[str, int, int], None]

#: How many lowerings a lowerer keeps, so that switching back and forth, undo and redo cost nothing.
_MOST_KNOWN = 8

_LEFT_OUT = "left out: "


@dataclass(frozen=True, slots=True)
class StageInfo:
    """One stage of a lowering: its pattern, whether it applies ("", "disabled", what skips it, or why it is left out), its steps."""

    pattern: str
    off: str
    first: int  #: the step before its first one: the graph that it met
    last: int
    rule: Pattern = field(compare=False, repr=False)  #: the pattern itself, as it was: a user's may be redefined

    @property
    def fault(self) -> str:
        """What is wrong with the pattern's declaration, so that it is left out until that is mended; "" of most."""
        return self.off.removeprefix(_LEFT_OUT) if self.off.startswith(_LEFT_OUT) else ""


@dataclass(frozen=True)
class Lowering:
    """The outcome of lowering `source` by `recipe`.

    steps: the applied rewrites, in order. verdicts: by (pattern, anchor id). stages: in the target's order. ledger: every
    node that ever lived. notes: sentences about the program that a reader should know. core: the nodes of the core ATen
    graph, as core_aten left it for the patterns behind it.
    """

    source: Program
    recipe: Recipe
    stages: tuple[StageInfo, ...]
    steps: tuple[Step, ...]
    verdicts: Mapping[tuple[str, str], Verdict]
    ledger: Ledger
    notes: tuple[str, ...]
    core: Mapping[str, NodeRecord] = field(repr=False, compare=False)
    _snapshot: Callable[[Recipe, int | None], Program] = field(repr=False, compare=False)
    _programs: dict[int, Program] = field(default_factory=dict, repr=False, compare=False)
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    given: Program | None = field(default=None, repr=False, compare=False)  #: the program as it was given

    def remember(self, key: Any, compute: Callable[[], Any]) -> Any:
        """`compute()`, once per key: what is derived from this value, and costs."""
        if key not in self._memo:
            self._memo[key] = compute()
        return self._memo[key]

    @property
    def program(self) -> Program:
        """The lowered program: valid, saves, runs. Made when first asked for."""
        return self.program_at(len(self.steps))

    @property
    def before(self) -> Program:
        """The program as it was before the first step (functional, should the user's own write in place)."""
        return self.source

    def program_at(self, step: int) -> Program:
        """The program after `step` steps (0: as it was). UnknownNameError: there is no such step."""
        if not 0 <= step <= len(self.steps):
            raise unknown("step", str(step), map(str, range(len(self.steps) + 1)))
        if step == 0:
            return self.source
        if step not in self._programs:
            self._programs[step] = self._snapshot(self.recipe, None if step == len(self.steps) else step)
        return self._programs[step]

    @property
    def target(self) -> Target:
        """The recipe's target."""
        return target_of(self.recipe.target)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns in the order of the stages."""
        return tuple(s.rule for s in self.stages)

    def rule(self, pattern: str) -> Pattern | None:
        """The pattern of that name as it was when this was lowered; None: it has no stage here."""
        return next((s.rule for s in self.stages if s.pattern == pattern), None)

    def origin(self, node: str | Node) -> tuple[str, ...]:
        """The ids of the original nodes that `node` comes from. UnknownNameError: no such node."""
        return self.ledger.origin(self.id(node))

    def became(self, node: str | Node) -> tuple[str, ...]:
        """The ids of the nodes of the lowered program that come from `node`. UnknownNameError: no such node."""
        return self.ledger.became(self.id(node))

    def id(self, node: str | Node) -> str:
        """A node's id, checked. UnknownNameError: no node of that name has ever lived here."""
        name = node.name if isinstance(node, Node) else str(node)
        if name not in self.ledger.records and name in self.taken_apart:
            return self.taken_apart[name][0]
        if name not in self.ledger.records:
            raise unknown("node", name, self.ledger.records)
        return name

    @property
    def taken_apart(self) -> Mapping[str, tuple[str, ...]]:
        """Nodes of the program as it was given that loading has replaced -> those in their place; mostly empty."""
        given = self.given
        if given is None or given is self.source:
            return {}
        return self.remember("taken apart", lambda: taken_apart(given, self.source))

    def verdicts_of(self, pattern: str) -> Iterator[Verdict]:
        """The verdicts of one pattern, in the order in which the anchors were met."""
        return iter(self.verdicts_by_anchor(pattern).values())

    def verdicts_by_anchor(self, pattern: str) -> Mapping[str, Verdict]:
        """The verdicts of one pattern by anchor id."""
        return self.remember("verdicts", self._by_pattern).get(pattern, {})

    def _by_pattern(self) -> dict[str, dict[str, Verdict]]:
        found: dict[str, dict[str, Verdict]] = {}
        for verdict in self.verdicts.values():
            found.setdefault(verdict.pattern, {})[verdict.anchor] = verdict
        return found


@dataclass(slots=True)
class _Stage:
    info: StageInfo
    ran: Ran
    met: Place  #: the graph that it met


#: A stage to be run: its pattern, its key, its skips, and the patterns behind it.
_Planned = tuple[Pattern, StageKey, tuple[Skip, ...], list[Pattern]]


class Lowerer:
    """Lowers one program by one recipe after another, running no stage that has met the same graph lately."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.base, notes = functional_program(program)
        self.notes = (*program.notes, *notes)
        self.editor = Editor(self.base)
        self.lock = threading.RLock()
        self._memory = StageMemory(self.editor)
        self._stages: list[_Stage] = []
        self._known: OrderedDict[tuple[StageKey, ...], Lowering] = (
            OrderedDict()
        )  # what has been lowered lately, by stage keys
        self._collected: tuple[list[StageResult], dict[tuple[str, str], Verdict], tuple[Step, ...]] = ([], {}, ())

    def lower(
        self, recipe: Recipe, polled: Callable[[], None] = lambda: None, entering: Entering = lambda *_: None
    ) -> Lowering:
        """Lower by `recipe`. RecipeError, UnknownNameError: it names what is not there, or contradicts itself.

        A recipe that was lowered by lately costs nothing: the graph goes there only when a snapshot is asked for.
        `polled` is called now and then, `entering` as each stage begins; what they raise ends the lowering, and the next
        one starts from there.
        """
        with self.lock, no_garbage_collection():
            plan = self._plan(recipe)
            keys = tuple(key for _, key, *_ in plan)
            if keys in self._known:
                self._known.move_to_end(keys)
                return replace(self._known[keys], recipe=recipe)
            end = self._go(plan, polled, entering)
            ledger = self._memory.ledger_at(end)
            verdicts, steps = self._collect(ledger)
            self._known[keys] = Lowering(
                self.base,
                recipe,
                tuple(s.info for s in self._stages),
                steps,
                verdicts,
                ledger,
                self.notes,
                next((s.ran.left for s in self._stages if s.ran.left is not None), {}),
                self._snapshot,
                given=self.program,
            )
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
            return self._known[keys]

    def _go(
        self,
        plan: Sequence[_Planned],
        polled: Callable[[], None] = lambda: None,
        entering: Entering = lambda *_: None,
    ) -> Place:
        """Find out what the planned stages do, running those of which it is not known; the place where they leave the graph."""
        place, stages = self._memory.root, []
        for count, (pattern, key, skips, later) in enumerate(plan):
            ran = self._memory.get(place, key)
            if ran is None:
                polled()
                entering(pattern.name, count, len(plan))
                ran = self._run(place, pattern, key, skips, later, polled)
            info = StageInfo(pattern.name, key.off, place.mark[1], ran.behind.mark[1], pattern)
            stages.append(_Stage(info, ran, place))
            place = ran.behind
        self._stages = stages
        return place

    def forget(self) -> None:
        """Let go of the lowerings that are kept: the next one is done anew, on the graph as it stands."""
        self._known.clear()
        self._memory.forget(s.ran for s in self._stages)

    def editor_after(self, recipe: Recipe) -> Editor:
        """The editor with the graph that `recipe` leaves."""
        with self.lock, no_garbage_collection():
            self._memory.go(self._go(self._plan(recipe)))
            return self.editor

    def editor_before(self, recipe: Recipe, pattern: str) -> Editor:
        """The editor with the graph that a pattern's stage meets under `recipe`. UnknownNameError: there is no such stage."""
        with self.lock:
            self._go(self._plan(recipe))
            names = [s.info.pattern for s in self._stages]
            if pattern not in names:
                raise unknown("stage", pattern, names)
            self._memory.go(self._stages[names.index(pattern)].met)
            self.editor.skipped = None
            return self.editor

    def _collect(self, ledger: Ledger) -> tuple[dict[tuple[str, str], Verdict], tuple[Step, ...]]:
        """The verdicts and steps of all stages together; the same objects where the stages gave the same."""
        results = [s.ran.result for s in self._stages]
        last = self._collected
        if len(last[0]) == len(results) and all(a is b for a, b in zip(last[0], results, strict=True)):
            return last[1], last[2]
        verdicts: dict[tuple[str, str], Verdict] = {}
        for result in results:
            verdicts.update(result.verdicts)
        # what an earlier stage took and made anew is judged where it was met again, not where it was lost, but for what
        # was near where it was lost and has nothing to say where it was met again
        lost = [(key, v) for key, v in verdicts.items() if v.by is not None]
        for (pattern, anchor), verdict in lost:
            again = [verdicts[pattern, id] for id in ledger.descendants(anchor) if (pattern, id) in verdicts]
            if again and (_idle(verdict) or not all(map(_idle, again))):
                del verdicts[pattern, anchor]
        self._collected = (results, verdicts, tuple(step for result in results for step in result.steps))
        return self._collected[1:]

    def _plan(self, recipe: Recipe) -> list[_Planned]:
        if self.editor.torn:  # an interrupt broke off a way back or forth: begin again from the program
            self.editor = Editor(self.base)
            self._memory, self._stages = StageMemory(self.editor), []
        target = target_of(recipe.target)
        order = pipeline(recipe.target, recipe.insertions)
        names = [p.name for p in order]
        check_recipe(recipe, names)
        profile = {**borrowed_fields(order, target), **target.device(recipe)}
        self.editor.profile = {**profile, "target": target.name, "keep": target.keeps | recipe.keep}
        plan, faulty = [], faults(target.name)
        for place, pattern in enumerate(order):
            skips = tuple(s for s in recipe.skips if applies_to(s, pattern))
            fault = faulty.get(pattern.name)
            off = switched_off(pattern, target, recipe) if fault is None else _LEFT_OUT + fault
            found = (
                pattern, skips, tuple(sorted(profile.items())), target.name,
                recipe.keep if pattern.kind != "fusion" or pattern.yours else None,
            )  # fmt: skip
            plan.append((pattern, StageKey(found, off, tuple(order[place + 1 :])), skips, order[place + 1 :]))
        return plan

    def _run(
        self,
        place: Place,
        pattern: Pattern,
        key: StageKey,
        skips: tuple[Skip, ...],
        later: list[Pattern],
        polled: Callable[[], None],
    ) -> Ran:
        self._memory.go(place)
        self.editor.skipped = _skipper(self.editor, skips)
        try:
            result = Stage(self.editor, pattern, later=later, switched_off=key.off or None, skips=skips).run(polled)
        except BaseException:
            self.editor.undo_to(place.mark)
            raise
        core = pattern.name == "core_aten"
        left = {id: r for id, r in self.editor.ledger.records.items() if r.died is None} if core else None
        return self._memory.keep(place, key, result, left)

    def _snapshot(self, recipe: Recipe, step: int | None) -> Program:
        with self.lock:
            name = f"{self.program.name} for {recipe.target}"
            if step is None:
                return take_snapshot(self.editor_after(recipe), name)
            # a place in the middle is reached on an editor of its own, so that this one stays where it is
            other = Lowerer(self.program)
            other.editor_after(recipe)
            other.editor.undo_to(other.editor.mark_after(step))
            return take_snapshot(other.editor, f"{name}, step {step}")


def lower(program: Any, recipe: Recipe | str) -> Lowering:
    """Lower a program (Program, ExportedProgram or path) by a recipe, or by a target's defaults, afresh.

    LoadError: the path cannot be opened. UnknownNameError: the target, or a pattern of the recipe, is not known.
    """
    return Lowerer(as_program(program)).lower(Recipe(recipe) if isinstance(recipe, str) else recipe)


def applies_to(skip: Skip, pattern: Pattern) -> bool:
    """Whether a skip has any bearing on a pattern's stage."""
    if skip.pattern is not None:
        return skip.pattern == pattern.name
    return pattern.honours_plain_skips or skip.op is not None


def switched_off(pattern: Pattern, target: Target, recipe: Recipe) -> str:
    """ "" when the pattern applies, else "disabled", or what skips it."""
    if pattern.name in target.refused:
        return f"skipped by the target: {target.refused[pattern.name]}"
    whole = next((s for s in recipe.skips if s.whole_pattern and s.pattern == pattern.name), None)
    if whole is not None:
        return f"skipped by {whole}"
    if pattern.name in recipe.disabled:
        return "disabled"
    if target.name in pattern.off and pattern.name not in recipe.enabled:
        return "disabled"
    return ""


def check_recipe(recipe: Recipe, names: Sequence[str]) -> None:
    """RecipeError or UnknownNameError for what a recipe names and the target does not have or allow."""
    target = target_of(recipe.target)
    for name in sorted(recipe.disabled | recipe.enabled | {s.pattern for s in recipe.skips if s.pattern}):
        if name not in names:
            raise unknown_pattern(target.name, name, names)
    for name in sorted(recipe.enabled):
        if name in target.refused:
            raise RecipeError(f"'{name}' cannot be enabled for {target.name}: {target.refused[name]}")


def _skipper(editor: Editor, skips: Sequence[Skip]) -> Callable[[str, Node], str | None] | None:
    """What on the skip list covers a node, if anything; None when no node is skipped. What a node came from counts: a decomposed op stays skipped."""
    plain = [s for s in skips if not s.whole_pattern and s.match is None]
    if not plain:
        return None
    ledger, known = editor.ledger, {}

    def covering(id: str, node: Node) -> str | None:
        line = ledger.origin(id) if id in ledger.parents else ()
        for member in dict.fromkeys((id, *line)):
            record = ledger.records[member]
            for skip in plain:
                if covers(skip, record):
                    return str(skip)
        return None

    def skipped(id: str, node: Node) -> str | None:
        if id not in known:
            known[id] = covering(id, node)
        return known[id]

    return skipped


def covers(skip: Skip, record: NodeRecord) -> bool:
    """Whether a node (by its record) is what a skip names."""
    if skip.node is not None and record.id != skip.node:
        return False
    if skip.module is not None and not skip.covers_module(record.module):
        return False
    return skip.op is None or (record.op == "call_function" and skip.covers_op(display_name(record.target)))


def _idle(verdict: Verdict) -> bool:
    return verdict.outcome is Outcome.NOTHING_TO_FUSE
