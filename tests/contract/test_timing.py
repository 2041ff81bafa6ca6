"""Where the time of a request went, told over every wire to clients that ask."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from poise import _core
from poise.types import Signature, TensorSpec, signatures_to_json
from support.border import answer, by_hand
from support.clients import call
from support.http2 import PREDICT, Http2, frame
from support.serving import Stand

SERVICE = "/tensorflow.serving.PredictionService/"
ASKING = [("poise-timing", "1")]
FORM = re.compile(r"queue;dur=(\d+\.\d{3}), batch;dur=(\d+\.\d{3}), execute;dur=(\d+\.\d{3}), rows;desc=(\d+)")


def rows_told(headers: dict[str, str]) -> int:
    told = FORM.fullmatch(headers["server-timing"])
    assert told, headers["server-timing"]
    assert float(told[3]) > 0
    return int(told[4])


def predict_message(model: str, *x: float) -> bytes:
    shape = (len(x),) if model != "alone" else ()
    return _core.encode_predict_request(model, None, "", [("x", "float", shape, np.array(x, np.float32).tobytes())])


def field(number: int, data: bytes) -> bytes:
    """A field of a protobuf message, shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(data)]) + data


def spec(model: str, signature: str = "") -> bytes:
    return field(1, model.encode()) + field(3, signature.encode())


EXAMPLES = field(2, field(1, field(1, b"one") + field(1, b"two")))


@pytest.fixture
def http2(stand: Stand) -> Iterator[Http2]:
    with Http2(stand.grpc) as connection:
        yield connection


class TestGrpc:
    CASES = {
        "predict": (PREDICT, predict_message("half", 1, 2, 3), 3),
        "predict, a model that runs each alone": (PREDICT, predict_message("alone", 1), 1),
        "classify": (SERVICE + "Classify", field(1, spec("classifies")) + EXAMPLES, 2),
        "regress": (SERVICE + "Regress", field(1, spec("regresses")) + EXAMPLES, 2),
    }

    @pytest.mark.parametrize(("path", "message", "rows"), CASES.values(), ids=CASES)
    def test_trailers_tell_when_asked(self, http2: Http2, path, message, rows):
        reply = http2.call(frame(message), path, ASKING)
        assert (reply.code, rows_told(reply.headers)) == ("OK", rows)
        assert list(reply.headers)[-2:] == ["grpc-status", "server-timing"]

    @pytest.mark.parametrize("extra", [[], [("poise-timing", "0")]], ids=["unasked", "not wanted"])
    def test_and_say_nothing_else(self, http2: Http2, extra):
        reply = http2.call(frame(predict_message("half", 1)), PREDICT, extra)
        assert (reply.code, "server-timing" in reply.headers) == ("OK", False)

    def test_errors_before_a_run_tell_nothing(self, http2: Http2):
        reply = http2.call(frame(predict_message("made-up", 1)), PREDICT, ASKING)
        assert (reply.code, "server-timing" in reply.headers) == ("NOT_FOUND", False)

    def test_what_no_two_answers_share_is_kept_out_of_the_tables_of_headers(self, http2: Http2):
        replies = [http2.call(frame(predict_message("half", 1)), PREDICT, ASKING) for _ in range(3)]
        assert all(rows_told(reply.headers) for reply in replies)
        indexed = {name for name, _ in http2.h2.decoder.header_table.dynamic_entries}
        assert b"content-type" in indexed
        assert b"server-timing" not in indexed


class TestRest:
    RAW = "application/octet-stream"
    CASES = {
        "rows": ("half:predict", '{"instances": [1, 2, 3]}', {}, 3),
        "columns": ("half:predict", '{"inputs": [1, 2, 3]}', {}, 3),
        "a model that runs each alone": ("alone:predict", '{"inputs": 4}', {}, 1),
        "raw tensors": ("rows_of_two:predict", bytes(24), {"Content_Type": RAW, "Accept": RAW}, 3),
        "classify": ("classifies:classify", '{"examples": [{"x": "a"}, {"x": "b"}]}', {}, 2),
        "regress": ("regresses:regress", '{"examples": [{"x": "a"}, {"x": "b"}]}', {}, 2),
    }

    @pytest.mark.parametrize(("path", "body", "headers", "rows"), CASES.values(), ids=CASES)
    def test_a_header_tells_when_asked(self, stand: Stand, path, body, headers, rows):
        reply = call(stand.http, "POST", f"/v1/models/{path}", body, Poise_Timing="1", **headers)
        assert (reply.status, rows_told(reply.headers)) == (200, rows)

    @pytest.mark.parametrize("headers", [{}, {"Poise_Timing": "true"}], ids=["unasked", "asked in other words"])
    def test_and_says_nothing_else(self, stand: Stand, headers):
        reply = call(stand.http, "POST", "/v1/models/half:predict", '{"instances": [1]}', **headers)
        assert (reply.status, "server-timing" in reply.headers) == (200, False)

    def test_errors_before_a_run_tell_nothing(self, stand: Stand):
        reply = call(stand.http, "POST", "/v1/models/half:predict", '{"instances": ["a"]}', Poise_Timing="1")
        assert (reply.status, "server-timing" in reply.headers) == (400, False)


def test_pages_of_other_origins_may_see_it():
    with by_hand(server={"cors": True}) as hand:
        reply = call(hand.http, "GET", "/v1/models")
        assert "Server-Timing" in reply.headers["access-control-expose-headers"].split(", ")


def test_rows_do_not_count_padding():
    with by_hand(max_batch_size=8, allowed_batch_sizes=(8,)) as hand:
        body = '{"instances": [1, 2, 3]}'
        asked = hand.crowd.start(call, hand.http, "POST", "/v1/models/m:predict", body, Poise_Timing="1")
        batch = hand.batch()
        assert batch.rows == 8
        batch.complete([answer(batch)])
        assert rows_told(asked.result(10).headers) == 3


def test_a_call_of_several_tasks_tells_of_the_last_to_end():
    inputs = (TensorSpec("inputs", "string", (-1,)),)
    first, second = (Signature(inputs, (TensorSpec("outputs", "float", (-1,)),), name=name) for name in ("a", "b"))
    tasks = b"".join(field(1, field(1, spec("m", name)) + field(2, b"tensorflow/serving/regress")) for name in "ab")
    with by_hand(signatures_to_json([first, second])) as hand, Http2(hand.grpc) as http2:
        stream = http2.open(SERVICE + "MultiInference", ASKING)
        http2.send(stream, frame(tasks + EXAMPLES))
        for _ in range(2):
            hand.batch().complete([("outputs", "float", (2,), bytes(8))])
        reply = http2.reply(stream)
        assert (reply.code, rows_told(reply.headers)) == ("OK", 2)
