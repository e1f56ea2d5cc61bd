"""The module tree of a program, as a view draws it: which boxes there are, and in which each node lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lowerscope.ledger import NodeRecord
from lowerscope.ops import display_name

SUB_GRAPH = "sub-graph"


@dataclass(slots=True)
class Module:
    """One box. path: "" is the root; type: its class's name, "" when it is never called itself. members: the nodes right in
    it, by id, in order of birth; children: rows. ops: operators inside of it, in the program before the first step."""

    path: str
    type: str
    parent: int
    depth: int
    children: list[int] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    ops: int = 0

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


class ModuleTree:
    """The boxes of all nodes that ever lived. Row 0 is the root; a parent comes before its children.

    A module in which the program has at most one operator (a lone convolution or activation) has no box of its own:
    its node lies in the box around it. `row_of` gives the row of a node's box, `below` the rest of its own module's path
    ("conv"; "" when the box is its module). The nodes of a sub-graph of a higher-order op are in a box of the sub-graph's
    path.
    """

    def __init__(
        self,
        records: Iterable[NodeRecord],
        operators: frozenset[str],
        former: ModuleTree | None = None,
    ) -> None:
        """`operators`: ids of the nodes that are operators of the program before the first step. `former`: another
        tree of this program: which modules are alike, and where the program's own nodes lie, no recipe changes."""
        records = list(records)
        self.shapes: dict[str, tuple[object, ...]] = {} if former is None else former.shapes
        first = next((place for place, record in enumerate(records) if record.born), len(records))
        base = former and former._base
        if base is None:
            base = _Base(records[:first], operators)
        self._base = base
        homes = base.homes(records[first:])
        if homes is None:  # a rewrite has brought a module in that the program does not have
            base, homes, first = _Base(records, operators), [], len(records)
        self.modules, self.rows = list(base.modules), base.rows
        self.row_of: dict[str, int] = {**base.row_of}
        self.below: dict[str, str] = {**base.below}
        more: dict[int, list[str]] = {}
        for record, (row, below) in zip(records[first:], homes, strict=True):
            self.row_of[record.id], self.below[record.id] = row, below
            more.setdefault(row, []).append(record.id)
        for row, members in more.items():
            self.modules[row] = replace(self.modules[row], members=[*self.modules[row].members, *members])

    def ancestors(self, row: int) -> list[int]:
        """The rows from the root to `row`, both included."""
        chain = []
        while row >= 0:
            chain.append(row)
            row = self.modules[row].parent
        return chain[::-1]

    def runs(self, row: int, records: Mapping[str, NodeRecord]) -> list[list[int]]:
        """The children of a module, those that follow one another, count up ("0", "1", ...) and are alike put together."""
        out: list[list[int]] = []
        for child in self.modules[row].children:
            previous = self.modules[out[-1][-1]].name if out else ""
            name = self.modules[child].name
            counts = previous.isdigit() and name.isdigit() and int(name) == int(previous) + 1
            if counts and self._shape(out[-1][-1], records) == self._shape(child, records):
                out[-1].append(child)
            else:
                out.append([child])
        return out

    def _shape(self, row: int, records: Mapping[str, NodeRecord]) -> tuple[object, ...]:
        module = self.modules[row]
        if module.path in self.shapes:
            return self.shapes[module.path]
        own = tuple(
            display_name(records[id].target) if records[id].op == "call_function" else records[id].op
            for id in module.members
            if records[id].born == 0
        )
        below = tuple(self._shape(child, records) for child in module.children)
        shape = self.shapes[module.path] = (module.type, own, below)
        return shape


class _Base:
    """The boxes of nodes that stay: those of the program before the first step, and where a later node would lie."""

    def __init__(self, records: list[NodeRecord], operators: frozenset[str]) -> None:
        types, home, around, self._stacks = _paths(records)
        size: Counter[str] = Counter()
        for path, count in Counter(home[r.id] for r in records if r.id in operators).items():
            for outer in (path, *around[path]):
                size[outer] += count
        boxes = [path for path in types if path == "" or size[path] > 1 or types[path] == SUB_GRAPH]
        known = set(boxes)
        self.modules = [Module("", types[""], -1, 0)]
        self.rows = {"": 0}
        for path in sorted((p for p in boxes if p), key=lambda p: len(around[p])):
            parent = self.rows[next(p for p in around[path] if p in known)]
            self.rows[path] = len(self.modules)
            self.modules.append(Module(path, types[path], parent, self.modules[parent].depth + 1))
        nearest = {path: self.rows[next(p for p in (path, *around[path]) if p in known)] for path in types}
        self._home = {
            path: (row, path.removeprefix(self.modules[row].path).removeprefix(".")) for path, row in nearest.items()
        }
        self.row_of = {id: nearest[path] for id, path in home.items()}
        self.below = {id: self._home[path][1] for id, path in home.items()}
        for id, row in self.row_of.items():
            self.modules[row].members.append(id)
        self._order_children(boxes)
        for module in self.modules:
            module.ops = size[module.path]

    def homes(self, records: Iterable[NodeRecord]) -> list[tuple[int, str]] | None:
        """Of later nodes the row of the box and what is below it (`ModuleTree.below`); None when one of them lies in a
        module that is not known."""
        found = []
        for record in records:
            prefix = record.prefix
            path = prefix[:-1] if prefix else self._stacks.get(record.stack)
            if path is None or path not in self._home:
                return None
            found.append(self._home[path])
        return found

    def _order_children(self, boxes: list[str]) -> None:
        """Children in the order in which the program first comes to them."""
        place = {path: i for i, path in enumerate(boxes)}
        for row, module in enumerate(self.modules[1:], 1):
            self.modules[module.parent].children.append(row)
        for module in self.modules:
            module.children.sort(key=lambda row: place[self.modules[row].path])


_Stack = tuple[tuple[str, str], ...]


def _paths(
    records: list[NodeRecord],
) -> tuple[dict[str, str], dict[str, str], dict[str, tuple[str, ...]], dict[_Stack, str]]:
    """Every module path in order of first use with its class's name; the path that each node lies in; the paths around
    each path, innermost first, up to the root's ""; and the path of each stack of modules that nodes have.

    The parts of a module's path are parted by ".", those of a sub-graph's by "/", which a module's name may contain.
    """
    types: dict[str, str] = {"": ""}
    home: dict[str, str] = {}
    around: dict[str, tuple[str, ...]] = {"": ()}
    stacks: dict[_Stack, str] = {}  # most nodes share theirs with others
    for record in records:
        prefix = record.prefix
        if prefix:
            home[record.id] = path = prefix[:-1]
            _enter(path, "/", SUB_GRAPH, types, around)
            continue
        path = stacks.get(record.stack)
        if path is None:
            path = stacks[record.stack] = record.module
            for called, kind in record.stack:
                _enter(called, ".", "", types, around)
                types[called] = types[called] or kind
        home[record.id] = path
    return types, home, around, stacks


def _enter(path: str, mark: str, kind: str, types: dict[str, str], around: dict[str, tuple[str, ...]]) -> None:
    """Make a path and those around it known, outermost first."""
    if path in around:
        return
    outer = path.rpartition(mark)[0]
    _enter(outer, mark, kind, types, around)
    around[path] = (outer, *around[outer])
    types[path] = kind
