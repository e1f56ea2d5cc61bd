"""Scenes: what a view draws of a lowering, as columns that travel in one message. Never a tensor.

The tables are those of `widgets/front-end/src/protocol.ts`. A `SceneMaker` keeps what later scenes of the same program
can use again: texts, layouts, what is opened, and which colour a pattern has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lowerscope import scene_words as words
from lowerscope.columns import Strings, floats, ints, pack, small
from lowerscope.folding import OPEN, Folded, Folding
from lowerscope.labels import shortened
from lowerscope.ledger import Ledger, NodeRecord
from lowerscope.lowering import Lowering, StageInfo, covers
from lowerscope.memory import no_garbage_collection
from lowerscope.module_tree import ModuleTree
from lowerscope.ops import CATEGORIES
from lowerscope.partitions import partition_summary
from lowerscope.recipe import Recipe, Skip
from lowerscope.scene_layout import Layouts, Places, place, slots
from lowerscope.scene_matches import VERDICTS, MatchTables, match_tables
from lowerscope.scene_nodes import NodeTable, Writer, flags, node_table
from lowerscope.tables import reason_rows
from lowerscope.verdict import Outcome

VERSION = 1
_KEPT = 4  # recipes whose texts are kept, about
_DRAWN = 8  # lowerings whose tables are kept, as many as a lowerer keeps
_REASONS_SHOWN, _ANCHORS_SHOWN = 50, 50


@dataclass(frozen=True)
class Scene:
    """One scene: `tables` of columns by name, and the `header` without them (see the protocol's SceneHeader)."""

    tables: Mapping[str, Mapping[str, np.ndarray]]
    header: Mapping[str, Any]
    _view: View | None = field(default=None, repr=False, compare=False)

    @property
    def strings(self) -> list[str]:
        """The strings that string columns index."""
        return self.header["strings"]

    def message(self) -> tuple[dict[str, Any], bytes]:
        """The complete header, and the one buffer of all columns."""
        view = self._view or View((), self.tables)
        view.packed = described, buffer = view.packed or pack(self.tables)
        return {**self.header, "tables": described}, buffer

    def texts(self, table: str, column: str) -> list[str]:
        """A string column as strings."""
        return [self.strings[index] for index in self.tables[table][column].tolist()]


@dataclass(slots=True)
class View:
    """A scene's tables with some modules open and the others closed, and the message that they travel in, once packed."""

    folding: tuple[Any, ...]
    tables: Mapping[str, Mapping[str, np.ndarray]]
    packed: tuple[dict[str, Any], bytes] | None = None


@dataclass(slots=True)
class Placed:
    """Where everything is, by what is open and what is written on the boxes."""

    folding: tuple[Any, ...]
    texts: list[str]
    places: Places


@dataclass(slots=True)
class Drawn:
    """What is drawn of one lowering, whatever is open. slots: see `scene_layout.slots`. header: the parts of it that cost."""

    of: tuple[StageInfo, ...]  # held, so that its address stands for the lowering
    ledger: Ledger
    table: NodeTable
    tree: ModuleTree
    module_of: np.ndarray
    leaf: np.ndarray
    before: np.ndarray
    after: np.ndarray
    slots: np.ndarray
    flags: np.ndarray
    found: MatchTables
    changes: dict[str, np.ndarray]
    header: Mapping[str, Any]
    stages: tuple[str, ...]
    placed: Placed | None = None
    view: View | None = None

    def is_of(self, lowering: Lowering) -> bool:
        """Whether the nodes and edges are those of `lowering`, too."""
        return self.ledger is lowering.ledger and self.stages == _stages(lowering)


class SceneMaker:
    """Makes the scenes of one program's lowerings. What it has drawn lately it need not draw again."""

    def __init__(self) -> None:
        self.strings = Strings()
        self.folding: Folding | None = None
        self.layouts = Layouts()
        self._writer = Writer(self.strings)
        self._palette = words.Palette()
        self._former: Drawn | None = None  # the one drawn last, from which the next one takes what is the same
        self._drawn: OrderedDict[tuple[int, Recipe], Drawn] = OrderedDict()

    def prepare(self, lowering: Lowering) -> tuple[NodeTable, ModuleTree, Folding]:
        """The tables and the module tree of a lowering, and what is open of it."""
        drawn = self._draw(lowering)
        return drawn.table, drawn.tree, self._folded(lowering, drawn)

    def _folded(self, lowering: Lowering, drawn: Drawn) -> Folding:
        if self.folding is None:
            near = [v.anchor for v in lowering.verdicts.values() if v.outcome is Outcome.NEAR_MISS]
            self.folding = Folding.at_first(drawn.tree, lowering.ledger.records, near)
        return self.folding

    def _draw(self, lowering: Lowering) -> Drawn:
        """What is drawn of a lowering; of one that was drawn lately it is there."""
        key = (id(lowering.stages), lowering.recipe)  # a lowering that is known has the same stages each time
        found = self._drawn.pop(key, None)
        self._drawn[key] = found = found if found is not None else self._draw_anew(lowering)
        while len(self._drawn) > _DRAWN:
            self._drawn.popitem(last=False)
        return found

    def _draw_anew(self, lowering: Lowering) -> Drawn:
        records = lowering.ledger.records
        if self._writer.size > _KEPT * len(records):
            self._writer.forget()
        former = self._former
        alike = former if former is not None and former.is_of(lowering) else None
        if alike is not None:  # what a toggle that rewrites nothing leaves
            table, tree, module_of = replace(alike.table, kept=len(alike.table.records)), alike.tree, alike.module_of
            leaf, before, after, slot = alike.leaf, alike.before, alike.after, alike.slots
        else:
            table = node_table(lowering, self._writer, former and former.table)
            original = table.columns["operator"].astype(bool) & (table.columns["born"] == 0)
            ids = frozenset(table.records[row].id for row in np.flatnonzero(original))
            tree = ModuleTree(table.records, ids, former and former.tree)
            before, after = table.computing(0), table.computing(table.last)
            module_of = np.array(list(tree.row_of.values()), np.int32)
            texts = {below: self.strings(shortened(below)) for below in dict.fromkeys(tree.below.values())}
            leaf = ints([texts[below] for below in tree.below.values()])
            slot = slots(table, tree, lowering.steps)
        same_rows = former is not None and former.stages == _stages(lowering) and former.tree.rows == tree.rows
        found = match_tables(lowering, table, module_of, self.strings, former.found if former and same_rows else None)
        reasons = self._reasons(lowering)
        header = {
            "patterns": words.pattern_rows(lowering, self._palette),
            "operators": words.count_rows(table, before, after, self.strings.all),
            "partitions": partition_summary(lowering),
            "reasons": reasons,
            "notice": words.notice(lowering, reasons),
        }
        self._former = Drawn(
            lowering.stages, lowering.ledger, table, tree, module_of, leaf, before, after, slot,
            flags(table, lowering, _covered(lowering)), found, _changes(lowering.ledger, table), header,
            _stages(lowering), alike and alike.placed,
        )  # fmt: skip
        return self._former

    def scene(
        self,
        lowering: Lowering,
        *,
        name: str | None = None,
        revision: int = 0,
        can_undo: str | None = None,
        can_redo: str | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Scene:
        """The scene of `lowering`.

        LayoutError: it cannot be laid out. LayoutCancelled: `cancelled` said so.
        """
        with no_garbage_collection():
            return self._scene(lowering, name, revision, can_undo, can_redo, cancelled)

    def _scene(
        self,
        lowering: Lowering,
        name: str | None,
        revision: int,
        can_undo: str | None,
        can_redo: str | None,
        cancelled: Callable[[], bool] | None,
    ) -> Scene:
        drawn = self._draw(lowering)
        view = self._view(drawn, self._folded(lowering, drawn), cancelled)
        table = drawn.table
        nodes = int(table.alive(0, table.columns).sum())
        header = {
            "version": VERSION,
            "strings": list(self.strings.all),
            "categories": list(CATEGORIES),
            "verdicts": list(VERDICTS),
            "revision": revision,
            "program": words.program_facts(lowering, name or lowering.source.name, nodes, len(drawn.tree.modules)),
            "recipe": lowering.recipe.as_dict(),
            "skips": words.skip_chips(lowering),
            "can_undo": can_undo,
            "can_redo": can_redo,
            "profile": words.profile_fields(lowering),
            **drawn.header,
        }
        return Scene(view.tables, header, view)

    def _view(self, drawn: Drawn, folding: Folding, cancelled: Callable[[], bool] | None) -> View:
        """The tables of a lowering as it is folded now."""
        folded_as = _folded_as(folding)
        if drawn.view is None or drawn.view.folding != folded_as:
            drawn.view = View(folded_as, self._tables(drawn, folding, cancelled))
        return drawn.view

    def _tables(
        self, drawn: Drawn, folding: Folding, cancelled: Callable[[], bool] | None
    ) -> Mapping[str, Mapping[str, np.ndarray]]:
        table, tree, module_of = drawn.table, drawn.tree, drawn.module_of
        folded = folding.fold(tree, drawn.ledger.records)
        modules = self._modules(tree, folded, module_of, drawn.before, drawn.after, drawn.found.matches)
        facts = zip(modules["label"].tolist(), modules["ops"].tolist(), modules["matched"].tolist(), strict=True)
        texts = [f"{self.strings.all[label]} {ops} ops · {matched} matched" for label, ops, matched in facts]
        folded_as = _folded_as(folding)
        if drawn.placed is None or (drawn.placed.folding, drawn.placed.texts) != (folded_as, texts):
            laid = place(
                table, tree, module_of, folded, drawn.slots, texts, lambda graph: self.layouts(graph, cancelled)
            )
            drawn.placed = Placed(folded_as, texts, laid)
        places = drawn.placed.places
        return {
            "modules": {**modules, **_box_columns(places.modules)},
            "nodes": self._nodes(table, module_of, drawn.leaf, places, drawn.flags),
            "edges": {name: table.edges[name] for name in ("src", "dst", "arg", "born", "died")},
            "routes": {
                name: small(values) if name in ("src_module", "dst_module", "stub") else values
                for name, values in places.routes.items()
            },
            "points": {"x": floats(places.points[:, 0]), "y": floats(places.points[:, 1])},
            "matches": drawn.found.matches,
            "members": {"node": drawn.found.members},
            "steps": drawn.found.steps,
            "changes": drawn.changes,
        }

    # ------------------------------------------------------------------ tables
    def _nodes(
        self, table: NodeTable, module_of: np.ndarray, leaf: np.ndarray, places: Places, flags: np.ndarray
    ) -> dict[str, np.ndarray]:
        columns = {name: ints(table.columns[name]) for name in ("id", "op", "label", "detail", "shape", "source")}
        columns |= {name: small(table.columns[name]) for name in ("category", "kind")}
        columns |= {"module": ints(module_of), "leaf": leaf, "flags": small(flags)}
        columns |= {name: ints(table.columns[name]) for name in ("users", "pattern", "born", "died")}
        return columns | _box_columns(places.nodes)

    def _modules(
        self,
        tree: ModuleTree,
        folded: Folded,
        module_of: np.ndarray,
        before: np.ndarray,
        after: np.ndarray,
        matches: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        count = len(tree.modules)
        applied = matches["verdict"] == VERDICTS.index(str(Outcome.APPLIED))
        near = matches["verdict"] == VERDICTS.index(str(Outcome.NEAR_MISS))
        totals = [np.bincount(module_of[mask], minlength=count) for mask in (before, after)]
        totals += [np.bincount(module_of[matches["anchor"][mask]], minlength=count) for mask in (applied, near)]
        for row in range(count - 1, 0, -1):  # children come after their parents
            for total in totals:
                total[tree.modules[row].parent] += total[row]
        labels = [m.path for m in tree.modules]
        merged = np.zeros(count, np.int32)
        for first, run in folded.runs.items():
            labels[first] = f"{tree.modules[first].path}–{tree.modules[run[-1]].name}"
            merged[first] = len(run)
            for total in totals:
                total[first] = total[run].sum()
        text = self.strings
        return {
            "path": ints([text(m.path) for m in tree.modules]),
            "label": ints([text(shortened(label, 80)) for label in labels]),
            "type": ints([text(shortened(m.type, 80)) for m in tree.modules]),
            "parent": ints([m.parent for m in tree.modules]),
            "open": small([int(state == OPEN) for state in folded.shown]),
            "ops": ints(totals[0]),
            "ops_after": ints(totals[1]),
            "matched": ints(totals[2]),
            "near": ints(totals[3]),
            "merged": merged,
        }

    def _reasons(self, lowering: Lowering) -> list[dict[str, Any]]:
        return [
            {
                "pattern": row["pattern"],
                "condition": row["condition"],
                "sentence": shortened(row["sentence"]),
                "count": row["count"],
                "anchors": row["anchors"][:_ANCHORS_SHOWN],
            }
            for row in reason_rows(lowering)[:_REASONS_SHOWN]
        ]


def make_scene(lowering: Lowering, **facts: Any) -> Scene:
    """The scene of a lowering, as it is first shown; `facts` are those of `SceneMaker.scene`."""
    return SceneMaker().scene(lowering, **facts)


def _folded_as(folding: Folding) -> tuple[Any, ...]:
    return frozenset(folding.open), frozenset(folding.apart)


def _stages(lowering: Lowering) -> tuple[str, ...]:
    return tuple(stage.pattern for stage in lowering.stages)


def _box_columns(boxes: np.ndarray) -> dict[str, np.ndarray]:
    return {name: floats(boxes[:, i]) for i, name in enumerate("xywh")}


def _covered(lowering: Lowering) -> Callable[[NodeRecord], bool] | None:
    """Whether a skip that names no pattern covers a node or what it came from; None when there is no such skip."""
    plain: list[Skip] = [s for s in lowering.recipe.skips if s.pattern is None]
    if not plain:
        return None
    ledger = lowering.ledger

    def covered(record: NodeRecord) -> bool:
        if record.op in ("placeholder", "output"):
            return False
        line = ledger.origin(record.id) if record.id in ledger.parents else ()
        return any(covers(skip, ledger.records[id]) for id in (record.id, *line) for skip in plain)

    return covered


def _changes(ledger: Ledger, table: NodeTable) -> dict[str, np.ndarray]:
    """Which nodes were given other literals, or their inputs in another order, and at which steps."""
    return {
        "node": ints([table.rows[former.node] for former in ledger.former]),
        "step": ints([former.step for former in ledger.former]),
    }
