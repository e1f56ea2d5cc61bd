"""Opening a file and taking it to core ATen, against torch.export.load and run_decompositions."""

from __future__ import annotations

import torch
from common import once, options, saved_net, table

from lowerscope.loading import load
from lowerscope.lowering import lower
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe


def opened(path: str) -> Program:
    """Loaded, and lowered by core_aten alone."""
    program = load(path)
    others = [p.name for p in lower(_TINY, "qnn").patterns if p.name != "core_aten"]
    return lower(program, Recipe("qnn").disable(*others)).program


def peer(path: str) -> torch.export.ExportedProgram:
    """torch's own way."""
    return torch.export.load(path).run_decompositions()


_TINY = capture(torch.nn.ReLU(), (torch.ones(1),))


def main() -> None:
    given = options(__doc__ or "")
    small, path = str(saved_net(200)), str(saved_net(given.nodes))
    opened(small), peer(small)  # both have imported what they need
    ours, program = once(lambda: opened(path))
    theirs, decomposed = once(lambda: peer(path))
    print(f"{len(program.graph.nodes)} nodes here, {len(decomposed.graph.nodes)} by torch")
    table(
        "load and core decomposition",
        {"lowerscope.load + core_aten": ours, "torch.export.load + run_decompositions": theirs},
        "lowerscope.load + core_aten",
        {"torch.export.load + run_decompositions": ">= 8x"},
    )


if __name__ == "__main__":
    main()
