"""What a lowerer's stages did, by the graph that each met: a stage that meets the same graph again need not run.

A `Place` is a state of the graph, known by the way that leads there from the program; the editor goes from one to
another by taking changes back and doing them again. A stage that found no match anywhere left the graph as it was, and
would whether it is on or off, and whatever patterns follow: its verdicts are the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lowerscope.editor import Editor
from lowerscope.journal import Undone
from lowerscope.ledger import Ledger, NodeRecord
from lowerscope.stage import StageResult

#: How many stages' results are kept: those of five recipes or so. One of 10,000 nodes takes up to 5 MB.
_MOST_KEPT = 40


@dataclass(eq=False, slots=True)
class Place:
    """A state of the graph: what it was made from, the journal's mark there, and how to come here from `before`."""

    before: Place | None
    mark: tuple[int, int]
    undone: Undone | None = None  #: None while the graph is here, or further on
    ledger: Ledger | None = field(default=None, repr=False)  #: as it is here, once somebody has asked

    def way(self) -> Iterator[Place]:
        """This place and those before it, back to the program."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.before


@dataclass(frozen=True, slots=True)
class StageKey:
    """What a stage's result depends on beside the graph. `found`: what decides what it finds there; `off` and `later`
    (the patterns behind it, which may lose nodes to it) matter once it has found something."""

    found: Any
    off: str
    later: tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Ran:
    """One run of a stage: its result and the graph that it left. left: of core_aten, the nodes of the graph behind it."""

    result: StageResult
    behind: Place
    left: Mapping[str, NodeRecord] | None


class StageMemory:
    """The results of stages, by the graph that they met and their keys, and the editor's way between those graphs."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._kept: OrderedDict[tuple[Place, Any], Ran] = OrderedDict()
        self.root = self.here = Place(None, editor.mark())

    def get(self, place: Place, key: StageKey) -> Ran | None:
        """What a stage by this key does to the graph at `place`; None: that is not known."""
        for short in ((place, key.found), (place, key)):
            if short in self._kept:
                self._kept.move_to_end(short)
                return self._kept[short]
        return None

    def keep(self, place: Place, key: StageKey, result: StageResult, left: Mapping[str, NodeRecord] | None) -> Ran:
        """Write down what a stage did to the graph at `place`, where the editor was; it is at what the stage left now."""
        mark = self._editor.mark()
        self.here = place if mark == place.mark else Place(place, mark)
        ran = Ran(result, self.here, left)
        self._kept[place, key if result.matched else key.found] = ran
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return ran

    def forget(self, but: Iterable[Ran]) -> None:
        """Let go of all results but these."""
        wanted = set(but)
        self._kept = OrderedDict((key, ran) for key, ran in self._kept.items() if ran in wanted)

    def go(self, place: Place) -> None:
        """Bring the editor's graph to `place`. What was done to it since the last stage is taken back."""
        self._editor.undo_to(self.here.mark)
        onwards: list[Place] = []
        behind = set(self.here.way())
        for step in place.way():
            if step in behind:
                break
            onwards.append(step)
        meeting = onwards[-1].before if onwards else place
        while self.here is not meeting:
            before = self.here.before
            assert before is not None  # every way begins at the program
            self.here.undone = self._editor.take_back(before.mark)
            self.here = before
        for step in reversed(onwards):
            assert step.undone is not None  # the graph was there, and has left it
            self._editor.put_back(step.undone)
            step.undone = None
            self.here = step

    def ledger_at(self, place: Place) -> Ledger:
        """A frozen copy of the ledger as it is at `place`."""
        if place.ledger is None:
            self.go(place)
            place.ledger = self._editor.ledger.freeze()
        return place.ledger
