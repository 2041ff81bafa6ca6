"""The server of known latencies: what a load test is judged by."""

from __future__ import annotations

import http.client
from contextlib import closing

import numpy as np
import pytest

from poise import _core

MS = 1_000_000


def ask(server: _core.KnownServer, times: int) -> list[bytes]:
    with closing(http.client.HTTPConnection(server.address, timeout=10)) as connection:
        answers = []
        for _ in range(times):
            connection.request("POST", "/any", b"body")
            answers.append(connection.getresponse().read())
        return answers


def took_ns(server: _core.KnownServer) -> np.ndarray:
    read, written = np.frombuffer(server.record(), np.int64).reshape(-1, 2).T
    return written - read


def test_requests_take_their_delays_in_turn():
    server = _core.KnownServer("http", np.array([0, 20 * MS], np.int64))
    assert ask(server, 4) == [b"{}"] * 4
    server.stop()
    assert len(took_ns(server)) == 4
    assert (took_ns(server)[1::2] >= 20 * MS).all()


def test_what_is_due_in_a_freeze_is_answered_at_its_end():
    server = _core.KnownServer("http", np.array([], np.int64), [(1, 50 * MS)])
    ask(server, 2)
    server.stop()
    (first, _), (_, answered) = np.frombuffer(server.record(), np.int64).reshape(-1, 2)
    assert answered - first >= 50 * MS


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("tcp", np.zeros(1, np.int64)), 'expected the protocol grpc or http, got "tcp"'),
        (("grpc", np.array([-1], np.int64)), "expected delays of 0 ns or more, got -1"),
        (("grpc", np.zeros(1, np.int64), [(2, 1)]), "ascend"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        _core.KnownServer(*arguments)


def test_delays_are_whole_nanoseconds():
    with pytest.raises(BufferError):
        _core.KnownServer("grpc", np.zeros(1))
