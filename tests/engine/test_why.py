"""Why a pattern did not match: whichever node is asked about, in every stage, in short sentences that are exact."""

from __future__ import annotations

import html

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from lowerscope.check import Condition, Entry, Status
from lowerscope.errors import RecipeError, UnknownNameError
from lowerscope.explain import ConditionRow, Explanation
from lowerscope.explanations import Explanations
from lowerscope.pattern import ANY, REGISTRY, Kind, Match, Pattern, pattern
from lowerscope.program import capture
from lowerscope.recipe import Recipe
from lowerscope.sentences import failure_sentence, plain
from lowerscope.session import Session
from tests.engine.nets import Of, mixed

aten = torch.ops.aten
EPILOGUE = "conv2d_with_epilogue"


def session(function, *inputs, shapes=None, target="vulkan", **members) -> Session:
    return Session(
        capture(Of(function, **members).eval(), inputs, dynamic_shapes=(shapes,) if shapes else None), target
    )


def fault(told: Explanation) -> ConditionRow:
    """The root cause."""
    assert told.failed is not None
    return told.failed


def conv(channels=3, to=4, **options):
    return nn.Conv2d(channels, to, 3, padding=1, **options)


IMAGE = (1, 3, 6, 6)


@pytest.fixture
def image() -> torch.Tensor:
    return torch.randn(IMAGE)


@pytest.fixture(scope="module")
def several() -> Session:
    return Session(mixed())


# ---------------------------------------------------------------- sentences
@pytest.mark.parametrize(
    ("says", "expected", "actual", "node", "because", "sentence"),
    [
        ("the batch size is 1", 1, 8, "conv", None, "the batch size is 8 at conv, expected 1"),
        ("the convolution is 2-D", 2, 1, "conv", None, "the convolution is 1-D at conv, expected 2-D"),
        (
            "it has exactly one user", "1 user", "2 users (add, mul)", "mul", None,
            "it has 2 users (add, mul), expected 1 user",
        ),
        (
            "its weight is a constant, which can be packed", "a constant", "an input", "x", "packed before it runs",
            "its weight is an input at x, expected a constant (packed before it runs)",
        ),
        ("the stride is at most 2", 2, 3, "conv", None, "the stride is at most 2: 3 at conv, expected 2"),
        (
            "the residual has its shape", (1, 4, 6, 6), (1, 4, 1, 1), "mul", None,
            "the residual has its shape: 1×4×1×1 at mul, expected 1×4×6×6",
        ),
        (
            "it computes in float16", (torch.float16, torch.float32), torch.float64, "conv", None,
            "it computes in float16: f64 at conv, expected f16 or f32",
        ),
        ("alpha is a number", None, None, "add", None, "alpha is a number: not so at add"),
    ],
)  # fmt: skip
def test_a_failed_condition_is_one_short_sentence(says, expected, actual, node, because, sentence):
    entry = Entry("name", Status.FAILED, expected, actual, node, None, because)
    assert failure_sentence(says, entry) == sentence


def test_values_are_shown_as_a_reader_wants_them():
    assert plain(None) == ""
    assert plain(torch.Size([1, 2])) == plain((1, 2)) == "1×2"
    assert plain(torch.Size([])) == "scalar"
    assert plain(((1, 2), (3,))) == "1×2 or 3"
    assert plain(("a", None), " and ") == "a and None"
    assert plain(()) == "none"
    assert plain(0.25) == "0.25"
    assert plain(torch.int64) == "int64"


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (Dim("n", min=4, max=16), " in 4..16)"),
        (Dim("n", min=4), " from 4)"),
        (Dim("n", min=1, max=16), " up to 16)"),  # which torch takes to be 2..16 until the program is saved
        (Dim.DYNAMIC, " of any size)"),
    ],
)
def test_a_symbolic_size_is_shown_with_its_range_before_and_after_saving(image, tmp_path, size, said):
    found = session(lambda s, x: s.conv(x).relu(), image.expand(4, -1, -1, -1), shapes=({0: size},), conv=conv())
    found.program.save(tmp_path / "n.pt2")
    for asked in (found, Session(tmp_path / "n.pt2", "vulkan")):
        sentence = fault(asked.why_not(EPILOGUE, "conv2d")).sentence
        assert sentence.startswith("the batch size is s")
        assert f"{said} at convolution, expected 1" in sentence


# ---------------------------------------------------------------- whichever node
def test_a_second_user_is_named():
    found = session(lambda s, x: (s.conv(x).relu(), s.conv(x).sum()), torch.randn(IMAGE), conv=conv())
    assert found.why_not(EPILOGUE, "conv2d").verdict == "applied"
    shared = session(_shared, torch.randn(IMAGE), conv=conv())
    missed = shared.why_not(EPILOGUE, "conv2d")
    assert (missed.verdict, fault(missed).name, fault(missed).node) == ("near miss", "one_user", "sigmoid")
    assert fault(missed).sentence == "the convolution has 2 users (relu, sigmoid), expected 1 user"


def test_a_node_that_is_called_as_its_op_is_named_beside_it():
    found = session(
        lambda s, x: F.relu(F.conv2d(x, s.linear(x.mean((2, 3))).view(4, 3, 3, 3))),
        torch.randn(IMAGE),
        linear=nn.Linear(3, 108),
    )
    said = fault(found.why_not(EPILOGUE, "relu")).sentence
    assert said.startswith("its weight is computed by aten.view at view, expected a constant")


def _shared(s, x):
    y = s.conv(x)
    return y.relu(), y.sigmoid()


@pytest.mark.parametrize("node", ["conv2d", "convolution", "relu", "p_conv_weight", "p_conv_bias", "mul", "add", "x"])
def test_a_node_that_is_no_anchor_is_answered_through_the_one_that_could_have_held_it(node):
    scale = nn.Parameter(torch.rand(1, 4, 1, 1))
    found = session(
        lambda s, x: F.relu(s.conv(x) + x.repeat(1, 2, 1, 1) * s.scale),
        torch.randn(2, 2, 6, 6),
        conv=conv(2),
        scale=scale,
    )
    told = found.why_not(EPILOGUE, node if node != "x" else "repeat")
    assert told.node == (node if node != "x" else "repeat")
    assert told.anchor == "convolution"
    assert (told.verdict, fault(told).name) == ("near miss", "batch_1")


def test_an_applied_match_that_stops_before_the_node_says_so(image):
    found = session(
        lambda s, x: F.relu(s.conv(x) + s.other), image, conv=conv(), other=nn.Parameter(torch.rand(4, 1, 1))
    )
    told = found.why_not(EPILOGUE, "add")
    assert told.anchor == "convolution"
    assert any(c.status is Status.FAILED and c.name == "residual_shape" for c in told.conditions)


def test_far_from_every_anchor_there_is_none():
    found = session(lambda s, x: x.sigmoid(), torch.randn(2, 3))
    told = found.why_not(EPILOGUE, "sigmoid")
    assert told.verdict == "no anchor"
    assert told.reason == "'sigmoid' (aten.sigmoid) is no anchor of it, and none is within 4 edges"
    assert told.headline == f"{EPILOGUE}: {told.reason}"
    assert (told.passed, told.failed) == (0, None)


def test_all_patterns_at_a_node_come_nearest_first(several):
    found = several.why_not(node="relu")
    assert isinstance(found, Explanations)
    assert found[0].pattern == EPILOGUE
    assert found[0].verdict == "applied"
    assert {e.pattern for e in found} == set(several.patterns().index)
    assert found.of("conv_with_clamp").verdict == found.to_frame().loc["conv_with_clamp", "verdict"]
    assert "target" not in found.to_frame()
    assert str(found).startswith(f"{EPILOGUE} is applied at ")
    shown = found._repr_html_()
    assert "<table>" in shown
    assert "<code></code>" not in shown, "what was not reached has no node"
    assert len(found) == len(list(found))


def test_a_node_object_is_as_good_as_its_name(several):
    node = next(n for n in several.program.graph.nodes if n.name == "relu")
    assert several.why_not(EPILOGUE, node) == several.why_not(EPILOGUE, "relu")


# ---------------------------------------------------------------- all targets
def test_all_targets_are_asked_each_lowered_once(several, monkeypatch):
    from lowerscope import questions

    lowered = []
    real = questions.Lowerer.lower

    def counting(self, recipe, *how, **more):
        lowered.append(recipe.target)
        return real(self, recipe, *how, **more)

    monkeypatch.setattr(questions.Lowerer, "lower", counting)
    session = Session(mixed())
    lowered.clear()
    found = session.why_not(node="relu", targets="all")
    assert isinstance(found, Explanations)
    frame = found.to_frame()
    assert {"vulkan", "xnnpack"} <= set(frame["target"])
    told = found.of("fuse_activation")
    assert told.target == "xnnpack"
    assert told.headline.startswith("fuse_activation (xnnpack) ")
    assert sorted(lowered) == sorted(set(lowered))
    assert "vulkan" not in lowered
    session.why_not(node="add", targets="all")
    assert sorted(lowered) == sorted(set(lowered))
    keys = [(e.pattern, e.verdict, e.reason) for e in found]
    assert len(keys) == len(set(keys)), "what two targets say alike is said once"


def test_the_reason_for_not_being_delegated_stands_beside_it_for_every_target(image):
    found = session(lambda s, x: torch.erfinv(s.conv(x)).relu(), image, conv=conv())
    here = found.why_not(node="erfinv")
    assert here.outside is not None
    everywhere = found.why_not(node="erfinv", targets="all")
    assert everywhere.outside is not None
    lines = everywhere.outside.splitlines()
    assert f"vulkan: {here.outside}" == lines[0]
    assert {line.partition(":")[0] for line in lines} >= {"vulkan", "xnnpack"}
    assert str(everywhere).count("outside the delegate: ") == len(lines)
    assert found.why_not(node="relu", targets=["xnnpack"]).outside is None


def test_what_became_of_the_node_is_told_once(image):
    found = session(lambda s, x: s.norm(s.conv(x)), image, conv=conv(), norm=nn.BatchNorm2d(4))
    told = found.why_not(node="batch_norm")
    said = [line for e in told for line in e.history]
    assert len(said) > len(set(said))
    assert [line for line in set(said) if str(told).count(line) != 1] == []
    assert [line for line in set(said) if told._repr_html_().count(html.escape(line)) != 1] == []


def test_a_node_of_a_later_stage_is_found_in_other_targets_by_its_origin(several):
    found = several.why_not(node="convolution_1", targets=["xnnpack"])
    assert isinstance(found, Explanations)
    assert found.of("fuse_activation").verdict != "no anchor"


def test_an_expectation_that_nothing_came_near_says_where_to_look(image):
    lone = session(lambda s, x: s.conv(x), image, conv=conv())
    with pytest.raises(AssertionError, match="applied 0 times, expected 1\nnothing of conv2d_with_epilogue came near"):
        lone.expect({EPILOGUE: 1})
    assert lone.matches(EPILOGUE).verdict.tolist() == ["nothing to fuse"]


def test_what_cannot_be_asked_is_refused_in_a_sentence(several):
    with pytest.raises(RecipeError, match="give node="):
        several.why_not(EPILOGUE)
    with pytest.raises(UnknownNameError, match="no node named 'conv2d_99'"):
        several.why_not(EPILOGUE, "conv2d_99")
    with pytest.raises(UnknownNameError, match="no pattern of target vulkan named 'fuse_activation'"):
        several.why_not("fuse_activation", "relu")
    with pytest.raises(UnknownNameError, match="no target named 'vulcan'"):
        several.why_not(node="relu", targets=["vulcan"])
    with pytest.raises(RecipeError, match="leave out the pattern"):
        several.why_not(EPILOGUE, "relu", targets="all")


# ---------------------------------------------------------------- stages
def test_a_decomposed_op_is_told_with_stage_and_parts(image):
    found = session(lambda s, x: F.hardswish(s.conv(x)), image, conv=conv())
    told = found.why_not("conv_with_clamp", "hardswish")
    said = told.history[0]
    assert said.startswith("'hardswish' (aten.hardswish) was decomposed in core_aten, step 2, into 'add")
    assert "aten.clamp" in said
    assert said in str(told)
    assert said in told._repr_html_().replace("&#x27;", "'")
    missed = found.why_not("conv_with_clamp", "conv2d")
    assert fault(missed).name == "clamp_follows"
    assert "comes from 'hardswish' (aten.hardswish), which was decomposed in core_aten, step 2" in " ".join(
        missed.history
    )


def test_an_answer_about_another_node_says_so(image):
    found = session(
        lambda s, x: s.group(s.norm(F.relu(s.conv(x)))),
        image, conv=conv(), norm=nn.BatchNorm2d(4), group=nn.GroupNorm(2, 4),
    )  # fmt: skip
    told = found.why_not("fold_batch_norm", "group_norm")
    assert told.anchor == "native_batch_norm_legit_no_training"
    said = f"'group_norm' (aten.group_norm) is no anchor of it: this is about the nearest, '{told.anchor}'"
    assert told.history[-1] == said
    assert said in str(told)
    assert not any("no anchor" in line for line in found.why_not("fold_batch_norm", "batch_norm").history)


def test_a_kept_op_has_no_such_history(image):
    found = session(lambda s, x: F.hardswish(s.conv(x)), image, conv=conv())
    found.keep("aten.hardswish")
    assert not any("decomposed" in line for line in found.why_not("conv_with_clamp", "hardswish").history)


def test_a_folded_batch_norm_is_told_of(image):
    found = session(lambda s, x: s.norm(s.conv(x)), image, conv=conv(), norm=nn.BatchNorm2d(4))
    told = found.why_not(EPILOGUE, "batch_norm")
    assert any("was taken by fold_batch_norm, step" in line for line in told.history)


def test_a_batch_norm_in_train_mode_names_the_mode():
    module = Of(lambda s, x: s.norm(s.conv(x)), conv=conv(), norm=nn.BatchNorm2d(4)).train()
    found = Session(capture(module, (torch.randn(2, 3, 6, 6),)))
    told = found.why_not("fold_batch_norm", "batch_norm")
    assert (told.verdict, fault(told).name, fault(told).node) == ("near miss", "not_training", told.anchor)
    assert "export the model in eval mode" in fault(told).sentence
    assert told.history == (
        "'batch_norm' (aten.batch_norm) was decomposed at load, which makes the program functional, into "
        "'_native_batch_norm_legit_functional' (aten._native_batch_norm_legit_functional), 'getitem' (getitem), "
        "'getitem_3' (getitem), 'getitem_4' (getitem)",
    )


# ---------------------------------------------------------------- forms
def test_an_explanation_counts_the_conditions_on_the_path_taken():
    missed = session(_shared, torch.randn(IMAGE), conv=conv()).why_not(EPILOGUE, "conv2d")
    required = [c for c in missed.conditions if c.part is None]
    assert missed.total == len(required) == 9
    assert missed.passed == 5
    assert len(missed.to_frame()) == len(missed.conditions) > 20
    assert "5 of 9 conditions" in missed.headline
    text = str(missed)
    assert "residual (optional part): not reached" in text
    assert "alpha is a number" not in text
    assert "✕ the convolution has 2 users (relu, sigmoid), expected 1 user  [one_user @ sigmoid]" in text


def test_a_part_that_is_not_there_is_one_line(several):
    told = several.why_not("conv_with_clamp", "convolution_2")
    assert "squeeze (optional part): absent" in str(told)
    assert "squeeze (optional part): absent" in told._repr_html_()


def test_words_meant_for_a_failure_are_not_shown_of_what_holds(several):
    told = several.why_not(EPILOGUE, "relu")
    shown = {c.name: c.actual for c in told.conditions}
    assert shown["scale_constant"] == ""
    assert shown["one_user"].startswith("1 user (")
    assert "the convolution second" not in str(told)


def test_exactly_one_root_cause():
    module = Of(lambda s, x: s.conv(x) + s.other, conv=conv(), other=nn.Parameter(torch.rand(4, 1, 1)))
    found = Session(capture(module, (torch.randn(IMAGE),)))
    told = found.why_not(EPILOGUE, "conv2d")
    assert (fault(told).name, fault(told).node) == ("residual_shape", "p_other")
    follows = [c for c in told.conditions if c.status is Status.FOLLOWS]
    assert [(c.name, c.sentence) for c in follows] == [("something_to_fuse", "Follows from residual_shape.")]
    assert told.passed + 2 <= told.total


def test_verdict_and_explanation_count_alike(several):
    for verdict in several.lowering.verdicts.values():
        told = several.why_not(verdict.pattern, verdict.anchor)
        if told.anchor == verdict.anchor and told.verdict == str(verdict.outcome):
            assert (verdict.passed, verdict.total) == (told.passed, told.total), verdict


def test_the_frame_has_a_row_per_condition(several):
    told = several.why_not(EPILOGUE, "relu")
    frame = told.to_frame()
    assert list(frame.index) == [c.name for c in told.conditions]
    assert list(frame.columns) == ["part", "status", "expected", "actual", "node", "says", "sentence"]
    assert frame.loc["batch_1", "status"] == "passed"


def test_html_escapes_what_it_shows():
    told = Explanation("<p>", "n", "n", "near miss", "<b>no</b>", (), (), None, history=("<i>",))
    shown = told._repr_html_()
    assert "&lt;p&gt;" in shown
    assert "<i>" not in shown


# ---------------------------------------------------------------- the user's own pattern
def _registered(doing):
    @pattern("*", after=["core_aten"])
    class Mine(Pattern):
        """relu(x) = max(x, 0)."""

        name, kind, anchors = "mine", Kind.FUSION, (aten.relu.default,)
        conditions = (Condition("first", "it is first"), Condition("second", "it is second"))

        def match(self, anchor, check):
            return doing(anchor, check)

    return Mine


def test_an_exception_is_a_verdict_with_its_line_and_the_others_go_on(own, image):
    def broken(anchor, check):
        check.that("first", True)
        return anchor.nothing_of_that_name

    _registered(broken)
    found = session(lambda s, x: s.conv(x).relu(), image, conv=conv(), target="xnnpack")
    told = found.why_not("mine", "relu")
    assert told.verdict == "error"
    assert "AttributeError" in told.reason
    assert "test_why.py" in told.reason
    assert "line " in told.reason
    assert told.headline.startswith("mine at relu: error; ")
    assert found.why_not("fuse_activation", "relu").verdict == "applied"
    assert found.patterns().loc["mine", "errors"] == 1


def test_an_exception_in_is_anchor_is_a_verdict_too(own, image):
    class Base(Pattern):
        """relu."""

        name, kind, anchors = "mine", Kind.FUSION, (aten.relu.default,)
        conditions = (Condition("first", "it is first"),)

        def is_anchor(self, node):
            raise ValueError("no idea")

        def match(self, anchor, check):
            return Match(anchor, (anchor,), anchor)

    pattern("*", after=["core_aten"])(Base)
    found = session(lambda s, x: s.conv(x).relu(), image, conv=conv(), target="xnnpack")
    told = found.why_not("mine", "relu")
    assert told.verdict == "error"
    assert "ValueError: no idea at line" in told.reason
    assert found.why_not("fuse_activation", "relu").verdict == "applied"


def test_a_pattern_that_starts_anywhere_is_asked_at_every_node(own, image):
    @pattern("*", after=["core_aten"])
    class Everywhere(Pattern):
        """Any op."""

        name, kind, anchors = "everywhere", Kind.FUSION, ANY
        conditions = (Condition("is_sigmoid", "the op is sigmoid"),)

        def match(self, anchor, check):
            check.eq("is_sigmoid", str(anchor.target), "aten.sigmoid.default", at=anchor)

    found = session(lambda s, x: s.conv(x).relu(), image, conv=conv())
    assert fault(found.why_not("everywhere", "relu")).name == "is_sigmoid"


def test_redefining_a_pattern_replaces_it_and_leaves_an_old_lowering_as_it_was(own, image):
    _registered(lambda anchor, check: check.fail("first", at=anchor))
    found = session(lambda s, x: s.conv(x).relu(), image, conv=conv())
    told: list[str] = []
    found.on_change(told.append)
    old = found.lowering
    assert fault(found.why_not("mine", "relu")).name == "first"

    @pattern("*", after=["core_aten"])
    class Mine(Pattern):
        """relu, again."""

        name, kind, anchors = "mine", Kind.FUSION, (aten.relu.default,)
        conditions = (Condition("other", "it is another"),)

        def match(self, anchor, check):
            check.fail("other", at=anchor)

    assert told == []
    found.refresh()
    assert told == ["the patterns have changed"]
    found.refresh()
    assert len(told) == 1
    assert fault(found.why_not("mine", "relu")).name == "other"
    assert found.lowering is not old
    verdict = next(old.verdicts_of("mine"))
    assert verdict.reason == "it is first: not so at relu"
    assert [p.mathematics for p in old.patterns if p.name == "mine"] == ["relu(x) = max(x, 0)."]
    REGISTRY.remove("mine")
    assert verdict.reason == "it is first: not so at relu"
    assert "mine" not in found.patterns().index


def test_recipes_of_all_targets_take_plain_skips_along(image):
    found = session(lambda s, x: s.conv(x).relu(), image, conv=conv())
    found.skip(node="relu")
    answers = found.why_not(node="relu", targets=["xnnpack"])
    assert isinstance(answers, Explanations)
    told = answers.of("fuse_activation")
    assert told.verdict in ("skipped", "nothing to fuse", "near miss")
    assert Recipe("xnnpack").skips == ()


def test_what_if_of_a_node_that_loading_has_taken_apart_is_answered():
    model = nn.Sequential(conv(), nn.BatchNorm2d(4))
    found = Session(torch.export.export(model.train(), (torch.randn(2, 3, 6, 6),)), "xnnpack")
    failed = found.why_not("fold_batch_norm", "batch_norm").failed
    assert failed is not None
    assert failed.name == "not_training"
    assert found.what_if("fold_batch_norm", "batch_norm") == []


def test_a_float16_change_is_judged_by_the_oracle_and_not_by_rounding():
    found = session(
        lambda s, x: s.conv(x).relu(), torch.randn(1, 8, 6, 6).half(), target="ort-webgpu", conv=conv(8, 8).half()
    )
    found.set_profile(vendor="nvidia")
    suggested = found.what_if("im2col_conv_activation", "convolution")
    assert suggested
    assert all(s.same for s in suggested)
    assert repr(suggested[0]) == str(suggested[0])
