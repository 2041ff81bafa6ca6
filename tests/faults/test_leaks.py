"""What a server holds after trouble is what it held before."""

from __future__ import annotations

import gc
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from poise import _core
from poise.client.admin import Admin
from poise.formats.model_config import ModelDefaults
from poise.registry.calls import ServerConfigs
from poise.registry.control import Control
from support import models
from support.clients import Crowd, Refused, connect, grpc, halves, outcomes
from support.serving import MODELS, Stand, model, serving, until, workers


def arenas() -> int:
    """Memory files of workers that are mapped here."""
    return Path("/proc/self/maps").read_text().count("memfd:poise-arena")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def holdings() -> tuple[int, int, int]:
    return arenas(), descriptors(), threading.active_count()


def grown(before: tuple[int, int, int]) -> int:
    """How many more there are of what has grown most. One more may have come once, with another test's server in this
    process; what leaks, leaks every time.
    """
    return max(now - then for now, then in zip(holdings(), before, strict=True))


def resident_mib() -> float:
    """Memory of this process, after Python and the allocator had a chance to give some back."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def use(stand: Stand, size: int) -> None:
    grpc(stand.grpc, "half", x=np.ones((2, size), np.float32))


def test_workers_that_die_take_their_memory_and_their_channel_along():
    served = model("half", "Fickle", {"shape": [-1, -1]}, isolation="process", restart_delay_max_s=0.05)
    with serving(served) as stand:
        use(stand, 100_000)
        stand.settle()
        before = holdings()
        for _ in range(4):
            [worker] = workers()
            os.kill(worker, signal.SIGKILL)
            until(lambda worker=worker: workers() not in ([], [worker]), "another worker", 20.0)
            use(stand, 100_000)
        stand.settle()
        until(lambda: grown(before) < 4, f"held as before, {before}; now {holdings()}")


def test_memory_that_grew_is_held_once():
    before = arenas()
    with serving(model("half", "Half", {"shape": [-1, -1]}, isolation="process")) as stand:
        for size in (10, 100_000, 300_000, 1_000_000):
            use(stand, size)
        until(lambda: arenas() - before <= 4, f"at most two ways in and two out; there are {arenas() - before}")


def test_a_server_that_was_closed_leaves_nothing():
    def run():
        with serving(model("half", "Half"), model("other", "Half", isolation="process")) as stand:
            halves(stand.grpc, "half", 1)
            halves(stand.grpc, "other", 1)

    run()
    before = holdings()
    for _ in range(3):
        run()
    until(lambda: grown(before) < 3, f"held as before, {before}; now {holdings()}")
    assert workers() == []


@pytest.mark.parametrize(("isolation", "cycles"), [("thread", 50), ("process", 5)])
def test_models_that_come_and_go_leave_nothing(isolation: str, cycles: int):
    """Loaded, asked and unloaded again and again beside one that stays."""
    settings = {"isolation": isolation, "stop_timeout_s": 2.0}
    control = Control(formats=ServerConfigs(ModelDefaults(settings=settings)))
    with serving(model("half", "Half"), control=control) as stand:
        admin = Admin(f"http://{stand.http}", 30.0)

        def cycle():
            admin.load("other", {"base_path": f"{MODELS}:Half", "model_platform": "python"})
            halves(stand.grpc, "other", 1)
            admin.unload("other")
            until(lambda: stand.state["workers"] == 1, "the worker gone")

        cycle()
        stand.settle()
        until(lambda: stand.state["connections"] == 0, "no connection left")
        before, memory = holdings(), resident_mib()
        for _ in range(cycles):
            cycle()
        stand.settle()
        until(lambda: grown(before) < cycles / 2, f"held as before, {before}; now {holdings()}")
        assert stand.metric("requests_total", model="other") == 0, "no series of a model that is gone"
        assert resident_mib() - memory < 16
    assert workers() == []


def test_a_storm_of_good_and_bad_requests_leaves_nothing(crowd: Crowd):
    served = model("half", "Fickle", {"shape": [-1]}, max_enqueued_batches=4, max_batch_size=8)
    with serving(served) as stand:
        halves(stand.grpc, "half", 1)
        asked = []
        for number in range(400):
            value = models.RAISE if number % 7 == 0 else number
            timeout_s = 0.001 if number % 11 == 0 else 10.0
            asked.append(crowd.start(halves, stand.grpc, "half", value, timeout_s=timeout_s))
        found = outcomes(asked)
        assert len(found) == 400
        for one in found:
            assert isinstance(one, dict | Refused), one
        stand.settle()
        counted = stand.metric("requests_total", model="half")
        late = sum(isinstance(one, Refused) and one.code == "DEADLINE_EXCEEDED" for one in found)
        assert 401 - late <= counted <= 401, "one outcome each; those that came too late may not have come at all"
        assert stand.metric("panics_total") == stand.metric("dropped_batches_total") == 0


def test_connections_that_are_cut_are_let_go():
    with serving(model("half", "Half")) as stand:
        halves(stand.grpc, "half", 1)
        until(lambda: stand.state["connections"] == 0, "no connection at first")
        before = descriptors()
        message = _core.encode_predict_request("half", None, "", [("x", "float", (1,), bytes(4))])
        for address in (stand.grpc, stand.http) * 20:
            with connect(address) as client:
                client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + message)
        until(lambda: stand.state["connections"] == 0, "no connection left")
        until(lambda: descriptors() == before, "no descriptor left")
        stand.settle()


@pytest.mark.parametrize("isolation_of_both", ["process", "thread"])
def test_two_servers_with_the_same_models_share_nothing(isolation_of_both):
    one = model("half", "Half", {"plus": 2.0}, isolation=isolation_of_both)
    two = model("half", "Half", {"plus": 3.0}, isolation=isolation_of_both)
    with serving(one) as first:
        with serving(two) as second:
            assert halves(first.grpc, "half", 2)["y"] == 3
            assert halves(second.grpc, "half", 2)["y"] == 4
        assert halves(first.grpc, "half", 2)["y"] == 3
