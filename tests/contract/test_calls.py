"""Calls about the server itself: what a client of TensorFlow Serving asks, and what Python answers."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

import pytest

from support.border import ByHand, by_hand
from support.clients import Refused
from support.http2 import Http2, frame
from support.serving import until
from support.tfclient import TfClient

RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
LIST = b"\x0a\x02\x0a\x00"
"""A ReloadConfigRequest with an empty list of models."""


@pytest.fixture
def hand():
    with by_hand() as made:
        yield made


def reload(hand: ByHand, tf: TfClient, models: list[list[str]]) -> Future[Any]:
    tf.ask("status", hand.grpc, model="m")  # answered once the client has started, which takes its time
    return hand.crowd.start(tf.call, "reload", hand.grpc, models=models)


def pulled(hand: ByHand) -> tuple[int, dict]:
    [(_, call, text)] = [event for event in hand.events("call") if event[0] == "call"]
    return call, json.loads(text)


class TestReload:
    def test_asks_with_the_list_of_models(self, hand, tf: TfClient):
        asked = reload(hand, tf, [["a", "/models/a"], ["b", "/models/b"]])
        call, what = pulled(hand)
        models = [{"name": name, "base_path": f"/models/{name}", "model_platform": "tensorflow"} for name in ("a", "b")]
        assert what == {
            "name": "reload_config",
            "model": None,
            "body": {"config": {"model_config_list": {"config": models}}, "generation": None},
        }
        hand.core.reply(call, "OK", '{"generation": 2, "models": {}}')
        assert asked.result(10) == {"error_code": 0, "error_message": ""}

    def test_fails_with_the_code_and_the_text_of_the_reply(self, hand, tf: TfClient):
        asked = reload(hand, tf, [])
        call, _ = pulled(hand)
        hand.core.reply(call, "FAILED_PRECONDITION", "not that label")
        refused = asked.exception(10)
        assert isinstance(refused, Refused)
        assert (refused.code, refused.text) == ("FAILED_PRECONDITION", "not that label")

    def test_needs_a_list(self, hand, tf: TfClient):
        with pytest.raises(
            Refused, match="ServerModelConfig type not supported by HandleReloadConfigRequest"
        ) as refused:
            tf.call("reload", hand.grpc)
        assert refused.value.code == "INVALID_ARGUMENT"

    def test_ends_at_the_deadline_and_is_then_not_pulled(self, hand, tf: TfClient):
        with pytest.raises(Refused) as refused:
            tf.call("reload", hand.grpc, models=[], timeout=0.3)
        assert refused.value.code == "DEADLINE_EXCEEDED"
        until(lambda: not hand.held(), "nothing held")
        assert hand.core.events(0.0) == []

    def test_is_forgotten_when_its_client_goes(self, hand):
        with Http2(hand.grpc) as http2:
            stream = http2.open(RELOAD)
            http2.send(stream, frame(LIST))
            until(lambda: hand.held().get("requests"), "a request")
        until(lambda: not hand.held(), "nothing held")
        assert hand.core.events(0.0) == []

    def test_is_bounded_in_number(self, hand):
        with Http2(hand.grpc) as http2:
            waiting = [http2.open(RELOAD) for _ in range(64)]
            for stream in waiting:
                http2.send(stream, frame(LIST))
            reply = http2.call(frame(LIST), RELOAD)
            assert reply.code == "RESOURCE_EXHAUSTED"
            for _, call, _ in hand.core.events(1.0):
                hand.core.reply(call, "OK", "{}")
            assert {http2.reply(stream).code for stream in waiting} == {"OK"}

    def test_is_refused_where_clients_are_not_trusted(self, tf: TfClient):
        with by_hand(server={"admin": False}) as hand, pytest.raises(Refused, match="admin = false") as refused:
            tf.call("reload", hand.grpc, models=[])
        assert refused.value.code == "PERMISSION_DENIED"


class TestLabels:
    def test_lead_to_their_version(self, hand, tf: TfClient):
        statuses = [{"version": number, "state": 30, "code": 0, "message": ""} for number in (2, 1)]
        hand.core.set_status("m", json.dumps(statuses))
        hand.core.set_labels("m", '{"stable": 1, "next": 2}')
        assert tf.call("status", hand.grpc, model="m", label="stable")["versions"] == [[1, "AVAILABLE", 0, ""]]
        found = tf.call("metadata", hand.grpc, model="m", label="stable", fields=["signature_def"])
        assert found["spec"]["version"] == 1
        with pytest.raises(Refused, match=r"Servable not found for request: Specific\(m, 2\)"):
            tf.call("metadata", hand.grpc, model="m", label="next", fields=["signature_def"])
        for ask in ("status", "metadata"):
            with pytest.raises(Refused, match="Unrecognized servable version label: old") as refused:
                tf.call(ask, hand.grpc, model="m", label="old", fields=["signature_def"])
            assert refused.value.code == "INVALID_ARGUMENT"
