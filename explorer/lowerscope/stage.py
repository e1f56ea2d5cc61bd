"""One stage of a lowering: a pattern is matched at every anchor of the graph, and applied where it may be."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.fx import Node

from lowerscope.check import Check, Failed, PartFailed, Record
from lowerscope.editor import Editor
from lowerscope.errors import LowerscopeError
from lowerscope.pattern import ANY, Declined, Match, Pattern
from lowerscope.recipe import Skip
from lowerscope.verdict import Outcome, Step, Verdict


@dataclass(slots=True)
class StageResult:
    """What a stage did: its verdicts (of later patterns too, where it took their nodes) and its steps."""

    pattern: str
    entry: tuple[int, int]
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    matched: bool = False  #: whether it found any match, applied or not


#: How far upstream of a match's inputs another anchor may stand that competes for its nodes (conv -> mul -> add).
_RIVAL_REACH = 2


@dataclass(slots=True)
class _Found:
    match: Match | None
    record: Record
    error: str | None = None


class Stage:
    """Runs `pattern` on the editor's graph. `later`: the patterns of the stages to come, which may lose nodes to it."""

    def __init__(
        self,
        editor: Editor,
        pattern: Pattern,
        *,
        later: Sequence[Pattern] = (),
        switched_off: str | None = None,
        skips: Sequence[Skip] = (),
    ) -> None:
        self.editor = editor
        self.pattern = pattern
        self.switched_off = switched_off  # "disabled", or what skips the whole pattern
        self.skipped_matches = {s.match: s for s in skips if s.match is not None and s.pattern == pattern.name}
        self.result = StageResult(pattern.name, editor.mark())
        editor.at_work = pattern
        editor.skipped_matches, editor.noted = frozenset(self.skipped_matches), {}
        self._later = _by_op(later)
        self._pending: set[str] = set()  # anchors whose turn is still to come
        self._rivals: dict[str, tuple[_Found, tuple[str, str]]] = {}  # what they would have matched, and who took it
        self._mutating = editor.mutating()
        self._skips = editor.skips
        self._checks: dict[str, Check] = {}  # one for each of our own patterns, used again at every anchor

    def run(self, polled: Callable[[], None] = lambda: None) -> StageResult:
        """Match and apply at one anchor after the other, in the order of the graph. `polled` is called now and then; whatever it raises ends the stage."""
        editor, pattern = self.editor, self.pattern
        queue = [editor.id_of(n) for n in anchors_of(pattern, editor)]
        while queue:
            made: list[str] = []
            self._pending = set(queue)
            for count, id in enumerate(queue):
                if count % 64 == 0:
                    polled()
                self._pending.discard(id)
                made += self._decide(id)
            queue = self._new_anchors(made) if pattern.repeats else []
        return self.result

    # ------------------------------------------------------------------ matching
    def _find(self, pattern: Pattern, anchor: Node) -> _Found:
        prefix = self.editor.prefixes[anchor.graph]
        check = self._check(pattern, () if self._skips else (prefix + anchor.name,))
        try:
            if pattern.yours:
                pattern.is_anchor(anchor)  # what it raised when anchors were listed is told here
            if self._skips:
                check.not_skipped(anchor)
                check.touch(anchor)
            match = pattern.match(anchor, check)
            if match is not None:
                if self._skips:
                    for node in match.nodes:
                        check.not_skipped(node)
                self._engine_conditions(match, check)
            return _Found(match, check.record)
        except (Failed, PartFailed):
            return _Found(None, check.record)
        except Exception as error:  # a pattern's own mistake becomes its verdict: the other patterns go on
            return _Found(None, check.record, _place_of(error))

    def _check(self, pattern: Pattern, touched: tuple[str, ...]) -> Check:
        check = self._checks.get(pattern.name)
        if check is None:
            check = Check(pattern.declared(), self.editor)
            if not pattern.yours:  # a user's pattern may hold on to its check
                self._checks[pattern.name] = check
        check.begin(touched)
        return check

    def _engine_conditions(self, match: Match, check: Check) -> None:
        graph, output = match.anchor.graph, match.output
        taken, leaving = set(match.nodes), []
        for node in match.nodes:
            if node.graph is not graph:
                check.fail("one_graph", at=node, expected=match.anchor, actual=node)
            if node is not output and not taken.issuperset(node.users):
                leaving.append(node)
        if leaving:
            back = _path_back(leaving, taken, output)
            if back is not None:
                check.fail("no_cycle", at=back, expected="no way back into the match", actual=back)
        if self._mutating and len(match.nodes) > 1:
            first, last = min(match.nodes), max(match.nodes)
            between = next((n for n in self._mutating if n.graph is graph and not n._erased and first < n < last), None)
            if between is not None:
                check.fail("no_mutation_between", at=between, expected="nothing written", actual=str(between.target))

    def _note_rivals(self, match: Match) -> None:
        """Match at the anchors to come from which this match is about to take nodes, while it can still be told."""
        taken, near = set(match.nodes), list(match.boundary)
        for distance in range(_RIVAL_REACH):
            near = [n for n in near if n.op == "call_function"]
            for node in near:
                id = self.editor.id_of(node)
                if id in self._pending and id not in self._rivals:
                    found = self._find(self.pattern, node)
                    if found.match is not None and not taken.isdisjoint(found.match.nodes):
                        self._rivals[id] = (found, (self.pattern.name, self.editor.id_of(match.anchor)))
            if distance + 1 < _RIVAL_REACH:
                near = [s for n in near for s in n.all_input_nodes]

    # ------------------------------------------------------------------ deciding
    def _decide(self, id: str) -> list[str]:
        """Give the verdict at one anchor, applying the match if there is one; the ids that were made."""
        node = self.editor.nodes.get(id)
        found = self._find(self.pattern, node) if node is not None else _Found(None, Record())
        if found.match is None and id in self._rivals:
            found, by = self._rivals[id]
            self._give(id, Outcome.SHADOWED, found, reason=f"shadowed by {by[0]} at {by[1]}", by=by)
            return []
        if node is None:  # it went with a match that took it in whole
            return []
        if found.error is not None:
            self._give(id, Outcome.ERROR, found, reason=found.error)
            return []
        if found.match is None:
            silent = self.pattern.yours and found.record.root() is None
            reason = "its match returned nothing though no condition failed: return a Match" if silent else ""
            self._give(id, self._miss(self.pattern, found.record), found, reason=reason)
            return []
        self.result.matched = True
        prefixes = self.editor.prefixes
        nodes = tuple([prefixes[n.graph] + n.name for n in found.match.nodes])
        found.record.touched = nodes
        if self.switched_off is not None:
            outcome = Outcome.DISABLED if self.switched_off == "disabled" else Outcome.SKIPPED
            self._give(id, outcome, found, reason=self.switched_off)
            return []
        skip = self.skipped_matches.get(self._origins(nodes)) if self.skipped_matches else None
        if skip is not None:
            self._give(id, Outcome.SKIPPED, found, reason=f"skipped by {skip}")
            return []
        return self._apply(id, found, found.match, nodes)

    def _apply(self, id: str, found: _Found, match: Match, nodes: tuple[str, ...]) -> list[str]:
        editor, pattern = self.editor, self.pattern
        shadowed = self._would_lose(match)
        if self._pending and len(nodes) > 1:
            self._note_rivals(match)
        module, output = common_module(editor, match.nodes), editor.id_of(match.output)
        mark, origins = editor.mark(), self._origins(nodes)
        try:
            sentence = pattern.sentence(match)
            with editor.rewriting(match):
                replacement = pattern.rewrite(match, editor)
                if not isinstance(replacement, Declined):
                    gone, made = editor.finish(replacement)
        except LowerscopeError as error:
            replacement = Declined(str(error))
        except Exception as error:  # as in matching: shown as this pattern's verdict, with its line
            self._give(id, Outcome.ERROR, found, reason=_place_of(error))
            return []
        if isinstance(replacement, Declined):
            editor.undo_to(mark)
            self._give(id, Outcome.DECLINED, found, reason=replacement.reason)
            return []
        editor.made_by[editor.step] = pattern
        # a rewrite that changed what the output reads, and made nothing in its place, leaves the value where it was
        kept = replacement is None and (output in editor.nodes or not made)
        result = output if kept else made[-1] if replacement is None else editor.id_of(replacement)
        self.result.steps.append(
            Step(editor.step, pattern.name, id, sentence, module, tuple(gone), tuple(made), output, result)
        )
        self._give(id, Outcome.APPLIED, found, step=editor.step, origins=origins)
        for verdict in shadowed:
            self.result.verdicts[verdict.pattern, verdict.anchor] = verdict
        return list(made)

    def _would_lose(self, match: Match) -> list[Verdict]:
        """Verdicts of later patterns at the nodes that this match is about to take."""
        lost = []
        for node in match.nodes:
            for other in self._later.get(node.target, ()):
                if _may_start(other, node):
                    found = self._find(other, node)
                    anchor = self.editor.id_of(node)
                    by = (self.pattern.name, self.editor.id_of(match.anchor))
                    if found.match is not None:
                        found.record.touched = tuple([self.editor.id_of(n) for n in found.match.nodes])
                        outcome, reason = Outcome.SHADOWED, f"shadowed by {self.pattern.name}"
                        # the way out: write it for what comes of the decomposition
                        if other.yours and self.pattern.kind == "decomposition":
                            reason += f", before which it does not run: {self.pattern.sentence(match).rstrip('.')}"
                    elif found.error is not None:
                        outcome, reason = Outcome.ERROR, found.error
                    else:
                        outcome, reason = self._miss(other, found.record), ""
                    lost.append(self._verdict(other, anchor, outcome, found, reason, by=by))
        return lost

    def _miss(self, pattern: Pattern, record: Record) -> Outcome:
        failed = record.root()
        if failed is None:
            return Outcome.NOTHING_TO_FUSE
        if failed == "not_skipped":
            return Outcome.SKIPPED
        return Outcome.NOTHING_TO_FUSE if failed in pattern.nothing_to_fuse else Outcome.NEAR_MISS

    def _give(self, id: str, outcome: Outcome, found: _Found, reason: str = "", **more: Any) -> None:
        self.result.verdicts[self.pattern.name, id] = self._verdict(self.pattern, id, outcome, found, reason, **more)

    def _verdict(
        self,
        pattern: Pattern,
        anchor: str,
        outcome: Outcome,
        found: _Found,
        reason: str,
        step: int | None = None,
        by: tuple[str, str] | None = None,
        origins: tuple[str, ...] | None = None,
    ) -> Verdict:
        touched = found.record.touched
        nodes = tuple(touched) if len(touched) == 1 else tuple(dict.fromkeys(touched))
        # made so, it costs a third of a call of the class
        return tuple.__new__(Verdict, (
            pattern.name, anchor, outcome, reason, found.record, nodes,
            self.editor.origins(nodes) if origins is None else origins, self.result.entry[1], pattern, step, by,
        ))  # fmt: skip

    def _origins(self, nodes: Iterable[str]) -> tuple[str, ...]:
        return self.editor.origins(nodes)

    def _new_anchors(self, made: Sequence[str]) -> list[str]:
        nodes = [self.editor.nodes[id] for id in made if id in self.editor.nodes]
        around = dict.fromkeys([*nodes, *(u for n in nodes for u in n.users)])
        return [self.editor.id_of(n) for n in sorted(around) if n.op == "call_function" and is_anchor(self.pattern, n)]


def anchors_of(pattern: Pattern, editor: Editor) -> list[Node]:
    """The nodes at which `pattern` may start, in the order of the graph, sub-graphs included."""
    found: list[Node] = []
    listed = pattern.anchors_in(editor)
    if listed is not None:
        return list(listed)
    for graph in editor.graphs.values():
        if pattern.anchors is ANY:
            found += [n for n in graph.nodes if n.op == "call_function" and _may_start(pattern, n)]
            continue
        here = [
            n for target in pattern.anchors for n in graph.find_nodes(op="call_function", target=target, sort=False)
        ]
        found += sorted(n for n in here if _may_start(pattern, n))
    return found


def _may_start(pattern: Pattern, node: Node) -> bool:
    """`is_anchor`; a node at which a user's pattern raises counts, so that its verdict says so."""
    try:
        return pattern.is_anchor(node)
    except Exception:
        if not pattern.yours:
            raise
        return True


def is_anchor(pattern: Pattern, node: Node) -> bool:
    """Whether `pattern` may start at `node`."""
    return (pattern.anchors is ANY or node.target in pattern.anchors) and _may_start(pattern, node)


def common_module(editor: Editor, nodes: Sequence[Node]) -> str:
    """The innermost module path that all the nodes share."""
    stacks = [[path for path, _ in editor.ledger.records[editor.id_of(n)].stack] for n in nodes]
    common = ""
    for level in zip(*stacks, strict=False):
        if any(path != level[0] for path in level):
            break
        common = level[0]
    return common


def _by_op(patterns: Sequence[Pattern]) -> Mapping[Any, list[Pattern]]:
    table: dict[Any, list[Pattern]] = {}
    for p in patterns:
        for op in () if p.anchors is ANY else p.anchors:
            table.setdefault(op, []).append(p)
    return table


def _path_back(leaving: Sequence[Node], taken: set[Node], output: Node) -> Node | None:
    """The first node outside the match through which a path leads from it back into it, or None."""
    seen: set[Node] = set()
    todo = [u for n in leaving for u in n.users if u not in taken]
    while todo:
        node = todo.pop()
        if node in seen or not node < output:
            continue
        seen.add(node)
        if any(user in taken for user in node.users):
            return node
        todo.extend(node.users)
    return None


#: Where the code of a pattern that a user wrote does not lie.
_NOT_THE_USERS = tuple(str(Path(package).parent) + os.sep for package in (__file__, torch.__file__))


def _place_of(error: BaseException) -> str:
    """An exception in a pattern as one sentence: what, and the line of the pattern where it arose."""
    frames = traceback.extract_tb(error.__traceback__)
    # a `where` of the user's is called from a match of ours: its line, not that of the call
    made = [f for f in frames if (f.filename, f.name) != ("<string>", "__init__")]  # a dataclass's, of no line
    own = [f for f in made if not f.filename.startswith(_NOT_THE_USERS)]
    own = own or [f for f in frames if f.name in ("match", "rewrite", "is_anchor", "sentence")] or frames
    place = own[-1] if own else None
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    where = f" at line {place.lineno} of {place.filename.rpartition('/')[2]}: {place.line}" if place else ""
    return f"{type(error).__name__}: {text}{where}"
