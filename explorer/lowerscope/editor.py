"""Editor: the one place where a graph is changed.

It copies the program's graph once, writes every change into a journal (so that any number of steps can be taken back
exactly), keeps the ledger of lives and provenance, names new nodes so that a name never stands for two nodes, and adds
constants as export would. Nothing here recompiles, retraces or validates; that happens when a snapshot is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch.fx import Graph, Node

from lowerscope.errors import RewriteError
from lowerscope.fake_run import difference
from lowerscope.new_constants import ConstantAdder
from lowerscope.pattern import Match
from lowerscope.strides import follow, same_strides

_INHERITED_META = ("nn_module_stack", "stack_trace", "source_fn_stack", "torch_fn", "custom")
_TRAILING_NUMBER = re.compile(r"^(.*?)(?:_(\d+))?$")


class Editor(ConstantAdder):
    """A changeable copy of a program's graph and sub-graphs: steps are opened, made of calls and replacements, closed."""

    @contextmanager
    def rewriting(self, match: Match) -> Any:
        """Open a step for `match`. Left by an exception, or without a change, it leaves the graph as it was."""
        mark = self.mark()
        self.step += 1
        self._match, self._made, self._began = match, [], mark[0]
        try:
            yield self
        except BaseException:
            self.undo_to(mark)
            raise
        finally:
            self._match = None

    def call(
        self,
        target: Any,
        *args: Any,
        name: str | None = None,
        like: Node | None = None,
        before: Node | None = None,
        **kwargs: Any,
    ) -> Node:
        """Insert a call of `target` before the match's output (or `before`), and return it.

        Its fake value is computed, memoised by op, shapes, dtypes, strides and literals. Module path and source line
        come from `like`, by default from what the match's nodes have in common; nothing that describes rank or axis
        order is inherited. `name` is the stem of its name (default: the op's).
        """
        return self.insert_call(target, args, kwargs, name=name, like=like, before=before)

    def insert_call(
        self,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        name: str | None = None,
        like: Node | None = None,
        before: Node | None = None,
        val: Any = None,
    ) -> Node:
        """As `call`, with the op's arguments in a tuple and a dict. `val`: the fake value, where it is known.

        RewriteError: outside of a rewrite.
        """
        if self._match is None:
            raise RewriteError("nodes are only made inside a rewrite")
        mark = self.mark()
        origin = like if like is not None else self._match.output
        point = before if before is not None else self._match.output
        stem = name or _stem(target)
        node = self._insert(
            point, "call_function", target, args, kwargs, self._fresh(point.graph, stem, self._match.output)
        )
        node.meta.update({k: origin.meta[k] for k in _INHERITED_META if k in origin.meta})
        if like is None:
            node.meta["nn_module_stack"] = self._common_stack(self._match.nodes)
        try:
            node.meta["val"] = self._fake.run(target, args, kwargs) if val is None else self._fake.adopt(val)
        except BaseException:
            self.undo_to(mark)  # a rewrite may go on without a node that the op refused
            raise
        self._write(node, born=self.step)
        self._made.append(self.id_of(node))
        return node

    def replace(self, old: Node, new: Node, *, readers: Iterable[Node] | None = None) -> None:
        """Let every reader of `old` (or just `readers`) read `new` instead.

        Where `new` is laid out otherwise in memory, the strides of what reads it follow. RewriteError: `new` has another
        dtype or shape, or another number of outputs.
        """
        unlike = difference(new.meta.get("val"), old.meta.get("val"))
        if unlike is not None:
            raise RewriteError(f"the replacement gives {unlike} as '{self.id_of(old)}' does")
        # in the order of the graph: the order of `users` tells who was edited last
        for user in sorted(old.users) if readers is None else list(readers):
            if user is not new:
                self.set_input(user, old, new)
        if not same_strides(new.meta.get("val"), old.meta.get("val")):
            follow(self, new)

    def refresh(self, node: Node) -> None:
        """Compute a node's fake value again, after its arguments have changed."""
        self.set_value(node, self.run_again(node))

    def run_again(self, node: Node) -> Any:
        """The fake value that a node has by what it reads now. Whatever its op raises on that comes through."""
        return self._fake.run(node.target, node.args, node.kwargs)

    def finish(self, result: Node | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Close the step: the replacement takes over, what is dead goes, provenance is written.

        Returns the ids taken away and the ids made. RewriteError: it is not inside `rewriting`, changes nothing, or the
        result is no node, or one of another dtype or shape than the match's output.
        """
        match = self._match
        if match is None:
            raise RewriteError("there is no rewrite to finish")
        if not isinstance(result, Node | None):
            raise RewriteError(
                f"rewrite returns a {type(result).__name__}: return the node that gives the value of the match's output, "
                "a Declined, or None"
            )
        taken = [self.id_of(n) for n in match.nodes]
        if result is not None and result is not match.output:
            self.replace(match.output, result)
        gone = self._erase_dead(match.nodes)
        if len(self._journal) == self._began:
            if result is None:
                raise RewriteError(
                    "the rewrite returned nothing and changed nothing: return the node that gives the value"
                )
            raise RewriteError("the rewrite changed nothing")
        made = [id for id in self._made if id in self.nodes]
        for id in made:
            self._relate(id, taken)
        if not made and result is not None:
            self._adopt(self.id_of(result), [t for t in taken if t in gone])
        self._marks[self.step] = len(self._journal)
        return tuple(gone), tuple(made)

    # ------------------------------------------------------------------ inside
    def _fresh(self, graph: Graph, stem: str, output: Node) -> str:
        """A name that no node of this lowering has or had, the same for the same place whatever was done elsewhere."""
        found = _TRAILING_NUMBER.match(output.name)
        number = found.group(2) if found else None
        return self._fresh_name(graph, stem if number is None else f"{stem}_{number}")

    def _common_stack(self, nodes: Sequence[Node]) -> dict[str, Any]:
        stacks = [list((n.meta.get("nn_module_stack") or {}).items()) for n in nodes]
        common: list[tuple[str, Any]] = []
        for level in zip(*stacks, strict=False):
            if any(item[1] != level[0][1] for item in level):
                break
            common.append(level[0])
        return dict(common)

    def _erase_dead(self, nodes: Sequence[Node]) -> list[str]:
        """Erase the nodes that nothing reads any more, and whatever only they read. Constants stay where they are."""
        gone: list[str] = []
        todo, taken = list(nodes), set(nodes)
        while todo:
            node = todo.pop()
            if node._erased or node.users or node.op != "call_function":
                continue
            # what a match has taken goes whatever torch thinks of it (dropout, an in-place op); what only fed it does not
            if node not in taken and node.is_impure():
                continue
            id = self.id_of(node)
            feeding = node.all_input_nodes
            self._erase(node)
            gone.append(id)
            todo.extend(n for n in feeding if not n.users)
            todo.extend(n for n in nodes if not n._erased and not n.users)
        return gone

    def _relate(self, made: str, taken: Sequence[str]) -> None:
        self._set_kin(self.ledger.parents, made, tuple(taken))
        for id in taken:
            self._set_kin(self.ledger.made, id, (*self.ledger.made.get(id, ()), made))

    def _adopt(self, survivor: str, gone: Sequence[str]) -> None:
        """A rewrite that made nothing: a node that was there already stands for those that went."""
        for id in gone:
            self._set_kin(self.ledger.made, id, (survivor,))


def _stem(target: Any) -> str:
    """The op's plain name: "convolution" of aten.convolution.default."""
    schema = getattr(target, "_schema", None)
    name = schema.name.rpartition("::")[2] if schema is not None else getattr(target, "__name__", "call")
    return re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "call"
