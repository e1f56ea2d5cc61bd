"""What counts as an operator, what it is called, and the table of operators before and after."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

from lowerscope.measure.counts import count_ops, is_operator, live_nodes, node_op_name, op_counts
from lowerscope.ops import display_name
from lowerscope.program import Program, capture

aten = torch.ops.aten


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def _program(function, *args, dynamic_shapes=None) -> Program:
    return capture(Of(function).eval(), args, dynamic_shapes=dynamic_shapes)


def test_getitem_and_sizes_and_asserts_are_no_operators():
    def function(x):
        first, second = x.split(2, dim=1)
        half = x.shape[0] // 2
        return (first + second)[:half], x.to(torch.float32)

    program = _program(function, torch.randn(6, 4), dynamic_shapes={"args": ({0: torch.export.Dim.DYNAMIC},)})
    targets = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    assert {"aten.sym_size.int", "aten._assert_tensor_metadata.default"} <= targets, "the traps are in the graph"
    assert any(n.target is operator.getitem for n in program.graph.nodes)
    assert set(count_ops(program)) == {"aten.split.Tensor", "aten.add.Tensor", "aten.slice.Tensor", "aten.to.dtype"}


def test_sub_graphs_count_and_contexts_do_not():
    def function(x):
        with torch.no_grad():
            y = x * 2
        return torch.cond(y.sum() > 0, lambda a: a.sin(), lambda a: a.cos() + 1, (y,))

    counts = count_ops(_program(function, torch.randn(4)))
    assert counts == {
        "aten.add.Tensor": 1,
        "aten.cos": 1,
        "aten.gt.Scalar": 1,
        "aten.mul.Tensor": 1,
        "aten.sin": 1,
        "aten.sum": 1,
        "cond": 1,
    }
    ids = [node_id for node_id, _ in live_nodes(_program(function, torch.randn(4)).graph_module)]
    assert len(ids) == len(set(ids))
    assert any("/" in node_id for node_id in ids)


def test_dead_nodes_do_not_count_but_writes_do():
    program = _program(lambda x: x.relu(), torch.randn(4))
    graph = program.exported_program.graph
    source = next(n for n in graph.nodes if n.op == "placeholder")
    with graph.inserting_before(next(n for n in graph.nodes if n.op == "output")):
        dead = graph.call_function(aten.sin.default, (source,))
        graph.call_function(aten.cos.default, (dead,))
    assert count_ops(program) == {"aten.relu": 1}
    with graph.inserting_before(next(n for n in graph.nodes if n.op == "output")):
        graph.call_function(aten.add_.Tensor, (dead, 1))
    assert count_ops(program) == {"aten.add_.Tensor": 1, "aten.relu": 1, "aten.sin": 1}


def test_functionalised_operators_show_what_they_wrap():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.ops.higher_order.auto_functionalized_v2, (aten.relu.default,), {"x": x})
    assert is_operator(node)
    assert node_op_name(node) == "aten.relu"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (aten.convolution.default, "aten.convolution"),
        (aten.add.Tensor, "aten.add.Tensor"),
        (torch.ops.higher_order.cond, "cond"),
        (torch.ops.lowerscope_vulkan.conv_with_clamp.default, "et_vk.conv_with_clamp"),
    ],
)
def test_names(target, name):
    assert display_name(target) == name


def test_the_table_has_what_either_side_has_and_ends_in_the_total():
    before = _program(lambda x: (x.relu() + 1) * 2 + 3, torch.randn(4))
    after = _program(lambda x: x.relu().sigmoid(), torch.randn(4))
    frame = op_counts(before, after)
    assert list(frame.columns) == ["before", "after", "delta"]
    assert frame.index.name == "op"
    assert list(frame.index) == ["aten.add.Tensor", "aten.mul.Tensor", "aten.relu", "aten.sigmoid", "total"]
    assert frame.loc["aten.add.Tensor"].tolist() == [2, 0, -2]
    assert frame.loc["total"].tolist() == [4, 2, -2]
    assert op_counts(count_ops(before), count_ops(after)).equals(frame)
