"""Batch norm at its defaults hides a wrong fold: (x - 0) / sqrt(1 + eps) * 1 + 0 is x, whatever was left out."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

from lowerscope.arguments import arguments
from lowerscope.measure.counts import live_nodes

if TYPE_CHECKING:
    from lowerscope.program import Program

# The arguments by the names that the schemas of torch's batch norms give them.
_DEFAULTS = {"running_mean": 0.0, "running_var": 1.0, "weight": 1.0, "bias": 0.0}
_BATCH_NORMS = frozenset(
    {
        "aten::batch_norm",
        "aten::native_batch_norm",
        "aten::cudnn_batch_norm",
        "aten::_native_batch_norm_legit",
        "aten::_native_batch_norm_legit_no_training",
        "aten::_batch_norm_with_update",
        "aten::_batch_norm_no_update",
    }
)


def default_statistics(program: Program) -> dict[str, str]:
    """Placeholder of each batch-norm constant whose statistics are still the defaults -> what it is.

    A batch norm counts when its running mean is 0 and its variance 1 throughout: such a one was never trained.
    """
    found: dict[str, str] = {}
    for _, node in live_nodes(program.exported_program.graph_module):
        schema = getattr(node.target, "_schema", None)
        if schema is None or schema.name not in _BATCH_NORMS:
            continue
        given = arguments(node)
        nodes = {role: given.get(role) for role in _DEFAULTS}
        names = {role: node.name for role, node in nodes.items() if isinstance(node, torch.fx.Node)}
        roles = {role: name for role, name in names.items() if name in program.constants}
        statistics = [role for role in ("running_mean", "running_var") if role in roles]
        if statistics and all(_is_all(program.constants[roles[role]], _DEFAULTS[role]) for role in statistics):
            defaults = (r for r in roles if _is_all(program.constants[roles[r]], _DEFAULTS[r]))
            found |= {roles[role]: role for role in defaults}
    return found


def lively(program: Program, seed: int = 0) -> Program:
    """A program with the same graph in which batch norms at their defaults have statistics that a wrong fold shows up in.

    Only those constants are new; the graph and every other constant are shared, and `program` is not changed. Means are
    of either sign, variances and scales well away from 1, shifts away from 0; a constant that several names share
    stays shared. Returns `program` itself where nothing is at its defaults.
    """
    roles = default_statistics(program)
    if not roles:
        return program
    generator = torch.Generator().manual_seed(seed)
    fresh: dict[int, torch.Tensor] = {}
    for name, role in roles.items():
        constant = program.constants[name]
        if id(constant) not in fresh:
            fresh[id(constant)] = _statistics(constant, role, generator)
    exported = copy.copy(program.exported_program)
    exported._state_dict = {k: fresh.get(id(v), v) for k, v in program.exported_program.state_dict.items()}
    exported._constants = {k: fresh.get(id(v), v) for k, v in program.exported_program.constants.items()}
    return type(program)(
        exported,
        name=program.name,
        path=program.path,
        example_inputs=program.example_inputs,
        stand_ins=program.stand_ins,
    )


def _statistics(constant: torch.Tensor, role: str, generator: torch.Generator) -> torch.Tensor:
    uniform = torch.rand(constant.shape, generator=generator, dtype=torch.float64)
    if role == "running_var":
        values = 0.3 + 2.2 * uniform
    elif role == "weight":
        # Either sign: a fold that takes the scale's magnitude shows too.
        values = (0.5 + uniform) * torch.where(torch.arange(uniform.numel()).reshape(uniform.shape) % 3 == 2, -1.0, 1.0)
    else:
        values = 1.6 * uniform - 0.8
    tensor = values.to(constant.dtype)
    return torch.nn.Parameter(tensor, constant.requires_grad) if isinstance(constant, torch.nn.Parameter) else tensor


def _is_all(tensor: torch.Tensor, value: float) -> bool:
    return bool((tensor == value).all())
