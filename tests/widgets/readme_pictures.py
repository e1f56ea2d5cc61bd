"""The README's pictures, light and dark: ``python -m tests.widgets.readme_pictures`` takes them in a real JupyterLab.

They show `dsr` for vulkan with its one near miss asked about; at most 150 kB each.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.widgets.lab import THEMES, Lab, LabServer, launch_chromium

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "notebooks" / "pictures"
SIZE = (1090, 820)
MOST_BYTES = 150_000

CELL = f"""
import lowerscope

session = lowerscope.Session({str(ROOT / "sample_models" / "dsr.pt2")!r}, target="vulkan")
miss = session.near_misses().anchor.iloc[0]
session
"""
FIND = "print(miss)"


def show_the_miss(page: Page, node: str) -> None:
    """Wait until everything is measured, then select the node, so that its ladder of conditions is on screen."""
    page.locator('.ls-root[data-ls-ready="true"]').first.wait_for(timeout=60_000)
    page.locator('[data-ls="parity-pill"][data-state="fresh"]').first.wait_for(timeout=120_000)
    search = page.locator('[data-ls="search"]').first
    search = search if search.evaluate("(e) => e.tagName") == "INPUT" else search.locator("input")
    search.fill(node)
    search.press("Enter")
    page.locator(f'[data-ls="why-not"][data-node="{node}"]').wait_for(timeout=60_000)
    search.fill("")
    search.press("Escape")
    page.locator('[data-ls="view"][data-view="after"]').first.click()  # the end, not the step that made the node
    page.locator(".ls-root").first.scroll_into_view_if_needed()
    page.wait_for_timeout(1500)  # the view glides to the node


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home, LabServer(Path(home)) as server, sync_playwright() as playwright:
        browser = launch_chromium(playwright.chromium)
        lab = Lab(server, browser, "pictures", PICTURES)
        try:
            page = lab.open_notebook([CELL, FIND])
            lab.size(*SIZE)
            lab.run_all()
            node = lab.output(1).strip()
            for theme in THEMES:
                lab.theme(theme)  # type: ignore[arg-type]
                show_the_miss(page, node)
                path = PICTURES / f"explorer_{theme}.png"
                page.locator(".ls-root").first.screenshot(path=path)
                size = path.stat().st_size
                print(f"{path.relative_to(ROOT)}: {size:,} bytes")
                assert size < MOST_BYTES, f"{path} is larger than {MOST_BYTES:,} bytes: show less"
        finally:
            lab.close()
            browser.close()


if __name__ == "__main__":
    main()
