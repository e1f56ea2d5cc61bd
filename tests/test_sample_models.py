"""Each sample model is what its story says, and its file is what its module exports to."""

from __future__ import annotations

import copy
import importlib
import zipfile
from functools import cache
from typing import Any

import pytest
import torch
from torch.nn.utils.fusion import fuse_conv_bn_eval

from sample_models import codec, conv_bn, dsr, dyt_block, migan, quantized_mlp, resnet50_like, upsampler
from sample_models.archive import ROOT, to_bytes, torch_version
from sample_models.build import FILES, FOLDER, export

aten = torch.ops.aten
QUANTIZED = [name for name in FILES if FILES[name][0] in ("dyt_block", "quantized_mlp")]
EVERY = [pytest.param(name, marks=pytest.mark.quantize) if name in QUANTIZED else name for name in FILES]


@cache
def program(name: str) -> torch.export.ExportedProgram:
    """The committed file."""
    if name in QUANTIZED:
        # Their operators must be registered before the file is read.
        importlib.import_module("torch.ao.quantization.fx._decomposed")
        importlib.import_module("torchao.quantization")
    return torch.export.load(FOLDER / f"{name}.pt2")


def calls(name: str, *targets: torch._ops.OpOverload) -> list[torch.fx.Node]:
    return [node for node in program(name).graph.nodes if node.op == "call_function" and node.target in targets]


def constant(name: str, node: object) -> torch.Tensor | None:
    """The weight, buffer or lifted constant that a placeholder stands for."""
    assert isinstance(node, torch.fx.Node)
    exported = program(name)
    signature = exported.graph_signature
    kept = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return exported.state_dict.get(kept.get(node.name, ""))


def convolutions(name: str) -> list[tuple[torch.Tensor, torch.fx.Node]]:
    """(weight, node) of each direct convolution."""
    found = []
    for node in calls(name, aten.conv2d.default, aten.conv1d.default):
        weight = constant(name, node.args[1])
        assert weight is not None
        found.append((weight, node))
    return found


def argument(node: torch.fx.Node, index: int, default: Any = None) -> Any:
    return node.args[index] if len(node.args) > index else default


@pytest.mark.parametrize("name", EVERY)
def test_the_file_is_what_the_module_exports_to(name):
    path = FOLDER / f"{name}.pt2"
    again = export(name)
    assert str(again.graph) == str(program(name).graph)
    assert list(again.state_dict) == list(program(name).state_dict)
    for key, value in again.state_dict.items():
        assert torch.equal(value, program(name).state_dict[key]), key
    if torch_version(path) == torch.__version__:
        assert to_bytes(again) == path.read_bytes(), f"run python -m sample_models.build {name}"


@pytest.mark.parametrize("name", EVERY)
def test_the_file_runs_and_is_small(name):
    path = FOLDER / f"{name}.pt2"
    assert path.stat().st_size < 400_000
    inputs = program(name).example_inputs
    assert inputs is not None
    with torch.no_grad():
        result = program(name).module()(*inputs[0])
    # Alive: neither silent nor saturated, so that a wrong rewrite shows.
    assert result.isfinite().all()
    assert 0.05 < float(result.float().std()) < 10


@pytest.mark.parametrize("name", EVERY)
def test_the_file_names_no_folder_of_a_machine(name):
    with zipfile.ZipFile(FOLDER / f"{name}.pt2") as archive:
        for record in archive.namelist():
            data = archive.read(record)
            for word in (str(ROOT).encode(), b"site-packages", b"/home/", b"/tmp/"):
                assert word not in data, (record, word)
        model = archive.read("archive/models/model.json").decode()
    assert rf"File \"sample_models/{FILES[name][0]}.py\"" in model


def skip_products(name: str) -> list[torch.fx.Node]:
    """The products of ``conv(x) + x * scale``: scale [1, C, 1, 1] and constant, alpha 1, no other reader."""
    found = []
    for add in calls(name, aten.add.Tensor):
        conv, mul = add.args[0], add.args[1]
        if not isinstance(conv, torch.fx.Node) or not isinstance(mul, torch.fx.Node):
            continue
        if conv.target != aten.conv2d.default or mul.target != aten.mul.Tensor or add.kwargs.get("alpha", 1) != 1:
            continue
        scale = constant(name, mul.args[1])
        if scale is None or list(scale.shape) != [1, conv.meta["val"].shape[1], 1, 1]:
            continue
        if len(mul.users) == 1 and mul.args[0] is conv.args[0]:
            found.append(mul)
    return found


def test_dsr_has_83_scaled_skips():
    assert dsr.SKIPS == 83
    assert len(skip_products("dsr")) == 83
    assert len(calls("dsr", aten.mul.Tensor)) == 83
    assert len(convolutions("dsr")) == 102


@pytest.mark.parametrize("variant", dsr.VARIANTS)
def test_a_planted_variant_leaves_82(variant):
    assert len(skip_products(f"dsr_{variant}")) == 82
    assert len(calls(f"dsr_{variant}", aten.mul.Tensor)) == 83
    modules = [path for path, _ in planted_stack(f"dsr_{variant}")]
    assert "detail.1" in modules


def planted_stack(name: str) -> list[tuple[str, str]]:
    """The modules, outermost first, of the one product that is no scaled skip's."""
    planted = {m for m in calls(name, aten.mul.Tensor) if m not in skip_products(name)}
    assert len(planted) == 1
    return list(planted.pop().meta["nn_module_stack"].values())


def test_dsr_variants_by_name_only():
    with pytest.raises(ValueError, match="use one of scale_1111, alpha_second, shared_mul"):
        dsr.build("scale")


def test_conv_bn_multiplies_rounding_errors_by_about_100():
    model, args = conv_bn.build()
    blocks = [module for module in model.modules() if isinstance(module, conv_bn.Block)]
    assert len(blocks) == conv_bn.DEPTH
    variance = torch.cat([block.depthwise_norm.get_buffer("running_var") for block in blocks])
    weight = torch.cat([block.depthwise_norm.weight.detach() for block in blocks])
    assert 50 < float((weight / torch.sqrt(variance + 1e-5)).median()) < 200

    folded = copy.deepcopy(model)
    for block in folded.modules():
        if not isinstance(block, conv_bn.Block):
            continue
        block.depthwise = fuse_conv_bn_eval(block.depthwise, block.depthwise_norm)
        block.register_module("depthwise_norm", torch.nn.Identity())
    with torch.no_grad():
        reference = model(*args)
        torch.testing.assert_close(folded(*args), reference, rtol=1e-3, atol=1e-3)
        error, folded_error = (
            float((copy.deepcopy(m).half()(args[0].half()).float() - reference).abs().max()) for m in (model, folded)
        )
    assert error > 5 * folded_error


def test_upsampler_has_three_depthwise_and_two_dense_transposed_convolutions():
    found = []
    for node in calls("upsampler", aten.conv_transpose2d.input):
        weight = constant("upsampler", node.args[1])
        assert weight is not None
        assert list(weight.shape[2:]) == [4, 4]
        assert list(argument(node, 3)) == [2, 2]
        found.append(argument(node, 6, 1) == weight.shape[0])
    assert found == [True] * upsampler.DEPTHWISE + [False] * len(upsampler.DENSE)


def test_migan_has_six_nearest_upsamples_noise_maps_and_gains():
    ups = calls("migan", aten.upsample_nearest2d.vec)
    assert len(ups) == migan.LEVELS == 6
    assert all(list(argument(up, 2)) == [2.0, 2.0] for up in ups)
    noises = [value for key, value in program("migan").state_dict.items() if key.endswith("noise")]
    assert [list(noise.shape) for noise in noises] == [[2**i, 2**i] for i in range(1, 7)]
    gains = [n for n in calls("migan", aten.mul.Tensor) if n.args[1] == migan.GAIN]
    assert len(gains) == 25
    blurs = calls("migan", aten.conv_transpose2d.input)
    assert [argument(n, 6, 1) for n in blurs] == [3] * 6


def test_migan_runs_in_float16():
    model, args = migan.build()
    with torch.no_grad():
        reference = model(*args)
        half = model.half()(*(a.half() for a in args))
    assert half.dtype == torch.float16
    assert float((half.float() - reference).abs().max()) < 0.02 * float(reference.abs().max())


def test_codec_streams_one_step():
    (latent,), _ = program("codec").example_inputs or ((torch.empty(0),), {})
    assert list(latent.shape) == [1, codec.LATENT, 1]
    nodes = calls("codec", aten.conv_transpose1d.default)
    groups = [argument(n, 6, 1) for n in nodes]
    assert groups == [codec.LATENT, 1, 1, 1]
    for node, stride in zip(nodes, (2, *codec.STRIDES), strict=True):
        weight = constant("codec", node.args[1])
        assert weight is not None
        assert list(argument(node, 3, [1])) == [stride]
        assert weight.shape[2] == 2 * stride
    model, args = codec.build(frames=5)
    assert model(*args).shape == (1, 1, 320)


def test_codec_is_causal():
    """Later frames change no earlier sample, so that it can stream."""
    model, (latent,) = codec.build(frames=4)
    changed = latent.clone()
    changed[..., 2:] += 1
    with torch.no_grad():
        before, after = model(latent), model(changed)
    assert torch.equal(before[..., :128], after[..., :128])
    assert not torch.equal(before[..., 128:], after[..., 128:])


def test_resnet50_like_has_17_plus_3_of_53():
    convs = convolutions("resnet50_like")
    assert len(convs) == 53
    assert sum(weight.shape[2] > 1 for weight, _ in convs) == 17
    assert sum(weight.shape[2] == 1 and list(argument(n, 3, [1, 1])) == [2, 2] for weight, n in convs) == 3
    assert {weight.dtype for weight, _ in convs} == {torch.float16}
    assert sum(resnet50_like.STAGES) == 16


def test_depthwise_net_has_none_that_qualifies():
    convs = convolutions("depthwise_net")
    depthwise = [weight for weight, node in convs if argument(node, 6, 1) == node.meta["val"].shape[1]]
    assert len(depthwise) == 6
    assert all(weight.shape[1] == 1 and weight.shape[2] > 1 for weight in depthwise)
    assert sum(list(weight.shape[2:]) == [1, 1] for weight, _ in convs) == len(convs) - len(depthwise) == 26
    assert {weight.dtype for weight, _ in convs} == {torch.float16}


def test_batch_norms_are_off_their_defaults():
    for name in ("conv_bn", "resnet50_like", "depthwise_net"):
        state = program(name).state_dict
        means = [value for key, value in state.items() if key.endswith("running_mean")]
        variances = [value for key, value in state.items() if key.endswith("running_var")]
        assert means
        assert not any(bool((mean == 0).all()) for mean in means)
        assert not any(bool((variance == 1).any()) and variance.std() == 0 for variance in variances)


def sqnr_db(reference: torch.Tensor, value: torch.Tensor) -> float:
    return float(10 * torch.log10(reference.square().sum() / (reference - value).square().sum()))


@pytest.mark.quantize
@pytest.mark.parametrize("name", QUANTIZED)
def test_a_quantized_file_is_close_to_its_float_model(name):
    module, arguments = FILES[name]
    if module == "dyt_block":
        model, args = dyt_block.float_model(**arguments)  # pyright: ignore[reportArgumentType]
    else:
        model, args = quantized_mlp.float_model()
    with torch.no_grad():
        reference, value = model(*args), program(name).module()(*args)
    # 4 bits of weight leave about 22 dB here, 8 bits about 36.
    assert sqnr_db(reference, value) > (18 if "4w" in name else 30)
    assert not torch.equal(reference, value)
    kept = {key for key, parameter in program(name).state_dict.items() if parameter.is_floating_point()}
    assert not any(key in kept for key in dict(model.named_parameters()) if key.endswith("weight"))


def quantized(name: str, kind: str) -> list[torch.fx.Node]:
    """The nodes of the quantized_decomposed or torchao operators whose name starts with `kind`."""
    nodes = (node for node in program(name).graph.nodes if node.op == "call_function")
    return [node for node in nodes if str(node.target).partition(".")[2].startswith(kind)]


@pytest.mark.quantize
@pytest.mark.parametrize("name", [name for name in QUANTIZED if name.startswith("dyt")])
def test_every_operator_of_a_dyt_block_is_between_quantized_values(name):
    for node in program(name).graph.nodes:
        if node.op != "call_function" or str(node.target).startswith("quantized_decomposed"):
            continue
        for operand in node.args[:2]:
            if isinstance(operand, torch.fx.Node) and node.target != aten.relu.default:
                assert "dequantize" in str(operand.target), (node, operand)
        (reader,) = node.users
        assert "quantize_per_tensor" in str(reader.target) or reader.target == aten.relu.default, node


@pytest.mark.quantize
@pytest.mark.parametrize("name", [name for name in QUANTIZED if name.startswith("dyt")])
def test_a_dyt_site_is_mul_tanh_mul_add(name):
    sites = [node for node in calls(name, aten.tanh.default) if "DyT" in str(node.meta["nn_module_stack"])]
    sites = [node for node in sites if list(node.meta["nn_module_stack"].values())[-1][0].startswith("norms.")]
    assert len(sites) == 2
    for tanh in sites:
        chain = [tanh]
        while len(chain) < 3:
            (quantize,) = chain[-1].users
            (dequantize,) = quantize.users
            chain += dequantize.users
        assert [node.target for node in chain] == [aten.tanh.default, aten.mul.Tensor, aten.add.Tensor]


@pytest.mark.quantize
@pytest.mark.parametrize(
    ("name", "equal"), [("dyt_conv", True), ("dyt_conv_nhwc", True), ("dyt_conv_realistic", False)]
)
def test_gamma_one_keeps_the_scale_of_tanh(name, equal):
    """With gamma = 1 and beta = 0 the codes pass unchanged: tanh, the product and the sum share scale and zero point."""
    for tanh in calls(name, aten.tanh.default):
        parameters, node = [], tanh
        for _ in range(3):
            (quantize,) = node.users
            parameters.append(quantize.args[1:3])
            (dequantize,) = quantize.users
            (node,) = dequantize.users
        assert (len(set(parameters)) == 1) == equal


@pytest.mark.quantize
def test_padding_and_layout_of_the_dyt_convolutions():
    def geometry(name: str) -> list[tuple]:
        return [(argument(n, 4, [0, 0]), n.meta["val"].shape[2]) for n in calls(name, aten.conv2d.default)][1:]

    assert geometry("dyt_conv") == [([0, 0], 6)] * 2
    assert geometry("dyt_conv_padded") == [([1, 1], 6)] * 2
    assert len(calls("dyt_conv", aten.permute.default)) == 0
    assert len(calls("dyt_conv_nhwc", aten.permute.default)) == 4


@pytest.mark.quantize
def test_the_quantized_linears_have_the_forms_that_kernels_ask_for():
    for mode in quantized_mlp.MODES:
        name = f"quantized_mlp_{mode}"
        shapes = [node.meta["val"].shape[-1] for node in calls(name, aten.linear.default)]
        assert shapes == [64, 512, 1]
    assert len(quantized("quantized_mlp_static8", "dequantize_per_channel")) == 3
    assert len(quantized("quantized_mlp_static8", "quantize_per_tensor")) == 4
    for mode, weights, activations in (("8w", 3, 0), ("4w", 3, 0), ("8da4w", 3, 3)):
        name = f"quantized_mlp_{mode}"
        assert len(quantized(name, "dequantize_affine")) == weights + activations
        assert len(quantized(name, "choose_qparams_affine")) == activations
        groups = [argument(node, 1)[1] for node in quantized(name, "dequantize_affine")[-1:]]
        assert groups == [512 if mode == "8w" else quantized_mlp.GROUP]


def test_unknown_arguments_name_the_known_ones():
    for call, message in (
        (lambda: quantized_mlp.build("2w"), "use one of static8, 8w, 4w, 8da4w"),
        (lambda: dyt_block.float_model(layout="chwn"), "use one of nchw, nhwc"),
        (lambda: dyt_block.float_model(kind="mlp"), "use 'conv' or 'transformer'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
