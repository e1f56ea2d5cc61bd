"""The header of a scene: patterns, skips, profile, counts, reasons, in the words that a view shows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from lowerscope.labels import shortened
from lowerscope.lowering import Lowering, StageInfo, covers
from lowerscope.ops import CATEGORIES
from lowerscope.pattern import Pattern
from lowerscope.recipe import Skip
from lowerscope.scene_nodes import NodeTable
from lowerscope.tables import counted
from lowerscope.target import TARGETS
from lowerscope.verdict import Outcome

COLORS = 12


class Palette:
    """Which colour (0..11) a pattern has: its own from when it is first seen.

    Of those first seen together the ones that bear upon the program choose first, and among them fusions.
    """

    def __init__(self) -> None:
        self._colors: dict[str, int] = {}

    def colors(self, patterns: tuple[Pattern, ...], busy: set[str]) -> list[int]:
        """The colours of `patterns`, in their order. `busy`: names of those that take, or nearly take, something."""
        for pattern in sorted(patterns, key=lambda p: (p.name not in busy, p.kind != "fusion")):
            self._colors.setdefault(pattern.name, len(self._colors) % COLORS)
        return [self._colors[pattern.name] for pattern in patterns]


def pattern_rows(lowering: Lowering, palette: Palette) -> list[dict[str, Any]]:
    """The protocol's PatternRow of each stage."""
    counts = counted(lowering)
    refused = lowering.target.refused
    rows = []
    patterns = lowering.patterns
    busy = {name for name, outcome in counts if outcome not in (Outcome.NOTHING_TO_FUSE, Outcome.NO_ANCHOR)}
    for number, (stage, pattern, color) in enumerate(
        zip(lowering.stages, patterns, palette.colors(patterns, busy), strict=True), 1
    ):
        of = {outcome: counts[pattern.name, outcome] for outcome in Outcome}
        rows.append(
            {
                "name": pattern.name,
                "number": number,
                "color": color,
                "kind": str(pattern.kind),
                "enabled": not stage.off,
                "locked": refused.get(pattern.name, stage.fault or None),
                "yours": pattern.yours,
                "mathematics": pattern.mathematics,
                "source": pattern.source,
                "applied": of[Outcome.APPLIED],
                "near": of[Outcome.NEAR_MISS],
                "skipped": of[Outcome.SKIPPED],
                "declined": of[Outcome.DECLINED],
                "shadowed": of[Outcome.SHADOWED],
                "would": of[Outcome.DISABLED],
                "summary": _summary(stage, of),
            }
        )
    return rows


def _summary(stage: StageInfo, of: dict[Outcome, int]) -> str:
    if stage.off:
        would = of[Outcome.DISABLED] + of[Outcome.SKIPPED]
        word = "disabled" if stage.off == "disabled" else "left out" if stage.fault else "skipped"
        return f"{word} · would match {would}" if would else f"{word} · would match nothing"
    words = {
        Outcome.APPLIED: "matched",
        Outcome.NEAR_MISS: "near",
        Outcome.DECLINED: "declined",
        Outcome.SKIPPED: "skipped",
        Outcome.SHADOWED: "shadowed",
        Outcome.ERROR: "failed",
    }
    said = [f"{of[outcome]} {word}" for outcome, word in words.items() if of[outcome]]
    if said:
        return " · ".join(said)
    looked = of[Outcome.NOTHING_TO_FUSE]
    return f"no match · {looked} ruled out" if looked else "no anchor in this model"


def skip_key(skip: Skip) -> str:
    """The key of a skip's chip."""
    return json.dumps(skip.as_dict(), sort_keys=True)


def skip_chips(lowering: Lowering) -> list[dict[str, Any]]:
    """The skip list as chips; one that finds nothing is shown as inactive and says so."""
    chips = []
    records = lowering.ledger.records
    skipped = {v.origins for v in lowering.verdicts.values() if v.outcome is Outcome.SKIPPED}
    for skip in lowering.recipe.skips:
        if skip.match is not None:
            active = any(tuple(sorted(origins)) == skip.match for origins in skipped)
            hint = "" if active else "no match covers these nodes any more"
        elif skip.whole_pattern:
            active, hint = True, ""
        else:
            active = any(covers(skip, record) for record in records.values())
            hint = "" if active else f"no {skip.kind} of this program is called that"
        chips.append(
            {
                "kind": skip.kind,
                "value": shortened(skip.value, 120),
                "pattern": skip.pattern,
                "active": active,
                "hint": hint,
                "key": skip_key(skip),
            }
        )
    return chips


def profile_fields(lowering: Lowering) -> list[dict[str, Any]]:
    """The target's device profile with the values that it has under the recipe."""
    values = lowering.target.device(lowering.recipe)
    return [
        {
            "name": f.name,
            "value": values[f.name],
            "kind": "choice" if f.choices else type(f.default).__name__,
            "choices": [str(c) for c in f.choices],
            "help": f.help,
        }
        for f in lowering.target.profile
    ]


def count_rows(table: NodeTable, before: np.ndarray, after: np.ndarray, strings: list[str]) -> list[dict[str, Any]]:
    """Operators by name, before and after; the last row is "total". `before`, `after`: which nodes compute then."""
    op, kind = table.columns["op"], table.columns["category"]
    size = len(strings)
    counts = np.stack([np.bincount(op[mask], minlength=size) for mask in (before, after)])
    category_of = dict(zip(op.tolist(), kind.tolist(), strict=True))
    rows = [
        _count(strings[i], CATEGORIES[category_of[i]], *counts[:, i].tolist()) for i in np.flatnonzero(counts.sum(0))
    ]
    rows.sort(key=lambda row: row["op"])
    return [*rows, _count("total", "", int(before.sum()), int(after.sum()))]


def _count(op: str, category: str, before: int, after: int) -> dict[str, Any]:
    return {
        "op": op,
        "category": category,
        "before": before,
        "after": after,
        "delta": after - before,
        "change": change(before, after),
    }


def change(before: int, after: int) -> str:
    """−51%, +20%, or ×123 from ten times as many on; empty where nothing was there before, or nothing changed."""
    if before == 0 or before == after:
        return ""
    if after >= 10 * before:
        return f"×{after / before:.0f}"
    per_cent = (after - before) / before * 100
    return f"{per_cent:+.{1 if abs(per_cent) < 1 else 0}f}%".replace("-", "−")


def program_facts(lowering: Lowering, name: str, nodes: int, modules: int) -> dict[str, Any]:
    """What is written on the toolbar."""
    return {
        "name": name,
        "target": lowering.target.name,
        "targets": list(TARGETS),
        "nodes": nodes,
        "modules": modules,
    }


def notice(lowering: Lowering, reasons: list[dict[str, Any]]) -> str | None:
    """What stands above the graph: operators that are not known here, a pattern that is left out, and why nothing but
    core_aten was applied; or None.
    """
    left_out = [f"{stage.fault}." for stage in lowering.stages if stage.fault]
    parts = [part for part in (_stand_ins(lowering), *left_out, _nothing_matched(lowering, reasons)) if part]
    return " ".join(parts) or None


def _stand_ins(lowering: Lowering) -> str:
    names = sorted(set(lowering.source.stand_ins.values()))
    if not names:
        return ""
    listed = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
    return f"{listed} not registered here: such nodes stay opaque, and parity is off, since they cannot run."


def _nothing_matched(lowering: Lowering, reasons: list[dict[str, Any]]) -> str:
    if any(step.pattern != "core_aten" for step in lowering.steps):
        return ""
    on = sum(1 for stage in lowering.stages if not stage.off and stage.pattern != "core_aten")
    if on == 0:
        return "Every pattern is off: switch one on to see what it takes."
    but = " but core_aten" if lowering.steps else ""
    said = f"No pattern of {lowering.target.name}{but} takes anything here"
    return f"{said}; most often: {reasons[0]['sentence']}." if reasons else f"{said}."
