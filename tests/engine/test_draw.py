"""Pictures and graphs for other tools: SVG, graphviz with and without its program, networkx."""

from __future__ import annotations

import os
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import networkx as nx
import pytest
import torch

from lowerscope.draw import NO_DOT, to_graphviz, to_networkx
from lowerscope.errors import UnknownNameError
from lowerscope.lowering import Lowering, lower
from lowerscope.program import capture
from lowerscope.recipe import Recipe
from lowerscope.scene import make_scene
from lowerscope.svg import to_svg
from tests.engine.nets import Named, mixed

#: of any kind
NAMES = ("<script>alert(1)</script>", 'quo"te', "x" * 5000, "nul\x00 and \x1b", "\u202ertl")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def lowering() -> Lowering:
    return lower(mixed(), "vulkan")


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_picture_shows_the_graph_of_its_step(lowering: Lowering) -> None:
    scene = make_scene(lowering)
    before, after = texts(to_svg(scene, 0)), texts(to_svg(scene, len(lowering.steps)))
    assert "hardswish" in before
    assert "conv2d.with_epilogue" not in before
    assert "conv2d.with_epilogue" in after
    assert "batch_norm" in before
    assert "batch_norm" not in after
    assert "stem" in before


def test_the_picture_outlines_matches_of_patterns_but_not_of_core_aten(lowering: Lowering) -> None:
    titles = [t.text for t in ET.fromstring(to_svg(make_scene(lowering), 0)).iter(f"{SVG}title")]
    assert "conv2d_with_epilogue: applied" in titles
    assert "core_aten: applied" not in titles


def test_a_picture_with_too_many_boxes_draws_the_modules_only(lowering: Lowering) -> None:
    svg = to_svg(make_scene(lowering), 0, largest=3)
    assert "stem" in texts(svg)
    assert "hardswish" not in texts(svg)
    assert any(re.fullmatch(r"\d+ nodes, not drawn", text) for text in texts(svg))


def test_names_of_any_kind_are_text_in_pictures() -> None:
    named = lower(capture(Named(*NAMES).eval(), (torch.rand(1, 2, 4, 4),), name="<b>&"), "vulkan")
    svg = to_svg(make_scene(named), 0)
    assert "<script" not in svg
    assert "<script>alert(1)</script>" in texts(svg), "it is well-formed, and the name is there as text"
    assert max(map(len, texts(svg))) < 200
    source = to_graphviz(named, 0).source
    assert max(map(len, source.splitlines())) < 500


def test_networkx_is_the_graph_of_the_step(lowering: Lowering) -> None:
    for step in (0, None):
        graph = to_networkx(lowering, step)
        program = lowering.program_at(len(lowering.steps) if step is None else step)
        edges = {(i.name, n.name) for n in program.graph.nodes for i in n.all_input_nodes}
        assert {(s, t) for s, t in graph.edges() if "/" not in t} == edges
        assert nx.is_directed_acyclic_graph(graph)
    graph = to_networkx(lowering, 0)
    assert graph.nodes["conv2d"]["op"] == "aten.conv2d"
    assert graph.nodes["conv2d"]["category"] == "conv"
    assert graph.nodes["conv2d"]["module"] == "stem.0"
    assert graph.nodes["conv2d"]["shape"] == "f32[1,4,6,5]"
    assert graph.nodes["p_scale"]["kind"] == "constant"
    assert graph.edges["p_skip_weight", "conv2d_1", 0]["argument"] == "weight"
    assert graph.graph == {"name": "Mixed", "target": "vulkan", "step": 0}


def test_a_step_that_does_not_exist_is_named(lowering: Lowering) -> None:
    for draw in (to_networkx, to_graphviz):
        with pytest.raises(UnknownNameError, match="there is no step named '999'"):
            draw(lowering, 999)


def test_graphviz_clusters_modules_and_leaves_constants_out(lowering: Lowering) -> None:
    source = to_graphviz(lowering, 0).source
    assert "label=stem" in source
    assert "p_scale" not in source
    assert "p_scale" in to_graphviz(lowering, 0, constants=True).source
    assert source.count("->") == len(
        {(s, t) for s, t in to_networkx(lowering, 0).edges() if to_networkx(lowering, 0).nodes[s]["kind"] != "constant"}
    )


#: Stands for `dot` where it is not installed: what it reads, as an SVG's text.
STAND_IN_FOR_DOT = """#!/bin/sh
echo "<svg><text>"; cat; echo "</text></svg>"
"""


@pytest.mark.parametrize("stand_in", [False, True], ids=["dot", "stand-in"])
def test_graphviz_renders_where_dot_is_there(
    lowering: Lowering, stand_in: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if stand_in or shutil.which("dot") is None:
        program = tmp_path / "dot"
        program.write_text(STAND_IN_FOR_DOT)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    drawn = to_graphviz(lowering, 0).pipe("svg")
    assert b"<svg" in drawn
    assert b"conv2d" in drawn


def test_graphviz_without_dot_shows_its_source_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    drawing = to_graphviz(lower(mixed(), Recipe("vulkan")), 0)
    shown = drawing._repr_mimebundle_()
    assert list(shown) == ["text/plain"]
    assert shown["text/plain"].startswith(NO_DOT)
    assert drawing.source in shown["text/plain"]
