"""Patterns by example: what they take, what they say of what they do not, and what happens when a user's function fails."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lowerscope import capture, pattern_from
from lowerscope.check import Condition
from lowerscope.errors import RecipeError
from lowerscope.explain import ConditionRow
from lowerscope.measure.counts import count_ops
from lowerscope.pattern import REGISTRY
from lowerscope.session import Session
from tests.engine.nets import Of

NAME = "by_example"
IMAGE = (1, 3, 8, 8)
WEIGHTS = (torch.randn(4, 3, 3, 3), torch.randn(4))


pytestmark = pytest.mark.usefixtures("own")


def _session(function, *inputs: torch.Tensor, **members) -> Session:
    """The program `function(members, *inputs)` on ethos-u, which has no fusions of its own that could be first."""
    return Session(capture(Of(function, **members).eval(), inputs), "ethos-u")


def _verdict(session: Session, anchor: str | None = None) -> str:
    found = session.matches(NAME)
    return (found if anchor is None else found[found.anchor == anchor]).verdict.item()


def _failed(session: Session) -> ConditionRow:
    failed = session.why_not(NAME, session.near_misses(NAME).anchor.item()).failed
    assert failed is not None
    return failed


def _unary(search, replace=torch.neg, **options):
    return pattern_from(search, replace, [torch.randn(2, 3)], name=NAME, **options)


# ---------------------------------------------------------------- what it takes
def test_a_match_becomes_what_the_replacement_computes():
    pattern_from(
        lambda x, w, b: F.relu(F.conv2d(x, w, b)),
        lambda x, w, b: F.conv2d(x, w, b).clamp(min=0),
        [torch.randn(IMAGE), *WEIGHTS],
        name=NAME,
    )
    session = _session(lambda s, x: F.relu(s.conv(x)), torch.randn(IMAGE), conv=nn.Conv2d(3, 4, 3))
    assert _verdict(session) == "applied"
    after = count_ops(session.lowering.program)
    assert "aten.relu" not in " ".join(after)
    assert any(op.startswith("aten.clamp") for op in after)
    assert session.parity().verdict.item() in ("equal", "close")
    session.expect({NAME: 1})


@pytest.mark.parametrize(("targets", "target"), [(["vulkan"], "vulkan"), (["ethos-u"], "ethos-u"), (["*"], "qnn")])
def test_an_example_is_traced_as_its_target_has_core_aten(targets, target):
    """ethos-u keeps linear whole, the others decompose it."""
    given = [torch.randn(2, 3), torch.randn(4, 3), torch.randn(4)]

    def searched(x, w, b):
        return F.relu(F.linear(x, w, b))

    pattern_from(searched, lambda x, w, b: F.linear(x, w, b).clamp(min=0), given, name=NAME, targets=targets)
    net = Of(lambda s, x: F.relu(s.linear(x)), linear=nn.Linear(3, 4)).eval()
    session = Session(capture(net, (torch.randn(2, 3),)), target)
    session.only(NAME)
    assert _verdict(session) == "applied"


@pytest.mark.parametrize("function", [lambda s, x: x + x * 2, lambda s, x: x * 2 + x, lambda s, x: 2 * x + x])
def test_operands_of_a_commutative_op_are_tried_in_both_orders(function):
    _unary(lambda x: x + x * 2, lambda x: x * 3)
    session = _session(function, torch.randn(2, 3))
    assert _verdict(session) == "applied"
    assert session.parity().verdict.item() in ("equal", "close")


def test_operands_of_other_ops_keep_their_order():
    _unary(lambda x: x.exp() - x.sin())
    assert _verdict(_session(lambda s, x: x.exp() - x.sin(), torch.randn(2, 3))) == "applied"
    assert _verdict(_session(lambda s, x: x.sin() - x.exp(), torch.randn(2, 3))) != "applied"


def test_an_add_with_an_alpha_does_not_commute():
    _unary(lambda x: torch.add(x.exp(), x.sin(), alpha=2))
    assert _verdict(_session(lambda s, x: torch.add(x.exp(), x.sin(), alpha=2), torch.randn(2, 3))) == "applied"
    assert _verdict(_session(lambda s, x: torch.add(x.sin(), x.exp(), alpha=2), torch.randn(2, 3))) != "applied"


# ---------------------------------------------------------------- literals
@pytest.mark.parametrize(
    ("wanted", "given", "equal"),
    [
        (2, 2.0, True),
        (2.0, 2, True),
        (2.0, 2.5, False),
        (0.0, -0.0, False),
        (-0.0, -0.0, True),
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
    ],
)
def test_literals_are_compared(wanted, given, equal):
    _unary(lambda x: x.sin() * wanted)
    session = _session(lambda s, x: x.sin() * given, torch.randn(2, 3))
    assert (_verdict(session) == "applied") is equal
    if not equal:
        failed = _failed(session)
        assert failed.name.startswith("node_mul")
        assert (failed.expected, failed.actual) == (f"other = {wanted}", f"other = {given}")


@pytest.mark.parametrize(("held", "equal"), [(2.0, True), (3.0, False)])
def test_a_constant_of_the_program_is_the_literal_that_it_holds(held, equal):
    pattern_from(lambda x: x.sin() * torch.tensor(2.0), torch.neg, [torch.randn(2, 3)], name=NAME)
    session = _session(lambda s, x: x.sin() * s.scale, torch.randn(2, 3), scale=torch.tensor(held))
    assert (_verdict(session) == "applied") is equal


def test_a_stride_is_a_literal():
    pattern_from(
        lambda x, w, b: F.relu(F.conv2d(x, w, b)),
        lambda x, w, b: F.conv2d(x, w, b).clamp(min=0),
        [torch.randn(IMAGE), *WEIGHTS],
        name=NAME,
    )
    session = _session(lambda s, x: F.relu(s.conv(x)), torch.randn(IMAGE), conv=nn.Conv2d(3, 4, 3, stride=2))
    failed = _failed(session)
    assert (failed.name, failed.node) == ("node_convolution", "convolution")
    assert (failed.expected, failed.actual) == ("stride = [1, 1]", "stride = [2, 2]")


@pytest.mark.parametrize(
    ("search", "function"),
    [
        (lambda x: F.gelu(x.sin()), lambda s, x: F.gelu(x.sin(), approximate="tanh")),
        (lambda x: x.sin() + x.exp(), lambda s, x: torch.add(x.sin(), x.exp(), alpha=2)),
        (lambda x: x.sin().clamp(min=0.0), lambda s, x: x.sin().clamp(min=0.0, max=1.0)),
        (lambda x: x.sin().sum(1), lambda s, x: x.sin().sum(1, keepdim=True)),
    ],
)
def test_an_argument_that_the_example_does_not_name_has_its_default_and_is_no_wildcard(search, function):
    pattern_from(search, search, [torch.randn(2, 3)], name=NAME)
    session = _session(function, torch.randn(2, 3))
    failed = _failed(session)
    assert failed.name.startswith("node_")
    assert " = " in failed.expected


@pytest.mark.parametrize(
    ("search", "function", "equal"),
    [
        (lambda x: x.sin().sum(-1), lambda s, x: x.sin().sum(1), True),
        (lambda x: x.sin().sum(1), lambda s, x: x.sin().sum(0), False),
        (lambda x: x.sin().unsqueeze(-1), lambda s, x: x.sin().unsqueeze(2), True),
        (lambda x: x.sin().unsqueeze(-1), lambda s, x: x.sin().unsqueeze(1), False),
        (lambda x: x.sin().permute(1, 0), lambda s, x: x.sin().permute(-1, -2), True),
        (lambda x: torch.cat([x.sin(), x.cos()], 1), lambda s, x: torch.cat([x.sin(), x.cos()], -1), True),
        (lambda x: torch.cat([x.sin(), x.cos()], 1), lambda s, x: torch.cat([x.sin(), x.cos()], 0), False),
    ],
)
def test_an_axis_is_the_same_counted_from_either_end(search, function, equal):
    pattern_from(search, search, [torch.randn(2, 3)], name=NAME)
    session = _session(function, torch.randn(2, 3))
    assert (_verdict(session) == "near miss") is not equal


# ---------------------------------------------------------------- structure
def test_a_value_that_somebody_else_reads_escapes_and_the_reader_is_named():
    _unary(lambda x: x.sin().exp())

    def function(s, x):
        y = x.sin()
        return y.exp(), y.cos()

    session = _session(function, torch.randn(2, 3))
    failed = _failed(session)
    assert (failed.name, failed.node) == ("no_escape", "cos")
    assert failed.actual == "'sin' is read by 'cos' too"


def test_an_extra_node_in_between_is_named():
    _unary(lambda x: x.sin().exp())
    session = _session(lambda s, x: x.sin().neg().exp(), torch.randn(2, 3))
    failed = _failed(session)
    assert (failed.name, failed.node) == ("node_sin", "neg")
    assert "extra node in between" in failed.sentence


def test_another_op_is_named_with_the_one_expected():
    _unary(lambda x: x.sin().cos().exp())
    session = _session(lambda s, x: x.tanh().cos().exp(), torch.randn(2, 3))
    failed = _failed(session)
    assert (failed.name, failed.node) == ("node_sin", "tanh")
    assert (failed.expected, failed.actual) == ("aten.sin", "aten.tanh")


def test_an_anchor_that_nothing_of_the_pattern_feeds_is_no_near_miss():
    _unary(lambda x: x.sin().exp())
    session = _session(lambda s, x: x.tanh().exp(), torch.randn(2, 3))
    assert _verdict(session) == "nothing to fuse"


@pytest.mark.parametrize("asked", ["clamp", "convolution", "p_conv_weight"])
def test_another_op_at_the_end_is_named_beside_what_feeds_it(asked):
    inputs = [torch.randn(IMAGE), *WEIGHTS]
    pattern_from(lambda x, w, b: F.hardtanh(F.conv2d(x, w, b), 0.0, 6.0), torch.neg, inputs, name=NAME)
    session = _session(lambda s, x: s.conv(x).clamp(0.0, 6.0).neg(), torch.randn(IMAGE), conv=nn.Conv2d(3, 4, 3))
    told = session.why_not(NAME, asked)
    assert told.failed is not None
    assert told.verdict == "nothing to fuse"  # a lone convolution, and what follows it is another pattern's
    assert (told.failed.name, told.failed.node) == ("ends", "clamp")
    assert told.failed.sentence == "its op is aten.clamp at clamp, expected aten.hardtanh"
    assert set(told.nodes) == {"clamp", "convolution"}
    aligned = told.to_frame().loc["node_convolution"]
    assert (aligned["status"], aligned["node"]) == ("passed", "convolution")
    assert len(session.near_misses(NAME)) == 0


def test_what_misses_by_little_speaks_before_an_op_that_is_another():
    _unary(lambda x: x.sin().exp())
    session = _session(lambda s, x: (x.sin().neg().exp(), x.sin().cos()), torch.randn(2, 3))
    found = session.matches(NAME).set_index("anchor")
    assert dict(found.failed) == {"exp": "node_sin", "cos": "ends"}
    for asked in ("neg", "sin"):
        assert session.why_not(NAME, asked).anchor == "exp"


def test_an_argument_that_is_read_twice_is_one_value():
    _unary(lambda x: x.sin() * x)
    session = _session(lambda s, x, y: x.sin() * y, torch.randn(2, 3), torch.randn(2, 3))
    assert _verdict(session) == "near miss"
    assert _verdict(_session(lambda s, x, y: x.sin() * x, torch.randn(2, 3), torch.randn(2, 3))) == "applied"


@pytest.mark.parametrize(
    ("image", "option", "kind"),
    [
        (torch.randn(2, 3, 4), "any_rank", "rank"),
        (torch.randn(3), "any_rank", "1 axis at"),
        (torch.randn(2, 3, dtype=torch.float64), "any_dtype", "dtype"),
    ],
)
def test_rank_and_dtype_are_the_examples_unless_lifted(image, option, kind):
    _unary(lambda x: x.sin().exp())
    missed = _failed(_session(lambda s, x: x.sin().exp(), image))
    assert kind in missed.sentence
    _unary(lambda x: x.sin().exp(), lambda x: x.sin().exp() + 0, **{option: True})
    assert _verdict(_session(lambda s, x: x.sin().exp(), image)) == "applied"


def test_one_tensor_given_twice_as_the_example_is_two_arguments():
    image = torch.randn(2, 3)
    pattern_from(lambda x, y: x.sin() + y, lambda x, y: y + x.sin(), [image, image], name=NAME)
    session = _session(lambda s, x, y: x.sin() + y, torch.randn(2, 3), torch.randn(2, 3))
    assert _verdict(session) == "applied"


# ---------------------------------------------------------------- the user's functions
def test_where_is_a_condition_of_the_functions_name():
    def wide_enough(bound):
        """it has more than four columns"""
        return bound["x"].meta["val"].shape[1] > 4

    _unary(lambda x: x.sin().exp(), where=[wide_enough])
    narrow = _failed(_session(lambda s, x: x.sin().exp(), torch.randn(2, 3)))
    assert (narrow.name, narrow.says) == ("wide_enough", "it has more than four columns")
    assert _verdict(_session(lambda s, x: x.sin().exp(), torch.randn(2, 5))) == "applied"


def test_an_exception_in_where_is_a_verdict_with_its_line_and_the_others_go_on():
    def asks_for_too_much(bound):
        return bound["weight"] is not None

    _unary(lambda x: x.sin().exp(), where=[asks_for_too_much])
    pattern_from(lambda x: x.cos().tanh(), lambda x: x.tanh().cos(), [torch.randn(2, 3)], name="another")
    session = _session(lambda s, x: x.sin().exp() + x.cos().tanh(), torch.randn(2, 3))
    assert _verdict(session) == "error"
    reason = session.matches(NAME).reason.item()
    assert "KeyError: 'weight'" in reason
    line = asks_for_too_much.__code__.co_firstlineno + 1
    assert f"line {line}" in reason
    assert session.patterns().applied["another"] == 1


def test_an_exception_in_the_replacement_declines_in_its_words():
    def only_for_two_rows(x):
        if x.shape[0] != 2:
            raise ValueError("two rows, please")
        return x.exp()

    _unary(lambda x: x.sin().exp(), only_for_two_rows)
    session = _session(lambda s, x: x.sin().exp(), torch.randn(5, 3))
    assert _verdict(session) == "declined"
    assert "ValueError: two rows, please" in session.matches(NAME).reason.item()
    assert session.parity().verdict.item() == "equal"


@pytest.mark.parametrize("replace", [lambda x: x.exp().sum(1), lambda x: x.exp().double()])
def test_a_replacement_of_another_shape_or_dtype_is_declined_and_changes_nothing(replace):
    _unary(lambda x: x.sin().exp(), replace)
    session = _session(lambda s, x: x.sin().exp(), torch.randn(2, 3))
    assert _verdict(session) == "declined"
    assert "the replacement gives torch.float" in session.matches(NAME).reason.item()
    assert count_ops(session.lowering.program) == count_ops(session.lowering.before)


def test_defining_it_again_replaces_it_in_a_session_that_is_open():
    _unary(lambda x: x.sin().exp(), torch.neg)
    session = _session(lambda s, x: x.sin().exp(), torch.randn(2, 3))
    assert "aten.neg" in " ".join(count_ops(session.lowering.program))
    _unary(lambda x: x.sin().exp(), torch.abs)
    assert "aten.abs" in " ".join(count_ops(session.lowering.program))
    assert [p.name for p in REGISTRY if p.yours] == [NAME]


@pytest.mark.parametrize(
    ("search", "options", "says"),
    [
        (lambda x: x, {"name": NAME}, "computes nothing"),
        (lambda x: (x.sin(), x.cos()), {"name": NAME}, "gives several values"),
        (lambda x: x.sin() if x.sum() > 0 else x, {"name": NAME}, "cannot be traced"),
        (lambda x: x.sin(), {"name": "fold_batch_norm"}, "give yours another name"),
        (lambda x: x.sin(), {}, "name="),
    ],
)
def test_what_cannot_be_a_pattern_is_refused_in_a_sentence(search, options, says):
    known = REGISTRY.names()
    with pytest.raises(RecipeError, match=says):
        pattern_from(search, torch.neg, [torch.randn(2, 3)], **options)
    assert REGISTRY.names() == known


def test_example_inputs_are_tensors():
    with pytest.raises(RecipeError, match="a sequence of tensors"):
        pattern_from(torch.sin, torch.cos, [2.0], name=NAME)  # type: ignore[list-item]


def test_conditions_tell_the_literals_of_a_call_and_what_feeds_the_anchor():
    def search(x):
        return torch.relu(x + torch.full((1, 3), 0.5))

    made = pattern_from(search, lambda x: torch.relu(x + 0.5), [torch.rand(1, 3)], name=NAME)
    says = {c.name: c.says for c in made.conditions if isinstance(c, Condition)}
    assert says["node_full"] == "aten.full([1, 3], 0.5)"
    assert says["begins"] == f"it is fed by aten.add.Tensor, as in {NAME}"
    session = _session(lambda _, x: torch.relu(x + torch.full((1, 3), 0.25)) + torch.relu(x * x), torch.rand(1, 3))
    failed = session.why_not(NAME, "relu_1").failed
    assert failed is not None
    assert (failed.name, failed.expected, failed.actual) == ("begins", "aten.add.Tensor", "aten.mul.Tensor")
