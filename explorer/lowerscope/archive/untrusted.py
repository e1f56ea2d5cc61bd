"""The check of a serialized program, as plain JSON, before torch turns it into objects and Python code.

What a stranger's file could reach, and where it is stopped:

- node, argument and symbol names are pasted into the source of the graph's ``forward``, which is compiled and executed
  at once: each has to be an identifier;
- targets are looked up by dotted path: `lowerscope.archive.operators`;
- symbolic sizes and guards are evaluated: `lowerscope.archive.expressions`;
- the structure of inputs and outputs imports modules by name (enums, the factory of a defaultdict): only what is
  imported already, or built in;
- parameter names, module paths and dictionary keys end up between quotes in generated code: they hold no quotes.

Text that stays text (stack traces, literals of operators) is left alone; anything that is not known to be so is not.
"""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable
from typing import Any

from lowerscope.archive.expressions import Refused, check_expression, check_guard, is_plain
from lowerscope.archive.operators import Status, status

_Check = Callable[[str], None]

_FACTORIES = frozenset({"list", "dict", "set", "tuple", "int", "float", "bool", "str"})
_MODULE_PATH_LENGTH = 2000


def check_program(program: dict[str, Any]) -> None:
    """Pass a serialized program whose text cannot become code.

    Raises:
        Refused: some text could; the message says which, as the end of a sentence.
    """
    try:
        _walk(program, "")
    except RecursionError as error:
        raise Refused("is nested too deeply") from error


def _walk(value: Any, key: str) -> None:
    if isinstance(value, str):
        _CHECKS.get(key, _identifier)(value)
    elif isinstance(value, dict):
        check_key = _KEY_CHECKS.get(key)
        for name, item in value.items():
            if check_key is None:
                _walk(item, name)
            else:
                # The keys of a map are the file's own, and say nothing about the values.
                check_key(name)
                _walk(item, _VALUES_OF_MAPS.get((key, name), _VALUES_OF_MAPS.get((key, None), "")))
    elif isinstance(value, list):
        for item in value:
            _walk(item, key)


def _identifier(text: str) -> None:
    if text and (not text.isidentifier() or _is_dunder(text)):
        raise Refused(f"has the name {text[:80]!r}, which is not an identifier")


def _path(text: str) -> None:
    if len(text) > _MODULE_PATH_LENGTH or not is_plain(text) or any(map(_is_dunder, text.split("."))):
        raise Refused(f"has the name {text[:80]!r}, which is not a path of attributes")


def _attributes(text: str) -> None:
    """A parameter or module, which generated code gets by ``getattr(..., "name")``: single quotes do no harm."""
    _path(text.replace("'", ""))


def _free(text: str) -> None:
    """Text that nothing evaluates: it is shown, or it is a literal that is written with `repr`."""


def _number(text: str) -> None:
    """A float that JSON has no number for."""
    if text not in ("Infinity", "-Infinity", "NaN"):
        raise Refused(f"has the number {text[:80]!r}, which is none")


def _target(text: str) -> None:
    if status(text) is Status.REFUSED:
        raise Refused(f"calls {text[:80]!r}, which is no operator that a file may call")


def _symbolic(text: str) -> None:
    try:
        check_expression(text)
    except Refused as error:
        raise Refused(f"has the size {text[:80]!r}, which is no arithmetic on symbols: {error}") from error


def _guard(text: str) -> None:
    try:
        check_guard(text)
    except Refused as error:
        raise Refused(f"has the guard {text[:80]!r}, which is no comparison of sizes: {error}") from error


def _sources(text: str) -> None:
    """The functions a node was traced from, ``"name,torch.x.y;..."``, which torch looks up by dotted path."""
    if any(_is_dunder(part) for part in text.replace(";", ".").replace(",", ".").split(".")):
        raise Refused(f"has the source {text[:80]!r}, which reaches into Python's internals")


def _structure(text: str) -> None:
    """The JSON of a pytree's structure (`torch.utils._pytree.treespec_dumps`)."""
    if not text:
        return
    try:
        _, tree = json.loads(text)
        _node(tree, path=())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Refused("has a structure of inputs or outputs that is no tree") from error


def _node(tree: dict[str, Any], path: tuple[int, ...]) -> None:
    if tree["type"] is not None:
        _path(tree["type"])
    context = tree["context"]
    if tree["type"] == "collections.defaultdict":
        context = _factory_checked(context)
    elif isinstance(context, str):
        try:
            context = json.loads(context)
        except ValueError:
            # Types with a reader of their own may keep their context as any text.
            _path(context)
            context = None
    _context(context)
    # The keys of the keyword arguments become the parameters of a generated function.
    if path == (1,) and isinstance(context, list):
        for name in context:
            _identifier(str(name))
    for index, child in enumerate(tree["children_spec"]):
        _node(child, (*path, index))


def _factory_checked(context: Any) -> Any:
    """The keys of a defaultdict, whose factory is imported by name and later called."""
    data = json.loads(context) if isinstance(context, str) else context
    module, name = data["default_factory_module"], data["default_factory_name"]
    if module != "builtins" or name not in _FACTORIES:
        raise Refused(f"imports {module}.{name} to fill a defaultdict"[:120])
    return data["dict_context"]


def _context(value: Any) -> None:
    if isinstance(value, str):
        _path(value)
    elif isinstance(value, list):
        for item in value:
            _context(item)
    elif isinstance(value, dict):
        if "__enum__" in value:
            _enum(value)
            return
        for key, item in value.items():
            _path(key)
            _context(item)


def _enum(value: dict[str, Any]) -> None:
    """An enum's member as a dictionary key: torch would import its module, whatever it is."""
    module_name, _, class_name = value["fqn"].partition(":")
    found: Any = sys.modules.get(module_name)
    for attribute in class_name.split("."):
        found = None if _is_dunder(attribute) else getattr(found, attribute, None)
    if not (isinstance(found, type) and issubclass(found, enum.Enum)):
        raise Refused(f"needs the enum {value['fqn'][:80]!r}, which is not imported here")


def _is_dunder(text: str) -> bool:
    return text.startswith("__") and text.endswith("__")


# What a string is, by the key that it stands under; an identifier where nothing is said.
_CHECKS: dict[str, _Check] = {
    "target": _target,
    "as_operator": _target,
    "expr_str": _symbolic,
    "guards_code": _guard,
    "in_spec": _structure,
    "out_spec": _structure,
    "text": _free,
    "source_fn_stack": _sources,
    "as_string": _free,
    "as_strings": _free,
    "as_float": _number,
    "as_floats": _number,
    "as_float_lists": _number,
    "real": _number,
    "imag": _number,
    "torch_version": _free,
    "class_fqn": _path,
    "fqn": _attributes,
    "parameter_name": _attributes,
    "buffer_name": _attributes,
    "tensor_constant_name": _attributes,
    "custom_obj_name": _attributes,
}
# Where the keys are the file's own: what they are.
_KEY_CHECKS: dict[str, _Check] = {
    "metadata": _identifier,
    "tensor_values": _identifier,
    "sym_int_values": _identifier,
    "sym_bool_values": _identifier,
    "sym_float_values": _identifier,
    "custom_obj_values": _identifier,
    "opset_version": _identifier,
    "range_constraints": _identifier,
    "as_string_to_argument": _path,
    "treespec_namedtuple_fields": _path,
}
# What a string is that is itself a value of such a map, by the map's key and, where it matters, the value's own.
_VALUES_OF_MAPS: dict[tuple[str, str | None], str] = {
    ("metadata", "source_fn_stack"): "source_fn_stack",
    ("metadata", None): "text",
}
