"""Workers of a load test over real sockets; what they measure is made up."""

import threading

import numpy as np
import pytest

from poise.bench.cluster.coordinator import Cluster
from poise.bench.cluster.wire import Job, read_job
from poise.bench.cluster.worker import Worker
from poise.bench.load import ClosedLoop, OpenLoop
from poise.bench.measurement import GeneratorUse, Measurement, WarmUp
from poise.bench.session import Method
from poise.bench.tick import Tick
from poise.bench.traffic import Traffic, WireRequest
from poise.cli.bench_token import make_worker
from support.fake_engine import S, make_samples

TRAFFIC = Traffic("grpc://h:1", (WireRequest("/a/B", b"\x00\xff", (("k", "v"),), rows=3),), (2.0,), model="m")
TICK = Tick("measuring", 1, 10, 5.0, 1.0, None, 0, 3)
TOKEN = "a token of some length"


def measure(job, on_tick):
    """Latencies of 10 ms and, for every hundredth request, of as many seconds as the load has requests per second."""
    on_tick(TICK)
    start = 2 * S + job.load.seed * 1_000
    scheduled = start + np.arange(1_000) * (S // 100)
    latency = np.full(1_000, S // 100)
    latency[::100] = int(job.load.rate * S)
    samples = make_samples(scheduled, scheduled + latency, sent=np.where(np.arange(1_000) % 7, scheduled, -1))
    use = GeneratorUse(1, 2, 0.1 * job.load.rate, 0.5)
    return Measurement(job.load, job.traffic, samples, start, start + 10 * S, 10, WarmUp(2, 5, True, 1.0), use)


@pytest.fixture
def start():
    """Starts workers and gives their addresses."""
    started = []

    def start_one(measure_it=measure, token=TOKEN):
        worker = Worker(("127.0.0.1", 0), token, measure_it)
        threading.Thread(target=worker.serve_forever, daemon=True).start()
        started.append(worker)
        return f"127.0.0.1:{worker.server_address[1]}"

    yield start_one
    for worker in started:
        worker.shutdown()
        worker.server_close()


def run(addresses, token=TOKEN, load=OpenLoop(3.0, seed=5), method=Method(duration_s=10)):  # noqa: B008
    ticks = []
    return Cluster(tuple(addresses), token).measure(TRAFFIC, load, method, ticks.append), ticks


def test_samples_of_all_workers_are_put_together(start):
    measurement, ticks = run([start(), start(), start()])
    measured = measurement.measured()
    assert (len(measured), ticks) == (3_000, [TICK] * 3)
    assert measurement.window_s == 10
    # Each has a third of the load, so every hundredth latency is one second: the percentile is that of all.
    assert np.quantile(measured.latency_ms(), 0.995, method="inverted_cdf") == 1_000
    assert np.count_nonzero(measured.sent < 0) == 3 * 143
    assert measurement.generator == GeneratorUse(3, 6, pytest.approx(0.1), 0.5)
    assert measurement.warmup.requests == 15


def test_a_job_comes_over_as_it_was():
    for load in (OpenLoop(5.0, "gamma:cv=2", 9), ClosedLoop(4)):
        job = Job(TRAFFIC, load, Method(duration_s=3, requests=7))
        assert read_job(job.to_json()) == job


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"schema": 99}', b'{"schema": 1, "traffic": {}}', b"\xff"])
def test_what_is_no_job_is_refused(text):
    with pytest.raises(ValueError):
        read_job(text)


def test_a_wrong_token_is_refused(start):
    with pytest.raises(ConnectionError, match="--worker-token-file"):
        run([start()], token="another")


def test_a_busy_worker_says_so(start):
    begun, go_on = threading.Event(), threading.Event()

    def slow(job, on_tick):
        begun.set()
        go_on.wait(30)
        return measure(job, on_tick)

    address = start(slow)
    first = threading.Thread(target=run, args=([address],))
    first.start()
    assert begun.wait(30)
    with pytest.raises(ConnectionError, match="one job at a time"):
        run([address])
    go_on.set()
    first.join()


def test_what_a_worker_cannot_do_is_told_with_its_address(start):
    def fail(_job, _on_tick):
        raise ConnectionError("cannot connect to h:1")

    address = start(fail)
    with pytest.raises(ConnectionError, match=f"{address}: cannot connect to h:1"):
        run([address])


def test_a_worker_that_is_not_there_is_told():
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1"):
        run(["127.0.0.1:1"])


def test_there_must_be_enough_for_all(start):
    with pytest.raises(ValueError, match="as many clients"):
        run([start(), start()], load=ClosedLoop(1))


def test_beyond_loopback_a_token_is_wanted():
    with pytest.raises(ValueError, match="give --token-file"):
        make_worker("0.0.0.0:0", "")
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        make_worker("nowhere", "")
    make_worker("127.0.0.1:0", "").server_close()
