import numpy as np
import pytest

from poise.errors import InvalidModel
from poise.model import Model, declared_signature, inferred_signature
from poise.types import Signature, TensorSpec


def declared(**attributes):
    return declared_signature(type("Ranker", (Model,), attributes)())


def test_a_declared_signature_is_batched_when_dim_0_varies_everywhere():
    signature = declared(inputs={"x": ("float32", [-1, 64])}, outputs={"score": ("float", [None, 1])})
    assert signature == Signature((TensorSpec("x", "float", (-1, 64)),), (TensorSpec("score", "float", (-1, 1)),))
    assert signature.batched


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"inputs": {"x": ("float", [-1])}, "outputs": {"y": ("float", [])}}, id="scalar output"),
        pytest.param({"inputs": {"x": ("float", None)}, "outputs": {"y": ("float", [-1])}}, id="unknown rank"),
        pytest.param(
            {"inputs": {"x": ("float", [-1])}, "outputs": {"y": ("float", [-1])}, "batched": False}, id="declared so"
        ),
    ],
)
def test_a_declared_signature_is_not_batched_otherwise(attributes):
    assert not declared(**attributes).batched


def test_a_class_that_declares_nothing_has_no_declared_signature():
    assert declared() is None


GOOD = {"x": ("float", [-1])}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"inputs": GOOD}, "Ranker declares inputs only; write `inputs = "),
        ({"outputs": GOOD}, "Ranker declares outputs only"),
        ({"inputs": ["x"], "outputs": GOOD}, "Ranker.inputs must be a dict, not list"),
        ({"inputs": {"x": "float"}, "outputs": GOOD}, "Ranker.inputs['x'] must be a pair of dtype and shape"),
        ({"inputs": {"x": ("flaot", [-1])}, "outputs": GOOD}, "Ranker.inputs['x']: unknown dtype 'flaot'"),
        ({"inputs": {"x": ("float", 3)}, "outputs": GOOD}, "Ranker.inputs['x']: the shape must be a list"),
        ({"inputs": {"x": ("float", [-3])}, "outputs": GOOD}, "Ranker.inputs['x']: tensor x: a dimension is"),
        ({"inputs": GOOD, "outputs": {}}, "Ranker: signature serving_default: it has no outputs"),
        ({"inputs": {"x": ("float", [1])}, "outputs": GOOD, "batched": True}, "dimension 0 of x does not vary"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nonsense_in_a_declaration_is_named(attributes, message):
    with pytest.raises(InvalidModel) as caught:
        declared(**attributes)
    assert message in str(caught.value)


def test_an_inferred_signature_has_names_dtypes_and_ranks():
    inputs = {"x": np.zeros((3, 4), np.float32), "s": np.array([b"a", b"b", b"c"], object)}
    signature = inferred_signature(Model(), inputs, {"y": np.zeros(3, np.int64)})
    assert signature.inputs == (TensorSpec("x", "float", (-1, -1)), TensorSpec("s", "string", (-1,)))
    assert signature.outputs == (TensorSpec("y", "int64", (-1,)),)
    assert signature.batched


@pytest.mark.parametrize("shape", [(), (2,)], ids=str)
def test_an_inferred_signature_is_not_batched_when_rows_differ(shape):
    assert not inferred_signature(Model(), {"x": np.zeros((3, 4))}, {"y": np.zeros(shape)}).batched


def test_what_cannot_be_served_is_refused_when_inferred():
    with pytest.raises(InvalidModel, match=r"tried with example_inputs.*datetime64"):
        inferred_signature(Model(), {"x": np.zeros(1, "datetime64[s]")}, {"y": np.zeros(1)})


def test_a_model_without_predict_does_nothing_by_itself():
    with pytest.raises(NotImplementedError):
        Model().predict({})
    assert Model().example_inputs() is None
