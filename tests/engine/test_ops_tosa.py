"""The integer operators against what Arm's reference model computed, and the parameters that TOSA leaves open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from lowerscope.ops import OperatorError, tosa
from lowerscope.ops.tosa_scale import (
    check_rescale,
    rescale_multiplier_shift,
    rescale_scale,
    rescale_unpredictable,
    rescale_value,
)

VECTORS = np.load(Path(__file__).parent / "data" / "tosa_vectors.npz")
CASES = sorted(name.removesuffix("/params") for name in VECTORS.files if name.endswith("/params"))
VALUES_COMPARED = 73_976
INT32 = (-(1 << 31), (1 << 31) - 1)
Arrays = dict[str, torch.Tensor]


def _nchw(values: torch.Tensor) -> torch.Tensor:
    return values.permute(0, 3, 1, 2)


def _rescale(p: dict, a: Arrays) -> torch.Tensor:
    dtype = getattr(torch, p["output_dtype"])
    return tosa.rescale(a["input"], p["multiplier"], p["shift"], p["input_zp"], p["output_zp"], -1, dtype)


def _conv2d(p: dict, a: Arrays) -> torch.Tensor:
    depthwise = p["groups"] > 1
    weight = a["weight"].permute(2, 3, 0, 1) if depthwise else _nchw(a["weight"])
    geometry = (p["stride"], p["padding"], p["dilation"], p["groups"], p["input_zp"])
    return tosa.conv2d(_nchw(a["input"]), weight, a["bias"], *geometry).permute(0, 2, 3, 1)


def _transpose_conv2d(p: dict, a: Arrays) -> torch.Tensor:
    # TOSA stores [C_out, KH, KW, C_in], ATen [C_in, C_out, KH, KW].
    weight = a["weight"].permute(3, 0, 1, 2)
    geometry = (p["stride"], p["padding"], p["output_padding"], 1, p["input_zp"])
    return tosa.transpose_conv2d(_nchw(a["input"]), weight, a["bias"], *geometry).permute(0, 2, 3, 1)


OPERATORS: dict[str, Callable[[dict, Arrays], torch.Tensor]] = {
    "rescale": _rescale,
    "mul": lambda p, a: tosa.mul(a["input"], a["other"], p["shift"]),
    "add": lambda p, a: tosa.add(a["input"], a["other"]),
    "table": lambda p, a: tosa.table(a["input"], a["table"]),
    "conv2d": _conv2d,
    "transpose_conv2d": _transpose_conv2d,
    "matmul": lambda p, a: tosa.matmul(a["input"], a["other"], p["input_zp"], p["other_zp"]),
}


def _case(name: str) -> tuple[dict, Arrays]:
    prefix = name + "/"
    keys = [key for key in VECTORS.files if key.startswith(prefix) and key != prefix + "params"]
    arrays = {key.removeprefix(prefix): torch.from_numpy(VECTORS[key]) for key in keys}
    return json.loads(str(VECTORS[prefix + "params"])), arrays


@pytest.mark.parametrize("op", OPERATORS)
def test_bit_exact_against_the_reference_model(op):
    names = [name for name in CASES if name.startswith(op + "/")]
    assert names
    for name in names:
        params, arrays = _case(name)
        got, expected = OPERATORS[op](params, arrays), arrays["output"]
        assert got.dtype == expected.dtype, name
        assert torch.equal(got, expected), name


def test_the_number_of_values_compared():
    assert sum(VECTORS[f"{name}/output"].size for name in CASES) == VALUES_COMPARED
    assert {name.partition("/")[0] for name in CASES} == set(OPERATORS)


def test_the_vectors_tell_rounding_rules_apart():
    """Rounding half to even, or half away from zero, would differ on the vectors: the comparison can fail."""
    _, arrays = _case("rescale/halves_31")
    exact = arrays["input"].double() / 2
    away = torch.where(exact < 0, torch.ceil(exact - 0.5), torch.floor(exact + 0.5))
    assert not torch.equal(torch.round(exact).to(torch.int8), arrays["output"])
    assert not torch.equal(away.to(torch.int8), arrays["output"])


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (1.0, (1 << 30, 30)),
        (0.5, (1 << 30, 31)),
        (0.75, (3 << 29, 31)),
        # The mantissa rounds up to 2**31: halved, with the shift one less.
        (1.0 - 2.0**-40, (1 << 30, 30)),
        # Halfway between two multipliers: to the even one, downwards and upwards.
        ((2 * (1 << 30) + 1) / 2**32, (1 << 30, 31)),
        ((2 * ((1 << 30) + 1) + 1) / 2**32, ((1 << 30) + 2, 31)),
        # Past the last shift: bits of the multiplier go.
        (2.0**-33, (1 << 29, 62)),
        (2.0**-70, (0, 62)),
    ],
)
def test_multiplier_and_shift(scale, expected):
    assert rescale_multiplier_shift(scale) == expected


def test_multiplier_and_shift_stand_for_the_scale():
    for scale in np.exp(np.random.default_rng(0).uniform(np.log(2.0**-30), np.log(2.0**28), 2000)):
        m, shift = rescale_multiplier_shift(float(scale))
        assert 1 << 30 <= m < 1 << 31
        assert rescale_scale(m, shift) == pytest.approx(scale, rel=2.0**-31)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_none(scale):
    with pytest.raises(OperatorError, match="positive, finite"):
        rescale_multiplier_shift(scale)


def test_a_scale_too_large():
    assert rescale_multiplier_shift(2.0**28)[1] == 2
    with pytest.raises(OperatorError, match="smallest is 2"):
        rescale_multiplier_shift(2.0**29)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"multiplier": []}, "0 multipliers"),
        ({"multiplier": [1, 2]}, "2 multipliers do not go with 1 shifts"),
        ({"multiplier": [-1]}, "multiplier -1"),
        ({"multiplier": [1 << 31]}, "multiplier 2147483648"),
        ({"shift": [1]}, "shift 1 lies outside"),
        ({"shift": [63]}, "shift 63 lies outside"),
        ({"dtype": torch.float32}, "input cannot be torch.float32"),
        ({"output_dtype": torch.int64}, "output cannot be torch.int64"),
        ({"dtype": torch.int32, "input_zp": 1}, "torch.int32 input has the zero point 1"),
        ({"output_dtype": torch.int32, "output_zp": 1}, "torch.int32 output has the zero point 1"),
        ({"input_zp": 128}, "zero point 128 is no torch.int8 value"),
    ],
)
def test_rescale_refuses_what_tosa_leaves_open(change, message):
    good = {
        "multiplier": [1 << 30],
        "shift": [30],
        "input_zp": 0,
        "output_zp": 0,
        "dtype": torch.int8,
        "output_dtype": torch.int8,
    }
    check_rescale(**good)
    with pytest.raises(OperatorError, match=message):
        check_rescale(**{**good, **change})


def test_rescale_checks_its_own_parameters():
    with pytest.raises(OperatorError, match="shift 1 lies outside"):
        tosa.rescale(torch.zeros(2, dtype=torch.int8), [1 << 30], [1], 0, 0, 0, torch.int8)


def test_ranges_that_a_rescale_leaves():
    assert rescale_unpredictable(-128, 127, 30) is None
    assert rescale_unpredictable(*INT32, 30) == (
        "the centred value -2147483648 lies outside [-536870912, 536870912), which shift 30 asks for"
    )
    assert rescale_unpredictable(-8, 7, 4) is None
    assert "value -9 lies outside [-8, 8)" in str(rescale_unpredictable(-9, 7, 4))
    assert "value 8 lies outside [-8, 8)" in str(rescale_unpredictable(-8, 8, 4))
    assert "value 255 lies outside" in str(rescale_unpredictable(-128, 127, 8, input_zp=-128))
    assert rescale_unpredictable(-128, 127, 9, input_zp=-128) is None


def test_what_a_rescale_defines_is_an_int32_before_the_clamp():
    for shift in range(2, 63):
        for end in (-(1 << (shift - 1)), (1 << (shift - 1)) - 1):
            assert INT32[0] <= rescale_value(end, (1 << 31) - 1, shift) <= INT32[1]


def test_rescale_value_is_the_operator_without_its_clamp():
    values = torch.arange(-128, 128, dtype=torch.int8)
    got = tosa.rescale(values, [1518500250], [33], 7, 0, 0, torch.int32)
    assert got.tolist() == [rescale_value(v, 1518500250, 33, 7) for v in range(-128, 128)]


def test_rescale_per_channel_of_any_axis():
    values = torch.randint(-(1 << 20), 1 << 20, (2, 3, 4, 5), dtype=torch.int32)
    multiplier, shift = [1 << 30, 3 << 29, 1518500250], [40, 42, 45]
    got = tosa.rescale(values, multiplier, shift, 0, 4, 1, torch.int8)
    for c in range(3):
        one = tosa.rescale(values[:, c], [multiplier[c]], [shift[c]], 0, 4, 0, torch.int8)
        assert torch.equal(got[:, c], one)
    with pytest.raises(OperatorError, match="3 multipliers do not fit axis 2"):
        tosa.rescale(values, multiplier, shift, 0, 4, 2, torch.int8)


def test_mul_wraps_at_shift_0_and_8_bit_ignores_the_shift():
    big = torch.tensor([1 << 30, -(1 << 31)], dtype=torch.int32)
    assert tosa.mul(big, torch.tensor([2, 3], dtype=torch.int32), 0).tolist() == [-(1 << 31), -(1 << 31)]
    a, b = torch.randint(-128, 128, (2, 64), dtype=torch.int8)
    assert torch.equal(tosa.mul(a, b, 5), tosa.mul(a, b, 0))
    assert tosa.mul(a, b, 0).dtype == torch.int32


def test_conv2d_pads_with_the_centred_zero():
    x = torch.full((1, 1, 3, 3), 10, dtype=torch.int8)
    w = torch.ones(1, 1, 3, 3, dtype=torch.int8)
    # Centred by 10 the input is zero, and so is the padding: padding with the code 0 would give -10 at each border.
    assert tosa.conv2d(x, w, None, [1, 1], [1, 1], [1, 1], 1, 10).abs().max() == 0


def test_operands_of_a_wrong_dtype():
    i8, i32, f32 = torch.zeros(4, dtype=torch.int8), torch.zeros(4, dtype=torch.int32), torch.zeros(4)
    image, kernel = torch.zeros(1, 1, 3, 3, dtype=torch.int8), torch.zeros(1, 1, 1, 1, dtype=torch.int8)
    geometry = ([1, 1], [0, 0], [1, 1], 1, 0)
    for call, message in (
        (lambda: tosa.mul(i8, i32, 0), "MUL takes two integers of one dtype"),
        (lambda: tosa.mul(f32, f32, 0), "MUL takes two integers"),
        (lambda: tosa.mul(i32, i32, 64), "MUL shift 64"),
        (lambda: tosa.add(i8, i8), "ADD takes int32 operands, not torch.int8"),
        (lambda: tosa.table(i32, torch.zeros(256, dtype=torch.int8)), "TABLE takes an int8 input"),
        (lambda: tosa.table(i8, torch.zeros(255, dtype=torch.int8)), "256 int8 entries"),
        (lambda: tosa.conv2d(image.float(), kernel, None, *geometry), "CONV2D takes int8 operands"),
        (lambda: tosa.conv2d(image, kernel, f32[:1], *geometry), "int32 bias, not torch.float32"),
        (lambda: tosa.matmul(i8.reshape(1, 2, 2), f32.reshape(1, 2, 2), 0, 0), "MATMUL takes int8"),
    ):
        with pytest.raises(OperatorError, match=message):
            call()
