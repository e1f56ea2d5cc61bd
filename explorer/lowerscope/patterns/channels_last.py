"""channels_last: which 4-D values are in NHWC, and the transposes where layouts meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import aten, op_of, shape_of, value_of
from lowerscope.check import Check, Condition
from lowerscope.delegated import LiveGraph
from lowerscope.editor import Editor
from lowerscope.memory_layout import FOLLOW, WANT_NHWC, Plan, is_single, plan, rank_of
from lowerscope.ops import display_name
from lowerscope.pattern import ANY, Kind, Match, Pattern, pattern
from lowerscope.target import target_of

_own = torch.ops.lowerscope_xnnpack


@dataclass(frozen=True, slots=True)
class _Note:
    """What the plan says of one anchor; nodes by id.

    region: its number among the delegated ones, None outside. dragged: the operand that drags it back to NCHW, and why.
    to_nhwc: operands that come in NCHW. reshaped: operands of lower rank. back: who reads its value in NCHW. held: the
    recipe skips the match.
    """

    region: int | None
    in_nhwc: bool = False
    dragged: tuple[str, str] | None = None
    to_nhwc: tuple[str, ...] = ()
    reshaped: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    held: bool = False


@pattern(
    "xnnpack",
    "qnn",
    after=["fold_batch_norm", "conv1d_as_conv2d", "upsample_nearest_x2", "fuse_activation"],
    source="pytorch/executorch#25041",
)
class ChannelsLast(Pattern):
    """f(x) = to_nchw(f(to_nhwc(x))), and to_nhwc(to_nchw(x)) = x, which leaves transposes where layouts meet only

    x is 4-D, of any dtype; shapes stay [N, C, H, W] and only the order in memory changes. Kernels such as convolutions
    compute in NHWC, elementwise operators follow their operands, reshapes and whatever is not delegated read NCHW. A
    value is transposed once, however many read it. Two operands do not decide: one of a single element takes no part, and
    one of lower rank is reshaped to 4-D with leading ones and follows.
    """

    name, kind, anchors = "channels_last", Kind.LAYOUT, ANY
    conditions = (
        Condition("delegated", "the backend takes the operator: whatever runs elsewhere reads and gives NCHW"),
        Condition("four_dimensions", "its result, and the operand that its kernel computes on, are 4-D"),
        Condition("nhwc_wanted", "its kernel computes in NHWC, or one of its operands is in NHWC"),
        Condition("single_element", "the operand in NHWC has more than one element: one takes no part in the decision"),
        Condition("lower_rank", "an operand of lower rank is a tensor, which leading ones make 4-D"),
        Condition(
            "quantization_kept", "no dequantized operand is of lower rank: a view behind it would carry no parameters"
        ),
        Condition("layouts_meet", "an operand comes in NCHW, or somebody reads the result in NCHW"),
    )
    nothing_to_fuse = ("delegated", "four_dimensions", "nhwc_wanted", "layouts_meet")

    def anchors_in(self, editor: Editor) -> Iterable[Node]:
        target = target_of(editor.profile["target"])
        fields = {f.name for f in target.profile}
        profile = {name: value for name, value in editor.profile.items() if name in fields}
        found: list[Node] = []
        for graph in editor.graphs.values():
            live = LiveGraph(editor, graph)
            regions = live.regions(target.takes, profile) if target.takes is not None else []
            for node, note in _notes(live, regions).items():
                editor.noted[editor.id_of(node)] = note
                found.append(node)
        return found

    def match(self, anchor: Node, check: Check) -> Match | None:
        note: _Note = check.noted(anchor)
        if note.held:
            return Match(anchor, (anchor,), anchor)
        check.that(
            "delegated", note.region is not None, at=anchor, expected="delegated", actual="outside of every region"
        )
        first = anchor.all_input_nodes[0]
        wants = op_of(anchor.target) in WANT_NHWC
        low = first if wants and rank_of(value_of(first)) != 4 else anchor
        check.eq("four_dimensions", rank_of(value_of(low)), 4, at=low)
        check.that(
            "nhwc_wanted", note.in_nhwc or note.dragged is not None, at=anchor, expected="NHWC", actual="NCHW",
        )  # fmt: skip
        self._operands(anchor, note, check)
        check.that(
            "layouts_meet", note.to_nhwc or note.reshaped or note.back, at=anchor, expected="a change of layout",
            actual="the same layout before and behind it",
        )  # fmt: skip
        return Match(anchor, (anchor,), anchor, {"note": note})

    def _operands(self, anchor: Node, note: _Note, check: Check) -> None:
        culprit, why = note.dragged or (None, None)
        operands = {n.name: n for n in anchor.all_input_nodes}
        at = operands.get((culprit or "").rpartition("/")[2])
        shape = shape_of(at)
        single = at is not None and is_single(value_of(at))
        check.that(
            "single_element", not single, at=at or anchor, expected="more than one element", actual=shape, because=why
        )
        kept = at is None or op_of(at.target).startswith("quantized_decomposed::")
        check.that("lower_rank", kept, at=at or anchor, expected="a tensor", actual=str(value_of(at)), because=why)
        check.that("quantization_kept", at is None, at=at or anchor, expected="4-D", actual=shape, because=why)

    def rewrite(self, match: Match, edit: Editor) -> None:
        anchor, note = match.anchor, match["note"]
        for id in note.reshaped:
            operand = edit.nodes[id]
            wide = _reshaped(operand, anchor, edit)
            edit.set_input(anchor, operand, wide if edit.is_constant(wide) else _transposed(wide, note, edit))
        for id in note.to_nhwc:
            edit.set_input(anchor, edit.nodes[id], _transposed(edit.nodes[id], note, edit))
        if note.back:
            readers = [edit.nodes[id] for id in note.back]
            back = edit.call(_own.to_nchw.default, anchor, before=anchor.next)
            edit.replace(anchor, back, readers=readers)

    def sentence(self, match: Match) -> str:
        note = match["note"]
        parts = [f"{id} is reshaped to 4-D" for id in note.reshaped]
        parts += [f"{id} is transposed to NHWC" for id in note.to_nhwc]
        if note.back:
            parts.append(f"its result back to NCHW for {', '.join(note.back)}")
        return f"{display_name(match.anchor.target)} computes in NHWC: {', '.join(parts)}."


def _notes(live: LiveGraph, regions: list[list[Node]]) -> dict[Node, _Note]:
    """The anchors of a graph in its order, and what the plans of its regions say of them."""
    editor = live.editor
    found: dict[Node, _Note] = {}
    for number, nodes in enumerate(regions):
        held = {n for n in nodes if editor.is_skipped(n)}
        matches = {
            n for n in nodes if editor.skipped_matches and editor.origins([editor.id_of(n)]) in editor.skipped_matches
        }
        inside = set(nodes)
        outer = [n for node in nodes for n in live.reads(node) if n not in inside]
        readers = [r for node in nodes for r in live.readers_of(node) if r not in inside]
        decided = plan(dict.fromkeys((*outer, *nodes, *readers)), inside - held - matches, live)
        found |= {n: _note(n, number, decided, live, n in matches) for n in nodes if _is_anchor(live, n)}
    for node in live.order:
        if node not in found and op_of(node.target) in WANT_NHWC:
            found[node] = _Note(region=None)
    place = {node: i for i, node in enumerate(live.order)}
    return dict(sorted(found.items(), key=lambda item: place[item[0]]))


def _is_anchor(live: LiveGraph, node: Node) -> bool:
    op = live.op(node)
    return op in WANT_NHWC or op in FOLLOW or not op


def _note(node: Node, region: int, decided: Plan[Node], live: LiveGraph, held: bool) -> _Note:
    ids = live.editor.id_of
    dragged = decided.dragged.get(node)
    return _Note(
        region=region,
        in_nhwc=node in decided.nhwc,
        dragged=None if dragged is None else (ids(dragged[0]), dragged[1]),
        to_nhwc=tuple(ids(n) for n in live.reads(node) if node in decided.to_nhwc.get(n, ())),
        reshaped=tuple(ids(n) for n in decided.reshaped.get(node, ())),
        back=tuple(ids(n) for n in decided.to_nchw.get(node, ())),
        held=held,
    )


def _reshaped(operand: Node, anchor: Node, edit: Editor) -> Node:
    """An operand of lower rank with ones before its dimensions: a constant is reshaped ahead of time."""
    shape: tuple[Any, ...] = shape_of(operand) or ()
    ones = [1] * (4 - len(shape))
    if edit.is_constant(operand):
        value = edit.constant_value(operand)
        return edit.constant(lambda: value.reshape(*ones, *shape), operand, "4d", key=("4d",))
    if all(isinstance(s, int) for s in shape):
        return _once(aten.view.default, operand, [*ones, *shape], anchor, edit)
    for _ in ones:
        operand = _once(aten.unsqueeze.default, operand, 0, anchor, edit)
    return operand


def _once(op: Any, operand: Node, how: Any, anchor: Node, edit: Editor) -> Node:
    """A call of `op` before the anchor, or one that is there."""
    known = (u for u in operand.users if u.target is op and u.args[1:] == (how,) and u < anchor)
    return next(known, None) or edit.call(op, operand, how)


def _transposed(value: Node, note: _Note, edit: Editor) -> Node:
    """`value` in NHWC, transposed once for all of a region that read it."""
    for known in (u for u in value.users if u.target is _own.to_nhwc.default):
        notes = [edit.noted.get(edit.id_of(reader)) for reader in known.users]
        if any(n is not None and n.region == note.region for n in notes):
            return known
    return edit.call(_own.to_nhwc.default, value)
