"""One toggle (verdicts, counts, scene; layout apart) against deepcopy + replace_pattern + recompile."""

from __future__ import annotations

import copy
import time
from itertools import cycle
from typing import Any

import torch
from common import interleaved, options, saved_net, table
from torch.fx import GraphModule, replace_pattern

from lowerscope.loading import load
from lowerscope.lowering import Lowerer
from lowerscope.measure.ledger_counts import count_alive
from lowerscope.recipe import Recipe
from lowerscope.scene import SceneMaker

aten = torch.ops.aten
TARGET, TOGGLED = "vulkan", "conv2d_with_epilogue"


class WithoutLayout:
    """Lays out once and keeps it: boxes stay where they were."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._kept, self.seconds = inner, {}, 0.0

    def __call__(self, graph: Any, cancelled: Any) -> Any:
        start = time.process_time()
        result = self._inner(graph, cancelled)
        self.seconds += time.process_time() - start
        return result


def replaced_by_fx(module: GraphModule) -> None:
    """The peer: a copy of the graph, conv + relu replaced in it, and its code made again."""

    def pattern(x: Any, w: Any, b: Any) -> Any:
        return aten.relu.default(aten.convolution.default(x, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1))

    def replacement(x: Any, w: Any, b: Any) -> Any:
        return aten.clamp.default(aten.convolution.default(x, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), 0)

    changed = GraphModule(torch.nn.Module(), copy.deepcopy(module.graph))
    assert replace_pattern(changed, pattern, replacement)
    changed.recompile()


def main() -> None:
    given = options(__doc__ or "")
    program = load(saved_net(given.nodes))
    lowerer, maker = Lowerer(program), SceneMaker()
    recipes = cycle([Recipe(TARGET).disable(TOGGLED), Recipe(TARGET)])
    layouts = WithoutLayout(maker.layouts)
    maker.layouts = layouts  # pyright: ignore[reportAttributeAccessIssue]
    maker.scene(lowerer.lower(Recipe(TARGET)))
    folded = lowerer.lower(Recipe(TARGET).disable(TOGGLED, "conv_with_clamp")).program
    peer_module = folded.graph_module
    print(f"{len(program.graph.nodes)} nodes as exported; the peer works on {len(folded.graph.nodes)} folded ones")

    def toggle() -> None:
        lowering = lowerer.lower(next(recipes))
        count_alive(lowering.ledger)
        maker.scene(lowering)

    def verdicts() -> None:
        lowerer.lower(next(recipes))

    ours = "toggle: verdicts, counts and scene"
    before = layouts.seconds
    times = interleaved(
        {
            ours: toggle,
            "toggle: verdicts alone": verdicts,
            "deepcopy + replace_pattern + recompile": lambda: replaced_by_fx(peer_module),
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
