from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from poise.backends import openvino as ov
from poise.backends import select
from poise.backends.base import ModelSource
from poise.backends.openvino import OpenVinoOptions, Port
from poise.errors import ConfigError, InvalidInput, InvalidModel, ModelLoadError
from poise.types import Signature, TensorSpec


def write(path: Path, kind: int = TensorProto.FLOAT, shape=("n", 2)) -> Path:
    """y = x, and z = x + x."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Add", ["x", "x"], ["z"])]
    graph = helper.make_graph(nodes, "g", [value("x", kind, shape)], [value(name, kind, shape) for name in "yz"])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def load(path: Path, **options):
    return select.load(ModelSource("m", 1, str(path), options), "openvino")


@pytest.mark.parametrize("inside", [True, False], ids=["folder", "file"])
def test_a_file_is_loaded_with_its_signature_and_run(tmp_path, inside):
    path = write(tmp_path / "net.onnx")
    model = load(tmp_path if inside else path)
    [signature] = model.signatures
    assert signature.inputs == (TensorSpec("x", "float", (-1, 2), "x"),)
    assert sorted(spec.name for spec in signature.outputs) == ["y", "z"]
    assert signature.batched
    for rows in (1, 3):
        x = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
        found = model.run("serving_default", {"x": x}, ("z",))
        assert found["z"].tolist() == (x + x).tolist()
    model.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8], ids=str)
def test_numeric_dtypes_go_through(tmp_path, dtype):
    model = load(write(tmp_path / "m.onnx", helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))
    x = np.array([[0, 1], [2, 3]], dtype)
    found = model.run("serving_default", {"x": x}, ("y",))["y"]
    assert (found.dtype, found.tolist()) == (x.dtype, x.tolist())


def test_a_shape_that_the_model_cannot_have_is_the_clients_mistake(tmp_path):
    model = load(write(tmp_path / "m.onnx"))
    with pytest.raises(InvalidInput, match=r"input x: Can't set the input tensor .* are incompatible"):
        model.run("serving_default", {"x": np.zeros((1, 3), np.float32)}, ("y",))


def test_a_file_that_is_no_model_is_refused_in_one_line(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelLoadError, match=r"m\.onnx: OpenVINO does not load it: ") as caught:
        load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "option", "found"),
    [
        (["saved_model.pb", "model.tflite"], "", ""),
        (["saved_model.pb", "model.tflite"], "model.tflite", "model.tflite"),
        (["net.bin", "net.xml"], "", "net.xml"),
    ],
    ids=["SavedModel", "named", "only one"],
)
def test_what_to_read_is_found_in_a_folder(tmp_path, files, option, found):
    for name in files:
        (tmp_path / name).touch()
    assert ov.find(tmp_path, option) == tmp_path / found


def test_a_folder_with_several_models_asks_for_a_name(tmp_path):
    for name in ("a.tflite", "b.xml"):
        (tmp_path / name).touch()
    with pytest.raises(InvalidModel, match=r"found a\.tflite, b\.xml\. Name one with options\.file"):
        ov.find(tmp_path)


def test_a_saved_model_may_be_named_by_its_file(tmp_path):
    assert ov.find(tmp_path / "saved_model.pb") == tmp_path


def test_options_become_properties_of_the_device():
    assert ov.properties(OpenVinoOptions(), 3) == {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": 3,
        "ENABLE_CPU_PINNING": False,
    }
    given = OpenVinoOptions(device="GPU", precision="device", streams=2, config={"NUM_STREAMS": 4})
    assert ov.properties(given, 3) == {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 4}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tags": ["serve"]}, "options of model m: tags: unknown key"),
        ({"streams": 0}, "streams positive"),
        ({"precision": "f8"}, "precision: expected 'f32' or 'bf16' or 'f16' or 'device'"),
    ],
    ids=["key", "number", "choice"],
)
def test_options_that_cannot_be_used_are_refused(tmp_path, options, message):
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path / "m.onnx"), **options)
    assert message in str(caught.value)


PORTS = [
    Port(0, frozenset({"serving_default_a:0", "a"}), "float", (-1,), "a f32[?]"),
    Port(1, frozenset({"serving_default_b:0"}), None, None, "serving_default_b:0 string[...]"),
]


def test_tensors_of_a_signature_are_found_by_either_name():
    assert ov.places([TensorSpec("a", "float", (-1,), "elsewhere:0")], PORTS) == {"a": 0}
    assert ov.places([TensorSpec("alias", "float", (-1,), "serving_default_a:0")], PORTS) == {"alias": 0}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (TensorSpec("c", "float", None, "c:0"), "OpenVINO lost c in converting the model; it has a f32[?], serving_"),
        (TensorSpec("b", "string", None, "serving_default_b:0"), "b is string, which OpenVINO cannot serve; it made"),
        (TensorSpec("a", "complex64", None, "a:0"), "a is complex64, which OpenVINO cannot serve; it made a f32[?]"),
    ],
    ids=["lost", "string", "complex"],
)
def test_a_model_that_openvino_changed_is_refused(spec, message):
    with pytest.raises(InvalidModel) as caught:
        ov.places([spec], PORTS)
    assert message in str(caught.value)


def test_a_file_without_signatures_is_batched_where_its_rows_vary():
    assert ov.own_signature(PORTS[:1], PORTS[:1]).batched
    fixed = Port(0, frozenset({"x"}), "float", (1, 2), "x f32[1,2]")
    assert ov.own_signature([fixed], [fixed]) == Signature(
        (TensorSpec("x", "float", (1, 2), "x"),), (TensorSpec("x", "float", (1, 2), "x"),), batched=False
    )
    with pytest.raises(InvalidModel, match="cannot be served by OpenVINO"):
        ov.own_signature(PORTS, PORTS)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "Exception from src/core.cpp:84:\nCheck 'x' failed at src/y.cpp:1:\nNo rule for:\n  Foo\n\n",
            "No rule for: Foo",
        ),
        ("plain words", "plain words"),
        ("", "RuntimeError"),
        ("x" * 400, "x" * 299 + "…"),
    ],
    ids=["places", "plain", "nothing", "long"],
)
def test_openvinos_words_are_told_without_places_in_its_sources(said, told):
    assert ov.reason(RuntimeError(said)) == told
