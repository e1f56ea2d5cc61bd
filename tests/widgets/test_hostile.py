"""Names of any kind are shown as text wherever lowerscope shows them; bad arguments of the magic are one line."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from playwright.sync_api import Browser
from torch import nn

import lowerscope
from lowerscope.by_example import pattern_from
from lowerscope.cli import main
from lowerscope.draw import to_graphviz
from lowerscope.pattern import REGISTRY
from lowerscope.scene import make_scene
from lowerscope.svg import to_svg
from lowerscope_widgets import Explorer
from lowerscope_widgets.html_export import to_html
from lowerscope_widgets.scenes import LARGEST_MESSAGE
from lowerscope_widgets.static_view import said_view, static_html
from tests.cases import INFO, fresh
from tests.engine.nets import mixed

NAMES = (
    "<img src=x onerror=hacked=1>",
    "</script><script>hacked=1</script>",
    "a & b 'p' \"q\"",
    "x" * 10_000,
    "\u202ertl\u2066",
    "\U0001f525 слой 層",
    "{{7*7}} ${hacked=1} %s \\n",
)
FILE = "</title><img src=x onerror=hacked=1> '\" \u202e\U0001f525"
# What a sanitiser of saved notebooks keeps; nothing may depend on more.
KEPT = {"div", "p", "b", "img", "table", "thead", "tbody", "tr", "th", "td"}


class Hostile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in NAMES:
            self.add_module(name, nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in NAMES:
            x = getattr(self, name)(x)
        return x


class Tags(HTMLParser):
    """The elements of an HTML text, with their attributes' names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture(scope="module")
def session() -> lowerscope.Session:
    program = lowerscope.capture(Hostile().eval(), (torch.rand(1, 2, 4, 4),), name=FILE)
    return lowerscope.Session(program)


def test_the_static_view_is_made_of_what_a_sanitiser_keeps(session: lowerscope.Session) -> None:
    shown = static_html(session, make_scene(session.lowering))
    assert Tags(shown).tags == KEPT
    assert not {name for name in Tags(shown).attributes if name.startswith("on")}
    picture = re.search(r'base64,([^"]+)"', shown)
    assert picture is not None
    inside = Tags(base64.b64decode(picture[1]).decode())
    assert not inside.tags & {"script", "img", "foreignobject", "iframe"}
    assert Tags(said_view(f"cannot open {FILE!r}").html).tags == {"div", "p"}


def test_pictures_tables_and_explanations_show_names_as_text(session: lowerscope.Session) -> None:
    svg = to_svg(make_scene(session.lowering))
    assert not Tags(svg).tags & {"script", "img"}
    assert len(svg) < 1_000_000, "ten thousand characters are shortened"
    for frame in (session.patterns(), session.matches(), session.near_misses(), session.op_counts()):
        assert not Tags(str(frame._repr_html_())).tags & {"script", "img"}
    for node in list(session.lowering.ledger.records)[:20]:
        assert not Tags(session.why_not(node=node)._repr_html_()).tags & {"script", "img"}


def test_the_dot_picture_quotes_names(session: lowerscope.Session) -> None:
    picture = to_graphviz(session.lowering)
    assert "=<" not in picture.source, "no label is markup"
    if shutil.which("dot") is not None:
        rendered = picture.pipe(format="svg").decode()
        assert not Tags(rendered).tags & {"script", "img"}


def test_the_command_line_names_such_a_file_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "<b>\u202e'\U0001f525\n.pt2"
    assert main(["report", str(path)]) != 0
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out
    assert len((said.err + said.out).strip().splitlines()) == 1


@pytest.mark.browser
@pytest.mark.parametrize("width", [600, 1400])
def test_in_the_widget_nothing_runs_and_the_layout_holds(
    session: lowerscope.Session, browser: Browser, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(to_html(session)[0], encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    page.locator('.ls-root[data-ls-ready="true"]').wait_for(timeout=60_000)
    for node in ("conv2d", "conv2d_3", "conv2d_4"):
        page.locator(".ls-root").evaluate("(root, node) => root.lowerscope.store.select([node])", node)
        page.locator(f'[data-ls="why-not"][data-node="{node}"][data-ready="true"]').wait_for(state="attached")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        spill = page.locator(".ls-root").evaluate("(root) => root.scrollWidth - root.clientWidth")
        assert spill <= 0
    page.locator(".ls-root").evaluate("(root) => root.lowerscope.store.search('img src')")
    assert page.evaluate("typeof hacked") == "undefined"
    assert page.locator(".ls-root img").count() == 0
    assert errors == []
    context.close()


class Odd(nn.Module):
    """Its op has a name of 10,000 characters; its nodes and inputs are named below, its patterns are named so, too."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        op = getattr(torch.ops.lowerscope_hostile, "o" * 10_000)
        return torch.relu(x) + torch.sigmoid(op(y)) * y


@pytest.fixture(scope="module")
def odd() -> Iterator[lowerscope.Session]:
    library = torch.library.Library("lowerscope_hostile", "DEF")
    library.define(f"{'o' * 10_000}(Tensor x) -> Tensor")
    library.impl("o" * 10_000, torch.clone, "CompositeExplicitAutograd")
    library.impl("o" * 10_000, torch.empty_like, "Meta")
    image = torch.rand(2, 3)
    program = torch.export.export(Odd().eval(), (image, image))
    calls = [node for node in program.graph.nodes if node.op in ("placeholder", "call_function")]
    for node, name in zip(calls, NAMES, strict=True):
        node.name = name
    functions = (torch.relu, torch.sigmoid, torch.tanh, torch.abs, torch.neg, torch.exp, torch.sin)
    for function, name in zip(functions, NAMES, strict=True):
        pattern_from(function, lambda x: x.clamp(min=0), [image], name=name)
    try:
        yield lowerscope.Session(program)
    finally:
        for name in NAMES:
            REGISTRY.remove(name)
        library._destroy()


@pytest.mark.browser
@pytest.mark.parametrize("width", [480, 600, 1400])
def test_names_of_nodes_inputs_ops_and_patterns_are_text_and_the_layout_holds(
    odd: lowerscope.Session, browser: Browser, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "odd.html"
    path.write_text(to_html(odd)[0], encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    root = page.locator('.ls-root[data-ls-ready="true"]')
    root.wait_for(timeout=60_000)
    shown = root.evaluate("(root) => root.lowerscope.scene().patterns.map((one) => one.name)")
    assert set(NAMES) <= set(shown)
    for name in NAMES:
        root.evaluate("(root, name) => root.lowerscope.store.select([name])", name)
        page.wait_for_function(
            "(name) => document.querySelector('.ls-root').lowerscope.state().whyNot?.node === name", arg=name
        )
        for tab in ("graph", "patterns", "why", "numbers"):
            root.evaluate("(root, tab) => root.lowerscope.store.setTab(tab)", tab)
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (name[:20], tab)
            assert root.evaluate("(root) => root.scrollWidth - root.clientWidth") <= 0, (name[:20], tab)
    root.evaluate("(root) => { root.lowerscope.store.select([]); root.lowerscope.store.setMetricsOpen(true); }")
    page.locator('[data-ls="metrics-tables"]').wait_for(state="attached")
    assert root.evaluate("(root) => root.scrollWidth - root.clientWidth") <= 0
    assert root.locator("img, script").count() == 0
    assert page.evaluate("typeof hacked") == "undefined"
    longest = root.evaluate(
        "(root) => Math.max(...[...root.querySelectorAll('*')].map((one) => one.title?.length ?? 0))"
    )
    assert longest < 2_000, "ten thousand characters are shortened"
    assert errors == []
    context.close()


def test_such_names_are_text_in_tables_pictures_and_the_static_view(odd: lowerscope.Session) -> None:
    assert Tags(static_html(odd, make_scene(odd.lowering))).tags == KEPT
    assert not Tags(to_svg(make_scene(odd.lowering))).tags & {"script", "img"}
    for frame in (odd.patterns(), odd.matches(), odd.near_misses(), odd.op_counts()):
        assert not Tags(str(frame._repr_html_())).tags & {"script", "img"}
    for name in NAMES:
        assert not Tags(odd.why_not(node=name)._repr_html_()).tags & {"script", "img"}


@pytest.mark.parametrize("name", [n for n, info in INFO.items() if info["cls"] == "c" and info["export"] == "ok"])
def test_the_public_reports_about_showing_are_shown(name: str) -> None:
    module, args, kwargs, shapes = fresh(name)
    explorer = Explorer(lowerscope.Session(lowerscope.capture(module, args, kwargs, shapes, name=name)))
    scene = explorer.scene()
    header, buffer = scene.message()
    assert len(buffer) + len(str(header)) < LARGEST_MESSAGE
    ids = [header["strings"][i] for i in scene.tables["nodes"]["id"]]
    assert len(set(ids)) == len(ids) > 0
    shown = static_html(explorer.session, scene)
    assert Tags(shown).tags <= KEPT
    assert f"<b>{name}</b>" in shown
    explorer.close()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "there is no model yet"),
        ("mine --target vulcan", "there is no target named 'vulcan'"),
        ("mine --target", "expected one argument"),
        ("mine --panels grpah", "there is no panel 'grpah'"),
        ("mine --colour red", "unrecognized arguments: --colour red"),
        ("number", "int"),
        ("<b>.pt2", "there is no file '<b>.pt2'"),
    ],
)
def test_explore_says_what_is_wrong_with_its_arguments(shell: InteractiveShell, line: str, said: str) -> None:
    shell.user_ns.update(mine=mixed(), number=3)
    with pytest.raises(UsageError, match=re.escape(said)):
        shell.run_line_magic("explore", line)


def test_a_cell_shows_an_error_as_its_sentence_without_a_traceback(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("import lowerscope; lowerscope.Session('<b>.pt2')")
    said = capsys.readouterr()
    assert "LoadError: there is no file '<b>.pt2'" in said.out + said.err
    assert "Traceback" not in said.out + said.err
