import json
import logging
import os
import signal
import threading
from dataclasses import dataclass, field

import pytest

from poise import server as module
from poise.config import Config, ModelConfig, ServerSettings
from poise.registry.control import Control
from poise.registry.policy import State
from poise.registry.source import Listing
from poise.server import MAX_WAIT_S, PoiseServer
from poise.testing import ManualClock

SIGNATURES = '[{"name": "serving_default"}]'


@dataclass
class FakeRunning:
    label: str = "fake"
    ended: str | None = None

    def outcome(self):
        return self.ended

    def kill(self):
        self.ended = self.ended or "killed by SIGKILL"
        return True


@dataclass
class FakeCore:
    """A data plane whose events a test writes; waiting for them moves the clock."""

    clock: ManualClock
    calls: list = field(default_factory=list)
    waiting: list = field(default_factory=list)
    waits: list = field(default_factory=list)
    drains_after: int = 0
    statuses: dict = field(default_factory=dict)
    handles: int = 0
    workers: int = 100
    ready: list = field(default_factory=list)
    replies: list = field(default_factory=list)

    def start(self):
        self.calls.append("start")
        return "127.0.0.1:8500", None

    def add_version(self, _model, _version, _batching_json):
        self.handles += 1
        return self.handles

    def attach_worker(self, _handle):
        self.workers += 1
        return self.workers, 0

    def detach_worker(self, worker):
        self.calls.append(("detach", worker))

    def note_load(self, handle, path, succeeded, took_s):
        pass

    def describe(self, handle, signatures_json):
        assert signatures_json == SIGNATURES
        self.calls.append(("describe", handle))

    def publish(self, handle):
        self.calls.append(("publish", handle))

    def retire(self, handle):
        self.calls.append(("retire", handle))
        self.waiting += [("retired", handle, ""), *(("worker_closed", worker, "") for worker in self.ready)]

    def set_status(self, model, statuses_json):
        self.statuses[model] = {one["version"]: State(one["state"]) for one in json.loads(statuses_json)}

    def set_labels(self, model, labels_json):
        self.calls.append(("labels", model, json.loads(labels_json)))

    def reply(self, call, code, text):
        self.replies.append((call, code, text))

    def set_ready(self, ready):
        self.calls.append(("ready", ready))

    def events(self, timeout_s):
        self.waits.append(timeout_s)
        if not self.waiting:
            self.clock.advance(timeout_s)
        events, self.waiting = self.waiting, []
        return events

    def drain(self, timeout_s):
        self.calls.append("drain")
        self.clock.advance(timeout_s)
        self.drains_after -= 1
        return self.drains_after < 0

    def close(self):
        self.calls.append("close")


class FakeLauncher:
    def __init__(self):
        self.started = []

    def launch(self, _spec, _isolation, _name, _fd):
        self.started.append(FakeRunning())
        return self.started[-1]


class FakeSource:
    def __init__(self, model):
        self.model = model

    def look(self):
        return Listing({1: self.model.path})

    def complete(self, _version, _now):
        return True

    def tree(self, _version):
        return None


class Stage:
    """A server of some models with all that it can touch."""

    def __init__(self, *names, control=None, **settings):
        self.clock = ManualClock()
        self.core, self.launcher = FakeCore(self.clock), FakeLauncher()
        models = tuple(ModelConfig(name=name, path=name, poll_interval_s=5.0) for name in names)
        config = Config(server=ServerSettings(io_threads=1), models=models, **settings)
        self.server = PoiseServer(config, self.core, self.launcher, self.clock, self.control(control))
        self.server.start()

    def control(self, given):
        return Control(source=FakeSource, **(given or {}))

    def step(self, *events):
        self.core.waiting += events
        self.server.step(MAX_WAIT_S)
        return self

    def serving(self):
        self.step()
        self.core.ready = [101 + index for index in range(len(self.launcher.started))]
        return self.step(*[("worker_ready", worker, SIGNATURES) for worker in self.core.ready])

    def stop(self):
        for running in self.launcher.started:
            running.ended = "exit status 0"
        self.server.stop()


def test_start_listens_before_anything_is_loaded():
    stage = Stage("m")
    assert stage.core.calls == ["start"]
    assert (stage.server.grpc_address, stage.server.http_address) == ("127.0.0.1:8500", None)


class TestReadiness:
    def test_comes_when_every_model_serves(self):
        stage = Stage("m", "n").step()
        stage.step(("worker_ready", 101, SIGNATURES))
        assert ("ready", True) not in stage.core.calls
        assert stage.server.not_ready() == ["n"]
        stage.step(("worker_ready", 102, SIGNATURES))
        assert stage.core.calls[-2:] == [("publish", 2), ("ready", True)]
        assert stage.server.wait_ready(0)

    def test_is_told_once(self):
        stage = Stage("m").serving().step().step()
        assert stage.core.calls.count(("ready", True)) == 1

    def test_survives_the_loss_of_a_worker(self):
        stage = Stage("m").serving().step(("worker_lost", 101, "ended"))
        assert ("ready", False) not in stage.core.calls


class TestLoop:
    def test_sleeps_until_the_next_timer_and_never_too_long(self):
        stage = Stage("m").serving()
        stage.core.waits.clear()
        stage.clock.seconds = 4.9
        stage.step()
        assert stage.core.waits == [pytest.approx(0.1)]
        stage.step()
        assert stage.core.waits[1] == MAX_WAIT_S

    def test_restarts_what_is_lost(self):
        stage = Stage("m").serving().step(("worker_lost", 101, "ended"))
        for _ in range(20):
            stage.step()
        assert len(stage.launcher.started) == 2

    def test_a_version_that_does_not_load_is_reported(self):
        stage = Stage("m").step()
        stage.step(("worker_failed", 101, "no such file"))
        stage.launcher.started[0].ended = "exit status 0"
        stage.step()
        assert stage.core.statuses["m"] == {1: State.LOADING}
        assert ("retire", 1) in stage.core.calls

    def test_messages_of_the_data_plane_go_to_the_log(self, caplog):
        Stage("m").step(("log", logging.ERROR, "100% of it"))
        assert ("poise.core", logging.ERROR, "100% of it") in caplog.record_tuples


class TestRequiredModels:
    def stage(self, **settings):
        return Stage("m", "n", require_all_models=True, **settings)

    def fail(self, stage, worker):
        """Its load fails as often as it is tried; each try has the next worker."""
        for attempt in range(3):
            stage.step((("worker_failed"), worker + attempt, "no such file"))
            stage.launcher.started[-1].ended = "exit status 0"
            for _ in range(20):
                stage.step()

    def test_that_all_serve_start_a_server(self):
        stage = self.stage().serving()
        stage.step()
        assert not stage.server.stop_requested

    def test_one_that_fails_for_good_ends_it(self, caplog):
        stage = self.stage().step()
        stage.step(("worker_ready", 101, SIGNATURES))
        self.fail(stage, 102)
        assert stage.server.stop_requested
        assert stage.server.run() == 1
        text = "Failed to start server. Error: UNKNOWN: 1 servable(s) did not become available: {{name: n version: 1}"
        assert text in caplog.text

    def test_nothing_to_load_ends_it(self, monkeypatch):
        monkeypatch.setattr(FakeSource, "look", lambda _self: Listing({}, problem="cannot read m"))
        assert self.stage().step().server.stop_requested

    def test_what_fails_later_does_not(self):
        stage = self.stage().serving().step()
        stage.step(("worker_lost", 102, "ended")).step()
        assert not stage.server.stop_requested


class TestCalls:
    def ask(self, stage, name, body=None):
        return stage.step(("call", 7, json.dumps({"name": name, "model": "m", "body": body})))

    def test_are_answered(self):
        stage = self.ask(Stage("m"), "get_config")
        assert [reply[:2] for reply in stage.core.replies] == [(7, "OK")]

    def test_are_refused_once_the_server_stops(self):
        stage = Stage("m").serving()
        stage.server.request_stop()
        self.ask(stage, "unload_model")
        assert stage.core.replies == [(7, "UNAVAILABLE", "the server is stopping")]
        assert stage.core.statuses["m"] == {1: State.AVAILABLE}


class TestStop:
    def test_goes_in_order(self):
        stage = Stage("m").serving()
        stage.core.calls.clear()
        stage.stop()
        assert stage.core.calls == [("ready", False), "drain", ("retire", 1), ("detach", 101), "close"]
        assert stage.core.statuses["m"] == {1: State.END}

    def test_happens_once(self):
        stage = Stage("m").serving()
        stage.stop()
        stage.stop()
        assert stage.core.calls.count("close") == 1

    def test_workers_are_looked_after_while_requests_drain(self):
        stage = Stage("m").serving()
        stage.core.drains_after = 20
        stage.core.waiting.append(("worker_lost", 101, "ended"))
        stage.stop()
        assert len(stage.launcher.started) == 2
        assert stage.core.calls.count("drain") == 21

    def test_requests_are_served_for_a_delay_after_readiness_has_gone(self):
        stage = Stage("m", drain_delay_s=2.0).serving()
        began = stage.clock.now()
        stage.core.calls.clear()
        stage.core.drain = lambda _timeout_s: stage.core.calls.append(("drain", stage.clock.now())) or True
        stage.stop()
        assert stage.core.calls[0] == ("ready", False)
        assert stage.core.calls[1] == ("drain", pytest.approx(began + 2.0, abs=0.2))

    def test_workers_are_looked_after_during_the_delay(self):
        stage = Stage("m", drain_delay_s=2.0).serving()
        stage.core.waiting.append(("worker_lost", 101, "ended"))
        stage.stop()
        assert len(stage.launcher.started) == 2

    def test_draining_has_an_end(self, caplog):
        stage = Stage("m", drain_timeout_s=3.0).serving()
        stage.core.drains_after = 1000
        stage.stop()
        assert "cut off" in caplog.text
        assert stage.core.calls[-1] == "close"

    def test_workers_that_do_not_end_are_killed(self):
        stage = Stage("m").serving()
        stage.server.stop()
        assert stage.launcher.started[0].ended == "killed by SIGKILL"

    def test_a_version_that_never_retires_does_not_hold_up_the_end(self):
        stage = Stage("m").serving()
        stage.core.retire = lambda _handle: None
        stage.server.stop()
        assert stage.launcher.started[0].ended == "killed by SIGKILL"
        assert stage.core.calls[-1] == "close"

    def test_everything_is_closed_when_the_loop_breaks(self):
        stage = Stage("m").serving()
        stage.core.events = lambda _timeout_s: 1 / 0
        with pytest.raises(ZeroDivisionError):
            stage.server.loop()
        assert stage.launcher.started[0].ended
        assert stage.core.calls[-1] == "close"


class TestSignals:
    @pytest.fixture
    def exits(self, monkeypatch):
        found = []
        monkeypatch.setattr(os, "_exit", found.append)
        return found

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_the_first_stops_in_order_with_status_0(self, number, exits):
        stage = Stage("m")
        stage.core.events = self.raising(stage, number, times=1)
        assert stage.server.run() == 0
        assert exits == []
        assert stage.core.calls[-1] == "close"

    def test_the_second_kills_and_exits_at_once(self, exits):
        stage = Stage("m")
        stage.core.events = self.raising(stage, signal.SIGTERM, times=2)
        stage.server.run()
        assert exits == [128 + signal.SIGTERM]

    def test_the_second_does_so_during_the_delay_too(self, exits):
        stage = Stage("m", drain_delay_s=1000.0)
        stage.core.events = self.raising(stage, signal.SIGTERM, times=2)
        stage.server.run()
        assert exits == [128 + signal.SIGTERM]

    def test_handlers_are_put_back(self):
        before = signal.getsignal(signal.SIGTERM)
        stage = Stage()
        stage.core.events = self.raising(stage, signal.SIGTERM, times=1)
        stage.server.run()
        assert signal.getsignal(signal.SIGTERM) is before

    def raising(self, stage, number, times):
        wait, left = stage.core.events, [number] * times

        def events(timeout_s):
            if left:
                signal.raise_signal(left.pop())
            return wait(timeout_s)

        return events


class TestBackground:
    @pytest.fixture
    def stage(self, monkeypatch):
        stage = Stage("m")
        stage.core.calls.clear()
        monkeypatch.setattr(module, "PoiseServer", lambda *_, **__: stage.server)
        return stage

    def test_the_server_is_ready_inside_the_block_and_stopped_after_it(self, stage):
        stage.core.waiting.append(("worker_ready", 101, SIGNATURES))
        once = threading.Event()
        wait = stage.core.events

        def events(timeout_s):
            if not once.is_set():  # let the first step load before its worker is ready
                once.set()
                return []
            return wait(timeout_s)

        stage.core.events = events
        with module.serve_in_background(stage.server.config) as server:
            assert server is stage.server
            assert ("ready", True) in stage.core.calls
        assert stage.core.calls[-1] == "close"

    def test_a_server_that_does_not_get_ready_is_stopped_and_says_what_is_missing(self, stage):
        with pytest.raises(TimeoutError, match=r"not ready within 0\.01 s: m"):
            module.serve_in_background(stage.server.config, ready_timeout_s=0.01).__enter__()
        assert stage.core.calls[-1] == "close"
