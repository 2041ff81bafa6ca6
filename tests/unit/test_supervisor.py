import json
import signal
from dataclasses import dataclass, field

import pytest

from poise.backoff import Backoff
from poise.config import ModelConfig
from poise.testing import ManualClock
from poise.workers.crew import VersionEnded, VersionFailed, VersionReady, WorkersChanged
from poise.workers.launch import describe_exit
from poise.workers.restart import (
    STABLE_S,
    Phase,
    Verdict,
    after_loss,
    failures_after,
    low_priority_s,
    threads_per_worker,
)
from poise.workers.supervisor import KILL_WITHIN_S, LOSS_GRACE_S, Supervisor

HANDLE = 7
SIGNATURES = json.dumps([{"name": "serving_default"}])


@dataclass
class FakeRunning:
    label: str
    killable: bool = True
    ended: str | None = None
    kills: int = 0

    def outcome(self):
        return self.ended

    def kill(self):
        self.kills += 1
        if self.killable:
            self.ended = self.ended or "killed by SIGKILL"
        return self.killable


@dataclass
class FakeLauncher:
    killable: bool = True
    fails: str = ""
    started: list = field(default_factory=list)
    specs: list = field(default_factory=list)

    def launch(self, spec, isolation, name, fd):
        if self.fails:
            raise OSError(self.fails)
        self.specs.append((spec, isolation, name, fd))
        self.started.append(FakeRunning(f"fake {len(self.started)}", self.killable))
        return self.started[-1]


@dataclass
class FakeCore:
    full: bool = False
    attached: int = 0
    detached: list = field(default_factory=list)
    loads: list = field(default_factory=list)

    def attach_worker(self, _handle):
        if self.full:
            raise OSError("too many open files")
        self.attached += 1
        return 100 + self.attached, 10 + self.attached

    def detach_worker(self, worker):
        self.detached.append(worker)

    def note_load(self, handle, path, succeeded, took_s):
        self.loads.append((handle, path, succeeded, took_s))


class Stage:
    """A supervisor with one version and everything it can touch."""

    def __init__(self, **settings):
        self.clock, self.core, self.launcher = ManualClock(), FakeCore(), FakeLauncher()
        self.supervisor = Supervisor(self.core, self.launcher, cpus=4, log_level="WARNING")
        self.config = ModelConfig(name="m", path="m.onnx", **settings)

    def start(self):
        self.supervisor.start(HANDLE, self.config, 3, "m.onnx", self.clock.now())
        return self

    def ready(self, *workers, signatures=SIGNATURES):
        for worker in workers or [101]:
            self.event("worker_ready", worker, signatures)
        return self

    def event(self, kind, number, text=""):
        self.supervisor.on_event(kind, number, text, self.clock.now())

    def wait(self, seconds):
        self.clock.advance(seconds)
        self.supervisor.tick(self.clock.now())

    def notices(self):
        return self.supervisor.take_notices()


@pytest.mark.parametrize(
    ("phase", "verdict"),
    [
        (Phase.LOADING, Verdict.GIVE_UP),
        (Phase.SERVING, Verdict.RESTART),
        (Phase.RETIRING, Verdict.LET_GO),
        (Phase.ENDING, Verdict.LET_GO),
    ],
)
def test_what_a_loss_means(phase, verdict):
    assert after_loss(phase) is verdict


@pytest.mark.parametrize(
    ("failures", "served_s", "after"),
    [(0, None, 1), (3, None, 4), (3, 0.0, 4), (3, STABLE_S - 1, 4), (3, STABLE_S, 1)],
)
def test_failures_in_a_row_end_with_stable_service(failures, served_s, after):
    assert failures_after(failures, served_s) == after


@pytest.mark.parametrize(("failures", "wait_s"), [(0, 0.0), (1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (10_000, 30.0)])
def test_waits_double_up_to_a_bound(failures, wait_s):
    assert Backoff(0.5, 30.0).wait_s(failures) == wait_s


@pytest.mark.parametrize(
    ("phase", "others_serve", "low_s"),
    [
        (Phase.LOADING, True, 150.0),
        (Phase.LOADING, False, 0.0),
        (Phase.SERVING, True, 0.0),
        (Phase.RETIRING, True, 0.0),
    ],
)
def test_who_loads_at_low_priority(phase, others_serve, low_s):
    assert low_priority_s(phase, 300.0, others_serve=others_serve) == low_s


@pytest.mark.parametrize(("cpus", "workers", "threads"), [(8, 1, 8), (8, 3, 2), (2, 4, 1)])
def test_workers_share_the_cores(cpus, workers, threads):
    assert threads_per_worker(cpus, workers) == threads


@pytest.mark.parametrize(
    ("status", "text"),
    [(0, "exit status 0"), (1, "exit status 1"), (-signal.SIGSEGV, "killed by SIGSEGV"), (-99, "killed by signal 99")],
)
def test_exit_statuses_in_words(status, text):
    assert describe_exit(status) == text


class TestLoading:
    def test_each_worker_gets_its_channel_and_its_orders(self):
        stage = Stage(workers=2, options={"a": 1}, backend="python", isolation="thread").start()
        (spec, isolation, name, fd), (_, _, other, other_fd) = stage.launcher.specs
        assert (spec.model, spec.version, spec.path, spec.backend) == ("m", 3, "m.onnx", "python")
        assert (spec.options, spec.threads, spec.log_level) == ({"a": 1}, 2, "WARNING")
        assert (isolation, name, fd, other, other_fd) == ("thread", "m/3/0", 11, "m/3/1", 12)

    def test_the_first_worker_that_is_ready_makes_the_version_ready(self):
        stage = Stage(workers=2).start().ready(102)
        assert stage.notices() == [VersionReady(HANDLE, SIGNATURES)]
        stage.ready(101)
        assert stage.notices() == [WorkersChanged(HANDLE, "")]

    def test_a_model_that_does_not_load_fails_the_version_once_all_workers_are_gone(self):
        stage = Stage(workers=2).start()
        stage.event("worker_failed", 101, "no such file")
        assert stage.notices() == []
        assert stage.core.detached == [101, 102]
        stage.launcher.started[0].ended = "exit status 0"
        stage.wait(0.05)
        assert stage.notices() == [VersionFailed(HANDLE, "no such file")]
        assert stage.launcher.started[1].kills == 1
        assert stage.supervisor.idle

    def test_a_worker_that_dies_while_loading_fails_the_version_and_says_how(self):
        stage = Stage().start()
        stage.event("worker_lost", 101, "its channel ended")
        stage.launcher.started[0].ended = "killed by SIGKILL"
        stage.wait(0.05)
        assert stage.notices() == [VersionFailed(HANDLE, "worker lost: its channel ended (killed by SIGKILL)")]

    def test_loading_too_long_is_cut_short(self):
        stage = Stage(load_timeout_s=5.0).start()
        assert stage.supervisor.next_due() == 5.0
        stage.wait(4.9)
        assert stage.launcher.started[0].kills == 0
        stage.wait(0.1)
        assert stage.launcher.started[0].kills == 1
        assert stage.notices() == [VersionFailed(HANDLE, "it did not load within 5 s (load_timeout_s)")]
        assert stage.core.detached == [101]

    @pytest.mark.parametrize("trouble", ["channel", "process"])
    def test_a_worker_that_cannot_be_started_fails_the_version(self, trouble):
        stage = Stage(workers=3)
        stage.core.full = trouble == "channel"
        stage.launcher.fails = "no memory" if trouble == "process" else ""
        stage.start().wait(0.0)
        [notice] = stage.notices()
        assert isinstance(notice, VersionFailed)
        assert ("too many open files" if trouble == "channel" else "no memory") in notice.why
        assert stage.supervisor.idle
        assert stage.core.attached == len(stage.core.detached)

    def test_loads_are_noted_with_their_time(self):
        stage = Stage(workers=2).start()
        stage.clock.advance(3.0)
        stage.ready(101, 102)
        assert stage.core.loads == [(HANDLE, "m.onnx", True, 3.0)]
        stage = Stage(workers=2).start()
        stage.clock.advance(2.0)
        stage.event("worker_failed", 101, "no such file")
        assert stage.core.loads == [(HANDLE, "m.onnx", False, 2.0)]

    def test_the_first_version_loads_at_full_speed_and_later_ones_do_not(self):
        stage = Stage().start().ready()
        stage.supervisor.start(HANDLE + 1, stage.config, 4, "m.onnx", stage.clock.now())
        stage.event("worker_lost", 101, "ended")
        stage.wait(1.0)
        assert [spec.low_priority_s for spec, *_ in stage.launcher.specs] == [0.0, 150.0, 0.0]

    def test_loading_can_be_abandoned(self):
        stage = Stage().start()
        stage.supervisor.abandon(HANDLE, 0.0)
        stage.supervisor.abandon(99, 0.0)
        stage.wait(0.0)
        assert stage.launcher.started[0].kills == 1
        assert stage.notices() == [VersionEnded(HANDLE)]


class TestServing:
    def test_a_lost_worker_is_restarted_with_growing_waits(self):
        stage = Stage(restart_delay_s=0.5, restart_delay_max_s=2.0).start().ready()
        stage.notices()
        for worker, wait_s in enumerate([0.5, 1.0, 2.0, 2.0], start=101):
            stage.event("worker_lost", worker, "hung")
            stage.wait(wait_s - 0.01)
            assert len(stage.launcher.started) == worker - 100
            stage.wait(0.01)
            assert len(stage.launcher.started) == worker - 99

    def test_stable_service_pays_off_earlier_failures(self):
        stage = Stage(restart_delay_s=0.5).start().ready()
        for worker in (101, 102, 103):
            stage.event("worker_lost", worker)
            stage.wait(10.0)
        stage.ready(104)
        stage.wait(STABLE_S)
        stage.event("worker_lost", 104)
        stage.wait(0.5)
        assert len(stage.launcher.started) == 5

    def test_losses_and_recoveries_are_told(self):
        stage = Stage().start().ready()
        stage.notices()
        stage.event("worker_lost", 101, "silent")
        assert stage.notices() == [WorkersChanged(HANDLE, "m/3/0: worker lost: silent; restart 1")]
        stage.wait(0.5)
        stage.ready(102)
        assert stage.notices() == [WorkersChanged(HANDLE, "")]

    def test_a_lost_worker_that_still_runs_is_killed_and_reaped(self):
        stage = Stage().start().ready()
        stage.event("worker_lost", 101, "hung")
        assert stage.core.detached == [101]
        stage.wait(LOSS_GRACE_S - 0.01)
        assert stage.launcher.started[0].kills == 0
        stage.wait(0.01)
        assert stage.launcher.started[0].kills == 1
        stage.wait(0.1)
        assert stage.launcher.started[0].kills == 1

    def test_events_about_workers_that_are_gone_are_ignored(self):
        stage = Stage().start().ready()
        stage.event("worker_lost", 101, "hung")
        stage.notices()
        for kind in ("worker_lost", "worker_ready", "worker_failed", "worker_closed"):
            stage.event(kind, 101, SIGNATURES)
        assert stage.notices() == []

    def test_a_restarted_worker_must_have_the_signatures_of_the_first(self):
        stage = Stage().start().ready()
        stage.event("worker_lost", 101)
        stage.wait(0.5)
        stage.notices()
        stage.ready(102, signatures="[]")
        [notice] = stage.notices()
        assert "were its files replaced?" in notice.trouble
        assert 102 in stage.core.detached

    def test_a_restart_that_fails_or_takes_too_long_is_one_more_loss(self):
        stage = Stage(load_timeout_s=5.0, restart_delay_s=0.5).start().ready()
        stage.event("worker_lost", 101)
        stage.wait(0.5)
        stage.notices()
        stage.wait(5.0)
        stage.wait(1.0)
        stage.event("worker_failed", 103, "out of memory")
        texts = [notice.trouble for notice in stage.notices()]
        assert texts == [
            "m/3/0: it did not load within 5 s (load_timeout_s); restart 2",
            "m/3/0: out of memory; restart 3",
        ]

    def test_a_thread_that_hangs_is_left_behind_and_replaced(self, caplog):
        stage = Stage(isolation="thread")
        stage.launcher.killable = False
        stage.start().ready()
        stage.event("worker_lost", 101, "hung")
        stage.wait(1.0)
        assert len(stage.launcher.started) == 2
        assert "cannot be killed" in caplog.text
        assert stage.supervisor.next_due() == pytest.approx(1.0 + 300.0)


class TestEnding:
    def test_a_retired_version_ends_when_its_workers_have_ended_by_themselves(self):
        stage = Stage(workers=2).start().ready(101, 102)
        stage.notices()
        stage.event("worker_closed", 101)
        stage.event("worker_closed", 102)
        stage.event("retired", HANDLE)
        stage.launcher.started[0].ended = "exit status 0"
        stage.wait(0.05)
        assert stage.notices() == []
        stage.launcher.started[1].ended = "exit status 0"
        stage.wait(0.05)
        assert stage.notices() == [VersionEnded(HANDLE)]
        assert [running.kills for running in stage.launcher.started] == [0, 0]
        assert stage.supervisor.next_due() is None

    @pytest.mark.parametrize("closed", [False, True], ids=["channel still open", "channel closed"])
    def test_a_worker_that_does_not_end_is_killed_after_its_time(self, closed):
        stage = Stage(stop_timeout_s=3.0).start().ready()
        stage.notices()
        stage.event("retired", HANDLE)
        assert stage.core.detached == []
        if closed:
            stage.event("worker_closed", 101)
        stage.wait(2.9)
        assert stage.launcher.started[0].kills == 0
        stage.wait(0.1)
        assert stage.launcher.started[0].kills == 1
        assert stage.notices() == [VersionEnded(HANDLE)]

    def test_a_worker_that_still_loads_when_its_version_retires_is_killed_at_once(self):
        stage = Stage(workers=2).start().ready(101)
        stage.supervisor.retire(HANDLE, 0.0)
        stage.wait(0.0)
        assert [running.kills for running in stage.launcher.started] == [0, 1]
        assert stage.core.detached == [102]

    @pytest.mark.parametrize("lost_first", [False, True])
    def test_nobody_is_restarted_for_a_version_that_retires(self, lost_first):
        stage = Stage().start().ready()
        stage.notices()
        if lost_first:
            stage.event("worker_lost", 101)
        stage.supervisor.retire(HANDLE, 0.0)
        if not lost_first:
            stage.event("worker_lost", 101)
        stage.wait(60.0)
        assert len(stage.launcher.started) == 1
        assert not stage.supervisor.idle
        stage.event("retired", HANDLE)
        assert stage.supervisor.next_due() == 0.0
        stage.wait(0.0)
        assert stage.supervisor.idle
        assert stage.notices()[-1] == VersionEnded(HANDLE)

    def test_close_kills_and_reaps_everything(self):
        stage = Stage(workers=2).start().ready(101)
        stage.supervisor.close(stage.clock)
        assert [running.kills for running in stage.launcher.started] == [1, 1]
        assert stage.supervisor.idle

    def test_close_does_not_wait_for_ever(self):
        stage = Stage().start().ready()
        stage.launcher.started[0].kill = lambda: True
        stage.supervisor.close(stage.clock)
        assert KILL_WITHIN_S <= stage.clock.now() <= KILL_WITHIN_S + 1
        assert not stage.supervisor.idle

    def test_kill_all_kills_workers_and_those_that_are_leaving(self):
        stage = Stage(workers=2).start().ready(101, 102)
        stage.event("worker_closed", 101)
        stage.supervisor.kill_all()
        assert [running.kills for running in stage.launcher.started] == [1, 1]
