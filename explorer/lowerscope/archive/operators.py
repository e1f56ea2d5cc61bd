"""Which operator a serialized target names, and whether a file may call it.

torch follows the target's dotted path from `torch`, `operator` or `math` to any object at all. Here a target is an
operator overload, a higher-order operator or one of a few scalar functions, or it is not resolved.
"""

from __future__ import annotations

import re
from enum import Enum

import torch

_OVERLOAD = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)")
_HIGHER_ORDER = re.compile(r"torch\.ops\.higher_order\.(\w+)")
_EXTENSION = re.compile(r"#(\w+):[\w.:]+")

# Operators that reach outside the program: into the file system, other processes, or compiled code.
_REACHES_OUT = frozenset({"aten.save", "aten.from_file"})
_NAMESPACES_REACHING_OUT = frozenset({"prim", "debugprims", "inductor", "profiler", "symm_mem", "static_runtime"})

_HIGHER_ORDER_ALLOWED = frozenset(
    [
        "cond",
        "while_loop",
        "while_loop_stack_output",
        "map_impl",
        "scan",
        "associative_scan",
        "foreach_map",
        "wrap",
        "wrap_with_set_grad_enabled",
        "wrap_with_autocast",
        "wrap_activation_checkpoint",
        "tag_activation_checkpoint",
        "invoke_subgraph",
        "auto_functionalized",
        "auto_functionalized_v2",
        "with_effects",
        "hints_wrapper",
        "strict_mode",
        "out_dtype",
        "flex_attention",
        "flex_attention_backward",
        "run_with_rng_state",
        "run_and_save_rng_state",
        "graphsafe_run_with_rng_state",
        "invoke_quant",
        "invoke_quant_packed",
        "executorch_call_delegate",
        "call_torchbind",
        "local_map_hop",
        "_export_tracepoint",
    ]
)

_SCALAR_FUNCTIONS = frozenset(
    f"_operator.{name}"
    for name in (
        [
            "getitem",
            "add",
            "mul",
            "sub",
            "truediv",
            "floordiv",
            "mod",
            "pow",
            "neg",
            "pos",
            "abs",
            "ge",
            "le",
            "gt",
            "lt",
            "eq",
            "ne",
            "and_",
            "or_",
            "not_",
            "lshift",
            "rshift",
        ]
    )
) | frozenset(f"math.{name}" for name in ["ceil", "floor", "trunc", "sqrt", "log2"])

_TORCH_FUNCTIONS = frozenset(
    f"torch.{name}"
    for name in (
        [
            "sym_int",
            "sym_float",
            "sym_ite",
            "sym_max",
            "sym_min",
            "sym_not",
            "sym_sqrt",
            "sym_sum",
            "_sym_sqrt",
            "_C._set_grad_enabled",
            "autograd.grad_mode.set_grad_enabled",
            "amp.autocast_mode._enter_autocast",
            "amp.autocast_mode._exit_autocast",
            "fx.experimental.symbolic_shapes.cast_symbool_to_symint_guardless",
            "_functorch.predispatch._add_batch_dim",
            "_functorch.predispatch._remove_batch_dim",
            "_functorch.predispatch._vmap_increment_nesting",
            "_functorch.predispatch._vmap_decrement_nesting",
            "_functorch.predispatch.lazy_load_decompositions",
            "_functorch.predispatch._make_dual",
            "_functorch.predispatch._unpack_dual",
            "_functorch.predispatch._jvp_increment_nesting",
            "_functorch.predispatch._jvp_decrement_nesting",
        ]
    )
)


class Status(Enum):
    """What a target is in this process."""

    KNOWN = "known"
    MISSING = "missing"
    REFUSED = "refused"


def status(target: str) -> Status:
    """Whether `target`, as it is written in a file, names an operator that is registered and that a file may call."""
    if target in _SCALAR_FUNCTIONS or target in _TORCH_FUNCTIONS:
        return Status.KNOWN
    if found := _HIGHER_ORDER.fullmatch(target):
        if found[1] not in _HIGHER_ORDER_ALLOWED:
            return Status.REFUSED
        return Status.KNOWN if hasattr(torch.ops.higher_order, found[1]) else Status.MISSING
    if found := _OVERLOAD.fullmatch(target):
        namespace, name, overload = found.groups()
        if namespace in _NAMESPACES_REACHING_OUT or f"{namespace}.{name}" in _REACHES_OUT:
            return Status.REFUSED
        return _status_of_overload(namespace, name, overload)
    if found := _EXTENSION.fullmatch(target):
        from torch._export.serde.serialize import _deserialization_registry

        return Status.KNOWN if found[1] in _deserialization_registry else Status.MISSING
    return Status.REFUSED if target.startswith(("torch", "math", "_operator", "#")) else Status.MISSING


def _status_of_overload(namespace: str, name: str, overload: str) -> Status:
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if packet is None:
        return Status.MISSING
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return Status.REFUSED
    if overload not in packet.overloads():
        return Status.MISSING
    return Status.KNOWN


def operator_name(target: str) -> str:
    """The name a user knows an operator by: ``my_ext::scaled_add.default``."""
    if found := _OVERLOAD.fullmatch(target):
        return f"{found[1]}::{found[2]}.{found[3]}"
    return target.removeprefix("torch.ops.")
