"""The questions that one asks a session: what its patterns did, why they did not, what would make them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

import pandas as pd
from torch.fx import Node

from lowerscope import tables, why
from lowerscope.conflicts import conflicts_frame
from lowerscope.errors import RecipeError, unknown
from lowerscope.explain import Explanation
from lowerscope.explanations import Explanations
from lowerscope.lowering import Lowerer, Lowering
from lowerscope.partitions import outside_frame, outside_reason, partitions_frame
from lowerscope.pattern import REGISTRY
from lowerscope.recipe import Recipe
from lowerscope.reproduce import Reproduction, reproduce
from lowerscope.target import TARGETS
from lowerscope.verdict import Outcome
from lowerscope.what_if import Suggestions, what_if

if TYPE_CHECKING:
    import networkx


class Questions:
    """What a session answers about its lowering as it is."""

    #: lowerings for other targets, and what they were made of
    _elsewhere: dict[str, tuple[Any, Lowering]] | None = None

    @property
    def lowering(self) -> Lowering:
        """The lowering that is asked about."""
        raise NotImplementedError

    def known_patterns(self, names: Iterable[str]) -> list[str]:
        """The names, checked against the target's patterns."""
        raise NotImplementedError

    def patterns(self) -> pd.DataFrame:
        """A row per pattern, in the target's order: kind, enabled, applied, near, skipped, declined, shadowed, would, errors."""
        return tables.patterns_frame(self.lowering)

    def matches(self, pattern: str | None = None) -> pd.DataFrame:
        """A row per (pattern, anchor): verdict, nodes, module, first failed condition. UnknownNameError: no such pattern."""
        return tables.matches_frame(self.lowering, self._one(pattern))

    def near_misses(self, pattern: str | None = None) -> pd.DataFrame:
        """The near misses, the nearest first: passed, of, failed (condition), fault (node), reason."""
        return tables.near_misses_frame(self.lowering, self._one(pattern))

    def reasons(self, pattern: str | None = None) -> pd.DataFrame:
        """The near misses grouped by reason, the largest group first: count, pattern, condition, sentence, anchors."""
        return tables.reasons_frame(self.lowering, self._one(pattern))

    @overload
    def why_not(self, pattern: str, node: str | Node | None = None) -> Explanation: ...

    @overload
    def why_not(
        self, pattern: None = None, node: str | Node | None = None, *, targets: str | Iterable[str] | None = None
    ) -> Explanations: ...

    def why_not(
        self,
        pattern: str | None = None,
        node: str | Node | None = None,
        *,
        targets: str | Iterable[str] | None = None,
    ) -> Explanation | Explanations:
        """Why `pattern` did or did not match at `node` (of any stage): verdict and every condition.

        Without `pattern`: all patterns of the target at `node`, those that came nearest first; with `targets="all"`, or
        names of some, theirs too, each lowered by its defaults. UnknownNameError: there is no such pattern, node or
        target. RecipeError: no node is given, or `targets` beside a pattern.
        """
        if node is None:
            raise RecipeError("why_not is asked of a node: give node=, such as an anchor that session.matches() lists")
        if pattern is None:
            lowering, name = self.lowering, name_of(node)
            if targets is None:
                return Explanations(why.why_not_all(lowering, name), outside_reason(lowering, name))
            others = self._lowered_for(targets)
            found = why.why_not_anywhere(lowering, others, name)
            return Explanations(found, why.outside_anywhere(lowering, others, name))
        if targets is not None:
            raise RecipeError("targets= is for all patterns at a node: leave out the pattern, or set_target first")
        self.known_patterns([pattern])
        return why.why_not(self.lowering, pattern, name_of(node))

    def what_if(self, pattern: str, node: str | Node) -> Suggestions:
        """The smallest changes under which `pattern` would match at `node`, each verified by running it on a copy.

        A list of them, the empty one of which says what stands in the way.
        UnknownNameError: no such pattern or node.
        """
        self.known_patterns([pattern])
        return what_if(self.lowering, pattern, name_of(node))

    def reproduce(self, pattern: str, node: str | Node, folder: str | os.PathLike[str] | None = None) -> Reproduction:
        """Cut the smallest program around what became of `pattern` at `node`; it shows the same verdict when lowered.

        With `folder` it is saved there: a `.pt2`, and a script that prints the explanation and asserts the verdict.
        UnknownNameError: no such pattern or node. LowerscopeError: there is nothing to show, or it cannot be written.
        """
        self.known_patterns([pattern])
        return reproduce(self.lowering, pattern, name_of(node), folder)

    def partitions(self) -> pd.DataFrame:
        """The regions that the backend takes, before the patterns and after: when, nodes, operators, inputs, outputs, transposes.

        RecipeError: the target does not say what its backend takes.
        """
        return partitions_frame(self.lowering)

    def outside(self) -> pd.DataFrame:
        """The operators outside every region, before the patterns and after: when, node, op, module, reason.

        RecipeError: the target does not say what its backend takes.
        """
        return outside_frame(self.lowering)

    def conflicts(self) -> pd.DataFrame:
        """Matches that claim the same nodes: who won and why, what flips it, operators and parity either way."""
        return conflicts_frame(self.lowering)

    def expect(self, counts: Mapping[str, int]) -> None:
        """Raise AssertionError, with the explanations of what is missing, unless each pattern is applied so many times.

        UnknownNameError: the target has no such pattern.
        """
        applied = tables.counted(self.lowering)
        said = []
        for name, wanted in counts.items():
            self.known_patterns([name])
            got = applied[name, Outcome.APPLIED]
            if got != wanted:
                missed = [
                    v
                    for v in self.lowering.verdicts_of(name)
                    if v.outcome not in (Outcome.APPLIED, Outcome.NOTHING_TO_FUSE)
                ]
                shown = [str(why.why_not(self.lowering, name, v.anchor)) for v in missed[:5]]
                more = [f"... and {len(missed) - 5} more: session.matches({name!r})"] if len(missed) > 5 else []
                if not missed and got < wanted:
                    more = [f"nothing of {name} came near: session.matches({name!r}) lists where it looked"]
                said.append("\n".join([f"{name} is applied {got} times, expected {wanted}", *shown, *more]))
        if said:
            raise AssertionError("\n\n".join(said))

    # ------------------------------------------------------------------ forms
    def to_networkx(self, step: int | None = None) -> networkx.MultiDiGraph:
        """The graph after `step` (default: the last) as a networkx graph; node attributes are op, module, shape."""
        from lowerscope.draw import to_networkx

        return to_networkx(self.lowering, step)

    def to_graphviz(self, step: int | None = None) -> Any:
        """The graph after `step` (default: the last) as a `graphviz.Digraph`; without `dot` it shows its source and says so."""
        from lowerscope.draw import to_graphviz

        return to_graphviz(self.lowering, step)

    def _lowered_for(self, targets: str | Iterable[str]) -> dict[str, Lowering]:
        """The program lowered for other targets by their defaults, each once."""
        here = self.lowering
        names = list(TARGETS) if targets == "all" else [targets] if isinstance(targets, str) else list(targets)
        known = self._elsewhere = self._elsewhere or {}
        skips = tuple(s for s in here.recipe.skips if s.pattern is None)
        for name in names:
            if name not in TARGETS:
                raise unknown("target", name, TARGETS)
            made_of = (REGISTRY.version, skips)
            if name != here.recipe.target and (name not in known or known[name][0] != made_of):
                known[name] = (made_of, Lowerer(here.source).lower(Recipe(name, skips=skips)))
        return {name: known[name][1] for name in names if name != here.recipe.target}

    def _one(self, pattern: str | None) -> str | None:
        return None if pattern is None else self.known_patterns([pattern])[0]


def name_of(node: str | Node) -> str:
    """The name of a node that is given as one or by name."""
    return node.name if isinstance(node, Node) else str(node)
