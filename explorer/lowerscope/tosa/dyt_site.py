"""gamma and beta of a DyT in integers: what stands between a TABLE and a convolution, and the code-to-code map it computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import arguments, aten, shape_of
from lowerscope.ops import tosa
from lowerscope.ops.tosa_scale import INT32_MAX, INT32_MIN
from lowerscope.tosa.affine import AffineMap, affine_map, between
from lowerscope.tosa.rescaling import Rescaling
from lowerscope.tosa.sites import codes_int8

_RANK_VIEWS = (aten.view.default, aten.unsqueeze.default, aten.squeeze.dims)


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a MUL or ADD: a RESCALE to int32 of `source`, with the views on the way."""

    outer: Node  #: what the MUL or ADD reads
    rescale: Node
    source: Node
    views: tuple[Node, ...]

    @property
    def rescaling(self) -> Rescaling:
        """What its RESCALE does."""
        return Rescaling.of(self.rescale)


def operand(node: Any) -> Operand | None:
    """Read an operand of a MUL or ADD; None where it is no RESCALE to int32."""
    views: list[Node] = []
    rescale = without_views(node, views)
    if rescale.target is not tosa.rescale or arguments(rescale)["output_dtype"] != torch.int32:
        return None
    source = without_views(arguments(rescale)["input"], views)
    return Operand(node, rescale, source, tuple(views))


def without_views(node: Node, views: list[Node]) -> Node:
    """What a node is a view of; the views go to `views`, the last one first."""
    while node.op == "call_function" and node.target in _RANK_VIEWS:
        views.append(node)
        source = node.args[0]
        assert isinstance(source, Node)
        node = source
    return node


@dataclass(frozen=True, slots=True)
class Edge:
    """What stands between the site and the convolution: nothing, a permute, or a linear's view of [..., K] as rows.

    axis: of the site's values, the one that the convolution's input channels are.
    """

    nodes: tuple[Node, ...]
    source: Node
    axis: int | None

    @classmethod
    def of(cls, read: Node) -> Edge:
        """Read the edge that ends at `read`, the convolution's input."""
        rank = len(shape_of(read) or ())
        if read.target is aten.permute.default:
            dims = [d % rank for d in arguments(read)["dims"]]
            return cls((read,), arguments(read)["self"], dims[1])
        if read.target is aten.view.default:
            source: Node = arguments(read)["self"]
            before, after = shape_of(source) or (), shape_of(read) or ()
            kept = len(before) > 0 and len(after) == 4 and before[-1] == after[1] and tuple(after[2:]) == (1, 1)
            return cls((read,), source, len(before) - 1 if kept else None)
        return cls((), read, 1 if rank == 4 else None)


@dataclass(frozen=True, slots=True)
class DytSite:
    """TABLE -> RESCALE * MUL(gamma) * RESCALE -> RESCALE * ADD(beta) * RESCALE, and the constants that it reads.

    What it is asked about codes is asked of those that the TABLE can give: another never comes by.
    """

    table: Node
    scaled: Operand  #: the TABLE, as the MUL reads it
    gamma: Operand
    mul: Node
    mul_out: Node
    shifted: Operand  #: the MUL's RESCALE, as the ADD reads it
    beta: Operand
    add: Node
    add_out: Node
    edge: Edge
    values: tuple[torch.Tensor, torch.Tensor] = field(repr=False)  #: gamma and beta as codes
    given: torch.Tensor = field(repr=False)  #: int64 [n], ascending: the codes that the TABLE can give

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What the site is made of, from behind the TABLE to before the convolution, in the order of the graph."""
        return (*self.scaling, *self.shifting, *self.edge.nodes)

    @property
    def scaling(self) -> tuple[Node, ...]:
        """The part that multiplies by gamma."""
        return tuple(
            dict.fromkeys(
                (self.scaled.rescale, self.gamma.rescale, *reversed(self.gamma.views), self.mul, self.mul_out)
            )
        )

    @property
    def shifting(self) -> tuple[Node, ...]:
        """The part that adds beta."""
        return tuple(
            dict.fromkeys((self.shifted.rescale, self.beta.rescale, *reversed(self.beta.views), self.add, self.add_out))
        )

    @property
    def table_zp(self) -> int:
        """The zero point of the TABLE's codes."""
        return self.scaled.rescaling.input_zp

    def scaled_codes(self) -> torch.Tensor:
        """gamma's integer path: int8 [256, C] for each code and channel."""
        codes = self.scaled.rescaling.run(codes_int8()).unsqueeze(1)
        factors = self.gamma.rescaling.run(self.values[0].reshape(1, -1))
        return Rescaling.of(self.mul_out).run(tosa.mul(codes, factors, arguments(self.mul)["shift"]))

    def sums(self) -> torch.Tensor:
        """What the ADD gives, unbounded: int64 [256, C]."""
        terms = self.beta.rescaling.run(self.values[1].reshape(1, -1))
        return self.shifted.rescaling.run(self.scaled_codes()).to(torch.int64) + terms

    def overflows(self) -> bool:
        """Whether the ADD can leave int32, which TOSA leaves open."""
        sums = self.sums()[self.given + 128]
        return int(sums.min()) < INT32_MIN or int(sums.max()) > INT32_MAX

    def codes(self) -> torch.Tensor:
        """The whole integer path: int8 [256, C] for each code and channel."""
        return Rescaling.of(self.add_out).run(self.sums().to(torch.int32))

    def scaling_is_identity(self) -> bool:
        """Whether gamma's path maps every code of every channel to itself."""
        return bool((self.scaled_codes()[self.given + 128] == self.given.unsqueeze(1)).all())

    def is_identity(self) -> bool:
        """Whether the whole path maps every code of every channel to itself."""
        return bool((self.codes()[self.given + 128] == self.given.unsqueeze(1)).all())

    def maps(self, conv_zp: int) -> list[AffineMap]:
        """Each channel's map beside the integer-affine one that is nearest."""
        given = self.given.tolist()
        return [affine_map(column, self.table_zp, conv_zp, given) for column in self.codes().t().tolist()]

    def scaling_maps(self) -> list[AffineMap]:
        """What each channel's gamma makes of the codes, beside the identity."""
        given = self.given.tolist()
        return [between(column, given, 1, 0) for column in self.scaled_codes().t().tolist()]
