"""The process that lowers two programs to XNNPACK with ExecuTorch and times them, run by `latency`.

A process of its own, because the runtime can crash, takes seconds to import, registers operators and changes logging.
Called as ``python -m lowerscope.measure.latency_worker FOLDER``: the folder holds ``job.json``, ``before.pt2``,
``after.pt2`` and ``inputs.pt``; ``status.json`` tells how far it is, and ``result.json`` appears when it is done.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import torch

from lowerscope.measure.process import read_json, tell_status, work, write_json

LABELS = ("before", "after")
# Each program is loaded this often; run i is one of load i modulo this.
LOADS = 2
_WARM_UP = 3
# A program quicker than this is called several times in a row for one sample: a lone call is mostly jitter.
_SAMPLE_MS = 5.0
_PROFILED = 5
# Events that contain others, or happen once.
_CONTAINERS = ("DELEGATE_CALL", "OPERATOR_CALL", "Method::", "Program::")


def main(folder: Path) -> None:
    """Lower, run in turn, profile; each phase leaves its trace in ``status.json``."""
    job = read_json(folder / "job.json")
    torch.set_num_threads(job["threads"])
    inputs = torch.load(folder / "inputs.pt", weights_only=True)
    result: dict[str, Any] = {}
    emitted = {}
    for label in LABELS:
        tell_status(folder, f"lowering {label}", LABELS.index(label), len(LABELS))
        emitted[label] = _emit(folder / f"{label}.pt2", result.setdefault(label, {}))
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(job["threads"])
    # The runtime reads the programs from these very bytes: `emitted` must outlive the modules. Each is loaded twice, as
    # where its memory comes to lie makes a difference of some percent: how much, the two loads of one program show.
    load = portable_lib._load_for_executorch_from_buffer
    modules, outputs = {}, {}
    for label in LABELS:
        tell_status(folder, f"running {label} once", LABELS.index(label), len(LABELS))
        modules[label] = [load(emitted[label]) for _ in range(LOADS)]
        outputs[label] = _first_run(modules[label][0], inputs, result[label]["undelegated"])
    torch.save(outputs, folder / "outputs.pt")
    calls = {label: max(1, math.ceil(_SAMPLE_MS / _time(modules[label][0], inputs, _WARM_UP))) for label in LABELS}
    times: dict[str, list[float]] = {label: [] for label in LABELS}
    for run in range(-LOADS, job["runs"]):
        for label in LABELS:
            milliseconds = _time(modules[label][run % LOADS], inputs, calls[label])
            if run >= 0:
                times[label].append(milliseconds)
        tell_status(folder, "running", max(0, run + 1), job["runs"])
    for label in LABELS:
        result[label]["ms"] = times[label]
    if job["profile"]:
        for label in LABELS:
            tell_status(folder, f"profiling {label}", LABELS.index(label), len(LABELS))
            result[label]["profile"] = _profile(folder / f"{label}.etdp", emitted[label], inputs)
    write_json(folder / "result.json", result)


def _first_run(module: Any, inputs: Any, undelegated: dict[str, int]) -> Any:
    try:
        return module.forward(inputs)
    except RuntimeError as error:
        # The runtime gives a number; what it most often means is an operator without a portable kernel.
        outside = f"; outside the delegate are {', '.join(undelegated)}" if undelegated else ""
        raise RuntimeError(f"{error}{outside}") from error


def _time(module: Any, inputs: Any, calls: int) -> float:
    """Milliseconds of one call, the mean of `calls` in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        module.forward(inputs, clone_outputs=False)
    return 1e3 * (time.perf_counter() - start) / calls


def _emit(path: Path, facts: dict[str, Any]) -> bytes:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    program = torch.export.load(path)
    # ExecuTorch writes state back by running a copy_ on fake buffers that require a gradient: an error, unless none is kept.
    with torch.no_grad():
        edge = to_edge_transform_and_lower(
            program,
            partitioner=[XnnpackPartitioner()],
            # Operators outside the delegate may be any that the portable kernels have.
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
    names = [_name(node.target) for node in edge.exported_program().graph.nodes if node.op == "call_function"]
    facts["partitions"] = names.count("executorch_call_delegate")
    facts["undelegated"] = dict(Counter(n for n in names if n not in ("executorch_call_delegate", "getitem")))
    with torch.no_grad():
        buffer = edge.to_executorch().buffer
    facts["bytes"] = len(buffer)
    return buffer


def _name(target: Any) -> str:
    return getattr(target, "_name", None) or getattr(target, "__name__", str(target))


def _profile(path: Path, program: bytes, inputs: Any) -> list[tuple[str, float, int]]:
    """(operator, milliseconds a run, calls a run), the runtime's own events, the median of a few runs."""
    from executorch.devtools import Inspector
    from executorch.extension.pybindings import portable_lib

    module = portable_lib._load_for_executorch_from_buffer(program, enable_etdump=True)
    for _ in range(_PROFILED):
        module.forward(inputs, clone_outputs=False)
    module.write_etdump_result_to_file(str(path))
    milliseconds: defaultdict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    for block in Inspector(etdump_path=str(path)).event_blocks:
        for event in block.events if block.name == "Execute" else ():
            if event.perf_data is None or event.name.startswith(_CONTAINERS):
                continue
            name = event.name.partition(" #")[0].removeprefix("native_call_")
            milliseconds[name] += float(event.perf_data.p50)
            calls[name] += 1
    return [(name, milliseconds[name], calls[name]) for name in calls]


if __name__ == "__main__":
    work(main)
