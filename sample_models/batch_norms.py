"""Batch norms with the statistics of a trained network."""

from __future__ import annotations

import torch
from torch import nn

_BatchNorm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def settle(model: nn.Module, args: tuple[torch.Tensor, ...]) -> nn.Module:
    """Draw scales and shifts, take the running statistics from `args`, and set the module to eval mode.

    At their defaults (mean 0, variance 1, scale 1, shift 0) a wrong fold of a batch norm changes nothing. The statistics
    are rounded to a few bits, so that another machine's order of summation gives the same ones.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    for norm in norms:
        norm.momentum = None
        norm.reset_running_stats()
        nn.init.uniform_(norm.weight, 0.6, 1.4)
        nn.init.uniform_(norm.bias, -0.3, 0.3)
    model.train()
    with torch.no_grad():
        model(*args)
    for norm in norms:
        norm.momentum = 0.1
        if norm.running_mean is not None and norm.running_var is not None:
            norm.running_mean.copy_(_rounded(norm.running_mean))
            norm.running_var.copy_(_rounded(norm.running_var))
    return model.eval()


def _rounded(values: torch.Tensor, bits: int = 5) -> torch.Tensor:
    mantissa, exponent = torch.frexp(values)
    return torch.ldexp(torch.round(mantissa * 2**bits) / 2**bits, exponent)
