import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from poise import types
from poise.types import Signature, TensorSpec

RUST = Path(__file__).parents[2] / "rust" / "src" / "tensor.rs"


def test_dtypes_are_those_of_the_data_plane():
    assert set(re.findall(r'DType::\w+ => "(\w+)"', RUST.read_text())) == set(types.DTYPES)


@pytest.mark.parametrize("name", types.DTYPES)
def test_every_dtype_survives_the_way_through_numpy(name):
    assert types.dtype_name(types.numpy_dtype(name)) == name


def test_bfloat16_is_the_dtype_of_ml_dtypes_where_that_is_installed():
    assert types.numpy_dtype("bfloat16") == np.dtype(ml_dtypes.bfloat16)


def test_bfloat16_is_bits_where_ml_dtypes_is_not_installed(monkeypatch):
    monkeypatch.setattr(types, "_bfloat16", lambda: None)
    assert types.numpy_dtype("bfloat16") == np.dtype(np.uint16)
    assert types.dtype_name(np.uint16) == "uint16"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("float32", "float"),
        ("float", "float"),
        (np.float64, "double"),
        ("f2", "half"),
        ("str", "string"),
        (np.dtype("U5"), "string"),
        (np.dtype("S5"), "string"),
        (bool, "bool"),
    ],
    ids=str,
)
def test_dtypes_are_known_by_the_names_of_both_worlds(given, name):
    assert types.dtype_name(given) == name


@pytest.mark.parametrize("given", ["float33", "datetime64[s]", np.dtype("V4"), object()], ids=str)
def test_a_dtype_that_is_not_served_is_refused_with_those_that_are(given):
    with pytest.raises(ValueError, match="expected one of float, double"):
        types.dtype_name(given)


def test_a_name_that_is_no_dtype_has_no_numpy_dtype():
    with pytest.raises(ValueError, match="unknown dtype 'floaty'"):
        types.numpy_dtype("floaty")


def test_none_stands_for_a_dimension_that_may_vary():
    assert TensorSpec("x", "float32", (None, 3)) == TensorSpec("x", "float", (-1, 3))


@pytest.mark.parametrize("dim", [-2, 1.0, "n", True], ids=repr)
def test_a_dimension_that_is_none_is_refused(dim):
    with pytest.raises(ValueError, match="a dimension is a whole number"):
        TensorSpec("x", "float", (dim,))


@pytest.mark.parametrize(
    ("inputs", "outputs", "batched", "why"),
    [
        pytest.param([("x", (-1,))], [("y", (1,))], True, "dimension 0 of y does not vary", id="fixed rows"),
        pytest.param([("x", (-1,))], [("y", ())], True, "dimension 0 of y does not vary", id="scalar"),
        pytest.param([("x", (-1,)), ("x", (-1,))], [("y", (-1,))], True, "input x is declared twice", id="twice"),
        pytest.param([("x", (-1,))], [], False, "no outputs", id="no outputs"),
    ],
)
def test_a_signature_that_contradicts_itself_is_refused(inputs, outputs, batched, why):
    with pytest.raises(ValueError, match=why):
        Signature(
            tuple(TensorSpec(name, "float", shape) for name, shape in inputs),
            tuple(TensorSpec(name, "float", shape) for name, shape in outputs),
            batched=batched,
        )


def test_signatures_cross_the_border_as_plain_values_sorted_by_name():
    b, a = TensorSpec("b", "float", (-1, 3)), TensorSpec("a", "string", None)
    text = types.signatures_to_json([Signature((b, a), (TensorSpec("y", "half", (-1,)),))])
    [read] = types.signatures_from_json(text)
    assert read == Signature((a, b), (TensorSpec("y", "half", (-1,)),))
    assert '"name": "serving_default", "method_name": "tensorflow/serving/predict", "batched": true' in text
    assert '{"name": "a", "dtype": "string", "shape": null}' in text


def test_a_signature_whose_model_judges_shapes_itself_stays_so():
    lax = Signature((TensorSpec("x", "float", (-1, 1)),), (TensorSpec("y", "float", (-1, 1)),), check_shapes=False)
    assert types.signatures_from_json(types.signatures_to_json([lax])) == (lax,)


@pytest.mark.parametrize(
    ("shapes", "counted"),
    [([(-1, 2), (-1,)], True), ([(-1,), (1,)], False), ([(-1,), None], False), ([(-1,), ()], False), ([], False)],
    ids=str,
)
def test_rows_can_be_counted_where_dim_0_varies_everywhere(shapes, counted):
    assert types.rows_can_be_counted([TensorSpec("x", "float", shape) for shape in shapes]) is counted


def test_a_tensor_keeps_its_name_in_the_graph_and_its_default():
    x = TensorSpec("x", "float", (-1,), tensor="serving_x:0", default=b"\x08\x01\xff")
    signature = Signature((x, TensorSpec("k", "float", None)), (TensorSpec("y", "float", (-1,)),))
    text = types.signatures_to_json([signature])
    [found] = types.signatures_from_json(text)
    assert set(found.inputs) == set(signature.inputs)
    assert text.count('"tensor"') == text.count('"default"') == 1
