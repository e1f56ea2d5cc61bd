"""torch.export.export, with its failures said in one sentence and the module left as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from lowerscope.errors import CaptureError

# What torch says -> what to do about it. torch's own advice is spread over a page, and often about its debug flags.
_REMEDIES: tuple[tuple[str, str], ...] = (
    (r"in output, which is not a known type", "return tensors in tuples, lists or dicts, or {register}"),
    (r"Unsupported input type", "give tensors in tuples, lists or dicts, or {register}"),
    (r"data-dependent", "write the branch with torch.cond, or promise the range with torch._check"),
    (r"no fake impl|fake tensor impl|meta kernel", "register one with torch.library.register_fake"),
    (r"structure of `inputs` and `dynamic_shapes`", "give dynamic_shapes one entry for each argument"),
    (r"Constraints violated", "give that dimension the size itself, or Dim.AUTO"),
    (r"ScriptModule", "capture the nn.Module that it was scripted from"),
    (r"missing a required argument|unexpected keyword argument|too many positional", "give args as forward takes them"),
    (r"numpy", "use torch operators in the place of NumPy's"),
)
_REGISTER = "register the class with torch.export.register_dataclass"
_DEFAULT = "run the module on these inputs first, to see whether it works without export"
_LONGEST = 240


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    *,
    strict: bool,
) -> torch.export.ExportedProgram:
    """Export `module`; see `lowerscope.capture`. CaptureError: it cannot be exported; says why."""
    if not isinstance(args, tuple):
        raise CaptureError(f"args is a {type(args).__name__}: give the example inputs as a tuple, such as (x,)")
    try:
        with unchanged(module):
            return torch.export.export(
                module, args, None if kwargs is None else dict(kwargs), dynamic_shapes=dynamic_shapes, strict=strict
            )
    # The module's own code runs here, so that anything at all may be raised; it is kept as the cause.
    except Exception as error:
        raise CaptureError(f"{type(module).__name__} cannot be exported: {_reason(error)}") from error


@contextmanager
def unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Put back every attribute, parameter, buffer, hook and mode of `module` and its children at the end.

    A ``forward`` that keeps a tensor in an attribute is left with a fake one by torch.export.
    """
    registries = ("_parameters", "_buffers", "_modules")
    before = []
    for part in module.modules():
        attributes = dict(vars(part))
        before.append((part, attributes, {name: dict(attributes.get(name, {})) for name in registries}))
    try:
        yield
    finally:
        for part, attributes, registered in before:
            vars(part).clear()
            vars(part).update(attributes)
            for name, content in registered.items():
                registry = attributes.get(name)
                if registry is not None:
                    registry.clear()
                    registry.update(content)


def _reason(error: Exception) -> str:
    text = str(error)
    # dynamo puts its own words first, and what was raised within far behind: got RuntimeError("...")
    within = re.search(r"""got \w+\((["'])(.+?)\1\)""", text, re.DOTALL)
    text = within[2] if within else text
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    # The first sentence: a full stop inside a name or a number ends none.
    sentence = re.split(r"(?<=[\w)\]>'`])[.!](?:\s|$)", line, maxsplit=1)[0]
    if sentence.startswith("Constraints violated"):
        sentence = "; ".join([sentence, *(found.rstrip(".") for found in re.findall(r"^\s+- ([^.]+)", text, re.M)[:1])])
    if len(sentence) > _LONGEST:
        sentence = sentence[: _LONGEST - 3] + "..."
    if isinstance(error, (KeyError, AttributeError, ValueError, IndexError, ZeroDivisionError)):
        sentence = f"{type(error).__name__}: {sentence}"
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, text)), _DEFAULT)
    return f"{sentence}; {remedy.format(register=_REGISTER)}"
