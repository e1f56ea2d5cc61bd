"""fold_dyt_alpha: the factor before a TABLE goes into it, the same byte at every one of the 256 codes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerscope
from lowerscope.errors import RecipeError
from lowerscope.lowering import lower
from lowerscope.ops import tosa
from lowerscope.recipe import Recipe
from lowerscope.session import Session
from lowerscope.target import pipeline
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import case, lowered, program_of, run_case
from tests.engine.patterns.tosa_nets import (
    INT8,
    TANH,
    as_int8,
    assert_same_bytes,
    codes,
    folds,
    net,
    quantized,
    real,
    rescale,
)  # fmt: skip
from tests.engine.patterns.vulkan_nets import calls_of, ops_of

PATTERN = "fold_dyt_alpha"
ALPHA = torch.tensor([90], dtype=INT8)
UNIT = 1 / 127


def scaled(x, s, *, alpha=None, up=None, scale: float | list[float] = UNIT, then=lambda codes: codes, table=None):
    """TABLE(RESCALE(RESCALE(x) * RESCALE(alpha))), each part open to change."""
    factors = (up or rescale)(x), rescale(s.alpha if alpha is None else alpha)
    return tosa.table(then(as_int8(tosa.mul(*factors, 0), scale)), s.table if table is None else table)


def dyt(f=scaled, x=None, y=None, **tensors):
    return net(f, codes(4, 64) if x is None else x, y, **{"alpha": ALPHA, "table": TANH, **tensors})


def by_size():
    """The range is narrowed to a size of the input, which only the run knows."""

    def f(x, s):
        return scaled(x, s, then=lambda held: torch.clamp(held, -100, x.shape[0]))

    module, args = dyt(f)()
    return module, args, {"x": {0: torch.export.Dim("n", min=2, max=50)}}


def read_twice(at):
    """`at` is "out" (the RESCALE before the table) or "mul", which the program gives too."""

    def f(x, s):
        product = tosa.mul(rescale(x), rescale(s.alpha), 0)
        out = as_int8(product, UNIT)
        return tosa.table(out, s.table), out if at == "out" else product

    return dyt(f)


plain = dyt()
CONDITION_CASES = [
    case(
        "constant_table",
        passes=plain,
        fails=dyt(lambda x, y, s: scaled(x, s, table=y), y=TANH),
        fault="y",
        recipe=folds,
    ),
    case("rescale_before", passes=plain, fails=dyt(lambda x, s: tosa.table(x, s.table)), fault="x", recipe=folds),
    case(
        "mul_before",
        passes=plain,
        fails=dyt(lambda x, s: tosa.table(rescale(x, 0.5, dtype=INT8), s.table)),
        fault="x",
        recipe=folds,
    ),
    case("rescale_one_user", passes=plain, fails=read_twice("out"), fault="output", recipe=folds),
    case("mul_one_user", passes=plain, fails=read_twice("mul"), fault="output", recipe=folds),
    case(
        "tanh_per_tensor",
        passes=plain,
        fails=dyt(lambda x, s: scaled(x, s, scale=[UNIT] * 4)),
        fault="rescale_2",
        recipe=folds,
    ),
    case(
        "narrowed_range",
        passes=dyt(lambda x, s: scaled(x, s, then=lambda held: held.clamp(-90, 80))),
        fails=by_size,
        fault="clamp",
        recipe=folds,
    ),
    case(
        "rescaled_factors",
        passes=plain,
        fails=dyt(lambda x, s: scaled(x, s, up=lambda held: held), x=codes(4, 64).to(torch.int32)),
        fault="x",
        recipe=folds,
    ),
    case(
        "one_scalar_constant",
        passes=plain,
        fails=dyt(alpha=torch.tensor([90] * 64, dtype=INT8)),
        fault="b_alpha",
        recipe=folds,
    ),
    case(
        "view_on_alpha_only",
        passes=dyt(lambda x, s: scaled(x, s, alpha=s.alpha.view(1, 1))),
        fails=dyt(lambda x, s: scaled(x, s, up=lambda held: rescale(held.unsqueeze(1)))),
        fault="unsqueeze",
        recipe=folds,
    ),
    case("same_shape", passes=plain, fails=dyt(alpha=ALPHA.view(1, 1, 1)), fault="mul", recipe=folds),
    case(
        "source_int8",
        passes=plain,
        fails=dyt(x=codes(4, 64).to(torch.int16)),
        fault="x",
        recipe=folds,
    ),
    case(
        "source_zero_point",
        passes=dyt(lambda x, s: scaled(quantized(x), s, up=lambda held: rescale(held, 1.0, 5)), x=torch.randn(4, 64)),
        fails=dyt(lambda x, s: scaled(quantized(x), s, up=lambda held: rescale(held, 1.0, 4)), x=torch.randn(4, 64)),
        fault="rescale",
        recipe=folds,
    ),
    case(
        "source_scale",
        passes=dyt(lambda x, s: scaled(quantized(x), s, up=lambda held: rescale(held, 1.0, 5)), x=torch.randn(4, 64)),
        fails=dyt(lambda x, s: scaled(quantized(x), s, up=lambda held: rescale(held, 1.01, 5)), x=torch.randn(4, 64)),
        fault="rescale",
        recipe=folds,
    ),
]


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "ethos-u")


def assert_folded(make, recipe=folds, count=1):
    """The MUL and its RESCALEs are gone, and nothing else has changed a byte; returns the lowering."""
    program = program_of(make())
    before = lower(program, recipe(Recipe("ethos-u")).disable(PATTERN))
    after = lower(program, recipe(Recipe("ethos-u")))
    assert [v.outcome for v in after.verdicts_of(PATTERN)].count(Outcome.APPLIED) == count
    assert ops_of(before).count("tosa.MUL") - ops_of(after).count("tosa.MUL") == count
    assert ops_of(before).count("tosa.TABLE") == ops_of(after).count("tosa.TABLE")
    assert_same_bytes(before.program, after)
    return after


def table_of(lowering):
    (call,) = calls_of(lowering, "tosa.TABLE")
    return lowering.program.constants[call["table"].name]


def test_all_256_codes_through_one_new_table():
    after = assert_folded(plain)
    assert ops_of(after) == ["tosa.TABLE"]
    every = torch.arange(-128, 128).to(INT8).view(4, 64)
    module, _ = plain()
    assert torch.equal(after.program.exported_program.module()(every), module(every))
    assert torch.equal(table_of(after), module(every).flatten())


@settings(max_examples=25)
@given(
    alpha=st.integers(-128, 127),
    alpha_zp=st.integers(-128, 127),
    source_zp=st.integers(-128, 127),
    output_zp=st.integers(-128, 127),
    scale=st.floats(1e-4, 4.0),
    bounds=st.none() | st.tuples(st.integers(-128, 0), st.integers(0, 127)),
    alpha_first=st.booleans(),
    seed=st.integers(0, 9),
)
def test_the_replay_is_the_operators_themselves(
    alpha, alpha_zp, source_zp, output_zp, scale, bounds, alpha_first, seed
):
    def f(x, s):
        factors = [rescale(x, 1.0, source_zp), rescale(s.alpha, 1.0, alpha_zp)]
        product = tosa.mul(*(factors[::-1] if alpha_first else factors), 0)
        out = as_int8(product, scale, output_zp)
        return tosa.table(out if bounds is None else out.clamp(*bounds), s.table)

    held = codes(256, seed=seed)
    assert ops_of(assert_folded(dyt(f, alpha=torch.tensor([alpha], dtype=INT8), table=held))) == ["tosa.TABLE"]


def test_the_int32_product_wraps_in_the_replay_as_in_the_mul():
    def f(x, s):
        return scaled(x, s, up=lambda held: rescale(held, 2.0**22), alpha=s.alpha, scale=2.0**-24)

    module, args = dyt(f)()
    wide = rescale(torch.tensor([-128], dtype=INT8), 2.0**22).to(torch.int64) * 90
    assert int(wide) < -(2**31)
    after = assert_folded(lambda: (module, args))
    assert torch.equal(after.program.exported_program.module()(args[0]), module(*args))


def test_a_graph_input_and_a_rescale_after_an_add_are_matched_where_nothing_tells_their_parameters():
    def after_add(x, s):
        both = as_int8(tosa.add(rescale(x, 2.0**10), rescale(x, 2.0**9)), 2.0**-11, -7)
        return scaled(both, s, up=lambda held: rescale(held, 1.0, -7))

    for make in (plain, dyt(after_add)):
        after = assert_folded(make)
        (verdict,) = [v for v in after.verdicts_of(PATTERN) if v.outcome is Outcome.APPLIED]
        told = [e.actual for e in verdict.record.entries if e.name in ("source_zero_point", "source_scale")]
        assert all("does not tell" in said for said in told)
    assert ops_of(after) == ["tosa.RESCALE", "tosa.RESCALE", "tosa.ADD", "tosa.RESCALE", "tosa.TABLE"]


def test_a_source_that_others_read_stays_for_them():
    def f(x, s):
        up = rescale(x)
        out = as_int8(tosa.mul(up, rescale(s.alpha), 0), UNIT)
        return tosa.table(out, s.table), up

    after = assert_folded(dyt(f))
    assert sorted(ops_of(after)) == ["tosa.RESCALE", "tosa.TABLE"]


def test_two_sites_of_one_table_get_a_table_each_and_equal_ones_share():
    def two(other):
        def f(x, s):
            return scaled(x, s), scaled(x, s, alpha=s.second if other else s.alpha)

        return dyt(f, second=torch.tensor([40], dtype=INT8))

    for other, tables in ((False, 1), (True, 2)):
        after = assert_folded(two(other), count=2)
        assert len({call["table"].name for call in calls_of(after, "tosa.TABLE")}) == tables


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("alpha_shape", [(), (1,), (1, 1, 1)])
def test_from_the_quantized_float_graph_in_either_layout(layout, alpha_shape):
    def f(x, s):
        held = real(x)
        held = quantized(held.permute(0, 2, 3, 1) if layout == "nhwc" else held)
        from_codes = torch.ops.quantized_decomposed.dequantize_per_tensor
        held = from_codes(held, 0.03, 5, -128, 127, INT8)
        alpha = from_codes(s.alpha, 0.01, -10, -128, 127, INT8)
        product = from_codes(quantized(held * alpha, 0.02, 9), 0.02, 9, -128, 127, INT8)
        return quantized(product.tanh(), 1 / 127, 0)

    make = net(f, alpha=torch.full(alpha_shape, 80, dtype=INT8))
    after = assert_folded(make)
    assert not {"tosa.MUL", "tosa.RESCALE"} & set(ops_of(after))


def test_the_default_pipeline_leaves_it_out_and_a_recipe_puts_it_in():
    assert not lowered(plain, "ethos-u", lambda r: r.disable("fold_constants")).steps
    (verdict,) = lowered(plain, "ethos-u", lambda r: r.disable("fold_constants")).verdicts_of(PATTERN)
    assert verdict.outcome is Outcome.DISABLED
    session = Session(program_of(plain()), "ethos-u")
    session.disable("fold_constants")
    session.insert(PATTERN, after="lower_to_tosa")
    assert [s.pattern for s in session.lowering.steps] == [PATTERN]
    session.insert(PATTERN, before="fold_dyt_affine")
    assert [s.pattern for s in session.lowering.steps] == [PATTERN]
    with pytest.raises(RecipeError, match="lower_to_tosa"):
        session.insert(PATTERN, before="lower_to_tosa")
    names = [p.name for p in pipeline("ethos-u")]
    assert names.index("lower_to_tosa") < names.index(PATTERN)


@pytest.mark.quantize
@pytest.mark.parametrize("name", ["conv", "conv_nhwc", "conv_padded", "conv_realistic", "transformer"])
def test_the_sample_models(name):
    import torchao  # noqa: F401  (registers what the file calls)

    program = lowerscope.load(f"sample_models/dyt_{name}.pt2")
    assert_folded(lambda: program, lambda r: r.enable(PATTERN), count=2)
