"""Ends of a server: asked for, insisted on, and sudden."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from support.clients import Crowd, Refused, call, connect, halves
from support.models import HOLD
from support.serving import MODELS, ServerProcess, alive, until

CONFIG = """\
drain_timeout_s = {drain_timeout_s}
drain_delay_s = {drain_delay_s}
[models.half]
path = "{models}:Half"
isolation = "{isolation}"
stop_timeout_s = 1.0
[models.half.options]
folder = "{folder}"
shape = [-1]
"""


@pytest.fixture
def start(folder: Path, isolation):
    started = []

    def serve(drain_timeout_s: float = 20.0, drain_delay_s: float = 0.0) -> ServerProcess:
        values = {"models": MODELS, "folder": folder, "isolation": isolation}
        values |= {"drain_timeout_s": drain_timeout_s, "drain_delay_s": drain_delay_s}
        (folder / "poise.toml").write_text(CONFIG.format(**values))
        started.append(ServerProcess("--config", str(folder / "poise.toml")))
        return started[-1]

    yield serve
    (folder / "open").touch()
    for process in started:
        process.close()


def busy(server: ServerProcess, crowd: Crowd, folder: Path) -> Future[Any]:
    """A request that runs until the folder has a file `open`."""
    asked = crowd.start(halves, server.grpc, "half", HOLD)
    until((folder / "runs").exists, "a busy worker")
    return asked


def closed(address: str) -> bool:
    try:
        connect(address, 1.0).close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_a_signal_lets_requests_under_way_end_and_exits_with_0(number, start, crowd: Crowd, folder: Path):
    server = start()
    over_grpc = busy(server, crowd, folder)
    over_rest = crowd.start(call, server.http, "POST", "/v1/models/half:predict", json.dumps({"instances": [4]}))
    until(lambda: 'poise_queued_rows{model="half"' in call(server.http, "GET", "/metrics").body.decode(), "metrics")
    running = server.workers()
    server.signal(number)
    until(lambda: closed(server.grpc) and closed(server.http), "nobody else is let in")
    assert server.process.poll() is None
    (folder / "open").touch()
    assert over_grpc.result(10)["y"] == HOLD / 2 + 2
    assert over_rest.result(10).json == {"predictions": [{"y": 4.0, "size": 1}]}
    assert server.wait() == 0, server.log
    assert not any(map(alive, running))
    assert "Traceback" not in server.log


def test_with_a_delay_new_clients_are_served_until_it_is_over(start):
    server = start(drain_delay_s=1.5)
    server.signal(signal.SIGTERM)
    until(lambda: call(server.http, "GET", "/readyz").status == 503, "readiness off")
    answer = call(server.http, "POST", "/v1/models/half:predict", json.dumps({"instances": [4]}))
    assert answer.json == {"predictions": [{"y": 4.0, "size": 1}]}
    assert server.process.poll() is None
    assert server.wait(5.0) == 0, server.log


def test_a_second_signal_ends_the_delay(start):
    server = start(drain_delay_s=1000.0)
    server.signal(signal.SIGTERM)
    until(lambda: call(server.http, "GET", "/readyz").status == 503, "readiness off")
    server.signal(signal.SIGTERM)
    assert server.wait(3.0) == 128 + signal.SIGTERM


def test_an_idle_server_exits_at_once(start):
    server = start()
    server.signal(signal.SIGTERM)
    assert server.wait(5.0) == 0, server.log


def test_idle_clients_do_not_hold_it_up(start):
    server = start()
    with connect(server.grpc), connect(server.http):
        server.signal(signal.SIGTERM)
        assert server.wait(5.0) == 0, server.log


def test_draining_has_an_end(start, crowd: Crowd, folder: Path):
    server = start(drain_timeout_s=0.5)
    asked = busy(server, crowd, folder)
    server.signal(signal.SIGTERM)
    assert server.wait() == 0, server.log
    assert isinstance(asked.exception(10), Refused | ConnectionError)
    assert "cut off" in server.log


def test_a_second_signal_exits_at_once(start, crowd: Crowd, folder: Path):
    server = start()
    asked = busy(server, crowd, folder)
    running = server.workers()
    server.signal(signal.SIGTERM)
    until(lambda: closed(server.grpc), "a draining server")
    server.signal(signal.SIGTERM)
    assert server.wait(3.0) == 128 + signal.SIGTERM
    assert asked.exception(10) is not None
    until(lambda: not any(map(alive, running)), "no worker is left")


@pytest.mark.parametrize("state", ["idle", "in a batch", "stopped"])
def test_no_worker_outlives_a_server_that_is_killed(state, start, isolation, crowd: Crowd, folder: Path):
    if isolation == "thread":
        pytest.skip("threads end with their process")
    server = start()
    [worker] = server.workers()
    asked = busy(server, crowd, folder) if state == "in a batch" else None
    if state == "stopped":
        os.kill(worker, signal.SIGSTOP)
    server.signal(signal.SIGKILL)
    server.wait()
    until(lambda: not alive(worker), "the worker is gone")
    assert asked is None or asked.exception(10) is not None
