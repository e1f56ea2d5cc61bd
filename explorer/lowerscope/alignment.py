"""Structural matching of a pattern graph against a program's graph, and the best partial alignment where it fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from lowerscope.arguments import arguments, aten, dtype_of, same_number, shape_of
from lowerscope.check import Check
from lowerscope.ops import display_name

#: Ops whose first two tensor operands may change places (add only while its alpha is 1).
COMMUTATIVE = frozenset(
    {
        aten.add.Tensor,
        aten.mul.Tensor,
        aten.maximum.default,
        aten.minimum.default,
        aten.eq.Tensor,
        aten.ne.Tensor,
        aten.logical_and.default,
        aten.logical_or.default,
        aten.bitwise_and.Tensor,
        aten.bitwise_or.Tensor,
    }
)


#: Arguments that count axes.
_AXES = ("dim", "dims")


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an alignment first fails: the pattern's node, the graph's, what kind of difference, and both sides in words."""

    pattern_node: Node
    graph_node: Node | None
    kind: str
    expected: str
    actual: str


@dataclass(slots=True)
class Alignment:
    """Which graph node or literal each pattern node met."""

    met: dict[Node, Any] = field(default_factory=dict)

    def nodes(self, order: list[Node]) -> list[Node]:
        """The graph nodes that pattern calls met, in the pattern's order."""
        return [self.met[p] for p in order if p.op == "call_function" and isinstance(self.met.get(p), Node)]


class Aligner:
    """Aligns one pattern graph, from its output upstream. `constants`: the pattern's own constants by placeholder."""

    def __init__(self, constants: dict[Node, torch.Tensor], any_dtype: bool, any_rank: bool) -> None:
        self.constants = constants
        self.any_dtype, self.any_rank = any_dtype, any_rank
        self.best: Alignment = Alignment()
        self.difference: Difference | None = None

    def align(self, output: Node, anchor: Node, check: Check) -> Alignment | None:
        """The alignment of the pattern that ends in `output` with the graph at `anchor`; None: see `best`, `difference`."""
        self._check = check
        for found in self._match(output, anchor, Alignment()):
            return found
        return None

    def _fail(self, so_far: Alignment, difference: Difference) -> None:
        if self.difference is None or len(so_far.met) > len(self.best.met):
            self.best, self.difference = Alignment(dict(so_far.met)), difference

    def _match(self, pattern: Node, value: Any, so_far: Alignment) -> Iterator[Alignment]:
        """Every way in which the pattern node and all that feeds it meet `value`."""
        if pattern in so_far.met:
            if so_far.met[pattern] is value or (
                not isinstance(value, Node) and _same_literal(so_far.met[pattern], value)
            ):
                yield so_far
            else:
                self._differ(pattern, value, so_far, "another value", f"the value that {pattern.name} met before")
            return
        if pattern.op == "placeholder":
            yield from self._match_input(pattern, value, so_far)
            return
        if not isinstance(value, Node) or value.op != "call_function" or value.target is not pattern.target:
            extra = isinstance(value, Node) and any(n.target is pattern.target for n in value.all_input_nodes)
            self._differ(pattern, value, so_far, "extra node in between" if extra else "op", _op(pattern))
            return
        here = Alignment({**so_far.met, pattern: value})
        for pairs in self._orders(pattern, value):
            yield from self._match_all(pairs, here, pattern, value)

    def _orders(self, pattern: Node, value: Node) -> Iterator[list[tuple[str, Any, Any]]]:
        """(argument, the pattern's, the graph's) by the op's schema; a commutative op's operands in both orders."""
        wanted, given = _values(pattern), _values(value)
        if len(wanted) != len(given):
            self._differ(pattern, value, Alignment({}), "arguments", f"{len(wanted)} arguments")
            return
        names = list(wanted)
        yield list(zip(names, wanted.values(), given.values(), strict=True))
        alpha = given.get("alpha", 1)
        if value.target in COMMUTATIVE and same_number(alpha, 1):
            first, second, *rest = given.values()
            yield list(zip(names, wanted.values(), [second, first, *rest], strict=True))

    def _match_all(
        self, triples: list[tuple[str, Any, Any]], so_far: Alignment, pattern: Node, value: Node
    ) -> Iterator[Alignment]:
        if not triples:
            yield so_far
            return
        (name, wanted, given), rest = triples[0], triples[1:]
        for found in self._match_argument(name, wanted, given, so_far, pattern, value):
            yield from self._match_all(rest, found, pattern, value)

    def _match_argument(
        self, name: str, wanted: Any, given: Any, so_far: Alignment, pattern: Node, value: Node
    ) -> Iterator[Alignment]:
        if isinstance(wanted, Node):
            yield from self._match(wanted, given, so_far)
        elif _holds_nodes(wanted) and isinstance(given, (list, tuple)) and len(wanted) == len(given):
            items = [(f"{name}[{i}]", w, g) for i, (w, g) in enumerate(zip(wanted, given, strict=True))]
            yield from self._match_all(items, so_far, pattern, value)
        elif self._literal_equals(wanted, given) or (name in _AXES and _same_axes(wanted, pattern, given, value)):
            yield so_far
        else:
            self._fail(
                so_far, Difference(pattern, value, "literal", f"{name} = {_text(wanted)}", f"{name} = {_text(given)}")
            )

    def _match_input(self, pattern: Node, value: Any, so_far: Alignment) -> Iterator[Alignment]:
        constant = self.constants.get(pattern)
        if constant is not None:
            number = constant.item() if constant.numel() == 1 else None
            if self._literal_equals(number if number is not None else constant, value):
                yield Alignment({**so_far.met, pattern: value})
            else:
                self._differ(pattern, value, so_far, "literal", _text(number))
            return
        rank, dtype = len(shape_of(pattern) or ()), dtype_of(pattern)
        if isinstance(value, Node):
            shape, found = shape_of(value), dtype_of(value)
            if shape is not None and len(shape) != rank and not self.any_rank:
                self._differ(pattern, value, so_far, "rank", _axes(rank), _axes(len(shape)))
                return
            if found is not dtype and not self.any_dtype:
                self._differ(pattern, value, so_far, "dtype", str(dtype), str(found))
                return
        elif rank:
            self._differ(pattern, value, so_far, "rank", f"a tensor of {_axes(rank)}", _text(value))
            return
        yield Alignment({**so_far.met, pattern: value})

    def _literal_equals(self, wanted: Any, given: Any) -> bool:
        """A literal against a literal, or against a constant of the program that holds it."""
        if isinstance(given, Node):
            if not self._check.is_constant(given):
                return False
            held = self._check.value(given)
            if isinstance(wanted, torch.Tensor):
                return wanted.shape == held.shape and wanted.dtype == held.dtype and torch.equal(wanted, held)
            return held.numel() == 1 and same_number(held.item(), wanted)
        return _same_literal(wanted, given)

    def _differ(
        self, pattern: Node, value: Any, so_far: Alignment, kind: str, expected: str, actual: str | None = None
    ) -> None:
        node = value if isinstance(value, Node) else None
        self._fail(so_far, Difference(pattern, node, kind, expected, actual if actual is not None else _text(value)))


def _values(node: Node) -> dict[str, Any]:
    """A call's arguments by name, defaults written out."""
    if isinstance(node.target, OpOverload):
        return arguments(node)
    return {**{f"argument {i}": a for i, a in enumerate(node.args)}, **node.kwargs}


def _axes(rank: int) -> str:
    return "1 axis" if rank == 1 else f"{rank} axes"


def _same_axes(wanted: Any, pattern: Node, given: Any, value: Node) -> bool:
    """Whether axes are the same ones, counted from the end or not: dim=-1 and dim=2 of three."""
    counted = [_from_the_start(*side) for side in ((wanted, pattern), (given, value))]
    return counted[0] is not None and counted[0] == counted[1]


def _from_the_start(axes: Any, node: Node) -> list[int] | None:
    # of cat and unsqueeze it is the result's axes that are counted
    counted = node if node.target in (aten.unsqueeze.default, aten.cat.default) else node.args[0]
    shape = shape_of(counted) if isinstance(counted, Node) else None
    axes = axes if isinstance(axes, (list, tuple)) else [axes]
    if not shape or not all(isinstance(axis, int) for axis in axes):
        return None
    return [axis % len(shape) for axis in axes]


def _holds_nodes(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(v, Node) for v in value)


def _same_literal(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_same_literal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return a is b
    return same_number(a, b)


def _op(node: Node) -> str:
    return display_name(node.target) if callable(node.target) else str(node.target)


def _text(value: Any) -> str:
    if isinstance(value, Node):
        return _op(value) if value.op == "call_function" else f"{value.op} {value.name}"
    return str(value)
