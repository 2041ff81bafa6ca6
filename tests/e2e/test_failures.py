"""Models that fail: the request at fault is told so, those that shared its batch get their answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients import Crowd, Refused, call, halves, outcomes
from support.gates import Gate, held, queue
from support.serving import model, serving

GOOD = [1, 2, 3, 4, 5, 6, 7]


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    with Crowd() as made:
        yield made


def blaming(folder: Path, names_rows=True, error="input", **settings):
    options = {"folder": str(folder), "names_rows": names_rows, "error": error}
    return model("half", "Blaming", options, **settings)


def ask(folder, crowd, served, guilty=(-5,)):
    """Outcomes of good requests and of guilty ones that share a batch, in this order."""
    with serving(served) as stand:
        with held(stand, crowd, folder):
            asked = [crowd.start(halves, stand.grpc, "half", value) for value in (*GOOD[:3], *guilty, *GOOD[3:])]
            queue(stand, len(asked))
        found = outcomes(asked)
        stand.settle()
    good = [one for one in found if not isinstance(one, Refused)]
    return good, [one for one in found if isinstance(one, Refused)]


def first_run(folder):
    return Gate(folder).sizes()[0]


class TestIsolation:
    @pytest.mark.parametrize("isolation", ["process", "thread"])
    def test_a_model_that_names_the_rows_at_fault_needs_one_more_run(self, crowd: Crowd, folder: Path, isolation):
        good, refused = ask(folder, crowd, blaming(folder, isolation=isolation))
        assert sorted(one["y"][0] for one in good) == [value / 2 + 2 for value in GOOD]
        [error] = refused
        assert (error.code, error.text) == ("INVALID_ARGUMENT", "cannot halve -5")
        assert Gate(folder).sizes() == [8, 7]

    def test_one_that_names_nobody_is_run_again_in_halves(self, crowd: Crowd, folder: Path):
        good, refused = ask(folder, crowd, blaming(folder, names_rows=False))
        assert len(good) == len(GOOD)
        assert [error.text for error in refused] == ["cannot halve -5"]
        assert first_run(folder) == 8
        assert len(Gate(folder).sizes()) <= 1 + 6

    def test_whatever_it_raises(self, crowd: Crowd, folder: Path):
        good, refused = ask(folder, crowd, blaming(folder, error="none"))
        assert len(good) == len(GOOD)
        [error] = refused
        assert error.code == "INTERNAL"
        assert error.text == "model half failed: ArithmeticError: cannot halve -5"

    def test_with_several_at_fault_each_request_has_one_outcome(self, crowd: Crowd, folder: Path):
        good, refused = ask(folder, crowd, blaming(folder, names_rows=False), guilty=(-1, -2, -3, -4, -5))
        assert len(good) + len(refused) == len(GOOD) + 5
        assert len(refused) >= 5

    def test_may_be_switched_off(self, crowd: Crowd, folder: Path):
        good, refused = ask(folder, crowd, blaming(folder, isolate_failures=False))
        assert good == []
        assert len(refused) == len(GOOD) + 1
        assert Gate(folder).sizes() == [8]


class TestWhatClientsSee:
    def test_unavailable_may_be_tried_again(self, folder: Path):
        with serving(blaming(folder, error="unavailable")) as stand:
            with pytest.raises(Refused) as refused:
                halves(stand.grpc, "half", -1)
            assert call(stand.http, "POST", "/v1/models/half:predict", '{"instances": [-1]}').status == 503
        assert refused.value.code == "UNAVAILABLE"

    def test_a_row_at_fault_fails_its_whole_request(self, folder: Path):
        with serving(blaming(folder)) as stand, pytest.raises(Refused, match="cannot halve -2"):
            halves(stand.grpc, "half", 1, -2, 3)

    def test_no_traceback_over_rest(self, folder: Path):
        with serving(blaming(folder, error="none")) as stand:
            answer = call(stand.http, "POST", "/v1/models/half:predict", '{"instances": [-1]}')
        assert answer.status == 500
        assert answer.json["error"] == "model half failed: ArithmeticError: cannot halve -1"
