"""conv2d_with_epilogue: a 2-D convolution takes in the residual and the activation that follow it."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import ConvSpec, arguments, dtype_of, in_order, shape_of
from lowerscope.check import Check, Condition, Optional, same
from lowerscope.editor import Editor
from lowerscope.ops import display_name, vulkan
from lowerscope.pattern import Declined, Kind, Match, Part, Pattern, pattern
from lowerscope.patterns._activations import CLAMPING, Bounds
from lowerscope.support.vulkan import texture_extents

aten = torch.ops.aten

_RESIDUAL_OPS: dict[Any, str] = {aten.add.Tensor: "add", aten.sub.Tensor: "sub", aten.mul.Tensor: "mul"}
_ORDER_MATTERS = {
    "add": "the operator multiplies the residual by alpha = {alpha}, not the convolution",
    "sub": "the operator subtracts the residual from the convolution",
    "mul": "",
}
_ACTIVATIONS = (*CLAMPING, aten.leaky_relu.default)
_DTYPES = (torch.float16, torch.float32)
_LIMITS = ("max_texture_width", "max_texture_height", "max_texture_depth")


@pattern("vulkan", "webgpu", after=["fold_batch_norm"], source="pytorch/executorch#24823")
class Conv2dWithEpilogue(Pattern):
    """y = activation(conv(x, w, b) ∘ r·s) in one operator, where ∘ is + α·, − α·, × or nothing, r·s the residual with an
    optional scale, and the activation relu, a clamp, leaky_relu or nothing. x is [1, C_in, H, W], the convolution's
    result and r are [1, C, H', W'], s is [1, C, 1, 1] or [C, 1, 1]; all float16 or all float32.

    The convolution may be direct, pointwise, depthwise, grouped or transposed. A residual that is a constant without a
    scale matches, and the rewrite declines it.
    """

    name, kind, anchors = "conv2d_with_epilogue", Kind.FUSION, (aten.convolution.default,)
    note = (
        "A program lowered with it needs a runtime that has et_vk.conv2d.with_epilogue; conv_with_clamp stays for conv1d, "
        "WebGPU and older programs."
    )
    conditions = (
        Condition("two_dimensional", "the convolution is 2-D"),
        Condition("constant_weight", "its weight is a constant, which can be prepacked"),
        Condition("constant_bias", "its bias is a constant, or there is none"),
        Condition("batch_1", "the batch size is 1"),
        Condition("dtype", "it computes in float16 or float32"),
        Condition("one_user", "the convolution has exactly one user"),
        Condition("input_fits_texture", "the input fits a channels-packed 3-D texture: (W, H, ceil(C/4)·N)"),
        Condition("output_fits_texture", "the output fits a channels-packed 3-D texture: (W, H, ceil(C/4)·N)"),
        Optional(
            "residual",
            Condition("residual_shape", "the residual has exactly the convolution's output shape"),
            Condition("residual_dtype", "the residual has the convolution's dtype"),
            Condition("operand_order", "the convolution is the first operand of a sub, or of an add with an alpha"),
            Condition("alpha_literal", "alpha is a number, not computed in the graph"),
            Condition("residual_not_itself", "the residual is not the convolution itself"),
        ),
        Optional(
            "residual_scale",
            Condition("scale_constant", "one operand of the multiplication is a constant, the scale"),
            Condition("scale_shape", "the scale is of shape [1, C, 1, 1] or [C, 1, 1]"),
            Condition("scale_one_user", "the residual's operator is the only user of the multiplication"),
            Condition("scaled_shape", "what is scaled has exactly the convolution's output shape"),
            Condition("scaled_dtype", "what is scaled has the convolution's dtype"),
            Condition("scale_dtype", "the scale has the convolution's dtype"),
            Condition("scaled_not_constant", "what is scaled is not a constant"),
        ),
        Optional(
            "activation",
            Condition("activation_one_user", "the activation is the only user of what it is applied to"),
            Condition("activation_literal", "the activation's parameters are numbers, not computed in the graph"),
        ),
        Condition("something_to_fuse", "a residual or an activation follows"),
    )
    nothing_to_fuse = ("something_to_fuse",)

    def match(self, anchor: Node, check: Check) -> Match | None:
        spec = ConvSpec.of(anchor)
        check.eq("two_dimensional", spec.dims, 2, at=anchor)
        check.constant("constant_weight", spec.weight, because="weights are packed before the program runs")
        if spec.bias is None:
            check.that("constant_bias", True, at=anchor, actual="no bias")
        else:
            check.constant("constant_bias", spec.bias, because="biases are packed before the program runs")
        check.eq("batch_1", spec.batch, 1, at=anchor)
        check.one_of("dtype", dtype_of(anchor), _DTYPES, at=anchor)
        fusable = None
        if len(anchor.users) != 1:  # else it is of no matter which
            fusable = next(
                (u for u in sorted(anchor.users) if u.target in _RESIDUAL_OPS or u.target in _ACTIVATIONS), None
            )
        user = check.one_user("one_user", anchor, wanted=fusable)
        limits = tuple(map(check.profile.__getitem__, _LIMITS))
        check.at_most("input_fits_texture", texture_extents(spec.input_shape), limits, at=spec.input)
        check.at_most("output_fits_texture", texture_extents(spec.output_shape), limits, at=anchor)

        residual = check.optional("residual", self._residual, check, spec, user)
        scale = check.optional("residual_scale", self._scale, check, spec, residual) if residual else None
        before = residual.nodes[0] if residual else anchor
        activation = check.optional("activation", self._activation, check, before)
        something = residual is not None or activation is not None
        check.follows(
            "something_to_fuse", something, at=user, expected="add, sub, mul or an activation", actual=_called(user)
        )
        parts = [part for part in (scale, residual, activation) if part is not None]
        nodes = (anchor, *(node for part in parts for node in part.nodes))
        data = {"spec": spec, "residual": residual, "scale": scale, "activation": activation}
        return Match(anchor, nodes, nodes[-1], data)

    def _residual(self, check: Check, spec: ConvSpec, user: Node) -> Part | None:
        op = _RESIDUAL_OPS.get(user.target)
        if op is None:
            return None
        a = arguments(user)
        first, alpha = a["self"] is spec.node, a.get("alpha", 1)
        other = a["other"] if first else a["self"]
        at = other if isinstance(other, Node) else user
        shape = shape_of(other)
        shown = shape if shape is not None else f"the number {_shown(other)}"
        check.eq("residual_shape", shown, spec.output_shape, at=at, because="the operator does not broadcast")
        check.eq("residual_dtype", dtype_of(other), dtype_of(spec.node), at=at, because="the operator does not promote")
        either = op == "mul" or (op == "add" and not isinstance(alpha, Node) and alpha == 1)
        check.that(
            "operand_order",
            first or either,
            at=user,
            expected="the convolution first",
            actual="the convolution second",
            because=_ORDER_MATTERS[op].format(alpha=_shown(alpha)),
        )
        check.that("alpha_literal", not isinstance(alpha, Node), at=user, expected="a number", actual=_shown(alpha))
        check.that("residual_not_itself", other is not spec.node, at=user, expected="another node", actual=other)
        return Part((user,), {"op": op, "alpha": alpha, "other": other})

    def _scale(self, check: Check, spec: ConvSpec, residual: Part) -> Part | None:
        mul: Node = residual["other"]
        if mul.target is not aten.mul.Tensor:
            return None
        a = arguments(mul)
        shapes = ((1, spec.out_channels, 1, 1), (spec.out_channels, 1, 1))
        constants = [side for side in ("other", "self") if check.is_constant(a[side])]
        # of two constants the scale is the one of a scale's shape
        constants.sort(key=lambda side: not any(same(shape_of(a[side]), shape) for shape in shapes))
        check.that("scale_constant", bool(constants), at=mul, expected="a constant", actual="none is a constant")
        scale, x = a[constants[0]], a["self" if constants[0] == "other" else "other"]
        at = x if isinstance(x, Node) else mul
        check.one_of("scale_shape", shape_of(scale), shapes, at=scale, because="one factor for each output channel")
        check.one_user("scale_one_user", mul, wanted=residual.nodes[0])
        check.eq("scaled_shape", shape_of(x), spec.output_shape, at=at, because="the operator does not broadcast")
        check.eq("scaled_dtype", dtype_of(x), dtype_of(spec.node), at=at, because="the operator does not promote")
        check.eq("scale_dtype", dtype_of(scale), dtype_of(spec.node), at=scale, because="the operator does not promote")
        check.that("scaled_not_constant", not check.is_constant(x), at=at, expected="computed", actual="a constant")
        return Part((mul,), {"x": x, "scale": scale})

    def _activation(self, check: Check, before: Node) -> Part | None:
        found = next((user for user in in_order(before.users) if user.target in _ACTIVATIONS), None)
        if found is None:
            return None
        check.one_user("activation_one_user", before, wanted=found)
        name, a, b = _parameters(found)
        computed = next((value for value in (a, b) if isinstance(value, Node)), None)
        check.that("activation_literal", computed is None, at=computed or found, expected="numbers", actual=computed)
        return Part((found,), {"activation": name, "a": a, "b": b})

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        spec, residual, scale, activation = (match[k] for k in ("spec", "residual", "scale", "activation"))
        if residual is not None and scale is None and edit.is_constant(residual["other"]):
            return Declined("the residual is a constant without a scale")
        added = residual["other"] if residual else None
        return edit.call(
            vulkan.conv2d_with_epilogue,
            spec.input,
            spec.weight,
            spec.bias,
            list(spec.stride),
            list(spec.padding),
            list(spec.dilation),
            spec.transposed,
            list(spec.output_padding),
            spec.groups,
            scale["x"] if scale else added,
            scale["scale"] if scale else None,
            residual["op"] if residual else "none",
            residual["alpha"] if residual and residual["op"] != "mul" else 1,
            activation["activation"] if activation else "none",
            float(activation["a"]) if activation else 0.0,
            float(activation["b"]) if activation else 0.0,
        )

    def sentence(self, match: Match) -> str:
        residual, scale, activation = match["residual"], match["scale"], match["activation"]
        parts = []
        if residual:
            parts.append(f"the residual of {residual['op']}" + (" with its scale" if scale else ""))
        if activation:
            parts.append(activation["activation"])
        return f"The convolution takes in {' and '.join(parts)}: et_vk.conv2d.with_epilogue."


def _parameters(activation: Node) -> tuple[str, Any, Any]:
    """The operator's name of an activation, and its two parameters."""
    if activation.target is aten.relu.default:
        return "relu", 0.0, 0.0
    if activation.target is aten.leaky_relu.default:
        return "leaky_relu", arguments(activation)["negative_slope"], 0.0
    bounds = Bounds.of(activation)
    return "clamp", bounds.low, bounds.high


def _called(node: Node) -> str:
    return "a graph output" if node.op == "output" else display_name(node.target)


def _shown(value: Any) -> str:
    return value.name if isinstance(value, Node) else f"{value:g}"
