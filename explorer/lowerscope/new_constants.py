"""New constants of a rewrite: of the kind of those they replace, named as export names them, shared by key."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from lowerscope.errors import RewriteError
from lowerscope.graph_state import GraphState
from lowerscope.journal import NewConstant
from lowerscope.subgraph_constants import with_operand

_KIND_PREFIX = {"parameter": "p_", "buffer": "b_", "constant": "c_"}


class ConstantAdder(GraphState):
    """The part of an Editor that brings new constants into the program and its sub-graphs."""

    def constant(
        self, tensor: torch.Tensor | Callable[[], torch.Tensor], like: Node | None, suffix: str, key: Any = None
    ) -> Node:
        """A new constant of the kind of `like` (a constant's placeholder), and its placeholder.

        like None: one that comes from no other, such as a table of tanh; a lifted constant called `suffix`.

        `tensor`, of any shape and dtype, may be a function, called once for all times that the same `key` is asked for
        in this session. The same key within one lowering gives the same constant. For a match in a sub-graph it is
        brought in as an operand.
        RewriteError: `like` is no constant.
        """
        anchor = None if like is None else self.constant_origin(like)
        if like is not None and anchor is not None and not self.is_constant(anchor):
            raise RewriteError(f"'{self.id_of(like)}' is no constant to make another one like")
        full_key = (anchor and anchor.name, suffix, key)
        known = self._constants_by_key.get(full_key)
        if known is None:
            value = self.remember(full_key, tensor) if callable(tensor) else tensor
            known = self._add_constant(value.detach(), anchor, suffix)
            self._constants_by_key[full_key] = known
            self._journal.append(("key", full_key))
        node = self.nodes[known]
        return node if self._match is None else self._brought_into(self.prefixes[self._match.output.graph], node)

    def remember(self, key: Any, compute: Callable[[], Any]) -> Any:
        """`compute()`, once per key and pattern at work (toggling back and forth costs nothing).

        A key may name constants: once a new constant's name stands for another tensor, everything is computed anew.
        """
        key = (self.at_work, key)
        if key not in self.computed:
            self.computed[key] = compute()
        return self.computed[key]

    def _brought_into(self, prefix: str, constant: Node) -> Node:
        """The placeholder by which the sub-graph at `prefix` reads a constant of the top graph; a new one where it must."""
        if not prefix:
            return constant
        known = self._inner_constants.get((prefix, constant.name))
        if known is not None:
            return self.nodes[known]
        path, outer = prefix[:-1], prefix[:-1].rpartition("/")[0]
        outer = f"{outer}/" if outer else ""
        operand = self._brought_into(outer, constant)
        target = path[len(outer) :]
        holders = [n for n in self.graphs[outer].find_nodes(op="get_attr") if str(n.target) == target]
        calls = dict.fromkeys(u for holder in holders for u in holder.users)
        for call in calls:
            held = [n for n in call.all_input_nodes if n.op == "get_attr" and f"{outer}{n.target}/" in self.graphs]
            for holder in held:  # every branch of a cond takes the same operands
                self._add_placeholder(f"{outer}{holder.target}/", constant, operand)
            self.set_args(call, with_operand(call, operand), call.kwargs)
        return self.nodes[self._inner_constants[prefix, constant.name]]

    def _add_placeholder(self, prefix: str, constant: Node, operand: Node) -> None:
        if (prefix, constant.name) in self._inner_constants:
            return
        graph = self.graphs[prefix]
        last = [n for n in graph.nodes if n.op == "placeholder"][-1:]
        name = self._fresh_name(graph, constant.name)
        with graph.inserting_after(last[0]) if last else graph.inserting_before(next(iter(graph.nodes))):
            node = graph.create_node("placeholder", name, (), {}, name=name)
        id = self.id_of(node)
        self.nodes[id] = node
        self._journal.append(("new", id))
        node.meta["val"] = constant.meta["val"]
        self._write(node, born=self.step)
        self._operands[id] = operand
        self._inner_constants[prefix, constant.name] = id
        self._journal.append(("inner", (prefix, constant.name), id))

    def _add_constant(self, tensor: torch.Tensor, like: Node | None, suffix: str) -> str:
        root = None if like is None else self.root_constant(like.name)
        kind = "constant" if root is None else self.program.constant_kind(root)
        key = self._fresh_key(suffix if like is None else f"{self._key_of(like.name)}_{suffix}")
        # ASCII, as fx has names: it would call the node otherwise than the ledger does
        name = self._fresh_name(self.graphs[""], _KIND_PREFIX[kind] + re.sub(r"\W", "_", key, flags=re.ASCII))
        value = torch.nn.Parameter(tensor, requires_grad=False) if kind == "parameter" else tensor
        graph = self.graphs[""]
        with graph.inserting_after(like) if like is not None else graph.inserting_before(self._after_constants()):
            node = graph.create_node("placeholder", name, (), {}, name=name)
        self.nodes[name] = node
        self._journal.append(("new", name))
        if like is not None:
            node.meta.update({k: v for k, v in like.meta.items() if k in ("custom", "delegate_constant_tag")})
        node.meta["val"] = self._fake.from_tensor(value)
        self._write(node, born=self.step)
        self._keep_constant(NewConstant(name, None if like is None else like.name, key, value))
        self._journal.append(("constant", name))
        if like is not None:
            self._relate_constant(name, like.name)
        return name

    def _after_constants(self) -> Node:
        """The first node behind the constants' placeholders, which export puts before the inputs'."""
        return next(n for n in self.graphs[""].nodes if not self.is_constant(n) and n.name not in self.program.mutated)

    def _key_of(self, name: str) -> str:
        return self.new_constants[name].key if name in self.new_constants else self.program.specs[name].target or name

    def _relate_constant(self, made: str, source: str) -> None:
        self._set_kin(self.ledger.parents, made, (source,))
        self._set_kin(self.ledger.made, source, (*self.ledger.made.get(source, ()), made))

    def root_constant(self, name: str) -> str | None:
        """The program's own constant that a constant is made like; None where it is like none."""
        root: str | None = name
        while root in self.new_constants:
            root = self.new_constants[root].like
        return root

    def _fresh_key(self, base: str) -> str:
        """A name under which neither the program nor a rewrite keeps a tensor yet."""
        key, count = base, 0
        while key in self._kept_keys:
            count += 1
            key = f"{base}_{count}"
        self._kept_keys.add(key)
        return key
