"""Clients that break off, send rubbish, or come in crowds: others notice nothing, and nothing stays behind."""

from __future__ import annotations

import random
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from poise import _core
from support.clients import Crowd, call, connect, halves
from support.gates import held
from support.http2 import Http2, frame
from support.serving import Stand, model, serving, until

PATH = "/v1/models/half:predict"
GOOD = b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n" + b'{"instances": [2]}'
LIMIT = 1 << 20
WHATEVER = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"}
MESSAGE = _core.encode_predict_request("half", None, "", [("x", "float", (1,), np.float32(2).tobytes())])


@pytest.fixture(scope="module")
def shared() -> Iterator[Stand]:
    with serving(model("half", "Half", {"shape": [-1]}), max_message_bytes=LIMIT) as running:
        yield running


@pytest.fixture
def stand(shared: Stand) -> Iterator[Stand]:
    """A server that serves before a test and after it, and then holds nothing and nobody."""
    yield shared
    assert halves(shared.grpc, "half", 2)["y"] == 3
    assert call(shared.http, "POST", PATH, '{"instances": [2]}').status == 200
    shared.settle()
    until(lambda: shared.state["connections"] == 0, f"no connection left in {shared.state}")
    assert shared.metric("panics_total") == 0


def drain(client: socket.socket) -> bytes:
    """All that still comes, until the other side closes."""
    found = b""
    try:
        while data := client.recv(1 << 16):
            found += data
    except ConnectionResetError:
        pass
    return found


class TestRubbish:
    @pytest.mark.parametrize("port", ["grpc", "http"])
    @pytest.mark.parametrize("seed", range(8))
    def test_is_cut_off(self, stand: Stand, port, seed):
        with connect(getattr(stand, port)) as client:
            try:
                client.sendall(random.Random(seed).randbytes(100_000))
            except (BrokenPipeError, ConnectionResetError):
                return
            drain(client)

    @pytest.mark.parametrize("seed", range(8))
    def test_after_a_good_start_is_cut_off(self, stand: Stand, seed):
        with Http2(stand.grpc) as client:
            assert client.call(frame(MESSAGE)).code == "OK"
            client.socket.sendall(random.Random(seed).randbytes(1000))
            client.socket.shutdown(socket.SHUT_WR)
            drain(client.socket)

    @pytest.mark.parametrize("seed", range(20))
    def test_in_a_message_is_refused(self, stand: Stand, seed):
        """A good message with some bytes changed: whatever it means now, it is answered."""
        chance = random.Random(seed)
        with Http2(stand.grpc) as client:
            for _ in range(20):
                changed = bytearray(MESSAGE)
                for _ in range(chance.randrange(1, 4)):
                    changed[chance.randrange(len(changed))] = chance.randrange(256)
                assert client.call(frame(bytes(changed))).code in WHATEVER

    HEADS = {
        "a negative length": b"POST /v1/models/half:predict HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "two lengths": b"POST /v1/models/half:predict HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "no version": b"POST /v1/models/half:predict\r\n\r\n",
        "a bad chunk": b"POST /v1/models/half:predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "a head without end": b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000,
    }

    @pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
    def test_as_a_head_is_refused(self, stand: Stand, head):
        with connect(stand.http) as client:
            client.sendall(head)
            said = drain(client)
            assert said[:12] in {b"", b"HTTP/1.1 400", b"HTTP/1.1 431", b"HTTP/1.1 499"}


class TestBodies:
    def test_announced_too_large_are_refused_unread(self, stand: Stand):
        with connect(stand.http) as client:
            client.sendall(b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000000\r\n\r\n{")
            assert client.recv(100).startswith(b"HTTP/1.1 413")

    def test_that_turn_out_too_large_are_refused(self, stand: Stand):
        chunk = b"%x\r\n%s\r\n" % (100_000, b" " * 100_000)
        with connect(stand.http) as client:
            client.sendall(b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                for _ in range(20):
                    client.sendall(chunk)
            except (BrokenPipeError, ConnectionResetError):
                return
            assert client.recv(100).startswith(b"HTTP/1.1 413")

    @pytest.mark.parametrize("half_closed", [False, True], ids=["closed", "half closed"])
    def test_that_end_early_over_rest(self, stand: Stand, half_closed):
        with connect(stand.http) as client:
            client.sendall(GOOD[:-5])
            until(lambda: stand.state["requests"] == 1, "a request under way")
            if half_closed:
                client.shutdown(socket.SHUT_WR)
                drain(client)

    @pytest.mark.parametrize("sent", [0, 3, 20], ids="{} bytes".format)
    def test_that_end_early_over_grpc(self, stand: Stand, sent):
        with Http2(stand.grpc) as client:
            client.send(client.open(), frame(MESSAGE)[:sent], end=False)
            until(lambda: stand.state["requests"] == 1, "a request under way")

    def test_in_pieces_are_put_together(self, stand: Stand):
        with connect(stand.http) as client:
            for byte in GOOD:
                client.sendall(bytes([byte]))
            assert client.recv(1000).startswith(b"HTTP/1.1 200")

    def test_of_requests_sent_without_waiting_are_answered_in_order(self, stand: Stand):
        with connect(stand.http) as client:
            client.sendall(GOOD * 3 + GOOD.replace(b"[2]", b"[4]"))
            said = b""
            while said.count(b"}") < 8:
                said += client.recv(10_000)
        assert said.count(b"HTTP/1.1 200") == 4
        assert said.rindex(b"4.0") > said.rindex(b"3.0")

    def test_are_asked_for_when_the_client_waits_to_be_asked(self, stand: Stand):
        head, _, body = GOOD.partition(b"\r\n\r\n")
        with connect(stand.http) as client:
            client.sendall(head + b"\r\nExpect: 100-continue\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 100")
            client.sendall(body)
            assert client.recv(1000).startswith(b"HTTP/1.1 200")

    def test_held_at_once_are_bounded(self):
        with serving(model("half", "Half"), max_message_bytes=1000, max_body_bytes_held=1500) as stand:
            with ExitStack() as clients:
                first, second = [clients.enter_context(Http2(stand.grpc)) for _ in range(2)]
                first.send(first.open(), bytes(900), end=False)
                until(lambda: stand.state["body_bytes"] == 900, "a body in part")
                reply = second.call(bytes(900))
                assert reply.code == "RESOURCE_EXHAUSTED"
                assert "max_body_bytes_held is 1500" in reply.text
                assert reply.headers["grpc-retry-pushback-ms"] == "1000"
            stand.settle()
            assert halves(stand.grpc, "half", 2)["y"] == 3


class TestCrowds:
    def test_of_idle_connections_cost_the_others_nothing(self, stand: Stand):
        count = 2000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * count)), hard))
        with ExitStack() as clients:
            for number in range(count):
                clients.enter_context(connect(stand.grpc if number % 2 else stand.http))
            until(lambda: stand.state["connections"] == count, "every connection open")
            for _ in range(20):
                assert halves(stand.grpc, "half", 2)["y"] == 3
                assert call(stand.http, "POST", PATH, '{"instances": [2]}').status == 200

    def test_are_bounded(self):
        with serving(model("half", "Half"), max_connections=3) as stand, ExitStack() as clients:
            for _ in range(3):
                clients.enter_context(connect(stand.http))
            until(lambda: stand.state["connections"] == 3, "three connections")
            with connect(stand.http) as refused:
                assert drain(refused) == b""
            assert stand.metric("refused_connections_total") == 1
            clients.pop_all().close()
            until(lambda: stand.state["connections"] == 0, "room again")
            assert call(stand.http, "GET", "/healthz").status == 200

    def test_of_streams_that_are_reset_at_once(self, stand: Stand):
        with Http2(stand.grpc) as client:
            try:
                for _ in range(2000):
                    stream = client.open()
                    client.h2.reset_stream(stream)
                    client.flush()
            except (BrokenPipeError, ConnectionResetError):
                pass

    def test_that_leave_while_their_rows_run(self, crowd: Crowd, folder: Path):
        with serving(model("half", "Half", {"folder": str(folder), "shape": [-1]})) as stand:
            with held(stand, crowd, folder), ExitStack() as clients:
                for _ in range(50):
                    client = clients.enter_context(Http2(stand.grpc))
                    for _ in range(4):
                        client.send(client.open(), frame(MESSAGE))
                until(lambda: stand.state["requests"] == 201, "all under way")
                clients.close()
                until(lambda: stand.state["requests"] == 1, "all gone but one")
            stand.settle()
            assert halves(stand.grpc, "half", 2)["size"] == 1
