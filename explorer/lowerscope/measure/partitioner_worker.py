"""The process that lets ExecuTorch's XnnpackPartitioner judge programs, run by `partitioner`.

Called as ``python -m lowerscope.measure.partitioner_worker FOLDER``: the folder holds ``before.pt2`` and ``after.pt2``, each
node tagged with its name; ``result.json`` appears when it is done.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch

from lowerscope.measure.process import tell_status, work, write_json

LABELS = ("before", "after")
#: of the custom metadata, which torch and ExecuTorch hand on to whatever they make of a node
TAG = "lowerscope"
_CONFIGS = "executorch.backends.xnnpack.partition.config"


class _Partitioned(Exception):
    """The regions are known: compiling them would only cost time."""


def main(folder: Path) -> None:
    """Partition both programs as `to_edge_transform_and_lower` does."""
    result = {}
    for label in LABELS:
        tell_status(folder, f"partitioning {label}", LABELS.index(label), len(LABELS))
        result[label] = _partitioned(folder / f"{label}.pt2")
    write_json(folder / "result.json", result)


def _partitioned(path: Path) -> list[dict[str, Any]]:
    """A row per call of the edge graph: node (the tag), op, region (by its first node, or None), reason."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    rows: list[dict[str, Any]] = []
    heard = _Reasons()

    class Recording(XnnpackPartitioner):
        def partition(self, exported_program: Any) -> Any:
            super().partition(exported_program)
            known = self.target_partitioner_configs
            for node in exported_program.graph.nodes:
                origin = (node.meta.get("custom") or {}).get(TAG)
                if node.op == "call_function" and origin is not None:
                    rows.append(_row(node, origin, heard.of(node), known))
            raise _Partitioned

    logger = logging.getLogger(_CONFIGS)
    logger.setLevel(logging.DEBUG)
    logger.addHandler(heard)
    try:
        to_edge_transform_and_lower(
            torch.export.load(path),
            partitioner=[Recording()],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
    except _Partitioned:
        return rows
    finally:
        logger.removeHandler(heard)
    raise RuntimeError("the partitioner was not called")


def _row(node: Any, origin: str, reasons: list[str], known: Any) -> dict[str, Any]:
    from executorch.exir.backend.canonical_partitioners.config_partitioner import format_target_name

    name = node.target.__name__
    reason = "; ".join(reasons)
    if not reason:
        without = format_target_name(name) not in known
        reason = f"it has no config for {name}" if without else f"its config for {name} gives no reason"
    return {"node": origin, "op": name, "region": node.meta.get("delegation_tag"), "reason": reason}


class _Reasons(logging.Handler):
    """What the configs say of the nodes that they turn down."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[Any, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a reason; the message is the `WhyNoPartition` itself, which holds the node until its next call."""
        node, reason = getattr(record.msg, "node", None), getattr(record.msg, "reason", "")
        said = self._said.setdefault(node, [])
        if reason and reason not in said:
            said.append(reason)

    def of(self, node: Any) -> list[str]:
        """The reasons given for a node, each once."""
        return self._said.get(node, [])


if __name__ == "__main__":
    work(main)
