"""Names, registration and the dispatcher's view of every reference operator."""

from __future__ import annotations

import importlib
import io
import math
import operator
import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from lowerscope import ops
from lowerscope.ops import OperatorError, ort_webgpu, tosa, vulkan, vulkan_linear, xnnpack
from lowerscope.ops.registry import OWN_OPS, register

aten = torch.ops.aten


@dataclass(frozen=True)
class Call:
    """One call of an operator: its tensors first, by which it is exported, then the rest."""

    op: torch._ops.OpOverload
    args: tuple

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [a for a in self.args if isinstance(a, torch.Tensor)]


class Module(torch.nn.Module):
    """Calls the operator on the tensors given, with the literals of the call."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        given = iter(tensors)
        return self.call.op(*(next(given) if isinstance(a, torch.Tensor) else a for a in self.call.args))


def calls(dtype: torch.dtype = torch.float32) -> dict[str, Call]:
    """A call of every operator, floating ones in `dtype`."""
    g = torch.Generator().manual_seed(0)

    def real(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)

    def codes(*shape: int) -> torch.Tensor:
        return torch.randint(-128, 128, shape, generator=g, dtype=torch.int8)

    x, w, b, r, s = real(1, 4, 6, 5), real(6, 4, 3, 3), real(6), real(1, 6, 6, 5), real(1, 6, 1, 1)
    conv = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    row, out = real(3, 8), real(8, 5)
    packed = vulkan_linear.pack_int4(torch.randint(-8, 8, (5, 8), generator=g, dtype=torch.int8))
    scales, bias = vulkan_linear.pad_outputs(real(2, 5).abs()), vulkan_linear.pad_outputs(real(5))
    row_scale, row_zero = real(3).abs() + 0.1, torch.tensor([3, -128, 0], dtype=torch.int8)
    table = torch.arange(-128, 128, dtype=torch.int8).flip(0)
    i32 = codes(2, 3).to(torch.int32)
    found = [
        Call(vulkan.conv2d_with_epilogue, (x, w, b, *conv, r, s, "add", 2, "clamp", -math.inf, 1.0)),
        Call(vulkan.conv_with_clamp, (x, w, None, *conv, 0.0, math.inf)),
        Call(vulkan_linear.linear_q8ta_q8csw, (row, 0.02, -7, codes(5, 8), real(5).abs(), real(5))),
        Call(vulkan_linear.linear_q4gsw, (row, packed, scales, 4, bias)),
        Call(vulkan_linear.linear_dq8ca_q4gsw, (row, row_scale, row_zero, packed, scales, 4, None)),
        Call(xnnpack.depth_to_space_2d, (real(2, 12, 3, 2), 2)),
        Call(xnnpack.conv_with_range, (x, w, b, *conv, -1.0, 1.0)),
        Call(xnnpack.linear_with_range, (row, real(5, 8), real(5), -1.0, 1.0)),
        Call(xnnpack.mm_with_range, (row, out, -math.inf, 1.0)),
        Call(xnnpack.addmm_with_range, (real(5), row, out, 1, 2, -1.0, math.inf)),
        Call(xnnpack.add_with_range, (x, real(5), 2, 0.0, math.inf)),
        Call(xnnpack.sub_with_range, (x, real(5), 1, -1.0, 1.0)),
        Call(xnnpack.mul_with_range, (x, real(5), -1.0, 1.0)),
        Call(xnnpack.add_scalar_with_range, (x, 0.5, 2, 0.0, math.inf)),
        Call(xnnpack.sub_scalar_with_range, (x, 0.5, 1, -1.0, 1.0)),
        Call(xnnpack.mul_scalar_with_range, (x, 3, -1.0, 1.0)),
        Call(xnnpack.to_nhwc, (x,)),
        Call(xnnpack.to_nchw, (x.to(memory_format=torch.channels_last),)),
        Call(ort_webgpu.im2col_conv_activation, (x, w, b, [1, 1], [1, 1], [1, 1], 1, "HardSigmoid", [0.2, 0.5])),
        Call(tosa.rescale, (codes(2, 3), [3 << 29], [33], 5, -2, 0, torch.int8)),
        Call(tosa.mul, (i32, i32, 3)),
        Call(tosa.add, (i32, i32)),
        Call(tosa.table, (codes(2, 3), table)),
        Call(tosa.conv2d, (codes(1, 4, 5, 5), codes(2, 4, 3, 3), codes(2).int(), [1, 1], [1, 1], [1, 1], 1, 3)),
        Call(tosa.transpose_conv2d, (codes(1, 4, 5, 5), codes(4, 2, 3, 3), None, [2, 2], [1, 1], [1, 1], 1, 3)),
        Call(tosa.matmul, (codes(2, 3, 4), codes(2, 4, 5), 1, -1)),
    ]
    return {call.op._schema.name: call for call in found}


CALLS = calls()


def test_every_operator_has_a_call_here():
    assert set(CALLS) == set(OWN_OPS)


@pytest.mark.parametrize("name", CALLS)
def test_torch_accepts_the_registration(name):
    """Schema, aliasing, fake kernel and tracing, dynamic shapes included."""
    torch.library.opcheck(CALLS[name].op, CALLS[name].args)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("channels_last", [False, True])
def test_fake_equals_eager(name, channels_last):
    call = CALLS[name]
    layout = torch.channels_last if channels_last else torch.contiguous_format
    args = [a.to(memory_format=layout) if isinstance(a, torch.Tensor) and a.dim() == 4 else a for a in call.args]
    eager = call.op(*args)
    with FakeTensorMode() as mode:
        fake = call.op(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
    assert (fake.shape, fake.dtype, fake.stride()) == (eager.shape, eager.dtype, eager.stride())


@pytest.mark.parametrize("name", CALLS)
def test_the_decomposition_is_the_operator(name):
    call = CALLS[name]
    function = ops.decomposition(call.op)
    assert function is not None
    assert torch.equal(function(*call.args), call.op(*call.args))
    graph = make_fx(lambda *tensors: _apply(function, call, tensors))(*call.tensors)
    targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert targets
    assert not any(ops.is_own(target) for target in targets)
    assert all(ops.display_name(target).startswith("aten.") for target in targets)


def _apply(function, call: Call, tensors):
    given = iter(tensors)
    return function(*(next(given) if isinstance(a, torch.Tensor) else a for a in call.args))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_floating_dtype(dtype):
    """The result keeps the input's dtype and is the float32 one within the coarser dtype's precision."""
    tolerance = 64 * max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    floating = 0
    for name, call in calls(dtype).items():
        if not call.args[0].is_floating_point():
            continue
        floating += 1
        got = call.op(*call.args)
        assert got.dtype == dtype, name
        reference = call.op(
            *(a.float() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in call.args)
        )
        scale = float(reference.abs().max())
        # A quantized activation may fall to the next code where the coarser dtype rounds: one step of its scale.
        step = 0.02 * scale if "8" in name and dtype != torch.float64 else 0.0
        assert float((got.double() - reference.double()).abs().max()) <= tolerance * scale + step, name
    assert floating == 19


@pytest.mark.parametrize("name", CALLS)
def test_export_save_load(name):
    call = CALLS[name]
    module = Module(call)
    program = torch.export.export(module, tuple(call.tensors))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert [n.target for n in loaded.graph.nodes if n.op == "call_function"] == [call.op]
    assert torch.equal(loaded.module()(*call.tensors), call.op(*call.args))
    # The operator is no composite: decomposing to core ATen leaves it whole.
    assert call.op in [n.target for n in loaded.run_decompositions().graph.nodes]


def test_symbolic_shapes():
    call = CALLS["lowerscope_vulkan::conv2d_with_epilogue"]
    x, w, b, r, s = call.tensors
    h = torch.export.Dim("h", min=2, max=64)
    shapes = ({2: h}, None, None, {2: h}, None)
    program = torch.export.export(Module(call), (x, w, b, r, s), dynamic_shapes=(shapes,))
    x2, r2 = torch.randn(1, 4, 11, 5), torch.randn(1, 6, 11, 5)
    assert torch.equal(program.module()(x2, w, b, r2, s), Module(call)(x2, w, b, r2, s))
    d2s = Module(Call(xnnpack.depth_to_space_2d, (torch.randn(1, 8, 4, 3), 2)))
    program = torch.export.export(d2s, (torch.randn(1, 8, 4, 3),), dynamic_shapes=(({2: h},),))
    assert program.module()(torch.randn(1, 8, 7, 3)).shape == (1, 2, 14, 6)


def test_a_saved_program_loads_in_a_new_process(tmp_path):
    call = CALLS["lowerscope_xnnpack::depth_to_space_2d"]
    path = tmp_path / "d2s.pt2"
    torch.export.save(torch.export.export(Module(call), tuple(call.tensors)), path)
    script = f"import torch, lowerscope.ops; print(tuple(torch.export.load({str(path)!r}).module()(torch.zeros(2, 12, 3, 2)).shape))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "(2, 3, 6, 4)"


def test_reloading_the_registry_keeps_the_operators():
    # In a process of its own: a reload makes a second OperatorError, which no longer is the one that is imported here.
    script = (
        "import importlib, torch; from lowerscope.ops import registry, xnnpack; importlib.reload(registry); "
        "print(len(registry.OWN_OPS), xnnpack.to_nchw(torch.ones(1, 1, 1, 1)).item())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == [str(len(CALLS)), "1.0"]


def test_registering_again_replaces_the_implementation():
    before = xnnpack.to_nchw
    for module in ("vulkan", "vulkan_linear", "xnnpack", "ort_webgpu", "tosa"):
        importlib.reload(importlib.import_module(f"lowerscope.ops.{module}"))
    assert xnnpack.to_nchw is before
    assert set(CALLS) == set(OWN_OPS)
    x = torch.arange(8.0).reshape(1, 8, 1, 1)
    assert torch.equal(before(x), x)

    schema = "reload_probe(Tensor input) -> Tensor"
    try:
        first = register("lowerscope_test", schema, display="probe", category="other")(lambda input: input + 1)
        second = register("lowerscope_test", schema, display="probe", category="other")(lambda input: input + 2)
        assert first is second
        assert second(torch.zeros(1)).item() == 2.0
        with pytest.raises(OperatorError, match="restart Python"):
            register("lowerscope_test", "reload_probe(Tensor a, Tensor b) -> Tensor", display="", category="other")(
                lambda a, b: a + b
            )
    finally:
        OWN_OPS.pop("lowerscope_test::reload_probe", None)


@pytest.mark.parametrize(
    ("target", "name", "kind"),
    [
        (vulkan.conv2d_with_epilogue, "et_vk.conv2d.with_epilogue", "conv"),
        ("lowerscope_vulkan::conv_with_clamp", "et_vk.conv_with_clamp", "conv"),
        ("lowerscope_tosa::rescale.default", "tosa.RESCALE", "quant"),
        (torch.ops.lowerscope_tosa.table, "tosa.TABLE", "activation"),
        (aten.convolution.default, "aten.convolution", "conv"),
        (aten.add.Tensor, "aten.add.Tensor", "arithmetic"),
        (aten.add_.Tensor, "aten.add_.Tensor", "arithmetic"),
        (aten.relu_.default, "aten.relu_", "activation"),
        (aten.hardtanh.default, "aten.hardtanh", "activation"),
        (aten.clamp.default, "aten.clamp", "activation"),
        (aten.addmm.default, "aten.addmm", "matmul"),
        (aten._native_batch_norm_legit_no_training.default, "aten._native_batch_norm_legit_no_training", "norm"),
        (aten.view.default, "aten.view", "shape"),
        (aten.upsample_nearest2d.vec, "aten.upsample_nearest2d.vec", "resample"),
        (aten.full.default, "aten.full", "constant"),
        (aten.nonzero.default, "aten.nonzero", "other"),
        ("aten.mul.Tensor", "aten.mul.Tensor", "arithmetic"),
        ("aten::mul.Tensor", "aten.mul.Tensor", "arithmetic"),
        ("torch.ops.aten.relu.default", "aten.relu", "activation"),
        ("torchao::dequantize_affine", "torchao.dequantize_affine", "quant"),
        ("quantized_decomposed.quantize_per_tensor.default", "quantized_decomposed.quantize_per_tensor", "quant"),
        (operator.getitem, "getitem", "other"),
        (torch.ops.higher_order.cond, "cond", "other"),
        ("p_conv_weight", "p_conv_weight", "other"),
    ],
)
def test_names_and_categories(target, name, kind):
    assert ops.display_name(target) == name
    assert ops.category(target) == kind
    assert ops.is_own(target) == (name.split(".")[0] in ("et_vk", "tosa"))
    assert (ops.decomposition(target) is not None) == ops.is_own(target)


def test_the_tables_are_whole():
    assert set(ops.DISPLAY_NAMES) == set(OWN_OPS)
    assert len(set(ops.DISPLAY_NAMES.values())) == len(ops.DISPLAY_NAMES)
    assert ops.DISPLAY_NAMES["lowerscope_ort::im2col_conv_activation"] == "ort_webgpu.im2col_conv_activation"
    assert {own.category for own in OWN_OPS.values()} <= set(ops.CATEGORIES)


def test_the_namespaces_are_our_own():
    assert {name.partition("::")[0] for name in OWN_OPS} == {
        "lowerscope_vulkan",
        "lowerscope_xnnpack",
        "lowerscope_ort",
        "lowerscope_tosa",
    }
