"""Matching every pattern of a target, against SubgraphMatcher and Inductor's matcher looking for conv + relu alone.

Then, for every target, the same with verdicts and without, and one explanation against matching everything.
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
from lowerscope.lowering import Lowerer, Lowering
from lowerscope.pattern import Pattern
from lowerscope.program import Program
from lowerscope.recipe import Recipe
from lowerscope.stage import Stage, anchors_of
from lowerscope.target import TARGETS, pipeline
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


def matched_by_none(target: str, program: Program) -> tuple[Lowering, Editor, list[Pattern]]:
    """The program in core ATen, with every pattern of the target disabled, and those patterns."""
    lowerer = Lowerer(program)
    patterns = [p for p in pipeline(target) if p.name != "core_aten"]
    lowering = lowerer.lower(Recipe(target).disable(*(p.name for p in patterns)))
    return lowering, lowerer.editor, patterns


def verdicts_of(target: str, program: Program, rounds: int) -> None:
    """What keeping the verdicts of all patterns of a target costs, and one explanation."""
    lowering, editor, patterns = matched_by_none(target, program)
    asked = [next(lowering.verdicts_of(p.name), None) for p in patterns]
    verdict = next(v for v in asked if v is not None)
    alone, explained = "the same matches, nothing written down", f"one explanation, of {verdict.pattern}"
    times = interleaved(
        {
            alone: lambda: match_alone(editor, patterns),
            "with verdicts": lambda: match_with_verdicts(editor, patterns),
            explained: lambda: why_not(lowering, verdict.pattern, verdict.anchor),
        },
        rounds,
    )
    title = f"verdicts of {target}: {len(patterns)} patterns, {len(lowering.verdicts)} verdicts"
    table(title, times, alone, {"with verdicts": "<= 3x", explained: "< 0.01x"})


def main() -> None:
    given = options(__doc__ or "")
    program = residual_net(given.nodes, norm=False)
    lowering, editor, patterns = matched_by_none(TARGET, program)
    graph = lowering.program.graph
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

    for target in TARGETS:
        verdicts_of(target, program, given.rounds)


if __name__ == "__main__":
    main()
