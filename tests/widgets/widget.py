"""A widget in a page, driven as a reader drives it: clicks, keys, what it says and where things are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from playwright.sync_api import Locator, Page

from tests.widgets.lab import Lab, at_rest, eventually

T = TypeVar("T")

#: A network that has what the items need: nested modules, an edge past many layers, what fuses and what does not.
CELLS = [
    """
import torch
from torch import nn
import lowerscope
from lowerscope_widgets import Explorer
torch.set_num_threads(2)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
    def forward(self, x):
        return torch.relu(x + self.norm(self.conv(x)))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.body = nn.Sequential(*[nn.Sequential(Block(), Block()) for _ in range(4)])
        self.head = nn.Conv2d(4, 2, 1)
    def forward(self, x):
        stem = self.stem(x)
        return self.head(stem * self.body(stem).sigmoid())

program = lowerscope.capture(Net().eval(), (torch.rand(1, 3, 8, 8),), name="net")
session = lowerscope.Session(program, target="vulkan")
explorer = Explorer(session, height=700)
explorer
""",
    """
import json
print(json.dumps({
    "order": [pattern.name for pattern in session.lowering.patterns],
    "disabled": sorted(session.recipe.disabled),
    "skips": len(session.recipe.skips),
    "after": int(session.op_counts().loc["total", "after"]),
    "selected": list(explorer.selected),
}))
""",
    """session.insert("im2col_conv_activation", after="conv_with_clamp")""",
]


class Widget:
    """The one widget of a notebook: its first cell shows it, its second prints what the session says.

    every: ms between looks at what comes to rest; fewer do where motion is reduced.
    """

    every = 100.0

    def __init__(self, lab: Lab, cells: list[str]) -> None:
        self.lab = lab
        self.page: Page = lab.open_notebook(cells)
        self.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        lab.run_cell(0)
        self.root = self.page.locator('.ls-root[data-ls-ready="true"]')
        self.root.wait_for(timeout=60_000)
        self.root.scroll_into_view_if_needed()
        self.page.set_default_timeout(10_000)

    def session(self) -> dict[str, Any]:
        """What the session says in Python."""
        self.lab.run_cell(1)
        return json.loads(self.lab.output(1))

    def state(self, path: str) -> Any:
        """A part of the front end's state, e.g. "selected" or "hover.pattern"."""
        read = "(root, path) => path.split('.').reduce((value, name) => value[name], root.lowerscope.state())"
        return self.root.evaluate(read, path)

    def scene(self, expression: str) -> Any:
        """An expression of `scene`."""
        return self.root.evaluate(f"(root) => {{ const scene = root.lowerscope.scene(); return {expression}; }}")

    def find(self, name: str, **data: str) -> Locator:
        """What has `data-ls="name"` and these other data attributes."""
        more = "".join(f'[data-{key.replace("_", "-")}="{value}"]' for key, value in data.items())
        return self.root.locator(f'[data-ls="{name}"]{more}')

    def until(self, holds: Any, seconds: float = 20.0) -> None:
        """Wait for something to hold; AssertionError when it does not."""
        assert eventually(holds, self.page, seconds)

    def rest(self, read: Callable[[], T]) -> T:
        """What `read` gives once it has been the same for a while."""
        return at_rest(read, self.page, every=self.every)

    def keys(self, *keys: str) -> None:
        """Press keys with the focus on the widget itself."""
        self.root.evaluate("(root) => root.focus({ preventScroll: true })")
        for key in keys:
            self.page.keyboard.press(key)

    # ------------------------------------------------------------------ the page
    def fit(self, width: int, theme: Literal["light", "dark"]) -> None:
        """Make the widget so many CSS pixels wide in a page of this theme."""
        self.lab.theme(theme)
        page, shown = 1400, -1
        for _ in range(4):  # what JupyterLab leaves around a cell's output is another in a narrow page
            self.lab.size(page, 900)
            shown = at_rest(lambda: self.root.evaluate("(root) => root.clientWidth"), self.page)
            if shown == width:
                return
            page += width - shown
        raise AssertionError(f"the widget is {shown} px wide in the last of these pages, not {width}")

    def patterns(self) -> None:
        """Show the patterns and skips, which stand in a drawer where the widget is narrow."""
        drawer = self.find("drawer-open")
        if drawer.is_visible():
            drawer.click()
        self.find("patterns").wait_for()

    def without_drawer(self) -> None:
        """Close the drawer of the patterns, if it is open over the graph."""
        close = self.find("drawer-close")
        if close.is_visible():
            close.click()

    def sheet(self, name: str) -> None:
        """Show a sheet of the right column, which is closed at first where the widget is narrow."""
        self.without_drawer()
        tab = self.find("sheet", sheet=name)
        if not tab.is_visible():
            self.find("step").click()
        tab.click()

    # ------------------------------------------------------------------ the graph
    def view(self, name: str) -> None:
        self.find("view", view=name).click()
        self.until(lambda: self.state("view") == name)

    def box(self, node: str) -> dict[str, float] | None:
        return self.root.evaluate("(root, node) => root.nodeRect(node)?.toJSON() ?? null", node)

    def place(self, node: str) -> tuple[float, float]:
        """The middle of a node's box in the page, once it rests. AssertionError when it is not drawn."""
        box = self.rest(lambda: self.box(node))
        assert box is not None, f"{node} is not drawn"
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def travel(self, node: str) -> None:
        """Bring a node into view and select it."""
        self.root.evaluate("(root, node) => root.lowerscope.store.travel(node)", node)
        self.until(lambda: self.state("selected") == [node] and self.box(node) is not None)
        self.place(node)

    def menu(self, x: float, y: float, label: str) -> None:
        """Right-click there and choose from the menu."""
        self.page.mouse.click(x, y, button="right")
        self.root.get_by_role("menuitem", name=re.compile(label)).first.click()

    def ground(self) -> tuple[float, float]:
        """A point of the graph where nothing is."""
        found = self.root.evaluate(
            """(root) => {
              const box = root.querySelector('.ls-pane').getBoundingClientRect();
              for (let y = box.bottom - 30; y > box.top; y -= 9)
                for (let x = box.left + 8; x < box.right - 60; x += 9)
                  if (root.hitTest(x, y) === null && document.elementFromPoint(x, y)?.closest('.ls-pane')) return [x, y];
              return null;
            }"""
        )
        assert found is not None, "the graph fills the pane"
        return found[0], found[1]

    def first_hit(self, kind: str, **having: object) -> tuple[float, float]:
        """A point of the graph at which a click or hover finds a thing of this kind, with these facts."""
        found = self.root.evaluate(
            """(root, wanted) => {
              const box = root.querySelector('.ls-pane').getBoundingClientRect();
              for (let y = box.top + 4; y < box.bottom - 4; y += 2)
                for (let x = box.left + 4; x < box.right - 60; x += 3) {
                  const hit = root.hitTest(x, y);
                  if (
                    Object.entries(wanted).every(([name, value]) => hit?.[name] === value) &&
                    document.elementFromPoint(x, y)?.closest('.ls-pane')
                  )
                    return [x, y];
                }
              return null;
            }""",
            {"kind": kind, **having},
        )
        assert found is not None, f"there is no {kind} in view"
        return found[0], found[1]

    def tip(self) -> str:
        """What the tooltip says, once it shows."""
        tip = self.root.locator(".ls-tip:not([hidden])").first
        tip.wait_for()
        return tip.inner_text()

    def picture(self, layer: int = 0, pane: int = 0) -> str:
        """The pixels of one of a pane's two canvases, to compare: 0 the graph, 1 what lies over it."""
        return self.root.evaluate(
            "(root, [layer, pane]) => root.querySelectorAll('.ls-pane')[pane].querySelectorAll('.ls-stage canvas')[layer].toDataURL()",
            [layer, pane],
        )

    def clipboard(self) -> str:
        return self.page.evaluate("navigator.clipboard.readText()")
