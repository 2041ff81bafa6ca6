"""The small ranking network: 64 features to one score, so cheap that a measurement of it measures the server."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS = (64, 256, 128, 1)
SEED = 64
OPSET = 17  # what every ONNX Runtime of the last years reads


def write_ranker(path: Path) -> None:
    """Write the network, always the same one, with input `x` [rows, 64] and output `score` [rows, 1]."""
    rng = np.random.default_rng(SEED)
    nodes, weights = [], []
    source = "x"
    for index, (wide, narrow) in enumerate(pairwise(LAYERS)):
        last = index == len(LAYERS) - 2
        scale = np.sqrt(2 / wide)  # keeps activations of one size from layer to layer
        matrix = (rng.standard_normal((wide, narrow)) * scale).astype(np.float32)
        weights += [
            numpy_helper.from_array(matrix, f"w{index}"),
            numpy_helper.from_array(np.zeros(narrow, np.float32), f"b{index}"),
        ]
        nodes += _layer(index, source, last=last)
        source = nodes[-1].output[0]
    _save(path, nodes, weights)


def _layer(index: int, source: str, *, last: bool) -> list[onnx.NodeProto]:
    """A dense layer and what follows it: a sigmoid at the end, a rectifier before."""
    target = "score" if last else f"h{index}"
    dense = helper.make_node("Gemm", [source, f"w{index}", f"b{index}"], [f"z{index}"])
    return [dense, helper.make_node("Sigmoid" if last else "Relu", [f"z{index}"], [target])]


def _save(path: Path, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", LAYERS[0]])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["rows", LAYERS[-1]])
    graph = helper.make_graph(nodes, "ranker", [x], [score], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
