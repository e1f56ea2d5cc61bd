"""quantized_linear: a linear whose weight is a dequantized constant, where the backend has a kernel for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import Node

from lowerscope.arguments import aten, dtype_of, shape_of
from lowerscope.check import Check, Condition, Either
from lowerscope.editor import Editor
from lowerscope.ops import vulkan_linear
from lowerscope.ops.vulkan_linear import OUTPUT_ALIGNMENT, pack_int4, pad_outputs
from lowerscope.pattern import Declined, Kind, Match, Pattern, pattern
from lowerscope.quantized import LinearSpec, Quantization, is_dequantize, is_quantize, op_name

_STATIC = "8-bit weights per output channel, statically quantized 8-bit activations"
_DYNAMIC = "4-bit weights in groups, dynamically quantized 8-bit activations"
_WEIGHT_ONLY = "4-bit weights in groups, floating activations"
KERNELS = {_STATIC: "static", _DYNAMIC: "dynamic", _WEIGHT_ONLY: "weight_only"}
"""What there is a kernel for, in words -> the way of the pattern that matches it."""

_INT8 = (-128, 127)
_LEFT_OUT = (
    "so the linear stays outside the delegate with the dequantize that feeds it, which the backend does not take either: "
    "an export then fails with 'Missing out variants: {op}' unless that operator has one"
)


@dataclass(frozen=True, slots=True)
class _Activation:
    """How the linear's input is quantized: in words, and the quantize and dequantize nodes, where there are any."""

    form: str
    source: Node
    quantize: Quantization | None = None
    dequantize: Quantization | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(q.node for q in (self.quantize, self.dequantize) if q is not None)


@pattern(
    "vulkan",
    "webgpu",
    after=["core_aten", "fold_constants", "fold_batch_norm"],
    before=["conv2d_with_epilogue"],
    source="pytorch/executorch#24930",
)
class QuantizedLinear(Pattern):
    """y = dq(q(x)) · (s_w · w)^T + b in one operator, for codes w [N, K] with scales s_w, x [..., K], b [N], y [..., N]; x, b,
    y float16 or float32. Three kernels: w 8-bit with s_w [N] and x quantized with fixed parameters; w 4-bit with s_w
    [N, K / group] and x quantized row by row as it comes, at any N; the same w and x as it is, where N is a multiple of 4.

    The activation's quantize and dequantize nodes are taken in; whatever chooses their parameters feeds the match. Every
    other combination is left alone: matched, it would make a program that fails on the device.
    """

    name, kind, anchors = "quantized_linear", Kind.FUSION, LinearSpec.ANCHORS
    note = "The kernels: " + "; ".join(KERNELS) + "."
    conditions = (
        Condition("dequantized_weight", "the weight is dequantized in the graph"),
        Condition(
            "constant_weight", "the weight's codes, scales and zero points are constants, which can be prepacked"
        ),
        Condition("weight_symmetric", "the weight's zero points are 0"),
        Condition("weight_rows", "the weight is [N, K], a row an output"),
        Condition("plain_sum", "neither the product nor the bias is scaled (alpha and beta are 1)"),
        Condition("constant_bias", "its bias is a constant [N], or there is none"),
        Condition("dtype", "it computes in float16 or float32"),
        Condition("kernel", "there is a kernel for these weights with these activations"),
        Either(
            "static",
            Condition("activation_range", "the activation's codes are -128..127, per tensor"),
            Condition("static_same_parameters", "quantize and dequantize have the same scale and zero point"),
        ),
        Either(
            "four_bit",
            Condition("inputs_even", "the number of inputs is even: two codes are packed into a byte"),
        ),
        Either(
            "dynamic",
            Condition("activation_per_row", "the activation is quantized to -128..127 row by row"),
            Condition("same_parameters", "quantize and dequantize read the same scales and zero points"),
        ),
        Either(
            "weight_only",
            Condition("outputs_multiple_of_4", "the number of outputs N is a multiple of 4"),
        ),
    )
    nothing_to_fuse = ("dequantized_weight",)

    def match(self, anchor: Node, check: Check) -> Match | None:
        spec = LinearSpec.of(anchor)
        weight = Quantization.of(spec.weight) if is_dequantize(spec.weight) else None
        at = spec.weight if isinstance(spec.weight, Node) else anchor
        check.that(
            "dequantized_weight", weight is not None, at=at, expected="a dequantized weight", actual="a floating weight"
        )
        assert weight is not None
        check.touch(weight.node)
        for part in (weight.operand, weight.scale, weight.zero_point):
            if isinstance(part, Node) and not check.is_constant(part):
                check.constant("constant_weight", part, because="weights are packed before the program runs")
        check.that("constant_weight", True, at=weight.operand, expected="constants", actual="constants")
        offset = _offset(weight, check)
        check.eq("weight_symmetric", offset, 0, at=weight.node, because="the kernels take no zero point of a weight")
        check.that(
            "weight_rows", spec.rows_are_outputs, at=anchor, expected="[N, K]", actual="[K, N]",
            because="scales belong to outputs, which the kernels keep in rows",
        )  # fmt: skip
        check.that("plain_sum", spec.plain, at=anchor, expected="alpha = beta = 1", actual=dict(anchor.kwargs) or "1")
        if spec.bias is None:
            check.that("constant_bias", True, at=anchor, actual="no bias")
        else:
            held = check.is_constant(spec.bias) and shape_of(spec.bias) == (spec.outputs,)
            actual = shape_of(spec.bias) if check.is_constant(spec.bias) else "computed"
            check.that("constant_bias", held, at=spec.bias, expected=f"a constant ({spec.outputs},)", actual=actual)
        check.one_of("dtype", dtype_of(anchor), (torch.float16, torch.float32), at=anchor)
        activation = _activation_of(spec)
        form = f"{weight.bits}-bit weights {_grain(weight)}, {activation.form}"
        check.one_of("kernel", form, KERNELS, at=anchor, because=_missing(weight, activation))
        way = KERNELS[form]
        if way == "static":
            check.way("static")
            self._static(check, activation)
        else:
            check.way("four_bit")
            check.that("inputs_even", spec.inputs % 2 == 0, at=anchor, expected="an even number", actual=spec.inputs)
            check.way(way)
            if way == "dynamic":
                self._dynamic(check, activation)
            else:
                rest = spec.outputs % OUTPUT_ALIGNMENT
                check.that(
                    "outputs_multiple_of_4", rest == 0, at=anchor, expected="a multiple of 4", actual=spec.outputs,
                    because=f"the kernel packs blocks of {OUTPUT_ALIGNMENT} outputs, {_LEFT_OUT.format(op=op_name(weight.node))}",
                )  # fmt: skip
        nodes = (*activation.nodes, weight.node, *spec.nodes)
        data = {"spec": spec, "weight": weight, "activation": activation, "way": way}
        return Match(anchor, nodes, anchor, data)

    def _static(self, check: Check, activation: _Activation) -> None:
        quantize, dequantize = activation.quantize, activation.dequantize
        assert quantize is not None
        assert dequantize is not None
        ranges = (quantize.qmin, quantize.qmax)
        check.eq("activation_range", ranges, _INT8, at=quantize.node, because="the kernel clamps to the whole of int8")
        check.eq(
            "static_same_parameters", _parameters(dequantize), _parameters(quantize), at=dequantize.node,
            because="the kernel has one scale and one zero point",
        )  # fmt: skip

    def _dynamic(self, check: Check, activation: _Activation) -> None:
        quantize, dequantize = activation.quantize, activation.dequantize
        assert quantize is not None
        assert dequantize is not None
        fits = quantize.per_row and dequantize.per_row and (quantize.qmin, quantize.qmax) == _INT8
        actual = f"blocks of {quantize.block}, {quantize.qmin}..{quantize.qmax}"
        check.that("activation_per_row", fits, at=quantize.node, expected="one scale a row, -128..127", actual=actual)
        check.eq("same_parameters", _parameters(dequantize), _parameters(quantize), at=dequantize.node)

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        spec: LinearSpec = match["spec"]
        weight: Quantization = match["weight"]
        activation: _Activation = match["activation"]
        source = activation.source
        flat = shape_of(spec.node)
        if flat is not None and len(flat) != len(shape_of(source) or ()):
            source = edit.call(aten.view.default, source, [flat[0], spec.inputs])
        if match["way"] == "static":
            assert activation.quantize is not None
            scales = _vector(weight.scale, spec.outputs, edit)
            zero_point = int(activation.quantize.zero_point or 0)
            return edit.call(
                vulkan_linear.linear_q8ta_q8csw, source, float(activation.quantize.scale), zero_point, weight.operand,
                scales, spec.bias,
            )  # fmt: skip
        codes, scales, bias = _four_bit(spec, weight, edit)
        group = weight.group_size
        if match["way"] == "weight_only":
            return edit.call(vulkan_linear.linear_q4gsw, source, codes, scales, group, bias)
        dynamic = activation.quantize
        assert dynamic is not None
        return edit.call(
            vulkan_linear.linear_dq8ca_q4gsw, source, dynamic.scale, dynamic.zero_point, codes, scales, group, bias
        )

    def sentence(self, match: Match) -> str:
        kernels = {way: words for words, way in KERNELS.items()}
        return f"The linear takes its quantization in: {kernels[match['way']]}, in one kernel."


def _grain(weight: Quantization) -> str:
    """In the words of `KERNELS`: a 4-bit row that shares one scale is a single group."""
    if weight.bits == 4 and weight.group_size is not None:
        return "in groups"
    return weight.grain


def _activation_of(spec: LinearSpec) -> _Activation:
    dequantize = Quantization.of(spec.input) if is_dequantize(spec.input) else None
    if dequantize is None:
        return _Activation("floating activations", spec.input)
    quantize = Quantization.of(dequantize.operand) if is_quantize(dequantize.operand) else None
    if quantize is None:
        return _Activation("activations quantized outside the graph", spec.input, None, dequantize)
    if quantize.literal and quantize.per_tensor:
        kind = "statically"
    elif isinstance(quantize.scale, Node) and quantize.scale.op == "call_function":
        kind = "dynamically"
    else:
        kind = quantize.grain
    return _Activation(f"{kind} quantized {quantize.bits}-bit activations", quantize.operand, quantize, dequantize)


def _parameters(quantization: Quantization) -> tuple[object, object]:
    return quantization.scale, quantization.zero_point


def _offset(weight: Quantization, check: Check) -> object:
    """0 where the weight is symmetric, else its largest zero point."""
    zero_point = weight.zero_point
    if not isinstance(zero_point, Node):
        return zero_point or 0
    return int(check.value(zero_point).abs().max())


def _missing(weight: Quantization, activation: _Activation) -> str:
    """What the nearest kernels ask for beside what is here, and what follows from there being none."""
    if weight.bits == 8 and activation.form == "floating activations":
        lack = "8-bit weights have a kernel only where the activation is quantized too, with fixed parameters"
    elif weight.bits == 8:
        lack = "8-bit weights have a kernel only per output channel, with fixed parameters of the activation"
    elif weight.bits == 4:
        lack = "4-bit weights have a kernel only in groups, with floating or dynamically quantized 8-bit activations"
    else:
        lack = f"there is no kernel for {weight.bits}-bit weights"
    return f"{lack}, {_LEFT_OUT.format(op=op_name(weight.node))}"


def _vector(scale: Node, outputs: int, edit: Editor) -> Node:
    """The scales as [N]."""
    if shape_of(scale) == (outputs,):
        return scale
    return edit.constant(lambda: edit.constant_value(scale).reshape(outputs), scale, "flat", key="quantized_linear")


def _four_bit(spec: LinearSpec, weight: Quantization, edit: Editor) -> tuple[Node, Node, Node | None]:
    """Packed codes [N, K / 2], scales [K / group, N4] and bias [N4], as the 4-bit kernels want them."""
    codes, scale, bias = weight.operand, weight.scale, spec.bias
    groups = spec.inputs // (weight.group_size or spec.inputs)
    packed = edit.constant(lambda: pack_int4(edit.constant_value(codes)), codes, "packed", key="quantized_linear")

    def by_group() -> torch.Tensor:
        return pad_outputs(edit.constant_value(scale).reshape(spec.outputs, groups).t().contiguous())

    scales = edit.constant(by_group, scale, "by_group", key="quantized_linear")
    if bias is None or spec.outputs % OUTPUT_ALIGNMENT == 0:
        return packed, scales, bias
    held: Node = bias
    padded = edit.constant(lambda: pad_outputs(edit.constant_value(held)), held, "padded", key="quantized_linear")
    return packed, scales, padded
