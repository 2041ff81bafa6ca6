"""gRPC as bytes: what no client library would send."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from poise import _core
from support.border import by_hand
from support.clients import connect
from support.frontends import Grpc
from support.http2 import PREDICT, Http2, frame
from support.serving import Stand, model, serving, until
from support.tfclient import encode

HEALTH = "/grpc.health.v1.Health/Check"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


def predict_message(model="half", count=2):
    data = np.arange(count, dtype=np.float32).tobytes()
    return _core.encode_predict_request(model, None, "", [("x", "float", (count,), data)])


@pytest.fixture
def http2(stand: Stand) -> Iterator[Http2]:
    with Http2(stand.grpc) as connection:
        yield connection


def test_a_good_request_is_answered(http2: Http2):
    reply = http2.call(frame(predict_message()))
    assert reply.code == "OK"
    assert reply.headers["content-type"] == "application/grpc"
    assert reply.body[0] == 0
    assert int.from_bytes(reply.body[1:5]) == len(reply.body) - 5


def test_a_request_in_many_small_frames_is_answered(http2: Http2):
    stream = http2.open()
    body = frame(predict_message(count=100))
    for start in range(0, len(body), 7):
        http2.send(stream, body[start : start + 7], end=False)
    http2.send(stream, b"")
    assert http2.reply(stream).code == "OK"


class TestMessages:
    CASES = {
        "empty": (frame(b""), "INVALID_ARGUMENT", "Missing ModelSpec"),
        "not protobuf": (frame(b"\xff" * 20), "INVALID_ARGUMENT", ""),
        "cut short": (frame(predict_message()[:-3]), "INVALID_ARGUMENT", ""),
        "compressed nobody knows how": (frame(predict_message(), flag=1), "INTERNAL", "no grpc-encoding says how"),
        "of another flag": (frame(predict_message(), flag=2), "INTERNAL", "0 or 1 but got 2"),
        "no frame": (b"", "INTERNAL", "at least"),
        "half a frame": (b"\x00\x00", "INTERNAL", "at least"),
        "shorter than announced": (frame(b"abc", announced=5), "INTERNAL", "announces 5 bytes but 3 follow"),
        "longer than announced": (frame(b"abc", announced=1), "INTERNAL", "announces 1 bytes but 3 follow"),
        "two messages": (frame(predict_message()) * 2, "INTERNAL", "announces"),
    }

    @pytest.mark.parametrize(("body", "code", "text"), CASES.values(), ids=CASES)
    def test_that_are_wrong_are_refused_and_the_connection_lives(self, http2: Http2, body, code, text):
        reply = http2.call(body)
        assert (reply.headers[":status"], reply.code) == ("200", code)
        assert text in reply.text
        assert http2.call(frame(predict_message())).code == "OK"

    @pytest.mark.parametrize("announced", [True, False], ids=["with content-length", "without"])
    def test_that_are_too_large_are_refused_before_they_are_whole(self, http2: Http2, announced):
        size = 3 << 20  # the server takes 1 MiB
        stream = http2.open(extra=[("content-length", str(size))] if announced else [])
        http2.send(stream, frame(bytes(size - 5)))
        reply = http2.reply(stream)
        assert reply.code == "RESOURCE_EXHAUSTED"
        assert "max_message_bytes is 1048576" in reply.text
        assert http2.call(frame(predict_message())).code == "OK"


class TestCompression:
    GZIP = ("grpc-encoding", "gzip")
    ACCEPTED = ("grpc-accept-encoding", "identity, gzip")

    def plain(self, http2: Http2, count):
        return http2.call(frame(predict_message(count=count))).body[5:]

    def test_of_a_request_brings_a_compressed_answer(self, http2: Http2):
        request = frame(gzip.compress(predict_message(count=1000)), flag=1)
        reply = http2.call(request, extra=[self.GZIP, self.ACCEPTED])
        assert (reply.code, reply.headers["grpc-encoding"], reply.body[0]) == ("OK", "gzip", 1)
        assert gzip.decompress(reply.body[5:]) == self.plain(http2, 1000)

    @pytest.mark.parametrize("accepted", [[], [("grpc-accept-encoding", "identity,br")]], ids=["unsaid", "others"])
    def test_of_an_answer_is_for_those_who_take_it(self, http2: Http2, accepted):
        request = frame(gzip.compress(predict_message(count=1000)), flag=1)
        reply = http2.call(request, extra=[self.GZIP, *accepted])
        assert "grpc-encoding" not in reply.headers
        assert reply.body[5:] == self.plain(http2, 1000)

    def test_may_be_offered_and_not_used(self, http2: Http2):
        reply = http2.call(frame(predict_message(count=1000)), extra=[self.GZIP, self.ACCEPTED])
        assert (reply.code, reply.body[0]) == ("OK", 0)

    def test_of_another_kind_is_refused_with_those_that_are_known(self, http2: Http2):
        reply = http2.call(frame(b"x", flag=1), extra=[("grpc-encoding", "snappy")])
        assert reply.code == "UNIMPLEMENTED"
        assert "grpc-encoding snappy: expected identity or gzip" in reply.text
        assert reply.headers["grpc-accept-encoding"] == "identity,gzip"

    def test_that_is_broken_is_refused(self, http2: Http2):
        packed = gzip.compress(predict_message())
        for body in (b"", packed[:-4], b"x" + packed):
            reply = http2.call(frame(body, flag=1), extra=[self.GZIP])
            assert reply.code == "INVALID_ARGUMENT"
            assert "not valid gzip" in reply.text

    def test_hides_no_message_that_is_too_large(self, stand: Stand, http2: Http2):
        reply = http2.call(frame(gzip.compress(bytes(64 << 20)), flag=1), extra=[self.GZIP])
        assert reply.code == "RESOURCE_EXHAUSTED"
        assert "max_message_bytes is 1048576" in reply.text
        stand.settle()

    def test_by_the_real_client(self, grpc: Grpc, http2: Http2):
        message = encode(predict_message(count=1000))
        answer = grpc.client.ask("raw", grpc.address, method=PREDICT, body=message, gzip=True)
        assert answer["body"] == encode(self.plain(http2, 1000))


class TestHeaders:
    def test_a_method_that_is_not_here(self, http2: Http2):
        reply = http2.call(frame(b""), path="/tensorflow.serving.PredictionService/Dance")
        assert reply.code == "UNIMPLEMENTED"
        assert "no method /tensorflow.serving.PredictionService/Dance here" in reply.text

    @pytest.mark.parametrize("kind", ["application/json", "text/plain"])
    def test_another_content_type_is_no_grpc(self, http2: Http2, kind):
        reply = http2.call(b"{}", extra=[("content-type", kind)])
        assert reply.headers[":status"] == "415"

    @pytest.mark.parametrize("kind", ["application/grpc+proto", "application/grpc"])
    def test_the_content_types_of_grpc(self, http2: Http2, kind):
        assert http2.call(frame(predict_message()), extra=[("content-type", kind)]).code == "OK"

    @pytest.mark.parametrize("limit", ["5", "5s", "-1S", "123456789S", ""])
    def test_a_timeout_that_makes_no_sense(self, http2: Http2, limit):
        reply = http2.call(frame(predict_message()), extra=[("grpc-timeout", limit)])
        assert reply.code == "INVALID_ARGUMENT"

    @pytest.mark.parametrize("limit", ["0n", "1n"])
    def test_a_timeout_that_is_over(self, http2: Http2, limit):
        reply = http2.call(frame(predict_message()), extra=[("grpc-timeout", limit)])
        assert reply.code == "DEADLINE_EXCEEDED"

    def test_texts_are_bounded(self, http2: Http2):
        reply = http2.call(frame(predict_message("m" * 5000)))
        assert reply.code == "NOT_FOUND"
        assert reply.text.endswith("...TRUNCATED")
        assert len(reply.text) < 1100


class TestHealth:
    @pytest.mark.parametrize("service", ["", "tensorflow.serving.PredictionService"])
    def test_of_a_server_with_a_model_that_does_not_load(self, http2: Http2, service):
        message = bytes([0x0A, len(service)]) + service.encode() if service else b""
        reply = http2.call(frame(message), path=HEALTH)
        assert (reply.code, reply.body[5:]) == ("OK", NOT_SERVING)

    def test_of_a_service_that_is_not_here(self, http2: Http2):
        assert http2.call(frame(b"\x0a\x05other"), path=HEALTH).code == "NOT_FOUND"

    @pytest.mark.parametrize(("model", "status"), [("half", SERVING), ("broken", NOT_SERVING)])
    def test_of_a_model(self, http2: Http2, model, status):
        reply = http2.call(frame(bytes([0x0A, len(model)]) + model.encode()), path=HEALTH)
        assert (reply.code, reply.body[5:]) == ("OK", status)

    def test_watching_a_model_tells_when_it_comes_and_goes(self):
        with by_hand() as hand, Http2(hand.grpc) as http2:
            stream = http2.open("/grpc.health.v1.Health/Watch")
            http2.send(stream, frame(b"\x0a\x01m"))

            def told(count):
                while len(http2.replies[stream].body) < 7 * count:
                    http2.receive()
                return http2.replies[stream].body[7 * count - 2 : 7 * count]

            assert told(1) == SERVING
            hand.core.set_status("m", json.dumps([{"version": 1, "state": 40, "code": 0, "message": ""}]))
            hand.core.retire(hand.handle)
            assert told(2) == NOT_SERVING
            hand.core.set_status("m", "[]")
            assert told(3) == SERVICE_UNKNOWN

    def test_watching_ends_with_the_watcher(self, stand: Stand, http2: Http2):
        stream = http2.open("/grpc.health.v1.Health/Watch")
        http2.send(stream, frame(b""))
        while len(http2.replies[stream].body) < 7:
            http2.receive()
        assert http2.replies[stream].body[5:] == NOT_SERVING
        http2.h2.reset_stream(stream)
        http2.flush()
        assert http2.call(frame(predict_message())).code == "OK"
        stand.settle()


class TestWrongProtocol:
    def test_http1_on_the_port_of_grpc_is_cut_off(self, stand: Stand):
        with connect(stand.grpc) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert _drained(client)

    def test_http2_on_the_port_of_rest_is_cut_off(self, stand: Stand):
        with connect(stand.http) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert _drained(client)


def _drained(client: socket.socket) -> bool:
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def test_what_a_client_sends_before_it_knows_of_the_end_is_answered():
    """A server that stops says so; requests that cross that word find their model still there."""
    with serving(model("half", "Half")) as stand, Http2(stand.grpc) as unaware:
        assert unaware.call(frame(predict_message())).code == "OK"
        stand.server.request_stop()
        until(lambda: refused(stand.grpc), "no new connections")
        unaware.send(unaware.open(), frame(predict_message()))
        raw = b"".join(iter(lambda: unaware.socket.recv(1 << 16), b""))
    assert raw.count(b"serving_default") == 1  # in the answer: an error is all headers, and those are compressed


def refused(where: str) -> bool:
    try:
        connect(where, 1.0).close()
    except OSError:
        return True
    return False
