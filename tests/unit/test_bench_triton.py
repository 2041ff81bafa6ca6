"""Triton's statistics before and after a window, as texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from poise.bench.stages import STAGES
from poise.bench.triton import Statistics, stages_between


def duration(count: int, ms: float) -> dict[str, int]:
    return {"count": count, "ns": int(ms * 1e6)}


def version(requests=0, queue=0.0, gather=0.0, infer=0.0, scatter=0.0, batches=(), **more: Any) -> dict[str, Any]:
    """Times are sums in milliseconds; batches (rows, count)."""
    sums = {"queue": queue, "compute_input": gather, "compute_infer": infer, "compute_output": scatter}
    return {
        "name": "m",
        "version": "1",
        "inference_stats": {name: duration(requests, ms) for name, ms in sums.items()},
        "batch_stats": [{"batch_size": rows, "compute_infer": duration(count, 1.0)} for rows, count in batches],
        **more,
    }


def read(*versions: dict[str, Any]) -> Statistics:
    return Statistics.of(json.loads(json.dumps({"model_stats": versions})))


NONE = read(version())


def test_means_are_of_the_requests_between_two_looks():
    before = read(version(100, 500.0, 10.0, 900.0, 20.0, [(1, 10), (8, 5)]))
    after = read(version(300, 700.0, 14.0, 1300.0, 26.0, [(1, 10), (8, 25), (16, 4)]))
    stages = stages_between(before, after, latency_ms=4.0, answers=200)
    assert stages.mean_ms == pytest.approx({"queue": 1.0, "batch": 0.05, "execute": 2.0, "rest": 0.95})
    assert stages.batch_rows == ((8, 20.0), (16, 4.0))
    assert (stages.share, stages.source) == (1.0, "triton statistics")
    assert stages.to_json()["p99_ms"] == dict.fromkeys(STAGES)


def test_versions_are_added_up():
    both = read(version(1, queue=3.0, batches=[(1, 1)]), version(3, queue=5.0, batches=[(1, 2), (2, 1)]))
    stages = stages_between(NONE, both, latency_ms=10.0, answers=4)
    assert (stages.mean_ms["queue"], stages.batch_rows) == (2.0, ((1, 3.0), (2, 1.0)))


SHARES = {"of the answers": (50, 200, 0.25), "with other clients beside": (300, 200, 1.0), "no answers": (10, 0, 0.0)}


@pytest.mark.parametrize(("requests", "answers", "share"), SHARES.values(), ids=SHARES)
def test_share(requests, answers, share):
    assert stages_between(NONE, read(version(requests)), 1.0, answers).share == share


@pytest.mark.parametrize("after", [NONE, read(version(3, 1.0))], ids=["nothing ran", "the model was loaded anew"])
def test_none_when_there_is_nothing_between(after):
    assert stages_between(read(version(7, 5.0)), after, 1.0, 10) is None


def test_the_rest_is_never_below_zero():
    assert stages_between(NONE, read(version(1, infer=2.0)), 1.5, 1).mean_ms["rest"] == 0


def test_a_model_that_never_batched_has_no_batches():
    stats = version(1)
    del stats["batch_stats"]
    assert read(stats).batches == {}


WRONG = {
    "no statistics": {"error": "not found"},
    "another form": {"model_stats": [{"name": "m"}]},
    "not a list": {"model_stats": 3},
    "no object": [],
    "no number": {"model_stats": [{**version(), "inference_stats": {"compute_infer": {}}}]},
}


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
def test_other_answers_are_refused(answer):
    with pytest.raises(ValueError, match="expected the statistics of a model in Triton's form"):
        Statistics.of(answer)
