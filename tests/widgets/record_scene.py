"""Write a real recording of a sample model, for the front end's development page and for looking at scenes.

    python -m tests.widgets.record_scene [MODEL] [FOLDER]

MODEL is the name of a sample model (default: dsr); FOLDER (default: tests/build/recording) gets `recording.json`, which
the front end's `ReplayClient` replays, `header.json` and `columns.bin`, its first scene as it travels, and `page.html`,
the widget on it without a kernel.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
from pathlib import Path

import torch

import lowerscope
from lowerscope_widgets.html_export import record, to_html

ROOT = Path(__file__).parents[2]


def main(model: str = "dsr", folder: str = str(ROOT / "tests" / "build" / "recording")) -> None:
    """Export, lower and record `model`."""
    torch.set_num_threads(2)
    sys.path.insert(0, str(ROOT))
    module, inputs = importlib.import_module(f"sample_models.{model}").build()
    session = lowerscope.Session(lowerscope.capture(module, inputs, name=model))
    recording, note = record(session)
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    (into / "recording.json").write_text(json.dumps(recording), encoding="utf-8")
    first = recording["scenes"][recording["first"]]
    (into / "header.json").write_text(json.dumps(first["event"]["header"]), encoding="utf-8")
    (into / "columns.bin").write_bytes(base64.b64decode(first["buffer"]))
    (into / "page.html").write_text(to_html(session)[0], encoding="utf-8")
    print(f"{into}: {note}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
