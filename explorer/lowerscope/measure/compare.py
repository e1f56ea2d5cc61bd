"""Two values compared honestly: structure, dtype, shape, places of NaN and inf, and only then the numbers.

No figure that averages decides: the verdict is taken element by element, so that one wrong element in a million shows,
and a uniform factor of 2, whose cosine similarity is 1, does too. NaN never passes by a comparison with a tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from lowerscope.arguments import dtype_name

EQUAL, CLOSE, DIFFERENT = "equal", "close", "different"
INCOMPARABLE, NONDETERMINISTIC = "incomparable", "nondeterministic"

TOLERANCES: Mapping[torch.dtype, float] = {
    torch.float64: 1e-10,
    torch.complex128: 1e-10,
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float16: 1e-2,
    torch.complex32: 1e-2,
    torch.bfloat16: 5e-2,
}
"""Largest error of an element, relative to the larger of its own magnitude and the tensor's scale."""

_CHUNK = 1 << 20
_SAMPLE = 1 << 16
# A value this much larger than the lower quartile (a mask's -1e9, an outlier) says nothing about the tensor's scale.
_OUTLIER = 1e3


@dataclass(frozen=True)
class Comparison:
    """How far a value is from its reference.

    Attributes:
        verdict: "equal", "close", "different", "incomparable" or "nondeterministic".
        why: one clause on the verdict, empty where the numbers say it all.
        shape_agrees, dtype_agrees, nan_agrees: None where the question does not arise (no tensors, no floats).
        max_abs: largest absolute error; nan where no number would be honest (NaN places or shapes differ).
        where: index of the element with the largest error; None where nothing differs.
        p99_abs: 99th percentile of the absolute error.
        norm_l2: norm of the error over norm of the reference; inf for an error on a zero signal.
        sqnr_db: signal to quantisation noise, in decibels; inf when exact, -inf for an error on a zero signal.
        elements, different: how many elements were compared, and how many of them are not the same number.
        scale: the magnitude that errors are relative to: the RMS of the reference without its outliers.
        worst: the largest error relative to what it is allowed to be, times the tolerance.
        noise, signal: sums of squares of the error and of the reference, from which ratios over batches are made.
    """

    verdict: str
    why: str = ""
    shape_agrees: bool | None = None
    dtype_agrees: bool | None = None
    nan_agrees: bool | None = None
    max_abs: float = math.nan
    where: tuple[int, ...] | None = None
    p99_abs: float = math.nan
    norm_l2: float = math.nan
    sqnr_db: float = math.nan
    elements: int = 0
    different: int = 0
    scale: float = math.nan
    worst: float = math.nan
    noise: float = math.nan
    signal: float = math.nan

    @property
    def agrees(self) -> bool:
        """Whether the value can stand for its reference."""
        return self.verdict in (EQUAL, CLOSE)


def compare(reference: Any, value: Any, *, tolerance: float | None = None, check_dtype: bool = True) -> Comparison:
    """Compare one leaf of a program's output, a tensor, a number or None, with its reference.

    Args:
        tolerance: largest relative error that is "close"; by default the reference dtype's of `TOLERANCES`.
        check_dtype: False compares the numbers of two floating dtypes, as a float16 run with its float32 reference.
    """
    if not isinstance(reference, torch.Tensor) or not isinstance(value, torch.Tensor):
        return _compare_plain(reference, value, tolerance)
    reference, value = _dense(reference), _dense(value)
    shape, dtype = reference.shape == value.shape, reference.dtype == value.dtype
    if not shape:
        why = f"shape {list(value.shape)}, expected {list(reference.shape)}"
        return Comparison(INCOMPARABLE, why, shape_agrees=False, dtype_agrees=dtype)
    if not dtype and (check_dtype or _is_exact(reference) != _is_exact(value)):
        why = f"dtype {dtype_name(value.dtype)}, expected {dtype_name(reference.dtype)}"
        return Comparison(INCOMPARABLE, why, shape_agrees=True, dtype_agrees=False)
    if reference.numel() == 0:
        return _exact(reference, dtype, "0 elements compared")
    if _is_exact(reference):
        return _compare_exact(reference, value)
    if reference.is_complex():
        parts = compare(
            torch.view_as_real(reference), torch.view_as_real(value), tolerance=tolerance, check_dtype=check_dtype
        )
        return replace(parts, dtype_agrees=dtype, where=None if parts.where is None else parts.where[:-1])
    return _compare_floats(reference, value, tolerance, dtype)


def _compare_plain(reference: Any, value: Any, tolerance: float | None) -> Comparison:
    if type(reference) is not type(value):
        expected, got = (_kind(item) for item in (reference, value))
        return Comparison(INCOMPARABLE, f"{got}, expected {expected}")
    if isinstance(reference, float):
        a, b = (torch.tensor([item], dtype=torch.float64) for item in (reference, value))
        return replace(compare(a, b, tolerance=tolerance), shape_agrees=None, dtype_agrees=None, where=None)
    if reference == value:
        return Comparison(EQUAL, max_abs=0.0, norm_l2=0.0, sqnr_db=math.inf, p99_abs=0.0, elements=1)
    error = float(abs(reference - value)) if isinstance(reference, (int, complex)) else math.nan
    return Comparison(DIFFERENT, f"{value!r}, expected {reference!r}", max_abs=error, elements=1, different=1)


def _compare_exact(reference: torch.Tensor, value: torch.Tensor) -> Comparison:
    """Integers and booleans: every entry must be the same; differences are taken in float64, where none overflows."""
    differs = reference != value
    count = int(differs.sum())
    if count == 0:
        return _exact(reference, True)
    flat = differs.reshape(-1).nonzero().reshape(-1)
    gaps = (reference.reshape(-1)[flat].to(torch.float64) - value.reshape(-1)[flat].to(torch.float64)).abs()
    position = int(flat[int(gaps.argmax())])
    exact_gap = abs(int(reference.reshape(-1)[position]) - int(value.reshape(-1)[position]))
    noise, signal = float((gaps**2).sum()), float((reference.to(torch.float64) ** 2).sum())
    total = reference.numel()
    return Comparison(
        DIFFERENT,
        f"{count:,} of {total:,} entries differ",
        shape_agrees=True,
        dtype_agrees=True,
        max_abs=max(float(gaps.max()), float(exact_gap)),
        where=_index(position, reference.shape),
        p99_abs=_p99(torch.cat([gaps, gaps.new_zeros(total - count)])),
        norm_l2=ratio(math.sqrt(noise), math.sqrt(signal)),
        sqnr_db=sqnr(noise, signal),
        elements=total,
        different=count,
        noise=noise,
        signal=signal,
    )


def _compare_floats(reference: torch.Tensor, value: torch.Tensor, tolerance: float | None, dtype: bool) -> Comparison:
    total = reference.numel()
    places, clause = _special_places(reference, value)
    if not places:
        return Comparison(
            DIFFERENT, clause, shape_agrees=True, dtype_agrees=dtype, nan_agrees=False, elements=total, different=total
        )
    scale = scale_of(reference)
    allowed = tolerance if tolerance is not None else max(TOLERANCES.get(t.dtype, 0.0) for t in (reference, value))
    tiny = torch.finfo(reference.dtype).tiny
    floor = max(scale, tiny / allowed if allowed > 0 else 0.0)
    errors = torch.zeros(total, dtype=torch.float32)
    largest, position, worst, noise, signal, different, flushed = 0.0, None, 0.0, 0.0, 0.0, 0, False
    for start, a, b in _chunks(reference, value):
        finite = torch.isfinite(a)
        error = torch.where(finite, (a - b).abs(), 0.0)
        magnitude = torch.where(finite, a.abs(), 0.0)
        errors[start : start + a.numel()] = error
        noise += float((error**2).sum())
        signal += float((magnitude**2).sum())
        different += int((error != 0).sum())
        worst = max(worst, float((error / magnitude.clamp(min=floor)).max()))
        flushed = flushed or bool(((magnitude > 0) & (magnitude < tiny) & (b == 0)).any())
        at = int(error.argmax())
        if float(error[at]) > largest:
            largest, position = float(error[at]), start + at
    verdict = EQUAL if different == 0 else CLOSE if worst <= allowed else DIFFERENT
    if flushed and verdict == CLOSE:
        clause = "; ".join(filter(None, [clause, "denormals flushed to zero"]))
    if signal == 0.0 and different:
        clause = "; ".join(filter(None, [clause, "the reference is zero everywhere"]))
    return Comparison(
        verdict,
        clause,
        shape_agrees=True,
        dtype_agrees=dtype,
        nan_agrees=True,
        max_abs=largest,
        where=None if position is None else _index(position, reference.shape),
        p99_abs=_p99(errors),
        norm_l2=ratio(math.sqrt(noise), math.sqrt(signal)),
        sqnr_db=sqnr(noise, signal),
        elements=total,
        different=different,
        scale=scale,
        worst=worst,
        noise=noise,
        signal=signal,
    )


def _special_places(reference: torch.Tensor, value: torch.Tensor) -> tuple[bool, str]:
    """(whether NaN and inf stand at the same places, a clause about them)."""
    nans, infinities, first_nan, first_inf = [0, 0], 0, None, None
    for start, a, b in _chunks(reference, value):
        a_nan, b_nan = torch.isnan(a), torch.isnan(b)
        nans[0] += int(a_nan.sum())
        nans[1] += int(b_nan.sum())
        infinities += int(torch.isinf(a).sum())
        if first_nan is None and not torch.equal(a_nan, b_nan):
            first_nan = start + int((a_nan != b_nan).nonzero()[0])
        special = ~(a_nan | b_nan) & (torch.isinf(a) | torch.isinf(b)) & (a != b)
        if first_inf is None and bool(special.any()):
            first_inf = start + int(special.nonzero()[0])
    total = reference.numel()
    if first_nan is not None:
        at = list(_index(first_nan, reference.shape))
        return False, f"NaN places differ: {nans[0]:,} of {total:,} before, {nans[1]:,} after, first at {at}"
    if first_inf is not None:
        at = _index(first_inf, reference.shape)
        return False, f"infinities differ: {float(reference[at])} before, {float(value[at])} after, first at {list(at)}"
    same = [f"NaN at the same {nans[0]:,} of {total:,} places" if nans[0] else ""]
    same.append(f"infinite at the same {infinities:,} of {total:,} places" if infinities else "")
    return True, "; ".join(filter(None, same))


def scale_of(reference: torch.Tensor) -> float:
    """RMS of a floating tensor's finite, nonzero elements, outliers (a mask's -1e9) left out; 0 for a zero signal.

    Taken from an evenly spaced sample of 65,536 elements at most.
    """
    flat = reference.detach().reshape(-1)
    sample = flat[:: max(1, flat.numel() // _SAMPLE)].to(torch.float64).abs()
    sample = sample[torch.isfinite(sample) & (sample > 0)]
    if sample.numel() == 0:
        everything = flat[torch.isfinite(flat) & (flat != 0)]
        if everything.numel() == 0:
            return 0.0
        sample = everything.to(torch.float64).abs()
    quartile = sample.kthvalue(max(1, sample.numel() // 4)).values
    typical = sample[sample <= _OUTLIER * quartile]
    peak = float(typical.max())
    # Divided by the peak first: the squares of denormals would all be zero.
    return peak * math.sqrt(float(((typical / peak) ** 2).mean())) if peak > 0 else 0.0


def sqnr(noise: float, signal: float) -> float:
    """10 log10(signal / noise) for two sums of squares: inf without noise, -inf for noise on a zero signal."""
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf


def ratio(numerator: float, denominator: float) -> float:
    """numerator / denominator, 0 / 0 being 0 and x / 0 infinite."""
    if denominator == 0:
        return 0.0 if numerator == 0 else math.inf
    return numerator / denominator


def _chunks(reference: torch.Tensor, value: torch.Tensor) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """(start, reference, value) in float64, a million elements at a time."""
    a, b = reference.detach().reshape(-1), value.detach().reshape(-1)
    for start in range(0, a.numel(), _CHUNK):
        yield start, a[start : start + _CHUNK].to(torch.float64), b[start : start + _CHUNK].to(torch.float64)


def _p99(errors: torch.Tensor) -> float:
    return float(errors.kthvalue(max(1, math.ceil(0.99 * errors.numel()))).values)


def _exact(reference: torch.Tensor, dtype: bool, why: str = "") -> Comparison:
    return Comparison(
        EQUAL, why, shape_agrees=True, dtype_agrees=dtype, nan_agrees=None if _is_exact(reference) else True,
        max_abs=0.0, p99_abs=0.0, norm_l2=0.0, sqnr_db=math.inf, elements=reference.numel(), worst=0.0, noise=0.0, signal=0.0,
    )  # fmt: skip


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.dequantize() if tensor.is_quantized else tensor
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _is_exact(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())


def _index(position: int, shape: torch.Size) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        position, remainder = divmod(position, size)
        index.append(remainder)
    return tuple(reversed(index))


def _kind(value: Any) -> str:
    return "None" if value is None else "a tensor" if isinstance(value, torch.Tensor) else f"{value!r}"
