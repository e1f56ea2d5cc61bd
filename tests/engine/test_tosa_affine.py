"""affine_map: which maps of the 256 int8 codes are integer-affine, and at which code the others break."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowerscope.tosa import affine_map
from lowerscope.tosa.affine import CODES


def held(values):
    return [max(-128, min(127, v)) for v in values]


def test_the_identity():
    found = affine_map(CODES)
    assert (found.scale, found.offset, found.breaks) == (1, 0, [])
    assert not found.breaks
    assert found.is_identity
    assert found.first_break is None


def test_a_constant_is_affine_and_no_identity():
    found = affine_map([7] * 256, input_zp=3, output_zp=2)
    assert (found.scale, found.offset) == (0, 5)
    assert not found.breaks
    assert not found.is_identity


def test_the_identity_of_codes_between_different_zero_points_has_an_offset():
    found = affine_map(CODES, input_zp=4, output_zp=-3)
    assert (found.scale, found.offset, found.breaks) == (1, 7, [])


@given(
    scale=st.integers(-3, 3), offset=st.integers(-200, 200), input_zp=st.integers(-128, 127),
    output_zp=st.integers(-128, 127),
)  # fmt: skip
def test_an_affine_map_without_bounds_is_found(scale, offset, input_zp, output_zp):
    values = [scale * (c - input_zp) + offset + output_zp for c in CODES]
    found = affine_map(values, input_zp, output_zp)
    assert (found.scale, found.offset, found.breaks) == (scale, offset, [])
    assert found.nearest == values


@given(
    scale=st.integers(-3, 3), offset=st.integers(-200, 200), input_zp=st.integers(-128, 127),
)  # fmt: skip
def test_within_int8_only_slopes_of_at_most_1_are_affine(scale, offset, input_zp):
    values = held([scale * (c - input_zp) + offset for c in CODES])
    found = affine_map(values, input_zp)
    if not found.breaks:
        assert abs(found.scale) <= 1
    assert all(found.nearest[c + 128] != values[c + 128] for c in found.breaks)
    assert all(found.nearest[c + 128] == values[c + 128] for c in CODES if c not in found.breaks)


def test_a_saturating_map_breaks_where_it_saturates():
    found = affine_map(held([c + 20 for c in CODES]))
    assert (found.scale, found.offset) == (1, 20)
    assert found.breaks == list(range(108, 128))
    assert "code 108 saturates at 127" in found.describe()
    assert "gives 128; they differ at 20 of 256 codes" in found.describe()


def test_a_rounded_half_breaks():
    found = affine_map([c // 2 for c in CODES])
    assert found.breaks
    assert found.first_break is not None
    assert f"code {found.first_break} gives" in found.describe()


def test_one_wrong_code_is_the_break():
    values = list(CODES)
    values[100] += 1
    found = affine_map(values)
    assert (found.scale, found.breaks, found.first_break) == (1, [-28], -28)


@given(
    given=st.sets(st.integers(-128, 127), min_size=1), scale=st.integers(-3, 3), offset=st.integers(-20, 20),
    input_zp=st.integers(-20, 20),
)  # fmt: skip
def test_only_the_codes_that_occur_count(given, scale, offset, input_zp):
    values = [scale * (c - input_zp) + offset if c in given else 7 for c in CODES]
    found = affine_map(values, input_zp, given=given)
    assert (found.breaks, found.given) == ([], sorted(given))
    assert all(found.nearest[c + 128] == values[c + 128] for c in given)
    if len(given) > 1:
        assert (found.scale, found.offset) == (scale, offset)


def test_a_slope_between_codes_that_lie_apart_has_to_be_an_integer():
    values = [c // 2 for c in CODES]
    assert affine_map(values, given=[-4, 0]).breaks
    assert affine_map([2 * c for c in CODES], given=[-4, 0, 100]).scale == 2
    found = affine_map(values, given=[0, 2, 4])
    assert "of the 3 codes that occur" in found.describe()


def test_as_many_values_as_codes():
    with pytest.raises(ValueError, match="no code is given"):
        affine_map(CODES, given=[])
    with pytest.raises(ValueError, match="256 values, not 3"):
        affine_map([1, 2, 3])
