"""Models that raise, return something else than they promised, or never return."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import models
from support.clients import Crowd, Refused, call, halves, outcomes
from support.gates import held, queue
from support.serving import model, serving, until
from support.traffic import Traffic

ROWS = "Batched output tensor's 0th dimension does not equal the sum"
DEEDS = {
    "raises": (models.RAISE, "INTERNAL", "model half failed: ValueError: no such row"),
    "returns too few rows": (models.FEW_ROWS, "FAILED_PRECONDITION", ROWS),
    "returns a scalar": (models.NO_ROWS, "FAILED_PRECONDITION", "Batched output tensor has 0 dimensions"),
    "returns another dtype": (models.WRONG_DTYPE, "INTERNAL", "output y: expected dtype float but got double"),
    "leaves an output out": (models.MISSING, "INTERNAL", "output y is missing; there are size"),
    "returns no array": (models.NO_ARRAY, "INTERNAL", "output y: expected a NumPy array of float but got str"),
}


def fickle(folder: Path, **settings):
    return model("half", "Fickle", {"folder": str(folder), "shape": [-1]}, **settings)


@pytest.mark.parametrize(("deed", "code", "text"), DEEDS.values(), ids=DEEDS)
def test_a_model_that(deed, code, text, folder: Path, crowd: Crowd, isolation):
    """The deed is done by the first row of a batch: the batch of that request alone, at the last, fails."""
    with serving(fickle(folder, isolation=isolation)) as stand:
        with held(stand, crowd, folder):
            asked = [crowd.start(halves, stand.grpc, "half", deed)]
            queue(stand, 1)
            asked += [crowd.start(halves, stand.grpc, "half", value) for value in range(7)]
            queue(stand, 8)
        guilty, *others = outcomes(asked)
        assert isinstance(guilty, Refused)
        assert guilty.code == code
        assert text in guilty.text
        assert [one["y"][0] for one in others] == [value / 2 + 2 for value in range(7)]
        stand.settle()
        assert stand.metric("workers_lost_total") == 0
        assert stand.metric("requests_total", model="half") == 9, "one outcome for each request"


def test_a_model_that_fails_over_rest(folder: Path):
    with serving(fickle(folder)) as stand:
        answer = call(stand.http, "POST", "/v1/models/half:predict", f'{{"instances": [{models.RAISE}]}}')
        assert (answer.status, answer.json["error"]) == (500, "model half failed: ValueError: no such row")
        stand.settle()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_model_that_ends_its_worker_is_started_again(folder: Path, isolation):
    with serving(fickle(folder, isolation=isolation)) as stand:
        with pytest.raises(Refused, match="model half ended its worker: SystemExit"):
            halves(stand.grpc, "half", models.LEAVE)
        until(lambda: stand.metric("workers_lost_total") == 1, "the loss noticed")
        assert halves(stand.grpc, "half", 2)["y"] == 3
        stand.settle()


def test_a_model_that_hangs_is_given_up_while_others_serve(folder: Path, crowd: Crowd, isolation):
    """A thread cannot be ended: it is left behind, and another takes its place."""
    hanging = fickle(folder, isolation=isolation, max_run_s=0.5)
    with serving(hanging, model("other", "Half")) as stand:
        with Traffic(lambda: halves(stand.grpc, "other", 2)) as traffic, held(stand, crowd, folder) as gate:
            assert gate.holding
            error = gate.holding.exception(10)
            assert halves(stand.grpc, "half", 2, timeout_s=10.0)["y"] == 3
        assert isinstance(error, Refused)
        assert "hung: a batch ran longer than max_run_s = 0.5" in error.text
        assert traffic.errors == []
        stand.settle()
