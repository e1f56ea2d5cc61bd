"""fold_dyt_affine: gamma and beta behind a TABLE are folded into the convolution that reads them, to the byte."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import arguments, dtype_of, shape_of
from lowerscope.check import Check, Condition, Either
from lowerscope.code_map import CodeMap
from lowerscope.editor import Editor
from lowerscope.ops import display_name, tosa
from lowerscope.ops.tosa_scale import INT32_MAX, INT32_MIN
from lowerscope.pattern import Declined, Kind, Match, Pattern, pattern
from lowerscope.tosa.affine import AffineMap
from lowerscope.tosa.dyt_site import DytSite, Edge, Operand, operand
from lowerscope.tosa.rescaling import Rescaling
from lowerscope.tosa.sites import INT8, codes_int8


@pattern("ethos-u", after=["lower_to_tosa", "fold_dyt_alpha"], off=["ethos-u"], source="pytorch/executorch#21953")
class FoldDytAffine(Pattern):
    """conv(s x + o, w) + b = conv(x, w') + b' with w'[co, ci, k] = w[co, ci, k] s[ci], b'[co] = b[co] + sum_ci o[ci] sum_k
    w[co, ci, k], in integers: x the int8 codes of a TABLE, centred, [N, C, H, W]; w int8 [C_out, C / groups, H', W'], ci
    counted from its group's first channel; b int32 [C_out].

    gamma and beta, a MUL and an ADD between RESCALEs, compute y from x. The requantization between them rounds, so a float
    fold could give other bytes. The site's own operators are run over the TABLE's 256 entries, channel by channel; the fold
    is made only where every map is integer-affine, y = s x + o for every code that the TABLE can give. With padding, whose
    part of beta depends on the place, only a gamma that is the identity goes and beta's ADD stays; where every code maps to
    itself both go.
    """

    name, kind = "fold_dyt_affine", Kind.FOLD
    anchors = (tosa.conv2d, tosa.transpose_conv2d)
    note = "With a realistic gamma the maps are usually not integer-affine: the explanation names the first channel and code."
    conditions = (
        Condition("add_before", "the convolution reads an ADD's RESCALE to int8, through at most one permute or view"),
        Condition("not_transposed", "the convolution is not transposed"),
        Condition("channels_kept", "what lies between keeps the channels on one axis: a permute, or a linear's view"),
        Condition("beta_constant", "one term of the ADD is a constant, both are RESCALEs to int32"),
        Condition("mul_before", "the other term is a MUL's RESCALE to int8"),
        Condition("gamma_constant", "one factor of the MUL is a constant, both are RESCALEs to int32"),
        Condition("table_before", "the other factor is a TABLE's: its entries tell all of it"),
        Condition("exclusive", "every value on the way has one reader"),
        Condition("per_tensor_rescales", "every RESCALE on the way has one scale"),
        Condition("shapes_agree", "gamma and beta give the TABLE's shape: no axis is added"),
        Condition("no_singleton_broadcast", "gamma and beta hold a value for each channel, none for all"),
        Condition("per_channel", "gamma and beta differ from channel to channel only"),
        Condition("constant_weight", "the convolution's weight and bias are constants"),
        Condition("add_fits", "the ADD cannot leave int32"),
        Either("padded", Condition("padded_identity", "with padding, gamma maps every code of the TABLE to itself")),
        Either(
            "affine",
            Condition("integer_affine", "every channel's map of the TABLE's codes is integer-affine"),
            Condition("weight_fits", "every w s is an int8 weight"),
            Condition("bias_fits", "every bias is an int32"),
        ),
    )
    nothing_to_fuse = ("add_before",)

    def match(self, anchor: Node, check: Check) -> Match | None:
        site = self.site(anchor, check)
        a = arguments(anchor)
        data: dict[str, Any] = {"site": site, "conv": a}
        if any(p != 0 for p in a["padding"]):
            check.way("padded")
            changes = None if site.scaling_is_identity() else _first_break(site.scaling_maps())
            check.that(
                "padded_identity", changes is None, at=site.mul, expected="the identity",
                actual="the identity" if changes is None else _becomes(*changes),
                because="padding is the centred zero, which gamma and beta never see: beta's part depends on the place, and "
                "only a gamma that changes nothing is dropped",
                code_map=None if changes is None else _shown(*changes, what="gamma", nearest="the identity"),
            )  # fmt: skip
            if not site.is_identity():
                return Match(anchor, site.scaling, site.mul_out, {**data, "form": "gamma"})
            return Match(anchor, (*site.nodes, anchor), anchor, {**data, "form": "identity"})
        check.way("affine")
        maps = site.maps(a["input_zp"])
        broken = _first_break(maps)
        check.that(
            "integer_affine", broken is None, at=site.mul, expected="y = s·x + o at every code",
            actual="integer-affine" if broken is None else f"channel {broken[0]}, code {broken[1].first_break}",
            because=None if broken is None else f"in channel {broken[0]} {broken[1].describe()}",
            code_map=None if broken is None else _shown(*broken, what="gamma and beta", nearest=_nearest(broken[1])),
        )  # fmt: skip
        scales = torch.tensor([m.scale for m in maps])
        offsets = torch.tensor([m.offset for m in maps])
        held = None if a["bias"] is None else check.value(a["bias"])
        weight, bias = folded(check.value(a["weight"]), held, scales, offsets, a["groups"])
        ends = (int(weight.min()), int(weight.max()))
        fits = INT8[0] <= ends[0] and ends[1] <= INT8[1]
        check.that("weight_fits", fits, at=a["weight"], expected="-128..127", actual=f"{ends[0]}..{ends[1]}")
        ends = (int(bias.min()), int(bias.max()))
        fits = ends[0] >= INT32_MIN and ends[1] <= INT32_MAX
        at = a["bias"] if a["bias"] is not None else anchor
        check.that("bias_fits", fits, at=at, expected="int32", actual=f"{ends[0]}..{ends[1]}")
        data |= {"form": "affine", "weight": weight.to(torch.int8), "bias": bias.to(torch.int32)}
        return Match(anchor, (*site.nodes, anchor), anchor, data)

    def site(self, anchor: Node, check: Check) -> DytSite:
        """Read the site before a convolution, stating what must hold for its channels' maps to be known."""
        edge = Edge.of(arguments(anchor)["input"])
        out = edge.source
        add = arguments(out)["input"] if _is_rescale(out, torch.int8) else out
        check.that("add_before", add.target is tosa.add, at=add, expected="tosa.ADD", actual=_called(add))
        check.touch(*edge.nodes, out, add)
        direct = anchor.target is tosa.conv2d
        check.that(
            "not_transposed", direct, at=anchor, expected="tosa.CONV2D", actual=_called(anchor),
            because="a transposed convolution scatters: beta's part differs from place to place",
        )  # fmt: skip
        at = edge.nodes[0] if edge.nodes else anchor
        check.that(
            "channels_kept", edge.axis is not None, at=at, expected="channels on one axis",
            actual=f"{shape_of(edge.source)} read as {shape_of(at)}",
        )  # fmt: skip
        shifted, beta = self._told_apart("beta_constant", add, check)
        mul_out = shifted.source
        mul = arguments(mul_out)["input"] if _is_rescale(mul_out, torch.int8) else mul_out
        check.that("mul_before", mul.target is tosa.mul, at=mul, expected="tosa.MUL", actual=_called(mul))
        check.touch(mul, mul_out)
        scaled, gamma = self._told_apart("gamma_constant", mul, check)
        table = scaled.source
        check.that("table_before", table.target is tosa.table, at=table, expected="tosa.TABLE", actual=_called(table))
        way = (table, scaled.outer, mul, mul_out, shifted.outer, add, out, *edge.nodes)
        shared = next((n for n in way if len(n.users) != 1), None)
        if shared is not None:
            check.one_user("exclusive", shared)
        check.that("exclusive", True, at=table, actual="1 reader each")
        rescales = (scaled.rescale, gamma.rescale, mul_out, shifted.rescale, beta.rescale, out)
        several = next((n for n in rescales if not Rescaling.of(n).per_tensor), None)
        check.that(
            "per_tensor_rescales", several is None, at=several or out, expected="1 scale",
            actual="1 scale" if several is None else f"{len(Rescaling.of(several).multiplier)} scales",
        )  # fmt: skip
        self._layout(table, gamma, beta, scaled, shifted, mul, add, edge, check)
        a = arguments(anchor)
        held = [n for n in (a["weight"], a["bias"]) if n is not None]
        varying = next((n for n in held if not check.is_constant(n)), None)
        check.that(
            "constant_weight", varying is None, at=varying or a["weight"], expected="constants",
            actual="constants" if varying is None else _called(varying),
        )  # fmt: skip
        entries = arguments(table)["table"]
        # The site's own operators may follow any table: where it is computed, every code can come.
        given = check.value(entries) if check.is_constant(entries) else codes_int8()
        site = DytSite(
            table, scaled, gamma, mul, mul_out, shifted, beta, add, out, edge,
            (check.value(gamma.source).reshape(-1), check.value(beta.source).reshape(-1)),
            given.to(torch.int64).unique(),
        )  # fmt: skip
        over = site.overflows()
        check.that(
            "add_fits", not over, at=add, expected="int32", actual="out of int32" if over else "int32",
            because="TOSA leaves an overflow of ADD open",
        )  # fmt: skip
        return site

    def _told_apart(self, name: str, node: Node, check: Check) -> tuple[Operand, Operand]:
        """(the computed operand, the constant one) of a MUL or ADD."""
        given = [arguments(node)[k] for k in ("input", "other")]
        read = [operand(n) for n in given]
        constant = [r is not None and check.is_constant(r.source) for r in read]
        fits = None not in read and sum(constant) == 1
        at = next((n for n, r in zip(given, read, strict=True) if r is None), node)
        actual = f"{sum(constant)} constants, {sum(r is not None for r in read)} RESCALEs"
        check.that(name, fits, at=at, expected="1 constant, 2 RESCALEs", actual=actual)
        first, second = (r for r in read if r is not None)
        return (second, first) if constant[0] else (first, second)

    def _layout(
        self, table: Node, gamma: Operand, beta: Operand, scaled: Operand, shifted: Operand, mul: Node, add: Node,
        edge: Edge, check: Check,
    ) -> None:  # fmt: skip
        shape = shape_of(table) or ()
        other = next((n for n in (scaled.outer, mul, shifted.outer, add) if shape_of(n) != shape), None)
        check.that("shapes_agree", other is None, at=other or table, expected=shape, actual=shape_of(other or table))
        axis = edge.axis if edge.axis is not None else 1
        channels = shape[axis]
        sizes = {}
        for held in (gamma, beta):
            size = shape_of(held.outer) or ()
            sizes[held] = (*(1 for _ in shape[len(size) :]), *size)
        alone = next((h for h, size in sizes.items() if size[axis] == 1 and channels != 1), None)
        check.that(
            "no_singleton_broadcast", alone is None, at=alone.source if alone else gamma.source,
            expected=f"{channels} values on axis {axis}", actual=shape_of((alone or gamma).outer),
        )  # fmt: skip
        wanted = tuple(channels if i == axis else 1 for i in range(len(shape)))
        spread = next((h for h, size in sizes.items() if size != wanted), None)
        check.that(
            "per_channel", spread is None, at=spread.source if spread else gamma.source, expected=wanted,
            actual=sizes[spread] if spread else wanted,
        )  # fmt: skip

    def rewrite(self, match: Match, edit: Editor) -> Node | Declined | None:
        site: DytSite = match["site"]
        a, form = match["conv"], match["form"]
        if form == "gamma":
            return site.table
        source = site.table
        for node in site.edge.nodes:
            source = edit.insert_call(node.target, (source, *node.args[1:]), node.kwargs, like=node)
        weight, bias, zero_point = a["weight"], a["bias"], a["input_zp"]
        if form == "affine":
            weight, bias, zero_point = *self._constants(match, edit), site.table_zp
        return edit.call(
            tosa.conv2d, source, weight, bias, a["stride"], a["padding"], a["dilation"], a["groups"], zero_point,
            like=match.anchor,
        )  # fmt: skip

    def _constants(self, match: Match, edit: Editor) -> tuple[Node, Node | None]:
        """w' and b'; the ones there are, where nothing changes."""
        weight, bias = match["conv"]["weight"], match["conv"]["bias"]
        values, offsets = match["weight"], match["bias"]
        if not torch.equal(values, edit.constant_value(weight)):
            weight = edit.constant(values, weight, "gamma", key=(self.name, values.numpy().tobytes()))
        key = (self.name, "bias", offsets.numpy().tobytes())
        if bias is not None and not torch.equal(offsets, edit.constant_value(bias)):
            bias = edit.constant(offsets, bias, "beta", key=key)
        elif bias is None and bool(offsets.any()):
            bias = edit.constant(offsets, match["conv"]["weight"], "beta", key=key)
        return weight, bias

    def sentence(self, match: Match) -> str:
        if match["form"] == "gamma":
            return "gamma maps every code to itself and goes; the convolution is padded, so beta's ADD stays."
        if match["form"] == "identity":
            return "gamma and beta map every code to itself: MUL, ADD and their RESCALEs go, weights and bias stay."
        return (
            "gamma goes into the convolution's weights and beta into its bias: every channel's map is integer-affine."
        )


def folded(
    weight: torch.Tensor, bias: torch.Tensor | None, scales: torch.Tensor, offsets: torch.Tensor, groups: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """w' and b' as int64, not yet checked against int8 and int32.

    weight: [C_out, C / groups, H, W]; bias [C_out] or None; scales and offsets: s and o of the C input channels.
    """
    out, per_group = weight.shape[:2]
    rows = torch.arange(out) // (out // groups)
    channels = rows.unsqueeze(1) * per_group + torch.arange(per_group)
    w = weight.to(torch.int64)
    shift = (offsets.to(torch.int64)[channels] * w.flatten(2).sum(2)).sum(1)
    return w * scales.to(torch.int64)[channels][:, :, None, None], shift + (0 if bias is None else bias.to(torch.int64))


def _is_rescale(node: Node, dtype: torch.dtype) -> bool:
    return node.target is tosa.rescale and dtype_of(node) == dtype


def _first_break(maps: list[AffineMap]) -> tuple[int, AffineMap] | None:
    """The first channel whose map is not the one beside it."""
    return next(((channel, found) for channel, found in enumerate(maps) if found.breaks), None)


def _becomes(channel: int, found: AffineMap) -> str:
    code = found.breaks[0]
    return f"channel {channel}, code {code} becomes {found.values[code + 128]}"


def _nearest(found: AffineMap) -> str:
    return f"the nearest integer-affine map, {found.formula} of centred codes"


def _shown(channel: int, found: AffineMap, what: str, nearest: str) -> CodeMap:
    """The map of a channel that breaks, and the one that is asked for."""
    code = found.breaks[0]
    occur = "all 256 codes" if len(found.given) == 256 else f"{len(found.given)} of the 256 codes"
    says = (
        f"Channel {channel}: what {what} make of each int8 code, beside {nearest}. They part first at code {code}, "
        f"which gives {found.values[code + 128]} and not {found.nearest[code + 128]}; the TABLE can give {occur}."
    )
    caption = f"line: channel {channel}; dashes: {nearest}; circle: code {code}, where they part first"
    return CodeMap(channel, code, tuple(found.values), tuple(found.nearest), says, caption)


def _called(node: Node) -> str:
    return display_name(node.target) if node.op == "call_function" else node.op
