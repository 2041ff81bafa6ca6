"""Requests that nobody waits for any more never reach the model."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from poise import _core
from support.clients import Crowd, Refused, address, call, halves, outcomes
from support.gates import held, queue
from support.http2 import Http2, frame
from support.serving import model, serving, until
from support.tfclient import TfClient, tensors

GONE = 77.0
X = np.array([GONE], np.float32)
ASK = {"model": "half", "inputs": tensors({"x": X})}


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    with Crowd() as made:
        yield made


def half(folder: Path):
    return model("half", "Half", {"folder": str(folder), "shape": [-1]})


class Leaving:
    """Ways of no longer waiting for an answer."""

    def __init__(self, stand, tf, crowd):
        self.stand, self.tf, self.crowd = stand, tf, crowd

    def by_deadline(self):
        self.tf.ask("start", self.stand.grpc, id="late", timeout=1.0, **ASK)
        queue(self.stand, 1)
        assert self.tf.ask("result", self.stand.grpc, id="late")["code"] == "DEADLINE_EXCEEDED"
        self.left()

    def by_cancelling(self):
        self.tf.ask("start", self.stand.grpc, id="gone", **ASK)
        queue(self.stand, 1)
        self.tf.ask("cancel", self.stand.grpc, id="gone")
        assert self.tf.ask("result", self.stand.grpc, id="gone")["code"] == "CANCELLED"
        self.left()

    def by_resetting_the_stream(self):
        with Http2(self.stand.grpc) as client:
            stream = client.open()
            client.send(stream, self.message())
            queue(self.stand, 1)
            client.h2.reset_stream(stream)
            client.flush()
            self.left()

    def by_closing_the_connection_of_grpc(self):
        with Http2(self.stand.grpc) as client:
            client.send(client.open(), self.message())
            queue(self.stand, 1)
        self.left()

    def by_closing_the_connection_of_rest(self):
        client = http.client.HTTPConnection(*address(self.stand.http))
        client.request("POST", "/v1/models/half:predict", f'{{"instances": [{GONE}]}}')
        queue(self.stand, 1)
        client.close()
        self.left()

    def message(self):
        return frame(_core.encode_predict_request("half", None, "", [("x", "float", (1,), X.tobytes())]))

    def left(self):
        until(lambda: self.stand.metric("withdrawn_requests_total") == 1, "a row that left the queue")


WAYS = [name for name in vars(Leaving) if name.startswith("by_")]


@pytest.mark.parametrize("way", WAYS)
def test_a_row_that_nobody_waits_for_leaves_the_queue_and_is_never_run(way, tf: TfClient, crowd: Crowd, folder: Path):
    with serving(half(folder)) as stand:
        with held(stand, crowd, folder) as gate:
            getattr(Leaving(stand, tf, crowd), way)()
            assert stand.state["queued_rows"] == 0
            stays = crowd.start(halves, stand.grpc, "half", 5)
            queue(stand, 1)
        assert stays.result(10)["y"] == 4.5
        assert gate.values() == {5.0}
        stand.settle()


def test_neighbours_of_a_request_that_left_are_answered(tf: TfClient, crowd: Crowd, folder: Path):
    with serving(half(folder)) as stand:
        with held(stand, crowd, folder) as gate:
            asked = [crowd.start(halves, stand.grpc, "half", value) for value in range(5)]
            queue(stand, 5)
            assert tf.ask("predict", stand.grpc, timeout=0.1, **ASK)["code"] == "DEADLINE_EXCEEDED"
            until(lambda: stand.state["queued_rows"] == 5, "the late row withdrawn")
            asked += [crowd.start(halves, stand.grpc, "half", value) for value in range(5, 10)]
            queue(stand, 10)
        assert [one["y"][0] for one in outcomes(asked)] == [value / 2 + 2 for value in range(10)]
        assert gate.sizes() == [10]


def test_a_deadline_that_passes_while_the_model_runs_is_kept(crowd: Crowd, folder: Path):
    with serving(half(folder)) as stand:
        with held(stand, crowd, folder) as gate:
            asked = crowd.start(halves, stand.grpc, "half", 5, timeout_s=0.2)
            assert isinstance(asked.exception(5), Refused)
            gate.open()
        stand.settle()


def test_the_server_has_a_limit_for_clients_that_name_none(crowd: Crowd, folder: Path):
    with serving(half(folder), default_timeout_s=0.3) as stand, held(stand, crowd, folder):
        began = time.monotonic()
        answer = call(stand.http, "POST", "/v1/models/half:predict", '{"instances": [1]}')
        assert (answer.status, time.monotonic() - began < 3) == (504, True)
        assert "Deadline exceeded" in answer.json["error"]


def test_a_large_request_that_left_half_run_leaves_nothing_behind(crowd: Crowd, folder: Path):
    served = model("half", "Half", {"folder": str(folder), "shape": [-1]}, max_batch_size=2)
    with serving(served) as stand:
        with held(stand, crowd, folder):
            asked = crowd.start(halves, stand.grpc, "half", *range(20), timeout_s=0.3)
            assert isinstance(asked.exception(5), Refused)
            until(lambda: stand.state["queued_rows"] == 0, "the rest withdrawn")
        stand.settle()
        assert halves(stand.grpc, "half", 1)["y"] == 2.5
