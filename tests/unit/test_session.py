import numpy as np
import pytest

from poise.bench.engine import Wiring
from poise.bench.load import ClosedLoop, OpenLoop
from poise.bench.offer import make_offer
from poise.bench.session import Method, Session
from poise.bench.traffic import Traffic, WireRequest
from support.fake_engine import FakeEngine, S

TRAFFIC = Traffic("grpc://h:1", (WireRequest("/a/B", b"x"),))


def run(load, method, latency_s=lambda _second: 0.01):
    ticks = []
    clients = load.concurrency if isinstance(load, ClosedLoop) else None
    engine = FakeEngine(latency_s, clients)
    offer = make_offer(load, TRAFFIC, method.duration_s)
    return Session(engine, offer, method, ticks.append).run(TRAFFIC, load), ticks


@pytest.mark.parametrize("load", [OpenLoop(200, "constant"), OpenLoop(200), ClosedLoop(2)])
def test_what_is_due_in_the_window_is_measured_and_nothing_else(load):
    measurement, _ = run(load, Method(duration_s=5, warmup_s=2))
    assert (measurement.start_ns, measurement.end_ns) == (2 * S, 7 * S)
    measured = measurement.measured()
    assert len(measured) == pytest.approx(1000, rel=0.1)
    assert measured.scheduled[0] >= 2 * S
    assert measured.scheduled[-1] < 7 * S
    assert measurement.warmup.requests == pytest.approx(400, rel=0.15)
    assert measurement.generator.cpu_share == pytest.approx(0.1, rel=0.01)


def test_the_last_measured_answers_are_waited_for_under_the_same_load():
    slow = lambda second: 2.5 if second < 4 else 0.01  # noqa: E731
    measurement, ticks = run(OpenLoop(100, "constant"), Method(duration_s=3, warmup_s=1), slow)
    assert len(measurement.measured()) == 300
    assert np.count_nonzero(measurement.samples.scheduled >= measurement.end_ns) > 0
    assert ticks[-1].phase == "cool-down"


def test_a_request_that_never_ends_is_waited_for_no_longer_than_its_limit():
    stuck = lambda second: 1e4 if 2 < second < 2.02 else 0.01  # noqa: E731
    method = Method(duration_s=3, warmup_s=1, wiring=Wiring(timeout_s=2))
    measurement, _ = run(OpenLoop(100, "constant"), method, stuck)
    assert 290 <= len(measurement.measured()) < 300


def test_the_warm_up_ends_when_latencies_have_settled():
    measurement, _ = run(OpenLoop(200, "constant"), Method(duration_s=2), lambda second: max(0.2 - second / 25, 0.02))
    assert measurement.warmup.stable
    assert 6 <= measurement.warmup.seconds <= 11
    measurement, _ = run(OpenLoop(200, "constant"), Method(duration_s=2), lambda second: 0.01 * 1.2 ** (second % 7))
    assert not measurement.warmup.stable
    assert measurement.warmup.seconds == pytest.approx(31, abs=0.1)


def test_a_load_that_changes_is_warmed_up_for_a_fixed_time_at_its_first_rate():
    measurement, _ = run(OpenLoop(100, "ramp:start=0.5,end=1.5"), Method(duration_s=4))
    assert measurement.warmup.seconds == pytest.approx(2, abs=0.1)
    assert measurement.warmup.requests == pytest.approx(100, rel=0.3)


def test_the_cold_start_is_told_apart():
    measurement, _ = run(ClosedLoop(1), Method(duration_s=2, warmup_s=1), lambda second: 0.5 if second == 0 else 0.01)
    assert measurement.warmup.cold_start_ms == pytest.approx(500)
    assert measurement.measured().latency_ms().max() == pytest.approx(10)


@pytest.mark.parametrize("load", [ClosedLoop(3), OpenLoop(300)])
def test_a_number_of_requests_is_met_exactly(load):
    measurement, _ = run(load, Method(duration_s=30, requests=500, warmup_s=1))
    assert len(measurement.measured()) == 500


def test_a_queue_that_grows_without_end_cuts_the_run_short():
    measurement, _ = run(
        OpenLoop(500), Method(duration_s=30, warmup_s=1), lambda second: 0.01 + max(second - 1, 0) * 0.8
    )
    assert measurement.saturated
    assert measurement.window_s < 15


def test_ticks_tell_rate_latency_and_phase():
    _, ticks = run(OpenLoop(200, "constant"), Method(duration_s=3, warmup_s=2))
    measuring = [tick for tick in ticks if tick.phase == "measuring"]
    assert [(tick.elapsed_s, tick.total_s) for tick in measuring] == [(1, 3), (2, 3), (3, 3)]
    assert measuring[1].rate == pytest.approx(200)
    assert measuring[1].p50_ms == pytest.approx(10)
    assert measuring[1].in_flight in {2, 3}


def test_an_open_loop_needs_a_time_and_a_rate():
    with pytest.raises(ValueError, match="give --duration"):
        make_offer(OpenLoop(10), TRAFFIC, None)
    with pytest.raises(ValueError, match="lower --rate"):
        make_offer(OpenLoop(1e8), TRAFFIC, 100)
