import os
import threading

import pytest

from poise.workers import priority
from poise.workers.priority import LOW_NICE, Lowered, Plan, Rights, lowered, plan, probe


@pytest.mark.parametrize(
    ("rights", "chosen", "shown"),
    [
        (Rights(nice=True, idle=True), Plan(idle=True, nice=19), "class idle, nice 19, low I/O priority"),
        (Rights(nice=False, idle=True), Plan(idle=True), "class idle, low I/O priority"),
        (Rights(nice=True, idle=False), Plan(batch=True, nice=19), "class batch, nice 19, low I/O priority"),
        (Rights(nice=False, idle=False), Plan(batch=True), "class batch, low I/O priority"),
    ],
    ids=["all rights", "idle only", "nice only", "none"],
)
def test_what_is_lowered_is_what_can_be_raised_again(rights, chosen, shown):
    assert plan(rights) == chosen
    assert str(chosen) == shown


def now():
    own = threading.get_native_id()
    return os.sched_getscheduler(own), os.getpriority(os.PRIO_PROCESS, own)


@pytest.fixture
def apart():
    """Runs a function in a thread of its own: a priority is a thread's."""

    def run(act):
        found = []
        thread = threading.Thread(target=lambda: found.append(act()))
        thread.start()
        thread.join(10)
        return found[0]

    return run


def test_probing_leaves_no_trace():
    before = now()
    probe()
    assert now() == before


def test_a_thread_is_low_and_then_as_before(apart):
    before, chosen = now(), plan(probe())

    def act():
        with lowered(60.0) as back:
            low = now()
            back()
            return low, now()

    low, after = apart(act)
    assert low == (os.SCHED_IDLE if chosen.idle else os.SCHED_BATCH, chosen.nice or before[1])
    assert after == before


def test_without_rights_the_class_alone_is_lowered(apart, monkeypatch, caplog):
    monkeypatch.setattr(priority, "probe", lambda: Rights(nice=False, idle=False))
    caplog.set_level("INFO")
    before = now()

    def act():
        with lowered(60.0):
            return now()

    assert apart(act) == (os.SCHED_BATCH, before[1])
    assert "CAP_SYS_NICE" in caplog.text


def test_threads_that_were_started_meanwhile_are_raised_too(apart):
    before, started, go, found = now(), threading.Event(), threading.Event(), []

    def look():
        found.append(now())
        started.set()
        go.wait(10)
        found.append(now())

    def act():
        with lowered(60.0):
            thread = threading.Thread(target=look)
            thread.start()
            started.wait(10)
        go.set()
        thread.join(10)

    apart(act)
    assert found[0][0] != os.SCHED_OTHER, "it inherits"
    assert found[1] == before


def test_it_is_raised_once(apart):
    def act():
        low = Lowered(plan(probe()))
        low.lower()
        low.back()
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        low.back()
        return now()[0]

    assert apart(act) == os.SCHED_BATCH


def test_zero_is_not_at_all(apart):
    before = now()

    def act():
        with lowered(0.0):
            return now()

    assert apart(act) == before
    assert LOW_NICE == 19
