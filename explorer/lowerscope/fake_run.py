"""Fake values of new nodes: the op is run on fake inputs once per distinct call, and never on the rest of the graph."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from lowerscope.errors import RewriteError

_TORCHS_LOG = logging.getLogger("torch._subclasses.fake_tensor")
_LITERALS = frozenset({int, bool, str, type(None), torch.dtype})


class Undescribable(Exception):
    """A call whose result depends on more than a key can hold (symbolic sizes)."""


class FakeRunner:
    """Runs single ops in one program's fake mode, memoised by op, shapes, dtypes, strides and literals.

    Equal calls share one fake value object: values are read, never written.
    """

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self._memo: dict[Any, Any] = {}

    def run(self, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The fake value of `target(*args, **kwargs)`; nodes stand for their own fake values.

        Whatever the op itself raises on such inputs (a shape that does not fit) comes through.
        """
        try:
            key: Any = (target, describe(tuple(args)), describe(kwargs))
            if key in self._memo:
                return self._memo[key]
        except (Undescribable, TypeError):  # TypeError: an argument that cannot be hashed
            key = None
        values: Any = map_arg((tuple(args), dict(kwargs)), lambda n: n.meta.get("val"))
        # the dispatcher's own kernels read symbolic sizes as the numbers of the example; torch's Python ones do not
        python = enable_python_dispatcher() if key is None else nullcontext()
        with self.mode, python, torch.no_grad(), sizes_kept(self.mode, target), _not_logged():
            result = target(*values[0], **values[1])
        if key is not None and not pytree.tree_any(is_symbolic, result):
            self._memo[key] = result
        return result

    def from_tensor(self, tensor: torch.Tensor) -> FakeTensor:
        """The fake value of a constant: its shape, strides and dtype, no size of which is a symbol."""
        key = ("constant", tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        if key not in self._memo:
            self._memo[key] = self.mode.from_tensor(tensor.detach(), static_shapes=True)
        return self._memo[key]

    def adopt(self, value: Any) -> Any:
        """An equal fake value of this program's mode for one of another's (decompositions are memoised across programs)."""
        return pytree.tree_map(self._adopt, value) if isinstance(value, (list, tuple)) else self._adopt(value)

    def _adopt(self, value: Any) -> Any:
        if not isinstance(value, FakeTensor) or value.fake_mode is self.mode:
            return value
        key = ("adopted", describe(value))
        if key not in self._memo:
            with self.mode:
                self._memo[key] = torch.empty_strided(
                    value.shape, value.stride(), dtype=value.dtype, device=value.device
                )
        return self._memo[key]


@contextmanager
def _not_logged() -> Iterator[None]:
    """Keep torch from logging, with its whole stack, an error that is raised all the same and told in a sentence."""
    before, _TORCHS_LOG.disabled = _TORCHS_LOG.disabled, True
    try:
        yield
    finally:
        _TORCHS_LOG.disabled = before


@contextmanager
def sizes_kept(mode: FakeTensorMode, target: Any) -> Iterator[None]:
    """Leave the program's symbols as they are. RewriteError: the call fixes one of them."""
    env = mode.shape_env
    if env is None:
        yield
        return
    replacements, ranges, count = dict(env.replacements), dict(env.var_to_range), len(env.guards)
    yield
    if len(env.guards) == count:
        return
    fixed = [f"{symbol} = {value}" for symbol, value in env.replacements.items() if symbol not in replacements]
    # what a kernel asked about a size (is it large enough for another algorithm?) says nothing about the program
    del env.guards[count:]
    env.replacements.clear()
    env.replacements.update(replacements)
    env.var_to_range.clear()
    env.var_to_range.update(ranges)
    env._replacements_version_counter += 1
    env._update_version_counter()
    if fixed:
        raise RewriteError(
            f"{target} with these arguments holds for {', '.join(fixed)} alone: "
            "give it sizes that do not depend on the example's"
        )


def describe(value: Any) -> Any:
    """A hashable description of an argument: of a node its tensor's shape, strides, dtype and device, else the literal.

    Undescribable: something in it is symbolic.
    """
    if type(value) in _LITERALS:
        return (type(value), value)
    if isinstance(value, Node):
        value = value.meta.get("val")
    if isinstance(value, torch.Tensor):
        if is_symbolic(value):
            raise Undescribable
        return (value.shape, value.stride(), value.dtype, value.device, value.requires_grad)
    if isinstance(value, (list, tuple)):
        return tuple([describe(v) for v in value])
    if isinstance(value, Mapping):
        return tuple([(k, describe(v)) for k, v in value.items()])
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise Undescribable
    if isinstance(value, float):
        return (float, value.hex())  # 0.0 and -0.0 are equal, and are not the same literal
    return (type(value), value)


def difference(made: Any, wanted: Any) -> str | None:
    """In what a fake value differs from the one that it stands in for: "float32 [1, 4], not float32 [1, 8]"; None: in nothing.

    dtype and shape of every tensor are compared. Symbolic sizes that neither are the same for all inputs nor differ for
    all are compared as they are in the example.
    """
    if isinstance(made, (tuple, list)) and isinstance(wanted, (tuple, list)):
        if len(made) != len(wanted):
            return f"{len(made)} outputs, not {len(wanted)}"
        return next((told for m, w in zip(made, wanted, strict=True) if (told := difference(m, w)) is not None), None)
    if made is None or wanted is None:  # of a call whose fake value is not known, nothing is
        return None
    if not isinstance(made, torch.Tensor) or not isinstance(wanted, torch.Tensor):
        return None if _kind(made) == _kind(wanted) else f"{_kind(made)}, not {_kind(wanted)}"
    if made is wanted or (made.dtype == wanted.dtype and _same_sizes(made.shape, wanted.shape)):
        return None
    return f"{_kind(made)}, not {_kind(wanted)}"


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"{len(value)} outputs"
    return {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}.get(type(value), type(value).__name__)


def sizes_agree(made: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether two shapes are the same for all inputs, so far as their symbols tell."""
    return len(made) == len(wanted) and all(
        m is w or statically_known_true(m == w) for m, w in zip(made, wanted, strict=True)
    )


def _same_sizes(made: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return len(made) == len(wanted) and all(m is w or _same_size(m, w) for m, w in zip(made, wanted, strict=True))


def _same_size(made: Any, wanted: Any) -> bool:
    if isinstance(made, int) and isinstance(wanted, int):
        return made == wanted
    if statically_known_true(made == wanted):
        return True
    hints = [s.node.hint if isinstance(s, torch.SymInt) and s.node.has_hint() else s for s in (made, wanted)]
    if not all(isinstance(h, int) for h in hints):  # a size that only the data tells
        return not statically_known_true(made != wanted)
    return hints[0] == hints[1] and not statically_known_true(made != wanted)


def is_symbolic(value: Any) -> bool:
    """Whether a fake value has a size that is not a number."""
    if isinstance(value, torch.Tensor):
        return isinstance(value, FakeTensor) and value._has_symbolic_sizes_strides
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
