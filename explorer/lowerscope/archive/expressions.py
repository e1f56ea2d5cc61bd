"""Allow-lists for the text in a file that torch would evaluate as Python.

- Symbolic sizes are sympy expressions, which `sympy.sympify` evaluates with `eval`.
- Guards are Python expressions, which `ExportedProgram.module` pastes into a function and executes.
"""

from __future__ import annotations

import ast
import re

_LONGEST = 20_000
_LARGEST_EXPONENT = 64
_LARGEST_INTEGER = 1 << 64
_LARGEST_PRECISION = 1000

_NUMBER_TEXT = re.compile(r"-?[0-9.]{1,400}([eE][+-]?[0-9]{1,6})?")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_LOGIC = (ast.BitAnd, ast.BitOr, ast.And, ast.Or, ast.Not, ast.Invert, ast.USub, ast.UAdd)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_POWERS = frozenset({"Pow", "PowByNatural", "FloatPow", "LShift"})
_TRUTHS = frozenset({"true", "false", "True", "False"})

_FUNCTIONS = frozenset(
    [
        "Integer",
        "Float",
        "Rational",
        "Add",
        "Mul",
        "Abs",
        "Min",
        "Max",
        "Piecewise",
        "ExprCondPair",
        "Tuple",
        "And",
        "Or",
        "Not",
        "Xor",
        "Equality",
        "Unequality",
        "StrictLessThan",
        "StrictGreaterThan",
        "LessThan",
        "GreaterThan",
        "Eq",
        "Ne",
        "Lt",
        "Le",
        "Gt",
        "Ge",
        "Infinity",
        "NegativeInfinity",
        "BooleanTrue",
        "BooleanFalse",
        "floor",
        "ceiling",
        "sqrt",
        "exp",
        "log",
        "sin",
        "cos",
        "tan",
        "FloorDiv",
        "ModularIndexing",
        "Where",
        "PythonMod",
        "Mod",
        "CleanDiv",
        "CeilToInt",
        "FloorToInt",
        "CeilDiv",
        "RShift",
        "FloatTrueDiv",
        "IntTrueDiv",
        "IsNonOverlappingAndDenseIndicator",
        "TruncToFloat",
        "TruncToInt",
        "RoundToInt",
        "RoundDecimal",
        "ToFloat",
        "Identity",
        "OpaqueUnaryFn_sqrt",
        "OpaqueUnaryFn_cos",
        "OpaqueUnaryFn_cosh",
        "OpaqueUnaryFn_sin",
        "OpaqueUnaryFn_sinh",
        "OpaqueUnaryFn_tan",
        "OpaqueUnaryFn_tanh",
        "OpaqueUnaryFn_asin",
        "OpaqueUnaryFn_acos",
        "OpaqueUnaryFn_atan",
        "OpaqueUnaryFn_exp",
        "OpaqueUnaryFn_log",
        "OpaqueUnaryFn_log2",
    ]
)

_GUARD_METHODS = frozenset({"size", "stride", "storage_offset", "numel", "dim"})
_GUARD_FUNCTIONS = frozenset({"abs", "bool", "float", "int", "len", "max", "min", "round"})
_GUARD_MATH = frozenset({"ceil", "floor", "trunc", "sqrt", "log2", "pow", "inf"})
_GUARD_TORCH = frozenset({"sym_float", "sym_int", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_ite"})
_GUARD_SYMPY = frozenset({"IsNonOverlappingAndDenseIndicator", "cast_symbool_to_symint_guardless"})


class Refused(Exception):
    """Text outside the allow-list."""


def check_expression(text: str) -> None:
    """Pass a symbolic size as torch writes it: ``srepr`` text such as ``Mul(Integer(2), Symbol('s0', integer=True))``.

    Raises:
        Refused: it calls, names or computes anything beyond arithmetic on symbols and numbers.
    """
    _expression(_parse(text))


def check_guard(text: str) -> None:
    """Pass a guard as torch writes it, such as ``L['x'].size()[0] % 2 == 0``.

    Raises:
        Refused: it does anything beyond arithmetic on the inputs' sizes and strides.
    """
    _guard(_parse(text))


def _parse(text: str) -> ast.expr:
    if len(text) > _LONGEST or not text.isascii() or not text.isprintable() or "#" in text:
        raise Refused("it is not one short line of plain text")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refused("it is not an expression") from error


def _expression(node: ast.expr) -> bool:
    """Check `node`; whether it contains a symbol, since a power of plain numbers is computed at once, and may be huge."""
    match node:
        case ast.Constant(value=bool() | float()):
            return False
        case ast.Constant(value=int() as number) if abs(number) <= _LARGEST_INTEGER:
            return False
        case ast.Name(id=name) if not name.startswith("_") and not name.endswith("__"):
            return name not in _TRUTHS
        case ast.UnaryOp(op=op, operand=operand) if isinstance(op, _LOGIC):
            return _expression(operand)
        case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
            return _power(base, exponent)
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, (*_ARITHMETIC, *_LOGIC)):
            return _any([left, right])
        case ast.BoolOp(values=values):
            return _any(values)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(isinstance(op, _COMPARISONS) for op in ops):
            return _any([left, *others])
        case ast.Tuple(elts=items):
            return _any(items)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            return _call(name, args, keywords)
    raise Refused(f"it contains {ast.unparse(node)[:80]!r}")


def _any(nodes: list[ast.expr]) -> bool:
    found = [_expression(node) for node in nodes]  # all of them, for each is a check
    return any(found)


def _call(name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> bool:
    if name == "Symbol":
        match args:
            case [ast.Constant(value=str() as symbol)] if symbol.isidentifier():
                if all(isinstance(keyword.value, ast.Constant) for keyword in keywords):
                    return True
        raise Refused("it makes a symbol of another name than symbols have")
    if name == "Float":
        match args:
            case [ast.Constant(value=str() as number)] if _NUMBER_TEXT.fullmatch(number) or number in ("inf", "-inf"):
                if all(_is_precision(keyword) for keyword in keywords):
                    return False
    if name in _POWERS and len(args) == 2 and not keywords:
        return _power(*args)
    if name not in _FUNCTIONS or not all(isinstance(keyword.value, ast.Constant) for keyword in keywords):
        raise Refused(f"it calls {name!r}")
    return _any(args)


def _is_precision(keyword: ast.keyword) -> bool:
    value = keyword.value
    return (
        keyword.arg in ("precision", "dps")
        and isinstance(value, ast.Constant)
        and isinstance(value.value, int)
        and 0 < value.value <= _LARGEST_PRECISION
    )


def _power(base: ast.expr, exponent: ast.expr) -> bool:
    has_symbol = _expression(base)
    if _expression(exponent):
        return True
    value = _integer(exponent)
    if value is not None and abs(value) > _LARGEST_EXPONENT:
        raise Refused(f"it raises to the power {value}")
    # A power of a power of plain numbers grows without bound: torch never writes one, it writes the number.
    if not has_symbol and (value is None or any(_is_power(node) for node in (*ast.walk(base), *ast.walk(exponent)))):
        raise Refused("it computes a power of a power")
    return has_symbol


def _integer(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
        case ast.Call(func=ast.Name(id="Integer" | "Rational"), args=[first, *_]):
            return _integer(first)
    return None


def _is_power(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.Pow()):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _POWERS
    return False


def _guard(node: ast.expr) -> None:
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return
        case ast.Name(id="L" | "inf"):
            return
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, _ARITHMETIC):
            _guard(left)
            _guard(right)
        case ast.UnaryOp(operand=operand):
            _guard(operand)
        case ast.BoolOp(values=values):
            for value in values:
                _guard(value)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(isinstance(op, _COMPARISONS) for op in ops):
            for value in (left, *others):
                _guard(value)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            for value in (test, body, orelse):
                _guard(value)
        case ast.Subscript(value=value, slice=ast.Constant(value=int())):
            _guard(value)
        # The key ends up between quotes in the text of a message: let it hold none.
        case ast.Subscript(value=value, slice=ast.Constant(value=str() as key)) if is_plain(key):
            _guard(value)
        case ast.Attribute(value=value, attr="shape"):
            _guard(value)
        case ast.Call(func=function, args=args, keywords=[]) if _is_guard_function(function):
            for value in args:
                _guard(value)
        case _:
            raise Refused(f"it contains {ast.unparse(node)[:80]!r}")


def _is_guard_function(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _GUARD_FUNCTIONS or name in _GUARD_SYMPY
        case ast.Attribute(value=ast.Name(id="math"), attr=name):
            return name in _GUARD_MATH
        case ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return name in _GUARD_TORCH
        case ast.Attribute(value=value, attr=name) if name in _GUARD_METHODS:
            _guard(value)
            return True
    return False


def is_plain(text: str) -> bool:
    """Whether `text` stays text when it is pasted between quotes: one printable line without quotes or backslashes."""
    return text.isprintable() and not any(character in "\"'\\`" for character in text)
