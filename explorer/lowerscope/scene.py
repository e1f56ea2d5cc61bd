"""Scenes: what a view draws of a lowering, as columns that travel in one message. Never a tensor.

The tables are those of `widgets/front-end/src/protocol.ts`. A `SceneMaker` keeps what later scenes of the same program
can use again: texts, layouts, what is opened, and which colour a pattern has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowerscope import scene_words as words
from lowerscope.columns import Strings, floats, ints, pack, small
from lowerscope.folding import OPEN, Folded, Folding
from lowerscope.labels import shortened
from lowerscope.ledger import Ledger, NodeRecord
from lowerscope.lowering import Lowering, covers
from lowerscope.memory import no_garbage_collection
from lowerscope.module_tree import ModuleTree
from lowerscope.ops import CATEGORIES
from lowerscope.partitions import partition_summary
from lowerscope.recipe import Recipe, Skip
from lowerscope.scene_layout import Layouts, Places, place, slots
from lowerscope.scene_nodes import NodeTable, Writer, flags, node_table
from lowerscope.tables import reasons_frame
from lowerscope.verdict import Outcome, Verdict

VERSION = 1
VERDICTS = tuple(str(outcome) for outcome in Outcome)
_NOT_DRAWN = (Outcome.NOTHING_TO_FUSE, Outcome.NO_ANCHOR)
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
class Drawn:
    """What is drawn of one lowering, whatever is open. slots: see `scene_layout.slots`. header: the parts of it that cost."""

    ledger: Ledger  # held, so that its address stands for it
    table: NodeTable
    tree: ModuleTree
    module_of: np.ndarray
    before: np.ndarray
    after: np.ndarray
    slots: np.ndarray
    flags: np.ndarray
    matches: dict[str, np.ndarray]
    members: np.ndarray
    steps: dict[str, np.ndarray]
    changes: dict[str, np.ndarray]
    header: Mapping[str, Any]
    view: View | None = None


class SceneMaker:
    """Makes the scenes of one program's lowerings. What it has drawn lately it need not draw again."""

    def __init__(self) -> None:
        self.strings = Strings()
        self.folding: Folding | None = None
        self.layouts = Layouts()
        self._writer = Writer(self.strings)
        self._palette = words.Palette()
        self._tree: ModuleTree | None = None
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
        key = (id(lowering.ledger), lowering.recipe)
        found = self._drawn.pop(key, None)
        self._drawn[key] = found = found if found is not None else self._draw_anew(lowering)
        while len(self._drawn) > _DRAWN:
            self._drawn.popitem(last=False)
        return found

    def _draw_anew(self, lowering: Lowering) -> Drawn:
        records = lowering.ledger.records
        if self._writer.size > _KEPT * len(records):
            self._writer.forget()
        table = node_table(lowering, self._writer)
        original = table.columns["operator"].astype(bool) & (table.columns["born"] == 0)
        ids = frozenset(table.records[row].id for row in np.flatnonzero(original))
        tree = self._tree = ModuleTree(records.values(), ids, None if self._tree is None else self._tree.shapes)
        before, after = table.computing(0), table.computing(table.last)
        module_of = np.array([tree.row_of[r.id] for r in table.records], np.int32)
        matches, members = self._matches(lowering, table)
        steps = self._steps(lowering, table, module_of, members)
        reasons = self._reasons(lowering)
        header = {
            "patterns": words.pattern_rows(lowering, self._palette),
            "operators": words.count_rows(table, before, after, self.strings.all),
            "partitions": partition_summary(lowering),
            "reasons": reasons,
            "notice": words.notice(lowering, reasons),
        }
        return Drawn(
            lowering.ledger, table, tree, module_of, before, after, slots(table, tree, lowering.steps),
            flags(table, lowering, _covered(lowering)), matches, ints(members), steps,
            _changes(lowering.ledger, table), header,
        )  # fmt: skip

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
        folded_as = (frozenset(folding.open), frozenset(folding.apart))
        if drawn.view is None or drawn.view.folding != folded_as:
            drawn.view = View(folded_as, self._tables(drawn, folding, cancelled))
        return drawn.view

    def _tables(
        self, drawn: Drawn, folding: Folding, cancelled: Callable[[], bool] | None
    ) -> Mapping[str, Mapping[str, np.ndarray]]:
        table, tree, module_of = drawn.table, drawn.tree, drawn.module_of
        folded = folding.fold(tree, drawn.ledger.records)
        modules = self._modules(tree, folded, module_of, drawn.before, drawn.after, drawn.matches)
        texts = [self.strings.all[i] for i in modules["label"]]
        places = place(
            table,
            tree,
            module_of,
            folded,
            drawn.slots,
            [f"{text} {modules['ops'][row]} ops · {modules['matched'][row]} matched" for row, text in enumerate(texts)],
            lambda graph: self.layouts(graph, cancelled),
        )
        return {
            "modules": {**modules, **_box_columns(places.modules)},
            "nodes": self._nodes(table, module_of, places, drawn.flags),
            "edges": {name: table.edges[name] for name in ("src", "dst", "arg", "born", "died")},
            "routes": {
                name: small(values) if name in ("src_module", "dst_module", "stub") else values
                for name, values in places.routes.items()
            },
            "points": {"x": floats(places.points[:, 0]), "y": floats(places.points[:, 1])},
            "matches": drawn.matches,
            "members": {"node": drawn.members},
            "steps": drawn.steps,
            "changes": drawn.changes,
        }

    # ------------------------------------------------------------------ tables
    def _nodes(
        self, table: NodeTable, module_of: np.ndarray, places: Places, flags: np.ndarray
    ) -> dict[str, np.ndarray]:
        columns = {name: ints(table.columns[name]) for name in ("id", "op", "label", "detail", "shape", "source")}
        columns |= {name: small(table.columns[name]) for name in ("category", "kind")}
        columns |= {"module": ints(module_of), "flags": small(flags)}
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

    def _matches(self, lowering: Lowering, table: NodeTable) -> tuple[dict[str, np.ndarray], list[int]]:
        row_of_pattern = {stage.pattern: row for row, stage in enumerate(lowering.stages)}
        members: list[int] = []
        rows: list[tuple[int, ...]] = []
        for verdict in lowering.verdicts.values():
            if verdict.outcome in _NOT_DRAWN or verdict.anchor not in table.rows:
                continue
            rows.append(self._match(verdict, row_of_pattern, table, members))
        numbers = np.array(rows, np.int32).reshape(len(rows), len(_MATCH))
        columns = {name: np.ascontiguousarray(numbers[:, i]) for i, name in enumerate(_MATCH)}
        return {**columns, "verdict": small(columns["verdict"])}, members

    def _match(
        self, verdict: Verdict, row_of_pattern: Mapping[str, int], table: NodeTable, members: list[int]
    ) -> tuple[int, ...]:
        runs = []
        for ids in (verdict.nodes, verdict.origins):
            found = [table.rows[id] for id in dict.fromkeys(ids) if id in table.rows]
            runs += [len(members), len(found)]
            members += found
        return (
            row_of_pattern[verdict.pattern],
            VERDICTS.index(str(verdict.outcome)),
            table.rows[verdict.anchor],
            *runs,
            -1 if verdict.step is None else verdict.step,
            table.rows.get(verdict.fault or "", -1),
            verdict.passed,
            verdict.total,
            self.strings(shortened(verdict.reason)),
            -1 if verdict.by is None else row_of_pattern.get(verdict.by[0], -1),
        )

    def _steps(
        self, lowering: Lowering, table: NodeTable, module_of: np.ndarray, members: list[int]
    ) -> dict[str, np.ndarray]:
        row_of_pattern = {stage.pattern: row for row, stage in enumerate(lowering.stages)}
        operator = table.columns["operator"].tolist()
        rows = []
        for step in lowering.steps:
            runs = []
            delta = 0
            for ids, sign in ((step.taken, -1), (step.made, 1)):
                found = [table.rows[id] for id in ids if id in table.rows]
                runs += [len(members), len(found)]
                members += found
                delta += sign * sum(operator[row] for row in found)
            anchor = table.rows.get(step.anchor)
            module = 0 if anchor is None else int(module_of[anchor])
            rows.append((row_of_pattern[step.pattern], module, self.strings(shortened(step.sentence)), delta, *runs))
        numbers = np.array(rows, np.int32).reshape(len(rows), len(_STEP))
        return {name: np.ascontiguousarray(numbers[:, i]) for i, name in enumerate(_STEP)}

    def _reasons(self, lowering: Lowering) -> list[dict[str, Any]]:
        frame = reasons_frame(lowering).head(_REASONS_SHOWN)
        return [
            {
                "pattern": row["pattern"],
                "condition": row["condition"],
                "sentence": shortened(row["sentence"]),
                "count": int(row["count"]),
                "anchors": list(row["anchors"][:_ANCHORS_SHOWN]),
            }
            for row in frame.to_dict("records")
        ]


_MATCH = (
    "pattern", "verdict", "anchor", "member", "members", "origin", "origins", "step", "fault", "passed", "total", "reason",
    "by",
)  # fmt: skip
_STEP = ("pattern", "module", "sentence", "delta", "taken", "takens", "made", "mades")


def make_scene(lowering: Lowering, **facts: Any) -> Scene:
    """The scene of a lowering, as it is first shown; `facts` are those of `SceneMaker.scene`."""
    return SceneMaker().scene(lowering, **facts)


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
