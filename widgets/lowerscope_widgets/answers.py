"""Answers to what the browser asks about a node: plain values in the shapes of the front end's protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from lowerscope import labels, why
from lowerscope.code_map import CodeMap
from lowerscope.errors import LowerscopeError
from lowerscope.explain import Explanation
from lowerscope.ledger import Ledger, NodeRecord
from lowerscope.lowering import Lowering, covers
from lowerscope.measure.counts import node_op_name
from lowerscope.partitions import Partitions, outside_reason, partitions
from lowerscope.scene_nodes import kind_of
from lowerscope.what_if import what_if

LISTED = 200  # ids in one answer: a mask may have ten thousand users
_BINS = 24
_SETTLED = ("applied", "no anchor", "error")  # verdicts that no small change of recipe or program is tried for


def inspection(lowering: Lowering, node: str) -> dict[str, Any]:
    """The protocol's Inspection of a node of any step. UnknownNameError: there is no such node."""
    id = lowering.id(node)
    records = lowering.ledger.records
    record = records[id]
    constants = lowering.source.constants
    kind = kind_of(record, constants)
    found = labels.source(record.trace)
    skip = next((str(s) for s in lowering.recipe.skips if s.pattern is None and covers(s, record)), None)
    return {
        "node": id,
        "op": node_op_name(record) if record.op == "call_function" else record.op,
        "target": labels.shortened(str(record.target)),
        "kind": labels.KINDS[kind],
        "module": [{"path": path, "type": type} for path, type in record.stack] or [{"path": "", "type": ""}],
        "source": None if found is None else {"file": found[0], "line": found[1], "text": found[2]},
        "output": _output(record, lowering),
        "strides": _strides(record.val),
        "arguments": _arguments(record, lowering.ledger),
        "users": _users(lowering, record),
        "constants": [
            _constant(records[i], lowering) for i in record.inputs if kind_of(records[i], constants) == labels.CONSTANT
        ],
        "origin": list(lowering.origin(id))[:LISTED],
        "became": list(lowering.became(id))[:LISTED],
        "born": _step(lowering, record.born),
        "died": _step(lowering, record.died),
        "delegated": _delegated(lowering, id) if kind == labels.OPERATOR else None,
        "skipped": skip,
    }


def why_not(lowering: Lowering, node: str, pattern: str | None) -> dict[str, Any]:
    """The protocol's WhyNot. UnknownNameError: no such node or pattern."""
    id = lowering.id(node)
    found = why.why_not_all(lowering, id) if pattern is None else [why.why_not(lowering, pattern, id)]
    return {"node": id, "delegated": outside_reason(lowering, id), "explanations": [explanation(e) for e in found]}


def explanation(found: Explanation) -> dict[str, Any]:
    """The protocol's Explanation."""
    return {
        "pattern": found.pattern,
        "node": found.node,
        "anchor": found.anchor if found.verdict != "no anchor" else None,
        "verdict": found.verdict,
        "reason": found.reason,
        "passed": found.passed,
        "total": found.total,
        "conditions": [
            {
                "name": row.name,
                "says": row.says,
                "part": row.part,
                "status": str(row.status),
                "expected": labels.shortened(row.expected),
                "actual": labels.shortened(row.actual),
                "node": row.node,
                "sentence": labels.shortened(row.sentence),
                "code_map": None if row.code_map is None else _code_map(row.code_map),
            }
            for row in found.conditions
        ],
        "nodes": list(found.nodes)[:LISTED],
        "by": None if found.by is None else {"pattern": found.by[0], "anchor": found.by[1]},
        "suggestions_possible": found.verdict not in _SETTLED,
    }


def _code_map(shown: CodeMap) -> dict[str, Any]:
    """The protocol's CodeMap."""
    return {
        "channel": shown.channel,
        "code": shown.code,
        "values": list(shown.values),
        "nearest": list(shown.nearest),
        "says": shown.says,
        "caption": shown.caption,
    }


def suggestions(
    lowering: Lowering, pattern: str, node: str, polled: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """The protocol's WhatIf: changes under which the pattern was seen to match. UnknownNameError: no such node or pattern.

    `polled` is called now and then; what it raises ends the search.
    """
    return {
        "pattern": pattern,
        "node": node,
        "suggestions": [
            {
                "says": found.says,
                "matches": True,
                "same": found.same,
                "parity": found.parity,
                "apply": None if found.recipe is None else found.recipe.as_dict(),
            }
            for found in what_if(lowering, pattern, node, polled)
        ],
    }


def statistics(lowering: Lowering, node: str) -> dict[str, Any]:
    """The protocol's Statistics of a constant. LowerscopeError: the node is none. UnknownNameError: there is no such node."""
    id = lowering.id(node)
    tensor = _tensor(lowering, id)
    values = tensor.detach().to("cpu")
    floats = (values.abs() if values.is_complex() else values).to(torch.float64).reshape(-1)
    finite = floats[torch.isfinite(floats)]
    answer: dict[str, Any] = {
        "node": id,
        "shape": labels.value_text(values),
        "dtype": labels.dtype_text(values.dtype),
        "min": None,
        "max": None,
        "mean": None,
        "std": None,
        "zeros": int((floats == 0).sum()),
        "nan": int(torch.isnan(floats).sum()),
        "histogram": [],
        "edges": [],
    }
    if finite.numel():
        low, high = float(finite.min()), float(finite.max())
        answer |= {"min": low, "max": high, "mean": float(finite.mean()), "std": float(finite.std(correction=0))}
        if low < high:
            answer["histogram"] = [int(c) for c in torch.histc(finite, _BINS, low, high)]
            answer["edges"] = torch.linspace(low, high, _BINS + 1, dtype=torch.float64).tolist()
        else:
            answer |= {"histogram": [finite.numel()], "edges": [low, high]}
    return answer


def _tensor(lowering: Lowering, id: str) -> torch.Tensor:
    record = lowering.ledger.records[id]
    if kind_of(record, lowering.source.constants) != labels.CONSTANT:
        raise LowerscopeError(f"'{id}' is computed when the program runs: only constants have statistics")
    for program in (lowering.source, lowering.program):
        if id in program.constants:
            return program.constants[id]
    # made by a step and taken away by a later one
    return lowering.program_at(record.born).constants[id]


def _output(record: NodeRecord, lowering: Lowering) -> str:
    said = labels.value_text(record.val)
    symbols = [s for s in lowering.source.dynamic_sizes if s in said]
    ranges = []
    for symbol in symbols:
        low, high = lowering.source.dynamic_sizes[symbol]
        ranges.append(f"{symbol} {low}..{high if high is not None else ''}")
    return f"{said} ({', '.join(ranges)})" if ranges else said


def _strides(val: Any) -> str:
    if not isinstance(val, torch.Tensor) or val.layout is not torch.strided:
        return ""
    return f"[{', '.join(map(str, val.stride()))}]"


def _arguments(record: NodeRecord, ledger: Ledger) -> list[dict[str, Any]]:
    """Arguments by name; of one that a rewrite changed in place, also what it was and until when."""
    given: dict[str, Any] = {name: labels.argument_text(value) for name, value in labels.arguments_of(record).items()}
    was: dict[str, list[str]] = {}
    for former in ledger.former:
        if former.node == record.id:
            for name, value in labels.arguments_of(former.of(record)).items():
                text, nodes = labels.argument_text(value)
                now = given.setdefault(name, ("default", nodes))
                if text != now[0]:
                    was.setdefault(name, []).append(f"{text} until step {former.step}")
    return [
        {"name": name, "text": ", ".join([text, *was.get(name, ())]), "nodes": nodes[:LISTED]}
        for name, (text, nodes) in given.items()
    ]


def _users(lowering: Lowering, record: NodeRecord) -> list[str]:
    """Who reads the node in the last graph that has it."""
    last = len(lowering.steps) if record.died is None else record.died - 1
    edges = lowering.ledger.neighbours()[1].get(record.id, ())
    found = [e.target for e in edges if e.born <= last and (e.died is None or e.died > last)]
    return list(dict.fromkeys(found))[:LISTED]


def _constant(record: NodeRecord, lowering: Lowering) -> dict[str, Any]:
    known = record.id in lowering.source.constants
    kind = lowering.source.constant_kind(record.id) if known else "made by a rewrite"
    spec = lowering.source.specs.get(record.id)
    name = spec.target if spec is not None and spec.target else str(record.target)
    return {"node": record.id, "name": name, "shape": labels.value_text(record.val), "kind": kind}


def _step(lowering: Lowering, number: int | None) -> dict[str, Any] | None:
    return None if not number else {"step": number, "pattern": lowering.steps[number - 1].pattern}


def _delegated(lowering: Lowering, id: str) -> dict[str, str] | None:
    """Whether the backend takes the node, or what becomes of it: "yes", the reason why not, or "" where it is not there."""
    before, after = partitions(lowering, "before"), partitions(lowering, "after")
    if before is None or after is None:
        return None
    line = lowering.ledger.line(id)
    return {"before": _taken(before, line), "after": _taken(after, line)}


def _taken(found: Partitions, line: Sequence[str]) -> str:
    outside = next((found.outside[id] for id in line if id in found.outside), None)
    if outside is not None:
        return outside
    return "yes" if any(id in found.delegated for id in line) else ""
