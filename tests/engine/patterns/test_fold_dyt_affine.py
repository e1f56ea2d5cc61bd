"""fold_dyt_affine: gamma and beta go into a convolution where that changes no byte, and nowhere else."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lowerscope
from lowerscope.lowering import lower
from lowerscope.ops import tosa
from lowerscope.patterns.fold_dyt_affine import folded
from lowerscope.recipe import Recipe
from lowerscope.session import Session
from lowerscope.verdict import Outcome
from tests.engine.patterns.condition_cases import case, lowered, program_of, run_case
from tests.engine.patterns.tosa_nets import (
    BIAS,
    CHANNELS,
    INT8,
    KERNEL,
    NONE,
    ONE,
    SOME,
    as_int8,
    assert_same_bytes,
    codes,
    conv,
    dyt,
    folds,
    rescale,
    site,
)
from tests.engine.patterns.vulkan_nets import calls_of, ops_of

PATTERN = "fold_dyt_affine"
EVERY = torch.arange(-128, 128).to(INT8)
HALF = torch.full((CHANNELS, 1, 1), 32, dtype=INT8)
BETA = torch.tensor([5, 0, -9, 0], dtype=INT8).reshape(CHANNELS, 1, 1)
#: where gamma is 0 any beta keeps a map integer-affine
OFFSETS = torch.tensor([0, 100, 0, -50], dtype=INT8).reshape(CHANNELS, 1, 1)
#: every code in every channel
ALL = torch.stack([EVERY.roll(c) for c in range(2 * CHANNELS)]).reshape(2, CHANNELS, 16, 16)


def transposed(x, s):
    return tosa.transpose_conv2d(dyt(x, s), s.weight, s.bias, [1, 1], [0, 0], [0, 0], 1, 0)


def turned(x, s, **options):
    """The NHWC form: the site on [N, H, W, C], and a permute before the convolution."""
    return conv(dyt(x, s).permute(0, 3, 1, 2), s, **options)


def negated(x, s):
    """gamma = -1 maps code c to -1 - c where the zero points behind the TABLE are -1."""
    return conv(dyt(x, s, middle_zp=-1, out_zp=-1), s, input_zp=-1)


def without_mul(x, s):
    t = tosa.table(x, s.table)
    return conv(as_int8(tosa.add(rescale(t, 2.0**16), rescale(s.beta, 2.0**16)), 2.0**-16), s)


def without_table(x, s):
    m = as_int8(tosa.mul(rescale(x), rescale(s.gamma), 0), 1 / 64)
    return conv(as_int8(tosa.add(rescale(m, 2.0**16), rescale(s.beta, 2.0**16)), 2.0**-16), s)


def read_twice(x, s):
    t = tosa.table(x, s.table)
    m = as_int8(tosa.mul(rescale(t), rescale(s.gamma), 0), 1 / 64)
    return conv(as_int8(tosa.add(rescale(m, 2.0**16), rescale(s.beta, 2.0**16)), 2.0**-16), s), m


def spatially(gamma):
    return site(gamma=gamma)


def scrambled(x, s):
    """Channels and places mixed by a view."""
    return conv(dyt(x, s).view(2 * 8 * 8, CHANNELS, 1, 1), s)


plain = site()
CONDITION_CASES = [
    case("add_before", passes=plain, fails=site(lambda x, s: conv(tosa.table(x, s.table), s)), fault="table", recipe=folds),
    case("not_transposed", passes=plain, fails=site(transposed, weight=KERNEL.transpose(0, 1).contiguous()),
         fault="transpose_conv2d", recipe=folds),
    case("channels_kept", passes=plain, fails=site(scrambled), fault="view", recipe=folds),
    case("beta_constant", passes=plain, fails=site(lambda x, y, s: conv(dyt(x, s, beta=y), s), y=NONE), fault="add",
         recipe=folds),
    case("mul_before", passes=plain, fails=site(without_mul), fault="table", recipe=folds),
    case("gamma_constant", passes=plain, fails=site(lambda x, y, s: conv(dyt(x, s, gamma=y), s), y=ONE), fault="mul",
         recipe=folds),
    case("table_before", passes=plain, fails=site(without_table), fault="x", recipe=folds),
    case("exclusive", passes=plain, fails=site(read_twice), fault="output", recipe=folds),
    case("per_tensor_rescales", passes=plain, fails=site(lambda x, s: conv(dyt(x, s, unit=[1 / 64, 1 / 64]), s)),
         fault="rescale_2", recipe=folds),
    case("shapes_agree", passes=plain,
         fails=site(x=codes(CHANNELS, 8, 8), gamma=ONE.unsqueeze(0), beta=NONE.unsqueeze(0)), fault="mul", recipe=folds),
    case("no_singleton_broadcast", passes=plain, fails=spatially(ONE[:1]), fault="b_gamma", recipe=folds),
    case("per_channel", passes=plain, fails=spatially(ONE.repeat(1, 8, 8)), fault="b_gamma", recipe=folds),
    case("constant_weight", passes=plain, fails=site(lambda x, y, s: conv(dyt(x, s), s, kernel=y), y=KERNEL), fault="y",
         recipe=folds),
    case("add_fits", passes=plain, fails=site(lambda x, s: conv(dyt(x, s, up=2.0**24), s), beta=BETA * 10), fault="add",
         recipe=folds),
    case("padded_identity", passes=site(lambda x, s: conv(dyt(x, s), s, padding=1)),
         fails=site(lambda x, s: conv(dyt(x, s), s, padding=1), gamma=SOME), fault="mul", recipe=folds),
    case("integer_affine", passes=plain, fails=site(gamma=HALF), fault="mul", recipe=folds),
    case("weight_fits", passes=plain, fails=site(negated, gamma=-ONE, weight=KERNEL - KERNEL - 128), fault="b_weight",
         recipe=folds),
    case("bias_fits", passes=plain, fails=site(gamma=SOME, beta=OFFSETS, weight=KERNEL - KERNEL + 1,
         bias=torch.full_like(BIAS, 2**31 - 1)), fault="b_bias", recipe=folds),
]  # fmt: skip


@pytest.mark.parametrize("case", CONDITION_CASES, ids=str)
def test_condition(case):
    run_case(case, PATTERN, "ethos-u")


def both(make, *more):
    """(lowered without the fold, lowered with it): all other folds are on in both."""
    program = program_of(make())
    return lower(program, folds(Recipe("ethos-u")).disable(PATTERN, *more)), lower(program, folds(Recipe("ethos-u")))


def assert_folded(make, left=("tosa.TABLE", "tosa.CONV2D"), count=1):
    """The site is gone but for what is `left`, and nothing else has changed a byte; returns the lowering."""
    before, after = both(make)
    assert [v.outcome for v in after.verdicts_of(PATTERN)].count(Outcome.APPLIED) == count
    assert ops_of(before).count("tosa.MUL") - ops_of(after).count("tosa.MUL") == count
    if left is not None:
        assert ops_of(after) == list(left)
    assert_same_bytes(before.program, after)
    return after


def session_of(make):
    """A session on the net with both folds on."""
    return Session(program_of(make()), recipe=folds(Recipe("ethos-u")))


def shown(explanation):
    """The map that the failed condition shows."""
    assert explanation.failed is not None
    assert explanation.failed.code_map is not None
    return explanation.failed.code_map


def assert_refused(make, condition):
    """The fold fails closed with this condition and changes nothing; returns the verdict."""
    before, after = both(make)
    (verdict,) = after.verdicts_of(PATTERN)
    assert (verdict.outcome, verdict.failed) == (Outcome.NEAR_MISS, condition)
    assert ops_of(before) == ops_of(after)
    return verdict


@pytest.mark.parametrize(
    ("gamma", "beta"), [(ONE, NONE), (SOME, NONE), (SOME, OFFSETS)], ids=["ones", "ones and zeros", "with beta"]
)
def test_all_256_codes_of_all_channels(gamma, beta):
    make = site(x=ALL, table=EVERY, gamma=gamma, beta=beta)
    module, args = make()
    assert all(len(args[0][:, c].unique()) == 256 for c in range(CHANNELS))
    after = assert_folded(make)
    assert torch.equal(after.program.exported_program.module()(*args), module(*args))


def test_what_weights_and_bias_become():
    after = assert_folded(site(gamma=SOME, beta=OFFSETS))
    (call,) = calls_of(after, "tosa.CONV2D")
    held = after.program.constants
    s, o = torch.tensor([1, 0, 1, 0]), torch.tensor([0, 100, 0, -50])
    sums = KERNEL.to(torch.int64).flatten(2).sum(2)
    assert torch.equal(held[call["weight"].name], (KERNEL * s[None, :, None, None]).to(INT8))
    assert torch.equal(held[call["bias"].name], (BIAS + (sums * o).sum(1)).to(torch.int32))


def test_a_gamma_of_one_keeps_the_constants_there_are():
    after = assert_folded(plain)
    assert {"b_weight", "b_bias"} <= set(after.program.constants)
    assert not {"b_gamma", "b_beta"} & set(after.program.constants)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("bias", [True, False])
def test_both_layouts_grouped_and_without_bias(layout, groups, bias):
    kernel = KERNEL.repeat(2, 1, 2, 3)[:8, : CHANNELS // groups].contiguous()
    held = {
        "weight": kernel,
        "bias": torch.arange(8, dtype=torch.int32),
        "gamma": SOME,
        "beta": OFFSETS,
        "table": EVERY,
    }
    if layout == "nhwc":
        held |= {"gamma": SOME.flatten(), "beta": OFFSETS.flatten()}
        make = site(lambda x, s: turned(x, s, groups=groups, bias=bias), ALL.permute(0, 2, 3, 1).contiguous(), **held)
        assert_folded(make, ("tosa.TABLE", "aten.permute", "tosa.CONV2D"))
    else:
        assert_folded(site(lambda x, s: conv(dyt(x, s), s, groups=groups, bias=bias), ALL, **held))


@settings(max_examples=20)
@given(
    table_zp=st.integers(-20, 20),
    out_zp=st.integers(-20, 20),
    gammas=st.lists(st.sampled_from([0, 64]), min_size=CHANNELS, max_size=CHANNELS),
    betas=st.lists(st.integers(-100, 100), min_size=CHANNELS, max_size=CHANNELS),
    groups=st.sampled_from([1, 2, 4]),
    kernel=st.integers(1, 3),
)
def test_zero_points_geometries_and_offsets(table_zp, out_zp, gammas, betas, groups, kernel):
    # A map of slope 1 that does not saturate keeps the code, so that its offset is that of the zero points.
    betas = [table_zp - out_zp if g else b for g, b in zip(gammas, betas, strict=True)]
    held = {
        "gamma": torch.tensor(gammas, dtype=INT8).reshape(CHANNELS, 1, 1),
        "beta": torch.tensor(betas, dtype=INT8).reshape(CHANNELS, 1, 1),
        "weight": codes(8, CHANNELS // groups, kernel, kernel, seed=kernel).clamp(min=-127),
        "bias": torch.arange(8, dtype=torch.int32) * 1000,
    }

    def f(x, s):
        y = dyt(x, s, table_zp=table_zp, middle_zp=table_zp, out_zp=out_zp)
        return conv(y, s, groups=groups, input_zp=out_zp)

    after = assert_folded(site(f, ALL, table=EVERY, **held))
    (call,) = calls_of(after, "tosa.CONV2D")
    assert call["input_zp"] == table_zp


@settings(max_examples=25)
@given(
    gammas=st.lists(st.integers(-127, 127), min_size=CHANNELS, max_size=CHANNELS),
    betas=st.lists(st.integers(-128, 127), min_size=CHANNELS, max_size=CHANNELS),
    zero_point=st.sampled_from([0, -1, 7]),
    entries=st.sampled_from([(-128, 127), (-100, 90), (-1, 1), (5, 5)]),
)
def test_whatever_gamma_and_beta_are_no_byte_changes(gammas, betas, zero_point, entries):
    held = {
        "table": EVERY.clamp(*entries),
        "gamma": torch.tensor(gammas, dtype=INT8).reshape(CHANNELS, 1, 1),
        "beta": torch.tensor(betas, dtype=INT8).reshape(CHANNELS, 1, 1),
    }

    def f(x, s):
        return conv(dyt(x, s, out_zp=zero_point), s, input_zp=zero_point)

    before, after = both(site(f, ALL, **held))
    assert_same_bytes(before.program, after)


def test_a_gamma_of_minus_one_turns_the_weights_round():
    after = assert_folded(site(negated, ALL, table=EVERY, gamma=-ONE, beta=NONE))
    (call,) = calls_of(after, "tosa.CONV2D")
    assert torch.equal(after.program.constants[call["weight"].name], -KERNEL)


@pytest.mark.parametrize("kernel", [1, 3])
def test_padded_where_every_code_maps_to_itself_both_go(kernel):
    weight = KERNEL.repeat(1, 1, kernel, kernel)
    assert_folded(site(lambda x, s: conv(dyt(x, s), s, padding=1), ALL, table=EVERY, weight=weight))


def test_padded_with_a_beta_only_gamma_goes_and_the_add_stays():
    make = site(lambda x, s: conv(dyt(x, s), s, padding=1), ALL, table=EVERY, beta=BETA)
    after = assert_folded(
        make, ("tosa.TABLE", "tosa.RESCALE", "tosa.RESCALE", "tosa.ADD", "tosa.RESCALE", "tosa.CONV2D")
    )
    assert "beta's ADD stays" in after.steps[-1].sentence
    assert {"b_weight", "b_bias"} <= set(after.program.constants)


def test_padded_with_another_gamma_nothing_goes():
    make = site(lambda x, s: conv(dyt(x, s), s, padding=1), gamma=SOME)
    verdict = assert_refused(make, "padded_identity")
    assert "channel 1, code -127 becomes 0" in verdict.reason
    plot = shown(session_of(make).why_not(PATTERN, "conv2d"))
    assert (plot.channel, plot.code, plot.values[1], plot.nearest) == (1, -127, 0, tuple(range(-128, 128)))
    assert "beside the identity" in plot.says


def test_a_linear_reads_rows():
    def f(x, s):
        return conv(dyt(x, s).view(-1, CHANNELS, 1, 1), s)

    make = site(f, ALL.permute(0, 2, 3, 1).contiguous(), table=EVERY, gamma=SOME.flatten(), beta=OFFSETS.flatten())
    assert_folded(make, ("tosa.TABLE", "aten.view", "tosa.CONV2D"))


def test_the_first_channel_and_code_are_named():
    gamma = torch.tensor([64, 64, 32, 48], dtype=INT8).reshape(CHANNELS, 1, 1)
    verdict = assert_refused(site(table=EVERY, gamma=gamma), "integer_affine")
    assert "channel 2, code -128" in verdict.reason
    saturating = assert_refused(site(table=EVERY, gamma=ONE + 63), "integer_affine")
    assert "channel 0" in saturating.reason
    assert "saturates at -128" in saturating.reason


def test_the_map_that_breaks_is_shown_beside_the_nearest_affine_one():
    gamma = torch.tensor([64, 64, 32, 48], dtype=INT8).reshape(CHANNELS, 1, 1)
    found = session_of(site(table=EVERY, gamma=gamma)).why_not(PATTERN, "conv2d")
    plot = shown(found)
    # by hand: gamma is 32/64, and a RESCALE rounds halves up
    assert plot.values == tuple((c + 1) // 2 for c in range(-128, 128))
    assert (plot.channel, plot.code) == (2, -128)
    assert len({b - a for a, b in pairwise(plot.nearest)}) == 1
    assert "Channel 2" in plot.says
    assert "code -128, which gives -64" in plot.says
    html = found._repr_html_()
    assert html.count("<polyline") == 2
    assert all(words in html for words in ("code in, -128 to 127", "code out, -128 to 127", "<title>Channel 2"))
    applied = session_of(site(table=EVERY)).why_not(PATTERN, "conv2d")
    assert (applied.verdict, "<svg" in applied._repr_html_()) == ("applied", False)


def test_a_code_that_the_table_never_gives_does_not_count():
    # beta moves every code by 20: those above 107 saturate
    moved = {"beta": NONE + 20}
    verdict = assert_refused(site(x=ALL, table=EVERY, **moved), "integer_affine")
    assert "code 108 saturates at 127" in verdict.reason
    after = assert_folded(site(x=ALL, table=EVERY.clamp(max=107), **moved))
    (call,) = calls_of(after, "tosa.CONV2D")
    assert torch.equal(after.program.constants[call["weight"].name], KERNEL)
    verdict = assert_refused(site(x=ALL, table=EVERY.clamp(max=108), **moved), "integer_affine")
    assert "1 of the 237 codes that occur" in verdict.reason


def test_between_few_codes_a_map_may_be_steep():
    # gamma is 127/64: of -1, 0 and 1 it makes -2, 0 and 2
    few = {"table": EVERY.clamp(-1, 1), "gamma": ONE + 63}
    after = assert_folded(site(x=ALL, weight=KERNEL // 2, **few))
    (call,) = calls_of(after, "tosa.CONV2D")
    assert torch.equal(after.program.constants[call["weight"].name], KERNEL // 2 * 2)
    verdict = assert_refused(site(x=ALL, weight=KERNEL, **few), "weight_fits")
    assert f"{2 * int(KERNEL.min())}..{2 * int(KERNEL.max())}" in verdict.reason


def test_padded_with_a_table_that_spares_the_codes_that_gamma_changes():
    # a gamma of 65/64, rounded, keeps the codes from -32 to 31
    padded = site(lambda x, s: conv(dyt(x, s), s, padding=1), ALL, table=EVERY.clamp(-32, 31), gamma=ONE + 1, beta=BETA)
    assert_folded(padded, None)
    assert_refused(
        site(lambda x, s: conv(dyt(x, s), s, padding=1), ALL, table=EVERY, gamma=ONE + 1, beta=BETA), "padded_identity"
    )


def test_of_a_table_that_is_computed_every_code_counts():
    def f(x, y, s):
        return conv(dyt(x, SimpleNamespace(table=y, gamma=s.gamma, beta=s.beta)), s)

    steps = lowered(site(f, ALL, EVERY.clamp(max=107), beta=NONE + 20), "ethos-u", folds)
    assert {v.failed for v in steps.verdicts_of(PATTERN)} == {"integer_affine"}


def test_a_transposed_convolution_is_refused():
    verdict = assert_refused(site(transposed, weight=KERNEL.transpose(0, 1).contiguous()), "not_transposed")
    assert "scatters" in verdict.reason


def test_two_convolutions_on_one_site_are_refused():
    def f(x, s):
        held = dyt(x, s)
        return conv(held, s), conv(held, s, bias=False)

    _, after = both(site(f))
    assert {v.failed for v in after.verdicts_of(PATTERN)} == {"exclusive"}


@settings(max_examples=25)
@given(
    groups=st.sampled_from([1, 2, 3]), per_group=st.integers(1, 3), kernel=st.integers(1, 3), seed=st.integers(0, 99)
)
def test_the_formula_of_weights_and_bias(groups, per_group, kernel, seed):
    g = torch.Generator().manual_seed(seed)
    channels, outputs = groups * per_group, groups * 2
    weight = torch.randint(-127, 128, (outputs, per_group, kernel, kernel), generator=g)
    bias = torch.randint(-1000, 1000, (outputs,), generator=g)
    s, o = torch.randint(-3, 4, (channels,), generator=g), torch.randint(-50, 50, (channels,), generator=g)
    x = torch.randint(-128, 128, (2, channels, 4, 4), generator=g)
    y = s[:, None, None] * x + o[:, None, None]
    new_weight, new_bias = folded(weight, bias, s, o, groups)
    first, second = (
        torch.nn.functional.conv2d(a.double(), w.double(), b.double(), groups=groups)
        for a, w, b in ((y, weight, bias), (x, new_weight, new_bias))
    )
    assert torch.equal(first, second)


def test_off_by_default_and_put_in_by_a_session():
    session = Session(program_of(plain()), "ethos-u")
    session.disable("fold_constants")
    assert session.lowering.verdicts[PATTERN, "conv2d"].outcome is Outcome.DISABLED
    session.insert(PATTERN, after="fold_dyt_alpha")
    assert [s.pattern for s in session.lowering.steps] == [PATTERN]
    session.undo()
    assert not session.lowering.steps


def test_a_skipped_site_stays():
    lowering = lowered(plain, "ethos-u", lambda r: folds(r).skip(lowerscope.Skip(op="tosa.MUL")))
    assert not lowering.steps


@pytest.mark.quantize
@pytest.mark.parametrize(
    ("name", "folded_sites", "muls", "adds"),
    [
        # of each block's ADDs beta's goes, that of the residual stays
        ("conv", 2, 0, 2),
        ("conv_nhwc", 2, 0, 2),
        ("conv_padded", 2, 0, 2),
        ("conv_realistic", 0, 2, 4),
    ],
)
def test_the_sample_models(name, folded_sites, muls, adds):
    import torchao  # noqa: F401  (registers what the file calls)

    program = lowerscope.load(f"sample_models/dyt_{name}.pt2")
    before = lower(program, "ethos-u")
    after = lower(program, Recipe("ethos-u").enable("fold_dyt_alpha", PATTERN))
    verdicts = [v for v in after.verdicts_of(PATTERN) if v.outcome is not Outcome.NOTHING_TO_FUSE]
    applied = [v for v in verdicts if v.outcome is Outcome.APPLIED]
    assert len(applied) == folded_sites
    assert {v.failed for v in verdicts if v not in applied} <= {"integer_affine"}
    assert (ops_of(after).count("tosa.MUL"), ops_of(after).count("tosa.ADD")) == (muls, adds)
    assert_same_bytes(before.program, after)


@pytest.mark.quantize
def test_the_transformer_folds_the_site_that_one_linear_reads():
    import torchao  # noqa: F401  (registers what the file calls)

    program = lowerscope.load("sample_models/dyt_transformer.pt2")
    before = lower(program, "ethos-u")
    after = lower(program, Recipe("ethos-u").enable("fold_dyt_alpha", PATTERN))
    found = [(v.outcome, v.failed) for v in after.verdicts_of(PATTERN)]
    assert found.count((Outcome.APPLIED, None)) == 1
    assert found.count((Outcome.NEAR_MISS, "exclusive")) == 2
    assert_same_bytes(before.program, after)
