"""Patterns: what one is, what a match is, and the registry of all that are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from torch.fx import Node

from lowerscope.check import ENGINE_CONDITIONS, Check, Condition, Declared, Either, Optional
from lowerscope.declaration import check_declaration
from lowerscope.errors import RecipeError, unknown

if TYPE_CHECKING:
    from lowerscope.editor import Editor


class Kind(StrEnum):
    """What a pattern does to the graph."""

    FOLD = "fold"
    FUSION = "fusion"
    DECOMPOSITION = "decomposition"
    LAYOUT = "layout"
    LOWERING = "lowering"


_NODE = frozenset({Node})


@dataclass(slots=True, eq=False)
class Part:
    """An optional part that a match has taken in: its nodes, and what the rewrite needs to know of it."""

    nodes: tuple[Node, ...]
    data: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.data[key]


@dataclass(slots=True, eq=False)
class Match:
    """What a pattern would take.

    `nodes` are taken into the match and go with the rewrite; whatever else they read merely feeds it and is left
    alone. `output` is the taken node whose value the replacement gives. `data` is the pattern's own.
    """

    anchor: Node
    nodes: tuple[Node, ...]
    output: Node
    data: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.nodes, (tuple, list)):
            raise TypeError(f"nodes of a Match are a tuple of nodes, not {_called(self.nodes)}")
        held = (self.anchor, *self.nodes, self.output)
        if _NODE.issuperset(map(type, held)):
            return
        for node in held:
            if not isinstance(node, Node):
                raise TypeError(f"anchor, nodes and output of a Match are nodes of the graph, not {_called(node)}")

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    @property
    def boundary(self) -> tuple[Node, ...]:
        """The nodes that feed the match without being taken."""
        taken = set(self.nodes)
        return tuple(dict.fromkeys(n for node in self.nodes for n in node.all_input_nodes if n not in taken))


def _called(value: Any) -> str:
    return f"{value!r}, a {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class Declined:
    """A rewrite's answer when it leaves the graph unchanged after all."""

    reason: str


#: In `Pattern.anchors`: every call_function node may be an anchor.
ANY: tuple[Any, ...] = ("any",)


class Pattern:
    """One pattern: named conditions that find a match, and the rewrite of it.

    Subclasses set the class attributes and write `match` and `rewrite`; the docstring's first paragraph is the
    mathematics, shown beside every step. Registered by the decorator `pattern`.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    #: op targets at which a match may start (or `ANY`)
    anchors: ClassVar[tuple[Any, ...]]
    #: declared in order: the documentation, the test table and "k of n" come from here
    conditions: ClassVar[tuple[Declared, ...]]
    #: conditions whose failure, when nothing else failed, means that the anchor has nothing to do with the pattern (a
    #: convolution that nothing follows): `nothing to fuse`, and no near miss
    nothing_to_fuse: ClassVar[tuple[str, ...]] = ()
    #: whether what a rewrite made, or what reads it, may be an anchor again in the same stage
    repeats: ClassVar[bool] = False
    #: whether skips of a node or a module, which name no pattern, hold here too: what puts a program into the form that
    #: the other patterns are written against is skipped by an op, or by naming the pattern
    honours_plain_skips: ClassVar[bool] = True
    #: pull requests and papers
    source: ClassVar[str] = ""
    #: what a reader should know beside the mathematics, such as which runtime a lowered program needs
    note: ClassVar[str] = ""

    # set by the decorator
    targets: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[tuple[str, ...]] = ()
    before: ClassVar[tuple[str, ...]] = ()
    off: ClassVar[tuple[str, ...]] = ()  #: targets on which a recipe must enable it
    yours: ClassVar[bool] = False  #: written by the user

    def is_anchor(self, node: Node) -> bool:
        """Narrow the anchors that `anchors` gives by op; cheap, and states nothing."""
        return True

    def anchors_in(self, editor: Editor) -> Iterable[Node] | None:
        """The anchors in the editor's graphs, where finding them takes more than `anchors` and `is_anchor`; else None."""
        return None

    def match(self, anchor: Node, check: Check) -> Match | None:
        """Find the match at `anchor`, stating every condition on `check`."""
        raise NotImplementedError(f"pattern '{self.name}' has no match method")

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        """Put the replacement in and return the node that gives `match.output`'s value (None: `edit` was told itself).

        Without one a pattern only finds: its matches are seen and explained, and each of them is declined.
        """
        return Declined(f"pattern '{self.name}' has no rewrite method yet")

    def sentence(self, match: Match) -> str:
        """One sentence, present tense, that says what applying `match` does."""
        count = len(match.nodes)
        return f"{self.name} takes {count} node{'s' if count != 1 else ''}."

    @property
    def mathematics(self) -> str:
        """The first paragraph of the class's docstring."""
        text = (type(self).__doc__ or "").strip().split("\n\n")[0]
        return re.sub(r"\s+", " ", text)

    def condition_rows(self, ways: Sequence[str] = ()) -> Iterator[tuple[Condition, str | None]]:
        """The declared conditions in order with the part that each belongs to; of `Either` ways only those in `ways`."""
        for item in self.conditions:
            if isinstance(item, Condition):
                yield item, None
            elif isinstance(item, Optional):
                for condition in item.conditions:
                    yield condition, item.name
            elif item.name in ways:
                for condition in item.conditions:
                    yield condition, None

    def count_conditions(self, ways: tuple[str, ...] = (), parts: frozenset[str] = frozenset()) -> int:
        """How many conditions there are: the required ones, those on the given ways, those of the given optional parts."""
        counts = type(self).__dict__.get("_counts")
        if counts is None:
            counts = type(self)._counts = {}
        if (ways, parts) not in counts:
            counts[ways, parts] = sum(1 for _, part in self.condition_rows(ways) if part is None or part in parts)
        return counts[ways, parts]

    def declared(self) -> dict[str, str | None]:
        """Every condition name, the engine's included, with the optional part that it belongs to."""
        cached = type(self).__dict__.get("_declared")
        if cached is None:
            ways = [item.name for item in self.conditions if isinstance(item, Either)]
            cached = {c.name: part for c, part in self.condition_rows(ways)}
            cached.update({c.name: None for c in ENGINE_CONDITIONS})
            type(self)._declared = cached
        return cached

    _declared: ClassVar[dict[str, str | None] | None] = None
    _counts: ClassVar[dict[tuple[tuple[str, ...], frozenset[str]], int] | None] = None

    def says(self, name: str) -> str:
        """What the condition `name` says to a reader."""
        ways = [item.name for item in self.conditions if isinstance(item, Either)]
        every = [*(c for c, _ in self.condition_rows(ways)), *ENGINE_CONDITIONS]
        return next((c.says for c in every if c.name == name), name)


class Registry:
    """All known patterns by name. Redefining one of the user's replaces it."""

    def __init__(self) -> None:
        self._patterns: dict[str, Pattern] = {}
        self.version = 0  #: grows with every change, so that sessions notice

    def add(self, pattern: Pattern) -> None:
        """Add or replace a pattern.

        RecipeError: its class declares less or other than it must, or its name is the project's own.
        """
        cls = type(pattern)
        known = self._patterns.get(str(getattr(cls, "name", "")))
        if known is not None and not known.yours and cls.yours:
            raise RecipeError(f"'{pattern.name}' is one of lowerscope's own patterns: give yours another name")
        check_declaration(cls, Kind)
        self._patterns[pattern.name] = pattern
        self.version += 1

    def remove(self, name: str) -> None:
        """Forget a user's pattern. UnknownNameError: there is none of that name. RecipeError: it is lowerscope's own."""
        if not self.get(name).yours:
            raise RecipeError(f"'{name}' is one of lowerscope's own patterns: disable it in a session instead")
        del self._patterns[name]
        self.version += 1

    def get(self, name: str) -> Pattern:
        """The pattern of that name. UnknownNameError: there is none."""
        try:
            return self._patterns[name]
        except KeyError:
            raise unknown("pattern", name, self._patterns) from None

    def __contains__(self, name: object) -> bool:
        return name in self._patterns

    def __iter__(self) -> Iterator[Pattern]:
        return iter(list(self._patterns.values()))

    def names(self) -> list[str]:
        """Every known name."""
        return list(self._patterns)

    def of_target(self, target: str) -> list[Pattern]:
        """The patterns that `target` has, in no particular order ("*" in a pattern's targets means every target)."""
        return [p for p in self._patterns.values() if target in p.targets or "*" in p.targets]


REGISTRY = Registry()


def pattern(
    *targets: str,
    after: Iterable[str] = (),
    before: Iterable[str] = (),
    off: Iterable[str] = (),
    source: str = "",
) -> Callable[[type[Pattern]], type[Pattern]]:
    """Class decorator that registers a pattern for `targets` ("*": all).

    `after`, `before`: names of patterns that it must follow or precede where both are there (a single one may stand by
    itself). `off`: targets on which it is disabled until a recipe enables it. A class defined outside this package
    counts as the user's, and replaces an earlier one of that name.

    RecipeError: the class is no pattern, or declares less or other than it must, or no target is named.
    """
    if not all(isinstance(target, str) for target in targets):
        raise RecipeError('a pattern is registered for targets by name: write @pattern("vulkan"), or @pattern("*")')

    def register(cls: type[Pattern]) -> type[Pattern]:
        if not (isinstance(cls, type) and issubclass(cls, Pattern)):
            raise RecipeError(f"{getattr(cls, '__name__', cls)} is no pattern: write it as a class of Pattern")
        cls.targets, cls.after, cls.before, cls.off = tuple(targets), _names(after), _names(before), _names(off)
        cls.source = source or cls.source
        cls.yours = not cls.__module__.startswith("lowerscope.")
        REGISTRY.add(cls())
        return cls

    return register


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
