"""Server reflection, as tools that know nothing yet ask for it."""

from __future__ import annotations

import pytest

from support.border import by_hand
from support.http2 import Http2, frame

PATHS = [f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")]
LIST_SERVICES = b"\x3a\x00"
SYMBOL = b"\x22\x24tensorflow.serving.PredictionService"


@pytest.mark.parametrize("path", PATHS)
def test_is_a_conversation_on_one_stream(path):
    with by_hand(server={"reflection": True}) as hand, Http2(hand.grpc) as http2:
        stream = http2.open(path)
        http2.send(stream, frame(LIST_SERVICES), end=False)
        while b"tensorflow.serving.PredictionService" not in http2.replies[stream].body:
            http2.receive()
        assert not http2.replies[stream].ended
        http2.send(stream, frame(SYMBOL))
        reply = http2.reply(stream)
        assert reply.code == "OK"
        assert b"tensorflow_serving/prediction_service.proto" in reply.body
        assert hand.held() == {}


def test_ends_with_a_client_that_goes():
    with by_hand(server={"reflection": True}) as hand:
        with Http2(hand.grpc) as http2:
            http2.open(PATHS[0])
        with Http2(hand.grpc) as http2:
            assert http2.call(frame(LIST_SERVICES), PATHS[0]).code == "OK"


def test_is_off_unless_asked_for():
    with by_hand() as hand, Http2(hand.grpc) as http2:
        assert http2.call(frame(LIST_SERVICES), PATHS[0]).code == "UNIMPLEMENTED"
