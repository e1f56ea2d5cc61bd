"""The command line: `lowerscope report`, `why`, `export-html` and `lab`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from lowerscope.cli_json import REPORT_KEYS, WHY_KEYS, documented, report_object, why_object
from lowerscope.cli_text import report_text
from lowerscope.errors import LowerscopeError
from lowerscope.explain import Explanation
from lowerscope.pattern import REGISTRY
from lowerscope.recipe import Recipe, Skip
from lowerscope.session import Session
from lowerscope.target import TARGETS

_EXIT = """exit codes:
  0  done
  1  could not be done; one sentence on standard error says why, and the way out
  2  wrong usage
  3  report: the numbers of the lowered program differ from the original's
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = _parser().parse_args(argv)
    torch.set_num_threads(min(torch.get_num_threads(), os.cpu_count() or 1))
    try:
        return arguments.run(arguments)
    except LowerscopeError as error:
        print(f"lowerscope: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader (head, less) has seen enough
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lowerscope", description="Explore how an exported PyTorch model is lowered.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    report = _command(
        commands, "report", _report, "what each pattern does to a model: counts, matches, parity",
        "lowerscope report model.pt2 --target vulkan --disable conv2d_with_epilogue --json",
        REPORT_KEYS,
    )  # fmt: skip
    _model(report)
    report.add_argument(
        "--disable", action="append", default=[], metavar="PATTERN", help="switch a pattern off (repeatable)"
    )
    report.add_argument(
        "--skip-pattern",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave a pattern out, as skip_fusion_patterns does",
    )
    report.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object, whose keys are listed below",
    )

    why = _command(
        commands, "why", _why, "why a pattern did or did not match at a node",
        "lowerscope why model.pt2 conv2d_with_epilogue conv2d_7 --target vulkan",
        WHY_KEYS,
    )  # fmt: skip
    _model(why)
    why.add_argument("pattern", metavar="PATTERN", help="name of a pattern of the target")
    why.add_argument("node", metavar="NODE", help="name of a node, of any stage of the lowering")
    why.add_argument("--json", action="store_true", help="print one JSON object, whose keys are listed below")

    export = _command(
        commands, "export-html", _export_html, "a self-contained HTML file that replays the lowering without a kernel",
        "lowerscope export-html model.pt2 --target xnnpack --output model.html",
    )  # fmt: skip
    _model(export)
    export.add_argument("--output", default=None, metavar="FILE", help="where to write it (default: MODEL.html)")

    lab = _command(
        commands,
        "lab",
        _lab,
        "open JupyterLab on a fresh notebook with a model loaded",
        "lowerscope lab model.pt2 --target qnn",
    )
    _model(lab)
    lab.add_argument("--no-browser", action="store_true", help="print the address instead of opening a browser")
    return parser


def _command(
    commands: Any, name: str, run: Any, says: str, example: str, keys: Mapping[str, Any] | None = None
) -> argparse.ArgumentParser:
    listed = f"\nkeys of the JSON object:\n{documented(keys)}\n" if keys else ""
    parser = commands.add_parser(
        name,
        help=says,
        description=says[0].upper() + says[1:] + ".",
        epilog=f"example:\n  {example}\n\n{_EXIT}{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a .pt2 file; it is opened without running any code of its")
    parser.add_argument(
        "--target", default="vulkan", metavar="T", help=f"one of {', '.join(sorted(TARGETS))} (default: vulkan)"
    )


def _check_pattern(name: str, target: str) -> None:
    """LowerscopeError: the pattern is one of other targets only, by which a command can lower instead."""
    theirs = REGISTRY.get(name).targets if name in REGISTRY else ("*",)
    if target in TARGETS and not {target, "*"} & set(theirs):
        raise LowerscopeError(
            f"there is no pattern of target {target} named {name!r}: it is one of {' and '.join(theirs)}, "
            f"so lower for it with --target {theirs[0]}"
        )


def _report(arguments: argparse.Namespace) -> int:
    for name in (*arguments.disable, *arguments.skip_pattern):
        _check_pattern(name, arguments.target)
    recipe = Recipe(arguments.target).disable(*arguments.disable)
    recipe = recipe.skip(*(Skip(pattern=name) for name in arguments.skip_pattern))
    session = Session(arguments.model, arguments.target, recipe=recipe)
    misses: Any = session.near_misses()[["pattern", "anchor", "passed", "of", "reason"]]
    parity = session.parity_report()
    if arguments.json:
        _print_json(report_object(session, misses, parity.frame()))
    else:
        tables = {"patterns": session.patterns(), "near_misses": misses, "operators": session.op_counts()}
        title = f"{session.program.name} for {session.target}"
        print(report_text(title, arguments.model, tables, parity, shutil.get_terminal_size().columns))
    broken = any(row.verdict in ("different", "incomparable") for row in parity.rows)
    return 3 if broken else 0


def _why(arguments: argparse.Namespace) -> int:
    _check_pattern(arguments.pattern, arguments.target)
    explanation = Session(arguments.model, arguments.target).why_not(arguments.pattern, arguments.node)
    assert isinstance(explanation, Explanation)
    if not arguments.json:
        print(explanation)
        return 0
    _print_json(why_object(explanation))
    return 0


def _print_json(said: dict[str, Any]) -> None:
    print(json.dumps(said, indent=2, allow_nan=False))


def _export_html(arguments: argparse.Namespace) -> int:
    session = Session(arguments.model, arguments.target)
    path = Path(arguments.output or Path(arguments.model).with_suffix(".html").name)
    print(f"wrote {path}: {session.export_html(path)}")
    return 0


def _lab(arguments: argparse.Namespace) -> int:
    from lowerscope_widgets.fresh_notebook import write_notebook

    Session(arguments.model, arguments.target)  # a model that cannot be opened is told of here, not in a browser
    path = write_notebook(Path(arguments.model), arguments.target, Path.cwd())
    # The address, not the file: that is what JupyterLab prints, too, where it opens no browser.
    command = [sys.executable, "-m", "jupyterlab", f"--LabApp.default_url=/lab/tree/{quote(path.name)}"]
    if arguments.no_browser:
        command.append("--no-browser")
    if (
        os.name == "posix" and os.geteuid() == 0
    ):  # which JupyterLab refuses unless told; in a container nobody else is there
        command.append("--allow-root")
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
