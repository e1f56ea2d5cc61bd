"""Networks and recipes at random: a few operators drawn together, as they meet nowhere in a hand-written test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from lowerscope.errors import LowerscopeError
from lowerscope.pattern import REGISTRY
from lowerscope.program import Program
from lowerscope.recipe import Recipe, Skip
from lowerscope.target import pipeline, target_of

CHANNELS = 4
LARGEST = 24  #: no axis becomes longer: what would, leaves its input as it is

#: Activations in the spellings that people use.
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "relu_in_place": F.relu_,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 2.0),
    "clamp": lambda x: x.clamp(0, 6),
    "clamp_min": lambda x: torch.clamp(x, min=0),
    "clamp_max": lambda x: x.clamp(max=1.5),
    "clamp_in_place": lambda x: x.clamp_(-1.0, 1.0),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "gelu": F.gelu,
}

#: What hands a value on in another shape, order or memory, and back.
IN_BETWEEN: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "clone": torch.clone,
    "flatten": lambda x: x.flatten(1).view(x.shape),
    "permute": lambda x: x.transpose(1, -1).contiguous().transpose(1, -1),
    "half_and_half": lambda x: torch.cat([x[:, :2], x[:, 2:]], 1),
}


@dataclass(frozen=True)
class Op:
    """One operator of a random network: what kind, its settings, and how far back it looks for a second operand."""

    kind: str
    settings: tuple[tuple[str, Any], ...] = ()
    back: int = 0

    def __getitem__(self, name: str) -> Any:
        return dict(self.settings)[name]


class RandomNet(nn.Module):
    """The operators one after the other on [batch, 4, *spatial]; what does not fit a value's sizes leaves it as it is.

    Modules are made when the network is first run, for the sizes that they meet there.
    """

    def __init__(self, ops: list[Op], x: torch.Tensor) -> None:
        super().__init__()
        self.ops, self.dims = ops, x.dim() - 2
        self.layers, self.scales = nn.ModuleDict(), nn.ParameterDict()
        with torch.no_grad():
            self(x)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, kept = [x * 1.0], []
        for place, op in enumerate(self.ops):
            value = getattr(self, f"_{op.kind}")(values, op, place)
            if max(value.shape) <= LARGEST and min(value.shape) > 0:
                values.append(value)
            if op.back == 3:
                kept.append(values[-1])  # a second reader: it is an output, too
        return (values[-1], *kept)

    # ------------------------------------------------------------------ layers
    def _layer(self, name: str, make: Callable[[], nn.Module]) -> nn.Module:
        if name not in self.layers:
            self.layers[name] = make().eval()
        return self.layers[name]

    def _conv(self, values: list[torch.Tensor], op: Op, place: int) -> torch.Tensor:
        kind = (nn.Conv1d, nn.Conv2d)[self.dims - 1]
        # equal settings share one module, and so its weight
        name = "conv_" + "_".join(str(v) for _, v in op.settings) if op["shared"] else f"conv_{place}"
        x = values[-1]
        if min(x.shape[2:]) < (op["kernel"] - 1) * op["dilation"] + 1:
            return x
        given = {k: v for k, v in op.settings if k not in ("shared", "kernel")}
        return self._layer(name, lambda: kind(CHANNELS, CHANNELS, op["kernel"], **given))(x)

    def _transposed(self, values: list[torch.Tensor], op: Op, place: int) -> torch.Tensor:
        kind = (nn.ConvTranspose1d, nn.ConvTranspose2d)[self.dims - 1]
        x, given = values[-1], {k: v for k, v in op.settings if k != "kernel"}
        if (min(x.shape[2:]) - 1) * op["stride"] + op["kernel"] - 2 * op["padding"] < 1:
            return x
        return self._layer(f"up_{place}", lambda: kind(CHANNELS, CHANNELS, op["kernel"], **given))(x)

    def _norm(self, values: list[torch.Tensor], op: Op, place: int) -> torch.Tensor:
        def lively() -> nn.Module:
            norm = (nn.BatchNorm1d, nn.BatchNorm2d)[self.dims - 1](CHANNELS, affine=op["affine"])
            assert norm.running_mean is not None
            assert norm.running_var is not None
            nn.init.normal_(norm.running_mean)
            nn.init.uniform_(norm.running_var, 0.3, 2.5)
            for tensor in (norm.weight, norm.bias) if op["affine"] else ():
                nn.init.uniform_(tensor, -1.5, 1.5)
            return norm

        return self._layer(f"norm_{place}", lively)(values[-1])

    def _linear(self, values: list[torch.Tensor], op: Op, place: int) -> torch.Tensor:
        width = values[-1].shape[-1]
        return self._layer(f"linear_{place}", lambda: nn.Linear(width, width, bias=op["bias"]))(values[-1])

    # ------------------------------------------------------------------ without weights
    def _activation(self, values: list[torch.Tensor], op: Op, place: int) -> torch.Tensor:
        return ACTIVATIONS[op["which"]](values[-1])

    def _between(self, values: list[torch.Tensor], op: Op, place: int) -> torch.Tensor:
        return IN_BETWEEN[op["which"]](values[-1])

    def _upsample(self, values: list[torch.Tensor], op: Op, place: int) -> torch.Tensor:
        return F.interpolate(values[-1], scale_factor=2, mode="nearest")

    def _add(self, values: list[torch.Tensor], op: Op, place: int) -> torch.Tensor:
        x = values[-1]
        alike = [v for v in values[:-1] if v.shape == x.shape]
        other: Any = alike[-1 - op.back % len(alike)] if alike else 0.75
        how = op["how"]
        if how == "scaled" and alike:
            name = f"scale_{place}"
            if name not in self.scales:
                self.scales[name] = nn.Parameter(torch.rand(1, CHANNELS, *[1] * self.dims) + 0.5)
            return x + other * self.scales[name]
        if how == "in_place":
            return x.add_(other)
        if how == "swapped":
            return other + x
        if how == "sub":
            return x - other
        return torch.add(x, other, alpha=op["alpha"])


def _settings(**drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[tuple[str, Any], ...]]:
    return st.fixed_dictionaries(drawn).map(lambda found: tuple(found.items()))


def _ops(kind: str, **drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[Op]:
    return st.builds(Op, st.just(kind), _settings(**drawn), st.integers(0, 3))


_FLAG, _GROUPS = st.booleans(), st.sampled_from([1, 1, 2, 4])
OPS_BY_KIND: dict[str, st.SearchStrategy[Op]] = {
    "conv": _ops(
        "conv",
        kernel=st.sampled_from([1, 3]),
        stride=st.sampled_from([1, 1, 2]),
        padding=st.sampled_from([0, 1, 1]),
        dilation=st.sampled_from([1, 1, 2]),
        groups=_GROUPS,
        bias=_FLAG,
        shared=_FLAG,
    )
    | _ops("conv", kernel=st.just(3), padding=st.just("same"), dilation=st.just(1), groups=_GROUPS, shared=_FLAG),
    "transposed": _ops(
        "transposed",
        kernel=st.sampled_from([2, 3, 4]),
        stride=st.just(2),
        padding=st.sampled_from([0, 1]),
        output_padding=st.sampled_from([0, 0, 1]),
        groups=_GROUPS,
        bias=_FLAG,
    ),
    "norm": _ops("norm", affine=_FLAG),
    "activation": _ops("activation", which=st.sampled_from(list(ACTIVATIONS))),
    "add": _ops(
        "add",
        how=st.sampled_from(["scaled", "in_place", "swapped", "sub", "alpha"]),
        alpha=st.sampled_from([1, 2, -0.5]),
    ),
    "between": _ops("between", which=st.sampled_from(list(IN_BETWEEN))),
    "upsample": _ops("upsample"),
    "linear": _ops("linear", bias=_FLAG),
}
OPS = st.sampled_from(list(OPS_BY_KIND)).flatmap(OPS_BY_KIND.__getitem__)

_WIDE = _ops(
    "conv", kernel=st.just(3), padding=st.just("same"), dilation=st.just(1), groups=st.just(1), bias=_FLAG, shared=_FLAG
)
_FOLLOWED = st.tuples(OPS_BY_KIND["conv"], OPS_BY_KIND["norm"] | OPS_BY_KIND["add"], OPS_BY_KIND["activation"])
#: What patterns look for, so that it comes up more often than chance has it: a convolution and what follows it. Two
#: targets look for less than the others: their networks have more of just that.
LOOKED_FOR: dict[str, st.SearchStrategy[tuple[Op, ...]]] = {
    "ort-webgpu": st.tuples(_WIDE, OPS_BY_KIND["norm"] | OPS_BY_KIND["add"], OPS_BY_KIND["activation"]),
    "ethos-u": st.tuples(OPS_BY_KIND["conv"], OPS_BY_KIND["norm"], OPS_BY_KIND["activation"]),
}


@st.composite
def nets(draw: st.DrawFn, target: str = "") -> tuple[RandomNet, tuple[torch.Tensor]]:
    """A network of 3 to 10 operators, in 1-D or 2-D, with what the target's patterns look for, and its input."""
    followed = draw(LOOKED_FOR.get(target, _FOLLOWED))
    ops = [*draw(st.lists(OPS, max_size=4)), *followed, *draw(st.lists(OPS, max_size=3))]
    shape = (draw(st.sampled_from([1, 1, 2])), CHANNELS, *draw(st.sampled_from([(6, 5), (6, 6), (7,)])))
    torch.manual_seed(draw(st.integers(0, 99)))
    x = torch.randn(shape)
    return RandomNet(ops, x).eval(), (x,)


@st.composite
def recipes(draw: st.DrawFn, program: Program, target: str) -> Recipe:
    """A recipe that the target takes: patterns off, skips of every kind, a pattern put in, another device."""
    recipe = Recipe(target)
    names = [p.name for p in pipeline(target)]
    recipe = recipe.disable(*draw(st.lists(st.sampled_from(names), max_size=2, unique=True)))
    calls = [n for n in program.graph.nodes if n.op == "call_function"]
    skips = [
        st.builds(Skip, pattern=st.sampled_from(names)),
        st.builds(Skip, op=st.sampled_from(["aten.relu", "aten.convolution", "aten.add.Tensor", "aten.clamp"])),
        st.builds(Skip, node=st.sampled_from(calls).map(lambda n: n.name)),
        st.builds(Skip, module=st.sampled_from(["layers.*", "layers.conv_0", "layers.norm_*"])),
        st.builds(Skip, pattern=st.sampled_from(names), node=st.sampled_from(calls).map(lambda n: n.name)),
    ]
    recipe = recipe.skip(*draw(st.lists(st.one_of(skips), max_size=2)))
    profile = {f.name: f for f in target_of(target).profile}
    if profile and draw(st.booleans()):
        field = profile[draw(st.sampled_from(sorted(profile)))]
        choices = (
            st.sampled_from(field.choices)
            if field.choices
            else st.sampled_from([type(field.default)(1), field.default])
        )
        recipe = recipe.with_profile(**{field.name: draw(choices)})
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(p.name for p in REGISTRY if not p.yours)))
        return _allowed(recipe.insert(name, after=draw(st.sampled_from(names)))) or recipe
    return recipe


def _allowed(recipe: Recipe) -> Recipe | None:
    """The recipe, unless the order of the patterns or the target forbids what it puts in."""
    try:
        pipeline(recipe.target, recipe.insertions)
    except LowerscopeError:
        return None
    refused = target_of(recipe.target).refused
    return None if any(i.pattern in refused for i in recipe.insertions) else recipe


def draws(count: int) -> settings:
    """Settings for `count` draws, of networks that take their time to be drawn and exported."""
    unhurried = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=count, suppress_health_check=unhurried)
