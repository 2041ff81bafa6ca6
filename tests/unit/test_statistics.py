import numpy as np
import pytest

from poise.bench.statistics import PERMILLES, Histogram, is_supported


def histogram_of(latencies_ns):
    values, counts = np.unique(latencies_ns, return_counts=True)
    buckets = tuple(zip(values.tolist(), counts.tolist(), strict=True))
    return Histogram(buckets, float(np.sum(latencies_ns)), int(np.max(latencies_ns)))


@pytest.mark.parametrize(
    ("permille", "least"), [(500, 7), (900, 41), (950, 101), (990, 501), (999, 5001)], ids=list(PERMILLES)
)
def test_a_percentile_needs_enough_samples(permille, least):
    assert not is_supported(least - 1, permille)
    assert is_supported(least, permille)


@pytest.mark.parametrize(
    ("count", "permille", "supported"),
    [(1_000, 950, True), (1_000, 990, True), (1_000, 999, False), (5_000, 999, False), (10_000, 999, True)],
)
def test_what_is_supported_agrees_with_the_table_of_rank_intervals(count, permille, supported):
    assert is_supported(count, permille) is supported


def test_percentiles_are_order_statistics():
    found = histogram_of(np.arange(1, 10_001) * 1_000_000).summary_ms()
    assert found == {
        "mean": 5000.5,
        "p50": 5000.0,
        "p90": 9000.0,
        "p95": 9500.0,
        "p99": 9900.0,
        "p99_9": 9990.0,
        "max": 10_000.0,
    }


def test_ranks_are_rounded_up():
    assert histogram_of(np.arange(1, 12) * 1_000_000).percentile_ms(500) == 6.0


def test_what_the_sample_cannot_support_is_none():
    found = histogram_of(np.full(60, 2_000_000)).summary_ms()
    assert found["p90"] == 2.0
    assert [found["p95"], found["p99"], found["p99_9"]] == [None, None, None]
    assert (found["mean"], found["max"]) == (2.0, 2.0)


def test_no_percentile_exceeds_the_maximum_although_buckets_are_wider():
    histogram = Histogram(((1_000_447, 10),), 10_000_000.0, 1_000_000)
    assert histogram.percentile_ms(500) == 1.0


def test_nothing_is_said_about_nothing():
    empty = Histogram.from_dict({"buckets": [], "sum": 0.0, "max": 0})
    assert set(empty.summary_ms().values()) == {None}


def test_other_things_are_no_histogram():
    with pytest.raises(TypeError, match="not a histogram"):
        Histogram.from_dict({"buckets": 3, "sum": 0.0, "max": 0})
