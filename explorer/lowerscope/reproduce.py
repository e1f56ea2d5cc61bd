"""The smallest program around one verdict, with a script that shows the same verdict: ready for a bug report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from lowerscope.archive.missing import imports_for
from lowerscope.editor import Editor
from lowerscope.errors import LowerscopeError
from lowerscope.graph_copy import copy_node, keep_name
from lowerscope.lowering import Lowering, lower
from lowerscope.ops import is_own
from lowerscope.program import Program
from lowerscope.verdict import Outcome, Verdict
from lowerscope.why import verdict_of

#: How many rings of neighbours are taken in before the whole program is.
_RINGS = 10
#: Constants of more elements are made up: their values are not what a verdict is about, and a report stays small.
_KEPT_ELEMENTS = 1 << 16

_SCRIPT = '''"""Shows what became of {pattern} at {node!r} for {target}: {verdict}."""

from pathlib import Path

import lowerscope
{needs}
recipe = lowerscope.Recipe.from_json({recipe!r})
session = lowerscope.Session(Path(__file__).with_name({file!r}), {target!r}, recipe=recipe)
explanation = session.why_not({pattern!r}, {node!r})
print(explanation)
assert explanation.verdict == {verdict!r}
assert (explanation.failed and explanation.failed.name) == {failed!r}
'''


@dataclass(frozen=True)
class Reproduction:
    """A cut program that shows one verdict. `program_path` and `script_path`: where it was saved, if it was."""

    program: Program
    pattern: str
    node: str
    verdict: str
    failed: str | None
    script: str
    program_path: Path | None = None
    script_path: Path | None = None

    def __repr__(self) -> str:
        where = f", {self.script_path}" if self.script_path is not None else ""
        said = f"{self.verdict}, {self.failed}" if self.failed else self.verdict
        count = sum(1 for n in self.program.graph.nodes if n.op == "call_function")
        return (
            f"<Reproduction of {self.pattern} at {self.node!r} ({said}) in {count} operator{'s' * (count != 1)}{where}>"
        )


def reproduce(lowering: Lowering, pattern: str, node: str, folder: Any = None) -> Reproduction:
    """Cut the smallest program around what became of `pattern` at `node`, which shows the same verdict by lowering it.

    The matched nodes, the one at fault and as many rings of neighbours as it takes; what is cut off becomes an input of
    the same shape and dtype. Names stay, and so do constants of up to 65536 elements; larger ones are random. With
    `folder` it is saved there as a `.pt2`, beside a script that asserts the verdict.

    UnknownNameError: no such pattern or node. LowerscopeError: no anchor is near the node, so there is nothing to show;
    or the folder cannot be written to.
    """
    verdict = verdict_of(lowering, pattern, node)
    if verdict.outcome is Outcome.NO_ANCHOR:
        raise LowerscopeError(f"there is nothing to reproduce of {pattern} at '{node}': {verdict.reason}")
    for program in _cuts(lowering, verdict):
        found = _same(lowering, program, verdict)
        if found is not None:
            stem = re.sub(r"\W+", "_", f"{pattern}_{verdict.anchor}")
            return _saved(lowering, program, found, folder, stem)
    raise LowerscopeError(
        f"the verdict on {pattern} at '{node}' does not show again when the program is lowered afresh"
    )


# ---------------------------------------------------------------- what to cut out
def _cuts(lowering: Lowering, verdict: Verdict) -> Iterator[Program]:
    """Ever larger pieces around the verdict; at last the whole program."""
    editor = Editor(lowering.source)
    nodes = [editor.nodes[id] for id in _core(lowering, verdict) if id in editor.nodes]
    calls = {n for n in nodes if n.op == "call_function"}
    if len({n.graph for n in calls}) == 1:
        kept, before = calls, -1
        for _ in range(_RINGS):
            kept = _closed(kept)
            if len(kept) != before:
                before = len(kept)
                cut = _cut(editor, kept)
                if cut is not None:
                    yield cut
            kept |= {n for k in kept for n in (*k.all_input_nodes, *k.users) if n.op == "call_function"}
    yield lowering.source


def _core(lowering: Lowering, verdict: Verdict) -> set[str]:
    """The original nodes that the verdict speaks of: those of the match, and of the one that took them or is at fault."""
    won = lowering.verdicts.get(verdict.by) if verdict.by is not None else None
    core = {*verdict.origins, *(won.origins if won is not None else ())}
    for id in (verdict.anchor, verdict.fault, *(e.node for e in verdict.record.entries)):
        if id is not None and id in lowering.ledger.records:
            core |= set(lowering.ledger.origin(id))
    return core


def _closed(kept: set[Node]) -> set[Node]:
    """With whatever only a graph can hand on: the producers of values that are no tensors, and all who read those."""
    kept, todo = set(kept), list(kept)
    while todo:
        node = todo.pop()
        several = isinstance(node.meta.get("val"), (tuple, list))
        needed = [n for n in node.all_input_nodes if not isinstance(n.meta.get("val"), torch.Tensor)]
        for other in (*needed, *(node.users if several else ())):
            if other.op == "call_function" and other not in kept:
                kept.add(other)
                todo.append(other)
    return kept


# ---------------------------------------------------------------- cutting
def _cut(editor: Editor, kept: set[Node]) -> Program | None:
    """The kept nodes as a program of their own; None: something that they read can be no input (a sub-graph)."""
    source, graph, root = editor.program, Graph(), torch.nn.Module()
    copies: dict[Node, Node] = {}
    specs: list[InputSpec] = []
    tensors: dict[str, torch.Tensor] = {}
    order = sorted(kept)
    inputs = list(dict.fromkeys(n for node in order for n in node.all_input_nodes if n not in kept))
    if any(not isinstance(n.meta.get("val"), torch.Tensor) for n in inputs):
        return None
    constants = {n: editor.constant_origin(n).name for n in inputs if editor.is_constant(n)}
    for node in (*(n for n in inputs if n in constants), *(n for n in inputs if n not in constants)):
        made = graph.placeholder(node.name)
        made.meta = {"val": node.meta["val"]}
        keep_name(made, node.name)
        copies[node] = made
        name = TensorArgument(name=node.name)
        if node in constants:
            spec = source.specs[constants[node]]
            tensors[str(spec.target)] = _kept_or_made(source.constants[constants[node]])
            specs.append(InputSpec(spec.kind, name, spec.target, persistent=spec.persistent))
        else:
            specs.append(InputSpec(InputKind.USER_INPUT, name, None))
    for node in order:
        copies[node] = copy_node(graph, node, copies.__getitem__)
    returned = [n for n in order if isinstance(n.meta.get("val"), torch.Tensor) and _read_outside(n, kept)]
    graph.output(tuple(copies[n] for n in returned))
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=n.name), None) for n in returned]
    signature = ExportGraphSignature(input_specs=specs, output_specs=outputs)
    return _program(source, GraphModule(root, graph), signature, tensors, len(inputs) - len(constants), len(returned))


def _read_outside(node: Node, kept: Iterable[Node]) -> bool:
    return not node.users or any(u not in kept for u in node.users)


def _kept_or_made(value: torch.Tensor) -> torch.Tensor:
    if value.numel() <= _KEPT_ELEMENTS or not value.is_floating_point():
        return value
    generator = torch.Generator().manual_seed(0)
    made = torch.rand(value.shape, generator=generator).to(value.dtype) * 0.1
    return torch.nn.Parameter(made, requires_grad=False) if isinstance(value, torch.nn.Parameter) else made


def _program(
    source: Program,
    module: GraphModule,
    signature: ExportGraphSignature,
    tensors: dict[str, torch.Tensor],
    inputs: int,
    outputs: int,
) -> Program:
    old = source.exported_program
    in_spec = pytree.tree_flatten((tuple(range(inputs)), {}))[1]
    out_spec = pytree.tree_flatten(tuple(range(outputs)))[1]
    call = ModuleCallSignature(inputs=[], outputs=[], in_spec=in_spec, out_spec=out_spec)
    lifted = {s.target for s in signature.input_specs if s.kind is InputKind.CONSTANT_TENSOR or s.persistent is False}
    exported = ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict={k: v for k, v in tensors.items() if k not in lifted},
        range_constraints=_constraints(old, module.graph),
        module_call_graph=[ModuleCallEntry(fqn="", signature=call)],
        constants={k: v for k, v in tensors.items() if k in lifted},
        verifiers=list(old.verifiers),
    )
    cut = Program(exported, name=f"part of {source.name}", stand_ins=source.stand_ins)
    return Program(exported, name=cut.name, example_inputs=cut.inputs(seed=1), stand_ins=source.stand_ins)


def _constraints(old: ExportedProgram, graph: Graph) -> dict[Any, Any]:
    """The ranges of the symbols that the cut still speaks of."""
    values = pytree.tree_leaves([n.meta.get("val") for n in graph.nodes])
    sizes = [s for v in values for s in (v.shape if isinstance(v, torch.Tensor) else (v,))]
    used = {symbol for s in sizes if isinstance(s, torch.SymInt) for symbol in s.node.expr.free_symbols}
    return {k: v for k, v in old.range_constraints.items() if k in used}


# ---------------------------------------------------------------- checking and saving
def _same(lowering: Lowering, program: Program, verdict: Verdict) -> Verdict | None:
    """The verdict on the cut program that equals the one asked about; None: it does not show there."""
    try:
        tried = lower(program, lowering.recipe)
    except LowerscopeError:  # what is cut off was needed: a larger piece may do
        return None
    for other in tried.verdicts_of(verdict.pattern):
        same_place = set(other.origins) & {o.rpartition("/")[2] for o in verdict.origins} or other.anchor in (
            verdict.anchor,
            verdict.anchor.rpartition("/")[2],
        )
        if same_place and (other.outcome, other.failed) == (verdict.outcome, verdict.failed):
            return other
    if program is lowering.source:
        return tried.verdicts.get((verdict.pattern, verdict.anchor))
    return None


def _saved(lowering: Lowering, program: Program, verdict: Verdict, folder: Any, stem: str) -> Reproduction:
    script = _SCRIPT.format(
        needs=_needs(program, verdict),
        pattern=verdict.pattern,
        node=verdict.anchor,
        target=lowering.recipe.target,
        recipe=lowering.recipe.to_json(),
        file=f"{stem}.pt2",
        verdict=str(verdict.outcome),
        failed=verdict.failed,
    )
    said = (program, verdict.pattern, verdict.anchor, str(verdict.outcome), verdict.failed, script)
    if folder is None:
        return Reproduction(*said)
    try:
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        script_path = place / f"{stem}.py"
        script_path.write_text(script, encoding="utf-8")
    except OSError as error:
        raise LowerscopeError(f"cannot write to {str(folder)!r} ({error.strerror}): choose another folder") from error
    return Reproduction(*said, program.save(place / f"{stem}.pt2"), script_path)


def _needs(program: Program, verdict: Verdict) -> str:
    """What the script must have before it opens the program: what registers its operators, and a pattern of the user's."""
    modules = [m for m in program.graph_module.modules() if isinstance(m, GraphModule)]
    ops = [n.target for m in modules for n in m.graph.nodes if isinstance(n.target, OpOverload)]
    found, unknown = imports_for(o.name() for o in ops if not is_own(o))
    lines = [f"import {name}" for name in found]
    lines += [f"# import what registers the operators {space}::... here" for space in unknown]
    if verdict.rule.yours:
        lines.append(f"# {verdict.pattern!r} is a pattern of your own: define or import it here")
    return "".join(line + "\n" for line in lines)
