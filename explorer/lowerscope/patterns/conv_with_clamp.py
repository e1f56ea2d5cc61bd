"""conv_with_clamp: a convolution takes in the relu, hardtanh or clamp that follows it."""

from __future__ import annotations

import torch
from torch.fx import Node

from lowerscope.arguments import ConvSpec, arguments, in_order
from lowerscope.check import Check, Condition, Optional
from lowerscope.editor import Editor
from lowerscope.ops import vulkan
from lowerscope.pattern import Kind, Match, Part, Pattern, pattern
from lowerscope.patterns._activations import Bounds, clamp_follows
from lowerscope.patterns._weights import are_constants
from lowerscope.quantized import is_dequantize

aten = torch.ops.aten

_SQUEEZES = (aten.squeeze.dim, aten.squeeze.dims)


@pattern(
    "vulkan",
    "webgpu",
    after=["core_aten", "conv2d_with_epilogue", "conv1d_as_conv2d"],
    source="pytorch/executorch#24823",
)
class ConvWithClamp(Pattern):
    """y = min(max(conv(x, w, b), low), high) in one operator; relu is [0, inf], and a bound that is left out is open.
    x is [N, C_in, *spatial] with one or two spatial axes, of any floating dtype.

    The squeeze that ends a 1-D convolution written as a 2-D one may stand between the two: it is put behind the new
    operator.
    """

    name, kind, anchors = "conv_with_clamp", Kind.FUSION, (aten.convolution.default,)
    note = "An open upper side is inf; ExecuTorch writes the largest double, at which a float32 clamp raises."
    conditions = (
        Condition("dimensions", "the convolution is 1-D or 2-D"),
        Optional(
            "squeeze",
            Condition("squeeze_one_user", "the squeeze is the only user of the convolution"),
        ),
        Condition("clamp_follows", "a relu, hardtanh or clamp follows"),
        Condition("one_user", "the activation is the only user of what it is applied to"),
        Condition("constant_weights", "its weight and bias are constants, which can be prepacked"),
        Condition("bounds_literal", "its bounds are numbers, not computed in the graph"),
        Condition("floating_weight", "the weight is a floating one, not dequantized in the graph"),
    )
    nothing_to_fuse = ("clamp_follows",)

    def match(self, anchor: Node, check: Check) -> Match | None:
        spec = ConvSpec.of(anchor)
        check.one_of("dimensions", spec.dims, (1, 2), at=anchor)
        squeeze = check.optional("squeeze", self._squeeze, check, spec)
        before = squeeze.nodes[0] if squeeze else anchor
        found = clamp_follows(check, "clamp_follows", before)
        check.one_user("one_user", before, wanted=found)
        are_constants(check, "constant_weights", anchor, spec.weight, spec.bias)
        bounds = Bounds.of(found)
        worked_out = next(bounds.computed(), None)
        check.that("bounds_literal", worked_out is None, at=worked_out or found, expected="numbers", actual=worked_out)
        dequantized = is_dequantize(spec.weight)
        check.that(
            "floating_weight", not dequantized, at=spec.weight, expected="a floating weight",
            actual="a dequantized one" if dequantized else "a floating weight",
            because="its kernel packs the weight before the program runs, and the backend takes no dequantize node: of a "
            "quantized graph the new operator would stay outside the delegate, where no runtime has it",
        )  # fmt: skip
        nodes = (anchor, *(squeeze.nodes if squeeze else ()), found)
        return Match(anchor, nodes, found, {"spec": spec, "squeeze": squeeze, "bounds": bounds})

    def _squeeze(self, check: Check, spec: ConvSpec) -> Part | None:
        found = None
        if spec.dims == 2:
            for user in in_order(spec.node.users):
                if user.target in _SQUEEZES and _drops_height(user):
                    found = user
                    break
        if found is None:
            return None
        check.one_user("squeeze_one_user", spec.node, wanted=found)
        return Part((found,))

    def rewrite(self, match: Match, edit: Editor) -> Node:
        spec: ConvSpec = match["spec"]
        low, high = match["bounds"].as_floats()
        conv = edit.call(
            vulkan.conv_with_clamp,
            spec.input,
            spec.weight,
            spec.bias,
            list(spec.stride),
            list(spec.padding),
            list(spec.dilation),
            spec.transposed,
            list(spec.output_padding),
            spec.groups,
            low,
            high,
        )
        squeeze: Part | None = match["squeeze"]
        if squeeze is None:
            return conv
        old = squeeze.nodes[0]
        return edit.call(old.target, conv, arguments(old)["dim"], like=old)

    def sentence(self, match: Match) -> str:
        low, high = match["bounds"].as_floats()
        return f"The convolution holds its result to [{low:g}, {high:g}]: et_vk.conv_with_clamp."


def _drops_height(node: Node) -> bool:
    """Whether the node, one of `_SQUEEZES`, is that of [N, C, 1, L] to [N, C, L]."""
    dims = arguments(node)["dim"]
    return dims in (2, -2) or tuple(dims if isinstance(dims, (list, tuple)) else ()) in ((2,), (-2,))
