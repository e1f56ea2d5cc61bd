"""Parity of a lowered program with the original, against making and running both programs' modules."""

from __future__ import annotations

import torch
from common import interleaved, options, saved_net, table

from lowerscope.loading import load
from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.program import Program


def modules(before: Program, after: Program) -> None:
    """torch's own way: `ExportedProgram.module()` of both, run once each."""
    args, kwargs = before.inputs()
    with torch.no_grad():
        one, other = (p.exported_program.module()(*args, **kwargs) for p in (before, after))
    assert one.shape == other.shape


def main() -> None:
    given = options(__doc__ or "", rounds=3)
    before = load(saved_net(given.nodes))
    after = lower(before, "vulkan").program
    ours = "parity, without the float64 oracle"
    times = interleaved(
        {
            ours: lambda: parity(before, after, oracle=False),
            "parity, with it": lambda: parity(before, after),
            "ep.module() of both, run once": lambda: modules(before, after),
        },
        given.rounds,
    )
    table("parity", times, ours, {})


if __name__ == "__main__":
    main()
