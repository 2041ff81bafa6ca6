import numpy as np
import pytest

from poise.bench.load import OpenLoop
from poise.bench.measurement import GeneratorUse, Measurement, Slo, WarmUp
from poise.bench.search import GAP, Search
from poise.bench.sequential import Answer
from poise.bench.traffic import Traffic, WireRequest
from support.fake_engine import S, make_samples

TRAFFIC = Traffic("grpc://h:1", (WireRequest("/a/B", b"x"),))
SLO = Slo(99, 50)


class Server:
    """An M/M/1 queue: latencies are exponential with a mean of 1 / (capacity - rate)."""

    def __init__(self, capacity, cpu_share=0.1):
        self.capacity = capacity
        self.cpu_share = cpu_share
        self.asked = []

    def measure(self, rate, seed, stretch):
        self.asked.append((rate, seed, stretch))
        count = max(int(rate * 20 * stretch), 1)
        scheduled = (np.arange(count) / rate * S).astype(np.int64)
        saturated = rate >= self.capacity
        mean = 1.0 if saturated else 1 / (self.capacity - rate)
        latency = np.random.default_rng([seed, int(rate)]).exponential(mean, count)
        return Measurement(
            OpenLoop(rate), TRAFFIC, make_samples(scheduled, scheduled + (latency * S).astype(np.int64)), 0,
            int(20 * stretch * S), 10, WarmUp(1, 1, True, None), GeneratorUse(1, 1, self.cpu_share), (SLO,),
            saturated=saturated,
        )  # fmt: skip


def truth(capacity):
    """P99 of an exponential is ln(100) times its mean."""
    return capacity - np.log(100) / (SLO.limit_ms / 1e3)


@pytest.mark.parametrize("capacity", [300, 1_000, 5_000])
@pytest.mark.parametrize("first", [1, 100, 20_000])
def test_the_rate_that_just_meets_the_slo_is_found(capacity, first):
    search = Search(Server(capacity).measure, [SLO]).run(first)
    assert search.confirmed
    assert search.passed == pytest.approx(truth(capacity), rel=0.05)
    assert search.passed < search.failed <= search.passed * GAP


def test_the_winner_is_measured_anew_with_other_seeds():
    server = Server(1_000)
    search = Search(server.measure, [SLO]).run(100)
    seeds = {seed for rate, seed, _ in server.asked if rate == search.passed}
    assert len(seeds) >= 4


def test_a_server_that_never_meets_it_has_no_rate():
    search = Search(Server(60).measure, [SLO]).run(100)
    assert search.passed is None
    assert search.stopped


def test_a_generator_at_its_limit_ends_the_search_and_is_told():
    server = Server(1_000, cpu_share=0.99)
    search = Search(server.measure, [SLO]).run(100)
    assert "of a core" in search.stopped
    # What passes all the same has passed: its latencies can only be too long.
    assert 700 < search.passed < 1_000
    assert not search.confirmed
    assert len({seed for rate, seed, _ in server.asked if rate == server.asked[-1][0]}) == 3


def test_a_generator_that_was_late_once_is_no_matter():
    server = Server(1_000)

    def late_now_and_then(rate, seed, stretch):
        server.cpu_share = 0.99 if len(server.asked) % 5 == 3 else 0.1
        return server.measure(rate, seed, stretch)

    search = Search(late_now_and_then, [SLO]).run(100)
    assert search.confirmed
    assert search.passed == pytest.approx(truth(1_000), rel=0.05)


def test_what_cannot_be_told_is_measured_longer_and_counts_as_failed():
    server = Server(1_000)
    search = Search(server.measure, [SLO])
    search.judge_rate(truth(1_000))
    assert [stretch for _, _, stretch in server.asked][:2] == [1, 2]
    assert search.passed is None or search.trials[-1].answer is Answer.PASSED
