from __future__ import annotations

import numpy as np
import pytest

from poise.bench.known import DISTRIBUTIONS, Comparison, compare, make_delays, show, truth_ms
from poise.bench.load import OpenLoop
from poise.bench.measurement import GeneratorUse, Measurement, WarmUp
from poise.bench.samples import Samples
from poise.bench.self_test import MAX_OPEN_RATE, Check, SelfTest, SelfTestPlan
from poise.bench.traffic import Traffic, WireRequest

MS = 1_000_000


def measurement(sent: list[int], start: int, end: int) -> Measurement:
    sent = np.array(sent)
    zeros = np.zeros(len(sent), np.uint32)
    samples = Samples(sent, sent, sent, sent + 1, zeros.astype(np.uint16), zeros, zeros, zeros, zeros, zeros)
    traffic = Traffic("grpc://h:1", (WireRequest("/s/m", b""),))
    warmup, generator = WarmUp(0.0, 0, True, None), GeneratorUse(1, 1, 0.1)
    return Measurement(OpenLoop(1.0), traffic, samples, start, end, 1.0, warmup, generator)


class TestTruth:
    def test_delays_are_the_same_for_the_same_seed_and_as_their_name_says(self):
        for name in DISTRIBUTIONS:
            assert (make_delays(name, 2.0, 1) == make_delays(name, 2.0, 1)).all()
        middle = {name: np.quantile(make_delays(name, 2.0), (0.5, 0.99)) / MS for name in DISTRIBUTIONS}
        assert middle["constant"].tolist() == [2.0, 2.0]
        assert middle["bimodal"].tolist() == [2.0, 10.0]
        assert middle["lognormal"] == pytest.approx([2.0, 6.4], rel=0.02)

    def test_it_is_that_of_the_measured_window_on_the_clock_of_the_session(self):
        # The server's clock is 1 s ahead. Sent at 10, 20, 30 and 40 ms; the window is from 20 to 40.
        reads = np.array([10, 20, 30, 40]) * MS + 1_000 * MS
        record = np.stack([reads, reads + np.array([1, 2, 3, 4]) * MS], axis=1)
        measured = measurement([10 * MS, 20 * MS, 30 * MS, 40 * MS], 20 * MS, 40 * MS)
        assert truth_ms(record[::-1], measured).tolist() == [3.0, 2.0]

    def test_percentiles_are_compared_where_the_samples_support_them(self):
        truth = np.linspace(10.0, 11.0, 60)
        compared = compare(truth * 1.1, truth)
        assert [each.name for each in compared] == ["p50", "p90"]
        assert [each.error for each in compared] == pytest.approx([0.1, 0.1])
        assert compare(truth[:3], truth) == []

    def test_they_are_shown_in_milliseconds(self):
        compared = [Comparison("p50", 1.0, 2.0), Comparison("p99", 3.456, 4.0)]
        assert show(compared, "reported") == "P50 1.00, P99 3.46 ms"
        assert show([], "truth") == "too few answers"


class UpTo(SelfTest):
    """A generator that is in time up to a rate."""

    limit = 0.0

    def is_in_time(self, rate: float) -> bool:
        return rate <= self.limit


class TestSearch:
    @pytest.mark.parametrize(
        ("limit", "found"),
        [(999, 0), (1_000, 1_000), (1_300, 1_250), (1_800, 1_750), (70_000, 64_000), (1e9, MAX_OPEN_RATE)],
    )
    def test_the_highest_open_rate_is_doubled_and_halved_towards(self, limit, found):
        test = UpTo(SelfTestPlan(rates=(500.0, 1_000.0)), lambda _check: None)
        test.limit = limit
        rate = test.find_open_rate()
        assert rate == pytest.approx(found, rel=0.0 if limit < MAX_OPEN_RATE else 0.8)
        assert test.checks[-1].passed == (found > 0)


class TestAttempts:
    @pytest.mark.parametrize(("outcomes", "made"), [([True], 1), ([False, True], 2), ([False] * 5, 3)])
    def test_a_check_that_fails_is_made_again(self, outcomes, made):
        rest, heard = iter(outcomes), []
        test = SelfTest(SelfTestPlan(attempts=3), heard.append)
        test.make(lambda: Check("c", "f", "w", next(rest)))
        assert len(outcomes) - len(list(rest)) == made
        assert heard == test.checks
        assert [check.passed for check in heard] == [outcomes[made - 1]]
