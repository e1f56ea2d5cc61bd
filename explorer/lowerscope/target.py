"""Targets: which patterns a backend's lowering has, in which order, for which device, and what the backend takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from lowerscope.errors import RecipeError, UnknownNameError, unknown
from lowerscope.pattern import REGISTRY, Pattern
from lowerscope.recipe import Insertion, Recipe
from lowerscope.support.table import Site


@dataclass(frozen=True, slots=True)
class ProfileField:
    """One field of a device profile: its default, what it is, and the choices to offer."""

    name: str
    default: Any
    help: str
    choices: tuple[Any, ...] = ()

    def checked(self, value: Any) -> Any:
        """`value` in the field's type; one beside the choices is let pass. RecipeError: of another kind, or not positive."""
        kind = type(self.default)
        if kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise RecipeError(
                f"profile field '{self.name}' is of type {kind.__name__}, like {self.default!r}; got {value!r}"
            )
        if kind is int and value <= 0:
            raise RecipeError(f"profile field '{self.name}' is a positive number, like {self.default!r}; got {value!r}")
        return value


@dataclass(frozen=True)
class Target:
    """One backend.

    keeps: ops (display names) that core_aten leaves whole. refused: pattern -> why it cannot be enabled here.
    takes: for a call in its graph, None when the backend takes it, else the reason why not. nhwc: whether the backend
    computes in NHWC, and so transposes where layouts meet.
    """

    name: str
    says: str
    profile: tuple[ProfileField, ...] = ()
    keeps: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    takes: Callable[[Site], str | None] | None = None
    nhwc: bool = False

    def device(self, recipe: Recipe) -> dict[str, Any]:
        """The device profile under a recipe.

        UnknownNameError: a field that this target does not have. RecipeError: a value of another type than the field's.
        """
        fields = {f.name: f for f in self.profile}
        values = {f.name: f.default for f in self.profile}
        for name, value in recipe.profile:
            if name not in fields:
                raise unknown(f"profile field of target {self.name}", name, fields)
            values[name] = fields[name].checked(value)
        return values


TARGETS: dict[str, Target] = {}


def add_target(target: Target) -> Target:
    """Make a target known (one of the same name is replaced)."""
    TARGETS[target.name] = target
    REGISTRY.version += 1  # patterns that were waiting for it are no longer left out
    return target


def target_of(name: str) -> Target:
    """The target of that name. UnknownNameError: there is none."""
    if not isinstance(name, str) or name not in TARGETS:
        raise unknown("target", str(name), TARGETS)
    return TARGETS[name]


def borrowed_fields(patterns: Sequence[Pattern], target: Target) -> dict[str, Any]:
    """The device profile fields of the patterns that were put in from another target: that target's defaults."""
    owners = [TARGETS[name] for p in patterns if target.name not in p.targets for name in p.targets if name in TARGETS]
    return {f.name: f.default for owner in owners for f in owner.profile}


def pipeline(target: str, insertions: Sequence[Insertion] = ()) -> list[Pattern]:
    """The patterns of a target in order: sorted by their declared constraints, then the insertions, one by one.

    A pattern with a fault in its declaration is there too, so that a reader finds it (one for a target of no known name
    everywhere): it is off (`faults`). RecipeError: lowerscope's own constraints contradict each other, or an insertion breaks one.
    UnknownNameError: an insertion names a pattern that does not exist (here).
    """
    target_of(target)
    names, faulty = _ordered(target)
    order = [REGISTRY.get(name) for name in names]
    for insertion in insertions:
        order = _inserted(order, insertion, faulty)
    return order


def faults(target: str) -> dict[str, str]:
    """What is wrong with the declarations of a user's patterns, by name: such a pattern is off until it is mended.

    RecipeError: the target's other patterns cannot be put in order.
    """
    return _ordered(target)[1]


def unknown_pattern(target: str, name: str, here: Iterable[str]) -> UnknownNameError:
    """The error for a pattern that `target` does not have, though another may: `here` are those it has."""
    known = REGISTRY.get(name).targets if name in REGISTRY else ()
    if known:
        return UnknownNameError(
            f"there is no pattern of target {target} named {name!r}, which is one of {' and '.join(known)}: "
            f"session.insert({name!r}) puts it in"
        )
    return unknown(f"pattern of target {target}", name, here)


def _ordered(target: str) -> tuple[list[str], dict[str, str]]:
    """The names of a target's patterns in order, and the faults found on the way."""
    patterns = {p.name: p for p in REGISTRY if not {target, "*"}.isdisjoint(p.targets) or _unknown_targets(p)}
    faulty = {name: fault for name, p in patterns.items() if (fault := _unknown_in(p)) is not None}
    while True:
        graph = nx.DiGraph()
        graph.add_nodes_from(patterns)
        for earlier, later in _constraints(p for p in patterns.values() if p.name not in faulty):
            if earlier in patterns and later in patterns:
                graph.add_edge(earlier, later)
        try:
            return list(nx.lexicographical_topological_sort(graph)), faulty
        except nx.NetworkXUnfeasible:
            cycle = [edge[0] for edge in nx.find_cycle(graph)]
        path = " before ".join(f"'{n}'" for n in [*cycle, cycle[0]])
        said = (
            f"the patterns of target {target} cannot be put in order: {path}; change a before= or after= of one of them"
        )
        theirs = [name for name in cycle if patterns[name].yours]
        if not theirs:
            raise RecipeError(said)
        faulty.update(dict.fromkeys(theirs, said))


def _unknown_targets(p: Pattern) -> list[str]:
    return [name for name in (*p.targets, *p.off) if name != "*" and name not in TARGETS]


def _unknown_in(p: Pattern) -> str | None:
    """What a pattern's declaration names that there is not: seen here, as a target may be added after its patterns."""
    for name in _unknown_targets(p):
        error = unknown("target", name, TARGETS)
        return f"pattern '{p.name}' is for target '{name}', but {error}; add_target makes one known"
    for relation, names in (("after", p.after), ("before", p.before)):
        for name in names:
            if name not in REGISTRY:
                error = unknown("pattern", name, REGISTRY.names())
                return f"pattern '{p.name}' is to run {relation} '{name}', but {error}; define '{p.name}' again"
    return None


def _constraints(patterns: Iterable[Pattern]) -> Iterator[tuple[str, str]]:
    for p in patterns:
        yield from ((name, p.name) for name in p.after)
        yield from ((p.name, name) for name in p.before)


def _inserted(order: list[Pattern], insertion: Insertion, faulty: Collection[str]) -> list[Pattern]:
    moved = REGISTRY.get(insertion.pattern)
    rest = [p for p in order if p.name != moved.name]
    reference = insertion.before or insertion.after
    if reference is None:
        place = len(rest)
    else:
        names = [p.name for p in rest]
        if reference not in names:
            raise unknown("pattern in this target", reference, names)
        place = names.index(reference) + (0 if insertion.before else 1)
    result = [*rest[:place], moved, *rest[place:]]
    positions = {p.name: i for i, p in enumerate(result)}
    for earlier, later in _constraints(p for p in result if p.name not in faulty):
        if earlier in positions and later in positions and positions[earlier] > positions[later]:
            raise RecipeError(f"'{moved.name}' cannot be put there: '{earlier}' must run before '{later}'")
    return result
