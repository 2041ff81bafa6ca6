"""What a client is told that asks for something that cannot be served: codes and texts of TensorFlow Serving."""

from __future__ import annotations

import numpy as np
import pytest

from support.clients import Refused, call
from support.frontends import Frontend, Grpc
from support.serving import Stand
from support.tfclient import tensor, tensors

X = np.array([1, 2], np.float32)
A, B = np.zeros((2, 2), np.float32), np.array([b"one", b"two"], object)

UNKNOWN_NAMES = (
    "input size does not match signature: 2!=1 len({x,z}) != len({x}). Sent extra: {z}. Missing but required: {}."
)
MISSING_NAMES = (
    "input size does not match signature: 1!=2 len({a}) != len({a,b}). Sent extra: {}. Missing but required: {b}."
)


def refusal(ask, *args, **kwargs):
    with pytest.raises(Refused) as refused:
        ask(*args, **kwargs)
    return refused.value.code, refused.value.text


class TestOverEveryWire:
    def test_an_unknown_model(self, frontend: Frontend):
        found = refusal(frontend.predict, "nobody", {"x": X})
        assert found == ("NOT_FOUND", "Servable not found for request: Latest(nobody)")

    def test_an_unknown_version(self, frontend: Frontend):
        found = refusal(frontend.predict, "adds", {"x": X}, version=7)
        assert found == ("NOT_FOUND", "Servable not found for request: Specific(adds, 7)")

    def test_a_model_that_did_not_load(self, frontend: Frontend):
        found = refusal(frontend.predict, "broken", {"x": X})
        assert found == ("NOT_FOUND", "Servable not found for request: Latest(broken)")

    def test_more_rows_than_a_batch_takes(self, frontend: Frontend):
        found = refusal(frontend.predict, "one_at_most", {"x": np.zeros(4, np.float32)})
        assert found == ("INVALID_ARGUMENT", "Task size 4 is larger than maximum input batch size 3")

    def test_inputs_of_different_lengths(self, grpc: Grpc):
        found = refusal(grpc.predict, "pair", {"a": A, "b": B[:1]})
        assert found == ("INVALID_ARGUMENT", "Batching Run() input tensors must have equal 0th-dimension size")

    def test_the_version_asked_for_answers(self, frontend: Frontend):
        for version in (1, 2):
            assert frontend.predict("adds", {"x": X}, version=version)["only"].tolist() == [1 + version, 2 + version]
        assert frontend.predict("adds", {"x": X})["only"].tolist() == [3, 4]


class TestModelSpec:
    @pytest.mark.parametrize("what", ["predict", "status"])
    def test_must_be_there(self, grpc: Grpc, what):
        assert refusal(grpc.ask, what, model="half", no_spec=True) == ("INVALID_ARGUMENT", "Missing ModelSpec")

    def test_must_have_a_name(self, grpc: Grpc):
        found = refusal(grpc.predict, "", {"x": X})
        assert found == ("INVALID_ARGUMENT", "ModelSpec has no name specified.")

    @pytest.mark.parametrize("model", ["half", "nobody"])
    def test_labels_are_not_known(self, grpc: Grpc, model):
        found = refusal(grpc.predict, model, {"x": X}, label="canary")
        assert found == ("INVALID_ARGUMENT", "Unrecognized servable version label: canary")

    def test_comes_back_with_what_was_served(self, grpc: Grpc):
        answer = grpc.ask("predict", model="adds", inputs=tensors({"x": X}))
        assert answer["spec"] == {"name": "adds", "signature": "serving_default", "version": 2}
        answer = grpc.ask("predict", model="adds", version=1, signature="serving_default", inputs=tensors({"x": X}))
        assert answer["spec"] == {"name": "adds", "signature": "serving_default", "version": 1}


class TestInputs:
    def test_an_unknown_signature(self, grpc: Grpc):
        found = refusal(grpc.predict, "half", {"x": X}, signature="other")
        assert found == ("FAILED_PRECONDITION", 'Serving signature key "other" not found.')

    CASES = {
        "one too many": ("adds", {"x": X, "z": X}, UNKNOWN_NAMES),
        "one too few": ("pair", {"a": A}, MISSING_NAMES),
        "none": ("adds", {}, "len({}) != len({x}). Sent extra: {}. Missing but required: {x}."),
        "another name": ("adds", {"z": X}, "Signature input alias: x(feed name: x:0) not found in request"),
    }

    @pytest.mark.parametrize(("model", "inputs", "text"), CASES.values(), ids=CASES)
    def test_must_be_those_of_the_signature(self, grpc: Grpc, model, inputs, text):
        code, said = refusal(grpc.predict, model, inputs)
        assert code == "INVALID_ARGUMENT"
        assert text in said

    def test_must_have_its_dtype(self, grpc: Grpc):
        code, said = refusal(grpc.predict, "half", {"x": np.array([True])})
        assert code == "INVALID_ARGUMENT"
        assert "Expects arg[0] to be float but bool is provided" in said

    def test_nonsense_is_not_a_tensor(self, grpc: Grpc):
        wrong = {"dtype": "float32", "shape": [-2], "fields": {"float_val": [1.0]}}
        assert refusal(grpc.predict, "half", {"x": wrong})[0] == "INVALID_ARGUMENT"

    def test_a_shape_larger_than_any_memory_is_refused(self, grpc: Grpc):
        huge = {"dtype": "float32", "shape": [1 << 40, 1 << 40], "fields": {}}
        assert refusal(grpc.predict, "half", {"x": huge})[0] == "INVALID_ARGUMENT"

    def test_a_shape_that_only_claims_to_be_large_is_refused(self, grpc: Grpc):
        claimed = {"dtype": "float32", "shape": [1 << 30], "fields": {"float_val": [1.0]}}
        assert refusal(grpc.predict, "half", {"x": claimed})[0] in {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}


class TestNoInputs:
    def test_are_enough_for_a_signature_that_has_none(self, grpc: Grpc):
        first, second = (grpc.predict("counter", {})["only"] for _ in range(2))
        assert second == first + 1

    def test_can_be_said_in_json_too(self, stand: Stand):
        """TensorFlow Serving refuses them there."""
        answer = call(stand.http, "POST", "/v1/models/counter:predict", '{"inputs": {}}')
        assert answer.status == 200, answer.body
        assert answer.json["outputs"] >= 1


class TestOutputFilter:
    @pytest.mark.parametrize("names", [["sum"], ["text", "sum"], ["raw_bytes"]], ids=", ".join)
    def test_gives_only_these(self, grpc: Grpc, names):
        answer = grpc.ask("predict", model="pair", inputs=tensors({"a": A, "b": B}), filter=names)
        assert set(answer["outputs"]) == set(names)

    def test_knows_its_names(self, grpc: Grpc):
        found = refusal(grpc.predict, "half", {"x": X}, filter=["z"])
        text = "output tensor alias not found in signature: z Outputs expected to be in the set {size,y}."
        assert found == ("INVALID_ARGUMENT", text)

    def test_names_each_once(self, grpc: Grpc):
        found = refusal(grpc.predict, "half", {"x": X}, filter=["y", "y"])
        assert found == ("INVALID_ARGUMENT", "duplicate output tensor alias: y")


class TestMetadataAndStatus:
    SIGNATURE = {
        "method_name": "tensorflow/serving/predict",
        "inputs": {"a": ["float32", [-1, 2], "a:0"], "b": ["string", [-1], "b:0"]},
        "outputs": {
            "sum": ["float32", [-1], "sum:0"],
            "text": ["string", [-1], "text:0"],
            "raw_bytes": ["string", [-1], "raw_bytes:0"],
        },
    }

    def test_metadata(self, grpc: Grpc):
        answer = grpc.ask("metadata", model="pair", fields=["signature_def"])
        assert answer["spec"] == {"name": "pair", "signature": "", "version": 1}
        assert answer["signatures"] == {"serving_default": self.SIGNATURE}

    def test_metadata_says_which_ranks_are_unknown(self, grpc: Grpc):
        answer = grpc.ask("metadata", model="half", fields=["signature_def"])
        assert answer["signatures"]["serving_default"]["inputs"]["x"] == ["float32", None, "x:0"]

    CASES = {
        "no field": ([], "GetModelMetadataRequest must specify at least one metadata_field"),
        "an unknown one": (["other"], "Metadata field other is not supported"),
    }

    @pytest.mark.parametrize(("fields", "text"), CASES.values(), ids=CASES)
    def test_metadata_needs_a_field_that_there_is(self, grpc: Grpc, fields, text):
        assert refusal(grpc.ask, "metadata", model="pair", fields=fields) == ("INVALID_ARGUMENT", text)

    def test_status_of_every_version_newest_first(self, grpc: Grpc):
        answer = grpc.ask("status", model="adds")
        assert answer["versions"] == [[2, "AVAILABLE", 0, ""], [1, "AVAILABLE", 0, ""]]

    def test_status_of_one_version(self, grpc: Grpc):
        assert grpc.ask("status", model="adds", version=1)["versions"] == [[1, "AVAILABLE", 0, ""]]

    def test_status_says_why_a_version_does_not_serve(self, grpc: Grpc):
        [[number, state, code, text]] = grpc.ask("status", model="broken")["versions"]
        assert (number, state) == (1, "END")
        assert code
        assert "the weights are corrupt" in text

    @pytest.mark.parametrize("asked", [{"model": "nobody"}, {"model": "adds", "version": 7}], ids=["model", "version"])
    def test_status_of_what_nobody_knows(self, grpc: Grpc, asked):
        assert refusal(grpc.ask, "status", **asked)[0] == "NOT_FOUND"


def test_what_was_asked_is_counted(stand: Stand, grpc: Grpc):
    before = stand.metric("requests_total", model="adds", api="tfs_grpc", code="OK")
    refused = stand.metric("refused_requests_total", api="tfs_grpc", code="NOT_FOUND")
    grpc.predict("adds", {"x": X})
    refusal(grpc.predict, "nobody", {"x": X})
    assert stand.metric("requests_total", model="adds", api="tfs_grpc", code="OK") == before + 1
    assert stand.metric("refused_requests_total", api="tfs_grpc", code="NOT_FOUND") == refused + 1


def test_the_same_is_said_over_both_wires(stand: Stand, grpc: Grpc):
    """JSON clients read the reason too."""
    said = call(stand.http, "POST", "/v1/models/nobody:predict", '{"instances": [1]}').json
    assert said["error"] == refusal(grpc.ask, "predict", model="nobody", inputs={"x": tensor(X)})[1]
