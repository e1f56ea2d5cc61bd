"""torch.export.export, with its failures said in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from lowerscope.errors import CaptureError


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    *,
    strict: bool,
) -> torch.export.ExportedProgram:
    """Export `module`; see `lowerscope.capture`."""
    if not isinstance(args, tuple):
        raise CaptureError(f"args is a {type(args).__name__}: give the example inputs as a tuple, such as (x,)")
    try:
        return torch.export.export(
            module, args, None if kwargs is None else dict(kwargs), dynamic_shapes=dynamic_shapes, strict=strict
        )
    except Exception as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise CaptureError(f"{type(module).__name__} cannot be exported: {first}") from error
