"""How often each pattern matches in each model for each target, and the committed table of it.

``python -m tests.real_models.match_counts [MODEL ...]`` writes the rows of these models (by default all) anew.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from lowerscope.loading import load
from lowerscope.lowering import Lowering, lower
from lowerscope.program import Program
from lowerscope.verdict import Outcome
from sample_models.build import FILES, FOLDER
from tests.real_models.nets import BUILDERS, TARGETS, lowered

TABLE = Path(__file__).with_name("match_counts.json")
QUANTIZED = tuple(f"{name}.pt2" for name, (module, _) in FILES.items() if module in ("dyt_block", "quantized_mlp"))
SAMPLES = tuple(f"{name}.pt2" for name in FILES)
MODELS = (*BUILDERS, *SAMPLES)

#: pattern -> outcome -> how many anchors; an anchor that has nothing to do with the pattern is not counted
Counts = dict[str, dict[str, int]]


def counts(model: str, target: str) -> Counts:
    """The counts as they are."""
    return counts_of(lowered(model, target) if model in BUILDERS else lower(_sample(model), target))


def counts_of(lowering: Lowering) -> Counts:
    """The counts of one lowering, in the order of its stages."""
    table: Counts = {}
    for stage in lowering.stages:
        found = Counter(str(v.outcome) for v in lowering.verdicts_of(stage.pattern))
        del found[Outcome.NOTHING_TO_FUSE]
        if found:
            table[stage.pattern] = dict(sorted(found.items()))
    return table


def committed() -> dict[str, dict[str, Counts]]:
    """The table as it is committed: model -> target -> counts."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


@cache
def _sample(name: str) -> Program:
    if name in QUANTIZED:
        # their operators must be registered before the file is read
        importlib.import_module("torch.ao.quantization.fx._decomposed")
        importlib.import_module("torchao.quantization")
    return load(FOLDER / name)


def main(models: list[str]) -> None:
    """Write the table."""
    unknown = set(models) - set(MODELS)
    if unknown:
        raise SystemExit(f"there is no model {', '.join(sorted(unknown))}: use some of {', '.join(MODELS)}")
    table = committed() if TABLE.exists() else {}
    for model in models or MODELS:
        table[model] = {target: counts(model, target) for target in TARGETS}
    lines = []
    for model in MODELS:
        rows = [f"  {json.dumps(target)}: {json.dumps(row)}" for target, row in table[model].items()]
        lines.append(f"{json.dumps(model)}: {{\n" + ",\n".join(rows) + "\n }")
    TABLE.write_text("{\n " + ",\n ".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
