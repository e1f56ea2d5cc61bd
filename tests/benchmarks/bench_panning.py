"""Panning: 10,000 nodes with every module open and 50,000 with every module closed, against an empty canvas of that size.

All in one page of a headless Chromium, the networks made up by the front end's development page (which needs no kernel):
a drag of 14 px a frame, back and forth by 700 px, so that the bitmap has to be drawn anew again and again. A frame is the
time from one animation frame to the next: what a reader sees; a canvas that draws nothing takes one beat of the screen.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.widgets.lab import launch_chromium  # noqa: E402  (a script: the repository is not on its path before)

FRONT_END = ROOT / "widgets" / "front-end"
COLUMNS = 20
AIM = 2.0

PAN = """async ({ frames, empty }) => {
  const pane = document.querySelector(".ls-pane"), box = pane.getBoundingClientRect();
  let target = pane, canvas = null, shift = 0;
  if (empty) {
    const shown = pane.querySelector("canvas");
    canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [shown.width, shown.height];
    canvas.style.cssText = "position:fixed;z-index:9;background:#fff;" + ["left", "top", "width", "height"].map(
      (side) => `${side}:${box[side]}px`).join(";");
    document.body.append(canvas);
    canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
  }
  const at = (frame) => { const way = (frame * 14) % 1400; return way < 700 ? way : 1400 - way; };
  pane.setPointerCapture = () => {};  // of a pointer that no hand moves there is nothing to capture
  const send = (type, frame) => pane.dispatchEvent(new PointerEvent(type, {
    bubbles: true, pointerId: 7, isPrimary: true, pointerType: "mouse", button: 0, buttons: 1,
    clientX: box.x + box.width / 2 + at(frame) / 4, clientY: box.y + 40 + at(frame),
  }));
  const beat = () => new Promise(requestAnimationFrame);
  const times = [];
  if (!empty) send("pointerdown", 0);
  let last = await beat();
  const before = pane.querySelector(".ls-stage").style.transform;
  let moved = 0;
  for (let frame = 1; frame <= frames; frame++) {
    if (empty) canvas.style.transform = `translate(${at(frame) / 4}px,${at(frame)}px)`;
    else send("pointermove", frame);
    const now = await beat();
    times.push(now - last);
    last = now;
    if (pane.querySelector(".ls-stage").style.transform !== before) moved++;
  }
  if (!empty && moved < frames / 2) throw new Error(`The graph followed the drag in ${moved} of ${frames} frames.`);
  if (empty) canvas.remove();
  else send("pointerup", frames);
  return times;
}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder's address: a browser loads no module from disk."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def opened(page: Page, address: str, blocks: int, closed: str) -> int:
    """Show a network of columns of blocks, wholly in view; how many nodes it has."""
    columns = ",".join(f"part{at}:{blocks // COLUMNS}" for at in range(COLUMNS))
    page.goto(f"{address}/page.html?columns={columns}&closed={closed}")
    root = page.locator('.ls-root[data-ls-ready="true"]')
    root.wait_for(timeout=120_000)
    root.focus()
    page.wait_for_timeout(1500)
    return root.evaluate("(root) => root.lowerscope.scene().nodes.length")


def measured(page: Page, frames: int, *, empty: bool) -> list[float]:
    return page.evaluate(PAN, {"frames": frames, "empty": empty})


def p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Panning against an empty canvas.")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds")
    parser.add_argument("--frames", type=int, default=200, help="frames of a drag")
    options, _ = parser.parse_known_args()
    subprocess.run(["node", "build.mjs", "--page"], cwd=FRONT_END, check=True)
    with served(FRONT_END / "build" / "page") as address, sync_playwright() as playwright:
        browser = launch_chromium(playwright.chromium)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        print(
            f"{'panning, ms a frame':44} {'median':>8} {'p95':>8} {'empty':>8} {'p95':>8} {'ratio':>7} {'p95':>7}  aim"
        )
        for title, blocks, closed in (("every module open", 1_680, ""), ("every module closed", 8_340, "all")):
            nodes = opened(page, address, blocks, closed)
            for zoom, keys in (("as a whole", ["f"]), ("at 40%", ["0", *"------"]), ("at 100%", ["0"])):
                for key in keys:
                    page.keyboard.press(key)
                    page.wait_for_timeout(300)
                page.wait_for_timeout(700)
                times: dict[bool, list[float]] = {True: [], False: []}
                for _ in range(options.rounds):
                    for empty in (True, False):
                        times[empty] += measured(page, options.frames, empty=empty)
                ours, theirs = [(statistics.median(times[it]), p95(times[it])) for it in (False, True)]
                figures = (*ours, *theirs, ours[0] / theirs[0], ours[1] / theirs[1])
                print(f"{f'{nodes:,} nodes, {title}, {zoom}':44}", *(f"{figure:8.1f}" for figure in figures[:4]),
                      *(f"{figure:6.2f}x" for figure in figures[4:]), f" {AIM}x", flush=True)  # fmt: skip
        browser.close()


if __name__ == "__main__":
    main()
