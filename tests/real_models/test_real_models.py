"""Real models are lowered for every target: what matches is what the committed table says, and the numbers stay."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_leaves

from lowerscope.measure.parity import parity
from lowerscope.ops import display_name
from tests.engine.patterns.xnnpack_nets import counts_of as ops_of
from tests.engine.patterns.xnnpack_nets import transposed_left
from tests.real_models.match_counts import MODELS, QUANTIZED, committed, counts
from tests.real_models.nets import BUILDERS, TARGETS, lowered, program

aten = torch.ops.aten
EVERY = [pytest.param(name, marks=pytest.mark.quantize) if name in QUANTIZED else name for name in MODELS]

#: transposed convolutions by model: DAC, HiFi-GAN and Mimi upsample four times, Mimi once more before its transformer
TRANSPOSED = {
    "dac_decoder": 4,
    "dac_decoder_weight_norm": 4,
    "hifi_gan": 4,
    "hifi_gan_weight_norm": 4,
    "mimi_decoder": 5,
}


def calls(model: str, *names: str) -> int:
    """How many operators of these names (with or without overload) the model has as it was exported."""
    found = (display_name(n.target) for n in program(model).graph.nodes if n.op == "call_function")
    return sum(name in names for name in found)


def test_the_table_has_a_row_for_every_model_and_target():
    table = committed()
    assert list(table) == list(MODELS)
    assert all(list(rows) == list(TARGETS) for rows in table.values())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", EVERY)
def test_as_much_matches_as_the_table_says(model, target):
    remedy = f"look at the difference; if it is meant: python -m tests.real_models.match_counts {model}"
    assert counts(model, target) == committed()[model][target], remedy


def test_every_pattern_of_the_table_is_applied_somewhere_or_would_be_if_it_were_on():
    cells = [rows for targets in committed().values() for rows in targets.values()]
    seen = {pattern for rows in cells for pattern in rows}
    assert seen
    assert {p for rows in cells for p, found in rows.items() if {"applied", "disabled"} & set(found)} == seen
    assert not any("error" in found for rows in cells for found in rows.values())


@pytest.mark.parametrize("model", BUILDERS)
def test_the_signal_is_alive(model):
    args, kwargs = program(model).inputs()
    with torch.no_grad():
        result = program(model).exported_program.module()(*args, **kwargs)
    for value in tree_leaves(result):
        assert value.isfinite().all()
        assert float(value.std()) > 1e-3
        assert float(value.abs().max()) < 1e3
        # a tanh at its ends hides errors
        assert float(((value.abs() - 1).abs() < 1e-3).float().mean()) < 0.1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", BUILDERS)
def test_the_lowered_program_is_valid_and_gives_the_same_numbers(model, target):
    lowering = lowered(model, target)
    assert lowering.steps
    lowering.program.exported_program.validate()
    report = parity(program(model), lowering.program)
    assert report.agrees, str(report)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", ["mobilenet_v2", "resnet_18", "regnet"])
def test_every_batch_norm_is_folded(model, target):
    norms = calls(model, "aten.batch_norm")
    assert norms >= 20
    lowering = lowered(model, target)
    assert sum(step.pattern == "fold_batch_norm" for step in lowering.steps) == norms
    assert not any("batch_norm" in op for op in ops_of(lowering))


@pytest.mark.parametrize("model", TRANSPOSED)
def test_every_transposed_convolution_goes_on_xnnpack(model):
    assert calls(model, "aten.conv_transpose1d") == TRANSPOSED[model]
    lowering = lowered(model, "xnnpack")
    ways = [step.pattern for step in lowering.steps if "conv_transpose" in step.pattern]
    assert len(ways) == TRANSPOSED[model]
    assert transposed_left(lowering) == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", ["dac_decoder", "hifi_gan"])
def test_weight_norm_leaves_no_operator_behind(model, target):
    normed = f"{model}_weight_norm"
    assert calls(normed, "aten._weight_norm") > 20
    assert ops_of(lowered(normed, target)) == ops_of(lowered(model, target))
