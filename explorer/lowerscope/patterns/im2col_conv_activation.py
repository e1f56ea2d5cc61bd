"""im2col_conv_activation: a convolution runs as im2col and a matrix product, with the activation as its epilogue."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from lowerscope.arguments import ConvSpec, arguments, aten, in_order, value_of
from lowerscope.check import Check, Condition, Optional
from lowerscope.editor import Editor
from lowerscope.ops import category, display_name, ort_webgpu
from lowerscope.ort_kernels import im2col_gates, kernel_for, ohwi, uses_im2col
from lowerscope.pattern import Declined, Kind, Match, Part, Pattern, pattern
from lowerscope.patterns._activations import CLAMPING, Bounds

_KINDS: dict[Any, str] = {
    aten.relu.default: "Relu",
    aten.sigmoid.default: "Sigmoid",
    aten.tanh.default: "Tanh",
    aten.leaky_relu.default: "LeakyRelu",
    aten.hardsigmoid.default: "HardSigmoid",
    **{op: "Clip" for op in CLAMPING if op is not aten.relu.default},
}
_EPILOGUES = tuple(name for name in ort_webgpu.PARAMETER_SLOTS if name != "none")


@pattern("ort-webgpu", after=["fold_batch_norm"], source="microsoft/onnxruntime#32185")
class Im2colConvActivation(Pattern):
    """y = activation(conv(x, w) + b), computed as activation(W · im2col(x) + b) in one kernel

    im2col(x) has a column of C_in · K_h · K_w values for each output position, W is w as [C_out, K_h · K_w · C_in]. x is
    [N, C_in, H, W] (or [N, C_in, L]), all float16. The activation is Relu, Sigmoid, Clip, HardSigmoid, LeakyRelu, Tanh or
    nothing; any other stays an operator of its own.
    """

    name, kind, anchors = "im2col_conv_activation", Kind.FUSION, (aten.convolution.default,)
    note = "Not a gain everywhere: forced on an adapter that does not qualify, ResNet-50 in float16 took 7.75 ms, not 5.52."
    conditions = (
        Condition("direct", "the convolution is not transposed"),
        Condition("one_or_two_dimensional", "it is 1-D or 2-D"),
        Condition("adapter", "the adapter is one that gains by im2col"),
        Condition("float16", "it computes in float16"),
        Condition("channels_last", "the target was given the channels-last layout"),
        Condition("groups_1", "it has one group"),
        Condition("larger_than_1x1", "its kernel is larger than 1x1"),
        Optional(
            "activation",
            Condition("activation_kind", f"the activation is one of {', '.join(_EPILOGUES)}"),
            Condition("activation_one_user", "the activation is the convolution's only reader"),
            Condition("activation_literal", "the activation's parameters are numbers, not computed in the graph"),
        ),
    )
    nothing_to_fuse = ("direct", "one_or_two_dimensional")

    def match(self, anchor: Node, check: Check) -> Match | None:
        spec = ConvSpec.of(anchor)
        check.eq("direct", spec.transposed, False, at=anchor)
        check.one_of("one_or_two_dimensional", spec.dims, (1, 2), at=anchor)
        instead = kernel_for(spec, check.profile)
        for gate in im2col_gates(spec, check.profile):
            check.that(
                gate.name, gate.holds, at=anchor, expected=gate.expected, actual=gate.actual,
                because=None if gate.holds else f"{instead} takes over",
            )  # fmt: skip
        activation = check.optional("activation", self._activation, check, anchor)
        nodes = (anchor, *activation.nodes) if activation else (anchor,)
        return Match(anchor, nodes, nodes[-1], {"spec": spec, "activation": activation})

    def _activation(self, check: Check, conv: Node) -> Part | None:
        found = next((u for u in in_order(conv.users) if _is_activation(u)), None)
        if found is None:
            return None
        kind = _KINDS.get(found.target)
        check.that(
            "activation_kind", kind is not None, at=found, expected=_EPILOGUES, actual=display_name(found.target),
            because="the kernel has no epilogue for it, so it stays an operator of its own",
        )  # fmt: skip
        assert kind is not None
        check.one_user("activation_one_user", conv, wanted=found)
        params = _parameters(kind, found)
        computed = next((p for p in params if isinstance(p, Node)), None)
        check.that("activation_literal", computed is None, at=computed or found, expected="numbers", actual=computed)
        return Part((found,), {"kind": kind, "params": [float(p) for p in params]})

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        spec: ConvSpec = match["spec"]
        activation: Part | None = match["activation"]
        return edit.call(
            ort_webgpu.im2col_conv_activation,
            spec.input,
            _packed(spec, edit),
            spec.bias,
            list(spec.stride),
            list(spec.padding),
            list(spec.dilation),
            spec.groups,
            activation["kind"] if activation else "none",
            activation["params"] if activation else [],
            _in_nhwc(match.anchor),
        )

    def sentence(self, match: Match) -> str:
        activation: Part | None = match["activation"]
        epilogue = f", with {activation['kind']} as its epilogue" if activation else ""
        return f"The convolution runs as im2col and a matrix product{epilogue}."


def _packed(spec: ConvSpec, edit: Editor) -> Node:
    """The weight as the kernel that the device will choose reads it; one that the program computes is packed as it runs."""
    weight = spec.weight
    if not edit.is_constant(weight) or not uses_im2col(spec, edit.profile):
        return weight
    return edit.constant(lambda: ohwi(edit.constant_value(weight).detach()), weight, "ohwi", "ohwi")


def _in_nhwc(conv: Node) -> bool:
    """Whether a convolution's result lies in memory as NHWC; its batch and its image may be of unknown size."""
    strides = value_of(conv).stride()
    return len(strides) == 4 and all(isinstance(strides[i], int) for i in (1, 3)) and strides[1] == 1 != strides[3]


def _is_activation(node: Node) -> bool:
    return node.target in _KINDS or (node.op == "call_function" and category(node.target) == "activation")


def _parameters(kind: str, node: Node) -> list[Any]:
    """One value for each uniform slot of `kind`, in the order of `ort_webgpu.PARAMETER_SLOTS`."""
    if kind == "LeakyRelu":
        return [arguments(node)["negative_slope"]]
    if kind == "HardSigmoid":  # torch's is relu6(x + 3) / 6
        return [1 / 6, 0.5]
    if kind == "Clip":
        bounds = Bounds.of(node)
        return [bounds.low, bounds.high]
    return []
