"""From what servers say of single answers to stages, and to the sizes of batches."""

from __future__ import annotations

import numpy as np
import pytest

from poise.bench.samples import UNKNOWN, Samples
from poise.bench.stages import STAGES, stages_of


def made(latency_us, queue, batch, execute, rows, *, choice=0, outcome=0) -> Samples:
    """Samples of so many µs each; numbers stand for all."""
    count = len(latency_us)

    def column(values, dtype):
        return np.broadcast_to(np.asarray(values, dtype), (count,)).copy()

    scheduled = np.arange(count, dtype=np.int64) * 1000
    return Samples(
        scheduled=scheduled,
        issued=scheduled,
        sent=scheduled,
        done=scheduled + np.asarray(latency_us, np.int64) * 1000,
        outcome=column(outcome, np.uint16),
        choice=column(choice, np.uint32),
        queue_us=column(queue, np.uint32),
        batch_us=column(batch, np.uint32),
        execute_us=column(execute, np.uint32),
        batch_rows=column(rows, np.uint32),
        labels=("OK", "UNAVAILABLE"),
    )


ONE_ROW = np.array([1])


def test_stages_add_up_to_the_latency():
    stages = stages_of(made([1000, 3000], [100, 300], [50, 50], [500, 1500], 2), ONE_ROW)
    assert stages.mean_ms == pytest.approx({"queue": 0.2, "batch": 0.05, "execute": 1.0, "rest": 0.75})
    assert sum(stages.mean_ms.values()) == pytest.approx(2.0)


def test_the_rest_is_never_below_zero():
    assert stages_of(made([100], 50, 30, 21, 1), ONE_ROW).mean_ms["rest"] == 0


def test_percentiles_are_order_statistics_of_each_stage_by_itself():
    execute = np.arange(1, 1001)
    stages = stages_of(made([5000] * 1000, execute[::-1], 0, execute, 1), ONE_ROW)
    assert (stages.p50_ms["execute"], stages.p99_ms["execute"]) == (0.5, 0.99)
    assert (stages.p50_ms["queue"], stages.p99_ms["queue"]) == (0.5, 0.99)
    assert stages.p99_ms["rest"] == pytest.approx(3.999)


def test_percentiles_that_so_few_cannot_bear_are_none():
    stages = stages_of(made([1000] * 100, 1, 1, 1, 1), ONE_ROW)
    assert stages.p50_ms["execute"] == 0.001
    assert stages.p99_ms == dict.fromkeys(STAGES)


def test_only_answers_that_tell_all_count():
    queue = [10, UNKNOWN, 10, 10, 10]
    execute = [10, 10, UNKNOWN, 10, 10]
    stages = stages_of(made([1000, 1000, 1000, 3000, 9000], queue, 5, execute, 1, outcome=[0, 0, 0, 0, 1]), ONE_ROW)
    assert (stages.share, stages.mean_ms["rest"]) == (0.5, pytest.approx(1.975))


NOTHING = {
    "no samples": made([], 1, 1, 1, 1),
    "no stages": made([1000, 1000], UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "errors only": made([1000], 1, 1, 1, 1, outcome=1),
}


@pytest.mark.parametrize("samples", NOTHING.values(), ids=NOTHING)
def test_none_when_nobody_tells(samples):
    assert stages_of(samples, ONE_ROW) is None


SIZES = {
    "each batch is told of by all of its requests": ([4, 4, 4, 4, 1], 0, [1], [(1, 1), (4, 1)]),
    "by their rows": ([8, 8, 8], [0, 0, 1], [1, 6], [(8, 1)]),
    "some were answered outside of the window": ([4, 4, 4], 0, [1], [(4, 0.75)]),
    "one that was split counts for its last": ([10], 0, [25], [(10, 1)]),
    "unknown, or none": ([UNKNOWN, 0, 2], 0, [1], [(2, 0.5)]),
}


@pytest.mark.parametrize(("rows", "choice", "request_rows", "expected"), SIZES.values(), ids=SIZES)
def test_sizes_of_batches(rows, choice, request_rows, expected):
    samples = made([1000] * len(rows), 1, 1, 1, rows, choice=choice)
    assert stages_of(samples, np.array(request_rows)).batch_rows == tuple(expected)


def test_json_has_the_figures_and_their_source():
    stages = stages_of(made([1000] * 3, 100, 50, 500, 3), ONE_ROW)
    per_stage = {"queue": 0.1, "batch": 0.05, "execute": 0.5, "rest": 0.35}
    assert stages.to_json() == {
        "mean_ms": per_stage,
        "p50_ms": dict.fromkeys(STAGES),
        "p99_ms": dict.fromkeys(STAGES),
        "share": 1.0,
        "source": "server-timing",
    }
    assert stages.batch_rows_json() == [[3, 1.0]]
