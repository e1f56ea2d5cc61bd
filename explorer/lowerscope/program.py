"""Program: an exported program as the explorer sees it, and `capture`, which makes one from a module."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch._export.serde.serialize import _TORCH_TO_SERIALIZE_DTYPE
from torch.export.graph_signature import InputKind, InputSpec

from lowerscope.edge_dialect import NOTE, aten_program, exported_program_of, is_edge
from lowerscope.errors import CaptureError, LowerscopeError, first_line, unknown
from lowerscope.example_inputs import Inputs, dynamic_sizes, lively_inputs
from lowerscope.mutation import mutated_placeholders

_KINDS = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}


class Program:
    """A `torch.export.ExportedProgram` with a name, inputs to run it on, and its constants by placeholder.

    The exported program is neither changed nor copied: its graph and its weights are shared. Nothing is recompiled or
    validated here, so making a Program costs microseconds at any size.

    Args:
        exported_program: the exported program, or another Program, whose name, path and inputs are then the defaults. One
            in ExecuTorch's edge dialect (`to_edge`), or its `EdgeProgramManager`, is opened in ATen operators; `notes` says so.
        name: what views call it; by default the file's stem, or the module's class name.
        path: the file it came from, if any.
        example_inputs: ``(args, kwargs)``; by default those that the exported program carries, if any.
        stand_ins: a stand-in's target (``str(node.target)``) -> the operator that it stands for; see `lowerscope.load`.

    Raises:
        LowerscopeError: `exported_program` is something else.
    """

    def __init__(
        self,
        exported_program: torch.export.ExportedProgram | Program,
        *,
        name: str | None = None,
        path: str | os.PathLike[str] | None = None,
        example_inputs: Inputs | None = None,
        stand_ins: Mapping[str, str] | None = None,
    ) -> None:
        other = exported_program if isinstance(exported_program, Program) else None
        if other is not None:
            exported_program = other.exported_program
            name = other.name if name is None else name
            path = other.path if path is None else path
            example_inputs = other._own_inputs if example_inputs is None else example_inputs
            stand_ins = stand_ins or other.stand_ins
        self.notes: tuple[str, ...] = other.notes if other is not None else ()
        exported_program = exported_program_of(exported_program)
        if not isinstance(exported_program, torch.export.ExportedProgram):
            raise LowerscopeError(_not_a_program(exported_program))
        if is_edge(exported_program):
            exported_program, self.notes = aten_program(exported_program), (*self.notes, NOTE)
        self.exported_program = exported_program
        self.path = None if path is None else os.fspath(path)
        self.name = name or (Path(self.path).stem if self.path else "program")
        self.stand_ins = dict(stand_ins or {})
        self._own_inputs = None if example_inputs is None else _as_inputs(example_inputs)

    @property
    def graph(self) -> torch.fx.Graph:
        """The top graph. Not to be changed: an Editor changes a copy."""
        return self.exported_program.graph

    @property
    def graph_module(self) -> torch.fx.GraphModule:
        """The module that owns the top graph and the sub-graphs of its higher-order operators."""
        return self.exported_program.graph_module

    @property
    def example_inputs(self) -> Inputs | None:
        """``(args, kwargs)`` as given here or carried by the exported program, or None. LowerscopeError: they are no such pair."""
        if self._own_inputs is not None:
            return self._own_inputs
        carried = self.exported_program.example_inputs
        return _as_inputs(carried) if carried else None

    @cached_property
    def specs(self) -> Mapping[str, InputSpec]:
        """Placeholder name -> its input spec, in the placeholders' order; built once, for `is_param` searches each time."""
        names = (node.name for node in self.graph.nodes if node.op == "placeholder")
        return dict(zip(names, self.exported_program.graph_signature.input_specs, strict=True))

    @cached_property
    def constants(self) -> Mapping[str, torch.Tensor]:
        """Placeholder name -> the tensor it stands for: parameters, buffers and lifted constants, shared, not copied."""
        return dict(self._constants())

    def _constants(self) -> Iterator[tuple[str, torch.Tensor]]:
        state, lifted = self.exported_program.state_dict, self.exported_program.constants
        for name, spec in self.specs.items():
            if spec.kind not in _KINDS or spec.target is None:
                continue
            # A persistent buffer lives in the state dict, any other one among the lifted constants.
            value = state[spec.target] if spec.target in state else lifted.get(spec.target)
            if isinstance(value, torch.Tensor):
                yield name, value

    def constant_kind(self, name: str) -> str:
        """ "parameter", "buffer" or "constant", for the placeholder called `name`.

        Raises:
            UnknownNameError: no constant has that placeholder.
        """
        if name not in self.constants:
            raise unknown("constant", name, self.constants)
        return _KINDS[self.specs[name].kind]

    @cached_property
    def user_inputs(self) -> tuple[str, ...]:
        """The placeholders that the caller's inputs feed, in order."""
        return tuple(name for name, spec in self.specs.items() if spec.kind is InputKind.USER_INPUT)

    @cached_property
    def mutated(self) -> frozenset[str]:
        """The placeholders (buffers, user inputs) whose tensors a run writes to.

        Both spellings count: the signature's mutation outputs of a functional program, and in-place operators on a
        placeholder or a view of it in one that is not functional yet.
        """
        return mutated_placeholders(self.graph, self.exported_program.graph_signature, self.specs)

    def inputs(self, seed: int = 0, sizes: Mapping[str, int] | None = None) -> Inputs:
        """Inputs to run the program on: ``(args, kwargs)``, of the structure that it was exported with.

        Seed 0 gives the example inputs where there are any. Any other seed, or a `sizes`, gives *lively* ones: random
        values of the placeholders' shapes and dtypes that stay in the range of the examples, and of the tables that
        integers index.

        Args:
            seed: of the random values; the same seed gives the same inputs.
            sizes: symbol of a dynamic dimension (``"s0"``, see `dynamic_sizes`) or ``"x[0]"`` -> the size it is to
                have; the others keep the size that the program was exported with.

        Raises:
            UnknownNameError: `sizes` names a dimension that is not dynamic.
            MeasureError: a size is out of the range allowed at export, or an input has no tensor or number to make up.
        """
        examples = self.example_inputs
        if seed == 0 and not sizes and examples is not None:
            return examples
        return lively_inputs(self.exported_program, seed=seed, sizes=sizes or {}, examples=examples)

    @property
    def dynamic_sizes(self) -> dict[str, tuple[int, int | None]]:
        """Symbol of each dynamic input dimension -> the sizes it may have, (smallest, largest or None)."""
        return dynamic_sizes(self.exported_program)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the program, with its example inputs, to a ``.pt2`` file; a file half written never takes its place.

        Raises:
            LowerscopeError: the name does not end in ``.pt2``, or torch cannot save the program.
        """
        path = Path(path)
        if path.suffix != ".pt2":
            raise LowerscopeError(f"cannot save to {str(path)!r}: exported programs are kept in files named '*.pt2'")
        for name, tensor in self.constants.items():
            if tensor.dtype not in _TORCH_TO_SERIALIZE_DTYPE:
                raise LowerscopeError(
                    f"cannot save {self.name!r}: its {self.constant_kind(name)} {self.specs[name].target!r} is of dtype "
                    f"{tensor.dtype}, which the .pt2 format has no code for; store it as torch.uint8"
                )
        exported = self.exported_program
        if self._own_inputs is not None:
            exported = copy.copy(exported)
            exported.example_inputs = self._own_inputs
        partial = path.with_name(f".{path.stem}.{os.getpid()}.pt2")
        try:
            torch.export.save(exported, partial)
            os.replace(partial, path)
        # torch's serializer raises whatever it meets (bare KeyErrors among it); the cause is kept.
        except Exception as error:
            raise LowerscopeError(f"cannot save {self.name!r} to {str(path)!r}: {first_line(error)}") from error
        finally:
            partial.unlink(missing_ok=True)
        return path

    def fingerprint(self) -> str:
        """A hash of the graph, its literals and its constants' values: equal for programs that compute the same way."""
        digest = hashlib.blake2b(digest_size=16)
        for module_name, module in self.graph_module.named_modules():
            if isinstance(module, torch.fx.GraphModule):
                digest.update(module_name.encode())
                for node in module.graph.nodes:
                    digest.update(f"{node.op} {node.name} {node.target} {node.args} {node.kwargs}\n".encode())
        for name, tensor in self.constants.items():
            digest.update(f"{name} {self.specs[name].kind} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(_bytes_of(tensor))
        return digest.hexdigest()

    def __repr__(self) -> str:
        counts = dict.fromkeys(("call_function", "placeholder"), 0)
        for node in self.graph.nodes:
            counts[node.op] = counts.get(node.op, 0) + 1
        parts = [f"{counts['call_function']} operators", f"{len(self.constants)} constants"]
        parts.append(f"{len(self.user_inputs)} input{'s' * (len(self.user_inputs) != 1)}")
        if self.stand_ins:
            parts.append(f"stand-ins for {', '.join(sorted(set(self.stand_ins.values())))}")
        return f"<Program {self.name!r}: {', '.join(parts)}>"


def capture(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool = False,
    name: str | None = None,
) -> Program:
    """Export a module with `torch.export.export`; the module keeps its mode, hooks and state.

    Args:
        module: exported in the mode it is in; call ``.eval()`` first for inference.
        args, kwargs: example inputs; they stay with the program.
        dynamic_shapes: as for `torch.export.export`.
        strict: trace the bytecode (TorchDynamo) instead of running the Python code on fake tensors.
        name: of the program; by default the module's class name.

    Raises:
        CaptureError: the module cannot be exported; the message is torch's first useful line, and what to do.
    """
    from lowerscope.capturing import export

    if not isinstance(module, torch.nn.Module):
        raise CaptureError(f"capture takes a torch.nn.Module, and this is a {type(module).__name__}: wrap it in one")
    return Program(export(module, args, kwargs, dynamic_shapes, strict=strict), name=name or type(module).__name__)


def as_program(source: Any) -> Program:
    """A Program from a Program, an exported program, or the path of a ``.pt2`` file.

    Raises:
        LowerscopeError: `source` is something else; for a module the message says how to capture it.
        LoadError: the file cannot be opened.
    """
    if isinstance(source, Program):
        return source
    if isinstance(source, (str, os.PathLike)):
        from lowerscope.loading import load

        return load(source)
    return Program(source)


def _as_inputs(inputs: Any) -> Inputs:
    try:
        args, kwargs = inputs
        return tuple(args), dict(kwargs)
    except (TypeError, ValueError) as error:
        raise LowerscopeError("example inputs are a pair (args, kwargs), such as ((x,), {})") from error


def _not_a_program(value: object) -> str:
    kind = type(value).__name__
    if isinstance(value, torch.nn.Module):
        return f"{kind} is a module, not an exported program: use lowerscope.capture(module, args) first"
    return f"{kind} is not an exported program: give a Program, an ExportedProgram or the path of a .pt2 file"


def _bytes_of(tensor: torch.Tensor) -> bytes:
    if tensor.is_sparse or tensor.is_quantized:
        return repr(tensor).encode()
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
