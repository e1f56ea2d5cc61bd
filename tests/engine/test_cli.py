"""The command line, run as a user runs it: what it prints, its exit codes, its JSON, and its help."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lowerscope import cli
from lowerscope.session import Session

MODEL = "model.pt2"


class _Net(nn.Module):
    """A convolution with its relu, and one whose result is read twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.second(F.relu(self.first(x)))
        return F.relu(y), F.sigmoid(y)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `MODEL` is."""
    folder = tmp_path_factory.mktemp("cli")
    torch.manual_seed(0)
    torch.export.save(torch.export.export(_Net().eval(), (torch.randn(1, 3, 8, 8),)), folder / MODEL)
    return folder


def _lowerscope(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "COLUMNS": "200"}
    command = [sys.executable, "-m", "lowerscope.cli", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_report_prints_patterns_operators_and_parity(folder):
    run = _lowerscope(folder, "report", MODEL)
    assert run.returncode == 0, run.stderr
    assert "conv2d_with_epilogue" in run.stdout
    assert "et_vk.conv2d.with_epilogue" in run.stdout
    assert "conv2d_with_epilogue  1 applied · 1 near\n" in run.stdout
    assert "quantized_linear      -\n" in run.stdout
    assert "\nnumbers: Identical numbers.\noutput" in run.stdout


def test_report_as_json_says_what_the_session_says(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert cli.main(["report", MODEL, "--json", "--disable", "conv2d_with_epilogue"]) == 0
    said = json.loads(capsys.readouterr().out)
    session = Session(MODEL)
    session.disable("conv2d_with_epilogue")
    assert said["recipe"] == session.recipe.as_dict()
    assert said["patterns"]["conv2d_with_epilogue"]["would"] == 1
    assert said["patterns"]["conv_with_clamp"]["applied"] == session.patterns().applied["conv_with_clamp"] == 1
    assert said["operators"]["total"]["after"] == session.op_counts().after["total"]
    parity = session.parity()
    assert [row["verdict"] for row in said["parity"]] == parity.verdict.tolist()
    assert [row["max_abs"] for row in said["parity"]] == parity.max_abs.tolist()
    assert [row["nan_agrees"] for row in said["parity"]] == [True, True]


def _documented(capsys, command: str) -> dict[str, set[str]]:
    """The keys that `--help` lists, and those of the objects in each."""
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    keys: dict[str, set[str]] = {}
    for line in capsys.readouterr().out.partition("keys of the JSON object:\n")[2].splitlines():
        key, meaning = line.split(maxsplit=1)
        assert len(meaning.split()) >= 2
        if line.startswith("    "):
            keys[list(keys)[-1]].add(key)
        else:
            keys[key] = set()
    return keys


@pytest.mark.parametrize(
    ("command", "named", "inner"),
    [
        ("report", [], {"patterns", "near_misses", "operators", "parity"}),
        ("why", ["conv2d_with_epilogue", "conv2d_1"], {"conditions"}),
    ],
)
def test_the_keys_that_help_lists_are_those_of_the_json(folder, monkeypatch, capsys, command, named, inner):
    monkeypatch.chdir(folder)
    keys = _documented(capsys, command)
    assert cli.main([command, MODEL, *named, "--json"]) == 0
    said = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert list(said) == list(keys)
    assert {key for key, found in keys.items() if found} == inner
    for key in inner:
        rows = said[key].values() if isinstance(said[key], dict) else said[key]
        assert rows
        assert all(set(row) == keys[key] for row in rows)


def test_report_leaves_a_skipped_pattern_out(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert cli.main(["report", MODEL, "--json", "--skip-pattern", "conv2d_with_epilogue"]) == 0
    assert json.loads(capsys.readouterr().out)["patterns"]["conv2d_with_epilogue"]["applied"] == 0


def test_report_ends_with_3_when_the_numbers_differ_and_says_why(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    report = Session(MODEL).parity_report()
    row = report.rows[0]
    broken = replace(row, verdict="incomparable", why="relu at node r raises: use .reshape instead.")
    monkeypatch.setattr(cli.Session, "parity_report", lambda self: replace(report, rows=[broken, *report.rows[1:]]))
    assert cli.main(["report", MODEL]) == 3
    said = capsys.readouterr().out
    assert "numbers: Broken: relu at node r raises: use .reshape instead.\n" in said
    assert "incomparable" in said


def test_a_report_fits_the_terminal(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "60")
    assert cli.main(["report", MODEL, "--target", "webgpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    off = next(i for i, line in enumerate(lines) if "conv2d_with_epilogue" in line)
    assert "off" in lines[off]
    assert "skipped by the target: its runtime does not implement" in lines[off + 1]
    assert cli.main(["report", MODEL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    miss = next(i for i, line in enumerate(lines) if line.endswith("conv2d_with_epilogue convolution_1"))
    assert lines[miss + 1].strip().startswith("the convolution has 2 users")


def test_a_pattern_of_another_target_leads_to_that_target(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for arguments in (["why", MODEL, "fuse_activation", "relu"], ["report", MODEL, "--disable", "fuse_activation"]):
        assert cli.main(arguments) == 1
        assert "so lower for it with --target xnnpack" in capsys.readouterr().err


def test_why_prints_the_explanation(folder):
    run = _lowerscope(folder, "why", MODEL, "conv2d_with_epilogue", "conv2d_1")
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str(Session(folder / MODEL).why_not("conv2d_with_epilogue", "conv2d_1"))
    assert "[one_user @ sigmoid]" in run.stdout


def test_why_as_json_names_the_condition_and_the_node(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert cli.main(["why", MODEL, "conv2d_with_epilogue", "conv2d_1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["node"], said["anchor"]) == ("near miss", "conv2d_1", "convolution_1")
    failed = [row for row in said["conditions"] if row["status"] == "failed"]
    assert [(row["condition"], row["node"]) for row in failed] == [("one_user", "sigmoid")]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["report", "absent.pt2"], "absent.pt2"),
        (["report", MODEL, "--target", "vulcan"], "'vulkan'"),
        (["report", MODEL, "--disable", "conv2d_epilogue"], "'conv2d_with_epilogue'"),
        (["report", MODEL, "--skip-pattern", "conv2d_epilogue"], "'conv2d_with_epilogue'"),
        (["why", MODEL, "conv2d_with_epilog", "conv2d"], "'conv2d_with_epilogue'"),
        (["why", MODEL, "conv2d_with_epilogue", "conv_2d"], "'conv2d'"),
        (["export-html", MODEL, "--output", "absent/model.html"], "absent"),
        (["lab", "absent.pt2"], "absent.pt2"),
    ],
)
def test_what_cannot_be_done_ends_with_1_and_one_sentence(folder, monkeypatch, capsys, arguments, named):
    monkeypatch.chdir(folder)
    assert cli.main(arguments) == 1
    said = capsys.readouterr()
    assert said.err.startswith("lowerscope: ")
    assert named in said.err
    assert said.err.count("\n") == 1
    assert not said.out


@pytest.mark.parametrize("arguments", [[], ["fuse"], ["report"], ["why", MODEL], ["report", MODEL, "--fast"]])
def test_wrong_usage_ends_with_2(folder, monkeypatch, capsys, arguments):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: lowerscope" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "why", "export-html", "lab"])
def test_help_has_an_example_that_parses_and_the_exit_codes(capsys, command):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    example = said.partition("example:\n")[2].splitlines()[0].split()
    assert example[:2] == ["lowerscope", command]
    assert cli._parser().parse_args(example[1:]).command == command
    assert "exit codes:" in said
    assert all(f"\n  {code}  " in said for code in (0, 1, 2))


def test_export_html_writes_one_file_and_says_what_it_holds(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert cli.main(["export-html", MODEL, "--output", "shown.html"]) == 0
    assert capsys.readouterr().out.startswith("wrote shown.html: ")
    assert "<html" in (folder / "shown.html").read_text()[:2000]


@pytest.mark.parametrize("option", [[], ["--no-browser"]])
def test_lab_opens_a_fresh_notebook_with_the_model(folder, tmp_path, monkeypatch, option):
    called = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.subprocess, "call", lambda command: called.append(command) or 7)
    assert cli.main(["lab", str(folder / MODEL), "--target", "qnn", *option]) == 7
    (command,) = called
    assert command[1:3] == ["-m", "jupyterlab"]
    assert ("--no-browser" in command) == bool(option)
    name = command[3].rpartition("/lab/tree/")[2]
    notebook = json.loads((tmp_path / name).read_text())
    source = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    assert str(folder / MODEL) in source
    assert "qnn" in source
    compile(source, "the notebook", "exec")


def test_lab_really_opens_the_fresh_notebook_in_jupyterlab(folder, tmp_path):
    """JupyterLab starts, and what it prints is the address of the notebook, which it serves."""
    private = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    environment = {**os.environ, **private, "HOME": str(tmp_path), "JUPYTER_TOKEN": "open"}
    command = [sys.executable, "-m", "lowerscope.cli", "lab", str(folder / MODEL), "--no-browser"]
    log = tmp_path / "log"
    with log.open("w") as out:
        lab = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        address, end = None, time.monotonic() + 60
        while address is None and lab.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
            address = re.search(r"(http://localhost:\d+)/lab/tree/(\S+)\?token=", log.read_text())
        assert address is not None, log.read_text()
        with urllib.request.urlopen(f"{address[1]}/api/contents/{address[2]}?token=open", timeout=30) as answer:
            cells = json.load(answer)["content"]["cells"]
        assert str(folder / MODEL) in "".join(cell["source"] for cell in cells)
    finally:
        os.killpg(lab.pid, signal.SIGTERM)
        lab.wait(timeout=30)


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    command = f"{sys.executable} -m lowerscope.cli report {MODEL} | head -1"
    run = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0
    assert run.stdout.startswith("model for vulkan")
    assert not run.stderr


def test_a_report_names_the_near_misses_that_why_explains(capsys):
    model = str(Path(__file__).parents[2] / "sample_models" / "dsr.pt2")
    assert cli.main(["report", model, "--json"]) == 0
    (miss,) = json.loads(capsys.readouterr().out)["near_misses"]
    assert cli.main(["report", model]) == 0
    assert miss["reason"] in " ".join(capsys.readouterr().out.split())
    assert cli.main(["why", model, miss["pattern"], miss["anchor"]]) == 0
    assert "does not match" in capsys.readouterr().out
