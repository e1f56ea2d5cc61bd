"""What a step is called and its mathematics set in type, and the colour of growth: in the self-contained page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

import lowerscope
from lowerscope_widgets.html_export import to_html
from tests.widgets.test_items_graph_html import Replayed

pytestmark = pytest.mark.browser

MODEL = Path(__file__).parents[2] / "sample_models" / "upsampler.pt2"


@pytest.fixture(scope="module")
def widget(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replayed]:
    """A program that grows as it is lowered: a transposed convolution becomes several operators."""
    path = tmp_path_factory.mktemp("steps") / "upsampler.html"
    path.write_text(to_html(lowerscope.Session(str(MODEL), target="xnnpack"))[0], encoding="utf-8")
    context = browser.new_context(viewport={"width": 1400, "height": 740})
    widget = Replayed(context.new_page(), path)
    widget.root.evaluate("(root) => root.lowerscope.store.setTeaching(true)")
    yield widget
    context.close()


def test_a_decomposition_names_the_operator_that_it_takes_apart(widget: Replayed) -> None:
    named = {number: widget.find("step-row", step=str(number)).inner_text().replace("\n", "") for number in (1, 2, 3)}
    assert "conv2d" in named[1]
    assert "core_aten" not in named[1]
    assert "conv_transpose2d · depthwise.0" in named[2]
    assert "conv2d · depthwise.0" in named[3], "two steps of one module are told apart"
    fused = widget.scene("1 + [...scene.steps.pattern].findIndex((p) => scene.patterns[p].name === 'fuse_activation')")
    assert "·" not in widget.find("step-row", step=str(fused)).inner_text(), "what takes several is not named by one"


def test_words_of_the_mathematics_stand_upright_and_letters_slant(widget: Replayed) -> None:
    def slanted(step: int) -> set[str]:
        widget.root.evaluate("(root, step) => root.lowerscope.store.setStep(step)", step)
        widget.root.locator(f'[data-ls="sentence"][data-step="{step}"]').wait_for()
        return set(widget.find("mathematics").locator("i").all_inner_texts())

    assert "torch's" in widget.find("mathematics").inner_text()
    assert slanted(1) == {"f", "x"}, "not the s of torch's"
    fused = widget.scene("1 + [...scene.steps.pattern].findIndex((p) => scene.patterns[p].name === 'fuse_activation')")
    assert not slanted(fused) & {"a"}, widget.find("mathematics").inner_text()


def test_growth_has_one_colour_in_the_strip_and_in_the_table(widget: Replayed) -> None:
    widget.root.evaluate("(root) => root.lowerscope.store.setTeaching(false)")
    widget.root.evaluate("(root) => root.lowerscope.store.setView('after')")
    strip = widget.find("operators-change")
    assert strip.inner_text().startswith("+")
    widget.keys("m")
    total = widget.root.locator(".ls-table tr", has_text="total").locator("td").last
    total.wait_for()
    colour = "(element) => getComputedStyle(element.querySelector('span') ?? element).color"
    assert total.inner_text().startswith("+")
    assert total.evaluate(colour) == strip.evaluate(colour)
    fewer = widget.root.locator(".ls-table td .ls-good").all_inner_texts()
    assert fewer
    assert all(text.startswith("−") for text in fewer), "green is what became less"
