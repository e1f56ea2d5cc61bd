"""The panels' items one by one, by real clicks and keys: patterns, skips, steps, search, numbers."""

from __future__ import annotations

import re

import pytest

from tests.widgets.lab import at_rest
from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser

EPILOGUE = "conv2d_with_epilogue"
CONV = "conv2d_3"


@pytest.fixture(autouse=True)
def at_the_start(widget: Widget) -> None:
    widget.root.evaluate(
        """(root) => {
          const { store } = root.lowerscope;
          store.select([]); store.focusPattern(null); store.setMetricsOpen(false); store.setTeaching(false);
          store.setView('after'); store.setStep(root.lowerscope.scene().lastStep);
        }"""
    )


# ---------------------------------------------------------------------- patterns
def test_patterns_are_in_pipeline_order_with_counts(widget: Widget) -> None:
    names = widget.find("pattern-row").evaluate_all("(rows) => rows.map((row) => row.dataset.pattern)")
    assert names == widget.session()["order"]
    assert re.search(r"\d+ matched", widget.find("pattern-row", pattern=EPILOGUE).inner_text())


def test_all_none_solo_and_the_filter(widget: Widget) -> None:
    on = widget.root.locator('[data-ls="pattern-row"][data-enabled="true"]')
    start, every = on.count(), widget.find("pattern-row").count()
    widget.find("patterns-none").click()
    widget.until(lambda: on.count() < start)
    widget.find("patterns-all").click()
    widget.until(lambda: on.count() >= start)
    widget.find("pattern-row", pattern=EPILOGUE).click()
    widget.find("patterns-solo").click()
    widget.until(lambda: EPILOGUE not in widget.session()["disabled"] and on.count() < start)
    for _ in range(3):
        widget.find("undo").click()
        at_rest(on.count, widget.page)
    widget.until(lambda: on.count() == start)
    widget.find("patterns-filter").click()
    shown = widget.find("pattern-row")
    assert 0 < shown.count() < every
    assert all(int(n) > 0 for n in shown.evaluate_all("(rows) => rows.map((row) => row.dataset.applied)"))
    widget.find("patterns-filter").click()
    assert widget.find("pattern-row").count() == every


def test_the_skip_list_completes_what_is_typed_and_takes_globs_and_chips_go(widget: Widget) -> None:
    entry = widget.find("skip-input")
    entry.fill("body.2")
    widget.find("skip-completion", value="body.2.*").wait_for()
    widget.page.keyboard.press("ArrowDown")
    widget.page.keyboard.press("Enter")
    chip = widget.find("skip-chip")
    chip.wait_for()
    assert chip.get_attribute("data-value") == "body.2.*"
    assert widget.session()["skips"] == 1
    widget.find("skip-remove").click()
    chip.wait_for(state="detached")
    entry.fill("body.*.0")
    entry.press("Enter")
    chip.wait_for()
    assert widget.session()["skips"] == 1
    widget.find("skip-remove").click()
    chip.wait_for(state="detached")


def test_a_node_is_skipped_from_its_menu(widget: Widget) -> None:
    widget.view("before")
    widget.travel(CONV)
    after = widget.session()["after"]
    widget.menu(*widget.place(CONV), "Skip this node")
    widget.find("skip-chip", kind="node").wait_for()
    assert widget.session()["after"] > after
    widget.find("undo").click()
    widget.find("skip-chip").wait_for(state="detached")


# ---------------------------------------------------------------------- steps
def test_steps_go_on_back_play_pause_and_scrub(widget: Widget) -> None:
    widget.find("sheet", sheet="steps").click()
    widget.find("step-first").click()
    widget.until(lambda: widget.state("step") == 0)
    widget.find("step-next").click()
    widget.find("step-next").click()
    assert widget.state("step") == 2
    widget.find("step-previous").click()
    assert widget.state("step") == 1
    widget.find("play").click()
    widget.until(lambda: widget.state("step") >= 2)
    widget.find("play").click()
    stopped = widget.state("step")
    widget.page.wait_for_timeout(2000)
    assert widget.state("step") == stopped
    widget.find("scrubber").click()
    last = widget.scene("scene.lastStep")
    assert 0.3 * last < widget.state("step") < 0.7 * last
    widget.find("scrubber").focus()
    widget.page.keyboard.press("End")
    assert widget.state("step") == last
    widget.find("sheet", sheet="node").click()


# ---------------------------------------------------------------------- search
@pytest.mark.parametrize(
    ("query", "op", "module"),
    [
        ("cnv2d", "conv2d", ""),
    ],
)
def test_search_filters_and_its_results_walk_the_graph(widget: Widget, query: str, op: str, module: str) -> None:
    widget.view("before")
    widget.keys("/")
    widget.page.keyboard.type(query)
    hits = widget.find("search-hit")
    hits.first.wait_for()
    names = at_rest(lambda: hits.evaluate_all("(all) => all.map((one) => one.dataset.node)"), widget.page)
    facts = widget.root.evaluate(
        """(root, names) => names.map((name) => {
          const { nodes, modules } = root.lowerscope.scene(), row = root.lowerscope.scene().nodeRow(name);
          return [nodes.op(row), modules.path(nodes.module[row])];
        })""",
        names,
    )
    assert op in facts[0][0]
    if ":" in query:
        assert all(op in one and where.startswith(module) for one, where in facts)
    widget.page.keyboard.press("Enter")
    widget.until(lambda: widget.state("selected") == [names[0]])
    if len(names) > 1:
        widget.page.keyboard.press("Enter")
        widget.until(lambda: widget.state("selected") == [names[1]])
    widget.page.keyboard.press("Escape")


# ---------------------------------------------------------------------- numbers
def test_tables_sort_and_have_partitions_transposes_and_parity(widget: Widget) -> None:
    widget.find("parity-pill", state="fresh").wait_for(timeout=60_000)
    widget.keys("m")
    tables = widget.find("metrics-tables")
    tables.wait_for()
    assert re.search(r"Partitions\s*\d+\s*→\s*\d+", tables.inner_text())
    assert re.search(r"Transposes\s*\d+\s*→\s*\d+", tables.inner_text())
    ops = "(rows) => rows.map((row) => row.dataset.key).filter((key) => key !== 'total')"
    widget.find("sort", column="op").click()
    names = widget.find("table-row").evaluate_all(ops)
    assert names == sorted(names, key=str.lower)
    widget.find("sort", column="op").click()
    assert widget.find("table-row").evaluate_all(ops) == names[::-1]
    widget.find("metrics-tab", sheet="parity").click()
    assert widget.find("table", table="parity").locator("tbody tr").count() >= 1
    widget.find("metrics-close").click()
    tables.wait_for(state="detached")


def test_latency_shows_progress_and_stops_and_the_widget_answers_meanwhile(widget: Widget) -> None:
    widget.find("measure-latency").first.click()
    stop = widget.find("latency").locator('[data-ls="progress-stop"]')
    stop.wait_for()
    widget.find("pattern-row", pattern=EPILOGUE).click()
    assert widget.state("focusedPattern") == EPILOGUE
    stop.click()
    widget.until(lambda: widget.state("latency.state") == "cancelled")
