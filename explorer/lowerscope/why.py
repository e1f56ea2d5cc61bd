"""Why a pattern did not match at a node: the verdict that answers the question, whichever node was asked about."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from lowerscope.check import Record
from lowerscope.explain import Explanation, explain
from lowerscope.ledger import Ledger
from lowerscope.lowering import Lowering
from lowerscope.pattern import REGISTRY, Pattern
from lowerscope.verdict import Outcome, Verdict

#: How far from a node its nearest anchor is looked for: a match of ours spans at most five nodes.
_REACH = 4
#: Which verdict speaks first when a node has had several lives.
_RANK = {
    Outcome.APPLIED: 0,
    Outcome.ERROR: 1,
    Outcome.DECLINED: 2,
    Outcome.SKIPPED: 3,
    Outcome.SHADOWED: 4,
    Outcome.DISABLED: 5,
    Outcome.NEAR_MISS: 6,
    Outcome.NOTHING_TO_FUSE: 7,
    Outcome.NO_ANCHOR: 8,
}


def why_not(lowering: Lowering, pattern: str, node: str) -> Explanation:
    """Explain what became of `pattern` at `node` (the id of a node of any stage).

    A node that is no anchor itself is answered through what it became or came from, then through the match that held
    it, then through the nearest anchor whose match could have held it.

    UnknownNameError: no such pattern, or no such node.
    """
    found = REGISTRY.get(pattern)
    id = lowering.id(node)
    return _answer(lowering, found, id, list(lowering.verdicts_of(pattern)))


def why_not_all(lowering: Lowering, node: str, patterns: Iterable[str] | None = None) -> list[Explanation]:
    """Explain every pattern of the target at `node`, in the order of the stages. UnknownNameError: no such node."""
    id = lowering.id(node)
    names = [s.pattern for s in lowering.stages] if patterns is None else list(patterns)
    by_pattern: dict[str, list[Verdict]] = {name: [] for name in names}
    for verdict in lowering.verdicts.values():
        if verdict.pattern in by_pattern:
            by_pattern[verdict.pattern].append(verdict)
    return [_answer(lowering, REGISTRY.get(name), id, by_pattern[name]) for name in names]


def _answer(lowering: Lowering, pattern: Pattern, id: str, verdicts: list[Verdict]) -> Explanation:
    by_anchor = {v.anchor: v for v in verdicts}
    line = lowering.ledger.line(id)
    own = [by_anchor[i] for i in line if i in by_anchor]
    if own:
        return explain(pattern, min(own, key=_first), id)
    members = set(line)
    holding = [v for v in verdicts if members.intersection(v.nodes) or members.intersection(v.origins)]
    if holding:
        return explain(pattern, min(holding, key=_first), id)
    near = _nearest(lowering.ledger, line, by_anchor)
    if near is not None:
        return explain(pattern, near, id)
    return explain(pattern, _no_anchor(lowering, pattern, id), id)


def _first(verdict: Verdict) -> tuple[int, int]:
    return _RANK[verdict.outcome], -verdict.passed


def _nearest(ledger: Ledger, line: tuple[str, ...], by_anchor: Mapping[str, Verdict]) -> Verdict | None:
    """The verdict at the nearest anchor, those upstream first: a match is anchored at its first node."""
    if not by_anchor:
        return None
    into, out_of = ledger.neighbours()
    seen = set(line)
    queue = deque((id, 0) for id in line)
    best: tuple[int, int, int, Verdict] | None = None
    while queue:
        id, distance = queue.popleft()
        if distance == _REACH or (best is not None and distance >= best[0]):
            break
        sources = [edge.source for edge in into.get(id, ())]
        readers = [edge.target for edge in out_of.get(id, ())]
        for upstream, others in ((0, sources), (1, readers)):
            for other in others:
                if other in seen:
                    continue
                seen.add(other)
                queue.append((other, distance + 1))
                verdict = by_anchor.get(other)
                if verdict is not None and verdict.outcome is not Outcome.APPLIED:
                    candidate = (distance + 1, upstream, -verdict.passed, verdict)
                    if best is None or candidate[:3] < best[:3]:
                        best = candidate
    return best[3] if best is not None else None


def _no_anchor(lowering: Lowering, pattern: Pattern, id: str) -> Verdict:
    record = lowering.ledger.records[id]
    target = getattr(record.target, "__name__", str(record.target))
    return Verdict(
        pattern.name,
        id,
        Outcome.NO_ANCHOR,
        f"'{id}' ({target}) is no anchor of it, and none is within {_REACH} edges",
        Record(),
        (),
        (id,),
        record.born,
        sum(1 for _ in pattern.condition_rows()),
    )
