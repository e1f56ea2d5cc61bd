"""One toggle (verdicts, counts, scene; layout apart) against deepcopy + replace_pattern + recompile."""

from __future__ import annotations

import copy
import time
from itertools import cycle
from typing import Any

import torch
from common import interleaved, options, saved_net, table
from torch.export import ExportedProgram
from torch.fx import replace_pattern

from lowerscope.loading import load
from lowerscope.lowering import Lowerer
from lowerscope.measure.ledger_counts import count_alive
from lowerscope.recipe import Recipe
from lowerscope.scene import SceneMaker
from lowerscope.target import pipeline

aten = torch.ops.aten
TARGET, TOGGLED = "vulkan", "conv2d_with_epilogue"


class Timed:
    """Layouts, and the CPU seconds spent in them."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.seconds = inner, 0.0

    def __call__(self, graph: Any, cancelled: Any) -> Any:
        start = time.process_time()
        result = self._inner(graph, cancelled)
        self.seconds += time.process_time() - start
        return result


def replaced_by_fx(program: ExportedProgram) -> None:
    """The peer: a copy of the program, conv + batch norm + relu replaced in it, and its code made again.

    It starts from core ATen, as it has no stages to go back to.
    """

    def pattern(x: Any, w: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
        y = aten.convolution.default(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
        normed = aten._native_batch_norm_legit_no_training.default(y, scale, shift, mean, variance, 0.1, 1e-05)
        return aten.relu.default(normed[0])

    def replacement(x: Any, w: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
        return aten.clamp.default(aten.convolution.default(x, w, shift, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), 0)

    changed = copy.deepcopy(program).graph_module
    assert replace_pattern(changed, pattern, replacement)
    changed.recompile()


def main() -> None:
    given = options(__doc__ or "")
    program = load(saved_net(given.nodes))
    lowerer, maker = Lowerer(program), SceneMaker()
    recipes = cycle([Recipe(TARGET).disable(TOGGLED), Recipe(TARGET)])
    layouts = Timed(maker.layouts)
    maker.layouts = layouts  # pyright: ignore[reportAttributeAccessIssue]
    maker.scene(lowerer.lower(Recipe(TARGET)))
    core = lowerer.lower(Recipe(TARGET).disable(*(p.name for p in pipeline(TARGET) if p.name != "core_aten"))).program
    peer_program = core.exported_program
    print(f"{len(core.graph.nodes)} nodes in core ATen")

    def toggle() -> None:
        lowering = lowerer.lower(next(recipes))
        count_alive(lowering.ledger)
        maker.scene(lowering)

    def verdicts() -> None:
        lowerer.lower(next(recipes))

    ours = "toggle: verdicts, counts and scene"
    lowerer.lower(next(recipes)), lowerer.lower(next(recipes))  # the stages before the toggled one are there
    before = layouts.seconds
    times = interleaved(
        {
            ours: toggle,
            "toggle: verdicts alone": verdicts,
            "deepcopy + replace_pattern + recompile": lambda: replaced_by_fx(peer_program),
        },
        given.rounds,
    )
    apart = (layouts.seconds - before) / (given.rounds + 1)
    times[ours].wall = [t - apart for t in times[ours].wall]
    times[ours].cpu = [t - apart for t in times[ours].cpu]
    table(
        f"one toggle (layout, apart: {apart * 1e3:.1f} ms)",
        times,
        ours,
        {"deepcopy + replace_pattern + recompile": ">= 10x"},
    )


if __name__ == "__main__":
    main()
