"""Small changes of a program under which a pattern might match: proposed from what failed, made on an editor's copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import Node

from lowerscope.arguments import arguments, aten, shape_of, value_of
from lowerscope.check import Entry, Status
from lowerscope.editor import Editor
from lowerscope.ops import display_name
from lowerscope.pattern import Match
from lowerscope.verdict import Verdict

#: Makes the change; False when there is nothing to change here.
Edit = Callable[[Editor, Verdict], bool]

#: Ops that only look at a value, and give none.
_ASSERTIONS = (aten._assert_tensor_metadata.default, aten._assert_async.msg)

#: Of a value that more nodes read than this, no reader is singled out.
_MOST_READERS = 4

#: Ops that hand a value on, in another shape, order, dtype or memory: what stands "in between".
_IN_BETWEEN = (
    aten.clone.default,
    aten.view.default,
    aten.permute.default,
    aten._to_copy.default,
    aten.alias.default,
    aten.slice.Tensor,
    aten.expand.default,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.detach.default,
)


def for_failure(verdict: Verdict, editor: Editor) -> Iterator[tuple[str, Edit]]:
    """(in words, the change) for what failed at a verdict, on the graph that the pattern met there."""
    for entry in verdict.record.entries:
        if entry.status is Status.FAILED:
            yield from _for_entry(entry, verdict, editor)
    for node in _in_between(verdict, editor):
        yield (
            f"'{editor.id_of(node)}' ({display_name(node.target)}) did not stand in between",
            _without(editor.id_of(node)),
        )


def changes_inputs(edit: Edit) -> bool:
    """Whether an edit gives the program other inputs, so that numbers cannot be compared."""
    return edit in (batch_1, float16)


def _for_entry(entry: Entry, verdict: Verdict, editor: Editor) -> Iterator[tuple[str, Edit]]:
    if "user" in entry.name:
        for id in verdict.nodes:
            node = editor.nodes.get(id)
            for reader in node.users if node is not None else ():
                if reader.target in _ASSERTIONS:
                    name = editor.id_of(reader)
                    yield f"'{name}' ({display_name(reader.target)}) did not read '{id}'", _unread(name)
            if node is not None and _computed(node) and 1 < len(node.users) <= _MOST_READERS:
                for reader in (u for u in node.users if u.target not in _ASSERTIONS):
                    name = editor.id_of(reader)
                    yield f"'{name}' were the only reader of '{id}', the others reading a copy", _only_reader(id, name)
    if "alpha" in entry.name or "operand" in entry.name:
        yield "alpha were 1", _alpha_1(entry)
        yield "weight and bias carried alpha", _alpha_in_weight(entry)
        yield "the convolution were the first operand", _swapped(entry)
    if "batch" in entry.name:
        yield "the batch size were 1", batch_1
    if isinstance(entry.actual, torch.dtype) or "dtype" in entry.name:
        yield "the program computed in float16", float16


# ---------------------------------------------------------------- readers
def _only_reader(id: str, reader: str) -> Edit:
    def edit(editor: Editor, verdict: Verdict) -> bool:
        """Compute the value once more for all the other readers."""
        shared, wanted = editor.nodes[id], editor.nodes[reader]
        others = [u for u in shared.users if u is not wanted]
        with editor.rewriting(Match(shared, (), shared)):
            copy = editor.insert_call(shared.target, shared.args, shared.kwargs, like=shared, val=value_of(shared))
            editor.replace(shared, copy, readers=others)
            editor.finish(None)
        return True

    return edit


def _unread(id: str) -> Edit:
    def edit(editor: Editor, verdict: Verdict) -> bool:
        """Let an assertion go."""
        node = editor.nodes[id]
        with editor.rewriting(Match(node, (node,), node)):
            editor.finish(None)
        return True

    return edit


def _computed(node: Node) -> bool:
    return node.op == "call_function" and isinstance(value_of(node), torch.Tensor)


# ---------------------------------------------------------------- alpha and operands
def _binary(editor: Editor, entry: Entry) -> Node | None:
    node = editor.nodes.get(entry.node or "")
    return node if node is not None and node.target in (aten.add.Tensor, aten.sub.Tensor) else None


def _alpha_1(entry: Entry) -> Edit:
    def edit(editor: Editor, verdict: Verdict) -> bool:
        node = _binary(editor, entry)
        if node is None or arguments(node)["alpha"] == 1:
            return False
        with editor.rewriting(Match(node, (), node)):
            editor.set_args(node, node.args[:2], {})
            editor.finish(None)
        return True

    return edit


def _alpha_in_weight(entry: Entry) -> Edit:
    def edit(editor: Editor, verdict: Verdict) -> bool:
        node, conv = _binary(editor, entry), editor.nodes.get(verdict.anchor)
        if node is None or conv is None or conv.target is not aten.convolution.default or node.args[1] is not conv:
            return False
        given, alpha = arguments(conv), arguments(node)["alpha"]
        factor = alpha if node.target is aten.add.Tensor else -alpha
        if isinstance(factor, Node) or not editor.is_constant(given["weight"]):
            return False
        with editor.rewriting(Match(node, (node,), node)):
            for name in ("weight", "bias"):
                held = given[name]
                if held is not None:
                    scaled = editor.constant(
                        editor.constant_value(held) * factor, held, "scaled", key=("scaled", factor)
                    )
                    editor.set_input(conv, held, scaled)
            added = editor.call(aten.add.Tensor, conv, node.args[0], like=node, before=node)
            editor.replace(node, added)
            editor.finish(None)
        return True

    return edit


def _swapped(entry: Entry) -> Edit:
    def edit(editor: Editor, verdict: Verdict) -> bool:
        node = _binary(editor, entry)
        if node is None or not all(isinstance(a, Node) for a in node.args[:2]):
            return False
        with editor.rewriting(Match(node, (), node)):
            editor.set_args(node, (node.args[1], node.args[0]), node.kwargs)
            editor.finish(None)
        return True

    return edit


# ---------------------------------------------------------------- what stands in between
def _in_between(verdict: Verdict, editor: Editor) -> list[Node]:
    """The ops beside the matched nodes that only hand their value on; the one at fault first."""
    touched = [editor.nodes[id] for id in (*verdict.nodes, verdict.anchor) if id in editor.nodes]
    fault = [editor.nodes[verdict.fault]] if verdict.fault in editor.nodes else []
    beside = [*fault, *(n for t in touched for n in (*t.users, *t.all_input_nodes))]
    return list(dict.fromkeys(n for n in beside if n.target in _IN_BETWEEN and isinstance(n.args[0], Node)))[:3]


def _without(id: str) -> Edit:
    def edit(editor: Editor, verdict: Verdict) -> bool:
        """Let the readers read what the node was given, where they can."""
        node = editor.nodes[id]
        source, readers = node.args[0], list(node.users)
        assert isinstance(source, Node)
        checking = [u for u in source.users if u.target in _ASSERTIONS]  # a cast comes with one
        try:
            with editor.rewriting(Match(node, (node, *checking), node)):
                for reader in readers:  # not `replace`: what it reads may be of another shape or dtype now
                    editor.set_input(reader, node, source)
                    if _computed(reader):
                        editor.refresh(reader)
                editor.finish(None)
        except Exception:  # a reader cannot do without it (torch says so, in many ways), and so it is no proposal
            return False
        return True

    return edit


# ---------------------------------------------------------------- other inputs
def batch_1(editor: Editor, verdict: Verdict) -> bool:
    """Give every input that has the anchor's batch size a batch of 1."""
    anchor = editor.nodes[verdict.anchor]
    shape = shape_of(anchor)
    if not shape:
        return False
    batch = shape[0]

    def smaller(value: torch.Tensor) -> torch.Tensor:
        same = value.dim() > 0 and str(value.shape[0]) == str(batch)
        return value.new_empty((1, *value.shape[1:])) if same else value

    return _with_inputs(editor, smaller, constants=False)


def float16(editor: Editor, verdict: Verdict) -> bool:
    """Let inputs and constants be float16."""

    def half(value: torch.Tensor) -> torch.Tensor:
        return value.new_empty(value.shape, dtype=torch.float16) if value.is_floating_point() else value

    return _with_inputs(editor, half, constants=True)


def _with_inputs(editor: Editor, change: Callable[[torch.Tensor], torch.Tensor], *, constants: bool) -> bool:
    """Give placeholders other fake values, and compute those of all that follows again. False: it does not fit."""
    graph = editor.graphs[""]
    try:
        with editor.fake_mode:
            for node in graph.nodes:
                value: Any = value_of(node)
                if (
                    node.op == "placeholder"
                    and isinstance(value, torch.Tensor)
                    and (constants or not editor.is_constant(node))
                ):
                    editor.set_value(node, change(value))
        for node in graph.nodes:
            if node.op == "call_function":
                editor.refresh(node)
    except Exception:  # a literal in the graph (a view's sizes) fits the old inputs only: no proposal
        return False
    return True
