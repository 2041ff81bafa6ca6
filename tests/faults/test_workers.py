"""Workers that die, stop, hang or speak nonsense in the middle of a batch, while another model serves."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import models
from support.clients import Crowd, Refused, halves, outcomes
from support.gates import held, queue
from support.serving import Stand, alive, model, serving, until, workers
from support.traffic import Traffic

LOST = "the worker was lost while it ran this request: "
HUNG = LOST + "hung: a batch ran longer than max_run_s = 1"
NONSENSE = LOST + "broke the protocol: "
DEEDS = {
    "exits": (models.EXIT, LOST + "ended"),
    "kills itself": (models.DIE, LOST + "ended"),
    "stops": (models.STOP, HUNG),
    "hangs": (models.HANG, HUNG),
    "speaks nonsense": (models.NONSENSE, NONSENSE),
    "says nothing at all": (models.EMPTY, ""),
    "answers a batch that it was not given": (models.WRONG_ID, NONSENSE + "the answer to a batch that it was not"),
}


def fickle(folder: Path, **settings):
    return model("half", "Fickle", {"folder": str(folder), "shape": [-1]}, **{"isolation": "process", **settings})


@contextmanager
def beside_another(served):
    """The server, while a healthy model of it answers without a hitch; afterwards the troubled one serves again."""
    with serving(served, model("other", "Half")) as stand:
        with Traffic(lambda: halves(stand.grpc, "other", 2)["y"][0]) as traffic:
            yield stand
            answers_again(stand)
        assert traffic.errors == []
        assert set(traffic.answers) == {3.0}
        assert len(traffic.answers) > 10
        stand.settle()
        assert stand.metric("panics_total") == 0
        until(lambda: stand.state["workers"] == 2, "two workers, as at first")


def answers_again(stand: Stand) -> None:
    def answered():
        try:
            return halves(stand.grpc, "half", 8, timeout_s=1.0)["y"] == 6
        except Refused:
            return False

    until(answered, "the model serves again")


@pytest.mark.parametrize(("deed", "text"), DEEDS.values(), ids=DEEDS)
def test_one_that(deed, text, folder: Path, crowd: Crowd):
    with beside_another(fickle(folder, max_run_s=1.0)) as stand:
        [worker] = workers()
        with held(stand, crowd, folder):
            asked = [crowd.start(halves, stand.grpc, "half", deed)]
            queue(stand, 1)
            asked += [crowd.start(halves, stand.grpc, "half", value) for value in range(5)]
            queue(stand, 6)
        found = outcomes(asked)
        assert [type(one) for one in found] == [Refused] * 6
        assert {one.code for one in found} == {"INTERNAL"}
        assert all(text in one.text for one in found), found
        assert stand.metric("workers_lost_total") == 1
        until(lambda: not alive(worker), "the old process is gone")


def test_one_that_points_outside_its_memory_fails_the_batch_and_is_replaced(folder: Path):
    with beside_another(fickle(folder)) as stand:
        halves(stand.grpc, "half", 1)
        with pytest.raises(Refused) as refused:
            halves(stand.grpc, "half", models.OUTSIDE)
        assert refused.value.code == "INTERNAL"
        assert refused.value.text == "output size: it lies outside the worker's memory"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV], ids=lambda one: one.name)
def test_one_that_is_killed_from_outside(number, folder: Path, crowd: Crowd):
    with beside_another(fickle(folder)) as stand:
        [worker] = workers()
        with held(stand, crowd, folder) as gate:
            os.kill(worker, number)
            assert gate.holding
            error = gate.holding.exception(10)
        assert isinstance(error, Refused)
        assert error.text == LOST + "ended"


def test_one_that_is_stopped_while_it_is_idle_is_missed_and_replaced(folder: Path):
    """It holds no batch, so nothing but its silence tells."""
    with beside_another(fickle(folder)) as stand:
        [worker] = workers()
        os.kill(worker, signal.SIGSTOP)
        until(lambda: stand.metric("workers_lost_total") == 1, "its silence noticed", 20.0)
        until(lambda: not alive(worker), "the stopped process is gone")


def test_rows_of_a_lost_batch_are_run_again_where_that_is_allowed(folder: Path, crowd: Crowd):
    with beside_another(fickle(folder, retry_lost_batches=True)) as stand:
        [worker] = workers()
        with held(stand, crowd, folder) as gate:
            waits = crowd.start(halves, stand.grpc, "half", 4)
            queue(stand, 1)
            os.kill(worker, signal.SIGKILL)
            until(lambda: len(gate.all_runs()) == 2, "the same batch in the next worker", 20.0)
            gate.open()
            assert gate.holding
            assert gate.holding.result(10)["y"] == models.HOLD / 2 + 2
        assert waits.result(10)["y"] == 4


def test_but_only_once(folder: Path):
    with beside_another(fickle(folder, retry_lost_batches=True)) as stand:
        with pytest.raises(Refused, match="the worker was lost"):
            halves(stand.grpc, "half", models.EXIT)
        assert stand.metric("workers_lost_total") == 2


def test_what_waits_in_the_queue_waits_for_the_next_worker(folder: Path, crowd: Crowd):
    with beside_another(fickle(folder, max_batch_size=4)) as stand:
        [worker] = workers()
        with held(stand, crowd, folder):
            asked = [crowd.start(halves, stand.grpc, "half", value) for value in range(3)]
            queue(stand, 3)
            os.kill(worker, signal.SIGKILL)
            assert [one["y"][0] for one in outcomes(asked)] == [2, 2.5, 3]


def test_of_two_workers_the_other_goes_on(folder: Path, crowd: Crowd):
    served = fickle(folder, workers=2)
    with serving(served) as stand:
        until(lambda: stand.state["workers"] == 2, "two workers")
        with held(stand, crowd, folder) as gate, pytest.raises(Refused):
            halves(stand.grpc, "half", models.EXIT)
        assert gate.holding
        assert gate.holding.result(10)["y"] == models.HOLD / 2 + 2
        answers_again(stand)
        stand.settle()
