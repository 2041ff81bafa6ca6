"""Classification and regression over REST, up to the bytes that a model gets."""

from __future__ import annotations

import base64
import struct

import pytest

from support.clients import call
from support.serving import Stand


def ask(stand: Stand, where, body):
    return call(stand.http, "POST", f"/v1/models/{where}", body)


def example(name: bytes, value: float) -> bytes:
    """A serialized tensorflow.Example with one float."""

    def field(number: int, payload: bytes) -> bytes:
        return bytes([number << 3 | 2, len(payload)]) + payload

    feature = field(2, field(1, struct.pack("<f", value)))
    return field(1, field(1, field(1, name) + field(2, feature)))


class TestClassify:
    def test_gives_labels_and_scores(self, stand: Stand):
        answer = ask(stand, "classifies:classify?b64=true", '{"examples": [{"x": 80.0}, {"x": 20.0}]}')
        assert answer.status == 200, answer.body
        labels = [base64.b64decode(label["b64"]) for [[label, _score]] in answer.json["results"]]
        assert labels == [example(b"x", 80.0), example(b"x", 20.0)]
        assert [score for [[_label, score]] in answer.json["results"]] == [float(len(label)) for label in labels]
        assert answer.headers["poise-signature"] == "serving_default"

    def test_puts_the_context_in_front_of_each_example(self, stand: Stand):
        body = '{"context": {"c": 1.0}, "examples": [{"x": 2.0}, {}]}'
        answer = ask(stand, "classifies:classify?b64=1", body)
        labels = [base64.b64decode(label["b64"]) for [[label, _score]] in answer.json["results"]]
        assert labels == [example(b"c", 1.0) + example(b"x", 2.0), example(b"c", 1.0) + b"\x0a\x00"]

    def test_of_a_model_that_does_not(self, stand: Stand):
        answer = ask(stand, "half:classify", '{"examples": [{"x": 1.0}]}')
        assert (answer.status, answer.json["reason"]) == (400, "bad_input")


class TestRegress:
    def test_gives_values(self, stand: Stand):
        answer = ask(stand, "regresses/versions/1:regress", '{"examples": [{"x": 80.0}, {}]}')
        assert answer.json == {"results": [float(len(example(b"x", 80.0))), 2.0]}
        assert answer.headers["poise-version"] == "1"


CASES = {
    "no JSON": ("half:classify", "{", 400, "JSON Parse error"),
    "no examples": ("half:regress", "{}", 400, "When method is regress, key 'examples' is expected and was not found"),
    "unknown model": ("nobody:classify", '{"examples": [{}]}', 404, "Servable not found for request: Latest(nobody)"),
    "unknown version": ("half/versions/99:regress", '{"examples": [{}]}', 404, "Specific(half, 99)"),
    "unknown label": ("half/labels/x:regress", '{"examples": [{}]}', 400, "Unrecognized servable version label: x"),
    "unknown signature": (
        "half:classify",
        '{"signature_name": "S", "examples": [{}]}',
        400,
        "No signature was found with the name: S",
    ),
}


@pytest.mark.parametrize(("where", "body", "status", "text"), CASES.values(), ids=CASES)
def test_refusals_say_what_is_wrong(stand: Stand, where, body, status, text):
    answer = ask(stand, where, body)
    assert answer.status == status
    assert text in answer.json["error"]
