"""Opaque operators in the place of those that a file calls and nobody registered, so that its graph can be looked at.

What an operator's arguments and results are is read off the nodes that call it. The stand-ins live in a namespace of
their own, so that importing the real package later registers its operators as if nothing had been there.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import torch

from lowerscope.archive.operators import operator_name
from lowerscope.errors import LoadError, MeasureError

NAMESPACE = "lowerscope_stand_in"

_TYPES = {
    "as_none": "Tensor?",
    "as_tensor": "Tensor",
    "as_tensors": "Tensor[]",
    "as_optional_tensors": "Tensor?[]",
    "as_int": "int",
    "as_ints": "int[]",
    "as_sym_int": "SymInt",
    "as_sym_ints": "SymInt[]",
    "as_float": "float",
    "as_floats": "float[]",
    "as_sym_float": "float",
    "as_bool": "bool",
    "as_bools": "bool[]",
    "as_sym_bool": "bool",
    "as_string": "str",
    "as_strings": "str[]",
    "as_scalar_type": "ScalarType",
    "as_memory_format": "MemoryFormat",
    "as_layout": "Layout",
    "as_device": "Device",
    "as_complex": "complex",
}

_library: torch.library.Library | None = None


def put_stand_ins(missing: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """Make every node of `missing` (target -> serialized nodes) call a stand-in, in place.

    Returns:
        The stand-ins' names, as `str(node.target)` gives them -> the names of the operators they stand for.

    Raises:
        LoadError: a node takes or gives something that no operator schema can say.
    """
    made: dict[str, str] = {}
    for target, nodes in missing.items():
        for node in nodes:
            name = _stand_in(target, _signature(target, node))
            made[f"{NAMESPACE}.{name}.default"] = operator_name(target)
            node["target"] = f"torch.ops.{NAMESPACE}.{name}.default"
    return made


def _signature(target: str, node: dict[str, Any]) -> str:
    """The arguments and results of one call as a schema; calls that differ in them get stand-ins of their own."""
    arguments, keyword_only = [], False
    for index, argument in enumerate(node["inputs"]):
        ((variant, _),) = argument["arg"].items()
        if variant not in _TYPES:
            raise LoadError(f"{operator_name(target)} takes a {variant[3:]}, for which there is no stand-in: import it")
        # 2 is ArgumentKind.KEYWORD.
        if argument.get("kind") == 2 and not keyword_only:
            arguments.append("*")
            keyword_only = True
        arguments.append(f"{_TYPES[variant]} {argument['name'] or f'arg{index}'}")
        argument["name"] = argument["name"] or f"arg{index}"
    results = []
    for output in node["outputs"]:
        ((variant, _),) = output.items()
        if variant == "as_none":
            continue
        if variant not in _TYPES:
            raise LoadError(f"{operator_name(target)} gives a {variant[3:]}, for which there is no stand-in: import it")
        results.append(_TYPES[variant])
    return f"({', '.join(arguments)}) -> ({', '.join(results)})"


def _stand_in(target: str, signature: str) -> str:
    """The name of the stand-in of that signature, registered once."""
    global _library
    real = operator_name(target)
    tag = hashlib.blake2b(f"{real}{signature}".encode(), digest_size=4).hexdigest()
    name = f"{re.sub(r'[^A-Za-z0-9]+', '_', real)}_{tag}"
    if hasattr(getattr(torch.ops, NAMESPACE), name):
        return name
    if _library is None:
        _library = torch.library.Library(NAMESPACE, "FRAGMENT")
    _library.define(f"{name}{signature}")

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise MeasureError(f"cannot run {real}, which is not registered here: import the package that defines it")

    _library.impl(name, refuse, "CompositeExplicitAutograd")
    return name
