"""The real client of TensorFlow Serving against a server as operators start it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import numpy as np
import pytest

from support.clients import call
from support.serving import MODELS, ServerProcess
from support.tfclient import TfClient, arrays, encode, tensors

HEALTH = "/grpc.health.v1.Health/Check"
SERVING = encode(b"\x08\x01")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(f"half={MODELS}:Half") as process:
        yield process


def x(*values):
    return tensors({"x": np.array(values, np.float32)})


def test_predicts(tf: TfClient, server: ServerProcess):
    assert tf.predict(server.grpc, "half", {"x": np.array([2, 80], np.float32)})["y"].tolist() == [3, 42]


def test_answers_as_many_at_once_as_are_asked(tf: TfClient, server: ServerProcess):
    asked = [{"inputs": x(*range(number, number + 5))} for number in range(64)]
    found = tf.ask("many", server.grpc, model="half", calls=asked)
    expected = [[value / 2 + 2 for value in range(number, number + 5)] for number in range(64)]
    assert [arrays(answer)["y"].tolist() for answer in found] == expected


def test_refuses_one_of_many_and_answers_the_rest(tf: TfClient, server: ServerProcess):
    wrong = tensors({"x": np.array([1], np.float64)})
    asked = [{"inputs": wrong if number % 8 == 0 else x(number)} for number in range(64)]
    found = tf.ask("many", server.grpc, model="half", calls=asked)
    codes = [answer.get("code", "OK") for answer in found]
    assert codes == ["INVALID_ARGUMENT" if number % 8 == 0 else "OK" for number in range(64)]


def test_is_told_that_the_server_is_healthy(tf: TfClient, server: ServerProcess):
    assert tf.call("raw", server.grpc, method=HEALTH, body="")["body"] == SERVING
    assert call(server.http, "GET", "/readyz").status == 200


def test_finds_nobody_after_the_end(tf: TfClient):
    with ServerProcess(f"half={MODELS}:Half") as process:
        assert tf.predict(process.grpc, "half", {"x": np.array([2], np.float32)})["y"] == 3
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert tf.ask("predict", process.grpc, model="half", inputs=x(1), timeout=2.0)["code"] == "UNAVAILABLE"
