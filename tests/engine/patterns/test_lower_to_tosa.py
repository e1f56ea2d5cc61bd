"""lower_to_tosa: each operator in integers, next to the float graph at most a code apart; what has no integer form is told."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerscope
from lowerscope.lowering import lower
from lowerscope.measure.parity import parity
from lowerscope.target import pipeline
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import case, lowered, program_of, run_case
from tests.engine.patterns.tosa_nets import INT8, codes, net, q, quantized, real, tensors_of_conv, weight
from tests.engine.patterns.vulkan_nets import calls_of, ops_of

PATTERN = "lower_to_tosa"
aten = torch.ops.aten


def unary(f, **parameters):
    return net(lambda x, s: quantized(f(real(x, **parameters))))


def convolved(*shape: int, x=None, f=None, axis=0, seed=1, **changed):
    """A quantized 2-D convolution of weight `shape`, or `f(x, w, s)`."""
    f = f or (lambda x, w, s: F.conv2d(x, w, s.bias))
    held = {**tensors_of_conv(*shape, axis=axis, seed=seed), **changed}
    return net(lambda x, s: quantized(f(real(x), weight(s, axis), s), 0.1, -4), x, **held)


def transposed(groups=1, dilation=1):
    def f(x, w, s):
        return F.conv_transpose2d(x, w, s.bias, 2, 1, 1, groups, dilation)

    return convolved(4, 6 // groups, 3, 3, f=f, axis=1, bias=torch.randn(6))


tanh = unary(torch.tanh)
conv2d = convolved(6, 4, 3, 3)
product = net(lambda x, y, s: quantized(real(x) * real(y, 0.02, -3)), y=torch.randn(2, 4, 3, 3))
total = net(lambda x, y, s: quantized(real(x) + real(y, 0.02, -3), 0.06), y=torch.randn(2, 4, 3, 3))

CONDITION_CASES = [
    case("quantized_around", passes=tanh, fails=net(lambda x, s: x.tanh()), fault="tanh"),
    case("integer_form", passes=tanh, fails=unary(lambda x: x.cumsum(1)), fault="cumsum"),
    case(
        "operands_quantized",
        passes=product,
        fails=net(lambda x, y, s: quantized(real(x) * y), y=torch.randn(2, 4, 3, 3)),
        fault="y",
    ),
    case(
        "operands_per_tensor",
        passes=tanh,
        fails=unary(torch.tanh, low=0, high=255, dtype=torch.uint8),
        fault="dequantize_per_tensor",
    ),
    case("result_quantized", passes=tanh, fails=net(lambda x, s: real(x).tanh()), fault="output"),
    case(
        "result_per_tensor",
        passes=tanh,
        fails=net(lambda x, s: quantized(real(x).tanh(), 0.1, 3, 0, 255, torch.uint8)),
        fault="quantize_per_tensor_1",
    ),
    case(
        "two_dimensional",
        passes=conv2d,
        fails=convolved(6, 4, 3, x=torch.randn(2, 4, 9), f=lambda x, w, s: F.conv1d(x, w, s.bias)),
        fault="convolution",
    ),
    case("transposed_plain", passes=transposed(), fails=transposed(dilation=2), fault="convolution"),
    case(
        "quantized_weight",
        passes=conv2d,
        fails=convolved(6, 4, 3, 3, f=lambda x, w, s: F.conv2d(x, s.w, s.bias), w=torch.randn(6, 4, 3, 3)),
        fault="b_w",
    ),
    case(
        "weight_per_channel",
        passes=conv2d,
        fails=convolved(6, 4, 3, 3, axis=1, bias=torch.randn(6)),
        fault="dequantize_per_channel",
    ),
    case(
        "weight_symmetric",
        passes=conv2d,
        fails=convolved(6, 4, 3, 3, zeros=torch.ones(6, dtype=torch.int64)),
        fault="dequantize_per_channel",
    ),
    case(
        "constant_bias",
        passes=conv2d,
        fails=net(
            lambda x, y, s: quantized(F.conv2d(real(x), weight(s), y)), y=torch.randn(6), **tensors_of_conv(6, 4, 3, 3)
        ),
        fault="y",
    ),
    case("accumulator_fits", passes=conv2d, fails=convolved(6, 4, 3, 3, bias=torch.full((6,), 1e7)), fault="convolution"),
    case(
        "alpha_1",
        passes=total,
        fails=net(lambda x, y, s: quantized(torch.add(real(x), real(y), alpha=2)), y=torch.randn(2, 4, 3, 3)),
        fault="add",
    ),
    case("table_numbers", passes=tanh, fails=unary(torch.log), fault="log"),
    case(
        "scales_in_range",
        passes=product,
        fails=net(lambda x, y, s: quantized(real(x) * real(y), 1e-14), y=torch.randn(2, 4, 3, 3)),
        fault="quantize_per_tensor_2",
    ),
    case(
        "rescale_defined",
        passes=product,
        fails=net(lambda x, s: quantized(real(x, 1.0, 0).permute(0, 2, 3, 1), 2.0**-26, 0)),
        fault="quantize_per_tensor_1",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "ethos-u")


def test_its_place():
    names = [p.name for p in pipeline("ethos-u")]
    assert max(names.index(n) for n in ("core_aten", "fold_constants", "fold_batch_norm")) < names.index(PATTERN)
    assert names.index(PATTERN) < names.index("fold_dyt_alpha") < names.index("fold_dyt_affine")


def apart(program, lowering, rounds=2):
    """The largest difference in codes, on the program's inputs and on drawn ones; the lowered program is valid."""
    lowering.program.exported_program.validate()
    before, after = program.exported_program.module(), lowering.program.exported_program.module()
    assert program.example_inputs is not None
    args = program.example_inputs[0]
    worst = 0
    for number in range(rounds):
        drawn = args if number == 0 else tuple(torch.randn_like(a) * 2 for a in args)
        first, second = before(*drawn), after(*drawn)
        assert first.dtype == second.dtype == INT8
        worst = max(worst, int((first.to(torch.int32) - second.to(torch.int32)).abs().max()))
    return worst


def integer_ops(lowering):
    return [name for name in ops_of(lowering) if not name.startswith("quantized_decomposed.quantize")]


@pytest.mark.parametrize(
    ("make", "ops"),
    [
        (conv2d, ["tosa.CONV2D", "tosa.RESCALE"]),
        (transposed(), ["tosa.TRANSPOSE_CONV2D", "tosa.RESCALE"]),
        (product, ["tosa.RESCALE", "tosa.RESCALE", "tosa.MUL", "tosa.RESCALE"]),
        (total, ["tosa.RESCALE", "tosa.RESCALE", "tosa.ADD", "tosa.RESCALE"]),
        (tanh, ["tosa.TABLE"]),
    ],
)
def test_integer_operators_take_the_place_of_the_float_one(make, ops):
    program = program_of(make())
    lowering = lower(program, "ethos-u")
    assert [v.outcome for v in lowering.verdicts_of(PATTERN)] == [Outcome.APPLIED]
    assert integer_ops(lowering) == ops
    assert apart(program, lowering) <= 1


@pytest.mark.parametrize(
    "f",
    [torch.tanh, torch.sigmoid, F.gelu, F.elu, F.leaky_relu, F.relu6, torch.exp, torch.abs, torch.neg],
    ids=lambda f: f.__name__,
)
def test_a_table_gives_the_float_graphs_code_for_all_256_codes(f):
    make = net(lambda x, s: quantized(f(q.dequantize_per_tensor(x, 0.03, 5, -128, 127, INT8))), codes(4, 64))
    program = program_of(make())
    lowering = lower(program, "ethos-u")
    assert ops_of(lowering) == ["tosa.TABLE"]
    assert len(make()[1][0].unique()) == 256
    assert parity(program, lowering.program, oracle=False).verdict == "equal"


@pytest.mark.parametrize(
    "move",
    [lambda x: x.permute(0, 2, 3, 1), lambda x: x.reshape(2, 36), lambda x: x.unsqueeze(1), lambda x: x[:, 1:3]],
)
def test_what_only_moves_values_stays_on_codes(move):
    same = program_of(unary(move)())
    lowering = lower(same, "ethos-u")
    assert not [name for name in ops_of(lowering) if "dequantize" in name or name.startswith("tosa.")]
    assert parity(same, lowering.program, oracle=False).verdict == "equal"
    other = program_of(net(lambda x, s: quantized(move(real(x)), 0.05, -9))())
    lowering = lower(other, "ethos-u")
    assert ops_of(lowering).count("tosa.RESCALE") == 1
    assert apart(other, lowering) <= 1


def test_a_relu_is_a_clamp_of_the_codes_and_a_narrowed_range_too():
    relu = program_of(convolved(6, 4, 3, 3, f=lambda x, w, s: F.conv2d(x, w, s.bias).relu())())
    lowering = lower(relu, "ethos-u")
    (clamp,) = calls_of(lowering, "aten.clamp")
    assert (clamp["min"], clamp["max"]) == (-4, 127)
    assert apart(relu, lowering) <= 1

    narrow = program_of(
        net(lambda x, y, s: quantized(real(x) * real(y), 0.001, 2, -100, 90), y=torch.randn(2, 4, 3, 3))()
    )
    lowering = lower(narrow, "ethos-u")
    (clamp,) = calls_of(lowering, "aten.clamp")
    assert (clamp["min"], clamp["max"]) == (-100, 90)
    assert apart(narrow, lowering) <= 1


def test_a_scalar_operand_that_is_the_same_value_twice_is_squared():
    program = program_of(net(lambda x, s: (lambda r: quantized(r * r, 0.02))(real(x)))())
    lowering = lower(program, "ethos-u")
    assert integer_ops(lowering) == ["tosa.RESCALE", "tosa.RESCALE", "tosa.MUL", "tosa.RESCALE"]
    assert apart(program, lowering) <= 1


def test_a_dequantize_node_that_another_reads_stays_for_it():
    program = program_of(net(lambda x, s: (lambda r: (quantized(r.tanh()), r.cumsum(1)))(real(x)))())
    lowering = lower(program, "ethos-u")
    assert {"tosa.TABLE", "quantized_decomposed.dequantize_per_tensor", "aten.cumsum"} <= set(ops_of(lowering))
    assert parity(program, lowering.program, oracle=False).verdict == "equal"


def test_the_bias_is_in_the_accumulators_scale():
    program = program_of(conv2d())
    (call,) = calls_of(lower(program, "ethos-u"), "tosa.CONV2D")
    held = dict(program.exported_program.named_buffers())
    expected = torch.round(held["bias"].double() / (0.03 * held["scales"].double()))
    lowering = lower(program, "ethos-u")
    values = dict(lowering.program.exported_program.named_buffers())
    (bias,) = (v for k, v in values.items() if v.dtype == torch.int32)
    assert torch.equal(bias, expected.to(torch.int32))
    assert call["input_zp"] == 5


@settings(max_examples=20)
@given(
    groups=st.sampled_from([1, 2, 4]),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    bias=st.booleans(),
    relu=st.booleans(),
    seed=st.integers(0, 99),
)
def test_convolutions_of_every_geometry(groups, kernel, stride, padding, dilation, bias, relu, seed):
    def f(x, w, s):
        y = F.conv2d(x, w, s.bias if bias else None, stride, padding, dilation, groups)
        return y.relu() if relu else y

    program = program_of(convolved(8, 4 // groups, kernel, kernel, f=f, x=torch.randn(2, 4, 7, 8), seed=seed)())
    lowering = lower(program, "ethos-u")
    assert ops_of(lowering).count("tosa.CONV2D") == 1
    assert apart(program, lowering) <= 1


@settings(max_examples=10)
@given(rank=st.integers(2, 4), outputs=st.integers(1, 5), bias=st.booleans())
def test_a_linear_is_a_convolution_of_rows(rank, outputs, bias):
    def f(x, w, s):
        return F.linear(x, w, s.bias if bias else None)

    program = program_of(convolved(outputs, 6, f=f, x=torch.randn(*([2] * (rank - 1)), 6))())
    lowering = lower(program, "ethos-u")
    assert "tosa.CONV2D" in ops_of(lowering)
    assert not [name for name in ops_of(lowering) if name.startswith(("aten.addmm", "aten.mm"))]
    assert apart(program, lowering) <= 1


@settings(max_examples=20)
@given(
    scales=st.tuples(*[st.floats(1e-3, 1.0)] * 3),
    zero_points=st.tuples(*[st.integers(-128, 127)] * 3),
    multiply=st.booleans(),
    shape=st.sampled_from([(2, 4, 3, 3), (4, 1, 1), (1,), (3, 3)]),
)
def test_products_and_sums_of_any_scales_and_zero_points(scales, zero_points, multiply, shape):
    def f(x, y, s):
        a, b = (real(v, scale, zp) for v, scale, zp in zip((x, y), scales[:2], zero_points[:2], strict=True))
        return quantized(a * b if multiply else a + b, scales[2], zero_points[2])

    program = program_of(net(f, y=torch.randn(shape))())
    lowering = lower(program, "ethos-u")
    assert ("tosa.MUL" if multiply else "tosa.ADD") in ops_of(lowering)
    assert apart(program, lowering) <= 1


@pytest.mark.parametrize(
    "make", [net(lambda x, s: x.tanh()), net(lambda x, s: F.conv2d(x, s.w), w=torch.randn(2, 4, 1, 1))]
)
def test_a_float_program_stays_and_says_that_it_is_not_quantized(make):
    lowering = lowered(make, "ethos-u")
    found = list(lowering.verdicts_of(PATTERN))
    assert found
    assert {(v.outcome, v.failed) for v in found} == {(Outcome.NOTHING_TO_FUSE, "quantized_around")}
    assert all("quantize the model first" in v.reason for v in found)
    assert not [name for name in ops_of(lowering) if name.startswith("tosa.")]


@pytest.mark.quantize
@pytest.mark.parametrize(
    "name",
    ["dyt_conv", "dyt_conv_nhwc", "dyt_conv_padded", "dyt_conv_realistic", "dyt_transformer", "quantized_mlp_static8"],
)
def test_the_sample_models(name):
    import torchao  # noqa: F401  (registers what the file calls)

    program = lowerscope.load(f"sample_models/{name}.pt2")
    lowering = lower(program, "ethos-u")
    assert {v.outcome for v in lowering.verdicts_of(PATTERN)} == {Outcome.APPLIED}
    ops = {".".join(n.split(".")[:2]) for n in ops_of(lowering) if not n.startswith("tosa.")}
    border = {"quantized_decomposed.quantize_per_tensor", "quantized_decomposed.dequantize_per_tensor"}
    assert ops - {"aten.view", "aten.permute", "aten.clamp", "aten.clone"} == border
    report = parity(program, lowering.program, oracle=False, tolerance=0.05)
    assert report.agrees, str(report)
