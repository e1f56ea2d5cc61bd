"""Why a pattern did not match at a node: the verdict that answers the question, whichever node was asked about."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lowerscope.check import Record
from lowerscope.explain import Explanation, explain
from lowerscope.history import history
from lowerscope.lowering import Lowering
from lowerscope.ops import display_name
from lowerscope.partitions import outside_reason
from lowerscope.pattern import REGISTRY, Pattern
from lowerscope.subgraph_constants import seen_inside
from lowerscope.verdict import RANK, Outcome, Verdict

#: How far from a node its nearest anchor is looked for: a match of ours spans at most five nodes.
_REACH = 4


def why_not(lowering: Lowering, pattern: str, node: str) -> Explanation:
    """Explain what became of `pattern` at `node` (the id of a node of any stage).

    A node that is no anchor itself is answered through what it became or came from, then through the match that held
    it, then through the nearest anchor whose match could have held it.

    UnknownNameError: no such pattern, or no such node.
    """
    id = lowering.id(node)
    return _answer(lowering, lowering.rule(pattern) or REGISTRY.get(pattern), id)


def why_not_all(lowering: Lowering, node: str, patterns: Iterable[str] | None = None) -> list[Explanation]:
    """Explain every pattern of the target at `node`, in the order of the stages. UnknownNameError: no such node."""
    id = lowering.id(node)
    names = [s.pattern for s in lowering.stages] if patterns is None else list(patterns)
    return [_answer(lowering, lowering.rule(name) or REGISTRY.get(name), id) for name in names]


def why_not_anywhere(lowering: Lowering, others: Mapping[str, Lowering], node: str) -> list[Explanation]:
    """Explain every pattern of every target at `node` of `lowering`; of what a target says as `lowering` does, nothing.

    others: lowerings of the same program by target. UnknownNameError: no such node.
    """
    id = lowering.id(node)
    home = lowering.recipe.target
    found = [_named(e, home) for e in why_not_all(lowering, id)]
    said = {(e.pattern, e.verdict, e.reason) for e in found}
    origins = lowering.origin(id)
    for target, other in others.items():
        known = [i for i in origins if i in other.ledger.records]
        for stage in other.stages:
            answers = [_answer(other, stage.rule, i) for i in known]
            best = min(answers, key=lambda e: (RANK[Outcome(e.verdict)], -e.passed), default=None)
            if best is not None and (best.pattern, best.verdict, best.reason) not in said:
                said.add((best.pattern, best.verdict, best.reason))
                found.append(_named(best, target))
    return found


def outside_anywhere(lowering: Lowering, others: Mapping[str, Lowering], node: str) -> str | None:
    """Why each target's backend leaves out `node` of `lowering`, or what became of it there: a line per target; None: none does."""
    origins = lowering.origin(node)
    lines = []
    for target, other in {lowering.recipe.target: lowering, **others}.items():
        nodes = [lowering.id(node)] if other is lowering else [i for i in origins if i in other.ledger.records]
        reason = next((r for i in nodes if (r := outside_reason(other, i)) is not None), None)
        lines += [f"{target}: {reason}"] if reason is not None else []
    return "\n".join(lines) or None


def verdict_of(lowering: Lowering, pattern: str, node: str) -> Verdict:
    """The verdict that `why_not` explains; of outcome NO_ANCHOR where no anchor is near."""
    return _verdict(lowering, lowering.rule(pattern) or REGISTRY.get(pattern), lowering.id(node))


def _named(explanation: Explanation, target: str) -> Explanation:
    return replace(explanation, target=target)


def _answer(lowering: Lowering, pattern: Pattern, id: str) -> Explanation:
    verdict = _verdict(lowering, pattern, id)
    told = history(lowering, verdict, id)
    line = set(lowering.ledger.line(id))
    if verdict.anchor not in line and line.isdisjoint(verdict.nodes) and line.isdisjoint(verdict.origins):
        told = (*told, f"{_called(lowering, id)} is no anchor of it: this is about the nearest, '{verdict.anchor}'")
    return explain(verdict, id, told)


def _verdict(lowering: Lowering, pattern: Pattern, id: str) -> Verdict:
    by_anchor = lowering.verdicts_by_anchor(pattern.name)
    line = lowering.ledger.line(id)
    own = [by_anchor[i] for i in line if i in by_anchor]
    if own:
        return min(own, key=_first)
    members = set(line)
    holding = [v for v in by_anchor.values() if not (members.isdisjoint(v.nodes) and members.isdisjoint(v.origins))]
    if holding:
        return min(holding, key=_first)
    nearest, passing = _nearest(lowering, line, by_anchor)
    return nearest or _no_anchor(lowering, pattern, id, passing)


def _first(verdict: Verdict) -> tuple[int, int]:
    return RANK[verdict.outcome], -verdict.passed


def _nearest(
    lowering: Lowering, line: tuple[str, ...], by_anchor: Mapping[str, Verdict]
) -> tuple[Verdict | None, Verdict | None]:
    """The verdict at the nearest anchor whose match could have held a node, and that at the nearest that could not.

    Those upstream come first: a match is anchored at its first node. A value that a sub-graph is given is looked for in
    there too: the weight of a convolution in a loop. A match that is applied could have held the node when an optional
    part of it failed.
    """
    if not by_anchor:
        return None, None
    ledger = lowering.ledger
    inside, outside = lowering.remember("operands", lambda: _operands(lowering))
    seen = set(line)
    queue = deque((id, 0) for id in line)
    best: tuple[int, int, bool, int, Verdict] | None = None
    passing: tuple[int, Verdict] | None = None
    while queue:
        id, distance = queue.popleft()
        if distance == _REACH or (best is not None and distance >= best[0]):
            break
        sources = (*ledger.sources(id), *outside.get(id, ()))
        readers = (*ledger.readers(id), *inside.get(id, ()))
        for upstream, others in ((0, sources), (1, readers)):
            for other in others:
                if other in seen:
                    continue
                seen.add(other)
                queue.append((other, distance + 1))
                lives = (other, *ledger.descendants(other))
                verdict = next((by_anchor[i] for i in lives if i in by_anchor), None)
                if verdict is None:
                    continue
                if verdict.outcome is Outcome.APPLIED and not verdict.record.failure():
                    passing = passing or (distance + 1, verdict)
                else:
                    idle = verdict.outcome is Outcome.NOTHING_TO_FUSE  # what has something to say speaks first
                    candidate = (distance + 1, upstream, idle, -verdict.passed, verdict)
                    if best is None or candidate[:4] < best[:4]:
                        best = candidate
    if (
        best is not None
        and passing is not None
        and passing[0] < best[0]
        and ledger.records[line[0]].op == "placeholder"
    ):
        best = None  # the weight of a match that is applied: what its neighbours lack is not about it
    return (best[4] if best is not None else None), (passing[1] if passing is not None else None)


def _operands(lowering: Lowering) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What stands for a value in sub-graphs, and what a placeholder of a sub-graph stands for."""
    inside: dict[str, list[str]] = {}
    outside: dict[str, list[str]] = {}
    for outer, inner in seen_inside(lowering.source.graph_module):
        inside.setdefault(outer, []).append(inner)
        outside.setdefault(inner, []).append(outer)
    return inside, outside


def _no_anchor(lowering: Lowering, pattern: Pattern, id: str, passing: Verdict | None) -> Verdict:
    called = _called(lowering, id)
    met_at = next((s.first for s in lowering.stages if s.pattern == pattern.name), len(lowering.steps))
    reason = f"{called} is no anchor of it, and none is within {_REACH} edges"
    if passing is not None:
        reason = f"{called} is no anchor of it, and the nearest match, applied at '{passing.anchor}', does not take it"
    return Verdict(pattern.name, id, Outcome.NO_ANCHOR, reason, Record(), (), (id,), met_at, pattern)


def _called(lowering: Lowering, id: str) -> str:
    record = lowering.ledger.records[id]
    return f"'{id}' ({display_name(record.target) if record.op == 'call_function' else record.op})"
