"""compare(): each way in which two values can differ is seen, and nothing that averages decides."""

from __future__ import annotations

import math

import pytest
import torch

from lowerscope.measure.compare import compare, scale_of


def _noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_same_tensor_is_equal_with_infinite_sqnr():
    x = _noise(3, 4)
    result = compare(x, x.clone())
    assert (result.verdict, result.max_abs, result.where) == ("equal", 0.0, None)
    assert result.sqnr_db == math.inf
    assert result.elements == 12


def test_rounding_is_close_and_measured():
    x = _noise(64, 64)
    y = x + 1e-6
    result = compare(x, y)
    assert result.verdict == "close"
    assert result.max_abs == pytest.approx(1e-6, rel=0.3)
    assert 110 < result.sqnr_db < 130
    assert result.p99_abs <= result.max_abs


def test_a_factor_of_two_is_different_though_its_cosine_is_one():
    x = _noise(1000)
    assert torch.nn.functional.cosine_similarity(x, 2 * x, dim=0) == pytest.approx(1.0)
    result = compare(x, 2 * x)
    assert result.verdict == "different"
    assert result.norm_l2 == pytest.approx(1.0)
    assert result.sqnr_db == pytest.approx(0.0, abs=1e-6)


def test_one_wrong_element_in_a_million_shows_with_its_index():
    x = _noise(1000, 1000)
    y = x.clone()
    y[123, 456] += 0.01
    result = compare(x, y)
    assert result.verdict == "different"
    assert result.where == (123, 456)
    assert result.different == 1
    # Every summary would have let it pass.
    assert result.p99_abs == 0.0
    assert result.sqnr_db > 90


def test_the_index_is_right_beyond_the_first_chunk():
    x = torch.zeros(3, 1 << 20)
    x += 1
    y = x.clone()
    y[2, 77] = 3
    assert compare(x, y).where == (2, 77)


def test_a_nan_on_one_side_is_different_and_gets_no_number():
    x = _noise(5)
    y = x.clone()
    y[3] = math.nan
    assert not (x - y).abs().max() > 1e-4, "the naive test lets the NaN pass"
    for reference, value in ((x, y), (y, x)):
        result = compare(reference, value)
        assert result.verdict == "different"
        assert result.nan_agrees is False
        assert math.isnan(result.max_abs)
        assert math.isnan(result.sqnr_db)
        assert "NaN places differ" in result.why
        assert "[3]" in result.why


def test_nan_at_the_same_places_is_said_and_the_rest_is_compared():
    x = torch.tensor([math.nan, 1.0, math.nan, 2.0, math.nan, 3.0])
    result = compare(x, x.clone())
    assert result.verdict == "equal"
    assert result.why == "NaN at the same 3 of 6 places"
    assert compare(x, torch.where(torch.isnan(x), x, x + 1)).verdict == "different"


def test_equal_infinities_agree_and_others_never_do():
    x = torch.tensor([math.inf, 1.0, -math.inf])
    assert compare(x, x.clone()).verdict == "equal"
    for wrong in (torch.tensor([-math.inf, 1.0, -math.inf]), torch.tensor([3e38, 1.0, -math.inf])):
        result = compare(x, wrong, tolerance=1e30)
        assert result.verdict == "different"
        assert "infinities differ" in result.why


def test_dtype_and_shape_are_incomparable_and_named():
    x = _noise(2, 3)
    dtype = compare(x, x.double())
    assert (dtype.verdict, dtype.why) == ("incomparable", "dtype float64, expected float32")
    shape = compare(x, x.reshape(3, 2))
    assert (shape.verdict, shape.why) == ("incomparable", "shape [3, 2], expected [2, 3]")
    broadcastable = compare(x, x[:1])
    assert broadcastable.verdict == "incomparable"


def test_integers_are_compared_exactly_even_where_float64_cannot():
    x = torch.tensor([5, 2**62, 7])
    off = torch.tensor([5, 2**62 + 1, 7])
    assert float(x[1]) == float(off[1])
    result = compare(x, off)
    assert (result.verdict, result.max_abs, result.where, result.different) == ("different", 1.0, (1,), 1)
    assert "1 of 3 entries differ" in result.why
    smallest = torch.tensor([torch.iinfo(torch.int64).min])
    assert compare(smallest, smallest.clone()).verdict == "equal"
    assert compare(smallest, torch.tensor([torch.iinfo(torch.int64).max])).max_abs == pytest.approx(2.0**64)


def test_booleans_are_compared_exactly():
    assert compare(torch.tensor([True, False]), torch.tensor([True, True])).verdict == "different"


def test_no_elements_are_equal_and_said_to_be_none():
    result = compare(torch.zeros(0, 4), torch.zeros(0, 4))
    assert (result.verdict, result.why, result.elements) == ("equal", "0 elements compared", 0)
    assert compare(torch.zeros(0, 4), torch.zeros(0, 5)).verdict == "incomparable"


def test_a_zero_signal_has_defined_figures():
    zero = torch.zeros(8)
    assert compare(zero, zero.clone()).sqnr_db == math.inf
    result = compare(zero, zero + 1e-3)
    assert result.verdict == "different"
    assert result.sqnr_db == -math.inf
    assert result.norm_l2 == math.inf
    assert "zero everywhere" in result.why


def test_flushed_denormals_pass_and_are_named():
    x = torch.linspace(1, 2, 5) * 1e-40
    result = compare(x, torch.zeros(5))
    assert result.verdict == "close"
    assert "denormals" in result.why


def test_tiny_outputs_are_judged_by_their_own_scale():
    x = _noise(100) * 1e-28
    assert compare(x, x * (1 + 1e-6)).verdict == "close"
    assert compare(x, x * 1.01).verdict == "different"


def test_a_masks_huge_fill_does_not_hide_the_rest():
    x = _noise(100, 100)
    x[:, 40:] = -1e9
    assert scale_of(x) < 3
    y = x.clone()
    y[7, 3] += 0.01
    assert compare(x, y).verdict == "different"


def test_float16_has_its_own_tolerance():
    x = _noise(1000).half()
    nudged = (x.float() * (1 + 2e-3)).half()
    assert compare(x, nudged).verdict == "close"
    assert compare(x.float(), nudged.float()).verdict == "different"


def test_complex_numbers_are_compared_part_by_part():
    x = torch.complex(_noise(4, 4), _noise(4, 4, seed=1))
    y = x.clone()
    y[2, 1] += 0.5j
    result = compare(x, y)
    assert (result.verdict, result.where) == ("different", (2, 1))


@pytest.mark.parametrize(
    ("reference", "value", "verdict"),
    [
        (None, None, "equal"),
        (3, 3, "equal"),
        (3, 4, "different"),
        (3, None, "incomparable"),
        (3, 3.0, "incomparable"),
        (1.5, 1.5, "equal"),
        (1.0, math.nan, "different"),
        (math.nan, math.nan, "equal"),
        ("a", "b", "different"),
    ],
)
def test_what_is_no_tensor(reference, value, verdict):
    assert compare(reference, value).verdict == verdict
