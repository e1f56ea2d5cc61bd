"""Support tables: operators with their dtypes, ranks and limits, and the reason why a node falls outside of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch._ops import OpOverload

from lowerscope.arguments import arguments, dtype_name, op_of
from lowerscope.ops import display_name

FLOATING = frozenset({torch.float16, torch.float32})
QUANTIZED = frozenset({torch.int8, torch.uint8, torch.int16, torch.int32})


class Around(Protocol):
    """The graph that a call stands in. `reference` is how the call's arguments hold another node."""

    def value(self, reference: Any) -> Any:
        """The fake value of a node; None for what is no node."""
        ...

    def is_constant(self, reference: Any, dequantized: bool = False) -> bool:
        """Whether the node is a constant of the program, or one merely transposed or, if `dequantized`, dequantized."""
        ...

    def target(self, reference: Any) -> Any:
        """The op of a node, None for what computes nothing."""
        ...

    def items_read(self, call: Any) -> frozenset[int] | None:
        """Which outputs of an op with several are read; None when something reads them as a whole."""
        ...


@dataclass(frozen=True)
class Site:
    """One call in its graph. `call` is an fx node or a ledger's record: both have `target`, `args` and `kwargs`."""

    call: Any
    around: Around
    profile: Mapping[str, Any]
    inputs: tuple[Any, ...]  #: the nodes that it reads
    output: Any  #: its fake value, or the tuple of them

    @cached_property
    def given(self) -> dict[str, Any]:
        """The arguments by name, defaults included."""
        return arguments(self.call)

    def shape(self, name: str) -> tuple[Any, ...] | None:
        """The shape of the tensor that is given for an argument."""
        value = self.around.value(self.given.get(name))
        return tuple(value.shape) if isinstance(value, torch.Tensor) else None

    def constant(self, name: str, dequantized: bool = False) -> bool:
        """Whether an argument is a constant of the program, or left out. dequantized: the codes of one do, too."""
        return self.given.get(name) is None or self.around.is_constant(self.given[name], dequantized)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """("input" or "output", tensor) of everything that it reads and gives."""
        for reference in self.inputs:
            value = self.around.value(reference)
            if isinstance(value, torch.Tensor):
                yield "input", value
        for value in self.output if isinstance(self.output, (tuple, list)) else (self.output,):
            if isinstance(value, torch.Tensor):
                yield "output", value


#: None when a call is within the limit, else the reason why not.
Limit = Callable[[Site], str | None]


@dataclass(frozen=True)
class Support:
    """Operators that a backend has, and for what.

    ops: as torch names them ("aten::add.Tensor"). inputs, outputs: the dtypes of tensors (outputs None: those of inputs).
    ranks: of its first output; None: any. limits: what else must hold.
    """

    ops: tuple[str, ...]
    inputs: frozenset[torch.dtype] = FLOATING
    outputs: frozenset[torch.dtype] | None = None
    ranks: tuple[int, ...] | None = None
    limits: tuple[Limit, ...] = ()


class Table:
    """What a backend takes. `common`: limits of every call."""

    def __init__(self, backend: str, entries: Iterable[Support], common: tuple[Limit, ...] = ()) -> None:
        self.backend = backend
        self.common = common
        self.entries: dict[str, Support] = {op: entry for entry in entries for op in entry.ops}

    def __call__(self, site: Site) -> str | None:
        """None when the backend takes the call, else the reason why not."""
        entry = self.entries.get(op_of(site.call.target))
        if entry is None:
            return f"{self.backend} has no operator for {display_name(site.call.target)}"
        return self._dtype(site, entry) or self._rank(site, entry) or self._limit(site, entry)

    def _dtype(self, site: Site, entry: Support) -> str | None:
        for role, tensor in site.tensors():
            allowed = entry.inputs if role == "input" or entry.outputs is None else entry.outputs
            if tensor.dtype not in allowed:
                return f"an {role} is {dtype_name(tensor.dtype)}; {self.backend} has {display_name(site.call.target)} for {_listed(allowed)}"
        return None

    def _rank(self, site: Site, entry: Support) -> str | None:
        if entry.ranks is None:
            return None
        value = site.output[0] if isinstance(site.output, (tuple, list)) else site.output
        if isinstance(value, torch.Tensor) and value.dim() not in entry.ranks:
            wanted = " or ".join(f"{rank}-D" for rank in entry.ranks)
            return f"its result is {value.dim()}-D; {self.backend} has {display_name(site.call.target)} for {wanted}"
        return None

    def _limit(self, site: Site, entry: Support) -> str | None:
        for limit in (*self.common, *entry.limits):
            reason = limit(site)
            if reason is not None:
                return reason
        return None


def ops(names: str, namespace: str = "aten") -> tuple[str, ...]:
    """The torch names of a list such as "relu add.Tensor"; overload "default" is left out."""
    return tuple(f"{namespace}::{name}" for name in names.split())


def own(*operators: OpOverload) -> tuple[str, ...]:
    """The torch names of reference operators of our own."""
    return tuple(operator.name() for operator in operators)


def constant_weights(*names: str, dequantized: bool = False) -> Limit:
    """The arguments are constants of the program: the backend packs them ahead of time.

    dequantized: it packs codes as well, and computes with them, so that a weight may be what dequantizes a constant.
    """

    def limit(site: Site) -> str | None:
        computed = next((name for name in names if not site.constant(name, dequantized)), None)
        return None if computed is None else f"its {computed} is computed in the graph, not a constant"

    return limit


def one_dtype(site: Site) -> str | None:
    """All floating-point inputs are of one dtype."""
    found = dict.fromkeys(t.dtype for role, t in site.tensors() if role == "input" and t.is_floating_point())
    return f"its inputs are of several dtypes: {_listed(found)}" if len(found) > 1 else None


def static_sizes(site: Site) -> str | None:
    """No size of what it reads and gives is a symbol."""
    symbolic = next((s for _, t in site.tensors() for s in t.shape if not isinstance(s, int)), None)
    return None if symbolic is None else f"a size is not known ahead of time: {symbolic}"


def not_empty(site: Site) -> str | None:
    """No input has a size of 0."""
    empty = next(
        (t for role, t in site.tensors() if role == "input" and any(isinstance(s, int) and s == 0 for s in t.shape)),
        None,
    )
    return None if empty is None else f"an input of shape {tuple(empty.shape)} holds nothing"


def only_values(site: Site) -> str | None:
    """Of an operator with several outputs only the first is read."""
    read = site.around.items_read(site.call)
    return None if read is not None and read <= {0} else "more than the first of its outputs is read"


def unscaled(site: Site) -> str | None:
    """An addition or subtraction is not scaled: alpha is 1."""
    alpha = site.given.get("alpha", 1)
    return None if alpha == 1 else f"alpha is {alpha}, not 1"


def _listed(dtypes: Iterable[torch.dtype]) -> str:
    return ", ".join(sorted(map(dtype_name, dtypes)))
