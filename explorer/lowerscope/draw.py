"""A lowering's graph for other tools: as a graphviz drawing and as a networkx graph."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from typing import Any

import graphviz
import networkx as nx

from lowerscope import labels
from lowerscope.columns import Strings
from lowerscope.errors import unknown
from lowerscope.ledger import NodeRecord
from lowerscope.lowering import Lowering
from lowerscope.measure.counts import node_op_name
from lowerscope.module_tree import ModuleTree
from lowerscope.ops import category
from lowerscope.scene_nodes import Writer, kind_of, node_table
from lowerscope.svg import FILLS


class Drawing(graphviz.Digraph):
    """A `graphviz.Digraph` that, where the program `dot` is not installed, shows its DOT source and says so."""

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None, **options: Any
    ) -> Any:
        if shutil.which("dot") is None:
            return {"text/plain": f"{NO_DOT}\n\n{self.source}"}
        return super()._repr_mimebundle_(include=include, exclude=exclude, **options)


NO_DOT = (
    "graphviz's program `dot` is not installed, so this is the source of the drawing: "
    "install it (apt-get install graphviz), or paste this into a viewer of DOT files."
)


def to_networkx(lowering: Lowering, step: int | None = None) -> nx.MultiDiGraph:
    """The graph after `step` (default: the last; 0: as it was), constants included.

    Node attributes: op (its display name), kind, category, module, shape, source. Edge attributes: argument. Graph
    attributes: name, target, step. UnknownNameError: there is no such step.
    """
    step = _step(lowering, step)
    records = {r.id: r for r in lowering.ledger.alive_at(step)}
    graph = nx.MultiDiGraph(name=lowering.source.name, target=lowering.target.name, step=step)
    for record in records.values():
        kind = kind_of(record, lowering.source.constants)
        graph.add_node(
            record.id,
            op=node_op_name(record) if record.op == "call_function" else record.op,
            kind=labels.KINDS[kind],
            category=category(record.target) if record.op == "call_function" else "other",
            module=record.module,
            shape=labels.value_text(record.val),
            source=labels.source_text(record.trace),
        )
    table = node_table(lowering, Writer(strings := Strings()))
    for row in table.alive(step, table.edges).nonzero()[0].tolist():
        source, target = (table.records[table.edges[end][row]].id for end in ("src", "dst"))
        graph.add_edge(source, target, argument=strings.all[table.edges["arg"][row]])
    return graph


def to_graphviz(lowering: Lowering, step: int | None = None, *, constants: bool = False) -> Drawing:
    """The graph after `step` (default: the last; 0: as it was), modules as clusters, as a graphviz drawing.

    Without the program `dot` it shows its DOT source, and says so. UnknownNameError: there is no such step.
    """
    step = _step(lowering, step)
    graph = to_networkx(lowering, step)
    if not constants:
        graph.remove_nodes_from([node for node, kind in graph.nodes(data="kind") if kind == "constant"])
    drawing = Drawing(
        labels.shortened(lowering.source.name, 80),
        graph_attr={"rankdir": "TB", "fontname": "sans-serif", "fontsize": "11"},
        node_attr={
            "shape": "box",
            "style": "filled,rounded",
            "fontname": "sans-serif",
            "fontsize": "11",
            "height": "0.3",
        },
        edge_attr={"color": "#9AA3AE", "arrowsize": "0.6"},
    )
    records = lowering.ledger.records
    operators = frozenset(n for n, kind in graph.nodes(data="kind") if kind == "operator")
    tree = ModuleTree((records[n] for n in graph.nodes), operators)
    # graphviz takes a colon in a name for a port: nodes are named by number
    number = {node: f"n{place}" for place, node in enumerate(graph.nodes)}
    _cluster(drawing, tree, 0, graph, number, records)
    for source, target in dict.fromkeys(graph.edges()):
        drawing.edge(number[source], number[target])
    return drawing


def _cluster(
    drawing: graphviz.Digraph,
    tree: ModuleTree,
    row: int,
    graph: nx.MultiDiGraph,
    number: Mapping[str, str],
    records: Mapping[str, NodeRecord],
) -> None:
    module = tree.modules[row]
    for node in module.members:
        fill, spine = FILLS[graph.nodes[node]["category"]]
        record = records[node]
        lines = [labels.short_name(record, labels.KINDS.index(graph.nodes[node]["kind"])), graph.nodes[node]["shape"]]
        text = graphviz.escape("\n".join(labels.shortened(line, 60) for line in lines if line))
        drawing.node(number[node], label=text, fillcolor=fill, color=spine, tooltip=graphviz.escape(node))
    for child in module.children:
        inner = graphviz.Digraph(name=f"cluster_{child}")
        inner.attr(
            label=graphviz.escape(labels.shortened(tree.modules[child].path, 60)), style="rounded", color="#CFD3D8"
        )
        _cluster(inner, tree, child, graph, number, records)
        drawing.subgraph(inner)


def _step(lowering: Lowering, step: int | None) -> int:
    last = len(lowering.steps)
    if step is None:
        return last
    if not 0 <= step <= last:
        raise unknown("step", str(step), map(str, range(last + 1)))
    return step
