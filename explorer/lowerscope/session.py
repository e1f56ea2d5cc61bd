"""Session: a program, a recipe and its history. The public face of the explorer."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import MethodType
from typing import Any

from torch.fx import Node

from lowerscope.errors import RecipeError, unknown
from lowerscope.lowering import Entering, Lowerer, Lowering
from lowerscope.measurements import Measurements
from lowerscope.ops import display_name
from lowerscope.pattern import REGISTRY
from lowerscope.program import Program, as_program
from lowerscope.questions import Questions, name_of
from lowerscope.recipe import Recipe, Skip
from lowerscope.target import faults, pipeline, target_of, unknown_pattern


class Session(Questions, Measurements):
    """A program under a recipe that one changes and takes back; every question is answered for the recipe as it is.

    Args:
        program: a Program, a `torch.export.ExportedProgram`, or the path of a `.pt2`. It is never changed.
        target: name of the target; see `lowerscope.TARGETS`.
        recipe: where to start instead of the target's defaults.
        entering: called with (pattern, place, number of stages) as each stage of the first lowering begins, for a progress
            bar; what it raises ends it.

    As the last line of a notebook cell it shows the widget.

    Raises:
        LoadError: the path cannot be opened. UnknownNameError: the target is not known.
    """

    def __init__(
        self,
        program: Any,
        target: str = "vulkan",
        *,
        recipe: Recipe | None = None,
        entering: Entering = lambda *_: None,
    ) -> None:
        self.program: Program = as_program(program)
        start = recipe if recipe is not None else Recipe(target_of(target).name)
        self._lowerer = Lowerer(self.program)
        self._lowering = self._lowerer.lower(start, entering=entering)
        self._history: list[tuple[str, Recipe]] = [("the start", start)]
        self._place = 0
        self._registry_version = self._told_version = REGISTRY.version
        self._observers: list[Callable[[], Callable[[str], None] | None]] = []
        self.revision = 0  #: grows with every change: what was measured for an older one is stale

    # ------------------------------------------------------------------ the recipe and its history
    @property
    def recipe(self) -> Recipe:
        """The recipe as it is: immutable, `.to_json()`, `.to_python()`. Assign one to go there (it can be undone)."""
        return self._history[self._place][1]

    @recipe.setter
    def recipe(self, recipe: Recipe) -> None:
        self._go(recipe, "the recipe is set")

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.recipe.target

    @property
    def lowering(self) -> Lowering:
        """The lowering by the recipe as it is: a value, which later changes leave intact."""
        if self._registry_version != REGISTRY.version:
            self._lowering = self._lowerer.lower(self.recipe)
            self._registry_version = REGISTRY.version
            self.revision += 1
        return self._lowering

    def refresh(self) -> None:
        """Lower again after a pattern was registered, redefined or removed, and tell the views."""
        _ = self.lowering  # somebody may have asked for it since, and the views have still not been told
        if self._told_version != REGISTRY.version:
            self._told_version = REGISTRY.version
            self._tell("the patterns have changed")

    def set_target(self, target: str) -> None:
        """Lower for another target. Skips that name no pattern stay. UnknownNameError: there is none of that name."""
        target_of(target)
        if target == self.target:
            return
        kept = tuple(s for s in self.recipe.skips if s.pattern is None)
        self._go(Recipe(target, skips=kept), f"the target is {target}")

    def disable(self, *names: str) -> None:
        """Switch patterns off. UnknownNameError: the target has no such pattern."""
        self._go(self.recipe.disable(*self.known_patterns(names)), f"{_listed(names)} off")

    def enable(self, *names: str) -> None:
        """Switch patterns on. UnknownNameError: no such pattern. RecipeError: the target's runtime lacks it, or its
        declaration names what there is not.
        """
        self._go(self.recipe.enable(*self._sound(self.known_patterns(names))), f"{_listed(names)} on")

    def only(self, name: str) -> None:
        """Switch every other fusion, fold and decomposition off; what brings the program into form stays on.

        UnknownNameError: the target has no such pattern. RecipeError: as of `enable`.
        """
        self._sound(self.known_patterns([name]))
        others = [p.name for p in pipeline(self.target, self.recipe.insertions) if p.name not in (name, "core_aten")]
        self._go(self.recipe.enable(name).disable(*others), f"only {name}")

    def skip(
        self,
        pattern: str | None = None,
        node: str | Node | None = None,
        module: str | None = None,
        op: str | None = None,
        match: str | Iterable[str] | None = None,
    ) -> Skip:
        """Leave something alone: a pattern; a node; a module glob (`"decoder.*"`); an op; one match.

        `match` is the anchor of a match of `pattern`, or the original nodes that it covers. What is given together must
        hold together: `skip(pattern="core_aten", op="aten.hardswish")` keeps hardswish whole. Returns the skip.

        UnknownNameError: no such pattern, node, module, op or match. RecipeError: nothing is given, or a match without
        its pattern.
        """
        skip = self._skip_of(pattern, node, module, op, match)
        self._go(self.recipe.skip(skip), f"{skip} skipped")
        return skip

    def unskip(
        self,
        pattern: str | None = None,
        node: str | Node | None = None,
        module: str | None = None,
        op: str | None = None,
        match: str | Iterable[str] | None = None,
    ) -> None:
        """Take something off the skip list; the arguments are those of `skip`.

        RecipeError: it is not on it, nothing is given, or a match without its pattern. UnknownNameError: no such match.
        """
        if isinstance(match, str):
            match = self._match_at(pattern, match)
        skip = Skip(
            pattern, None if node is None else name_of(node), module, op, None if match is None else tuple(match)
        )
        self._go(self.recipe.unskip(skip), f"{skip} no longer skipped")

    def insert(self, pattern: str, *, before: str | None = None, after: str | None = None) -> None:
        """Put a pattern into the target's order, or move it, before or after a named one, and enable it.

        UnknownNameError: there is no such pattern. RecipeError: an order constraint forbids the place,
        or both `before` and `after` are given.
        """
        self._sound([REGISTRY.get(pattern).name])
        changed = self.recipe.insert(pattern, before=before, after=after)
        where = f"before {before}" if before else (f"after {after}" if after else "at the end")
        self._go(changed, f"{pattern} put in {where}")

    def set_profile(self, **fields: Any) -> None:
        """Set fields of the device profile.

        UnknownNameError: the target has no such field. RecipeError: a value of another type than the field's.
        """
        self._go(
            self.recipe.with_profile(**fields),
            "the device profile: " + ", ".join(f"{k}={v}" for k, v in fields.items()),
        )

    def keep(self, *ops: str) -> None:
        """Keep ops (display names, such as "aten.hardswish") from being decomposed by core_aten."""
        self._go(replace(self.recipe, keep=self.recipe.keep | set(ops)), f"{_listed(ops)} kept whole")

    def undo(self) -> str:
        """Go back one change; returns what was taken back. RecipeError: there is nothing to take back."""
        if self._place == 0:
            raise RecipeError("there is nothing to undo: this is where the session started")
        said = self._history[self._place][0]
        self._move(self._place - 1, f"undone: {said}")
        return said

    def redo(self) -> str:
        """Go forward to the change last undone; returns what is done again. RecipeError: there is none."""
        if self._place + 1 == len(self._history):
            raise RecipeError("there is nothing to redo: nothing has been undone since the last change")
        said = self._history[self._place + 1][0]
        self._move(self._place + 1, f"done again: {said}")
        return said

    @property
    def can_undo(self) -> str | None:
        """What `undo` would take back, in words."""
        return self._history[self._place][0] if self._place else None

    @property
    def can_redo(self) -> str | None:
        """What `redo` would do again, in words."""
        return self._history[self._place + 1][0] if self._place + 1 < len(self._history) else None

    def compile_options(self) -> dict[str, set[str]]:
        """What `VulkanPartitioner(compile_options=...)` takes for this recipe."""
        return self.recipe.compile_options()

    def export_html(self, path: str | os.PathLike[str]) -> str:
        """Write a self-contained HTML file that replays this recipe, and each pattern switched, without a kernel.

        Returns a sentence that says what it holds. LowerscopeError: the file cannot be written.
        """
        from lowerscope_widgets.html_export import write_html  # lazy: the engine does not need a notebook

        return write_html(path, self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from lowerscope_widgets import display_session  # lazy: the engine does not need a notebook

        return display_session(self, include, exclude)

    def __repr__(self) -> str:
        counts = (len(self.lowering.steps), len(self.lowering.stages))
        return f"<Session {self.program.name!r} for {self.target}: {counts[0]} rewrites in {counts[1]} stages>"

    # ------------------------------------------------------------------ changes
    def on_change(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback(sentence)` after every change; a bound method is held weakly. Returns what ends it."""
        held: Callable[[], Callable[[str], None] | None]
        held = weakref.WeakMethod(callback) if isinstance(callback, MethodType) else (lambda: callback)
        self._observers.append(held)
        return lambda: self._observers.remove(held) if held in self._observers else None

    def _tell(self, sentence: str) -> None:
        for held in list(self._observers):
            callback = held()
            if callback is None:
                self._observers.remove(held)
            else:
                callback(sentence)

    def _go(self, recipe: Recipe, said: str) -> None:
        if recipe == self.recipe:
            return
        lowering = self._lowerer.lower(recipe)  # first: a recipe that cannot be lowered changes nothing
        del self._history[self._place + 1 :]
        self._history.append((said, recipe))
        self._place += 1
        self._settle(lowering, said)

    def _move(self, place: int, said: str) -> None:
        lowering = self._lowerer.lower(self._history[place][1])
        self._place = place
        self._settle(lowering, said)

    def _settle(self, lowering: Lowering, said: str) -> None:
        self._lowering = lowering
        self._registry_version = self._told_version = REGISTRY.version
        self.revision += 1
        self._tell(said)

    # ------------------------------------------------------------------ names
    def known_patterns(self, names: Iterable[str]) -> list[str]:
        """The names, checked. UnknownNameError: the target has no pattern of one of them."""
        here = [p.name for p in pipeline(self.target, self.recipe.insertions)]
        names = list(names)
        for name in names:
            if name not in here:
                raise unknown_pattern(self.target, name, here)
        return names

    def _sound(self, names: list[str]) -> list[str]:
        """The names. RecipeError: the declaration of one of these patterns names what there is not."""
        faulty = faults(self.target)
        if fault := next((faulty[name] for name in names if name in faulty), None):
            raise RecipeError(fault)
        return names

    def _skip_of(self, pattern: Any, node: Any, module: Any, op: Any, match: Any) -> Skip:
        records = self.lowering.ledger.records
        if pattern in records and pattern not in REGISTRY:
            raise RecipeError(f"'{pattern}' is a node, not a pattern: say skip(node={pattern!r})")
        if pattern is not None:
            self.known_patterns([pattern])
        if node is not None:
            node = self.lowering.id(name_of(node))
        if module is not None and not any(Skip(module=module).covers_module(r.module) for r in records.values()):
            raise unknown("module", module, sorted({r.module for r in records.values() if r.module}))
        if op is not None:
            names = {display_name(r.target) for r in records.values() if r.op == "call_function"}
            if not any(Skip(op=op).covers_op(n) for n in names):
                raise unknown("op", op, sorted(names))
        if match is not None:
            match = self._match_at(pattern, match) if isinstance(match, str) else tuple(match)
        return Skip(pattern, node, module, op, match)

    def _match_at(self, pattern: str | None, anchor: str) -> tuple[str, ...]:
        if pattern is None:
            raise RecipeError(f"the match at '{anchor}' is one of some pattern's: give pattern= too")
        id = self.lowering.id(anchor)
        verdict = self.lowering.verdicts.get((pattern, id))
        if verdict is None or not verdict.matched:
            anchors = [v.anchor for v in self.lowering.verdicts_of(pattern) if v.matched]
            raise unknown(f"match of {pattern}", anchor, anchors)
        return verdict.origins


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
