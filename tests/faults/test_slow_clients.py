"""Clients that take for ever: each is given up after client_timeout_s, and what it held is free."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest

from poise import _core
from poise.types import Array
from support.clients import call, connect, halves
from support.http2 import Http2, frame
from support.serving import Stand, model, serving, until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
PATIENCE_S = 0.5
CANCEL = 8  # of HTTP/2's error codes
BIG = np.zeros(4_000_000, np.float32)  # more than the sockets of both sides hold


@pytest.fixture(scope="module")
def shared() -> Iterator[Stand]:
    served = model("half", "Echo", {"shape": [-1]}, max_batch_size=len(BIG))
    with serving(served, client_timeout_s=PATIENCE_S) as running:
        yield running


@pytest.fixture
def stand(shared: Stand) -> Iterator[Stand]:
    """A server that has let go of everything and everybody when the test is over."""
    yield shared
    until(lambda: shared.state["connections"] == 0, f"no connection left in {shared.state}")
    shared.settle()
    assert halves(shared.grpc, "half", 2)["x"] == 2


def request(rows: int, headers: bytes = b"") -> bytes:
    body = b'{"instances": [%s0]}' % (b"0," * (rows - 1))
    length = b"Content-Length: %d\r\n\r\n" % len(body)
    return b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\n" + headers + length + body


def message(x: Array) -> bytes:
    return frame(_core.encode_predict_request("half", None, "", [("x", "float", x.shape, x.tobytes())]))


def trickle(client: socket.socket, data: bytes) -> bytes:
    """Send a byte now and then until the server has had enough; what it says then."""
    client.settimeout(0.05)
    deadline = time.monotonic() + 10
    for number in range(1000):
        assert time.monotonic() < deadline, "the server waits for ever"
        try:
            client.sendall(data[number % len(data) :][:1])
            if (said := client.recv(1000)) or number:
                return said
        except TimeoutError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            return b""
    raise AssertionError("the server waits for ever")


def gone(client: socket.socket) -> bool:
    """Whether the server ends the connection by itself."""
    client.settimeout(3)
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


class TestSending:
    def test_nothing(self, stand: Stand):
        for address in (stand.grpc, stand.http):
            with connect(address) as client:
                assert gone(client)

    def test_a_head_of_rest_byte_by_byte(self, stand: Stand):
        with connect(stand.http) as client:
            trickle(client, HEAD[:-4])

    def test_a_body_of_rest_byte_by_byte(self, stand: Stand):
        with connect(stand.http) as client:
            client.sendall(HEAD)
            assert trickle(client, b"[").startswith(b"HTTP/1.1 408")

    def test_half_a_preface_of_http2(self, stand: Stand):
        with connect(stand.grpc) as client:
            client.sendall(PREFACE[:10])
            assert gone(client)

    def test_a_message_of_grpc_byte_by_byte(self, stand: Stand):
        with Http2(stand.grpc) as client:
            stream = client.open()
            client.socket.settimeout(0.05)
            for _ in range(200):
                if client.replies[stream].ended:
                    break
                client.send(stream, b"\x00", end=False)
                try:
                    client.receive()
                except TimeoutError:
                    continue
            assert client.replies[stream].code == "DEADLINE_EXCEEDED"
            assert "client_timeout_s = 0.5" in client.replies[stream].text


class TestReading:
    def test_no_answer_of_rest(self, stand: Stand):
        with connect(stand.http) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(request(len(BIG)))
            until(lambda: stand.state["connections"] == 0, f"given up: {stand.state}")

    def test_no_answer_of_grpc(self, stand: Stand):
        """Its window for answers is closed: that call is given up, others of its connection are not."""
        answered = stand.metric("requests_total", code="OK")
        with Http2(stand.grpc) as client:
            stream = client.open()
            client.send(stream, message(BIG[:100_000]))  # more than the window takes
            until(lambda: stand.metric("requests_total", code="OK") > answered, "an answer to be taken")
            time.sleep(3 * PATIENCE_S)
            assert client.reply(stream).reset == CANCEL
            assert client.call(message(BIG[:1])).code == "OK"

    def test_slowly_is_allowed(self, stand: Stand):
        """Whoever goes on reading is waited for, however long it takes in all."""
        with connect(stand.http) as client:
            client.sendall(request(len(BIG), b"Connection: close\r\n"))
            received = b""
            while data := client.recv(200_000):
                received += data
                time.sleep(0.02)
        assert received.startswith(b"HTTP/1.1 200")
        assert received.endswith(b"]}")


def test_clients_that_wait_for_the_model_are_not_slow(stand: Stand):
    """Longer than client_timeout_s between requests, too."""
    with Http2(stand.grpc) as client:
        assert client.call(message(BIG[:1])).code == "OK"
        time.sleep(3 * PATIENCE_S)
        assert client.call(message(BIG[:1])).code == "OK"
    assert call(stand.http, "GET", "/healthz").status == 200
