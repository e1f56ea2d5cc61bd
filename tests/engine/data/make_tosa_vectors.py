"""Make `tosa_vectors.npz`: what Arm's reference model computes for the integer operators that the package implements.

The reference model pins numpy below what the package needs, so that this script has an environment of its own::

    python3 -m venv tosa-venv
    tosa-venv/bin/pip install tosa-tools==2026.5.0
    tosa-venv/bin/python tests/engine/data/make_tosa_vectors.py

Each case is one graph of one operator, run by the model in a subprocess (an error there dumps a stack and exits). The file
holds, for case ``NAME``, the arrays ``NAME/input``, ``NAME/output`` and whatever else the operator reads, in TOSA's layout
(NHWC), and ``NAME/params``, a JSON text. Seeded: a second run writes the same bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from serializer import tosa_serializer as ts  # pyright: ignore[reportMissingImports]
from tosa.DType import DType  # pyright: ignore[reportMissingImports]
from tosa.Op import Op  # pyright: ignore[reportMissingImports]
from tosa.RoundingMode import RoundingMode  # pyright: ignore[reportMissingImports]

DTYPES = {"int8": DType.INT8, "int16": DType.INT16, "int32": DType.INT32}
INT32_MAX = (1 << 31) - 1
MODEL = Path(sys.executable).parent / "tosa_reference_model"
Case = tuple[str, dict, dict[str, np.ndarray]]


class Graph:
    """One operator between placeholders and a result, and its run in the reference model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.serializer = ts.TosaSerializer(str(folder))

    def placeholder(self, values: np.ndarray):
        return self.serializer.addPlaceholder(list(values.shape), DTYPES[values.dtype.name], values)

    def constant(self, values: np.ndarray):
        return self.serializer.addConst(list(values.shape), DTYPES[values.dtype.name], values)

    def zero_point(self, value: int, dtype: str):
        return self.constant(np.array([value], dtype))

    def run(
        self, op: int, inputs: list, attribute: ts.TosaSerializerAttribute, shape: list[int], dtype: str
    ) -> np.ndarray:
        result = self.serializer.addOutput(shape, DTYPES[dtype])
        self.serializer.addOperator(op, [tensor.name for tensor in inputs], [result.name], attribute)
        (self.folder / "case.tosa").write_bytes(self.serializer.serialize())
        (self.folder / "desc.json").write_text(self.serializer.writeJson("case.tosa"))
        done = subprocess.run(
            [str(MODEL), f"--test_desc={self.folder / 'desc.json'}"], capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            raise RuntimeError(f"the reference model refused the graph: {done.stdout}{done.stderr}")
        return np.load(self.folder / f"ref-{result.name}.npy").astype(dtype).reshape(shape)


def rescale(graph: Graph, params: dict, arrays: dict[str, np.ndarray]) -> np.ndarray:
    values, dtype = arrays["input"], params["output_dtype"]
    attribute = ts.TosaSerializerAttribute()
    attribute.RescaleAttribute(True, RoundingMode.SINGLE_ROUND, len(params["multiplier"]) > 1, False, False)
    inputs = [
        graph.placeholder(values),
        graph.constant(np.array(params["multiplier"], "int32")),
        graph.constant(np.array(params["shift"], "int8")),
        graph.zero_point(params["input_zp"], values.dtype.name),
        graph.zero_point(params["output_zp"], dtype),
    ]
    return graph.run(Op.RESCALE, inputs, attribute, list(values.shape), dtype)


def mul(graph: Graph, params: dict, arrays: dict[str, np.ndarray]) -> np.ndarray:
    attribute = ts.TosaSerializerAttribute()
    attribute.MulAttribute()
    inputs = [
        graph.placeholder(arrays["input"]),
        graph.placeholder(arrays["other"]),
        graph.constant(np.array([params["shift"]], "int8")),
    ]
    shape = list(np.broadcast_shapes(arrays["input"].shape, arrays["other"].shape))
    return graph.run(Op.MUL, inputs, attribute, shape, "int32")


def add(graph: Graph, params: dict, arrays: dict[str, np.ndarray]) -> np.ndarray:
    attribute = ts.TosaSerializerAttribute()
    attribute.AddAttribute()
    inputs = [graph.placeholder(arrays["input"]), graph.placeholder(arrays["other"])]
    shape = list(np.broadcast_shapes(arrays["input"].shape, arrays["other"].shape))
    return graph.run(Op.ADD, inputs, attribute, shape, "int32")


def table(graph: Graph, params: dict, arrays: dict[str, np.ndarray]) -> np.ndarray:
    attribute = ts.TosaSerializerAttribute()
    attribute.TableAttribute()
    inputs = [graph.placeholder(arrays["input"]), graph.constant(arrays["table"])]
    return graph.run(Op.TABLE, inputs, attribute, list(arrays["input"].shape), "int8")


def _pads(padding: list[int]) -> list[int]:
    return [padding[0], padding[0], padding[1], padding[1]]


def conv2d(graph: Graph, params: dict, arrays: dict[str, np.ndarray]) -> np.ndarray:
    stride, padding, dilation = params["stride"], params["padding"], params["dilation"]
    values, weight = arrays["input"], arrays["weight"]
    attribute = ts.TosaSerializerAttribute()
    depthwise = params["groups"] > 1
    make = attribute.DepthwiseConv2dAttribute if depthwise else attribute.Conv2dAttribute
    make(_pads(padding), stride, dilation, False, DType.INT32)
    kernel = weight.shape[:2] if depthwise else weight.shape[1:3]
    size = [
        (values.shape[1 + i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)
    ]
    inputs = [
        graph.placeholder(values),
        graph.constant(weight),
        graph.constant(arrays["bias"]),
        graph.zero_point(params["input_zp"], "int8"),
        graph.zero_point(0, "int8"),
    ]
    shape = [values.shape[0], *size, len(arrays["bias"])]
    return graph.run(Op.DEPTHWISE_CONV2D if depthwise else Op.CONV2D, inputs, attribute, shape, "int32")


def transpose_conv2d(graph: Graph, params: dict, arrays: dict[str, np.ndarray]) -> np.ndarray:
    stride, padding, extra = params["stride"], params["padding"], params["output_padding"]
    values, weight = arrays["input"], arrays["weight"]
    attribute = ts.TosaSerializerAttribute()
    out_pad = [-padding[0], extra[0] - padding[0], -padding[1], extra[1] - padding[1]]
    attribute.TransposeConv2dAttribute(out_pad, stride, False, DType.INT32)
    size = [
        (values.shape[1 + i] - 1) * stride[i] + out_pad[2 * i] + out_pad[2 * i + 1] + weight.shape[1 + i]
        for i in range(2)
    ]
    inputs = [
        graph.placeholder(values),
        graph.constant(weight),
        graph.constant(arrays["bias"]),
        graph.zero_point(params["input_zp"], "int8"),
        graph.zero_point(0, "int8"),
    ]
    shape = [values.shape[0], *size, len(arrays["bias"])]
    return graph.run(Op.TRANSPOSE_CONV2D, inputs, attribute, shape, "int32")


def matmul(graph: Graph, params: dict, arrays: dict[str, np.ndarray]) -> np.ndarray:
    attribute = ts.TosaSerializerAttribute()
    attribute.MatMulAttribute()
    inputs = [
        graph.placeholder(arrays["input"]),
        graph.placeholder(arrays["other"]),
        graph.zero_point(params["input_zp"], "int8"),
        graph.zero_point(params["other_zp"], "int8"),
    ]
    shape = [*arrays["input"].shape[:2], arrays["other"].shape[2]]
    return graph.run(Op.MATMUL, inputs, attribute, shape, "int32")


OPERATORS = {
    "rescale": rescale,
    "mul": mul,
    "add": add,
    "table": table,
    "conv2d": conv2d,
    "transpose_conv2d": transpose_conv2d,
    "matmul": matmul,
}


def codes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype("int8")


def scale_parameters(rng: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    """A multiplier of 31 bits and a shift for a scale between 2**low and 2**high."""
    return int(rng.integers(1 << 30, 1 << 31)), 31 - int(rng.integers(low, high + 1))


def rescale_cases(rng: np.random.Generator) -> Iterator[Case]:
    every_code = np.arange(-128, 128).astype("int8")
    for count, source, target, low, high in (
        (64, "int8", "int32", -8, 21),
        (64, "int8", "int8", -10, 3),
        (48, "int32", "int8", -30, -1),
        (48, "int32", "int32", -30, -1),
        (8, "int32", "int16", -30, -1),
        (8, "int16", "int8", -14, 2),
    ):
        for index in range(count):
            m, shift = scale_parameters(rng, low, high)
            limits = np.iinfo(source)
            values = every_code
            if source != "int8":
                # Spread over the magnitudes, where a uniform draw would be large throughout.
                exponents = rng.uniform(0, limits.bits - 1, 252)
                magnitudes = np.minimum(2.0**exponents, limits.max) * rng.choice([-1, 1], 252)
                values = np.concatenate([magnitudes.astype(source), np.array([limits.min, limits.max, 0, -1], source)])
            params = {
                "multiplier": [m],
                "shift": [shift],
                "input_zp": int(rng.integers(-128, 128)) if source == "int8" else 0,
                "output_zp": int(rng.integers(-128, 128)) if target == "int8" else 0,
                "output_dtype": target,
            }
            yield f"rescale/{source}_{target}_{index}", params, {"input": values}
    for index in range(8):
        channels = [scale_parameters(rng, -20, -6) for _ in range(8)]
        values = rng.integers(-(1 << 20), 1 << 20, (16, 8)).astype("int32")
        params = {
            "multiplier": [m for m, _ in channels],
            "shift": [shift for _, shift in channels],
            "input_zp": 0,
            "output_zp": int(rng.integers(-128, 128)),
            "output_dtype": "int8",
        }
        yield f"rescale/per_channel_{index}", params, {"input": values}
    # Exact halves, where one rounding rule differs from another: x * 2**-1 and x * 2**-2.
    for shift in (31, 32):
        params = {"multiplier": [1 << 30], "shift": [shift], "input_zp": 0, "output_zp": 0, "output_dtype": "int8"}
        yield f"rescale/halves_{shift}", params, {"input": every_code}
    # The ends of the shift. A centred value must lie in [-2**(shift - 1), 2**(shift - 1)): four values for shift 2.
    for shift, m, values in ((2, 5, np.arange(1, 5).astype("int8")), (62, INT32_MAX, every_code)):
        params = {"multiplier": [m], "shift": [shift], "input_zp": 3, "output_zp": -5, "output_dtype": "int8"}
        yield f"rescale/shift_{shift}", params, {"input": values}


def elementwise_cases(rng: np.random.Generator) -> Iterator[Case]:
    def int32(limit: int, *shape: int) -> np.ndarray:
        return rng.integers(-limit, limit, shape).astype("int32")

    # Shift 0 beyond int32 is left to the wrapping test: the model refuses what it does not define.
    yield "mul/int32_shift_0", {"shift": 0}, {"input": int32(46340, 512), "other": int32(46340, 512)}
    yield "mul/int32_broadcast", {"shift": 0}, {"input": int32(46340, 64, 8), "other": int32(46340, 1, 8)}
    for shift in (1, 7, 16, 31):
        # Both factors around 2**(15 + shift / 2): large, and their shifted product still an int32.
        limit = min(1 << (15 + shift // 2), INT32_MAX)
        yield f"mul/int32_shift_{shift}", {"shift": shift}, {"input": int32(limit, 512), "other": int32(limit, 512)}
    yield "mul/int8", {"shift": 0}, {"input": codes(rng, 512), "other": codes(rng, 512)}
    yield "add/int32", {}, {"input": int32(1 << 30, 512), "other": int32(1 << 30, 512)}
    yield "add/int32_broadcast", {}, {"input": int32(1 << 30, 64, 8), "other": int32(1 << 30, 1, 8)}
    for index in range(4):
        yield f"table/{index}", {}, {"input": np.arange(-128, 128).astype("int8"), "table": codes(rng, 256)}


def matrix_cases(rng: np.random.Generator) -> Iterator[Case]:
    def bias(count: int) -> np.ndarray:
        return rng.integers(-(1 << 20), 1 << 20, count).astype("int32")

    def zero_point() -> int:
        return int(rng.integers(-128, 128))

    for index, (kernel, stride, padding, dilation) in enumerate(
        (((1, 1), (1, 1), (0, 0), (1, 1)), ((3, 3), (1, 1), (1, 1), (1, 1)), ((3, 3), (2, 2), (1, 1), (1, 1)),
         ((3, 2), (1, 2), (2, 0), (2, 1)), ((5, 5), (1, 1), (2, 2), (1, 1)))
    ):  # fmt: skip
        params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": 1, "input_zp": zero_point()}
        arrays = {"input": codes(rng, 1, 9, 9, 6), "weight": codes(rng, 5, *kernel, 6), "bias": bias(5)}
        yield f"conv2d/dense_{index}", _fitted(params, arrays["input"], kernel), arrays
        arrays = {"input": codes(rng, 1, 9, 9, 6), "weight": codes(rng, *kernel, 6, 1), "bias": bias(6)}
        params = {**params, "groups": 6, "input_zp": zero_point()}
        yield f"conv2d/depthwise_{index}", _fitted(params, arrays["input"], kernel), arrays
    for index, (kernel, stride, padding, extra) in enumerate(
        (((2, 2), (2, 2), (0, 0), (0, 0)), ((4, 4), (2, 2), (1, 1), (0, 0)), ((3, 3), (2, 2), (1, 1), (1, 1)))
    ):
        params = {"stride": stride, "padding": padding, "output_padding": extra, "input_zp": zero_point()}
        arrays = {"input": codes(rng, 1, 5, 6, 4), "weight": codes(rng, 3, *kernel, 4), "bias": bias(3)}
        yield f"transpose_conv2d/{index}", params, arrays
    for index in range(3):
        params = {"input_zp": zero_point(), "other_zp": zero_point()}
        yield f"matmul/{index}", params, {"input": codes(rng, 2, 6, 32), "other": codes(rng, 2, 32, 8)}


def _fitted(params: dict, values: np.ndarray, kernel: tuple[int, int]) -> dict:
    """TOSA wants the last window to end at the edge: a stride that leaves a remainder loses its padding there."""
    for i in range(2):
        span = values.shape[1 + i] + 2 * params["padding"][i] - params["dilation"][i] * (kernel[i] - 1) - 1
        if span % params["stride"][i]:
            stride = list(params["stride"])
            stride[i] = 1
            params = {**params, "stride": stride}
    return params


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("tosa_vectors.npz"))
    out = parser.parse_args().out
    rng = np.random.default_rng(0)
    stored: dict[str, np.ndarray] = {}
    compared = 0
    for make in (rescale_cases, elementwise_cases, matrix_cases):
        for name, params, arrays in make(rng):
            with tempfile.TemporaryDirectory() as folder:
                output = OPERATORS[name.partition("/")[0]](Graph(Path(folder)), params, arrays)
            compared += output.size
            stored.update({f"{name}/{key}": value for key, value in arrays.items()})
            stored[f"{name}/output"] = output
            stored[f"{name}/params"] = np.array(json.dumps(params))
    np.savez_compressed(out, **stored)  # pyright: ignore[reportArgumentType]
    print(f"{out}: {compared} values, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
