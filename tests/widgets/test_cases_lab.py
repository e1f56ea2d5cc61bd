"""The public reports about what could not be shown, each opened in the widget in a real JupyterLab: drawn, asked, right."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.cases import FILE_INFO, INFO
from tests.widgets.lab import Lab

pytestmark = pytest.mark.browser

PROGRAMS = [name for name, info in INFO.items() if info["cls"] == "c" and info["export"] == "ok"]
LARGE = [name for name, info in INFO.items() if info["cls"] == "e"]
FILES = [name for name, info in FILE_INFO.items() if info["cls"] == "c"]
#: What the widget says of a case that is refused.
REFUSED = {
    "custom_op_missing": "hbugs_ext::thrice",
    "schema_from_the_future": "newer",
    "torch_save_not_export": "torch.save",
}
START = f"""
import sys, tempfile
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import torch
torch.set_num_threads(2)
import lowerscope
from lowerscope_widgets import Explorer
from tests.cases import FILES, fresh
explorer = None

def show(source):
    global explorer
    if explorer is not None:
        explorer.close()
    explorer = Explorer(source)
    return explorer

def case(name):
    module, args, kwargs, shapes = fresh(name)
    return show(lowerscope.Session(lowerscope.capture(module, args, kwargs, shapes, name=name)))

def file(name):
    path = f"{{tempfile.mkdtemp()}}/{{name}}.pt2"
    FILES[name][0](path)
    return show(path)
"""
SHOWN = """
(name) => {
  const roots = document.querySelectorAll('.ls-root[data-ls-ready="true"]');
  return roots.length === 1 && roots[0].lowerscope.scene().header.program.name.includes(name);
}
"""
IDS = """
(root) => {
  const { nodes } = root.lowerscope.scene();
  return [...Array(nodes.length).keys()].map((row) => nodes.id(row));
}
"""


def is_right(page: Page, name: str) -> list[str]:
    """The program is drawn, nothing spills or runs. Returns the nodes' ids."""
    page.wait_for_function(SHOWN, arg=name, timeout=60_000)
    root = page.locator(".ls-root")
    ids = root.evaluate(IDS)
    assert len(set(ids)) == len(ids) > 0, f"{name}: ids are unique"
    assert root.evaluate("(root) => root.scrollWidth - root.clientWidth") <= 0, name
    assert root.evaluate("(root) => root.lowerscope.state().errors") == {}, name
    assert root.locator("img, script, [data-ls=panel-error]").count() == 0, name
    return ids


def is_explained(page: Page, node: str) -> None:
    """One can go to the node, and is told why."""
    page.locator(".ls-root").evaluate("(root, node) => root.lowerscope.store.travel(node)", node)
    page.wait_for_function(
        """(node) => {
          const root = document.querySelector('.ls-root');
          return root.lowerscope.state().whyNot?.node === node && root.nodeRect(node) !== null;
        }""",
        arg=node,
    )


def test_each_program_is_drawn_and_its_nodes_explained(lab: Lab) -> None:
    page = lab.open_notebook([START, *(f"case({name!r})" for name in PROGRAMS)])
    lab.run_cell(0)
    for index, name in enumerate(PROGRAMS, start=1):
        lab.run_cell(index)
        is_explained(page, is_right(page, name)[-2])
    assert lab.page_errors == []
    assert lab.foreign_requests == []


def test_what_is_large_or_has_hostile_names_is_drawn(lab: Lab) -> None:
    page = lab.open_notebook([START, *(f"case({name!r})" for name in LARGE)])
    lab.run_cell(0)
    for index, name in enumerate(LARGE, start=1):
        lab.run_cell(index)
        # constants are hidden at first: a call is asked about
        calls = [node for node in is_right(page, name) if not node.startswith("p_")]
        is_explained(page, calls[-1] if name == "e_hostile_names" else calls[-2])
    assert lab.page_errors == []


def test_each_file_is_drawn_or_refused_with_the_reason(lab: Lab) -> None:
    page = lab.open_notebook([START, *(f"file({name!r})" for name in FILES)])
    lab.run_cell(0)
    for index, name in enumerate(FILES, start=1):
        lab.run_cell(index)
        if name in REFUSED:
            page.wait_for_function(
                """(said) => {
                  const errors = document.querySelectorAll('[data-ls="state-error"]');
                  return errors.length === 1 && errors[0].innerText.includes(said);
                }""",
                arg=REFUSED[name],
            )
            assert "Traceback" not in page.locator(".jp-Notebook").inner_text()
        else:
            is_right(page, name)
    assert lab.page_errors == []
