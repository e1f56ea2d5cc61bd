"""fold_batch_norm: a batch norm that only scales and shifts is folded into the convolution before it."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import ConvSpec, arguments, aten, dtype_name, dtype_of, shape_of
from lowerscope.check import Check, Condition, same
from lowerscope.editor import Editor
from lowerscope.ops import display_name
from lowerscope.pattern import Declined, Kind, Match, Pattern, pattern

_NO_TRAINING = aten._native_batch_norm_legit_no_training.default
_COPIES = (
    aten.clone.default, aten.alias.default, aten._to_copy.default, aten.slice.Tensor, aten.view.default,
    aten.expand.default, aten.dropout.default,
)  # fmt: skip
_STATISTICS = ("weight", "bias", "running_mean", "running_var")


@pattern("*", after=["core_aten", "fold_constants"], source="pytorch/executorch#22994")
class FoldBatchNorm(Pattern):
    """(conv(x, w) + b - mean) * gamma / sqrt(var + eps) + beta = conv(x, w * s) + (b - mean) * s + beta, s = gamma / sqrt(var + eps)

    1-D to 3-D, grouped, with or without bias, gamma and beta. s scales output channels: axis 0 of a weight
    [out, in/groups, *kernel]. A transposed weight [in, out/groups, *kernel] with G groups has no such axis; there
    w[i, j] is scaled by s[(i // (in / G)) * (out / G) + j]. Computed in float64 and rounded once to the weight's dtype.
    """

    name, kind = "fold_batch_norm", Kind.FOLD
    anchors = (
        _NO_TRAINING,
        aten.native_batch_norm.default,
        aten._native_batch_norm_legit.default,
        aten._native_batch_norm_legit_functional.default,
        aten.batch_norm.default,
    )
    conditions = (
        Condition("not_training", "the batch norm uses its running statistics, not the batch's"),
        Condition("convolution_before", "its input is a convolution"),
        Condition("not_transposed", "the target folds into this kind of convolution"),
        Condition("one_user", "the batch norm is the convolution's only reader"),
        Condition("first_output_only", "only the normalised output is read"),
        Condition("constant_weight", "the convolution's weight is a constant"),
        Condition("constant_bias", "the convolution's bias is a constant or absent"),
        Condition("constant_statistics", "mean, variance, scale and shift are constants or absent"),
    )

    def match(self, anchor: Node, check: Check) -> Match | None:
        norm = arguments(anchor)
        training = bool(norm.get("training", False)) or norm.get("running_mean") is None
        check.that(
            "not_training", not training, at=anchor, expected="training=False", actual="training=True" if training else "training=False",
            because="export the model in eval mode" if training else None,
        )  # fmt: skip
        conv = norm["input"]
        is_conv = isinstance(conv, Node) and conv.target is aten.convolution.default
        check.that(
            "convolution_before", is_conv, at=conv, expected="aten.convolution",
            actual=display_name(conv.target) if conv.op == "call_function" else conv.op,
            because="it changes nothing here, but it stands between the two" if _passes_on(conv) else None,
        )  # fmt: skip
        spec = ConvSpec.of(conv)
        check.touch(conv)
        declines = check.profile.get("target") == "qnn" and spec.transposed
        check.that(
            "not_transposed", not declines, at=conv, expected="no transposed convolution on qnn",
            actual="transposed" if spec.transposed else "not transposed",
        )  # fmt: skip
        check.one_user("one_user", conv, wanted=anchor)
        parts = _outputs(anchor)
        read = [p for p in parts if p.users]
        others = [p for p in read if p.args[1] != 0]
        single = isinstance(anchor.meta.get("val"), torch.Tensor)
        check.that(
            "first_output_only", single or (len(read) == 1 and not others), at=others[0] if others else anchor,
            expected="output 0", actual=[f"output {p.args[1]}" for p in read],
        )  # fmt: skip
        check.constant("constant_weight", spec.weight)
        if spec.bias is not None:
            check.constant("constant_bias", spec.bias)
        else:
            check.that("constant_bias", True, at=conv, actual="no bias")
        given = [norm[k] for k in _STATISTICS if norm.get(k) is not None]
        varying = next((n for n in given if not check.is_constant(n)), None)
        check.that(
            "constant_statistics",
            varying is None,
            at=varying or anchor,
            expected="constants",
            actual=varying or "constants",
        )
        return Match(anchor, (conv, anchor, *parts), anchor if single else read[0], {"conv": spec, "norm": norm})

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        spec: ConvSpec = match["conv"]
        norm: dict[str, Any] = match["norm"]
        sources = (spec.weight, spec.bias, *(norm.get(k) for k in _STATISTICS))
        key = (
            tuple(edit.id_of(edit.constant_origin(n)) if n is not None else None for n in sources),
            norm["eps"],
            spec.transposed,
            spec.groups,
        )
        weight, bias = edit.remember(("fold_batch_norm", key), lambda: _fold(spec, norm, edit))
        if not (torch.isfinite(weight).all() and torch.isfinite(bias).all()):
            return Declined(f"the folded weight overflows {dtype_name(weight.dtype)}")
        w = edit.constant(weight, spec.weight, "folded", key=("weight", key))
        # a convolution without a bias gets one of its weight's kind
        b = edit.constant(
            bias,
            spec.bias if spec.bias is not None else spec.weight,
            "folded" if spec.bias is not None else "folded_bias",
            key=("bias", key),
        )
        return edit.call(
            aten.convolution.default, spec.input, w, b, list(spec.stride), list(spec.padding), list(spec.dilation),
            spec.transposed, list(spec.output_padding), spec.groups, like=spec.node,
        )  # fmt: skip

    def sentence(self, match: Match) -> str:
        spec: ConvSpec = match["conv"]
        kind = "transposed convolution" if spec.transposed else "convolution"
        return f"The batch norm's scale and shift move into the weight and bias of the {kind}: 2 operators become 1."


def _passes_on(node: Node) -> bool:
    """Whether a call gives what it is given: a clone, a slice of everything, a cast to the same dtype."""
    if node.target not in _COPIES or not node.all_input_nodes:
        return False
    source = node.all_input_nodes[0]
    return same(shape_of(node), shape_of(source)) and dtype_of(node) == dtype_of(source)


def _outputs(norm: Node) -> list[Node]:
    return sorted((u for u in norm.users if u.target is operator.getitem), key=lambda u: u.args[1])  # type: ignore[arg-type, return-value]


def _fold(spec: ConvSpec, norm: dict[str, Any], edit: Editor) -> tuple[torch.Tensor, torch.Tensor]:
    def value(node: Node | None, default: float) -> torch.Tensor:
        if node is None:
            return torch.full((spec.out_channels,), default, dtype=torch.float64)
        return edit.constant_value(node).detach().to(torch.float64)

    weight = edit.constant_value(spec.weight).detach()
    scale = value(norm.get("weight"), 1.0) / torch.sqrt(value(norm.get("running_var"), 1.0) + norm["eps"])
    shift = value(norm.get("bias"), 0.0)
    bias = (value(spec.bias, 0.0) - value(norm.get("running_mean"), 0.0)) * scale + shift
    if spec.transposed:
        groups, per_group = spec.groups, spec.out_channels // spec.groups
        factor = scale.reshape(groups, 1, per_group).expand(groups, spec.in_channels // groups, per_group)
        factor = factor.reshape(spec.in_channels, per_group, *[1] * spec.dims)
    else:
        factor = scale.reshape(-1, *[1] * (weight.dim() - 1))
    return (weight.to(torch.float64) * factor).to(weight.dtype), bias.to(weight.dtype)
