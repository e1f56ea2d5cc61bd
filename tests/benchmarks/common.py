"""What the benchmarks share: a residual network of about ten thousand nodes, interleaved timing, and the table."""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lowerscope.program import Program, capture

RESULTS = Path(__file__).parent / "results"


class Block(nn.Module):
    """relu(conv(relu(conv(x))) + x), each convolution with or without a batch norm."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(4, 4, 3, padding=1, bias=not norm) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(4) if norm else nn.Identity() for _ in range(2))
        for batch_norm in self.norms:
            if isinstance(batch_norm, nn.BatchNorm2d):
                nn.init.uniform_(batch_norm.weight, 0.5, 0.9)
                batch_norm.get_buffer("running_mean").normal_()
                batch_norm.get_buffer("running_var").uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(y)) + x)


def residual_net(nodes: int, *, norm: bool = True) -> Program:
    """A network whose graph in core ATen has about `nodes` fx nodes, placeholders included, on an image [1, 4, 4, 4].

    A block has 9 calls and 12 placeholders with batch norm (5 and 4 without).
    """
    torch.manual_seed(0)
    blocks = max(1, nodes // (21 if norm else 9))
    net = nn.Sequential(*(Block(norm) for _ in range(blocks))).eval()
    return capture(net, (torch.randn(1, 4, 4, 4),), name=f"{blocks} residual blocks")


def saved_net(nodes: int) -> Path:
    """The file of `residual_net(nodes)`; exported once, as that takes minutes."""
    path = RESULTS / f"residual_{nodes}.pt2"
    if not path.exists():
        RESULTS.mkdir(exist_ok=True)
        residual_net(nodes).save(path)
    return path


def options(description: str, rounds: int = 7) -> argparse.Namespace:
    """The command line of a benchmark, and the number of threads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--nodes", type=int, default=10_000, help="fx nodes of the network, about")
    parser.add_argument("--rounds", type=int, default=rounds, help="interleaved runs, of which the median counts")
    torch.set_num_threads(2)
    return parser.parse_args()


@dataclass
class Times:
    """Runs of one contestant, in seconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> tuple[float, float]:
        """(wall, CPU)."""
        return statistics.median(self.wall), statistics.median(self.cpu)


def interleaved(
    contestants: Mapping[str, Callable[[], Any]],
    rounds: int,
    prepare: Mapping[str, Callable[[], Any]] | None = None,
) -> dict[str, Times]:
    """Run the contestants in turn, so that a busy moment of the machine falls on all of them. The first round is not counted.

    prepare: what is done before a contestant's run, and not timed.
    """
    found = {name: Times() for name in contestants}
    for round in range(rounds + 1):
        for name, run in contestants.items():
            if prepare and name in prepare:
                prepare[name]()
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            if round:
                found[name].wall.append(time.perf_counter() - wall)
                found[name].cpu.append(time.process_time() - cpu)
    return found


def once(run: Callable[[], Any]) -> tuple[Times, Any]:
    """One run, for what takes minutes."""
    times = Times()
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    times.wall.append(time.perf_counter() - wall)
    times.cpu.append(time.process_time() - cpu)
    return times, result


def table(title: str, times: Mapping[str, Times], ours: str, aims: Mapping[str, str]) -> None:
    """Print the medians, and each peer's time as a multiple of ours; `aims` says what was aimed at, by peer."""
    print(f"\n{title}")
    print(f"  {'':52} {'wall ms':>10} {'CPU ms':>10} {'ratio':>8}  aim")
    mine = times[ours].median
    for name, run in times.items():
        wall, cpu = run.median
        times_ours = cpu / mine[1]
        ratio = "" if name == ours else f"{times_ours:7.4f}x" if times_ours < 0.1 else f"{times_ours:7.2f}x"
        print(f"  {name:52} {wall * 1e3:10.1f} {cpu * 1e3:10.1f} {ratio:>8}  {aims.get(name, '')}")
    sys.stdout.flush()
