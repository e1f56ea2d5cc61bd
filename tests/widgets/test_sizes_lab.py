"""Every panel in a widget of 480, 600, 1000 and 1400 px, light and dark: no text is cut without a sign, and none lies on another.

The pictures stay among the build outputs, to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.widgets.widget import Widget

pytestmark = pytest.mark.browser

NODE = "conv2d_3"

# Every piece of text as the boxes of its lines: one that a box cuts off at its side without an ellipsis or a way to scroll
# there, and two that lie on each other in one layer.
FLAWS = """
(root) => {
  const flaws = [], layers = new Map();
  if (root.scrollWidth > root.clientWidth) flaws.push(`the widget is ${root.scrollWidth - root.clientWidth} px too wide`);
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, parent = text.parentElement, said = text.data.trim();
    if (said === '' || parent.closest('.ls-live, [role=tree], style, svg')) continue;
    if (!parent.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const range = document.createRange();
    for (const { 0: word, index } of text.data.matchAll(/[a-z]{2,15}/gi)) {
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      const tops = [...range.getClientRects()].map((one) => one.top);
      if (Math.max(...tops) - Math.min(...tops) > 6) flaws.push(`"${word}" is broken`);
    }
    range.selectNodeContents(text);
    for (const line of range.getClientRects()) {
      let { left, right, top, bottom } = line, cut = '', layer = root;
      for (let box = parent; box !== root.parentElement; box = box.parentElement) {
        const style = getComputedStyle(box), edge = box.getBoundingClientRect();
        if (style.overflowX !== 'visible' && style.display !== 'inline') {
          const lost = Math.max(edge.left - left, right - edge.right);
          // an ellipsis stands for what is lost at the end of a block's lines; a flex container draws none for its text
          const ellipsis = style.textOverflow === 'ellipsis' && left > edge.left - 1.5 && !/flex|grid/.test(style.display);
          const signed = ellipsis || ['auto', 'scroll'].includes(style.overflowX);
          if (lost > 1.5 && !signed && left < edge.right && right > edge.left) cut ||= `"${said.slice(0, 40)}" is cut by ${lost.toFixed(0)} px`;
          if (signed) cut = cut || ' ';
          [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
          [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
        }
        if (layer === root && ['absolute', 'fixed', 'sticky'].includes(style.position)) layer = box;
      }
      if (right - left < 1 || bottom - top < 2) continue;
      if (cut.trim() !== '') flaws.push(cut);
      const others = layers.get(layer) ?? layers.set(layer, []).get(layer);
      for (const other of others) {
        if (other.text === text) continue;
        const wide = Math.min(right, other.right) - Math.max(left, other.left);
        const tall = Math.min(bottom, other.bottom) - Math.max(top, other.top);
        if (wide > 1.5 && tall > 4) flaws.push(`"${said.slice(0, 40)}" lies on "${other.said.slice(0, 40)}"`);
      }
      others.push({ text, said, left, right, top, bottom });
    }
  }
  return [...new Set(flaws)];
}
"""


def resting(widget: Widget) -> None:
    """No panel, menu or sheet is open, and the program is shown."""
    widget.root.evaluate(
        """(root) => {
          const { store } = root.lowerscope;
          store.select([]); store.focusPattern(null); store.setMetricsOpen(false); store.setTeaching(false);
          store.setHelpOpen(false); store.setWhyFocus(false); store.setSheetOpen(false); store.search('');
          store.setView('after'); store.setTab('graph');
        }"""
    )


def act(widget: Widget, call: str) -> None:
    widget.root.evaluate(f"(root) => {{ const {{ store }} = root.lowerscope; {call} }}")


def node(widget: Widget) -> None:
    act(widget, f"store.setView('before'); void store.travel('{NODE}'); store.setTab('why'); store.setSheetOpen(true);")
    sheet(widget, "node")
    widget.find("why-not", node=NODE, ready="true").wait_for()


def sheet(widget: Widget, name: str) -> None:
    act(widget, "store.setTab('why'); store.setSheetOpen(true);")
    tab = widget.find("sheet", sheet=name)
    if tab.count() and tab.is_visible():
        tab.click()


def why(widget: Widget) -> None:
    node(widget)
    act(widget, "store.setWhyFocus(true);")


def patterns(widget: Widget) -> None:
    act(widget, "store.setTab('patterns'); store.skipText('body.1.*');")
    drawer = widget.find("drawer-open")
    if drawer.count() and drawer.is_visible():
        drawer.click()
    widget.find("skip-chip").wait_for(state="attached")


def tables(name: str) -> Callable[[Widget], None]:
    def shown(widget: Widget) -> None:
        act(widget, "store.setTab('numbers'); store.setMetricsOpen(true);")
        widget.find("metrics-tab", sheet=name).click()

    return shown


def menu(widget: Widget) -> None:
    widget.find("export").click()
    widget.root.locator('[data-ls="menu-item"]').first.wait_for()


def search(widget: Widget) -> None:
    widget.keys("/")
    widget.page.keyboard.type("conv")
    widget.find("search-hit").first.wait_for()


PANELS: dict[str, Callable[[Widget], None]] = {
    "graph": lambda widget: widget.keys("f"),
    "diff": lambda widget: act(widget, "store.setView('diff');"),
    "split": lambda widget: act(widget, "store.setView('split');"),
    "patterns": patterns,
    "node": node,
    "why": why,
    "steps": lambda widget: sheet(widget, "steps"),
    "changes": lambda widget: sheet(widget, "changes"),
    "misses": lambda widget: sheet(widget, "misses"),
    "lesson": lambda widget: act(widget, "store.setTeaching(true); store.setStep(12);"),
    "operators": tables("operators"),
    "parity": tables("parity"),
    "help": lambda widget: act(widget, "store.setHelpOpen(true);"),
    "export": menu,
    "search": search,
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [480, 600, 1000, 1400])
def test_every_panel_fits(widget: Widget, width: int, theme: str) -> None:
    widget.fit(width, theme)  # type: ignore[arg-type]
    flaws: dict[str, list[str]] = {}
    for name, show in PANELS.items():
        resting(widget)
        show(widget)
        widget.page.wait_for_timeout(150)  # what unfolds has unfolded
        widget.root.scroll_into_view_if_needed()
        widget.lab.screenshot(f"panel_{name}_{theme}_{width}")
        found = widget.root.evaluate(FLAWS)
        if found:
            flaws[name] = found
        for _ in range(2):
            widget.page.keyboard.press("Escape")
        if name == "patterns":
            widget.find("skip-remove").first.evaluate("(button) => button.click()")
            widget.find("skip-chip").wait_for(state="detached")
            close = widget.find("drawer-close")
            if close.count() and close.is_visible():
                close.click()
    assert flaws == {}


def test_the_check_finds_what_is_cut_broken_too_wide_and_covered(widget: Widget) -> None:
    widget.root.evaluate(
        """(root) => {
          const planted = document.createElement('div');
          planted.id = 'planted';
          planted.style.cssText = 'position: absolute; z-index: 99; top: 0; left: 0; width: 60px; height: 60px;';
          planted.innerHTML = `<div style="overflow: hidden; white-space: nowrap">cut off at its end</div>
            <div style="width: 30px; overflow-wrap: anywhere">decomposition</div>
            <div style="position: relative; margin-left: 9000px">far</div>
            <div>below</div><div style="margin-top: -16px">above</div>`;
          root.append(planted);
        }"""
    )
    found = "\n".join(widget.root.evaluate(FLAWS))
    widget.root.evaluate("(root) => root.querySelector('#planted').remove()")
    assert '"cut off at its end" is cut by' in found
    assert '"decomposition" is broken' in found
    assert "px too wide" in found
    assert '"above" lies on "below"' in found
