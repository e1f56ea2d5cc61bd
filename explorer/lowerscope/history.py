"""What became of a node in stages before the one that it is asked about: decomposed, folded, taken in, and from what."""

from __future__ import annotations

from lowerscope.ledger import NodeRecord
from lowerscope.lowering import Lowering
from lowerscope.ops import display_name
from lowerscope.pattern import Kind
from lowerscope.verdict import Outcome, Step, Verdict

_MOST = 4  #: sentences of one node
_NAMES = 6  #: nodes named in one of them


def history(lowering: Lowering, verdict: Verdict, node: str) -> tuple[str, ...]:
    """A sentence per step that took `node` before the verdict's stage met it, and one on where the node at fault is from.

    An explanation would not be whole without: the node that one asks about may not have been in the graph that the
    pattern met, or stands there as several others.
    """
    # what an earlier pattern took is judged where it was lost, and told of all the same
    met_at = next((s.first for s in lowering.stages if s.pattern == verdict.pattern), verdict.met_at)
    said = [*_at_load(lowering, node, verdict), *_became(lowering, node, met_at)]
    fault = verdict.fault
    if fault is not None and fault != node and verdict.outcome is not Outcome.APPLIED:
        source = decomposed_from(lowering, fault)
        if source is not None and source[0].id != node:
            record, step = source
            said.append(f"'{fault}' comes from {_called(record)}, which was {_verb(lowering, step)} {_place(step)}")
    if verdict.outcome is Outcome.APPLIED and not _holds(lowering, verdict, node):
        said.append(f"that match does not hold '{node}'")
    return tuple(dict.fromkeys(said))


def decomposed_from(lowering: Lowering, node: str) -> tuple[NodeRecord, Step] | None:
    """The node in whose place `node` was written, with others, and the step that did so; None: there is none.

    An op that became one other op, as conv2d becomes convolution, was not taken apart.
    """
    record = lowering.ledger.records.get(node)
    if record is None or record.born == 0 or record.op != "call_function":
        return None
    step = lowering.steps[record.born - 1]
    if _rule_kind(lowering, step) is not Kind.DECOMPOSITION or len(step.made) < 2:
        return None
    return lowering.ledger.records[step.anchor], step


def _at_load(lowering: Lowering, node: str, verdict: Verdict) -> list[str]:
    """What took the place of a node when the program was made functional, where the node asked about or at fault is in it."""
    if not lowering.taken_apart:
        return []
    line = {*lowering.origin(node), *(lowering.origin(verdict.fault) if verdict.fault is not None else ())}
    records = lowering.ledger.records
    targets = {n.name: n.target for n in lowering.given.graph.nodes} if lowering.given is not None else {}
    return [
        f"'{name}' ({display_name(targets[name])}) was decomposed at load, which makes the program functional, "
        f"into {', '.join(_called(records[m]) for m in made[:_NAMES])}"
        for name, made in lowering.taken_apart.items()
        if not line.isdisjoint(made)
    ]


def _became(lowering: Lowering, node: str, met_at: int) -> list[str]:
    """The steps up to `met_at` that took the node, and what they put in its place, and so on."""
    records, said, id = lowering.ledger.records, [], node
    while len(said) < _MOST:
        record = records[id]
        if record.op != "call_function" or record.died is None or not 0 < record.died <= met_at:
            break
        step = lowering.steps[record.died - 1]
        made = [m for m in step.made if records[m].op == "call_function"] or [step.result]
        decomposed = _rule_kind(lowering, step) is Kind.DECOMPOSITION
        if decomposed and len(made) == 1 and made[0] in step.made:  # another spelling: conv2d, convolution
            id = made[0]
            continue
        shown = [_called(records[m]) for m in made[:_NAMES]] + [f"{len(made) - _NAMES} more"] * (len(made) > _NAMES)
        said.append(f"{_called(record)} was {_verb(lowering, step)} {_place(step)}, into {', '.join(shown)}")
        id = next((m for m in made if records[m].died is not None and m != id), made[0])
    return said


def _holds(lowering: Lowering, verdict: Verdict, node: str) -> bool:
    line = set(lowering.ledger.line(node))
    return not (line.isdisjoint(verdict.nodes) and line.isdisjoint(verdict.origins) and verdict.anchor not in line)


def _verb(lowering: Lowering, step: Step) -> str:
    return "decomposed in" if _rule_kind(lowering, step) is Kind.DECOMPOSITION else "taken by"


def _rule_kind(lowering: Lowering, step: Step) -> Kind | None:
    rule = lowering.rule(step.pattern)
    return rule.kind if rule is not None else None


def _place(step: Step) -> str:
    return f"{step.pattern}, step {step.number}"


def _called(record: NodeRecord) -> str:
    return f"'{record.id}' ({display_name(record.target)})" if record.op == "call_function" else f"'{record.id}'"
