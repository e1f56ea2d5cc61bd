"""Ten widgets in a notebook against one: a frame while the last of them is panned, and while the notebook is scrolled.

Two notebooks of a real JupyterLab, in the same headless Chromium, measured in turns, both of the same height: in the one stand
nine tables in the place of nine widgets. Each widget shows the super-resolution sample (469 operators). A frame is the time
from one animation frame to the next: what a reader sees.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.benchmarks.bench_panning import p95  # noqa: E402  (a script: the repository is not on its path before)
from tests.widgets.lab import Lab, LabServer, launch_chromium  # noqa: E402

AIM = 1.5
MANY = 10
SHOW = f"""
import torch
torch.set_num_threads(2)
import lowerscope
import pandas as pd
from IPython.display import HTML, display
from lowerscope_widgets import Explorer

program = lowerscope.load({str(ROOT / "sample_models" / "dsr.pt2")!r})
table = pd.DataFrame([[f"{{row}} {{column}}" for column in range(12)] for row in range(60)]).to_html()
for _ in range({MANY} - %d):
    display(HTML(f"<div style='height: 500px; overflow: auto'>{{table}}</div>"))
for _ in range(%d):
    display(Explorer(lowerscope.Session(program), height=500))
"""

#: Frames while the last widget is dragged back and forth by 300 px, or the notebook is scrolled by 600.
FRAMES = """async ({ frames, scroll }) => {
  const roots = [...document.querySelectorAll('.ls-root')].filter((root) => root.isConnected);
  const root = roots.at(-1), pane = root.querySelector('.ls-pane');
  root.scrollIntoView({ block: 'center' });
  const beat = () => new Promise(requestAnimationFrame);
  for (let i = 0; i < 30; i++) await beat();
  let scroller = root;
  while (scroller.scrollHeight <= scroller.clientHeight + 600 || !/auto|scroll/.test(getComputedStyle(scroller).overflowY))
    scroller = scroller.parentElement;
  const box = pane.getBoundingClientRect(), top = scroller.scrollTop;
  pane.setPointerCapture = () => {};  // of a pointer that no hand moves there is nothing to capture
  const at = (frame) => { const way = (frame * 14) % 600; return way < 300 ? way : 600 - way; };
  const send = (type, frame) => pane.dispatchEvent(new PointerEvent(type, {
    bubbles: true, pointerId: 7, isPrimary: true, pointerType: 'mouse', button: 0, buttons: 1,
    clientX: box.x + box.width / 2 + at(frame) / 4, clientY: box.y + 40 + at(frame),
  }));
  const seen = () => scroll ? scroller.scrollTop : pane.querySelector('.ls-stage').style.transform;
  const times = [], places = new Set();
  if (!scroll) send('pointerdown', 0);
  let last = await beat();
  for (let frame = 1; frame <= frames; frame++) {
    if (scroll) scroller.scrollTop = top - 2 * at(frame);
    else send('pointermove', frame);
    const now = await beat();
    times.push(now - last);
    last = now;
    places.add(seen());
  }
  if (!scroll) send('pointerup', frames);
  scroller.scrollTop = top;
  if (places.size < 10) throw new Error(`Only ${places.size} places were seen in ${frames} frames.`);
  return times;
}"""


def opened(lab: Lab, widgets: int) -> Page:
    """A notebook that shows so many widgets, all drawn and their numbers measured."""
    page = lab.open_notebook([SHOW % (widgets, widgets)])
    lab.run_cell(0)
    page.wait_for_function(
        """(count) => {
          const roots = [...document.querySelectorAll('.ls-root[data-ls-ready="true"]')];
          return roots.length === count && roots.every((root) => root.lowerscope.state().parity.state === 'fresh');
        }""",
        arg=widgets,
        timeout=300_000,
    )
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description="Ten widgets in a notebook against one.")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds")
    parser.add_argument("--frames", type=int, default=200, help="frames of a drag or a scroll")
    options, _ = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as home, LabServer(Path(home)) as server, sync_playwright() as playwright:
        browser = launch_chromium(playwright.chromium)
        labs = {count: Lab(server, browser, f"widgets_{count}", Path(home)) for count in (1, MANY)}
        pages = {count: opened(lab, count) for count, lab in labs.items()}
        print(f"{'ms a frame':32} {'one':>8} {'p95':>8} {'ten':>8} {'p95':>8} {'ratio':>7} {'p95':>7}  aim")
        for title, scroll in (("panning the last widget", False), ("scrolling the notebook", True)):
            times: dict[int, list[float]] = {count: [] for count in pages}
            for _ in range(options.rounds):
                for count, page in pages.items():
                    page.bring_to_front()
                    times[count] += page.evaluate(FRAMES, {"frames": options.frames, "scroll": scroll})
            one, ten = [(statistics.median(times[count]), p95(times[count])) for count in pages]
            figures = (*one, *ten, ten[0] / one[0], ten[1] / one[1])
            print(f"{title:32}", *(f"{figure:8.1f}" for figure in figures[:4]),
                  *(f"{figure:6.2f}x" for figure in figures[4:]), f" {AIM}x", flush=True)  # fmt: skip
        browser.close()


if __name__ == "__main__":
    main()
