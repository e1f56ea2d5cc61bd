"""The public reports about measuring parity (class "d" of the cases): right rewrites pass, plausible wrong ones do not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from lowerscope.measure.lively import lively
from lowerscope.measure.parity import parity
from lowerscope.program import Program, capture
from tests.cases import CASES, INFO

_MEASURING = [name for name, info in INFO.items() if info["cls"] == "d"]


class Rewritten(nn.Module):
    """What a rewrite of `module` computes, by one of the case's functions."""

    def __init__(self, module: nn.Module, function: Any):
        super().__init__()
        self.module, self.function = module, function

    def forward(self, *args, **kwargs):
        return self.function(self.module, *args, **kwargs)


def _programs(name: str, function: str | None) -> tuple[Program, Program]:
    torch.manual_seed(1234)
    module, args, kwargs, shapes = CASES[name][0]()
    before = capture(copy.deepcopy(module), args, kwargs, shapes)
    if function is None:
        return before, before
    rewritten = Rewritten(copy.deepcopy(module), INFO[name][function])
    return before, capture(rewritten.train(module.training), args, kwargs)


def test_the_cases_are_all_there():
    assert len(_MEASURING) == 11


@pytest.mark.parametrize("name", [name for name in _MEASURING if INFO[name]["good"] is not None])
def test_what_is_right_passes(name):
    report = parity(*_programs(name, "good"))
    assert report.agrees, report.sentence


# Flushed denormals are right on an absolute scale, and default statistics hide the trap until they are lively.
@pytest.mark.parametrize(
    "name",
    [n for n in _MEASURING if INFO[n]["trap"] and n not in ("d_denormals", "d_default_bn_hides_everything")],
)
def test_what_is_wrong_does_not(name):
    report = parity(*_programs(name, "trap"))
    assert report.verdict == "different", report.sentence


@pytest.mark.parametrize("name", [n for n in _MEASURING if n != "d_dropout_in_train_mode"])
def test_every_one_agrees_with_itself(name):
    before, _ = _programs(name, None)
    report = parity(before, before)
    assert report.verdict == "equal", report.sentence
    assert report.reference_twice == "identical"


def test_nan_at_the_same_places_is_said():
    report = parity(*_programs("d_nan_outputs", "good"))
    assert report.rows[0].why == "NaN at the same 3 of 6 places"


def test_the_smallest_integer_does_not_overflow_and_off_by_one_is_one():
    report = parity(*_programs("d_integer_outputs", "trap"))
    assert [row.max_abs for row in report.rows] == [1.0, 0.0]
    assert report.rows[0].different == 3


def test_a_model_that_is_random_is_named_with_its_operator():
    before, _ = _programs("d_dropout_in_train_mode", None)
    report = parity(before, before)
    assert report.verdict == "nondeterministic"
    assert "aten.dropout" in report.sentence


def test_an_overflow_of_the_reference_is_said_and_which_side_is_right():
    report = parity(*_programs("d_fp16_overflow_in_reference", "trap"))
    assert any("not finite inside: first at aten.pow" in note for note in report.notes)
    assert report.rows[0].oracle_ratio < 1e-2


def test_flushed_denormals_are_close_and_said():
    report = parity(*_programs("d_denormals", "trap"))
    assert report.verdict == "close"
    assert "denormals flushed" in report.rows[0].why


def test_the_state_is_restored_before_each_run_and_compared():
    before, _ = _programs("d_stateful_counter", None)
    report = parity(before, before)
    assert [row.output for row in report.rows] == ["out", "state n"]


def test_default_statistics_are_warned_of_and_lively_ones_show_the_trap():
    before, after = _programs("d_default_bn_hides_everything", "trap")
    report = parity(before, after)
    assert report.agrees, "this is the trap"
    assert any("default statistics" in note for note in report.notes)
    assert parity(lively(before), after).verdict == "different"


def test_nested_outputs_have_their_paths():
    before, _ = _programs("d_nested_outputs", None)
    assert [row.output for row in parity(before, before).rows] == [
        "out['b']",
        "out['a'][0]",
        "out['a'][1][0]",
        "out['a'][1][1]",
    ]
