import json

import numpy as np
import pytest

from poise import types
from poise.bench import payload
from poise.bench.payload import make_bodies, random_array, random_inputs, shape_of
from poise.client import ModelAddress
from poise.types import Signature, TensorSpec

REST = ModelAddress("http://localhost:1", "m")
GRPC = ModelAddress("grpc://localhost:1", "m")


def signature(*inputs, batched=True):
    return Signature(inputs, (TensorSpec("y", "float", (-1,)),), batched=batched)


X = TensorSpec("x", "float", (-1, 3))


@pytest.mark.parametrize(
    ("shape", "batched", "given", "expected"),
    [
        ((-1, 3), True, None, (5, 3)),
        ((-1, -1, 3), True, None, (5, 1, 3)),
        ((-1, -1, 3), True, (7, 3), (5, 7, 3)),
        ((-1, -1, 3), True, (1, 7, 3), (5, 7, 3)),
        ((-1, 4), False, None, (1, 4)),
        ((-1, 4), False, (6, 4), (6, 4)),
        ((), False, None, ()),
        (None, True, None, (5,)),
        (None, True, (2,), (5, 2)),
        (None, False, (2,), (2,)),
    ],
)
def test_rows_come_first_and_open_dimensions_are_one_unless_given(shape, batched, given, expected):
    assert shape_of(TensorSpec("x", "float", shape), batched, 5, given) == expected


@pytest.mark.parametrize("given", [(4,), (3, 3, 3)])
def test_shapes_that_the_signature_forbids_are_refused(given):
    with pytest.raises(ValueError, match=r"input x has shape \[-1, 3\]"):
        shape_of(X, True, 1, given)


def test_a_shape_for_no_input_is_refused():
    with pytest.raises(ValueError, match=r"did you mean .?image"):
        make_bodies(REST, signature(TensorSpec("image", "float", (-1,))), 1, {"imag": (1,)}, 0)


@pytest.mark.parametrize("dtype", types.DTYPES)
def test_every_dtype_can_be_made_up(dtype):
    array = random_array(dtype, (2, 3), np.random.default_rng(0))
    assert array.shape == (2, 3)
    assert array.dtype == types.numpy_dtype(dtype)


def test_bodies_are_distinct_and_the_same_for_the_same_seed():
    first = make_bodies(REST, signature(X), 2, {}, 7)
    assert first == make_bodies(REST, signature(X), 2, {}, 7)
    assert first != make_bodies(REST, signature(X), 2, {}, 8)
    assert len(set(first)) == payload.MAX_VARIANTS
    body = json.loads(first[0])
    assert body["signature_name"] == "serving_default"
    assert np.shape(body["instances"]) == (2, 3)


def test_what_counts_no_rows_is_sent_in_columns():
    body = json.loads(make_bodies(REST, signature(TensorSpec("x", "float", (3,)), batched=False), 1, {}, 0)[0])
    assert np.shape(body["inputs"]["x"]) == (3,)


def test_large_bodies_are_fewer_but_never_none(monkeypatch):
    monkeypatch.setattr(payload, "MAX_BYTES", 10)
    assert len(make_bodies(REST, signature(X), 1, {}, 0)) == 1


def test_over_grpc_bodies_are_protobuf_of_the_same_inputs():
    body = make_bodies(GRPC, signature(X), 1, {}, 0)[0]
    inputs = random_inputs(signature(X), 1, {}, np.random.default_rng(0))
    assert inputs["x"].tobytes() in body
