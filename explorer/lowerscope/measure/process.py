"""A process of its own for what ExecuTorch does: it can crash, takes seconds to import, and changes logging.

Both sides meet in a folder: the parent puts the job there, ``status.json`` tells how far the worker is, and ``error.json``
what it raised.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowerscope.errors import MeasureError
from lowerscope.measure.interpreter import Cancelled

_POLL_SECONDS = 0.05


def run_worker(
    worker: str, folder: Path, cancelled: Callable[[], bool], progress: Callable[[str, int, int], None]
) -> None:
    """Run the module `worker` on `folder` to its end; the process is gone when this returns or raises.

    Raises:
        MeasureError: the worker raised, or its process ended; the message says in which phase.
        Cancelled: `cancelled` returned True.
    """
    command = [sys.executable, "-W", "ignore", "-m", worker, str(folder)]
    with open(folder / "log.txt", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    shown = None
    try:
        while process.poll() is None:
            if cancelled():
                raise Cancelled
            status = read_json(folder / "status.json")
            if status is not None and status != shown:
                shown = status
                progress(status["phase"], status["done"], status["total"])
            time.sleep(_POLL_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
    if process.returncode == 0:
        return
    phase = (read_json(folder / "status.json") or {}).get("phase", "starting")
    error = read_json(folder / "error.json")
    if error is not None and error["kind"] == MemoryError.__name__:
        raise MeasureError(
            f"out of memory in the ExecuTorch process while {phase}: measure on smaller inputs; nothing else is lost"
        )
    if error is not None:
        raise MeasureError(f"ExecuTorch raises while {phase}: {error['kind']}: {error['message']}")
    if process.returncode < 0:
        reason = "memory may have run out" if process.returncode == -9 else "the runtime crashed"
        raise MeasureError(
            f"the ExecuTorch process was ended by signal {-process.returncode} while {phase}: {reason}; nothing else is lost"
        )
    last = _last_line(folder / "log.txt")
    raise MeasureError(f"the ExecuTorch process ended with code {process.returncode} while {phase}: {last}")


def work(main: Callable[[Path], None]) -> None:
    """The worker's side: run `main` on the folder that is the first argument, and leave what it raises there."""
    folder = Path(sys.argv[1])
    try:
        main(folder)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        write_json(folder / "error.json", {"kind": type(error).__name__, "message": lines[0] if lines else ""})
        raise


def tell_status(folder: Path, phase: str, done: int, total: int) -> None:
    """The worker's side: how far it is."""
    write_json(folder / "status.json", {"phase": phase, "done": done, "total": total})


def read_json(path: Path) -> Any:
    """What a file holds; None when there is none."""
    return json.loads(path.read_text()) if path.exists() else None


def write_json(path: Path, content: Any) -> None:
    """Write a file so that whoever reads it finds the old or the new one, never half of it."""
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(content))
    os.replace(partial, path)


def _last_line(path: Path) -> str:
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
