"""The two networks that every server runs: a small ranking network made here, and a heavy real one out of a package."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

LAYERS = (64, 256, 128, 1)
SEED = 20260101
Rows = NDArray[Any]


@dataclass(frozen=True)
class ServedModel:
    """One ONNX file with one input of fixed width and one output, and what a request to it looks like."""

    name: str
    file: Path
    input: str
    output: str
    width: int
    dtype: str  # NumPy name: "float32" or "int32"

    @property
    def folder(self) -> Path:
        """The folder that holds the numbered versions of this model."""
        return self.file.parent.parent

    def rows(self, count: int) -> Rows:
        """The same `count` plausible rows on every call."""
        random = np.random.default_rng(SEED)
        if self.dtype == "int32":
            return random.integers(0, 257, (count, self.width), dtype=np.int32)
        return random.standard_normal((count, self.width), dtype=np.float32)


def ranker(folder: Path, name: str = "ranker") -> ServedModel:
    """Write the 64-256-128-1 ranking network as FOLDER/NAME/1/model.onnx."""
    file = folder / name / "1" / "model.onnx"
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(_network(), file)
    return _described(name, file)


def heavy(folder: Path, name: str = "magika") -> ServedModel:
    """Copy Magika's file-type network (int32 [N, 2048] to one score per label) to FOLDER/NAME/1/model.onnx."""
    spec = find_spec("magika")
    if spec is None or spec.origin is None:
        raise SystemExit("the package magika is not installed here: run benchmarks/setup.sh")
    models = Path(spec.origin).parent / "models"
    (source,) = models.glob("*/model.onnx")
    file = folder / name / "1" / "model.onnx"
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, file)
    return _described(name, file)


def _network() -> onnx.ModelProto:
    random = np.random.default_rng(SEED)
    nodes, weights, current = [], [], "x"
    for layer, (wide, narrow) in enumerate(itertools.pairwise(LAYERS)):
        last = layer == len(LAYERS) - 2
        matrix = random.standard_normal((wide, narrow), dtype=np.float32) / np.sqrt(wide, dtype=np.float32)
        bias = random.standard_normal(narrow, dtype=np.float32) * np.float32(0.1)
        weights += [numpy_helper.from_array(matrix, f"w{layer}"), numpy_helper.from_array(bias, f"b{layer}")]
        nodes.append(helper.make_node("Gemm", [current, f"w{layer}", f"b{layer}"], [f"sum{layer}"]))
        current = "score" if last else f"hidden{layer}"
        nodes.append(helper.make_node("Sigmoid" if last else "Relu", [f"sum{layer}"], [current]))
    graph = helper.make_graph(nodes, "ranker", [_value("x", LAYERS[0])], [_value("score", LAYERS[-1])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def _value(name: str, width: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])


def _described(name: str, file: Path) -> ServedModel:
    graph = onnx.load(file).graph
    tensor = graph.input[0].type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    width = tensor.shape.dim[1].dim_value
    return ServedModel(name, file, graph.input[0].name, graph.output[0].name, width, dtype)


def options(model: ServedModel) -> str:
    """The model as one JSON line, for a server that runs in another process."""
    return json.dumps({"file": str(model.file), "input": model.input, "output": model.output})
