import math

import numpy as np
import pytest

from poise.bench.statistics import (
    across_runs,
    intervals,
    is_supported,
    least_count,
    memory,
    percentile,
    summary,
    t_quantile,
)


def test_percentiles_are_order_statistics():
    latencies = np.random.default_rng(0).permutation(np.arange(1.0, 1001.0))
    assert [percentile(latencies, permille) for permille in (500, 900, 950, 990)] == [500, 900, 950, 990]
    found = summary(latencies)
    assert (found["mean"], found["p50"], found["p99"], found["p99_9"], found["max"]) == (500.5, 500, 990, None, 1000)


def test_a_percentile_that_the_sample_cannot_support_is_not_told():
    assert [least_count(permille) for permille in (500, 900, 950, 990, 999)] == [7, 41, 101, 501, 5001]
    assert not is_supported(500, 990)
    assert is_supported(501, 990)
    assert percentile(np.ones(500), 990) is None
    assert summary(np.array([])) == {
        "mean": None,
        "p50": None,
        "p90": None,
        "p95": None,
        "p99": None,
        "p99_9": None,
        "max": None,
    }


def autoregressive(keep, count, seed=0):
    noise = np.random.default_rng(seed).standard_normal(count)
    values = np.empty(count)
    value = 0.0
    for index in range(count):
        value = keep * value + noise[index]
        values[index] = value
    return values


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
def test_memory_is_the_integrated_autocorrelation_time(keep):
    # Of an AR(1) process it is (1 + keep) / (1 - keep).
    assert memory(autoregressive(keep, 100_000)) == pytest.approx((1 + keep) / (1 - keep), rel=0.2)


def test_memory_of_what_does_not_vary_is_one():
    assert memory(np.ones(1000)) == 1
    assert memory(np.ones(3)) == 1


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    truth, hits = math.exp(1.2816 / math.sqrt(1 - 0.8**2)), 0
    for seed in range(40):
        low, high = intervals(np.exp(autoregressive(0.8, 10_000, seed)))["p90"]
        hits += low <= truth <= high
    assert hits >= 34  # of 40; P(fewer) < 1 % at a coverage of 95 %, and < 30 % it would be with independent ranks


def test_no_interval_where_blocks_would_be_too_short():
    assert set(intervals(np.exp(autoregressive(0.99, 5_000))).values()) == {None}
    assert set(intervals(np.ones(0)).values()) == {None}
    some = intervals(np.exp(autoregressive(0.0, 500)))
    assert some["p50"] is not None
    assert some["p99"] is None


def test_runs_are_joined_by_the_logarithm():
    estimate = across_runs([1.0, 4.0])
    assert estimate.value == pytest.approx(2)
    assert estimate.high / estimate.value == pytest.approx(math.exp(12.706 * math.log(2)), rel=1e-3)
    assert across_runs([3.0]).low is None
    with pytest.raises(ValueError, match="positive values"):
        across_runs([])


@pytest.mark.parametrize(("freedom", "value"), [(1, 12.706), (10, 2.228), (24, 2.064), (60, 2.000), (1000, 1.962)])
def test_quantiles_of_t(freedom, value):
    assert t_quantile(freedom) == pytest.approx(value, abs=2e-3)
