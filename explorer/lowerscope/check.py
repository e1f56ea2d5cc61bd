"""Named conditions: the one code path that both matches a pattern and explains why it did not match.

A pattern's `match` states its conditions on a `Check`, in order. Each one is written down as it is met; the first
required one that fails ends the match (`Failed`). The record holds plain values and node ids, never an fx node or a
tensor, so that it outlives the graph it was made on; sentences are only made when somebody reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from lowerscope.ops import display_name

if TYPE_CHECKING:
    from lowerscope.code_map import CodeMap


class Status(StrEnum):
    """How a condition stands: `follows` is a failure that another failure has caused."""

    PASSED = "passed"
    FAILED = "failed"
    FOLLOWS = "follows"
    NOT_REACHED = "not reached"


# members of an enum are looked up slowly, and a check needs these for every condition
_PASSED, _FAILED = Status.PASSED, Status.FAILED


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: a stable name (it is API: tests, reports and links use it) and what it says to a reader."""

    name: str
    says: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A part of a pattern that may be absent, and the conditions under which it is taken in."""

    name: str
    conditions: tuple[Condition, ...]

    def __init__(self, name: str, *conditions: Condition) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "conditions", conditions)


@dataclass(frozen=True, slots=True)
class Either:
    """Conditions of one of several ways to match; they count only when the match takes that way (`Check.way`)."""

    name: str
    conditions: tuple[Condition, ...]

    def __init__(self, name: str, *conditions: Condition) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "conditions", conditions)


Declared = Condition | Optional | Either

#: Conditions that the engine itself states on every match, whatever the pattern.
ENGINE_CONDITIONS = (
    Condition("not_skipped", "none of its nodes is skipped"),
    Condition("one_graph", "its nodes are all in one graph"),
    Condition("no_cycle", "no path leaves the match and comes back into it"),
    Condition("no_mutation_between", "nothing between its nodes writes in place"),
)

_ENGINE_NAMES = frozenset(c.name for c in ENGINE_CONDITIONS)

_INTEGER = frozenset({int})
_PLAIN_TYPES = frozenset({int, str, float, bool, type(None), torch.dtype})


class Failed(Exception):
    """A required condition does not hold: ends the match. Caught by the engine, never seen by a user."""


class PartFailed(Exception):
    """A condition of an optional part does not hold: ends that part only."""


class Entry(NamedTuple):
    """One condition as it was met. `expected` and `actual` are plain values; `node` is the id of the node at fault."""

    name: str
    status: Status
    expected: Any
    actual: Any
    node: str | None
    part: str | None
    because: str | None = None
    code_map: CodeMap | None = None  #: what there is to see of it


@dataclass(slots=True)
class Record:
    """What a `Check` wrote down, in order, for one pattern at one anchor."""

    #: the fields of an `Entry` each, which few are ever read as
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    ways: Sequence[str] = ()
    touched: Sequence[str] = ()  #: nodes that the match had accepted so far, by id

    @property
    def entries(self) -> list[Entry]:
        """The conditions in the order in which they were met, one at several nodes as often."""
        return [Entry(*row) for row in self.rows]

    def failure(self) -> Entry | None:
        """The root cause: the first failed condition. A failure that only follows from another one is none."""
        for row in self.rows:
            if row[1] is _FAILED:
                return Entry(*row)
        return None

    def root(self) -> str | None:
        """The name of the root cause."""
        for row in self.rows:
            if row[1] is _FAILED:
                return row[0]
        return None

    def passed(self) -> int:
        """How many conditions held."""
        passed = {row[0] for row in self.rows if row[1] is _PASSED}
        return len(passed.difference([row[0] for row in self.rows if row[1] is not _PASSED]))

    def engine_names(self) -> set[str]:
        """The engine's own conditions that were stated: they are only when they fail."""
        return {row[0] for row in self.rows if row[0] in _ENGINE_NAMES}

    def parts(self) -> frozenset[str]:
        """The optional parts that were tried."""
        return frozenset([row[5] for row in self.rows if row[5] is not None])


class Surroundings(Protocol):
    """What a check may ask about the graph that it stands in (the Editor answers)."""

    profile: Mapping[str, Any]

    @property
    def prefixes(self) -> Mapping[Graph, str]: ...  # what the ids of a graph's nodes begin with, before their names
    @property
    def skips(self) -> bool: ...
    def is_skipped(self, node: Node) -> bool: ...
    def skipped_by(self, node: Node) -> str: ...
    def is_constant(self, node: Node) -> bool: ...
    def constant_value(self, node: Node) -> torch.Tensor: ...
    def module_of(self, node: Node) -> str: ...
    def noted_of(self, node: Node) -> Any: ...


class HasNodes(Protocol):
    """What an optional part returns: at least the nodes that it takes in."""

    @property
    def nodes(self) -> Sequence[Node]: ...


P = TypeVar("P", bound=HasNodes)


def holds(fact: Any) -> bool:
    """Whether a comparison is true; of symbolic sizes only what holds for all of them, and without adding a guard."""
    if fact is True or fact is False:
        return fact
    return statically_known_true(fact) if isinstance(fact, torch.SymBool) else bool(fact)


def same(actual: Any, expected: Any) -> bool:
    """Equality that is safe on symbolic sizes, also inside shapes."""
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if _INTEGER.issuperset(map(type, actual)) and _INTEGER.issuperset(map(type, expected)):
            return tuple(actual) == tuple(expected)
        return len(actual) == len(expected) and all(same(a, e) for a, e in zip(actual, expected, strict=True))
    return holds(actual == expected)


class Check:
    """Where a pattern states its conditions, in the order in which a reader is told of them.

    Every method takes the condition's declared name; a name that the pattern did not declare is a `LookupError`. A
    condition that does not hold ends the match (or, inside `optional`, that part). `at` is the node that the reader is
    pointed to.
    """

    __slots__ = (
        "_around",
        "_declared",
        "_part",
        "_prefixes",
        "_rows",
        "is_constant",
        "parts_failed",
        "profile",
        "record",
    )

    #: Whether a value is a constant of the program (a node) that nothing mutates; states nothing.
    is_constant: Callable[[Any], bool]

    def __init__(self, declared: Mapping[str, str | None], around: Surroundings, *, keep: bool = True) -> None:
        self._declared = declared  # condition name -> the optional part it belongs to
        self._around = around
        self._prefixes = around.prefixes
        self.is_constant = around.is_constant
        self.profile = around.profile
        self.begin(keep=keep)

    def begin(self, touched: tuple[str, ...] = (), *, keep: bool = True) -> None:
        """Begin anew at another anchor, with an empty record; what was recorded so far stays with who holds it."""
        self.record = Record([], (), touched)
        # whether to write down what is stated: not so where only the match is wanted
        self._rows = self.record.rows if keep else None
        self._part: str | None = None
        self.parts_failed: Sequence[str] = ()

    # ------------------------------------------------------------------ stating conditions
    def that(
        self,
        name: str,
        fact: Any,
        *,
        at: Node | None = None,
        expected: Any = None,
        actual: Any = None,
        because: str | None = None,
        code_map: CodeMap | None = None,
    ) -> None:
        """State that `fact` holds. `because` adds what a reader needs to understand a failure, `code_map` what there is to see."""
        if fact is not True:
            fact = holds(fact)
        self._state(name, _PASSED if fact else _FAILED, expected, actual, at, because, code_map)

    def _state(
        self,
        name: str,
        status: Status,
        expected: Any,
        actual: Any,
        at: Node | None,
        because: str | None,
        code_map: CodeMap | None = None,
    ) -> None:
        if name not in self._declared:
            raise LookupError(f"condition '{name}' is not declared in the pattern's conditions")
        if self._rows is not None:
            if type(expected) not in _PLAIN_TYPES:
                expected = self._plain(expected)
            if type(actual) not in _PLAIN_TYPES:
                actual = self._plain(actual)
            node = None if at is None else self._prefixes[at.graph] + at.name
            self._rows.append((name, status, expected, actual, node, self._part, because, code_map))
        if status is not _PASSED:
            raise PartFailed if self._part and status is _FAILED else Failed

    def eq(self, name: str, actual: Any, expected: Any, *, at: Node | None = None, because: str | None = None) -> None:
        """State that `actual` equals `expected` (of symbolic sizes: is known to)."""
        plainly = type(actual) is type(expected) and type(actual) in _PLAIN_TYPES
        ok = actual == expected if plainly else same(actual, expected)
        self._state(name, _PASSED if ok else _FAILED, expected, actual, at, because)

    def one_of(
        self, name: str, actual: Any, choices: Iterable[Any], *, at: Node | None = None, because: str | None = None
    ) -> None:
        """State that `actual` is one of `choices`."""
        choices = tuple(choices)
        ok = (type(actual) in _PLAIN_TYPES and actual in choices) or any(same(actual, c) for c in choices)
        self._state(name, _PASSED if ok else _FAILED, choices, actual, at, because)

    def at_most(
        self, name: str, actual: Any, limit: Any, *, at: Node | None = None, because: str | None = None
    ) -> None:
        """State that `actual` (a number, or numbers axis by axis) is at most `limit`."""
        pairs = zip(actual, limit, strict=True) if isinstance(actual, (list, tuple)) else ((actual, limit),)
        status = _PASSED
        for a, b in pairs:
            fact = a <= b
            if fact is not True and not holds(fact):
                status = _FAILED
                break
        self._state(name, status, limit, actual, at, because)

    def fail(
        self, name: str, *, at: Node | None = None, expected: Any = None, actual: Any = None, because: str | None = None
    ) -> None:
        """State that the condition does not hold."""
        self._state(name, _FAILED, expected, actual, at, because)

    def one_user(self, name: str, node: Node, wanted: Node | None = None) -> Node:
        """State that exactly one node reads `node` (a graph output is a reader), and return that reader.

        The node at fault is the other reader, by which the reader of the explanation finds the place: the first, in the
        order of the graph, that is not `wanted` (without it: the second).
        """
        if len(node.users) == 1:
            (user,) = node.users
            self._state(name, _PASSED, "1 user", f"1 user ({self._prefixes[user.graph]}{user.name})", user, None)
            return user
        users = sorted(node.users)  # in the order of the graph: the order of `users` tells who was edited last
        others = [u for u in users if u is not (users[0] if wanted is None else wanted)] or users or [node]
        actual = f"{len(users)} users ({', '.join(map(self._id_of, users))})" if users else "no user"
        if self._part is None:
            self.touch(node)  # the near miss shows what is shared, and a what-if can give the other readers a copy
        self.fail(name, at=others[0], expected="1 user", actual=actual)
        return node  # never reached: a condition that fails ends the match

    def constant(self, name: str, node: Any, *, because: str | None = None) -> Node:
        """State that `node` is a constant of the program (parameter, buffer, lifted constant), and return it."""
        if not isinstance(node, Node):
            self.fail(name, expected="a constant", actual=node, because=because)
        found = self.is_constant(node)
        actual = (
            "a constant"
            if found
            else ("an input" if node.op == "placeholder" else f"computed by {display_name(node.target)}")
        )
        self._state(name, _PASSED if found else _FAILED, "a constant", actual, node, because)
        return node

    def optional(self, part: str, find: Callable[..., P | None], *args: Any) -> P | None:
        """Try to take in an optional part: `find(*args)` returns it, returns None (absent), or fails a condition of it.

        A skipped node is opaque: a part that holds one is not taken.
        """
        outer, self._part = self._part, part
        try:
            found = find(*args)
            if found is not None:
                if self._around.skips:
                    for node in found.nodes:
                        self.not_skipped(node)
                self.touch(*found.nodes)
            return found
        except PartFailed:
            self.parts_failed = (*self.parts_failed, part)
            return None
        finally:
            self._part = outer

    def way(self, name: str) -> None:
        """Say which of the declared `Either` ways the match takes: only its conditions count from here on."""
        self.record.ways = (*self.record.ways, name)

    def follows(
        self, name: str, fact: Any, *, at: Node | None = None, expected: Any = None, actual: Any = None
    ) -> None:
        """State a condition whose failure is only a consequence when an optional part has failed before it."""
        ok = fact if fact is True or fact is False else holds(fact)
        if ok or not self.parts_failed:
            self._state(name, _PASSED if ok else _FAILED, expected, actual, at, None)
        else:
            self._state(name, Status.FOLLOWS, expected, actual, at, f"Follows from {self.record.root()}.")

    def not_skipped(self, node: Node) -> None:
        """State that the user has not skipped `node`."""
        if self._around.is_skipped(node):
            by = self._around.skipped_by(node)
            self.that("not_skipped", False, at=node, expected="not skipped", actual=f"skipped by {by}")

    def touch(self, *nodes: Node) -> None:
        """Note nodes as matched so far: a near miss shows them."""
        if self._rows is not None:
            self.record.touched = (*self.record.touched, *[self._prefixes[n.graph] + n.name for n in nodes])

    # ------------------------------------------------------------------ asking, without stating anything
    def value(self, node: Node) -> torch.Tensor:
        """A constant, in its own shape and dtype; never write to it. RewriteError: the node is none."""
        return self._around.constant_value(node)

    def module(self, node: Node) -> str:
        """The module path that `node` was traced in."""
        return self._around.module_of(node)

    def noted(self, node: Node) -> Any:
        """What the pattern's `anchors_in` has noted about an anchor, None for nothing."""
        return self._around.noted_of(node)

    def _id_of(self, node: Node) -> str:
        return self._prefixes[node.graph] + node.name

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self._id_of(value)
        if type(value) is tuple and _PLAIN_TYPES.issuperset(map(type, value)):
            return value
        if isinstance(value, (list, tuple)):
            if _PLAIN_TYPES.issuperset(map(type, value)):
                return tuple(value)
            return tuple([v if type(v) in _PLAIN_TYPES else self._plain(v) for v in value])
        return value
