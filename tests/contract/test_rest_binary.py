"""Tensors as raw bytes over REST: in, out, and against JSON."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from support.clients import call
from support.serving import Stand

RAW = "application/octet-stream"
STRINGS = b"".join(struct.pack("<I", len(item)) + item for item in (b"one", b"", b"\xff\0"))


def post(stand: Stand, model, body, *, raw=True, **headers):
    accept = {"Accept": RAW} if raw else {}
    return call(stand.http, "POST", f"/v1/models/{model}:predict", body, Content_Type=RAW, **accept, **headers)


def described(answer):
    return json.loads(answer.headers["poise-outputs"])


class TestRawBodies:
    def test_of_one_input_with_fixed_rows_need_no_description(self, stand: Stand):
        sent = np.array([[1, 2], [3, 4], [5, 6]], "<f4")
        answer = post(stand, "rows_of_two", sent.tobytes())
        assert answer.status == 200, answer.body
        assert answer.body == sent.tobytes()
        assert described(answer) == [{"name": "x", "dtype": "float", "shape": [3, 2]}]
        assert (answer.headers["content-type"], answer.headers["poise-model"]) == (RAW, "rows_of_two")

    def test_are_answered_in_json_unless_asked_otherwise(self, stand: Stand):
        answer = post(stand, "rows_of_two", np.ones((1, 2), "<f4").tobytes(), raw=False)
        assert answer.json == {"outputs": [[1.0, 1.0]]}

    def test_of_several_inputs_are_described(self, stand: Stand):
        inputs = [{"name": "b", "dtype": "string", "shape": [3]}, {"name": "a", "shape": [3, 2]}]
        body = STRINGS + np.arange(6, dtype="<f4").tobytes()
        answer = post(stand, "pair", body, Poise_Inputs=json.dumps(inputs), Poise_Signature="serving_default")
        assert answer.status == 200, answer.body
        assert described(answer) == [
            {"name": "raw_bytes", "dtype": "string", "shape": [3]},
            {"name": "sum", "dtype": "float", "shape": [3]},
            {"name": "text", "dtype": "string", "shape": [3]},
        ]
        assert answer.body == STRINGS + np.array([1, 5, 9], "<f4").tobytes() + STRINGS
        assert answer.headers["content-length"] == str(len(answer.body))

    def test_that_are_json_after_all_are_read_as_such(self, stand: Stand):
        assert post(stand, "rows_of_two", '{"instances": [[1, 2]]}', raw=False).json == {"predictions": [[1.0, 2.0]]}

    def test_may_be_the_answer_to_json(self, stand: Stand):
        answer = call(stand.http, "POST", "/v1/models/alone:predict", '{"inputs": 4}', Accept=RAW)
        assert (answer.body, described(answer)[0]["shape"]) == (np.float32(8).tobytes(), [])

    def test_of_no_input(self, stand: Stand):
        answer = post(stand, "counter", b"", Poise_Inputs="[]")
        assert described(answer) == [{"name": "output", "dtype": "float", "shape": []}]

    CASES = {
        "odd length": ("rows_of_two", b"123", {}, "3 of the body's 3 bytes belong to no input"),
        "needed": ("pair", b"", {}, "Poise-Inputs: expected this header"),
        "no JSON": ("pair", b"", {"Poise_Inputs": "a b"}, "Poise-Inputs: expected JSON as in"),
        "too short": ("pair", b"", {"Poise_Inputs": '[{"name":"a","shape":[1,2]}]'}, "needs 8 bytes but 0 are left"),
        "other dtype": (
            "rows_of_two",
            b"12345678",
            {"Poise_Inputs": '[{"name":"x","dtype":"int32","shape":[1,2]}]'},
            "Expects arg[0] to be float but int32 is provided",
        ),
        "other shape": (
            "rows_of_two",
            b"12345678",
            {"Poise_Inputs": '[{"name":"x","shape":[2,1]}]'},
            "expected shape [?,2] but got [2,1]",
        ),
        "an input missing": (
            "pair",
            b"12345678",
            {"Poise_Inputs": '[{"name":"a","shape":[1,2]}]'},
            "input size does not",
        ),
        "no signature": ("rows_of_two", b"", {"Poise_Signature": "S"}, 'Serving signature name: "S" not found'),
    }

    @pytest.mark.parametrize(("model", "body", "headers", "text"), CASES.values(), ids=CASES)
    def test_that_do_not_fit_are_told_why(self, stand: Stand, model, body, headers, text):
        answer = post(stand, model, body, **headers)
        assert answer.status == 400
        assert text in answer.json["error"]
