"""Every dtype over every wire: what goes in comes out."""

from __future__ import annotations

import numpy as np
import pytest

from poise.types import DTYPES, numpy_dtype
from support.clients import Refused
from support.frontends import Frontend, Grpc, narrowed, same
from support.serving import model, serving
from support.tfclient import TfClient, arrays, encode, tensor

BIG = np.finfo(np.float32)
VALUES = {
    "float": [1.5, -0.0, 1 / 3, BIG.max, BIG.smallest_subnormal, 16777216.0],
    "double": [1.5, -0.0, 1 / 3, np.finfo(np.float64).max, 5e-324, 0.1],
    "half": [1.5, -0.0, 65504.0, 6e-8, 0.333, 2.0],
    "bfloat16": [1.5, -0.0, 3e38, 1e-38, 0.333, 2.0],
    "bool": [True, False, False, True, True, False],
    "string": [b"plain", b"", "grüße".encode(), b"\x00\xff\xfe", b'"\\/\n', b"x" * 1000],
    "complex64": [1 + 2j, -0.5j, 0, 3, 1e30j, 7],
    "complex128": [1 + 2j, -0.5j, 0, 3, 1e300j, 7],
}
NOT_IN_JSON = {"complex64", "complex128"}
SHAPES = {"flat": (6,), "rows": (3, 2), "deep": (1, 2, 1, 3)}


def values(dtype, shape=(6,)):
    found = VALUES.get(dtype)
    if found is None:
        info = np.iinfo(numpy_dtype(dtype))
        found = [info.min, info.max, 0, 1, 100, info.max - 1]
    array = np.empty(len(found), numpy_dtype(dtype))
    array[:] = found
    return array.reshape(shape)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_come_back_as_they_went(frontend: Frontend, dtype, shape):
    if frontend.kind != "grpc" and (dtype in NOT_IN_JSON or dtype == "string"):
        pytest.skip("another test: JSON does not carry it, or not everything of it")
    sent = values(dtype, shape)
    got = frontend.predict(f"echo_{dtype}", {"x": sent})["only"]
    if frontend.kind == "grpc":
        assert got.dtype == sent.dtype
    assert same(sent, narrowed(got, dtype))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_texts_come_back_as_they_went(frontend: Frontend, shape):
    sent = np.array(["a", "", "grüße", "\U0001f600", 'q"\\/\n\t\x01', "x" * 1000], object).reshape(shape)
    encoded = np.vectorize(str.encode, otypes=[object])(sent)
    got = frontend.predict("echo_string", {"x": encoded})["only"]
    assert same(encoded, got)


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_not_a_number_and_the_infinities_pass(frontend: Frontend, dtype):
    sent = np.array([np.nan, np.inf, -np.inf, 0.0], numpy_dtype(dtype))
    got = frontend.predict(f"echo_{dtype}", {"x": sent})["only"]
    assert same(sent, narrowed(got, dtype))


@pytest.mark.parametrize("dtype", sorted(NOT_IN_JSON))
def test_json_refuses_what_it_cannot_write(frontend: Frontend, dtype):
    if frontend.kind == "grpc":
        pytest.skip("gRPC carries it")
    with pytest.raises(Refused) as refused:
        frontend.predict(f"echo_{dtype}", {"x": np.array([0.0])})
    rows = frontend.kind == "rest rows"
    assert refused.value.code == ("INVALID_ARGUMENT" if rows else "UNIMPLEMENTED")
    assert f"Conversion of JSON Value: 0.0 to type: {dtype}" in refused.value.text


class TestShapes:
    @pytest.mark.parametrize("dtype", ["float", "string", "bool", "int64"])
    @pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), ()], ids=str)
    def test_without_elements_or_without_dimensions(self, grpc: Grpc, dtype, shape):
        sent = np.zeros(shape, numpy_dtype(dtype))
        if dtype == "string":
            sent[...] = b"one"
        got = grpc.predict(f"echo_{dtype}", {"x": sent})["only"]
        assert got.shape == shape
        assert same(sent, got)

    def test_no_rows_of_a_known_width(self, grpc: Grpc):
        got = grpc.predict("rows_of_two", {"x": np.zeros((0, 2), np.float32)})["only"]
        assert got.shape == (0, 2)

    def test_a_model_that_is_not_batched_takes_scalars(self, grpc: Grpc):
        assert grpc.predict("alone", {"x": np.float32(4)})["only"] == 8

    def test_a_wrong_width_is_refused_with_what_was_expected(self, frontend: Frontend):
        with pytest.raises(Refused) as refused:
            frontend.predict("rows_of_two", {"x": np.zeros((2, 3), np.float32)})
        assert refused.value.code == "INVALID_ARGUMENT"
        for part in ("x", "[2,3]", "2]"):
            assert part in refused.value.text.replace(", ", ",")


class TestFields:
    """How a TensorProto may be filled, and how answers are."""

    CASES = {
        "as many as there are elements": ([3], [1.5, 2.5, 3.5], [1.5, 2.5, 3.5]),
        "fewer: the last is repeated": ([4], [1.5, 2.5], [1.5, 2.5, 2.5, 2.5]),
        "none: zeros": ([2, 2], [], [0, 0, 0, 0]),
        "more: the rest is ignored": ([2], [1.5, 2.5, 3.5], [1.5, 2.5]),
        "a scalar": ([], [1.5], [1.5]),
    }

    @pytest.mark.parametrize(("shape", "sent", "expected"), CASES.values(), ids=CASES)
    def test_float_val(self, grpc: Grpc, shape, sent, expected):
        filled = {"dtype": "float32", "shape": shape, "fields": {"float_val": sent}}
        got = grpc.predict("echo_float", {"x": filled})["only"]
        assert got.shape == tuple(shape)
        assert got.ravel().tolist() == expected

    def test_int_val_is_filled_with_its_last_too(self, grpc: Grpc):
        filled = {"dtype": "int8", "shape": [3], "fields": {"int_val": [-5]}}
        assert grpc.predict("echo_int8", {"x": filled})["only"].tolist() == [-5, -5, -5]

    @pytest.mark.parametrize("length", [4, 7, 12], ids="{} bytes".format)
    def test_content_must_be_of_the_very_size(self, grpc: Grpc, length):
        filled = {"dtype": "float32", "shape": [2], "fields": {"tensor_content": encode(bytes(length))}}
        with pytest.raises(Refused) as refused:
            grpc.predict("echo_float", {"x": filled})
        assert refused.value.code == "INVALID_ARGUMENT"
        assert "tensor parsing error: x" in refused.value.text

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_answers_are_in_typed_fields(self, grpc: Grpc, dtype):
        answer = grpc.ask("predict", model=f"echo_{dtype}", inputs={"x": tensor(values(dtype))})
        assert "tensor_content" not in answer["outputs"]["x"]["fields"]

    def test_answers_are_in_tensor_content_where_the_server_is_set_to_it(self, tf: TfClient):
        with serving(model("echo", "Echo"), tensor_content=True) as stand:
            sent = values("float", (3, 2))
            answer = tf.call("predict", stand.grpc, model="echo", inputs={"x": tensor(sent)})
        assert "tensor_content" in answer["outputs"]["x"]["fields"]
        assert same(sent, arrays(answer)["x"])
