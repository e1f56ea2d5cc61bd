"""One toggle (verdicts, counts, the scene as it is sent; layout apart) against deepcopy + replace_pattern + recompile.

A recipe that was shown lately is known. The first toggle of a pattern, here of every one (off, and on again, neither known
from before), runs its stage and those behind it that meet another graph.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

import torch
from common import interleaved, options, saved_net, table
from torch.export import ExportedProgram
from torch.fx import replace_pattern

from lowerscope.loading import load
from lowerscope.lowering import Lowerer, switched_off
from lowerscope.measure.ledger_counts import count_alive
from lowerscope.recipe import Recipe
from lowerscope.scene import SceneMaker
from lowerscope.target import pipeline, target_of

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

    def show(recipe: Recipe) -> None:
        lowering = lowerer.lower(recipe)
        count_alive(lowering.ledger)
        maker.scene(lowering).message()

    def from_recipe(recipe: Recipe) -> None:
        """The graph as `recipe` leaves it, and its scene shown; nothing known of any other."""
        show(recipe)
        lowerer.forget()

    known = "toggle: a recipe shown lately"
    first: dict[str, tuple[Recipe, Recipe]] = {}
    for pattern in pipeline(TARGET):
        default = Recipe(TARGET)
        off, on = default.disable(pattern.name), default.enable(pattern.name)
        if switched_off(pattern, target_of(TARGET), default):
            off = default
        if pattern.name not in target_of(TARGET).refused:
            first[f"first toggle of {pattern.name}, off"] = (on, off)
            first[f"first toggle of {pattern.name}, on"] = (off, on)
    show(next(recipes)), show(next(recipes))
    laid: dict[str, float] = {}

    def timed(name: str, run: Callable[[], None]) -> Callable[[], None]:
        def timing() -> None:
            before = layouts.seconds
            run()
            laid[name] = layouts.seconds - before

        return timing

    def known_again() -> None:
        """Both recipes known, as after a first toggle and its undo."""
        from_recipe(Recipe(TARGET))
        for _ in range(2):
            show(next(recipes))

    ours = {known: timed(known, lambda: show(next(recipes)))}
    ours |= {name: timed(name, lambda recipe=to: show(recipe)) for name, (_, to) in first.items()}
    peer = "deepcopy + replace_pattern + recompile"
    times = interleaved(
        {**ours, peer: lambda: replaced_by_fx(peer_program)},
        given.rounds,
        {known: known_again, **{name: lambda recipe=start: from_recipe(recipe) for name, (start, _) in first.items()}},
    )
    for name in ours:
        times[name].wall = [t - laid[name] for t in times[name].wall]
        times[name].cpu = [t - laid[name] for t in times[name].cpu]
        table(f"layout apart: {laid[name] * 1e3:.1f} ms", {n: times[n] for n in (name, peer)}, name, {peer: ">= 10x"})


if __name__ == "__main__":
    main()
