"""Sizes and guards in a file: those that torch writes pass, all that could become code is refused."""

from __future__ import annotations

import pytest

from lowerscope.archive.expressions import Refused, check_expression, check_guard


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s0', positive=True, integer=True)",
        "Add(Mul(Integer(2), Symbol('s77', integer=True)), Integer(-1))",
        "FloorDiv(Pow(Symbol('s0'), Integer(2)), Integer(3))",
        "Max(Integer(1), Mod(Symbol('u0'), Rational(1, 2)))",
        "Equality(Symbol('s0'), Float('2.5', precision=53))",
        "2*s0 + 1",
    ],
)
def test_sizes_as_torch_writes_them_pass(text: str) -> None:
    check_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "(lambda: 1)()",
        "[x for x in (1,)]",
        "s0.__class__",
        "Symbol('s0').func",
        "Symbol('__import__(1)')",
        "lambdify('x', 'x')",
        "parse_expr('1')",
        "Integer('__import__')",
        "Float('__import__')",
        "Pow(Integer(9), Integer(999999999))",
        "9**9**9",
        "Pow(Pow(Integer(9), Integer(64)), Integer(64))",
        "f'{s0}'",
        "s0 # comment",
        "s0; s1",
        "s0\n+1",
        "(" * 5000 + "s0" + ")" * 5000,
        "s0 if s0 else s1",
    ],
)
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        check_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "(L['x'].size()[0] % 2) == 0",
        "L['d']['a'].size()[0] > L['args'][0].stride()[1]",
        "max(1, L['x'].size()[0] // 2) != 1 and not (L['n'] <= 3)",
        "math.trunc(L['x'].size()[0] / 2) == 4",
        "torch.sym_float(L['x'].size()[0]) == 4.0",
    ],
)
def test_guards_as_torch_writes_them_pass(text: str) -> None:
    check_guard(text)


@pytest.mark.parametrize(
    "text",
    [
        "exit()",
        "L['x'].__class__",
        "L.pop('x')",
        "torch.load('x')",
        "math.os",
        "L['x\"']",
        "(y := 1)",
        "L['x'].size(*[1])",
        "torch.sym_float",
    ],
)
def test_other_guards_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        check_guard(text)
