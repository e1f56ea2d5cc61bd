"""Which modules of a view are open, which are closed, and which closed ones are merged into one box."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lowerscope.ledger import NodeRecord
from lowerscope.module_tree import ModuleTree

SMALL = 150  #: visible boxes up to which everything is opened at first


@dataclass(slots=True)
class Folded:
    """A tree as it is folded. shown: for each module row what is drawn for it: 0 nothing, 1 a closed box, 2 an open one.
    stands_for: row of the visible closed box that a hidden row is drawn as part of (-1: hidden in nothing, or not hidden).
    runs: first row of a merged run -> all its rows."""

    shown: list[int]
    stands_for: list[int]
    runs: dict[int, list[int]]


HIDDEN, CLOSED, OPEN = range(3)


@dataclass
class Folding:
    """What the reader has opened: module paths; and which runs of alike siblings are taken apart (paths of their members)."""

    open: set[str] = field(default_factory=lambda: {""})
    apart: set[str] = field(default_factory=set)

    @classmethod
    def at_first(cls, tree: ModuleTree, records: Mapping[str, NodeRecord], near: Iterable[str] = ()) -> Folding:
        """Open level by level while there are few boxes; then what holds a near miss (`near`: node ids), and the last of
        each merged run, so that there is something to see."""
        folding = cls()
        weights = _own_nodes(tree, records)
        deepest = max(module.depth for module in tree.modules)
        for depth in range(1, deepest + 1):
            level = {m.path for m in tree.modules if m.depth == depth}
            if folding._boxes(tree, records, weights, level) > SMALL:
                break
            folding.open |= level
        wanted = [tree.ancestors(tree.row_of[id]) for id in near if id in tree.row_of]
        wanted += [tree.ancestors(run[-1]) for run in folding.fold(tree, records).runs.values() if len(run) > 2]
        for chain in wanted:
            paths = {tree.modules[row].path for row in chain}
            if folding._boxes(tree, records, weights, paths) <= SMALL:
                folding.open |= paths
        return folding

    def fold(self, tree: ModuleTree, records: Mapping[str, NodeRecord]) -> Folded:
        """What is drawn of each module."""
        count = len(tree.modules)
        folded = Folded([HIDDEN] * count, [-1] * count, {})
        self._fold(tree, records, 0, folded)
        return folded

    def _fold(self, tree: ModuleTree, records: Mapping[str, NodeRecord], row: int, folded: Folded) -> None:
        folded.shown[row] = OPEN
        for siblings in tree.runs(row, records):
            closed: list[int] = []
            for child in [*siblings, -1]:
                path = tree.modules[child].path if child >= 0 else ""
                if child >= 0 and path not in self.open and path not in self.apart:
                    closed.append(child)
                    continue
                self._close(tree, closed, folded)
                closed = []
                if child >= 0 and path in self.open:
                    self._fold(tree, records, child, folded)
                elif child >= 0:
                    self._close(tree, [child], folded)

    def _close(self, tree: ModuleTree, run: list[int], folded: Folded) -> None:
        if not run:
            return
        folded.shown[run[0]] = CLOSED
        if len(run) > 1:
            folded.runs[run[0]] = run
        todo = list(run)
        while todo:
            row = todo.pop()
            folded.stands_for[row] = run[0]
            todo += tree.modules[row].children

    def _boxes(self, tree: ModuleTree, records: Mapping[str, NodeRecord], weights: list[int], more: set[str]) -> int:
        """How many boxes there would be with `more` opened."""
        shown = Folding(self.open | more, self.apart).fold(tree, records).shown
        return sum(weights[row] if state == OPEN else state for row, state in enumerate(shown))

    # ------------------------------------------------------------------ what a reader does
    def set_open(self, tree: ModuleTree, rows: Iterable[int], open: bool) -> None:
        """Open modules, or close them."""
        paths = {tree.modules[row].path for row in rows}
        self.open = (self.open | paths) if open else (self.open - paths) | {""}

    def set_depth(self, tree: ModuleTree, depth: int) -> None:
        """Open exactly the modules of less than this depth (the root's is 0)."""
        self.open = {m.path for m in tree.modules if m.depth < max(1, depth)}
        self.apart = set()

    def reveal(self, tree: ModuleTree, node: str) -> None:
        """Open whatever hides a node."""
        self.set_open(tree, tree.ancestors(tree.row_of[node]), True)

    def set_merged(self, tree: ModuleTree, records: Mapping[str, NodeRecord], row: int, merged: bool) -> None:
        """Put the alike siblings around a module together (closing them), or take them apart."""
        parent = tree.modules[row].parent
        if parent < 0:
            return
        run = next(run for run in tree.runs(parent, records) if row in run)
        paths = {tree.modules[member].path for member in run}
        self.apart = self.apart - paths if merged else self.apart | paths
        if merged:
            self.open -= paths


def _own_nodes(tree: ModuleTree, records: Mapping[str, NodeRecord]) -> list[int]:
    """For each module how many boxes of nodes lie right in it before the first step; constants have none."""
    return [
        sum(1 for id in module.members if records[id].born == 0 and not _is_side(records[id]))
        for module in tree.modules
    ]


def _is_side(record: NodeRecord) -> bool:
    return record.op in ("placeholder", "get_attr")
