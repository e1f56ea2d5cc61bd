"""fold_dyt_alpha: a constant factor before a TABLE is folded into the table."""

from __future__ import annotations

from math import isclose, prod

import torch
from torch.fx import Node

from lowerscope.arguments import arguments, aten, dtype_of, shape_of
from lowerscope.check import Check, Condition
from lowerscope.editor import Editor
from lowerscope.ops import display_name, tosa
from lowerscope.pattern import Declined, Kind, Match, Pattern, pattern
from lowerscope.quantized import Quantization, is_quantize
from lowerscope.tosa.dyt_site import Operand, operand
from lowerscope.tosa.rescaling import AGREES, Rescaling
from lowerscope.tosa.sites import codes_int8


@pattern("ethos-u", after=["lower_to_tosa"], off=["ethos-u"], source="pytorch/executorch#21953")
class FoldDytAlpha(Pattern):
    """TABLE(RESCALE(RESCALE(x) * RESCALE(alpha))) = TABLE'(x), TABLE'[c + 128] = TABLE[RESCALE((c - zp) * alpha) + 128] for
    every int8 code c: x int8 of any shape with one scale and zero point, alpha a constant of one element.

    DyT's tanh(alpha x). The replay runs the RESCALEs and the MUL themselves, wrap-around included, so that all 256 codes
    give the same byte. A TABLE costs nothing on the device, a MUL is a real cost for each element.
    """

    name, kind, anchors = "fold_dyt_alpha", Kind.FOLD, (tosa.table,)
    note = (
        "An input of the program and the RESCALE after an ADD carry no quantization parameters; the replay needs none, and "
        "matches there too. What the table holds is not looked at: any elementwise function folds as tanh does."
    )
    conditions = (
        Condition("constant_table", "the table is a constant"),
        Condition("rescale_before", "the table reads a RESCALE, after at most one clamp"),
        Condition("mul_before", "that RESCALE reads a MUL"),
        Condition("rescale_one_user", "the table is the only reader of the RESCALE"),
        Condition("mul_one_user", "the RESCALE is the only reader of the MUL"),
        Condition("tanh_per_tensor", "the table's input is int8 with one scale for all of it"),
        Condition("narrowed_range", "if the range is narrowed, by a clamp, then to numbers"),
        Condition("rescaled_factors", "both factors are RESCALEs to int32"),
        Condition("one_scalar_constant", "exactly one factor is a constant, of one element"),
        Condition("view_on_alpha_only", "only the constant's side holds a view"),
        Condition("same_shape", "the product has the shape of the other factor: the constant adds no axis to it"),
        Condition("source_int8", "the other factor is int8 with one scale for all of it"),
        Condition("source_zero_point", "the RESCALE has the zero point of its source, where the source tells it"),
        Condition("source_scale", "the RESCALE keeps the scale of its source, where the source tells it"),
    )
    nothing_to_fuse = ("rescale_before", "mul_before")

    def match(self, anchor: Node, check: Check) -> Match | None:
        given = arguments(anchor)
        check.constant("constant_table", given["table"])
        clamp: Node | None = given["input"] if given["input"].target is aten.clamp.default else None
        rescale: Node = given["input"] if clamp is None else arguments(clamp)["self"]
        is_rescale = rescale.target is tosa.rescale
        check.that("rescale_before", is_rescale, at=rescale, expected="tosa.RESCALE", actual=_called(rescale))
        mul: Node = arguments(rescale)["input"]
        check.that("mul_before", mul.target is tosa.mul, at=mul, expected="tosa.MUL", actual=_called(mul))
        check.touch(mul, rescale)
        if clamp is not None:
            check.touch(clamp)
            if len(clamp.users) != 1:
                check.one_user("rescale_one_user", clamp, wanted=anchor)
        check.one_user("rescale_one_user", rescale)
        check.one_user("mul_one_user", mul)
        out = Rescaling.of(rescale)
        one = out.per_tensor and out.dtype == torch.int8
        check.that(
            "tanh_per_tensor",
            one,
            at=rescale,
            expected="int8, 1 scale",
            actual=f"{out.dtype}, {len(out.multiplier)} scales",
        )
        bounds = [] if clamp is None else [arguments(clamp)["min"], arguments(clamp)["max"]]
        literal = not any(isinstance(b, Node) for b in bounds)
        shown = "not narrowed" if clamp is None else tuple(bounds)
        check.that("narrowed_range", literal, at=clamp or rescale, expected="numbers", actual=shown)
        sides = [operand(arguments(mul)[k]) for k in ("input", "other")]
        missing = next((arguments(mul)[k] for k, f in zip(("input", "other"), sides, strict=True) if f is None), None)
        check.that(
            "rescaled_factors", missing is None, at=missing or mul, expected="RESCALE to int32",
            actual=_called(missing) if missing is not None else "RESCALE to int32",
        )  # fmt: skip
        factors = [f for f in sides if f is not None]
        alpha, source = self._told_apart(factors, mul, check)
        views = source.views
        check.that(
            "view_on_alpha_only", not views, at=views[0] if views else mul, expected="no view", actual=_called(views[0] if views else mul),
            because="the table reads the source itself",
        )  # fmt: skip
        check.eq("same_shape", shape_of(mul), shape_of(source.source), at=mul)
        self._source(source, check)
        nodes = (source.rescale, alpha.rescale, *alpha.views, mul, rescale, *([clamp] if clamp else []), anchor)
        taken = [n for n in nodes if n is not source.rescale or len(n.users) == 1]
        return Match(
            anchor, tuple(dict.fromkeys(taken)), anchor,
            {"source": source, "alpha": alpha, "mul": mul, "out": out, "bounds": bounds, "table": given["table"]},
        )  # fmt: skip

    def _told_apart(self, factors: list[Operand], mul: Node, check: Check) -> tuple[Operand, Operand]:
        constants = [f for f in factors if check.is_constant(f.source)]
        scalar = len(constants) == 1 and prod(shape_of(constants[0].source) or ()) == 1
        shown = ", ".join(f"{tuple(shape_of(f.source) or ())}" for f in constants) or "no constant"
        check.that(
            "one_scalar_constant", scalar, at=constants[0].source if constants else mul,
            expected="one constant of one element", actual=f"constants of shape {shown}" if constants else shown,
        )  # fmt: skip
        alpha = constants[0]
        return alpha, next(f for f in factors if f is not alpha)

    def _source(self, source: Operand, check: Check) -> None:
        rescale = Rescaling.of(source.rescale)
        one = dtype_of(source.source) == torch.int8 and rescale.per_tensor
        check.that(
            "source_int8", one, at=source.source, expected="int8, 1 scale",
            actual=f"{dtype_of(source.source)}, {len(rescale.multiplier)} scales",
        )  # fmt: skip
        told = Quantization.of(source.source) if is_quantize(source.source) else None
        unknown = "the source does not tell, and the replay does not need it"
        zero_point = None if told is None else told.zero_point
        check.that(
            "source_zero_point", told is None or zero_point == rescale.input_zp, at=source.rescale, expected=zero_point,
            actual=unknown if told is None else rescale.input_zp,
        )  # fmt: skip
        keeps = isclose(rescale.scales[0], 1.0, rel_tol=AGREES)
        check.that(
            "source_scale", told is None or keeps, at=source.rescale, expected="× 1",
            actual=unknown if told is None else f"× {rescale.scales[0]:g}",
            because="a MUL multiplies centred codes; another factor says that scale and RESCALE belong to different values",
        )  # fmt: skip

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        held = match["table"]
        values = replay(match, edit)
        made = edit.constant(values, held, "alpha", key=(self.name, values.numpy().tobytes()))
        return edit.call(tosa.table, match["source"].source, made, like=match.anchor)

    def sentence(self, match: Match) -> str:
        return "The factor before the TABLE is replayed over all 256 codes into one new TABLE; the MUL and its RESCALEs go."


def replay(match: Match, edit: Editor) -> torch.Tensor:
    """The int8 table [256] that a match's RESCALEs, MUL and TABLE compute, run by the operators themselves."""
    alpha: Operand = match["alpha"]
    source: Operand = match["source"]
    scalar = Rescaling.of(alpha.rescale).run(edit.constant_value(alpha.source)).reshape(1)
    product = tosa.mul(Rescaling.of(source.rescale).run(codes_int8()), scalar, arguments(match["mul"])["shift"])
    codes = match["out"].run(product)
    if match["bounds"]:
        codes = torch.clamp(codes, *match["bounds"])
    return tosa.table(codes, edit.constant_value(match["table"]))


def _called(node: Node) -> str:
    return display_name(node.target) if node.op == "call_function" else f"{node.name}, an input or a constant"
