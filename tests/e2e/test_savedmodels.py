"""SavedModels of every kind, served by TensorFlow, asked by the real client of TensorFlow Serving."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from poise.testing import strings
from poise.types import dtype_name, numpy_dtype
from support.clients import call, rest
from support.savedmodels import ECHOED
from support.serving import ServerProcess, model, serving, until
from support.tfclient import TfClient, arrays, tensors

pytestmark = pytest.mark.timeout(240)  # the first test waits for three processes that import TensorFlow

SERVED = (
    *("half_plus_two", "half_plus_three", "matrix_half_plus_two", "bad_half_plus_two", "counter", "words"),
    *("old_words", "echo", "keeper", "with_default"),
)
EXAMPLE_OF_2 = b"\n\x0f\n\r\n\x01x\x12\x08\x12\x06\n\x04\x00\x00\x00@"
"""A serialized tf.Example with the float feature x."""


@pytest.fixture(scope="module")
def server(savedmodels: Path) -> Iterator[ServerProcess]:
    """All of them in the server's process, so that TensorFlow is imported once."""
    named = [f"{name}={savedmodels / name}" for name in SERVED]
    with ServerProcess(*named, "--isolation", "thread", "--backend", "tensorflow", ready_s=120.0) as process:
        yield process


def floats(*values, shape=None):
    array = np.array(values, np.float32)
    return {"x": array if shape is None else array.reshape(shape)}


@pytest.mark.parametrize(("name", "y"), [("half_plus_two", [[3.0]]), ("half_plus_three", [[4.0]])])
def test_the_first_request_of_every_tutorial(tf: TfClient, server: ServerProcess, name, y):
    assert tf.predict(server.grpc, name, floats(2, shape=(1, 1)))["y"].tolist() == y


@pytest.mark.parametrize(
    ("x", "y"),
    [(2.0, 3.0), ([2.0, 80.0], [3.0, 42.0]), ([[1.0, 2.0], [3.0, 4.0]], [[2.5, 3.0], [3.5, 4.0]])],
    ids=["scalar", "list", "matrix"],
)
def test_shapes_other_than_declared_are_the_graphs_own_matter(tf: TfClient, server: ServerProcess, x, y):
    assert tf.predict(server.grpc, "half_plus_two", {"x": np.array(x, np.float32)})["y"].tolist() == y


def test_rest_takes_the_tutorials_numbers(server: ServerProcess):
    assert rest(server.http, "half_plus_two", {"instances": [1.0, 2.0, 5.0]}) == {"predictions": [2.5, 3.0, 4.5]}
    assert rest(server.http, "half_plus_two", {"inputs": [3.0, 4.0]}) == {"outputs": [3.5, 4.0]}
    assert rest(server.http, "half_plus_two/versions/123", {"instances": [[1, 2], [3, 4]]}) == {
        "predictions": [[2.5, 3.0], [3.5, 4.0]]
    }


def ask(server: ServerProcess, what: str, body: str):
    return call(server.http, "POST", f"/v1/models/half_plus_two{what}", body).json


def test_rest_classifies_and_regresses(server: ServerProcess):
    body = '{"signature_name": "regress_x_to_y", "examples": [{"x": 80.0}]}'
    assert ask(server, ":regress", body) == {"results": [42.0]}
    body = '{"signature_name": "classify_x_to_y", "examples": [{"x": 20.0}, {"x": 10.0}]}'
    assert ask(server, "/versions/123:classify", body) == {"results": [[["", 12.0]], [["", 7.0]]]}
    body = '{"signature_name": "regress_x_to_y", "context": {"x": 80.0}, "examples": [{}, {"x": 10.0}]}'
    assert ask(server, ":regress", body) == {"results": [42.0, 7.0]}


def test_rest_asks_signatures_without_inputs(server: ServerProcess):
    body = '{"signature_name": "get_counter", "inputs": {}}'
    answer = call(server.http, "POST", "/v1/models/counter:predict", body)
    assert (answer.status, list(answer.json)) == (200, ["outputs"])


def test_any_signature_may_be_predicted(tf: TfClient, server: ServerProcess):
    inputs = {"inputs": np.array([[2.0]], np.float32)}
    found = tf.predict(server.grpc, "half_plus_two", inputs, signature="regress_x2_to_y3")
    assert found["outputs"].tolist() == [[4.0]]


def test_examples_are_classified_and_regressed(tf: TfClient, server: ServerProcess):
    asked = {"model": "half_plus_two", "examples": [{"x": [20.0]}, {"x": [10.0]}]}
    found = tf.call("classify", server.grpc, **asked, signature="classify_x_to_y")
    assert found["rows"] == [[["", 12.0]], [["", 7.0]]]
    assert found["spec"] == {"name": "half_plus_two", "signature": "classify_x_to_y", "version": 123}
    assert tf.call("regress", server.grpc, **asked, signature="regress_x_to_y")["rows"] == [12.0, 7.0]
    assert tf.call("regress", server.grpc, **asked, signature="regress_x_to_y2")["rows"] == [13.0, 8.0]


def test_the_context_counts_where_an_example_says_nothing(tf: TfClient, server: ServerProcess):
    asked = {"model": "half_plus_two", "examples": [{}, {"x": [10.0]}], "context": {"x": [80.0]}}
    assert tf.call("regress", server.grpc, **asked, signature="regress_x_to_y")["rows"] == [42.0, 7.0]


def test_several_inferences_are_answered_in_their_order(tf: TfClient, server: ServerProcess):
    tasks = [["regress", "regress_x_to_y2"], ["classify", "classify_x_to_y"], ["regress", "regress_x_to_y"]]
    found = tf.call("multi", server.grpc, model="half_plus_two", tasks=tasks, examples=[{"x": [2.0]}])
    assert found["results"] == [[4.0], [[["", 3.0]]], [3.0]]


def test_metadata_is_that_of_the_file(tf: TfClient, server: ServerProcess):
    found = tf.call("metadata", server.grpc, model="half_plus_two", fields=["signature_def"])
    assert found["spec"]["version"] == 123
    methods = {name: one["method_name"].rpartition("/")[2] for name, one in found["signatures"].items()}
    assert methods == {
        "serving_default": "predict",
        "regress_x_to_y": "regress",
        "regress_x_to_y2": "regress",
        "regress_x2_to_y3": "regress",
        "classify_x_to_y": "classify",
        "classify_x2_to_y3": "classify",
    }
    regress = found["signatures"]["regress_x_to_y"]
    assert regress["inputs"]["inputs"] == ["string", [-1], "tf_example:0"]
    assert regress["outputs"]["outputs"] == ["float32", [-1, 1], "y:0"]


def test_an_input_with_a_default_may_be_left_out(tf: TfClient, server: ServerProcess):
    assert tf.predict(server.grpc, "with_default", floats(1, 2))["y"].tolist() == [10.0, 20.0]
    given = {**floats(1, 2), "factor": np.float32(3)}
    assert tf.predict(server.grpc, "with_default", given)["y"].tolist() == [3.0, 6.0]


def test_a_shape_that_the_graph_refuses_is_the_clients_mistake(tf: TfClient, server: ServerProcess):
    good = floats(*range(9), shape=(1, 3, 3))
    assert tf.predict(server.grpc, "matrix_half_plus_two", good)["y"].shape == (1, 3, 3)
    answer = tf.ask("predict", server.grpc, model="matrix_half_plus_two", inputs=tensors(floats(2, shape=(1, 1))))
    assert answer["code"] == "INVALID_ARGUMENT"
    assert "Shape of tensor y [1,1] is not compatible with expected shape [?,3,3]" in answer["text"]


def test_a_type_that_the_signature_does_not_take_is_refused_in_tensorflows_words(tf: TfClient, server: ServerProcess):
    answer = tf.ask("predict", server.grpc, model="half_plus_two", inputs=tensors({"x": np.array([True])}))
    assert answer["code"] == "INVALID_ARGUMENT"
    assert "to be float but bool is provided" in answer["text"]


def test_an_example_that_cannot_be_parsed_fails_alone(tf: TfClient, server: ServerProcess):
    sent = [b"\xff", EXAMPLE_OF_2, EXAMPLE_OF_2]
    asked = [{"inputs": tensors({"inputs": strings([one])}), "signature": "regress_x_to_y"} for one in sent]
    bad, *good = tf.ask("many", server.grpc, model="half_plus_two", calls=asked)
    assert bad["code"] == "INVALID_ARGUMENT"
    assert "Could not parse example input" in bad["text"]
    assert [arrays(answer)["outputs"].tolist() for answer in good] == [[[3.0]]] * 2


def test_a_counter_keeps_its_state(tf: TfClient, server: ServerProcess):
    asked = [("get_counter", {}), ("incr_counter", {}), ("reset_counter", {}), ("incr_counter", {})]
    asked.append(("incr_counter_by", {"delta": np.float32(3)}))
    found = [tf.predict(server.grpc, "counter", inputs, signature=name)["output"] for name, inputs in asked]
    assert [value.tolist() for value in found] == [0, 1, 0, 1, 4]


def test_a_model_without_signatures_loads_and_refuses(tf: TfClient, server: ServerProcess):
    answer = tf.ask("predict", server.grpc, model="bad_half_plus_two", inputs=tensors(floats(2)))
    assert answer == {"code": "FAILED_PRECONDITION", "text": 'Serving signature key "serving_default" not found.'}


@pytest.mark.parametrize("name", ["words", "old_words"], ids=["TensorFlow 2", "TensorFlow 1, with an asset"])
def test_tables_are_filled_and_strings_go_both_ways(tf: TfClient, server: ServerProcess, name):
    word = strings([b"pear", b"quince", b"apple"])
    assert tf.predict(server.grpc, name, {"word": word})["id"].tolist() == [1, -1, 0]
    signature = "serving_default" if name == "words" else "shout"
    loud = tf.predict(server.grpc, name, {"word": word}, signature=signature, filter=["loud"])
    assert {key: value.tolist() for key, value in loud.items()} == {"loud": [b"PEAR", b"QUINCE", b"APPLE"]}


def test_every_element_type_goes_through(tf: TfClient, server: ServerProcess):
    values = np.array([0, 1, 1])
    sent = {f"in_{kind}": values.astype(numpy_dtype(dtype_name(kind))) for kind in ECHOED if kind != "string"}
    sent["in_string"] = strings([b"", b"\xff\x00", b"a"])
    found = tf.predict(server.grpc, "echo", sent)
    for kind in ECHOED:
        got, given = found[f"out_{kind}"], sent[f"in_{kind}"]
        assert (got.dtype, got.tolist()) == (given.dtype, given.tolist()), kind


def test_what_a_model_keeps_is_not_changed_by_later_batches(tf: TfClient, server: ServerProcess):
    """A variable that is assigned an input takes over its memory; the next batch is gathered where the last one was."""
    for value in (1.0, 2.0, 3.0):
        tf.predict(server.grpc, "keeper", {"x": np.full(64, value, np.float32)}, signature="keep_first")
    assert set(tf.predict(server.grpc, "keeper", {}, signature="kept")["x"].tolist()) == {1.0}


def test_a_process_of_its_own_holds_tensorflow_and_the_server_none(savedmodels: Path, tf: TfClient):
    served = model("half", "", path=str(savedmodels / "half_plus_two"), isolation="process")
    with serving(served, ready=False) as stand:
        until(lambda: not stand.server.not_ready(), "a ready model", 120.0)
        assert tf.predict(stand.grpc, "half", floats(2, shape=(1, 1)))["y"].tolist() == [[3.0]]
        assert "libtensorflow" not in Path("/proc/self/maps").read_text()
