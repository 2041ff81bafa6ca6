import json

import numpy as np
import pytest

from poise import types
from poise.bench.payloads.random_inputs import random_array
from poise.client.arrays import cast, describe, from_border, match_inputs, objects, to_border
from poise.client.tensor_json import read_inputs, read_outputs, request_body, to_array, to_value
from poise.types import Signature, TensorSpec


def signature(*inputs):
    return Signature(inputs, (TensorSpec("y", "float", (-1,)),))


X = TensorSpec("x", "float", (-1, 2))
WORDS = TensorSpec("words", "string", (-1,))
BINARY = b"\xff\x00"


@pytest.mark.parametrize("dtype", types.DTYPES)
def test_every_dtype_survives_the_way_to_the_border_and_back(dtype):
    array = random_array(dtype, (2, 3), np.random.default_rng(0))
    spec = TensorSpec("x", dtype, (-1, 3))
    back = from_border(to_border(signature(spec), {"x": array}))["x"]
    assert back.dtype == array.dtype
    assert back.tolist() == array.tolist()


@pytest.mark.parametrize("dtype", [name for name in types.DTYPES if not name.startswith("complex")])
def test_every_real_dtype_survives_the_way_through_json(dtype):
    array = random_array(dtype, (2, 3), np.random.default_rng(0))
    spec = TensorSpec("x", dtype, (-1, 3))
    back = read_inputs(signature(spec), json.loads(request_body(signature(spec), {"x": array})))["x"]
    assert back.dtype == array.dtype
    assert back.tolist() == array.tolist()


@pytest.mark.parametrize(
    "payload",
    [
        {"instances": [[1, 2], [3, 4]]},
        {"instances": [{"x": [1, 2]}, {"x": [3, 4]}]},
        {"inputs": [[1, 2], [3, 4]]},
        {"inputs": {"x": [[1, 2], [3, 4]]}},
    ],
    ids=["rows", "named rows", "a column", "named columns"],
)
def test_rows_and_columns_are_the_same_inputs(payload):
    inputs = read_inputs(signature(X), payload)
    assert inputs["x"].dtype == np.float32
    assert inputs["x"].tolist() == [[1, 2], [3, 4]]


def test_strings_are_text_or_base64():
    inputs = read_inputs(signature(WORDS), {"instances": ["añ", {"b64": "/wA="}]})
    assert inputs["words"].tolist() == ["añ".encode(), BINARY]
    assert to_value(inputs["words"]) == ["añ", {"b64": "/wA="}]


def test_several_inputs_are_written_as_named_rows():
    body = json.loads(
        request_body(signature(X, WORDS), {"x": np.ones((1, 2), np.float32), "words": objects([b"a"], (1,))}, rows=True)
    )
    assert body["instances"] == [{"x": [1.0, 1.0], "words": "a"}]


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ([], "instances"),
        ({}, "instances"),
        ({"instances": [], "inputs": []}, "either"),
        ({"instances": []}, "at least one row"),
        ({"instances": [{"x": 1}, {"z": 1}]}, "names the same inputs"),
        ({"inputs": {"z": 1}}, "no input 'z'"),
        ({"instances": [[1, 2], [3]]}, "tensor x"),
        ({"instances": [["a", "b"]]}, "cannot be cast"),
    ],
)
def test_other_json_is_refused_with_the_reason(payload, why):
    with pytest.raises(ValueError, match=why):
        read_inputs(signature(X), payload)


@pytest.mark.parametrize(
    ("value", "why"), [([1], "expected text"), ([["a"], ["a", "b"]], "different lengths"), ([None], "null")]
)
def test_what_is_no_string_is_refused(value, why):
    with pytest.raises(ValueError, match=why):
        to_array(WORDS, value)


def test_two_inputs_need_names():
    with pytest.raises(ValueError, match="one key per tensor: x, words"):
        read_inputs(signature(X, WORDS), {"instances": [[1, 2]]})


def test_answers_are_read_bare_or_by_name():
    one = signature(X)
    assert read_outputs(one, {"outputs": [0.5]})["y"].tolist() == [0.5]
    assert read_outputs(one, {"outputs": {"y": [0.5]}})["y"].tolist() == [0.5]
    with pytest.raises(ValueError, match='no "outputs"'):
        read_outputs(one, {"predictions": [0.5]})


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([1.5], np.float64), "float"),
        (np.array([3], np.int64), "float"),
        (np.array([200], np.int64), "uint8"),
        (np.array(["a"]), "string"),
        (np.array([], np.int64), "uint8"),
    ],
)
def test_casts_that_lose_only_precision_are_made(array, dtype):
    assert cast(TensorSpec("x", dtype, (-1,)), array).dtype == types.numpy_dtype(dtype)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([1.5]), "int32"),
        (np.array([300], np.int64), "uint8"),
        (np.array([-1], np.int64), "uint64"),
        (np.array(["a"]), "float"),
        (np.array([1]), "string"),
    ],
)
def test_other_casts_are_refused(array, dtype):
    with pytest.raises(ValueError, match=f"input x takes {dtype}"):
        cast(TensorSpec("x", dtype, (-1,)), array)


def test_inputs_are_matched_by_name():
    with pytest.raises(ValueError, match="no input 'X'"):
        match_inputs(signature(X), {"X": np.ones(1)})
    with pytest.raises(ValueError, match="needs input 'x'"):
        match_inputs(signature(X), {})


def test_arrays_are_described_by_tensorflow_names():
    assert describe(np.ones((1, 2), np.float32)) == "float[1,2]"
    assert describe(objects([b"a"], ())) == "string[]"
