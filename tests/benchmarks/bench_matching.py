"""Matching every pattern of a target, against SubgraphMatcher and Inductor's matcher looking for conv + relu alone.

Then the same with verdicts and without, and one explanation against matching everything.
"""

from __future__ import annotations

from typing import Any

import torch
from common import interleaved, options, residual_net, table
from torch._inductor.pattern_matcher import Arg, CallFunction, PatternMatcherPass, register_graph_pattern
from torch.fx import Graph, symbolic_trace
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

from lowerscope.check import Check, Failed
from lowerscope.editor import Editor
from lowerscope.lowering import Lowerer
from lowerscope.pattern import Pattern
from lowerscope.recipe import Recipe
from lowerscope.stage import Stage, anchors_of
from lowerscope.why import why_not

aten = torch.ops.aten
TARGET = "vulkan"


def match_with_verdicts(editor: Editor, patterns: list[Pattern]) -> None:
    """What a lowering does, but for applying: every pattern at every anchor, each with its verdict."""
    for pattern in patterns:
        Stage(editor, pattern, switched_off="disabled").run()


def match_alone(editor: Editor, patterns: list[Pattern]) -> None:
    """The same matches, and nothing written down."""
    for pattern in patterns:
        for anchor in anchors_of(pattern, editor):
            check = Check(pattern.declared(), editor, keep=False)
            try:
                pattern.match(anchor, check)
            except Failed:
                continue


def subgraph_matcher(graph: Graph) -> None:
    """torch.fx's matcher on conv + relu."""

    def pattern(x: Any, w: Any, b: Any) -> Any:
        return aten.relu.default(aten.convolution.default(x, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1))

    assert SubgraphMatcher(symbolic_trace(pattern).graph).match(graph)


def inductor_pass() -> PatternMatcherPass:
    """Inductor's matcher on conv + relu: every match is refused, so that nothing is replaced."""
    found = PatternMatcherPass()
    convolution = CallFunction(aten.convolution.default, *[Arg() for _ in range(9)])

    def refuse(match: Any) -> bool:
        return False

    @register_graph_pattern(CallFunction(aten.relu.default, convolution), extra_check=refuse, pass_dict=found)  # pyright: ignore[reportArgumentType]
    def replaced(match: Any, *args: Any) -> None:
        raise AssertionError("every match is refused")

    return found


def main() -> None:
    given = options(__doc__ or "")
    program = residual_net(given.nodes, norm=False)
    lowerer = Lowerer(program)
    patterns = [p for p in lowerer.lower(Recipe(TARGET)).patterns if p.name != "core_aten"]
    bare = Recipe(TARGET).disable(*(p.name for p in patterns))
    lowering = lowerer.lower(bare)
    graph, editor = lowering.program.graph, lowerer.editor
    print(f"{len(graph.nodes)} nodes, {len(patterns)} patterns")
    inductor = inductor_pass()
    one = [p for p in patterns if p.name == "conv_with_clamp"]
    alone, told = "lowerscope: conv_with_clamp, conditions alone", "lowerscope: conv_with_clamp, with verdicts"
    every = f"lowerscope: {len(patterns)} patterns, with verdicts"
    fx = "torch.fx SubgraphMatcher: conv + relu"
    fx_every = f"torch.fx SubgraphMatcher: conv + relu, {len(patterns)} times"
    inductors = "Inductor PatternMatcherPass: conv + relu"
    times = interleaved(
        {
            alone: lambda: match_alone(editor, one),
            told: lambda: match_with_verdicts(editor, one),
            every: lambda: match_with_verdicts(editor, patterns),
            fx: lambda: subgraph_matcher(graph),
            fx_every: lambda: [subgraph_matcher(graph) for _ in patterns],
            inductors: lambda: inductor.apply(graph),
        },
        given.rounds,
    )
    table("one pattern, its conditions alone", {k: times[k] for k in (alone, fx, inductors)}, alone, {fx: ">= 20x"})
    table("one pattern, with verdicts", {k: times[k] for k in (told, fx, inductors)}, told, {fx: ">= 20x"})
    table("all patterns, with verdicts", {k: times[k] for k in (every, fx_every, fx)}, every, {fx_every: ">= 20x"})

    anchor = next(v.anchor for v in lowering.verdicts_of("conv2d_with_epilogue"))
    alone = "the same matches, nothing written down"
    explained = "one explanation"
    times = interleaved(
        {
            alone: lambda: match_alone(editor, patterns),
            "with verdicts": lambda: match_with_verdicts(editor, patterns),
            explained: lambda: why_not(lowering, "conv2d_with_epilogue", anchor),
        },
        given.rounds,
    )
    table("verdicts", times, alone, {"with verdicts": "<= 3x", explained: "< 0.01x"})


if __name__ == "__main__":
    main()
