from dataclasses import replace

import numpy as np
import pytest

from poise.bench.load import ClosedLoop, OpenLoop
from poise.bench.measurement import GeneratorUse, Measurement, Slo, WarmUp
from poise.bench.saturation import is_saturated
from poise.bench.traffic import Traffic, WireRequest
from poise.bench.verdict import Exit, Status, judge
from poise.bench.warmup import Decision, Window, decide
from support.fake_engine import S, make_samples

TRAFFIC = Traffic("grpc://h:1", (WireRequest("/a/B", b"x"),))


def measurement(latency_ms=10.0, count=2_000, lag_ms=0.0, wait_ms=0.0, errors=0, load=OpenLoop(200)):  # noqa: B008
    scheduled = np.arange(count) * (S // 200)
    done = scheduled + (np.broadcast_to(latency_ms, count) * 1e6).astype(np.int64)
    outcome = (np.arange(count) < errors).astype(np.uint16)
    issued = scheduled + int(lag_ms * 1e6)
    samples = make_samples(
        scheduled, done, outcome, ("OK", "UNAVAILABLE"), issued=issued, sent=issued + int(wait_ms * 1e6)
    )
    end_ns = int(count / 200 * S)
    return Measurement(load, TRAFFIC, samples, 0, end_ns, 10, WarmUp(3.0, 100, True, 5.0), GeneratorUse(1, 4, 0.1))


GOOD = measurement()


@pytest.mark.parametrize(
    ("found", "status", "reason"),
    [
        (GOOD, Status.VALID, None),
        (measurement(count=50), Status.INVALID, "only 50 requests"),
        (measurement(lag_ms=2.0), Status.INVALID, "the generator was late"),
        (measurement(wait_ms=2.0), Status.INVALID, "waited for a connection"),
        (measurement(latency_ms=100.0, wait_ms=2.0), Status.VALID, None),
        (measurement(latency_ms=100.0, lag_ms=2.0), Status.VALID, None),
        (measurement(lag_ms=2.0, load=ClosedLoop(2)), Status.VALID, None),
        (measurement(errors=3), Status.INVALID, "3 of 2000 requests failed"),
        (measurement(errors=2), Status.VALID, None),
        (replace(GOOD, generator=GeneratorUse(1, 4, 0.9)), Status.INVALID, "90% of a core"),
        (replace(GOOD, warmup=WarmUp(31.0, 1, False, None)), Status.UNSTABLE, "not settled after 31 s"),
        (measurement(latency_ms=np.where(np.arange(2_000) < 1_000, 10, 11)), Status.UNSTABLE, "first half"),
        (measurement(latency_ms=np.where(np.arange(2_000) < 1_000, 0.20, 0.24)), Status.VALID, None),
        (replace(GOOD, saturated=True), Status.SATURATED, "grew without end"),
        (replace(measurement(errors=900), saturated=True), Status.SATURATED, "grew without end"),
    ],
)
def test_what_speaks_against_a_measurement_is_told(found, status, reason):
    verdict = judge(found)
    assert verdict.status is status
    assert (reason in verdict.reasons[0]) if reason else verdict.reasons == ()


def test_a_load_that_changes_may_have_halves_that_differ():
    found = measurement(latency_ms=np.where(np.arange(2_000) < 1_000, 10, 20), load=OpenLoop(200, "ramp"))
    assert judge(found).status is Status.VALID


def test_exit_codes():
    assert [judge(GOOD).exit_code, judge(measurement(count=9)).exit_code] == [Exit.OK, Exit.INVALID]


@pytest.mark.parametrize(
    ("in_flight", "saturated"),
    [
        ([100, 200, 300, 400, 500, 600], True),
        ([100, 200, 300, 400], False),  # too short to tell
        ([5, 6, 4, 5, 7, 5, 6], False),
        ([1, 5, 9, 13, 17, 21], False),  # a few
        ([400, 410, 390, 405, 400, 395], False),  # long, but it does not grow
        ([0, 0, 0, 0, 0, 500], False),  # one stall
        ([100, 500, 100, 600, 90, 400, 120], False),
    ],
)
def test_a_queue_that_grows_steadily_is_saturated(in_flight, saturated):
    assert is_saturated(in_flight, rate=1_000) is saturated


@pytest.mark.parametrize(
    ("p50s", "count", "decision"),
    [
        ([], 100, Decision.GO_ON),
        ([10, 10, 10], 100, Decision.STABLE),
        ([10, 10, 10], 10, Decision.GO_ON),
        ([10, 10, 10.6], 100, Decision.GO_ON),
        ([90, 50, 10, 10, 10.4], 100, Decision.STABLE),
        ([0.2, 0.22, 0.24], 100, Decision.STABLE),
        ([10, None, 10, 10], 100, Decision.GO_ON),
        ([10, 20] * 15, 100, Decision.CAP_REACHED),
    ],
)
def test_a_server_is_warm_when_three_medians_agree(p50s, count, decision):
    assert decide([Window(count, p50) for p50 in p50s]) is decision


def test_slos_are_read():
    assert (Slo.parse("p99=50ms"), Slo.parse(" P99.9 <= 0.2s ")) == (Slo(99, 50), Slo(99.9, 200))
    for wrong in ("p99", "p0=1ms", "99=5ms", "p99=0ms", "p99=5", "p100=5ms", "p99.99=5ms"):
        with pytest.raises(ValueError, match="expected an SLO like"):
            Slo.parse(wrong)
