"""fuse_activation: an operator that can hold its result to a range takes in the relu, hardtanh or clamp behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from lowerscope.arguments import ConvSpec, arguments, aten, dtype_of, shape_of
from lowerscope.check import Check, Condition, Either, Optional
from lowerscope.editor import Editor
from lowerscope.ops import display_name
from lowerscope.pattern import Kind, Match, Part, Pattern, pattern
from lowerscope.patterns._activations import Bounds, clamp_follows, clamping_reader
from lowerscope.patterns._weights import are_constants
from lowerscope.support.xnnpack import CONVOLUTION_DIMS

_own = torch.ops.lowerscope_xnnpack

#: op -> the op with a range. Both take the same arguments, the ranged one the two bounds behind them.
_RANGED: dict[Any, OpOverload] = {
    aten.convolution.default: _own.conv_with_range.default,
    aten.linear.default: _own.linear_with_range.default,
    aten.addmm.default: _own.addmm_with_range.default,
    aten.mm.default: _own.mm_with_range.default,
    aten.add.Tensor: _own.add_with_range.default,
    aten.add.Scalar: _own.add_scalar_with_range.default,
    aten.sub.Tensor: _own.sub_with_range.default,
    aten.sub.Scalar: _own.sub_scalar_with_range.default,
    aten.mul.Tensor: _own.mul_with_range.default,
    aten.mul.Scalar: _own.mul_scalar_with_range.default,
}
#: an arithmetic op of two tensors that was given a number for the second: the ranged op that takes one
_SCALAR: dict[Any, OpOverload] = {
    aten.add.Tensor: _own.add_scalar_with_range.default,
    aten.sub.Tensor: _own.sub_scalar_with_range.default,
    aten.mul.Tensor: _own.mul_scalar_with_range.default,
}
_CONVOLUTIONS = (aten.convolution.default, _own.conv_with_range.default)
_PRODUCTS = (aten.addmm.default, aten.mm.default, _own.addmm_with_range.default, _own.mm_with_range.default)


@pattern(
    "xnnpack",
    after=["fold_batch_norm", "depthwise_conv_transpose_as_mul", "polyphase_conv_transpose", "upsample_nearest_x2"],
    source="pytorch/executorch#25041",
)
class FuseActivation(Pattern):
    """y = min(max(f(x, ...), low), high) in one operator, f a convolution, linear, addition, subtraction or product; a second
    range [c, d] behind [a, b] gives [clamp(a, c, d), clamp(b, c, d)]

    relu is [0, inf]; a bound that is left out is open. f's result is floating-point, of any shape. The composed range is
    exact for disjoint ranges too: [0, 1] behind [2, 3] is [1, 1].

    The view that gives the result of a linear its leading axes back may stand between the two: it is put behind the new
    operator.
    """

    name, kind = "fuse_activation", Kind.FUSION
    anchors = (*_RANGED, *dict.fromkeys((*_RANGED.values(), *_SCALAR.values())))
    note = (
        "ExecuTorch 1.5.1 takes relu and hardtanh, and lets a second activation overwrite the range of the first; "
        "here clamp is a range like any other, and ranges compose."
    )
    conditions = (
        Either("convolution", Condition("dimensions", "the convolution is 1-D or 2-D")),
        Optional("view", Condition("view_one_user", "the view of a matrix product is its only user")),
        Condition("activation_follows", "a relu, hardtanh or clamp follows"),
        Condition("one_user", "the activation is the only user of what it is applied to"),
        Either("sum", Condition("alpha_1", "alpha is 1, and so is beta: the backend's kernels scale no operand")),
        Condition("floating_point", "the result is floating-point"),
        Condition("constant_weights", "weights and biases are constants, which can be packed"),
        Condition("bounds_literal", "its bounds are numbers, neither computed in the graph nor NaN"),
    )
    nothing_to_fuse = ("activation_follows",)
    repeats = True

    def is_anchor(self, node: Node) -> bool:
        # an operator that has its range is of interest again only where another activation is stacked on it
        return node.target in _RANGED or clamping_reader(node) is not None or _view_of(node) is not None

    def match(self, anchor: Node, check: Check) -> Match | None:
        view = None
        if anchor.target in _CONVOLUTIONS:
            check.way("convolution")
            dims = len(shape_of(arguments(anchor)["weight"]) or ()) - 2
            check.one_of("dimensions", dims, CONVOLUTION_DIMS, at=anchor)
        elif anchor.target in _PRODUCTS:
            view = check.optional("view", self._view, check, anchor)
        before = view.nodes[0] if view else anchor
        found = clamp_follows(check, "activation_follows", before)
        check.one_user("one_user", before, wanted=found)
        given = arguments(anchor)
        factors = [given[name] for name in ("alpha", "beta") if name in given]
        if factors:
            check.way("sum")
            check.that("alpha_1", all(f == 1 for f in factors), at=anchor, expected=1, actual=_one_or_all(factors))
        dtype = dtype_of(anchor)
        check.that(
            "floating_point", dtype is not None and dtype.is_floating_point, at=anchor, expected="floating-point",
            actual=str(dtype),
        )  # fmt: skip
        are_constants(check, "constant_weights", anchor, *_weights(anchor))
        bounds = Bounds.of(found)
        worked_out = next(bounds.computed(), None)
        given = worked_out if worked_out is not None else (bounds.low, bounds.high)
        literal = worked_out is None and not any(math.isnan(b) for b in (bounds.low, bounds.high))
        check.that("bounds_literal", literal, at=worked_out or found, expected="numbers", actual=given)
        nodes = (anchor, *(view.nodes if view else ()), found)
        return Match(anchor, nodes, found, {"view": view, "range": _composed(anchor, bounds.as_floats())})

    def _view(self, check: Check, product: Node) -> Part | None:
        found = _view_of(product)
        if found is None:
            return None
        check.one_user("view_one_user", product, wanted=found)
        return Part((found,))

    def rewrite(self, match: Match, edit: Editor) -> Node:
        anchor = match.anchor
        given = list(arguments(anchor).values())
        ranged = _ranged(anchor)
        if ranged is not None:
            made = edit.call(ranged, *_spelled_out(anchor, given), *match["range"], like=anchor)
        else:
            made = edit.call(anchor.target, *given[:-2], *match["range"], like=anchor)
        view: Part | None = match["view"]
        if view is None:
            return made
        old = view.nodes[0]
        return edit.call(old.target, made, arguments(old)["size"], like=old)

    def sentence(self, match: Match) -> str:
        low, high = match["range"]
        ranged, name = _ranged(match.anchor), display_name(match.anchor.target)
        if ranged is None:
            return f"A second activation narrows the range of {name} to [{low:g}, {high:g}]."
        return f"{name} holds its result to [{low:g}, {high:g}]: {display_name(ranged)}."


def _ranged(anchor: Node) -> OpOverload | None:
    """The op with a range for `anchor`'s; None when it has one already."""
    if anchor.target in _SCALAR and not isinstance(arguments(anchor)["other"], Node):
        return _SCALAR[anchor.target]
    return _RANGED.get(anchor.target)


def _composed(anchor: Node, then: tuple[float, float]) -> tuple[float, float]:
    """The range of `anchor` with the range `then` behind it."""
    if anchor.target in _RANGED:
        return then
    a = arguments(anchor)
    return _clamped(float(a["output_min"]), *then), _clamped(float(a["output_max"]), *then)


def _clamped(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)  # in this order, as ATen does where low > high


def _spelled_out(anchor: Node, given: Sequence[Any]) -> list[Any]:
    """The arguments of an op as its ranged form takes them: one entry per axis in a convolution's lists."""
    if anchor.target is not aten.convolution.default:
        return list(given)
    spec = ConvSpec.of(anchor)
    lists = (list(spec.stride), list(spec.padding), list(spec.dilation), spec.transposed, list(spec.output_padding))
    return [spec.input, spec.weight, spec.bias, *lists, spec.groups]


def _weights(anchor: Node) -> tuple[Any, ...]:
    """The operands of an anchor that its kernel wants packed: none for arithmetic."""
    given = arguments(anchor)
    if anchor.target in _PRODUCTS:
        return given["mat2"], given.get("bias", given.get("self") if "mat1" in given else None)
    return given.get("weight"), given.get("bias")


def _one_or_all(factors: Sequence[Any]) -> Any:
    return factors[0] if len(factors) == 1 else tuple(factors)


def _view_of(product: Node) -> Node | None:
    """The view behind a matrix product on which an activation is applied."""
    if product.target not in _PRODUCTS:
        return None
    views = (u for u in sorted(product.users) if u.target is aten.view.default)
    return next((v for v in views if clamping_reader(v) is not None), None)
