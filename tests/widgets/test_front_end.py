"""The front end's own unit tests, run by node."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

FRONT_END = Path(__file__).parents[2] / "widgets" / "front-end"


def test_the_front_ends_unit_tests_pass() -> None:
    run = subprocess.run(["npm", "test"], cwd=FRONT_END, capture_output=True, text=True)
    report = run.stdout + run.stderr
    assert run.returncode == 0, report
    counts = dict(re.findall(r"^\W+(tests|fail|skipped) (\d+)$", run.stdout, re.MULTILINE))
    assert int(counts["tests"]) > 0, report
    assert counts["fail"] == counts["skipped"] == "0", report
