"""Recipe: a value that says what a lowering is to do; it survives JSON, and what it names must be there."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import lowerscope
from lowerscope.check import Condition
from lowerscope.errors import LowerscopeError, RecipeError, UnknownNameError
from lowerscope.lowering import lower
from lowerscope.pattern import REGISTRY, Kind, Match, Pattern, pattern
from lowerscope.program import capture
from lowerscope.recipe import Recipe, Skip, skip_fusion_patterns
from lowerscope.scene import make_scene
from lowerscope.session import Session
from lowerscope.target import TARGETS, Target, add_target, pipeline
from tests.engine.nets import mixed

FULL = (
    Recipe("vulkan", keep=frozenset({"aten.hardswish"}))
    .disable("fold_batch_norm", "conv_with_clamp")
    .enable("fold_constants")
    .skip(
        Skip(pattern="conv1d_as_conv2d"),
        Skip(node="conv2d"),
        Skip(module="decoder.*", op="aten.relu"),
        Skip(pattern="conv2d_with_epilogue", match=("relu", "conv2d")),
    )
    .insert("conv_with_clamp", before="conv2d_with_epilogue")
    .insert("fold_constants", after="core_aten")
    .with_profile(max_texture_width=4096)
)


@pytest.fixture
def defined():
    """Registers a pattern of the test's own by keyword, and forgets it afterwards."""
    names = []

    def define(name: str, *targets: str, **order):
        body = {"name": name, "kind": Kind.FUSION, "anchors": (torch.ops.aten.relu.default,), "conditions": ()}
        body |= {"__module__": "tests", "match": lambda self, anchor, check: Match(anchor, (anchor,), anchor)}
        pattern(*targets, **order)(type("Mine", (Pattern,), body))
        names.append(name)

    yield define
    for name in dict.fromkeys(names):
        REGISTRY.remove(name)


def small():
    return capture(nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU()).eval(), (torch.randn(1, 2, 3, 3),))


# ---------------------------------------------------------------------- forms
@pytest.mark.parametrize("recipe", [Recipe("qnn"), FULL], ids=["plain", "full"])
def test_json_gives_an_equal_recipe_back(recipe):
    again = Recipe.from_json(recipe.to_json())
    assert again == recipe
    assert hash(again) == hash(recipe)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a recipe in JSON"),
        ("[1]", "not a recipe in JSON"),
        ("{}", "a recipe has 'target'"),
        ('{"target": "vulkan", "disable": []}', "a recipe has 'target' and may have disabled"),
        ('{"target": "vulkan", "skips": [{"layer": "x"}]}', "a field that is not known"),
        ('{"target": "vulkan", "skips": [{}]}', "a skip names a pattern, a node, a module glob or an op"),
        ('{"target": "vulkan", "disabled": "core_aten"}', "disabled is a collection of names"),
    ],
)
def test_what_is_no_recipe_is_refused_in_a_sentence(text, message):
    with pytest.raises(RecipeError, match=message):
        Recipe.from_json(text)


def test_python_brings_a_session_to_the_recipe():
    program = mixed()
    recipe = (
        Recipe("vulkan")
        .disable("fold_batch_norm")
        .skip(Skip(op="aten.relu"), Skip(pattern="conv1d_as_conv2d"))
        .with_profile(max_texture_width=64)
    )
    session = lowerscope.Session(program, target="qnn")
    exec(recipe.to_python(), {"session": session})
    assert session.recipe == recipe


def test_every_change_gives_a_new_recipe_and_leaves_the_old():
    recipe = Recipe("vulkan")
    others = {recipe.disable("core_aten"), recipe.skip(Skip(node="x")), recipe.with_profile(max_texture_width=3)}
    assert len(others - {recipe}) == 3
    assert recipe == Recipe("vulkan")
    with pytest.raises(AttributeError):
        recipe.target = "qnn"  # type: ignore[misc]


def test_skips_are_added_once_and_taken_off():
    skip = Skip(op="aten.relu")
    recipe = Recipe("vulkan").skip(skip, skip).skip(skip)
    assert recipe.skips == (skip,)
    assert recipe.unskip(skip) == Recipe("vulkan")
    with pytest.raises(RecipeError, match=r"'op aten\.gelu' is not on the skip list, which holds op aten\.relu"):
        recipe.unskip(Skip(op="aten.gelu"))


def test_enabling_a_pattern_takes_it_off_the_skip_list():
    recipe = Recipe("vulkan").skip(Skip(pattern="conv_with_clamp")).disable("conv_with_clamp")
    assert recipe.enable("conv_with_clamp").skips == ()
    assert recipe.enable("conv_with_clamp").disabled == frozenset()


@pytest.mark.parametrize(
    ("glob", "path", "covered"),
    [
        ("decoder.*", "decoder.0", True),
        ("decoder.*", "decoder.0.conv", True),
        ("decoder.*", "decoder", False),
        ("decoder", "decoder.0.conv", True),
        ("decoder.*", "decoder2.0", False),
        ("decoder", "my.decoder", False),
        ("*.conv", "a.b.conv", True),
        ("", "decoder", False),
    ],
)
def test_module_globs(glob, path, covered):
    assert Skip(pattern="core_aten", module=glob).covers_module(path) is covered


# ---------------------------------------------------------------------- compile options
def test_compile_options_to_and_fro():
    options = {"skip_fusion_patterns": {"conv2d_with_epilogue"}}
    recipe = Recipe.from_compile_options(options)
    assert recipe == Recipe("vulkan").skip(Skip(pattern="conv2d_with_epilogue"))
    assert recipe.compile_options() == options
    assert Recipe("vulkan").compile_options() == {}
    assert Recipe("vulkan").disable("conv2d_with_epilogue").compile_options() == options


def test_a_bare_string_is_a_collection_of_characters():
    with pytest.raises(ValueError, match="skip_fusion_patterns is a collection of names: write") as raised:
        Recipe.from_compile_options({"skip_fusion_patterns": "conv2d_with_epilogue"})
    assert isinstance(raised.value, LowerscopeError)
    with pytest.raises(ValueError, match="collection of names"):
        skip_fusion_patterns(3)


def test_an_unknown_name_lists_the_known_ones_closest_first():
    with pytest.raises(ValueError, match="'conv2d_with_epilog'") as raised:
        skip_fusion_patterns(["conv2d_with_epilog"])
    message = str(raised.value)
    assert message.index("'conv2d_with_epilogue'") < message.index("'conv_with_clamp'")


def test_a_skipped_pattern_is_matched_and_not_applied():
    lowering = lower(small(), Recipe.from_compile_options({"skip_fusion_patterns": ["conv2d_with_epilogue"]}))
    (verdict,) = lowering.verdicts_of("conv2d_with_epilogue")
    assert (str(verdict.outcome), verdict.reason) == ("skipped", "skipped by pattern conv2d_with_epilogue")
    assert verdict.nodes == ("convolution", "relu")


# ---------------------------------------------------------------------- what is not there
@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe("vulcan"), "no target named 'vulcan': .*'vulkan'"),
        (Recipe("vulkan").disable("conv2d_epilogue"), "'conv2d_epilogue': .* 'conv2d_with_epilogue'"),
        (
            Recipe("qnn").enable("conv2d_with_epilogue"),
            r"no pattern of target qnn named 'conv2d_with_epilogue', which is one of vulkan and webgpu: session.insert",
        ),
        (Recipe("vulkan").skip(Skip(pattern="nothing")), "no pattern of target vulkan named 'nothing'"),
        (Recipe("vulkan").with_profile(max_texture=3), "no profile field of target vulkan named 'max_texture'"),
        (Recipe("vulkan").insert("nothing"), "no pattern named 'nothing'"),
        (Recipe("vulkan").insert("conv_with_clamp", before="nothing"), "no pattern in this target named 'nothing'"),
    ],
)
def test_unknown_names(recipe, message):
    with pytest.raises(UnknownNameError, match=message):
        lower(small(), recipe)


@pytest.mark.parametrize("value", [0, -4, "wide", True, 2.5])
def test_profile_values_are_checked(value):
    with pytest.raises(RecipeError, match="profile field 'max_texture_width' is"):
        lower(small(), Recipe("vulkan").with_profile(max_texture_width=value))


def test_what_the_runtime_lacks_cannot_be_enabled():
    with pytest.raises(RecipeError, match="cannot be enabled for webgpu: its runtime does not implement"):
        lower(small(), Recipe("webgpu").enable("conv2d_with_epilogue"))


# ---------------------------------------------------------------------- order
def names(target: str, recipe: Recipe | None = None) -> list[str]:
    return [p.name for p in pipeline(target, recipe.insertions if recipe else ())]


def test_a_pattern_is_inserted_before_after_or_at_the_end(defined):
    defined("mine")
    assert "mine" not in names("vulkan")
    order = names("vulkan", Recipe("vulkan").insert("mine", before="fold_constants"))
    assert order.index("mine") == order.index("fold_constants") - 1
    order = names("vulkan", Recipe("vulkan").insert("mine", after="core_aten"))
    assert order.index("mine") == order.index("core_aten") + 1
    assert names("vulkan", Recipe("vulkan").insert("mine"))[-1] == "mine"


def test_a_pattern_is_moved_and_only_the_last_word_counts(defined):
    defined("mine", "vulkan", after=["core_aten"])
    recipe = Recipe("vulkan").insert("mine", before="fold_constants").insert("mine", after="conv_with_clamp")
    assert names("vulkan", recipe)[-1] == "mine"
    assert len(recipe.insertions) == 1


def test_an_insertion_that_breaks_a_constraint_is_refused(defined):
    defined("mine", after=["fold_batch_norm"])
    with pytest.raises(RecipeError, match="'mine' cannot be put there: 'fold_batch_norm' must run before 'mine'"):
        pipeline("vulkan", Recipe("vulkan").insert("mine", before="core_aten").insertions)


def test_an_insertion_is_before_or_after_not_both():
    with pytest.raises(RecipeError, match="before or after a pattern, not both"):
        Recipe("vulkan").insert("conv_with_clamp", before="core_aten", after="core_aten")


def test_constraints_order_a_new_pattern(defined):
    defined("aaa", "vulkan", after=["conv_with_clamp"])
    assert names("vulkan")[-1] == "aaa"


def left_out(session: Session, name: str = "mine") -> str:
    """The note at a pattern that is off for its declaration, the rest of the target going on."""
    patterns = session.patterns()
    assert not patterns.enabled[name]
    assert patterns.applied["core_aten"] == 1
    assert patterns.enabled.drop(name).all()
    with pytest.raises(RecipeError) as raised:
        session.enable(name)
    for refused in (lambda: session.only(name), lambda: session.insert(name, after="core_aten")):
        with pytest.raises(RecipeError, match=re.escape(str(raised.value))):
            refused()
    assert patterns.note[name] == f"left out: {raised.value}"
    assert str(raised.value) in str(session.why_not(name, "relu"))
    return patterns.note[name]


def test_a_cycle_among_constraints_is_named_and_leaves_out_the_pattern_that_makes_it(defined):
    session = Session(small(), "vulkan")
    defined("mine", "vulkan", before=["core_aten"], after=["conv_with_clamp"])
    note = left_out(session)
    assert re.search(r"target vulkan cannot be put in order: .*'mine' before", note)
    assert "before 'mine'" in note
    assert "mine" not in Session(small(), "qnn").patterns().index


@pytest.mark.parametrize("where", ["after", "before"])
def test_a_constraint_that_names_no_pattern_is_said_at_the_pattern(defined, where):
    session = Session(small(), "vulkan")
    defined("mine", "vulkan", **{where: ["fold_batch_norms"]})
    assert re.search(
        rf"'mine' is to run {where} 'fold_batch_norms', but .*'fold_batch_norm'.*; define 'mine' again$",
        left_out(session),
    )
    assert "mine" not in Session(small(), "qnn").patterns().index
    defined("mine", "vulkan", after=["fold_batch_norm"])  # defined again, it is right
    assert session.patterns().enabled["mine"]


@pytest.mark.parametrize("where", [{}, {"off": ["xnnpak"]}])
def test_a_pattern_for_a_target_that_there_is_not_is_said_at_the_pattern_in_every_session(defined, where):
    sessions = [Session(small(), target) for target in ("vulkan", "qnn")]
    defined("mine", *(["vulkan"] if where else ["xnnpak"]), **where)
    for session in sessions:
        said = left_out(session)
        assert re.search(r"'mine' is for target 'xnnpak', but .* the closest being 'xnnpack'", said)
    defined("mine", "xnnpack")  # defined again, it is right
    assert "mine" in Session(small(), "xnnpack").patterns().index
    assert not any("mine" in session.patterns().index for session in sessions)


def test_a_pattern_may_come_before_its_target(defined, monkeypatch):
    monkeypatch.setattr("lowerscope.target.TARGETS", dict(TARGETS))
    session = Session(small(), "vulkan")
    defined("mine", "later")
    assert "add_target makes one known" in left_out(session)
    add_target(Target("later", "A backend of one's own."))
    assert "mine" not in session.patterns().index
    assert "mine" in names("later")


def test_the_scene_says_that_a_pattern_is_left_out(defined):
    defined("mine", "vulkan", after=["fold_batch_norms"])
    header = make_scene(lower(small(), "vulkan")).header
    row = next(r for r in header["patterns"] if r["name"] == "mine")
    assert row["locked"].startswith("pattern 'mine' is to run after 'fold_batch_norms'")
    assert row["summary"].startswith("left out")
    assert header["notice"].startswith(row["locked"])


def test_a_constraint_on_a_pattern_of_another_target_has_no_bearing(defined):
    defined("mine", "qnn", after=["conv_with_clamp"])
    assert "mine" in names("qnn")


def test_a_pattern_without_a_part_is_refused():
    with pytest.raises(RecipeError, match="pattern class Half has no 'anchors'"):

        @pattern("vulkan")
        class Half(Pattern):
            name, kind, conditions = "half", Kind.FUSION, (Condition("one", "one"),)

    assert "half" not in REGISTRY


def test_a_pattern_whose_nothing_to_fuse_names_no_condition_of_its_is_refused():
    with pytest.raises(RecipeError, match="of pattern 'astray' names 'two', which is none of its conditions"):

        @pattern("vulkan")
        class Astray(Pattern):
            name, kind, anchors, conditions = "astray", Kind.FUSION, (), (Condition("one", "one"),)
            nothing_to_fuse = ("one", "two")

    assert "astray" not in REGISTRY


def test_a_name_of_the_projects_own_cannot_be_taken():
    with pytest.raises(RecipeError, match="'core_aten' is one of lowerscope's own patterns"):

        @pattern("vulkan")
        class Taken(Pattern):
            name, kind, anchors, conditions = "core_aten", Kind.FUSION, (), ()

    with pytest.raises(RecipeError, match="disable it in a session"):
        REGISTRY.remove("core_aten")


def test_a_node_given_as_a_pattern_to_skip_is_told_so():
    session = Session(small(), "vulkan")
    with pytest.raises(RecipeError, match=r"'relu' is a node, not a pattern: say skip\(node='relu'\)"):
        session.skip("relu")
    assert session.recipe.skips == ()
