"""The panels' items one by one, by real clicks and keys: patterns, skips, steps, inspector, search, numbers, what goes out.

Each in a widget of 600, 1000 and 1400 px, light and dark, in one notebook.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.widgets.lab import at_rest
from tests.widgets.widget import CELLS as SHARED
from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser

EPILOGUE = "conv2d_with_epilogue"
CONV = "conv2d_3"

#: The network of the graph's items, a decoder in float16 that nothing fuses, and rows of which there are 2 to 64.
MORE = """
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 1)
    def forward(self, x):
        y = self.conv(x)
        return torch.tanh(y) * torch.sigmoid(y)

class WithMore(Net):
    def __init__(self):
        super().__init__()
        self.decoder, self.rows = nn.Sequential(Decoder(), Decoder()).half(), nn.Linear(4, 2)
    def forward(self, x, rows):
        y = super().forward(x)
        return y, self.decoder(y.half()), self.rows(rows)

rows = {0: torch.export.Dim("rows", min=3, max=64)}
inputs = (torch.rand(1, 3, 8, 8), torch.rand(5, 4))
program = lowerscope.capture(WithMore().eval(), inputs, dynamic_shapes=({}, rows), name="net")
"""
CELLS = [re.sub(r"(?m)^program = .*\n", lambda _: MORE, SHARED[0]), *SHARED[1:]]


@pytest.fixture(
    scope="module",
    autouse=True,
    params=[(width, theme) for theme in ("light", "dark") for width in (600, 1000, 1400)],
    ids=lambda shown: f"{shown[0]}-{shown[1]}",
)
def shown(widget: Widget, request: pytest.FixtureRequest) -> None:
    """The widget at one of its widths, in one of the themes."""
    widget.fit(*request.param)


@pytest.fixture(autouse=True)
def at_the_start(widget: Widget, shown: None) -> None:
    widget.root.evaluate(
        """(root) => {
          const { store } = root.lowerscope;
          store.select([]); store.focusPattern(null); store.setMetricsOpen(false); store.setTeaching(false);
          store.search(''); store.setView('after'); store.setStep(root.lowerscope.scene().lastStep);
        }"""
    )
    widget.sheet("node")


# ---------------------------------------------------------------------- patterns
def test_patterns_are_in_pipeline_order_with_counts(widget: Widget) -> None:
    widget.patterns()
    names = widget.find("pattern-row").evaluate_all("(rows) => rows.map((row) => row.dataset.pattern)")
    assert names == widget.session()["order"]
    assert re.search(r"\d+ matched", widget.find("pattern-row", pattern=EPILOGUE).inner_text())


def test_all_none_solo_and_the_filter(widget: Widget) -> None:
    widget.patterns()
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
        revision = widget.scene("scene.revision")
        widget.find("undo").click()
        widget.until(lambda before=revision: widget.scene("scene.revision") != before)
    widget.until(lambda: on.count() == start)
    widget.find("patterns-filter").click()
    shown = widget.find("pattern-row")
    assert 0 < shown.count() < every
    assert all(int(n) > 0 for n in shown.evaluate_all("(rows) => rows.map((row) => row.dataset.applied)"))
    widget.find("patterns-filter").click()
    assert widget.find("pattern-row").count() == every


def test_a_number_keeps_clear_of_a_double_outline(widget: Widget) -> None:
    widget.patterns()
    room = widget.root.locator(".ls-left .ls-badge.ls-twin").evaluate_all(
        """(badges) => badges.map((badge) => {
          const number = badge.firstChild, { data } = number, range = document.createRange();
          number.data = '12';  // these are 7 and more; a longer pipeline has them, too
          range.selectNodeContents(badge);
          const text = range.getBoundingClientRect(), box = badge.getBoundingClientRect();
          number.data = data;
          return Math.min(text.left - box.left, box.right - text.right);
        })"""
    )
    assert room
    assert min(room) > 3.5  # where the inner line ends


def drag(widget: Widget, pattern: str, onto: str) -> None:
    """Drag a pattern's row to the upper half of another's."""
    rows = [widget.find("pattern-row", pattern=name) for name in (pattern, onto)]
    rows[0].scroll_into_view_if_needed()
    source, goal = (row.bounding_box() for row in rows)
    assert source is not None
    assert goal is not None
    widget.page.mouse.move(source["x"] + 90, source["y"] + source["height"] / 2)
    widget.page.mouse.down()
    widget.page.mouse.move(source["x"] + 90, goal["y"] + 3, steps=4)
    widget.page.mouse.up()


def test_a_drag_moves_a_pattern_and_says_why_where_it_must_not(widget: Widget) -> None:
    widget.patterns()
    drag(widget, "fold_batch_norm", "core_aten")
    error = widget.find("region-error", region="patterns")
    error.wait_for()
    assert "'core_aten' must run before 'fold_batch_norm'" in error.inner_text()
    widget.find("dismiss-error").click()
    error.wait_for(state="detached")
    # A target's own patterns hold one another in their order; one of another target that is put in has more room.
    widget.lab.run_cell(2)
    name, onto = "im2col_conv_activation", "conv_with_clamp"
    widget.find("pattern-row", pattern=name).wait_for()
    order = widget.session()["order"]
    assert order[-2:] == [onto, name]
    drag(widget, name, onto)
    names = "(rows) => rows.map((row) => row.dataset.pattern)"
    shown = widget.find("pattern-row")
    widget.until(lambda: shown.evaluate_all(names) == [*order[:-2], name, onto])
    assert widget.session()["order"] == [*order[:-2], name, onto]
    for wanted in (order, order[:-1]):
        widget.find("undo").click()
        widget.until(lambda wanted=wanted: shown.evaluate_all(names) == wanted)


def test_hovering_a_row_highlights_its_matches_and_clicks_walk_through_them(widget: Widget) -> None:
    widget.patterns()
    row = widget.find("pattern-row", pattern=EPILOGUE)
    widget.page.mouse.move(1, 1)
    widget.keys("f")
    plain = at_rest(widget.picture, widget.page)
    row.hover()
    widget.until(lambda: widget.state("hover.pattern") == EPILOGUE and widget.picture() != plain)
    widget.page.mouse.move(1, 1)
    widget.until(lambda: widget.picture() == plain)
    row.click()
    visited = []
    for _ in range(3):
        row.click()
        widget.until(lambda: widget.state("selected") not in [[], *visited])
        visited.append(widget.state("selected"))
    members = widget.scene(
        "[...Array(scene.matches.length).keys()].filter((match) => scene.verdict(match) === 'applied'"
        f" && scene.patterns[scene.matches.pattern[match]].name === '{EPILOGUE}').length"
    )
    assert members == 8
    assert all(node.startswith("conv2d_with_epilogue") for (node,) in visited)


def test_the_skip_list_completes_what_is_typed_and_takes_globs_and_chips_go(widget: Widget) -> None:
    widget.patterns()
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
    widget.patterns()
    widget.find("skip-chip", kind="node").wait_for()
    assert widget.session()["after"] > after
    widget.find("undo").click()
    widget.find("skip-chip").wait_for(state="detached")


# ---------------------------------------------------------------------- steps
def test_steps_go_on_back_play_pause_and_scrub(widget: Widget) -> None:
    widget.sheet("steps")
    widget.find("step-first").click()
    widget.until(lambda: widget.state("step") == 0)
    widget.find("step-next").click()
    widget.find("step-next").click()
    assert widget.state("step") == 2
    widget.find("step-previous").click()
    assert widget.state("step") == 1
    speed(widget, "4")  # a step takes 0.4 s
    widget.find("play").click()
    widget.until(lambda: widget.state("step") >= 2)
    widget.find("play").click()
    stopped = widget.state("step")
    widget.page.wait_for_timeout(600)
    assert widget.state("step") == stopped
    speed(widget, "1")
    last = widget.scene("scene.lastStep")
    scrubber = widget.find("scrubber")
    if widget.state("width") == "narrow":  # where the track has yielded, its two ends are left
        assert not scrubber.is_visible()
        widget.find("step-back").click()
        assert widget.state("step") == stopped - 1
        widget.find("step-on").click()
        assert widget.state("step") == stopped
        widget.keys("}")
    else:
        scrubber.click()
        assert 0.3 * last < widget.state("step") < 0.7 * last
        scrubber.focus()
        widget.page.keyboard.press("End")
    assert widget.state("step") == last


def speed(widget: Widget, times: str) -> None:
    widget.find("speed").click()
    widget.find("menu-item", item=times).click()


def test_teaching_shows_the_sentence_and_mathematics_and_hides_the_rest(widget: Widget) -> None:
    widget.sheet("steps")
    widget.find("teach").click()
    step = widget.scene(f"1 + [...scene.steps.pattern].findIndex((p) => scene.patterns[p].name === '{EPILOGUE}')")
    assert step > 0
    widget.root.evaluate("(root, step) => root.lowerscope.store.setStep(step)", step)
    sentence = widget.root.locator(f'[data-ls="sentence"][data-step="{step}"] h2')
    sentence.wait_for()
    assert "conv2d" in sentence.inner_text()
    assert "activation(conv(x, w, b)" in widget.find("mathematics").inner_text()
    assert not widget.root.locator(".ls-left").is_visible()
    assert widget.root.locator(".ls-pane").count() == 2, "the neighbourhood before and after"
    widget.find("teach").click()
    assert widget.root.locator(".ls-left").is_visible()


# ---------------------------------------------------------------------- inspector
def test_the_inspector_has_arguments_constants_source_users_and_provenance(widget: Widget) -> None:
    widget.view("before")
    widget.travel(CONV)
    widget.find("why-not", node=CONV).wait_for()
    arguments = widget.find("argument").evaluate_all("(all) => all.map((one) => one.dataset.argument)")
    assert {"input", "weight", "padding"} <= set(arguments)
    assert "f32[1,4,8,8]" in widget.find("node-output").inner_text()
    assert "self.norm(self.conv(x))" in widget.find("node-source").inner_text()
    assert "body" in widget.find("node-module").inner_text()
    more = widget.find("more-facts")
    if more.count():
        more.locator("summary").click()
    assert widget.find("fact", fact="strides").inner_text() != ""
    assert widget.find("fact", fact="taken").locator('[data-ls="provenance"]').count() == 1
    widget.find("constant-open").first.click()
    widget.find("statistics").wait_for()
    assert "mean" in widget.find("statistics").inner_text()
    assert widget.find("histogram").locator("rect").count() > 4
    user = widget.find("fact", fact="users").locator('[data-ls="node-link"]').first
    name = user.get_attribute("data-node") or user.inner_text()
    user.click()
    widget.until(lambda: widget.state("selected") == [name])
    widget.keys("Alt+ArrowLeft")
    widget.until(lambda: widget.state("selected") == [CONV])


def test_a_size_that_is_a_symbol_has_its_range(widget: Widget) -> None:
    widget.view("before")
    widget.travel("linear")
    output = widget.find("node-output")
    widget.until(lambda: "[s" in output.inner_text())
    assert re.fullmatch(r"f32\[(s\d+),2\] \(\1 3\.\.64\)", output.inner_text().strip())


# ---------------------------------------------------------------------- search
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("cnv2d", {"op": "conv2d"}),
        ("op:conv module:body.1.* dtype:f32", {"op": "conv", "module": "body.1", "shape": "f32["}),
        ("op:sigmoid users>0", {"op": "sigmoid"}),
        (
            "op:conv dtype:f16 module:decoder.* users>1 unfused",
            {"op": "conv", "module": "decoder", "shape": "f16[", "users": 2},
        ),
        ("module:head op:conv", {"op": "conv", "module": "head"}),  # a module of one operator, and so without a box
        ("module:body.*.0.conv op:conv", {"op": "conv", "module": "body"}),
        ("module:decoder dtype:f16 unfused", {"module": "decoder", "shape": "f16["}),
    ],
)
def test_search_filters_and_its_results_walk_the_graph(widget: Widget, query: str, wanted: dict[str, Any]) -> None:
    widget.view("before")
    widget.keys("/")
    widget.page.keyboard.type(query)
    hits = widget.find("search-hit")
    hits.first.wait_for()
    names = at_rest(lambda: hits.evaluate_all("(all) => all.map((one) => one.dataset.node)"), widget.page)
    facts = widget.root.evaluate(
        """(root, names) => names.map((name) => {
          const scene = root.lowerscope.scene(), { nodes } = scene, row = scene.nodeRow(name);
          return {
            op: nodes.op(row), module: scene.modulePath(row), shape: nodes.shape(row), users: nodes.users[row],
          };
        })""",
        names,
    )
    assert wanted.get("op", "") in facts[0]["op"]
    if ":" in query:
        for fact in facts:
            assert wanted.get("op", "") in fact["op"]
            assert fact["module"].startswith(wanted.get("module", ""))
            assert fact["shape"].startswith(wanted.get("shape", ""))
            assert fact["users"] >= wanted.get("users", 0)
    for key, at in [("Enter", 0), ("Enter", 1), ("Shift+Enter", 0)] if len(names) > 1 else [("Enter", 0)]:
        widget.page.keyboard.press(key)
        widget.until(lambda at=at: widget.state("selected") == [names[at]])
    hits.last.click()
    last = hits.last.get_attribute("data-node")
    widget.until(lambda: widget.state("selected") == [last] and widget.box(str(last)) is not None)
    widget.keys("/")
    widget.page.keyboard.press("Escape")


def test_a_search_that_finds_nothing_says_what_to_try(widget: Widget) -> None:
    widget.keys("/")
    widget.page.keyboard.type("op:conv module:body.* unfused")
    found = widget.find("search-results")
    found.wait_for()
    assert "Nothing found. Try op:conv, module:body.*, dtype:f16, users>1, unfused" in found.inner_text()
    widget.page.keyboard.press("Backspace")
    for _ in "unfused":
        widget.page.keyboard.press("Backspace")
    widget.page.keyboard.type(" fused")
    widget.find("search-hit").first.wait_for()
    assert widget.find("search-hit").count() >= 8
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


def test_the_verdict_is_read_without_scrolling(widget: Widget) -> None:
    pill = widget.find("parity-pill", state="fresh")
    pill.wait_for(timeout=60_000)
    widget.find("metrics").evaluate("(strip) => { strip.scrollLeft = 0; }")
    lost = pill.evaluate(
        """(pill) => {
          const end = pill.closest('.ls-strip').querySelector('.ls-metrics-toggle').getBoundingClientRect().left;
          const range = document.createRange();
          range.selectNodeContents(pill);
          return Math.max(range.getBoundingClientRect().right - end, pill.scrollWidth - pill.clientWidth);
        }"""
    )
    assert lost <= 0
    assert pill.inner_text() == "Same numbers"
    assert widget.find("operators-after").is_visible()


def test_latency_shows_progress_and_stops_and_the_widget_answers_meanwhile(widget: Widget) -> None:
    widget.patterns()
    widget.find("measure-latency").first.click()
    stop = widget.find("latency").locator('[data-ls="progress-stop"]')
    stop.wait_for()
    widget.find("pattern-row", pattern=EPILOGUE).click()
    assert widget.state("focusedPattern") == EPILOGUE
    stop.click()
    widget.until(lambda: widget.state("latency.state") == "cancelled")


# ---------------------------------------------------------------------- what goes out
def export(widget: Widget, item: str) -> None:
    widget.find("export").click()
    widget.root.locator(f'[data-ls="menu-item"][data-item="{item}"]').click()


def test_the_recipe_is_copied_as_python_json_and_compile_options(widget: Widget) -> None:
    widget.patterns()
    off = widget.find("pattern-row", pattern=EPILOGUE)
    off.locator('[data-ls="pattern-toggle"]').click()
    widget.until(lambda: off.get_attribute("data-enabled") == "false")
    widget.find("copy-python").click()
    widget.until(lambda: "session" in widget.clipboard())
    python = widget.clipboard()
    compile(python, "recipe", "exec")
    assert f"session.disable('{EPILOGUE}')" in python
    export(widget, "json")
    widget.until(lambda: widget.clipboard().startswith("{"))
    recipe = json.loads(widget.clipboard())
    assert recipe["target"] == "vulkan"
    assert recipe["disabled"] == [EPILOGUE]
    export(widget, "compile_options")
    widget.until(lambda: widget.clipboard().startswith("compile_options"))
    options: dict[str, Any] = {}
    exec(widget.clipboard(), options)
    assert any(EPILOGUE in names for names in options["compile_options"].values())
    widget.find("undo").click()
    widget.until(lambda: off.get_attribute("data-enabled") == "true")


def test_svg_and_png_are_of_the_whole_graph(widget: Widget, tmp_path: Path) -> None:
    widget.travel("mul")
    widget.keys("0", "+", "+")  # far too near for the pane to show all
    height = widget.scene(
        "Math.max(...[...Array(scene.modules.length).keys()].map((i) => scene.modules.y[i] + scene.modules.h[i] || 0))"
    )
    with widget.page.expect_download() as download:
        export(widget, "png")
    download.value.save_as(tmp_path / "graph.png")
    encoded = base64.b64encode((tmp_path / "graph.png").read_bytes()).decode()
    tall, top, bottom = widget.page.evaluate(
        """async (data) => {
          const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
          const canvas = new OffscreenCanvas(picture.width, picture.height), pen = canvas.getContext('2d');
          pen.drawImage(picture, 0, 0);
          const colours = (y) => new Set(new Uint32Array(pen.getImageData(0, y, picture.width, 120).data.buffer)).size;
          return [picture.height, colours(0), colours(picture.height - 120)];
        }""",
        encoded,
    )
    assert tall > height
    assert min(top, bottom) > 3, "the first and the last node are drawn, at the two ends"
    with widget.page.expect_download() as download:
        export(widget, "svg")
    download.value.save_as(tmp_path / "graph.svg")
    svg = ElementTree.fromstring((tmp_path / "graph.svg").read_text())
    left, up, across, down = map(float, svg.attrib["viewBox"].split())
    texts = [text for text in svg.iter() if text.tag.endswith("text")]
    assert {"x", "body.0.0", "body.3.1", "sigmoid", "output"} <= {text.text for text in texts}
    assert all(left <= float(t.attrib["x"]) <= left + across and up <= float(t.attrib["y"]) <= up + down for t in texts)


def test_html_is_saved_and_the_pt2_says_which_custom_ops_it_needs(widget: Widget, tmp_path: Path) -> None:
    with widget.page.expect_download(timeout=60_000) as download:
        export(widget, "html")
    download.value.save_as(tmp_path / "net.html")
    assert (tmp_path / "net.html").read_text().lstrip().lower().startswith("<!doctype html")
    export(widget, "pt2")
    toast = widget.root.locator('[data-ls="toast"]', has_text="Saved the lowered program")
    toast.wait_for(timeout=60_000)
    assert re.search(r"needs `import lowerscope` for .*conv2d", toast.inner_text())
    # the picture on a page of its own, from disk: no request leaves it
    page = widget.page.context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "net.html").as_uri())
    page.locator('.ls-root[data-ls-ready="true"]').wait_for(timeout=60_000)
    page.locator('[data-ls="sheet"][data-sheet="steps"]').click()
    page.locator('[data-ls="step-next"]').first.click()
    assert page.locator(".ls-root").evaluate("(root) => root.lowerscope.state().step") == 1
    # a toggle that was recorded is replayed, too
    page.locator(f'[data-ls="pattern-row"][data-pattern="{EPILOGUE}"] [data-ls="pattern-toggle"]').click()
    page.locator(f'[data-ls="pattern-row"][data-pattern="{EPILOGUE}"][data-enabled="false"]').wait_for()
    assert [url for url in asked if not url.startswith(("blob:", "data:"))] == [(tmp_path / "net.html").as_uri()]
    page.close()
