"""lower_to_tosa: a quantized operator between dequantize and quantize nodes becomes TOSA's integer operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import ConvSpec, arguments, aten, dtype_name
from lowerscope.check import Check, Condition, Either
from lowerscope.editor import Editor
from lowerscope.ops import display_name, is_own, tosa
from lowerscope.ops.registry import OperatorError
from lowerscope.pattern import ANY, Declined, Kind, Match, Pattern, pattern
from lowerscope.quantized import LinearSpec, Quantization, is_dequantize, is_quantize, op_name
from lowerscope.tosa import weighted
from lowerscope.tosa.elementwise import MOVES, TABLES, between_codes, build_binary, product, summation, table
from lowerscope.tosa.rescaling import Rescaling
from lowerscope.tosa.sites import Activation, Tail, finish, is_head, is_tail

_WEIGHTED = (aten.convolution.default, *LinearSpec.ANCHORS)
_BINARY: dict[Any, Any] = {aten.mul.Tensor: tosa.mul, aten.add.Tensor: tosa.add}
_FORMS = (*_WEIGHTED, *_BINARY, *TABLES, *MOVES)
_FORMS_IN_WORDS = (
    "a convolution, a linear, mul, add, an elementwise operator of one operand, or an operator that moves values"
)


@dataclass(frozen=True, slots=True)
class _Rescales:
    """The RESCALEs of an operator: of its operands, and of its result (None: the codes stay), with what reaches that one."""

    operands: list[Rescaling]
    result: Rescaling | None
    ranges: list[tuple[int, int]]


@pattern("ethos-u", after=["core_aten", "fold_constants", "fold_batch_norm"], source="pytorch/executorch#21953")
class LowerToTosa(Pattern):
    """q(f(dq(x), ...)) = RESCALE(F(RESCALE(x), ...)), F in integers: int8 codes x of any shape with one scale and zero point,
    int8 weights with one scale for each output channel, int32 between. conv and linear become CONV2D, mul MUL, add ADD; what
    has one operand becomes a TABLE of 256 codes; what only moves values stays, on codes.

    A TABLE gives exactly the codes of the float graph; a RESCALE rounds halves up where quantize rounds them to even, and so
    may give a neighbouring code. Overflow, and parameters for which TOSA leaves the result open, are refused. The quantize
    nodes of the inputs and the dequantize nodes of the outputs stay at the border.
    """

    name, kind, anchors = "lower_to_tosa", Kind.LOWERING, ANY
    conditions = (
        Condition("quantized_around", "an operand is dequantized, or the result quantized"),
        Condition("integer_form", "the operator has an integer form"),
        Condition("operands_quantized", "every operand is a dequantized value"),
        Condition("operands_per_tensor", "its operands are int8 with one scale and zero point, numbers in the graph"),
        Condition("result_quantized", "its result, after at most a relu, is read by a quantize node alone"),
        Condition("result_per_tensor", "its result is quantized to int8 with one scale and zero point"),
        Either(
            "weighted",
            Condition("two_dimensional", "the convolution is 2-D, or the linear is x · w^T + b"),
            Condition("transposed_plain", "if the convolution is transposed, it has no dilation and no groups"),
            Condition("quantized_weight", "its weight is a dequantized int8 constant"),
            Condition("weight_per_channel", "its weight has one scale for each output channel, or one for all"),
            Condition("weight_symmetric", "the weight's zero points are 0"),
            Condition("constant_bias", "its bias is a constant, one value for each output, or there is none"),
            Condition("accumulator_fits", "no input can take the int32 accumulator out of range"),
        ),
        Either("addition", Condition("alpha_1", "the sum is plain: alpha is 1")),
        Either("table", Condition("table_numbers", "the operator gives a number at each of the 256 codes")),
        Condition("scales_in_range", "every ratio of scales can be a RESCALE"),
        Condition("rescale_defined", "TOSA defines the result of every RESCALE for all inputs"),
    )

    nothing_to_fuse = ("quantized_around",)

    def is_anchor(self, node: Node) -> bool:
        if is_quantize(node) or is_dequantize(node) or is_own(node.target) or not op_name(node):
            return False
        return isinstance(node.meta.get("val"), torch.Tensor) and not is_tail(node) and not is_head(node)

    def match(self, anchor: Node, check: Check) -> Match | None:
        spec: Any = None
        if anchor.target in _WEIGHTED:
            spec = ConvSpec.of(anchor) if anchor.target is aten.convolution.default else LinearSpec.of(anchor)
        before = [*anchor.all_input_nodes, *(() if spec is None else (spec.input, spec.weight))]
        around = any(map(is_dequantize, before)) or any(map(is_quantize, anchor.users))
        check.that(
            "quantized_around", around, at=anchor, expected="a quantized program", actual="real numbers" if not around else "codes",
            because="integers take the place of operators between dequantize and quantize nodes: quantize the model first",
        )  # fmt: skip
        check.that(
            "integer_form", anchor.target in _FORMS, at=anchor, expected=_FORMS_IN_WORDS,
            actual=display_name(anchor.target),
        )  # fmt: skip
        operands = self._operands(anchor, spec, check)
        tail = Tail.of(anchor)
        check.that(
            "result_quantized", tail.quantize is not None, at=tail.reader, expected="a quantize node",
            actual=_called(tail.reader), because="the result is needed as a real number",
        )  # fmt: skip
        result = tail.quantize
        assert result is not None
        check.touch(*tail.nodes, result.node)
        self._int8("result_per_tensor", result, check)
        sources = [Activation.of(q) for q in operands]
        data: dict[str, Any] = {"sources": sources, "tail": tail, "result": result}
        if spec is not None:
            check.way("weighted")
            data["weighted"] = weighted.match(check, anchor, spec, sources[0])
        elif anchor.target is aten.add.Tensor:
            check.way("addition")
            check.eq("alpha_1", arguments(anchor)["alpha"], 1, at=anchor)
        elif anchor.target in TABLES:
            check.way("table")
            data["table"] = self._table(anchor, operands[0], tail, check)
        data["rescales"] = self._rescales(anchor, data, check)
        own = spec.nodes if isinstance(spec, LinearSpec) else (anchor,)
        parameters = [q.node for q in operands] + ([data["weighted"].weight.node] if spec is not None else [])
        # a dequantize node that others read too stays for them, and feeds nothing here
        taken = [n for n in dict.fromkeys(parameters) if set(n.users) <= {*own, anchor}]
        return Match(anchor, (*taken, *own, *tail.nodes, result.node), result.node, data)

    def _operands(self, anchor: Node, spec: Any, check: Check) -> list[Quantization]:
        given = arguments(anchor)
        values = [spec.input] if spec is not None else [given[k] for k in ("self", "other") if k in given]
        real = next((v for v in values if not is_dequantize(v)), None)
        shown = _called(real) if isinstance(real, Node) else f"the number {real}"
        check.that(
            "operands_quantized", not any(not is_dequantize(v) for v in values),
            at=real if isinstance(real, Node) else anchor, expected="a dequantized value", actual=shown,
            because="integers stand for real values only where a scale says which",
        )  # fmt: skip
        operands = [q for v in values if (q := Quantization.of(v)) is not None]
        for quantization in operands:
            self._int8("operands_per_tensor", quantization, check)
        return operands

    def _int8(self, name: str, quantization: Quantization, check: Check) -> None:
        fits = quantization.per_tensor and quantization.literal and quantization.dtype == torch.int8
        form = quantization.grain if quantization.literal else "with parameters computed in the graph"
        if not fits or not any(e.name == name for e in check.record.entries):
            check.that(
                name,
                fits,
                at=quantization.node,
                expected="int8 per tensor",
                actual=f"{dtype_name(quantization.dtype)} {form}",
            )

    def _table(self, anchor: Node, source: Quantization, tail: Tail, check: Check) -> torch.Tensor | None:
        literal = not any(isinstance(v, Node) for k, v in arguments(anchor).items() if k != "self")
        computed = table(anchor, source, tail) if literal else None
        bad = isinstance(computed, int)
        check.that(
            "table_numbers", literal and not bad, at=anchor, expected="256 numbers",
            actual=f"no number at code {computed}" if bad else ("256 numbers" if literal else "a parameter is computed"),
        )  # fmt: skip
        return None if isinstance(computed, int) else computed

    def _rescales(self, anchor: Node, data: dict[str, Any], check: Check) -> _Rescales:
        sources, result = data["sources"], data["result"]
        try:
            found = _rescales_of(anchor, data, check)
        except OperatorError as error:
            check.fail("scales_in_range", at=result.node, expected="a scale that RESCALE can hold", actual=str(error))
            raise AssertionError from error
        check.that("scales_in_range", True, at=result.node, actual="in range")
        centred = [(-128, 127)] * len(sources)
        open_ = next((r for o, c in zip(found.operands, centred, strict=False) if (r := o.undefined([c]))), None)
        if open_ is None and found.result is not None:
            open_ = found.result.undefined(found.ranges)
        check.that("rescale_defined", open_ is None, at=result.node, expected="defined", actual=open_ or "defined")
        return found

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        anchor = match.anchor
        sources: list[Activation] = match["sources"]
        rescales: _Rescales = match["rescales"]
        tail, result = match["tail"], match["result"]
        if anchor.target in _WEIGHTED:
            sums = weighted.build(edit, anchor, match["weighted"])
        elif anchor.target in _BINARY:
            operands = [(s.codes, r) for s, r in zip(sources, rescales.operands, strict=True)]
            sums = build_binary(edit, _BINARY[anchor.target], operands, anchor)
        elif anchor.target in TABLES:
            held = edit.constant(match["table"], None, f"{_stem(anchor)}_table", key=match["table"].numpy().tobytes())
            return edit.call(tosa.table, sources[0].codes, held, like=anchor)
        else:
            args = [sources[0].codes if a is anchor.args[0] else a for a in anchor.args]
            sums = edit.insert_call(anchor.target, args, anchor.kwargs, like=anchor)
        return finish(edit, sums, rescales.result, tail, result, anchor)

    def sentence(self, match: Match) -> str:
        name = display_name(match.anchor.target)
        if match.anchor.target in TABLES:
            return f"{name} becomes a TABLE of the 256 int8 codes, which gives exactly what the float graph gave."
        if match.anchor.target in MOVES:
            return f"{name} moves int8 codes instead of real values."
        return f"{name} becomes integer arithmetic between RESCALEs."


def _rescales_of(anchor: Node, data: dict[str, Any], check: Check) -> _Rescales:
    sources, result, target = data["sources"], data["result"], anchor.target
    if target in _WEIGHTED:
        found: weighted.Weighted = data["weighted"]
        bias = None if found.bias is None else check.value(found.bias)
        ranges = found.ranges(check.value(found.weight.operand), bias)
        return _Rescales([], weighted.rescaling(found, result), ranges)
    if target in _BINARY:
        form = product if target is aten.mul.Tensor else summation
        operands, out, reach = form(sources[0], sources[-1], result)
        return _Rescales(operands, out, [reach])
    if target in MOVES:
        return _Rescales([], between_codes(sources[0], result), [(-128, 127)])
    return _Rescales([], None, [])


def _called(node: Node) -> str:
    if node.op == "call_function":
        return f"{node.name}, {display_name(node.target)}"
    return "the program's output" if node.op == "output" else f"{node.name}, an input"


def _stem(node: Node) -> str:
    return op_name(node).rpartition("::")[2]
