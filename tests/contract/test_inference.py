"""Classify, Regress and MultiInference by the real client: what reaches the model, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from poise.types import Signature, TensorSpec, signatures_to_json
from support.border import ByHand, by_hand
from support.clients import Refused
from support.tfclient import TfClient

INPUTS = (TensorSpec("inputs", "string", (-1,)),)
SIGNATURES = signatures_to_json(
    [
        Signature(INPUTS, (TensorSpec("classes", "string", (-1, -1)), TensorSpec("scores", "float", (-1, -1)))),
        Signature(INPUTS, (TensorSpec("outputs", "float", (-1, 1)),), name="value"),
    ]
)
TWO = [{"x": [1.0]}, {"x": [2.0]}]


@pytest.fixture
def hand(tf: TfClient) -> Iterator[ByHand]:
    with by_hand(SIGNATURES) as made:
        tf.ask("status", made.grpc, model="m")  # answered once the client has started, which takes its time
        yield made


def end(batch):
    """Answers a batch of either signature; the examples that it had."""
    [(_, _, _, examples)] = batch.inputs
    found, rows = list(examples), batch.rows
    if batch.signature == "value":
        batch.complete([("outputs", "float", (rows, 1), np.arange(rows, dtype=np.float32))])
    else:
        scores = np.array([[0.25, 0.75]] * rows, np.float32)
        batch.complete(
            [("classes", "string", (rows, 2), [b"no", b"yes"] * rows), ("scores", "float", (rows, 2), scores)]
        )
    return found


def test_classes_come_with_their_scores_and_the_model_is_named(hand, tf: TfClient):
    asked = hand.crowd.start(tf.call, "classify", hand.grpc, model="m", examples=TWO)
    assert len(end(hand.batch())) == 2
    answer = asked.result(10)
    assert answer["rows"] == [[["no", 0.25], ["yes", 0.75]]] * 2
    assert answer["spec"] == {"name": "m", "signature": "serving_default", "version": 1}


def test_a_context_stands_in_front_of_each_example(hand, tf: TfClient):
    [plain, _] = end_of(hand, tf, examples=TWO)
    [context] = end_of(hand, tf, examples=[{"c": [7.0]}])
    found = end_of(hand, tf, examples=TWO, context={"c": [7.0]})
    assert found[0] == context + plain


def end_of(hand, tf, **what):
    asked = hand.crowd.start(tf.call, "regress", hand.grpc, model="m", signature="value", **what)
    found = end(hand.batch())
    assert asked.result(10)["rows"] == list(range(len(found)))
    return found


def test_tasks_are_answered_in_their_order_however_they_ran(hand, tf: TfClient):
    tasks = [["regress", "value"], ["classify", ""]]
    asked = hand.crowd.start(tf.call, "multi", hand.grpc, model="m", tasks=tasks, examples=TWO)
    assert end(hand.batch()) == end(hand.batch())
    values, classes = asked.result(10)["results"]
    assert (values, classes[0]) == ([0.0, 1.0], [["no", 0.25], ["yes", 0.75]])


REFUSED = {
    "no examples": ("classify", {"examples": []}, "INVALID_ARGUMENT", "Input is empty."),
    "only a context": ("regress", {"examples": [], "context": {"c": [1.0]}}, "INVALID_ARGUMENT", "Input is empty."),
    "no such signature": (
        *("classify", {"signature": "other"}),
        *("INVALID_ARGUMENT", "No signature was found with the name: other"),
    ),
    "no classifier": (
        *("classify", {"signature": "value"}),
        *("INVALID_ARGUMENT", "Expected classification signature outputs to contain at least one of"),
    ),
    "no regressor": ("regress", {}, "INVALID_ARGUMENT", "Expected one output Tensor."),
    "no such model": ("classify", {"model": "n"}, "NOT_FOUND", "Servable not found for request: Latest(n)"),
    "no tasks": ("multi", {"tasks": []}, "INVALID_ARGUMENT", "ModelSpec has no name specified."),
    "a task twice": (
        *("multi", {"tasks": [["regress", "value"]] * 2}),
        *("INVALID_ARGUMENT", "Duplicate evaluation of signature: value"),
    ),
    "a task of another method": (
        *("multi", {"tasks": [["predict", ""]]}),
        *("UNIMPLEMENTED", "Unsupported signature method_name: tensorflow/serving/predict"),
    ),
    "a task of no signature": (
        *("multi", {"tasks": [["regress", "other"]]}),
        *("INVALID_ARGUMENT", "Requested signature not found in model graph: other"),
    ),
}


@pytest.mark.parametrize(("do", "what", "code", "text"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_answered_is_refused_in_known_words(hand, tf: TfClient, do, what, code, text):
    with pytest.raises(Refused) as refused:
        tf.call(do, hand.grpc, **{"model": "m", "examples": TWO, **what})
    assert refused.value.code == code
    assert refused.value.text.startswith(text)
