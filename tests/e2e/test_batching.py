"""Requests that meet in a batch, and those that must not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.clients import Crowd, Refused, call, grpc, halves, outcomes
from support.gates import Gate, held, queue
from support.serving import model, serving, until
from support.tfclient import TfClient, tensors

PREDICT = "/v1/models/half:predict"


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    with Crowd() as made:
        yield made


@pytest.fixture(params=["process", "thread"])
def isolation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def half(folder: Path, shape=(-1,), **settings):
    return model("half", "Half", {"folder": str(folder), "shape": shape and list(shape)}, **settings)


class TestMeeting:
    def test_two_requests_make_one_run(self, crowd: Crowd, folder: Path, isolation):
        with serving(half(folder, isolation=isolation, max_batch_size=4, batch_timeout_micros=5_000_000)) as stand:
            asked = [crowd.start(halves, stand.grpc, "half", *rows) for rows in ((100, 42), (71.5, 18.3))]
            first, second = outcomes(asked)
        assert first["y"].tolist() == [52, 23]
        assert second["y"] == pytest.approx([37.75, 11.15])
        assert first["size"].tolist() == second["size"].tolist() == [4, 4]
        assert Gate(folder).sizes() == [4]

    def test_over_different_wires(self, crowd: Crowd, folder: Path):
        with serving(half(folder, max_batch_size=2, batch_timeout_micros=5_000_000)) as stand:
            over_grpc = crowd.start(halves, stand.grpc, "half", 2)
            over_rest = call(stand.http, "POST", PREDICT, '{"instances": [4]}').json
            assert over_grpc.result(10)["size"] == 2
        assert over_rest == {"predictions": [{"y": 4.0, "size": 2}]}

    def test_one_request_does_not_wait_for_company_by_default(self, folder: Path):
        with serving(half(folder)) as stand:
            assert halves(stand.grpc, "half", 2)["size"] == 1

    def test_nor_for_ever(self, folder: Path):
        with serving(half(folder, batch_timeout_micros=50_000)) as stand:
            assert halves(stand.grpc, "half", 2)["size"] == 1

    def test_what_comes_while_a_worker_is_busy_is_run_together(self, crowd: Crowd, folder: Path, isolation):
        with serving(half(folder, isolation=isolation)) as stand:
            with held(stand, crowd, folder) as gate:
                asked = [crowd.start(halves, stand.grpc, "half", value) for value in range(20)]
                queue(stand, 20)
            assert [one["y"][0] for one in outcomes(asked)] == [value / 2 + 2 for value in range(20)]
            assert gate.sizes() == [20]

    def test_requests_for_different_outputs_share_a_batch(self, crowd: Crowd, folder: Path, tf: TfClient):
        with serving(half(folder)) as stand:
            with held(stand, crowd, folder) as gate:
                x = {"model": "half", "inputs": tensors({"x": np.float32([1])})}
                for number, names in enumerate((["y"], ["size"], [])):
                    tf.ask("start", stand.grpc, id=number, filter=names, **x)
                queue(stand, 3)
            found = [set(tf.call("result", stand.grpc, id=number)["outputs"]) for number in range(3)]
        assert found == [{"y"}, {"size"}, {"y", "size"}]
        assert gate.sizes() == [3]

    def test_different_shapes_do_not_meet(self, crowd: Crowd, folder: Path):
        with serving(half(folder, shape=None)) as stand:
            with held(stand, crowd, folder) as gate:
                shapes = [(1, 2), (1, 3), (2, 2), (1, 1, 2)]
                asked = [
                    crowd.start(grpc, stand.grpc, "half", x=np.full(shape, index, np.float32))
                    for index, shape in enumerate(shapes)
                ]
                queue(stand, 5)
            assert [one["y"].shape for one in outcomes(asked)] == shapes
        assert sorted(tuple(run["shape"]) for run in gate.runs()) == [(1, 1, 2), (1, 3), (3, 2)]


class TestSizes:
    @pytest.mark.parametrize(("allowed", "executed"), [((2, 4), 2), ((1, 3, 4), 3)], ids=["2 4", "1 3 4"])
    def test_two_rows_run_at_an_allowed_size(self, folder: Path, allowed, executed):
        with serving(half(folder, max_batch_size=4, allowed_batch_sizes=allowed)) as stand:
            answer = halves(stand.grpc, "half", 6, 8)
            padding = stand.metric("padding_rows_total")
        assert answer["y"].tolist() == [5, 6]
        assert answer["size"].tolist() == [executed, executed]
        [run] = Gate(folder).runs()
        assert run["x"][:2] == [6, 8]
        assert set(run["x"]) == {6, 8}
        assert padding == executed - 2

    @pytest.mark.parametrize("limit", [3, 4, 10, 64])
    def test_a_large_request_is_cut_and_put_together_in_order(self, folder: Path, limit, isolation):
        with serving(half(folder, isolation=isolation, max_batch_size=limit, workers=2)) as stand:
            answer = halves(stand.grpc, "half", *range(101))
        assert answer["y"].tolist() == [value / 2 + 2 for value in range(101)]
        assert max(Gate(folder).sizes()) <= limit

    def test_execution_size_bounds_batches_but_not_requests(self, crowd: Crowd, folder: Path):
        with serving(half(folder, max_batch_size=3, max_execution_batch_size=2)) as stand:
            asked = [crowd.start(halves, stand.grpc, "half", *rows) for rows in ((1,), (2, 3, 4))]
            first, second = outcomes(asked)
            with pytest.raises(Refused, match="Task size 4 is larger than maximum input batch size 3"):
                halves(stand.grpc, "half", 1, 2, 3, 4)
        assert (first["y"].tolist(), second["y"].tolist()) == ([2.5], [3, 3.5, 4])
        assert max(Gate(folder).sizes()) == 2

    def test_a_full_queue_refuses_at_once_and_says_when_to_come_back(self, crowd: Crowd, folder: Path):
        with serving(half(folder, max_batch_size=2, max_enqueued_batches=2)) as stand:
            with held(stand, crowd, folder):
                waiting = [crowd.start(halves, stand.grpc, "half", value) for value in range(12)]
                queue(stand, 4)
                over_rest = call(stand.http, "POST", PREDICT, '{"instances": [1]}')
                with pytest.raises(Refused) as over_grpc:
                    halves(stand.grpc, "half", 1)
            refused = [one for one in outcomes(waiting) if isinstance(one, Refused)]
        text = "The batch scheduling queue to which this task was submitted is full"
        assert over_rest.status == 503
        assert text in over_rest.json["error"]
        assert int(over_rest.headers["retry-after"]) >= 1
        assert over_grpc.value.code == "UNAVAILABLE"
        assert text in over_grpc.value.text
        assert 0 < len(refused) <= 8, "the rest was queued, or taken ahead, and answered"
        assert {one.code for one in refused} == {"UNAVAILABLE"}

    def test_bytes_that_wait_are_bounded_too(self, crowd: Crowd, folder: Path):
        with serving(half(folder, shape=(-1, 1000), max_enqueued_bytes=10_000)) as stand:
            with held(stand, crowd, folder, shape=(1, 1000)):
                rows = np.ones((1, 1000), np.float32)
                waiting = [crowd.start(grpc, stand.grpc, "half", x=rows) for _ in range(5)]
                queue(stand, 2)
                until(lambda: sum(one.done() for one in waiting) == 3, "three refused at once")
            found = outcomes(waiting)
        refused = [one for one in found if isinstance(one, Refused)]
        assert len(refused) == 3
        assert "max_enqueued_bytes is 10000" in refused[0].text


class TestPadding:
    def test_requests_of_different_lengths_meet_and_get_their_own_size_back(self, crowd: Crowd, folder: Path):
        settings = {"max_batch_size": 2, "pad_variable_length_inputs": True, "batch_timeout_micros": 5_000_000}
        with serving(half(folder, shape=(-1, -1, -1), **settings)) as stand:
            small = np.arange(1, 5, dtype=np.float32).reshape(1, 2, 2)
            large = np.arange(5, 14, dtype=np.float32).reshape(1, 3, 3)
            asked = [crowd.start(grpc, stand.grpc, "half", x=x) for x in (small, large)]
            first, second = outcomes(asked)
        [run] = Gate(folder).runs()
        assert run["shape"] == [2, 3, 3]
        assert first["y"].tolist() == (small / 2 + 2).tolist()
        assert second["y"].tolist() == (large / 2 + 2).tolist()
        assert first["size"].tolist() == [2]

    def test_ranks_do_not_mix(self, crowd: Crowd, folder: Path):
        with serving(half(folder, shape=None, pad_variable_length_inputs=True)) as stand:
            with held(stand, crowd, folder) as gate:
                sent = [np.ones(shape, np.float32) for shape in ((1, 2), (1, 4), (1, 2, 2))]
                asked = [crowd.start(grpc, stand.grpc, "half", x=x) for x in sent]
                queue(stand, 3)
            assert [one["y"].shape for one in outcomes(asked)] == [x.shape for x in sent]
        assert sorted(run["shape"] for run in gate.runs()) == [[1, 2, 2], [2, 4]]

    def test_a_rank_beyond_six_is_refused(self, folder: Path):
        text = "Only tensors with rank from 1 to 6 can be padded"
        padded = half(folder, shape=None, pad_variable_length_inputs=True)
        with serving(padded) as stand, pytest.raises(Refused, match=text):
            grpc(stand.grpc, "half", x=np.ones((1,) * 7, np.float32))
