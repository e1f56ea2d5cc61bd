"""Every condition of every pattern has a program in which it holds and one in which it is the reason of a miss."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import lowerscope.lowering  # noqa: F401  (registers the patterns)
from lowerscope.check import Condition, Either
from lowerscope.pattern import REGISTRY, Pattern

_FOLDER = Path(__file__).parent / "patterns"
_TABLE = Path(__file__).parents[1] / "build" / "conditions.md"

OWN = sorted((p for p in REGISTRY if not p.yours), key=lambda p: p.name)


def _declared(pattern: Pattern) -> list[Condition]:
    ways = [item.name for item in pattern.conditions if isinstance(item, Either)]
    return [condition for condition, _ in pattern.condition_rows(ways)]


def _cases(pattern: Pattern) -> list[str]:
    """The conditions that the pattern's test module has a case for; none when there is no such module."""
    if not (_FOLDER / f"test_{pattern.name}.py").exists():
        return []
    module = importlib.import_module(f"tests.engine.patterns.test_{pattern.name}")
    return [case.condition for case in module.CONDITION_CASES]


@pytest.mark.parametrize("pattern", OWN, ids=lambda p: p.name)
def test_every_condition_has_a_passing_and_a_failing_program(pattern: Pattern):
    declared = [c.name for c in _declared(pattern)]
    assert len(set(declared)) == len(declared), "a condition's name is declared twice"
    cases = _cases(pattern)
    missing = [name for name in declared if name not in cases]
    assert not missing, f"tests/engine/patterns/test_{pattern.name}.py has no case for {', '.join(missing)}"
    unknown = [name for name in cases if name not in declared]
    assert not unknown, f"test_{pattern.name}.py has cases for {', '.join(unknown)}, which the pattern does not declare"


def test_the_table_of_conditions_is_written():
    lines = ["| pattern | condition | says | passing and failing |", "|---|---|---|---|"]
    for p in OWN:
        cases = _cases(p)
        lines += [f"| {p.name} | {c.name} | {c.says} | {cases.count(c.name) or 'missing'} |" for c in _declared(p)]
    _TABLE.parent.mkdir(exist_ok=True)
    _TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert len(lines) == 2 + sum(len(_declared(p)) for p in OWN)
    assert not [line for line in lines if "missing" in line]
