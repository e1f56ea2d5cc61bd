"""What `report --json` and `why --json` print: the objects, and what each key of them means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from lowerscope.explain import Explanation
from lowerscope.session import Session

_CONDITION = {
    "condition": "its name, which is stable",
    "part": 'the optional part that it belongs to; "" of none',
    "status": "passed, failed, not reached, or follows (from the one that failed)",
    "expected": "what it wants",
    "actual": "what it found",
    "node": "the node that it looked at",
    "says": "what holds when it passes",
    "sentence": 'why it failed; "" when it did not',
}

#: key -> its meaning, with the keys of each of its objects where it holds several.
REPORT_KEYS: dict[str, tuple[str, dict[str, str]]] = {
    "program": ("name of the model", {}),
    "target": ("name of the target", {}),
    "recipe": (
        "what differs from the target's defaults: target, and disabled, enabled, keep, skips, insertions, profile",
        {},
    ),
    "patterns": (
        "by name, in the target's order",
        {
            "kind": "fold, fusion, decomposition, layout or lowering",
            "enabled": "whether it runs",
            "applied": "number of matches that were rewritten",
            "near": "number of near misses",
            "skipped": "number of matches that a skip left alone",
            "declined": "number of matches that the rewrite refused",
            "shadowed": "number of anchors that another pattern took",
            "would": "number of matches that it would take, were it enabled",
            "errors": "number of anchors at which it raised an error",
            "note": 'why it is off, or its first error; "" otherwise',
        },
    ),
    "near_misses": (
        "a list, the nearest first",
        {
            "pattern": "name of the pattern",
            "anchor": "name of the node; `lowerscope why` takes it",
            "passed": "number of conditions that held",
            "of": "number of conditions on the path taken",
            "reason": "the one condition that failed, in a sentence",
        },
    ),
    "operators": (
        'by name; the last is "total"',
        {
            "before": "number of them in the original program",
            "after": "number of them in the lowered program",
            "delta": "after - before",
        },
    ),
    "parity": (
        "a list, one per output and mutated state; null where there is no finite number",
        {
            "output": "its name",
            "verdict": "equal, close, different, incomparable or nondeterministic",
            "why": 'what is wrong with it; "" when nothing is',
            "shape_agrees": "whether the shapes are the same",
            "dtype_agrees": "whether the dtypes are the same",
            "nan_agrees": "whether NaN and infinities are at the same places",
            "max_abs": "largest absolute difference",
            "where": "its index",
            "p99_abs": "99th percentile of the absolute differences",
            "sqnr_db": "signal-to-noise ratio in dB; null where there is no noise",
            "norm_l2": "L2 norm of the difference over that of the original",
            "oracle_ratio": "RMSE against a float64 run, lowered over original",
            "elements": "number of elements",
            "different": "number of elements that differ",
            "batch": "the inputs that decide",
        },
    ),
}
WHY_KEYS: dict[str, tuple[str, dict[str, str]]] = {
    "pattern": ("name of the pattern", {}),
    "node": ("the node that was asked about", {}),
    "anchor": ("the node that the pattern looks at, where the two differ", {}),
    "verdict": ("applied, near miss, nothing to fuse, skipped, declined, shadowed, disabled, error or no anchor", {}),
    "reason": ("why, in a sentence", {}),
    "conditions": ("a list, in the pattern's order", _CONDITION),
}


def report_object(session: Session, near_misses: pd.DataFrame, parity: pd.DataFrame) -> dict[str, Any]:
    """The object of `report --json`; its keys are `REPORT_KEYS`."""
    return {
        "program": session.program.name,
        "target": session.target,
        "recipe": session.recipe.as_dict(),
        "patterns": _by_name(session.patterns()),
        "near_misses": _rows(near_misses),
        "operators": _by_name(session.op_counts()),
        "parity": _rows(parity.reset_index()),
    }


def why_object(explanation: Explanation) -> dict[str, Any]:
    """The object of `why --json`; its keys are `WHY_KEYS`."""
    return {
        "pattern": explanation.pattern,
        "node": explanation.node,
        "anchor": explanation.anchor,
        "verdict": explanation.verdict,
        "reason": explanation.reason,
        "conditions": _rows(explanation.to_frame().reset_index()),
    }


def documented(keys: Mapping[str, tuple[str, Mapping[str, str]]]) -> str:
    """The keys as a text for `--help`, a line each, those of inner objects below and further in."""
    lines = []
    for key, (meaning, inner) in keys.items():
        lines.append(f"  {key:<15}{meaning}")
        lines += [f"    {name:<13}{says}" for name, says in inner.items()]
    return "\n".join(lines)


def _by_name(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    return dict(zip(map(str, frame.index), _rows(frame), strict=True))


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): _plain(v) for k, v in row.items()} for row in frame.to_dict(orient="records")]


def _plain(value: Any) -> Any:
    """As JSON has it: Python's numbers for numpy's, and null for what is no finite number."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
