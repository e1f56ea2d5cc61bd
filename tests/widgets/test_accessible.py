"""What everyone must be able to use: contrast, names, a keyboard path, reduced motion, forced colours; and one broken panel.

The page is the self-contained HTML file: the widget's own bundle, without a kernel, so that this is fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import lowerscope
from lowerscope_widgets.html_export import to_html
from tests.engine.nets import mixed

pytestmark = pytest.mark.browser

# Every element with a text of its own that is seen, its colour, and the colours behind it, the nearest first.
TEXTS = """
() => {
  const found = [];
  const walker = document.createTreeWalker(document.querySelector('.ls-root'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement;
    if (node.data.trim() === '' || element.closest('.ls-mirror, .ls-live, [aria-disabled=true], :disabled')) continue;
    const box = element.getBoundingClientRect();
    if (box.width === 0 || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const behind = [];
    for (let one = element; one !== null; one = one.parentElement) behind.push(getComputedStyle(one).backgroundColor);
    found.push({ text: node.data.trim().slice(0, 40), color: getComputedStyle(element).color, behind });
  }
  return found;
}
"""
RGBA = """
(colors) => {
  const canvas = new OffscreenCanvas(1, 1);
  const context = canvas.getContext('2d', { willReadFrequently: true });
  return colors.map((color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  });
}
"""
# What can be reached by Tab without a name that a screen reader would say.
NAMELESS = """
() => [...document.querySelectorAll('.ls-root button, .ls-root input, .ls-root select, .ls-root [tabindex], .ls-root [role]')]
  .filter((one) => one.checkVisibility() && !one.closest('[aria-hidden=true]')
    && !['presentation', 'none', 'group', 'status', 'alert', 'tree', 'list', 'listitem'].includes(one.getAttribute('role')))
  .filter((one) => !(one.getAttribute('aria-label') || one.getAttribute('title') || one.getAttribute('aria-labelledby')
    || one.getAttribute('placeholder') || one.innerText?.trim() || one.textContent.trim() || one.labels?.length))
  .map((one) => one.outerHTML.slice(0, 200))
"""
REGION = """
() => ['.ls-toolbar', '[data-ls=patterns]', '[data-ls=skips]', '.ls-graph', '.ls-right', '.ls-metrics']
  .find((selector) => document.querySelector(selector)?.contains(document.activeElement)) ?? ''
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("accessible") / "mixed.html"
    path.write_text(to_html(lowerscope.Session(mixed()))[0], encoding="utf-8")
    return path


@pytest.fixture
def page(file: Path, browser: Browser) -> Iterator[Page]:
    """The widget with a node selected."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator('.ls-root[data-ls-ready="true"]').wait_for(timeout=60_000)
    page.locator(".ls-root").evaluate("(root) => root.lowerscope.store.select(['conv2d_2'])")
    page.locator('[data-ls="why-not"][data-node="conv2d_2"][data-ready="true"]').wait_for()
    yield page
    context.close()


def contrast(one: list[float], other: list[float]) -> float:
    """WCAG 2.2's ratio of two opaque sRGB colours."""

    def luminance(color: list[float]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in color[:3])]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def over(top: list[float], below: list[float]) -> list[float]:
    """A colour with alpha on an opaque one."""
    return [t * top[3] + b * (1 - top[3]) for t, b in zip(top[:3], below[:3], strict=True)] + [1.0]


def too_faint(page: Page) -> list[str]:
    """The texts whose colour has less than 4.5:1 on what is behind them."""
    texts = page.evaluate(TEXTS)
    assert len(texts) > 15
    colors = sorted({c for t in texts for c in (t["color"], *t["behind"])})
    known = dict(zip(colors, page.evaluate(RGBA, colors), strict=True))
    faint = []
    for text in texts:
        behind: list[float] = [255, 255, 255, 1]
        for color in reversed(text["behind"]):
            behind = over(known[color], behind)
        ratio = contrast(over(known[text["color"]], behind), behind)
        if ratio < 4.5:
            faint.append(f"{ratio:.2f} {text['text']!r} {text['color']} on {behind}")
    return faint


def dark(page: Page) -> None:
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    page.locator(".ls-root.ls-dark").wait_for()
    page.wait_for_timeout(300)  # transitions of colour


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [600, 1000, 1400])
def test_every_text_has_a_contrast_of_4_5(page: Page, theme: str, width: int) -> None:
    if theme == "dark":
        dark(page)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(250)
    assert too_faint(page) == []
    page.locator(".ls-root").evaluate("(root) => root.lowerscope.store.setMetricsOpen(true)")
    page.locator('[data-ls="metrics-tables"]').wait_for()
    assert too_faint(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_palette_has_a_contrast_of_4_5(page: Page, theme: str) -> None:
    if theme == "dark":
        dark(page)
    pairs = [(ink, ground) for ink in ("text", "text2", "accent") for ground in ("panel", "sunk", "canvas")]
    pairs += [("pass", "pass-bg"), ("fail", "fail-bg"), ("near", "near-bg"), ("accent", "accent-bg")]
    pairs += [("on-p", f"p{i}") for i in range(1, 7)]
    names = sorted({name for pair in pairs for name in pair})
    colors = page.locator(".ls-root").evaluate(
        "(root, names) => names.map((name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim())", names
    )
    assert all(colors), dict(zip(names, colors, strict=True))
    known = dict(zip(names, page.evaluate(RGBA, colors), strict=True))
    assert [pair for pair in pairs if contrast(known[pair[0]], known[pair[1]]) < 4.5] == []


def test_everything_that_can_be_reached_has_a_name(page: Page) -> None:
    assert page.evaluate(NAMELESS) == []
    page.keyboard.press("?")
    page.locator(".ls-root").evaluate("(root) => root.lowerscope.store.setMetricsOpen(true)")
    page.locator('[data-ls="metrics-tables"]').wait_for()
    assert page.evaluate(NAMELESS) == []


def test_f6_goes_round_the_regions_and_tab_reaches_every_one(page: Page) -> None:
    page.locator(".ls-root").focus()
    round_ = []
    for _ in range(6):
        page.keyboard.press("F6")
        round_.append(page.evaluate(REGION))
    order = [".ls-toolbar", "[data-ls=patterns]", "[data-ls=skips]", ".ls-graph", ".ls-right", ".ls-metrics"]
    assert sorted(round_) == sorted(order), "|".join(round_)
    assert round_ == [*order[order.index(round_[0]) :], *order[: order.index(round_[0])]]
    page.locator(".ls-root").focus()
    seen: set[str] = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        seen.add(page.evaluate(REGION))
        if seen >= set(order):
            break
    assert seen >= set(order)


def test_reduced_motion_is_respected(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    moving = page.evaluate(
        "() => [...document.querySelectorAll('.ls-root *')].filter((one) => { const style = getComputedStyle(one);"
        " const seconds = (text) => Math.max(...text.split(',').map((part) => parseFloat(part)));"
        " return seconds(style.transitionDuration) > 0.001 || seconds(style.animationDuration) > 0.001"
        " && style.animationName !== 'none'; }).map((one) => one.className)"
    )
    assert moving == []


def test_forced_colours_keep_the_controls_visible(page: Page) -> None:
    page.emulate_media(forced_colors="active")
    page.wait_for_timeout(200)
    assert too_faint(page) == []
    ringed = page.locator('[data-ls="search"]')
    assert ringed.is_visible()


def test_a_bug_in_one_panel_leaves_the_others_working(page: Page) -> None:
    root = page.locator(".ls-root")
    healthy = root.evaluate("(root) => root.lowerscope.state().inspection")
    root.evaluate("(root) => root.lowerscope.store.update({ inspection: { node: 'conv2d_2' } })")  # lacks all else
    error = page.locator('[data-ls="panel-error"]')
    error.first.wait_for()
    assert "The others keep working." in error.first.inner_text()
    before = page.locator('[data-ls="operators-after"]').inner_text()
    page.locator('[data-ls="pattern-row"][data-pattern="conv2d_with_epilogue"] [data-ls="pattern-toggle"]').click()
    page.wait_for_function(
        "(before) => document.querySelector('[data-ls=operators-after]').innerText !== before", arg=before
    )
    root.evaluate("(root, inspection) => root.lowerscope.store.update({ inspection })", healthy)
    if error.count() > 0:  # the answer about the new recipe may have come before
        page.locator('[data-ls="panel-retry"]').first.click()
    page.locator('[data-ls="inspector"][data-node="conv2d_2"]').wait_for()
    assert error.count() == 0
